/* Writes a USDT note by hand, so that a test decides every word of it.
 *
 * For top-level asm only. A probe is a 1-byte nop and its note; the text of the arguments goes into
 * the note as it stands. NOTE describes the nop at the last label 70. */
#pragma once

#define NOTE(provider, name, base, semaphore, arguments)                     \
    ".pushsection .note.stapsdt, \"\", @note\n"                              \
    ".balign 4\n"                                                            \
    ".4byte 72f - 71f, 74f - 73f, 3\n"                                       \
    "71: .asciz \"stapsdt\"\n"                                               \
    "72: .balign 4\n"                                                        \
    "73: .8byte 70b, " base ", " semaphore "\n"                              \
    ".asciz \"" provider "\"\n"                                              \
    ".asciz \"" name "\"\n"                                                  \
    ".asciz \"" arguments "\"\n"                                             \
    "74: .balign 4\n"                                                        \
    ".popsection\n"

/* The section that notes give their addresses relative to. */
#define BASE                                                                 \
    ".ifndef _.stapsdt.base\n"                                               \
    ".pushsection .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat\n" \
    ".weak _.stapsdt.base\n"                                                 \
    ".hidden _.stapsdt.base\n"                                               \
    "_.stapsdt.base: .space 1\n"                                             \
    ".popsection\n"                                                          \
    ".endif\n"

#define PROBE(name, arguments) GUARDED(name, "0", arguments)

#define GUARDED(name, semaphore, arguments)                                  \
    "70: nop\n" NOTE("shop", name, "_.stapsdt.base", semaphore, arguments) BASE

#define FUNCTION(name) ".text\n.globl " name "\n.type " name ", @function\n" name ":\n"
