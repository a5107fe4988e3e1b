// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Probes at events: fields of a tracepoint's record, and what they lead to. A fetch program finds the address
 * of the record where other programs have a register.
 *
 * Programs of this kind share the kernel's guard: on one CPU only one runs at a time, and an event that comes
 * in the middle is dropped and counted by the kernel.
 */
#include "shared.bpf.h"
#include "kernel_memory.bpf.h"

#define is_hit_wanted is_place_wanted
#define IN_KERNEL
#define OF_EVENTS
#include "probe.bpf.h"

static __always_inline int gather_record(struct scratch *scratch, void *ctx)
{
	scratch->registers[ABI_RECORD_WORD] = (__u64)ctx;
	return 0;
}

SEC("tp")
int event(void *ctx)
{
	return hit_with(ctx, bpf_get_attach_cookie(ctx), gather_record);
}
