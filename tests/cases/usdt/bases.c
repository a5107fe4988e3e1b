/* Notes that say where .stapsdt.base is, and notes that say 0 although it is there. */
#include "note.h"

unsigned short switch_a __attribute__((section(".probes"))) = 0;
unsigned short switch_b __attribute__((section(".probes"))) = 0;

asm(FUNCTION("visit")
    GUARDED("with_base", "switch_a", "4@$1")
    "70: nop\n" NOTE("shop", "zero_base", "0", "0", "4@$2")
    "70: nop\n" NOTE("shop", "zero_base_guarded", "0", "switch_b", "4@$3")
    "movzwl switch_a(%rip), %eax\n"
    "movzwl switch_b(%rip), %edx\n"
    PROBE("switches", "2@%ax 2@%dx")
    "ret\n");
void visit(void);

int main(void)
{
    visit();
    return 0;
}
