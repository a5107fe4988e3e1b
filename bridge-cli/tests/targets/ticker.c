/* ticker COUNT MICROSECONDS: waits for SIGUSR1, then hits demo:tick(i, -i) COUNT times and
 * demo:guarded(i) whenever its semaphore is up. MICROSECONDS below 0 do not pause at all.
 * Prints "READY pid" first and "HITS ticks guarded semaphore" last; ends with status 3. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "ready.h"
#include "usdt.h"

USDT_SEMAPHORE(demo, guarded) = 0;

__attribute__((noinline)) static void tick(long i) { USDT2(demo, tick, i, -i); }
__attribute__((noinline)) static void guarded(long i) { USDT1_GUARDED(demo, guarded, i); }

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 10, pause = argc > 2 ? atol(argv[2]) : 1000;
    int waits = argc <= 3;
    long guarded_hits = 0;
    say_ready();
    if (waits)
        await_go();
    for (long i = 1; i <= count; i++) {
        tick(i);
        if (USDT_ENABLED(demo, guarded)) {
            guarded(i);
            guarded_hits++;
        }
        if (pause >= 0)
            usleep(pause);
    }
    printf("HITS %ld %ld %d\n", count, guarded_hits, (int)demo_guarded_semaphore);
    fflush(stdout);
    return 3;
}
