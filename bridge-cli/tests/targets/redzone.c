/* redzone COUNT: waits for SIGUSR1, then calls COUNT times each of three leaf functions that keep a value
 * below the stack pointer across a probe: demo:long_nop (a 5-byte nop), demo:two_nops (a nop and a 5-byte
 * nop behind it) and demo:short_nop. Prints how often each function returned another value. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "ready.h"
#include "usdt.h"

#define KEPT 0x1122334455667788
#define NOP5 ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
#define LEAF(name, site)                                                      \
    __asm__(".text\n.globl leaf_" #name "\n.type leaf_" #name ",@function\n"  \
            "leaf_" #name ": movabsq $0x1122334455667788, %rax\n"             \
            "movq %rax, -8(%rsp)\n990: " site                                 \
            USDT_NOTE_OF_990(demo, name, "0", "8@-8(%rsp)")                   \
            "movq -8(%rsp), %rax\nret\n.size leaf_" #name ", .-leaf_" #name "\n"); \
    unsigned long leaf_##name(void)

LEAF(long_nop, NOP5);
LEAF(two_nops, "nop\n" NOP5);
LEAF(short_nop, "nop\n");

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 10;
    long bad[3] = {0, 0, 0};
    say_ready();
    await_go();
    for (long i = 0; i < count; i++) {
        bad[0] += leaf_long_nop() != KEPT;
        bad[1] += leaf_two_nops() != KEPT;
        bad[2] += leaf_short_nop() != KEPT;
    }
    printf("BAD %ld %ld %ld\n", bad[0], bad[1], bad[2]);
    return 0;
}
