/* loader LIBRARY [MS]: waits for SIGUSR1, then twice loads the library, waits until its semaphore is up,
 * at most so long (30 s), calls it three times and unloads it. Prints how many calls found the
 * semaphore up. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "ready.h"
#include "usdt.h"

int main(int argc, char **argv)
{
    int up = 0;
    if (argc < 2)
        return 2;
    int limit = argc > 2 ? atoi(argv[2]) : 30000;
    say_ready();
    await_go();
    USDT1(demo, start, 0);
    for (int round = 0; round < 2; round++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library) {
            puts(dlerror());
            return 1;
        }
        int (*run)(long) = (int (*)(long))dlsym(library, "plug_run");
        int (*is_up)(void) = (int (*)(void))dlsym(library, "plug_is_up");
        for (int waited = 0; waited < limit && !is_up(); waited += 10)
            usleep(10000);
        /* The kernel raises a semaphore before it sets the breakpoint. */
        usleep(200000);
        for (long i = 1; i <= 3; i++)
            up += run(i);
        dlclose(library);
    }
    printf("UP %d\n", up);
    return 0;
}
