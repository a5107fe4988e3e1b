/* Constants: the declared width and sign say which number the digits are. */
#include "note.h"

asm(FUNCTION("visit")
    PROBE("small", "-1@$-9 1@$255 1@$-56 1@$300 -2@$-32768 2@$65535")
    PROBE("word", "-4@$-1 4@$4294967295 4@$-1")
    PROBE("wide", "8@$18446744073709551615 8@$-1 8@$9223372036854775808 -8@$-9223372036854775808")
    PROBE("radix", "4@$0x10 -1@$0xf7 4@$010")
    "ret\n");
void visit(void);

int main(void)
{
    visit();
    return 0;
}
