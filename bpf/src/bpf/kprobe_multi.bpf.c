// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Entries and returns of kernel functions through fprobe: one link for as many as are wanted. Of the
 * registers only those of arguments and of what is returned can be believed (7.2 hands out no others).
 */
#include "shared.bpf.h"
#include "kernel_memory.bpf.h"

#define is_hit_wanted is_kernel_wanted
#define IN_KERNEL
#include "probe.bpf.h"
#include "function.bpf.h"

static __always_inline int gather_entry(struct scratch *scratch, void *ctx)
{
	copy_registers(scratch, ctx);
	scratch->function = bpf_get_func_ip(ctx);
	return enter_function(scratch);
}

static __always_inline int gather_return(struct scratch *scratch, void *ctx)
{
	copy_registers(scratch, ctx);
	scratch->function = bpf_get_func_ip(ctx);
	return 0;
}

SEC("kprobe.multi")
int functions_entry(void *ctx)
{
	return hit_with(ctx, bpf_get_attach_cookie(ctx), gather_entry);
}

SEC("kprobe.multi")
int functions_return(void *ctx)
{
	return hit_with(ctx, bpf_get_attach_cookie(ctx), gather_return);
}
