/* loader LIBRARY: waits for SIGUSR1, then twice loads the library, waits 700 ms, calls it three times
 * and unloads it. Prints how many calls found the semaphore up. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include "ready.h"
#include "usdt.h"

int main(int argc, char **argv)
{
    int up = 0;
    if (argc < 2)
        return 2;
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
        usleep(700000);
        for (long i = 1; i <= 3; i++)
            up += run(i);
        dlclose(library);
    }
    printf("UP %d\n", up);
    return 0;
}
