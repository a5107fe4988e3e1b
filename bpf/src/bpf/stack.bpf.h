/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The stack of a hit: addresses that the kernel finds by following frames, and the registers and the
 * upper end of the user's stack, by which the bridge finds what no frame pointer leads to.
 *
 * It is taken before room is reserved, into memory that nobody else writes meanwhile, and stands behind
 * the record in the ring. Where a session takes none, `stacks.room` is 0 and the verifier drops all this.
 */
#ifndef TRACEBRAID_STACK_BPF_H
#define TRACEBRAID_STACK_BPF_H

const volatile struct stacks stacks SEC(".rodata.stacks");

/*
 * Of each CPU its slots. It is no per-CPU map, whose values end at 32 KiB. Probes have slots of their own.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_record);
} stack_slots SEC(".maps");

static __always_inline struct stack_record *stack_slot_here(enum abi_slot slot)
{
	__u32 index = ABI_SLOTS * bpf_get_smp_processor_id() + slot;

	return bpf_map_lookup_elem(&stack_slots, &index);
}

#define PAGE 4096

/* What is there of the user's stack, page by page: it may end anywhere. */
static __noinline int take_memory(struct stack_record *stack, __u32 used)
{
	__u32 taken = 0;
	__u64 address;

	if (!stack || !stacks.memory)
		return 0;
	address = stack->stack_pointer;
	for (int i = 0; i < ABI_STACK_MEMORY / PAGE + 2; i++) {
		__u32 piece = PAGE - (address & (PAGE - 1));

		if (used > stacks.kernel_frames + stacks.user_frames || taken >= stacks.memory)
			break;
		if (piece > stacks.memory - taken)
			piece = stacks.memory - taken;
		/* The slot has room for one piece more than is asked for. */
		if (piece > PAGE || piece > stacks.memory)
			break;
		if (bpf_probe_read_user((char *)(stack + 1) + used + taken, piece, (void *)address))
			break;
		taken += piece;
		address += piece;
	}
	stack->memory = taken;
	return taken;
}

/* The registers with which user code goes on. */
static __always_inline void take_registers(struct stack_record *stack, const __u64 *registers)
{
	const char *from = (const char *)registers;

	bpf_probe_read_kernel(&stack->instruction_pointer, 8, from + 8 * stacks.instruction_pointer);
	bpf_probe_read_kernel(&stack->stack_pointer, 8, from + 8 * stacks.stack_pointer);
	bpf_probe_read_kernel(&stack->frame_pointer, 8, from + 8 * stacks.frame_pointer);
}

/* Puts the addresses behind the head; how many bytes they take. */
static __always_inline __u32 take_frames(void *ctx, struct stack_record *stack)
{
	long bytes = 0;
	__u32 used = 0;

	if (stacks.kernel_frames)
		bytes = bpf_get_stack(ctx, stack + 1, stacks.kernel_frames, 0);
	stack->kernel = bytes;
	if (bytes > 0 && bytes <= stacks.kernel_frames)
		used = bytes;
	bytes = 0;
	if (stacks.user_frames)
		bytes = bpf_get_stack(ctx, (char *)(stack + 1) + used, stacks.user_frames,
				      BPF_F_USER_STACK);
	stack->user = bytes;
	if (bytes > 0 && bytes <= stacks.user_frames)
		used += bytes;
	return used;
}

/* The stack at a tracepoint, in the slot of the CPU; bytes of it. */
static __noinline __u32 take_stack_here(void *ctx, enum abi_slot slot)
{
	struct stack_record *stack = stack_slot_here(slot);
	unsigned long flags;
	__u32 used;

	if (!stack)
		return 0;
	/* The kernel gathers the addresses in memory of the CPU, where others that come in would gather theirs. */
	keep_others_away(flags);
	used = take_frames(ctx, stack);
	let_others_in(flags);
	if (stacks.memory) {
		take_registers(stack, (const __u64 *)bpf_task_pt_regs(bpf_get_current_task_btf()));
		used += take_memory(stack, used);
	}
	stack->bytes = sizeof(*stack) + used;
	return stack->bytes;
}

#endif
