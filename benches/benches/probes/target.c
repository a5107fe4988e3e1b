/* The program whose functions are probed. For each line that it reads it does something and prints how long that
 * took, in nanoseconds:
 *
 *   bounce MS     a byte goes to a child and back for so long: prints nanoseconds a round trip
 *   call N        calls probed() so often
 *   rename N      gives the thread a name so often, which hits the tracepoint task:task_rename; one in 500 is
 *                 another name
 *   offsets       prints where probed() begins in the file, then functions that are never called, then an empty line
 *
 * It stays on one CPU, its child too, so that each bounce is two switches. */
#define _GNU_SOURCE
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define BODY(name) __attribute__((noinline, used)) void name(void) { __asm__ volatile("# " #name); }
#define TEN(name) BODY(name##0) BODY(name##1) BODY(name##2) BODY(name##3) BODY(name##4) \
    BODY(name##5) BODY(name##6) BODY(name##7) BODY(name##8) BODY(name##9)
#define HUNDRED(name) TEN(name##0) TEN(name##1) TEN(name##2) TEN(name##3) TEN(name##4) \
    TEN(name##5) TEN(name##6) TEN(name##7) TEN(name##8) TEN(name##9)
HUNDRED(idle_)
#define THOUSAND(name) HUNDRED(name##0) HUNDRED(name##1) HUNDRED(name##2) HUNDRED(name##3) HUNDRED(name##4) \
    HUNDRED(name##5) HUNDRED(name##6) HUNDRED(name##7) HUNDRED(name##8) HUNDRED(name##9)
THOUSAND(many_a) THOUSAND(many_b)

#define NAME(name) (void *)name,
#define TEN_NAMES(name) NAME(name##0) NAME(name##1) NAME(name##2) NAME(name##3) NAME(name##4) \
    NAME(name##5) NAME(name##6) NAME(name##7) NAME(name##8) NAME(name##9)
static void *const idle[] = {
    TEN_NAMES(idle_0) TEN_NAMES(idle_1) TEN_NAMES(idle_2) TEN_NAMES(idle_3) TEN_NAMES(idle_4)
    TEN_NAMES(idle_5) TEN_NAMES(idle_6) TEN_NAMES(idle_7) TEN_NAMES(idle_8) TEN_NAMES(idle_9)
};

/* It begins with an instruction that the kernel emulates, as functions with a frame do: any other takes a second
 * trap. */
__attribute__((noinline)) void probed(int number, const char *text, long other)
{
    __asm__ volatile("nop" : : "r"(number), "r"(text), "r"(other) : "memory");
}

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int offset_of(struct dl_phdr_info *info, size_t size, void *address)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        size_t at = (size_t)address - info->dlpi_addr - part->p_vaddr;

        if (part->p_type == PT_LOAD && at < part->p_memsz) {
            printf("%zu\n", at + part->p_offset);
            return 1;
        }
    }
    return 0;
}

static long bounce(int to, int from, long milliseconds)
{
    long begin = now(), end = begin + milliseconds * 1000000, count = 0;
    char byte = 'x';

    while (now() < end) {
        if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
            exit(1);
        count++;
    }
    return (now() - begin) / count;
}

int main(void)
{
    char line[64];
    int there[2], back[2];
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof(one), &one);
    if (pipe(there) || pipe(back))
        return 1;
    if (fork() == 0) {
        char byte;

        close(there[1]);
        close(back[0]);
        prctl(PR_SET_PDEATHSIG, 9);
        while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
            ;
        return 0;
    }
    printf("READY %d\n", getpid());
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        long number = 0, begin = now();
        char *space = strchr(line, ' ');

        if (space)
            number = atol(space + 1);
        switch (line[0]) {
        case 'b':
            printf("%ld\n", bounce(there[1], back[0], number));
            break;
        case 'c':
            for (long i = 0; i < number; i++)
                probed((int)i, "some text", i * 3);
            printf("%ld\n", now() - begin);
            break;
        case 'r':
            for (long i = 0; i < number; i++)
                prctl(PR_SET_NAME, i % 500 == 250 ? "other name" : "some name");
            printf("%ld\n", now() - begin);
            break;
        case 'o':
            dl_iterate_phdr(offset_of, (void *)probed);
            for (size_t i = 0; i < sizeof(idle) / sizeof(*idle); i++)
                dl_iterate_phdr(offset_of, idle[i]);
            printf("\n");
        }
        fflush(stdout);
    }
    return 0;
}
