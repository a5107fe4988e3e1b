/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Entries and returns of kernel functions without pt_regs of their own: what is known of a call is put where
 * a kprobe would have found it, so that one fetch program means the same whichever way it is reached.
 */
#ifndef TRACEBRAID_FUNCTION_BPF_H
#define TRACEBRAID_FUNCTION_BPF_H

/* Words of pt_regs: arguments in registers, what is returned, and the instruction pointer. */
#if defined(__TARGET_ARCH_x86)
#define WORD_ARGUMENT_0 14
#define WORD_ARGUMENT_1 13
#define WORD_ARGUMENT_2 12
#define WORD_ARGUMENT_3 11
#define WORD_ARGUMENT_4 9
#define WORD_ARGUMENT_5 8
#define WORD_RETURNED 10
#define WORD_POINTER 16
#else
#define WORD_ARGUMENT_0 0
#define WORD_ARGUMENT_1 1
#define WORD_ARGUMENT_2 2
#define WORD_ARGUMENT_3 3
#define WORD_ARGUMENT_4 4
#define WORD_ARGUMENT_5 5
#define WORD_RETURNED 8
#define WORD_POINTER 32
#endif

/* `endbr64`, and what the kernel writes over those that nothing jumps to (before 6.15, and since). */
#define ENDBR 0xfa1e0ff3
#define SEALED 0x001f0f66
#define SEALED_UD 0xd6401f0f

/*
 * The kernel shows an entry where ftrace's call stands: behind the endbr, if there is one. The pointer is
 * one byte further, as behind the breakpoint of a kprobe.
 */
static __noinline int enter_function(struct scratch *scratch)
{
	__u64 at = scratch->function;

	scratch->kept = 0;
	bpf_probe_read_kernel(&scratch->kept, 4, (void *)at);
	if (scratch->kept == ENDBR || scratch->kept == SEALED || scratch->kept == SEALED_UD)
		at += 4;
	scratch->registers[WORD_POINTER] = at + 1;
	return 0;
}

#endif
