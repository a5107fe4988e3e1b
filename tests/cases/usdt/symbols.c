/* Arguments that only the symbol table can place. symbols_twin.c has another `twin`. */
#include "note.h"

int stock[4] = {10, -20, 30, 40};
static volatile signed char twin = -5;

asm(FUNCTION("visit")
    PROBE("by_rip", "-4@stock+4(%rip)")
    PROBE("by_address", "-4@stock+8")
    PROBE("address_of", "8@$stock 8@$stock+12")
    PROBE("unknown", "8@$.LC0 4@nowhere(%rip) -4@$7")
    "jmp 1f\n"
    ".balign 16\n"
    ".long 0x7777, 0x8888\n"
    "1:\n"
    PROBE("by_number", "4@-8(%rip)")
    PROBE("ambiguous", "-1@twin(%rip) 4@$8")
    "ret\n");
void visit(void);
signed char other_twin(void);

int main(void)
{
    visit();
    return twin + other_twin() != -104;
}
