/* Floating point: readable in memory and in general registers, out of reach in vector registers. */
#include "note.h"

asm(FUNCTION("visit") /* xmm0 = 3.25, xmm1 = -0.5f */
    "sub $24, %rsp\n"
    "movsd %xmm0, (%rsp)\n"
    "movss %xmm1, 8(%rsp)\n"
    "movq %xmm0, %rdx\n"
    "movd %xmm1, %eax\n"
    PROBE("vector", "8f@%xmm0 4f@%xmm1 8@%xmm0 -4@$77")
    PROBE("memory", "8f@(%rsp) 4f@8(%rsp) -4@$78")
    PROBE("general", "8f@%rdx 4f@%eax")
    "add $24, %rsp\n"
    "ret\n");
void visit(double whole, float half);

int main(void)
{
    visit(3.25, -0.5f);
    return 0;
}
