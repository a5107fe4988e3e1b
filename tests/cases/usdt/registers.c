/* Parts of registers, at the width and sign that the note declares. */
#include "note.h"

asm(FUNCTION("visit")
    "push %rbx\n"
    "movabs $0x8877665544338211, %rax\n"
    "mov %rax, %rbx\n"
    "mov %rax, %r10\n"
    PROBE("wide", "8@%rax -8@%r10 4@%eax -4@%r10d")
    PROBE("narrow", "2@%ax -2@%r10w 1@%al -1@%bl 1@%ah -1@%bh 1@%r10b")
    PROBE("widened", "8@%ax -8@%r10w 4@%bl")
    "pop %rbx\n"
    "ret\n");
void visit(void);

int main(void)
{
    visit();
    return 0;
}
