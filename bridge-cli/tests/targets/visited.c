/* visited FILE: calls functions of its own with arguments of every kind, and the kernel with texts, structures and
 * numbers: opens FILE and reads five bytes of it, opens a file that there is not, writes, asks for its parent with
 * arguments that the system call does not have, and takes another name. All that is told is in memory before, and
 * does not change. Ends with status 3. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone, used))

struct link {
    const struct link *next; /* 0 */
    const char *text;        /* 8 */
    long long negative;      /* 16 */
    unsigned char bytes[8];  /* 24 */
    unsigned bits;           /* 32 */
    short few;               /* 36 */
    char letter;             /* 38 */
    const char *texts[4];    /* 40 */
    const void *absent;      /* 72 */
    const void *code;        /* 80 */
};

static const struct link last = {NULL, "the last", -3, {9, 8, 7, 6, 5, 4, 3, 2}, 0x0badcafe, -2, 'z',
                 {"x", "y", "z", NULL}, (void *)8, &last};
static const struct link second = {&last, "\377 \001 \303\251 \"q\\", -2, {1}, 7, 5, '\\', {"", "e", NULL, "f"},
                   (void *)-8, &second};
static const struct link first = {&second, "the first", -9000000000ll, {1, 2, 3, 250, 251, 252, 253, 254}, 0xA5C3F00D,
                  -1234, '\'', {"one", "two", "three", NULL}, NULL, &first};

APART long told(int small, long large, const char *text, short few, unsigned char byte, const struct link *link)
{
    long all = small;
    for (int i = 0; i < 3; i++) {
        asm volatile("" : "+r"(all));
        all += large + few + byte + text[i] + link->few;
    }
    return all;
}

APART const char *chosen(const struct link *link, const char *const *texts, long number)
{
    asm volatile("" ::: "memory");
    return number < 0 ? link->text : texts[number & 3];
}

APART long many(long a, long b, long c, long d, long e, long f, const char *seventh, long eighth)
{
    asm volatile("" ::: "memory");
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + seventh[0] + eighth;
}

APART const struct link *behind(const struct link *link)
{
    asm volatile("" ::: "memory");
    return link->next;
}

int main(int argc, char **argv)
{
    static const volatile char missing[] = "/no/such/file", greeting[] = "hello, kernel";
    static char bytes[64] = "before it is read";
    long sum = 0;

    for (const struct link *link = &first; link; link = link->next)
        sum += strlen(link->text) + link->bits;
    for (int i = 0; i < 2; i++) {
        sum += told(-7 - i, 0x100000002L, "some text", -300, 200, &first);
        sum += chosen(&first, first.texts, -1)[0];
        sum += chosen(&second, first.texts, i)[0];
        sum += many(1, -2, 3, -4, 5, -6, "the seventh", 0x1122334455667788L);
        sum += behind(behind(&first))->few;
    }
    int file = open(argc > 1 ? argv[1] : "/dev/null", O_RDONLY);
    int null = open("/dev/null", O_WRONLY);
    if (read(file, bytes, 5) != 5)
        return 4;
    if (missing[0] == '/')
        open((const char *)missing, O_RDONLY);
    if (write(null, "written", 7) != 7)
        return 5;
    if (greeting[0] == 'h')
        syscall(SYS_getppid, 0xff82, -5L, 0x123456789abcdef0L, greeting, 77, 0);
    prctl(PR_SET_NAME, "renamed");
    syscall(SYS_getppid, -1L, &first, 0L, "", 78, 0);
    fprintf(stderr, "VISITED %d\n", sum != 0);
    return 3;
}
