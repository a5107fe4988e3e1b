/* Every way to say where in memory an argument is. cells[i] is 255 - i. */
#include "note.h"

unsigned char cells[64] __attribute__((aligned(64)));

asm(FUNCTION("visit") /* rdi = cells, rsi = 5 */
    "push %rbp\n"
    "mov %rsp, %rbp\n"
    "sub $64, %rsp\n"
    "movq $0x1234, (%rsp)\n"
    "movl $-9, 8(%rsp)\n"
    PROBE("bare", "8@(%rsp) -4@8(%rsp) 4@8(%rsp)")
    "movb $0x61, -16(%rbp)\n"
    "mov $2, %eax\n"
    PROBE("frame", "1@-32(%rbp,%rax,8)")
    PROBE("no_scale", "1@(%rdi,%rsi) -1@(%rdi,%rsi)")
    PROBE("displaced", "1@6(%rdi,%rsi) 1@6(%rdi,%rsi,1)")
    PROBE("scaled", "4@(%rdi,%rsi,4) -4@(%rdi,%rsi,4) 2@-2(%rdi,%rsi,2) -8@8(%rdi,%rsi,8)")
    "mov %rdi, %rdx\n"
    "shr $3, %rdx\n" /* cells is 64-aligned, so that rdx * 8 is cells */
    PROBE("no_base", "1@7(,%rdx,8)")
    "leave\n"
    "ret\n");
void visit(unsigned char *cells, long index);

int main(void)
{
    for (int i = 0; i < 64; i++)
        cells[i] = 255 - i;
    visit(cells, 5);
    return 0;
}
