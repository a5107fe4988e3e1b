/* calls COUNT: waits for SIGUSR1, then COUNT times demo:before(i), write, getppid, write, demo:after(i). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "ready.h"
#include "usdt.h"

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 10;
    int null = open("/dev/null", O_WRONLY);
    say_ready();
    await_go();
    for (long i = 1; i <= count; i++) {
        USDT1(demo, before, i);
        if (write(null, "x", 1) != 1)
            return 1;
        syscall(SYS_getppid);
        if (write(null, "y", 1) != 1)
            return 1;
        USDT1(demo, after, i);
    }
    return 0;
}
