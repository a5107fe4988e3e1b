/* shared_cpu COUNT: two threads on one CPU, of which one calls getppid COUNT times in `parents` and the other getuid
 * in `users`, so that each preempts the other. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone, used))

static long count;

/* Here and not in a function of the library's, which has no frame. */
static inline long call(long number)
{
#ifdef __x86_64__
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number);
#endif
}

APART void *parents(void *unused)
{
    for (long i = 0; i < count; i++)
        call(SYS_getppid);
    return unused;
}

APART void *users(void *unused)
{
    for (long i = 0; i < count; i++)
        call(SYS_getuid);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    cpu_set_t set;

    count = argc > 1 ? atol(argv[1]) : 1;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof set, &set);
    pthread_create(&threads[0], NULL, parents, NULL);
    pthread_create(&threads[1], NULL, users, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
