/* stacks COUNT DEPTH: waits for SIGUSR1 (not with a third argument), then COUNT times main → outer → middle →
 * inner → leaf(i), where leaf hits demo:leaf(i), and deep(DEPTH), which calls itself and then leaf. Built with
 * frame pointers (leaf has no frame all the same) or without. */
#include <stdlib.h>
#include "ready.h"
#include "usdt.h"

#define APART __attribute__((noinline, noclone, used))
/* What stands behind a call keeps it from being a jump. */
#define KEEP(value) asm volatile("" : "+r"(value))

APART long leaf(long value)
{
    USDT1(demo, leaf, value);
    return value + 1;
}

APART long inner(long value)
{
    long result = leaf(value);
    KEEP(result);
    return result + 1;
}

APART long middle(long value)
{
    long result = inner(value);
    KEEP(result);
    return result + 1;
}

APART long outer(long value)
{
    long result = middle(value);
    KEEP(result);
    return result + 1;
}

APART long deep(long depth)
{
    long result = depth > 0 ? deep(depth - 1) : leaf(-1);
    KEEP(result);
    return result + 1;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1, depth = argc > 2 ? atol(argv[2]) : 0;
    long sum = 0;
    if (argc <= 3) {
        say_ready();
        await_go();
    }
    for (long i = 1; i <= count; i++) {
        sum += outer(i);
        if (depth > 0)
            sum += deep(depth);
    }
    return sum == 0;
}
