// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Entries and returns of kernel functions through BPF trampolines: one copy of a program a function, the
 * cheapest way, and the one that has a call's arguments at its return. It knows arguments and what is
 * returned, and no registers.
 */
#include "shared.bpf.h"
#include "kernel_memory.bpf.h"

#define is_hit_wanted is_kernel_wanted
#define IN_KERNEL
#include "probe.bpf.h"
#include "function.bpf.h"

static __noinline int gather_arguments(struct scratch *scratch, void *ctx)
{
	/* Those that the function does not have are left as they are, and no definition names them. */
	bpf_get_func_arg(ctx, 0, &scratch->registers[WORD_ARGUMENT_0]);
	bpf_get_func_arg(ctx, 1, &scratch->registers[WORD_ARGUMENT_1]);
	bpf_get_func_arg(ctx, 2, &scratch->registers[WORD_ARGUMENT_2]);
	bpf_get_func_arg(ctx, 3, &scratch->registers[WORD_ARGUMENT_3]);
	bpf_get_func_arg(ctx, 4, &scratch->registers[WORD_ARGUMENT_4]);
	bpf_get_func_arg(ctx, 5, &scratch->registers[WORD_ARGUMENT_5]);
	return 0;
}

static __always_inline int gather_entry(struct scratch *scratch, void *ctx)
{
	scratch->function = bpf_get_func_ip(ctx);
	gather_arguments(scratch, ctx);
	return enter_function(scratch);
}

/* Words of the trampoline's frame that are looked at. */
#define FRAME 16

/* The kernel's code is above. */
#define TEXT 0xffffffff80000000ull

/*
 * Behind the arguments the trampoline keeps, upwards: what is returned, the caller's frame pointer, where it
 * goes on in the function if that has called it (since 6.19 it jumps), and where the function goes back to.
 * That is a habit of x86-64's, no promise, so that it is believed only if it is an address of code.
 */
static __noinline int find_caller(struct scratch *scratch, __u64 count)
{
	__u64 *words = scratch->registers;
	__u64 index = count + 2, behind = words[index & (FRAME - 1)];

	if (behind - scratch->function < 16)
		behind = words[++index & (FRAME - 1)];
	scratch->kept = count < FRAME - 3 && behind >= TEXT ? behind : 0;
	scratch->value += index * 8;
	return 0;
}

/* Return probes of others on the same call that are looked at. */
#define RETURN_PROBES 4

/*
 * A return probe of the kernel's own puts itself where the function goes back to, and keeps what stood there:
 * of several the first one, which is the last in the list.
 */
static __noinline int look_behind_return_probes(struct scratch *scratch)
{
	struct llist_node *node = BPF_CORE_READ(bpf_get_current_task_btf(), rethooks.first);

	for (int i = 0; i < RETURN_PROBES && node; i++) {
		struct rethook_node *probe = (void *)node - bpf_core_field_offset(struct rethook_node, llist);

		if (BPF_CORE_READ(probe, frame) != scratch->value)
			break;
		scratch->kept = BPF_CORE_READ(probe, ret_addr);
		node = BPF_CORE_READ(node, next);
	}
	return 0;
}

static __always_inline int gather_return(struct scratch *scratch, void *ctx)
{
	scratch->function = bpf_get_func_ip(ctx);
	scratch->kept = 0;
	/* From there it comes back as a number: a context cannot be reckoned with. */
	scratch->value = (__u64)ctx;
	if (!bpf_probe_read_kernel(scratch->registers, FRAME * 8, ctx))
		find_caller(scratch, bpf_get_func_arg_cnt(ctx));
	if (scratch->kept && bpf_core_field_exists(struct task_struct, rethooks))
		look_behind_return_probes(scratch);
	gather_arguments(scratch, ctx);
	bpf_get_func_ret(ctx, &scratch->registers[WORD_RETURNED]);
	scratch->registers[WORD_POINTER] = scratch->kept;
	return 0;
}

SEC("fentry")
int function_entry(void *ctx)
{
	return hit_with(ctx, bpf_get_attach_cookie(ctx), gather_entry);
}

SEC("fexit")
int function_return(void *ctx)
{
	return hit_with(ctx, bpf_get_attach_cookie(ctx), gather_return);
}
