/* A binary in the layout of tracebraid-wire, as the SDK would leave it: two tracepoints, three sites.
 * VERSION can be set from outside; BODY adds `main`. */
#ifndef VERSION
#define VERSION 1
#endif

    .text
    .globl visit
    .type visit, @function
visit:
first_site:
    .byte 0x0f, 0x1f, 0x84, 0xe9, 0, 0, 0, 0
second_site:
    .byte 0x0f, 0x1f, 0x84, 0xe9, 0, 0, 0, 0
testing_site:
    cmpl $0, paid_semaphore(%rip)
    sub $40, %rsp
    movq $17, (%rsp)
    lea text(%rip), %rax
    mov %rax, 8(%rsp)
    movq $5, 16(%rsp)
    mov %rsp, %rdi
    call paid_stub
    mov %rsp, %rdi
    call wide_stub
    add $40, %rsp
    ret

paid_stub:
    lea paid(%rip), %rax
paid_probe:
    nop
    ret
wide_stub:
    lea wide(%rip), %rax
wide_probe:
    nop
    ret

    .globl _start
_start:
    call visit
    mov $60, %eax
    xor %edi, %edi
    syscall

    .section .rodata
text:
    .ascii "hello"
file:
    .asciz "src/pay\033[31m.rs"

    .section .probes, "aw", @progbits
    .balign 4
paid_semaphore:
    .2byte 0, 0
wide_semaphore:
    .2byte 0, 0

    .macro usdt probe, semaphore, name, arguments
    .pushsection .note.stapsdt, "", @note
    .balign 4
    .4byte 2f - 1f, 4f - 3f, 3
1:  .asciz "stapsdt"
2:  .balign 4
3:  .8byte \probe, 0, \semaphore
    .asciz "till"
    .asciz "\name"
    .asciz "\arguments"
4:  .balign 4
    .popsection
    .endm

    usdt paid_probe, paid_semaphore, paid, "8@0(%rdi) 8@8(%rdi) 8@16(%rdi)"
    usdt wide_probe, wide_semaphore, wide, "1@0(%rdi) 8@8(%rdi)"
    usdt foreign_probe, 0, foreign, "-4@$1"

    .text
foreign_probe:
    nop

    .section tracebraid_schema, "a", @progbits
    .balign 4
paid_schema:
    .4byte 1f - paid_schema
    .2byte 1
    .byte 0, 2
    .byte 4, 15
    .asciz "till"
    .asciz "paid"
    .asciz "order={order}"
    .asciz "order"
    .asciz "who"
1:
    .balign 4
/* Thirteen slots: an optional u64 (2), then eleven more fields of one slot; the last does not fit. */
wide_schema:
    .4byte 1f - wide_schema
    .2byte 1
    .byte 1, 12
    .byte 0x84, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8
    .asciz "till"
    .asciz "wide__return"
    .asciz ""
    .irp name, a, b, c, d, e, f, g, h, i, j, k, l
    .asciz "\name"
    .endr
1:

    .bss
    .balign 8
state:
    .zero 64
control:
    .zero 64

    .section tracebraid_points, "a", @progbits
    .balign 8
points:
paid:
    .4byte paid_schema - ., paid_semaphore - ., paid_stub - ., paid_probe - ., state - ., 3, 0, 0
    .zero 32
wide:
    .4byte wide_schema - ., wide_semaphore - ., wide_stub - ., wide_probe - ., state + 32 - ., 12, 0, 0
points_end:

    .section tracebraid_sites, "a", @progbits
    .balign 8
sites:
    .4byte first_site - ., paid - ., file - ., 12, 0, 0
    .4byte first_site - ., wide - ., file - ., 12, 0, 0
    .4byte second_site - ., paid - ., file - ., 40, 0, 0
    .4byte testing_site - ., paid - ., file - ., 41, 1, 0
sites_end:

    .section .note.tracebraid, "a", @note
    .balign 4
    .4byte 2f - 1f, 4f - 3f, 1
1:  .asciz "tracebraid"
2:  .balign 4
3:  .4byte VERSION
    .4byte sites - ., sites_end - ., points - ., points_end - .
    .4byte control - .
4:  .balign 4

    .section .note.GNU-stack, "", @progbits
