/* probed COUNT [cold]: calls sum, back and name COUNT times with arguments of every size. With "cold" the
 * text that name gets lies in pages of this file that nobody has touched. Ends with status 3, after it has
 * printed what the counter `probed_semaphore` was before, and that everything returned what it should. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone, used))

volatile unsigned short probed_semaphore __attribute__((section(".probes"))) = 0;

struct order {
    int id;
    const char *user;
    unsigned char raw[8];
    unsigned bits;
    const char *tags[4];
    short balance;
};

APART int sum(int a, long b, const char *text, short c, unsigned char d, const struct order *order)
{
    asm volatile("" ::: "memory");
    return a + (int)b + c + d + (int)strlen(text) + order->id;
}

APART long back(long value)
{
    asm volatile("" ::: "memory");
    return value;
}

APART const char *name(const char *text)
{
    asm volatile("" ::: "memory");
    return text;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1, wrong = 0;
    const char *text = "a name";
    struct order order = {42, "ada", {1, 2, 3, 250, 251, 252, 253, 254}, 0xA5C3F00D, {"one", "two", "three", NULL}, -1234};
    if (argc > 2 && !strcmp(argv[2], "cold")) {
        char page[8192];
        FILE *kept = tmpfile();
        int file = kept ? fileno(kept) : -1;
        memset(page, 'x', sizeof(page));
        memcpy(page + 4090, "across", 6);
        memcpy(page + 4096, "pages", 6);
        if (write(file, page, sizeof(page)) != sizeof(page))
            return 1;
        text = (char *)mmap(NULL, sizeof(page), PROT_READ, MAP_PRIVATE, file, 0) + 4090;
    }
    for (long i = 0; i < count; i++) {
        wrong += sum(-7, 0x100000002L, "some text", -300, 200, &order) != -7 + 2 - 300 + 200 + 9 + 42;
        wrong += back(-2 - i) != -2 - i;
        wrong += name(text) != text;
    }
    printf("SEMAPHORE %d WRONG %ld\n", (int)probed_semaphore, wrong);
    return 3;
}
