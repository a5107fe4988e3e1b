/* USDT probes for the test targets: one nop, one note, a semaphore where asked.
 * Arguments are taken as 64-bit signed values from wherever the compiler has them. */
#ifndef TRACEBRAID_TEST_USDT_H
#define TRACEBRAID_TEST_USDT_H

#define USDT_BASE                                                             \
    ".ifndef _.stapsdt.base\n"                                                \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"   \
    ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                          \
    "_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n.popsection\n.endif\n"

/* A site of one nop, and its note. */
#define USDT_NOTE(provider, name, semaphore, arguments)                       \
    "990: nop\n" USDT_NOTE_OF_990(provider, name, semaphore, arguments)

#define USDT_NOTE_OF_990(provider, name, semaphore, arguments)                \
    ".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"                   \
    ".4byte 992f-991f, 994f-993f, 3\n"                                        \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n"                               \
    "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                       \
    ".asciz \"" #provider "\"\n.asciz \"" #name "\"\n"                        \
    ".asciz \"" arguments "\"\n994: .balign 4\n.popsection\n" USDT_BASE

#define USDT1(provider, name, a)                                              \
    __asm__ volatile(USDT_NOTE(provider, name, "0", "-8@%0") ::"r"((long)(a)))
#define USDT2(provider, name, a, b)                                           \
    __asm__ volatile(USDT_NOTE(provider, name, "0", "-8@%0 -8@%1") ::"r"(     \
                         (long)(a)),                                          \
                     "r"((long)(b)))

/* The semaphore of provider:name: the kernel raises it while somebody listens. */
#define USDT_SEMAPHORE(provider, name)                                        \
    __attribute__((section(".probes"), used, visibility("hidden")))           \
    volatile unsigned short provider##_##name##_semaphore
#define USDT_ENABLED(provider, name) (provider##_##name##_semaphore != 0)
#define USDT1_GUARDED(provider, name, a)                                      \
    __asm__ volatile(USDT_NOTE(provider, name,                                \
                               #provider "_" #name "_semaphore", "-8@%0") ::  \
                         "r"((long)(a)))

#endif
