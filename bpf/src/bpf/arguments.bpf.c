// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tracepoints by the arguments that the kernel's code hands to them, whether they have an event or not. There
 * is no cookie on kernels before 6.10, so each has a program of its own that knows its location.
 */
#include "shared.bpf.h"
#include "kernel_memory.bpf.h"

#define is_hit_wanted is_place_wanted
#define IN_KERNEL
#include "probe.bpf.h"

const volatile __u32 location SEC(".rodata.location");

/* The most arguments that a tracepoint can have. */
#define MOST 12
/* They stand behind the words of pt_regs, of which there are none. */
#define WORD_FIRST 21

_Static_assert(WORD_FIRST + MOST <= ABI_REGISTERS, "room for all arguments");

static __always_inline int gather_tracepoint(struct scratch *scratch, void *ctx)
{
	/* It is no secret what stands behind those that there are, and no definition names them. */
	bpf_probe_read_kernel(&scratch->registers[WORD_FIRST], MOST * 8, ctx);
	return 0;
}

SEC("raw_tp")
int tracepoint_arguments(void *ctx)
{
	return hit_with(ctx, location, gather_tracepoint);
}
