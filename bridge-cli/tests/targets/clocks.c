/* clocks COUNT: COUNT times asks for a clock that the vdso hands on to the kernel, and writes nothing. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline, noclone, used)) int ask(void)
{
    struct timespec time;
    int result = clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    asm volatile("" : "+r"(result));
    return result;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1;
    int wrong = 0;
    for (long i = 0; i < count; i++)
        wrong += ask() != 0;
    return wrong != 0;
}
