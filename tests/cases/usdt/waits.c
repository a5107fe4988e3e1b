/* Waits for its end, with a thread beside the first, so that it can be looked at. */
#include <pthread.h>
#include <unistd.h>
#include "note.h"

asm(FUNCTION("visit")
    PROBE("waits", "4@%edi")
    "ret\n");
void visit(int value);

static void *second(void *nothing)
{
    pthread_setname_np(pthread_self(), "a ) second");
    for (;;)
        pause();
    return nothing;
}

int main(void)
{
    pthread_t thread;
    visit(1);
    if (pthread_create(&thread, 0, second, 0))
        return 1;
    usleep(20000);
    if (write(1, "ready\n", 6) != 6)
        return 1;
    for (;;)
        pause();
}
