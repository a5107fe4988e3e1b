/* family COUNT: COUNT times demo:who(role, pid) from the parent (0), a vfork child (1), a child that
 * shares the parent's memory (2) and a thread of the parent (3). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ready.h"
#include "usdt.h"

__attribute__((noinline)) static void who(long role) { USDT2(demo, who, role, syscall(SYS_getpid)); }
static char stack[65536];
static int clone_main(void *unused) { (void)unused; who(2); return 0; }
static void *thread_main(void *unused) { (void)unused; who(3); return NULL; }

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 3;
    say_ready();
    await_go();
    for (long i = 0; i < count; i++) {
        pthread_t thread;
        who(0);
        pid_t child = vfork();
        if (child == 0) {
            who(1);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        child = clone(clone_main, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
        waitpid(child, NULL, 0);
        pthread_create(&thread, NULL, thread_main, NULL);
        pthread_join(thread, NULL);
    }
    return 0;
}
