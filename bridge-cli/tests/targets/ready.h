/* A target says that it is ready, and goes on at SIGUSR1. */
#ifndef TRACEBRAID_TEST_READY_H
#define TRACEBRAID_TEST_READY_H

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static sigset_t go_signal;

static void say_ready(void)
{
    sigemptyset(&go_signal);
    sigaddset(&go_signal, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go_signal, NULL);
    printf("READY %d\n", (int)getpid());
    fflush(stdout);
}

static void await_go(void)
{
    int number;
    sigwait(&go_signal, &number);
}

#endif
