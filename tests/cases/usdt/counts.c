/* No argument, stray blanks, and more arguments than tools usually take. */
#include "note.h"

asm(FUNCTION("visit") /* edi = 4711 */
    PROBE("seventeen", "4@$1 4@$2 4@$3 4@$4 4@$5 4@$6 4@$7 4@$8 4@$9 4@$10 4@$11 4@$12 "
                       "4@$13 4@$14 4@$15 4@$16 4@%edi")
    PROBE("none", "")
    PROBE("blanks", " 4@$1  4@$2 ")
    "ret\n");
void visit(int last);

int main(void)
{
    visit(4711);
    return 0;
}
