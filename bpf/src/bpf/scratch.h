/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The slot in which a probe's program puts together what it knows of a hit. Its places are shared with the
 * bridge, as abi.h is: the code that the bridge makes for filters and fetch programs looks there
 * (`filter_code`, `fetch_code`), and `abi.rs` says where.
 */
#ifndef TRACEBRAID_SCRATCH_H
#define TRACEBRAID_SCRATCH_H

#include "abi.h"

/*
 * A call that has not returned yet: where its return address lies tells it from others, of recursive ones and
 * of other threads, whose stacks are elsewhere in the same memory. What is left of calls that never returned
 * is overwritten by the next one there.
 */
struct call {
	__u64 stack;
	__u32 tgid;
	/* The location of the return probe. */
	__u32 location;
};

/* What is kept of its entry. */
struct kept {
	/* Bit i: word i was read. */
	__u64 valid;
	__u64 words[ABI_KEPT];
};

/* What a user probe gathers before it reserves. Text follows, and behind settings.text_bytes the stack. */
struct scratch {
	__u32 busy;
	__u32 used;
	struct location at;
	/* The stack of this hit has been taken. */
	__u32 has_stack;
	__u64 registers[ABI_REGISTERS];
	/* Of a fetch program: its value, a kept one, the probed function, and whether the two were read. */
	__u64 value;
	__u64 kept;
	__u64 function;
	__u32 failed;
	__u32 kept_failed;
	/* Its outputs from there on are for filters only. */
	__u32 shown;
	__u32 reserved;
	struct walk walk;
	struct call call;
	struct kept entry;
	/* These two are copied as one. */
	struct user_record record;
	__u64 words[ABI_WORDS];
	struct text_head heads[ABI_TEXTS];
	/* Of a fetch program, whose outputs follow: copied as one. */
	struct user_record program;
};

_Static_assert(__builtin_offsetof(struct scratch, words) ==
		       __builtin_offsetof(struct scratch, record) + sizeof(struct user_record),
	       "words behind the record");
_Static_assert(__builtin_offsetof(struct scratch, used) == 4 && __builtin_offsetof(struct scratch, registers) == 32 &&
		       __builtin_offsetof(struct scratch, value) == 32 + 8 * ABI_REGISTERS &&
		       __builtin_offsetof(struct scratch, failed) == 56 + 8 * ABI_REGISTERS,
	       "what the code of fetch programs looks at");
_Static_assert(__builtin_offsetof(struct scratch, program) + sizeof(struct user_record) == sizeof(struct scratch),
	       "outputs behind the record");
_Static_assert(__builtin_offsetof(struct scratch, record) == 128 + 8 * ABI_KEPT + 8 * ABI_REGISTERS, "record in scratch");
_Static_assert(sizeof(struct scratch) == 240 + 8 * ABI_KEPT + 8 * ABI_REGISTERS + 8 * ABI_WORDS + 16 * ABI_TEXTS, "scratch");

#endif
