/* alarms COUNT: a timer interrupts a loop of system calls once a millisecond until COUNT signals have come; each
 * expiry of the timer is one signal. Then a function calls itself 100 times.
 * Prints "ALARMS signals calls" last. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t signals;

static void count(int signal)
{
    (void)signal;
    signals++;
}

__attribute__((noinline)) void called(long number) { __asm__ volatile("" : : "r"(number) : "memory"); }

__attribute__((noinline)) long deep(long depth)
{
    long below = depth > 1 ? deep(depth - 1) : 0;
    __asm__ volatile("" : "+r"(below) : : "memory");
    return below + 1;
}

int main(int argc, char **argv)
{
    long wanted = argc > 1 ? atol(argv[1]) : 100, calls = 0;
    struct itimerval every = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
    struct sigaction action = { .sa_handler = count };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    while (signals < wanted) {
        called(calls);
        getppid();
        calls++;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    deep(100);
    printf("ALARMS %ld %ld\n", (long)signals, calls);
    return 4;
}
