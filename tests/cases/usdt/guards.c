/* Semaphores in .data, in .bss, in read-only data and in no part of the file at all. */
#include "note.h"

unsigned short in_data __attribute__((section(".data"))) = 0;
unsigned short in_bss;
const unsigned short in_rodata = 0;
char filler[40000];
unsigned short in_far_bss;

asm(FUNCTION("visit")
    GUARDED("data", "in_data", "4@$1")
    GUARDED("bss", "in_bss", "4@$2")
    GUARDED("rodata", "in_rodata", "4@$3")
    GUARDED("far_bss", "in_far_bss", "4@$4")
    GUARDED("outside", "0x7fffffff0000", "4@$5")
    "70: nop\n"
    ".pushsection .data\n70: .byte 0\n" NOTE("shop", "in_data", "_.stapsdt.base", "0", "") ".popsection\n"
    "ret\n");
void visit(void);

int main(void)
{
    filler[0] = 1;
    visit();
    return 0;
}
