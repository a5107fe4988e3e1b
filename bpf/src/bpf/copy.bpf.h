/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Copies of what the kernel has at an address, where the verifier knows nothing of it. Few bytes are copied a word
 * after the other: by loads at constant places, with the type of a structure that begins with as many words, for
 * which the kernel asks nothing but that it has the type. Else, and before 6.2, by a call, which takes about 30 ns more.
 */
#ifndef TRACEBRAID_COPY_BPF_H
#define TRACEBRAID_COPY_BPF_H

#include "typed.bpf.h"

#define COPY_WORDS 16

/* Registers are all words, and it has more than 16 of them. */
#ifdef __TARGET_ARCH_x86
#define words_at(from) ((const volatile __u64 *)typed(struct pt_regs, from))
#else
struct user_pt_regs;
#define words_at(from) ((const volatile __u64 *)typed(struct user_pt_regs, from))
#endif

/* `size` bytes, in whole words where there are few of them: both sides have room for 16. */
static __always_inline void copy_bytes(void *to, const void *from, __u32 size)
{
	const volatile __u64 *words;

	if (!is_typed() || size > 8 * COPY_WORDS) {
		/* What the size was held against before is not always the register that it is in. */
		barrier_var(size);
		if (size <= ABI_TRACEPOINT_BYTES)
			bpf_probe_read_kernel(to, size, from);
		return;
	}
	words = words_at(from);
#define copy_word(i)							\
	if (8 * (i) >= size)						\
		return;							\
	((__u64 *)to)[i] = words[i]
	copy_word(0);
	copy_word(1);
	copy_word(2);
	copy_word(3);
	copy_word(4);
	copy_word(5);
	copy_word(6);
	copy_word(7);
	copy_word(8);
	copy_word(9);
	copy_word(10);
	copy_word(11);
	copy_word(12);
	copy_word(13);
	copy_word(14);
	copy_word(15);
#undef copy_word
}

#endif
