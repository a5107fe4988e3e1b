// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Probes in kernel functions, at any instruction and at the return.
 */
#include "shared.bpf.h"
#include "kernel_memory.bpf.h"

#define is_hit_wanted is_kernel_wanted
#define IN_KERNEL
#define OF_CALLS
#include "probe.bpf.h"

SEC("kprobe")
int kernel_function(void *ctx)
{
	return hit(ctx, bpf_get_attach_cookie(ctx));
}
