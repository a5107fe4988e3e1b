/* Only notes that say base 0, in a file without .stapsdt.base: what linkers make of older producers. */
#include "note.h"

unsigned short guard __attribute__((section(".probes"))) = 0;

asm(FUNCTION("visit")
    "mov $5, %edi\n"
    "70: nop\n" NOTE("shop", "baseless", "0", "guard", "-4@%edi")
    "ret\n");
void visit(void);

int main(void)
{
    visit();
    return guard != 1;
}
