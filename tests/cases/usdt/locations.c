/* One name at four places, each with an argument string of its own; and a second name at the last. */
#include "note.h"

static long prices[4] = {100, 200, 300, 400};

asm(FUNCTION("visit") /* rdi = prices, rsi = 2 */
    "mov $11, %eax\n"
    PROBE("sold", "-4@%eax")
    "movl $22, -4(%rsp)\n"
    PROBE("sold", "-4@-4(%rsp)")
    PROBE("sold", "-4@$33")
    PROBE("sold", "-4@(%rdi,%rsi,8)") NOTE("shop", "priced", "_.stapsdt.base", "0", "8@%rsi")
    NOTE("shop", "priced", "_.stapsdt.base", "0", "8@%rsi")
    "ret\n");
void visit(long *prices, long index);

int main(void)
{
    visit(prices, 2);
    return 0;
}
