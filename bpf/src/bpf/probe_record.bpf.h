/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The record of a probe's hit: its stack, the counts of its entry, and the way into the ring. What was fetched
 * stands in the scratch slot as it will in the ring, so that it goes there in as few pieces as there are.
 *
 * The rules of probe.bpf.h on stack hold.
 */
#ifndef TRACEBRAID_PROBE_RECORD_BPF_H
#define TRACEBRAID_PROBE_RECORD_BPF_H

static __always_inline struct stack_record *stack_of(struct scratch *scratch)
{
	return (void *)((char *)(scratch + 1) + settings.text_bytes);
}

#ifdef IN_KERNEL
#define STACKS_MAY_SLEEP false
#else
/*
 * Since 6.12 bpf_get_stack may fault memory in where the program may sleep, and is refused where others are kept
 * away. That kernel is known by a function that came with it.
 */
extern int bpf_copy_from_user_str(void *to, __u32 size, const void *from, __u64 flags) __ksym __weak;
#define STACKS_MAY_SLEEP bpf_ksym_exists(bpf_copy_from_user_str)
#endif

static __noinline int take_frames_alone(void *ctx, struct stack_record *stack)
{
	unsigned long flags;
	__u32 used;

	if (!stack)
		return 0;
	if (STACKS_MAY_SLEEP) {
		used = take_frames(ctx, stack);
	} else {
		/* The kernel gathers the addresses in memory of the CPU, which programs that may sleep share. */
		keep_others_away(flags);
		used = take_frames(ctx, stack);
		let_others_in(flags);
	}
	stack->bytes = sizeof(*stack) + used;
	return used;
}

/* The registers are there: a probe in the kernel has those of the kernel, and looks for the user's. */
static __noinline int take_stack(void *ctx, struct scratch *scratch)
{
	struct stack_record *stack = stack_of(scratch);
	__u32 used = take_frames_alone(ctx, stack);

	if (stacks.memory) {
#ifdef IN_KERNEL
		take_registers(stack, (const __u64 *)bpf_task_pt_regs(bpf_get_current_task_btf()));
#else
		take_registers(stack, scratch->registers);
#endif
		stack->bytes += take_memory(stack, used);
	}
	scratch->has_stack = true;
	return 0;
}

/* Of this hit, once it is known that somebody wants it. */
static __always_inline __u32 stack_bytes(void *ctx, struct scratch *scratch)
{
	if (!stacks.room)
		return 0;
	if (settings.filters && !scratch->has_stack)
		take_stack(ctx, scratch);
	return stack_of(scratch)->bytes;
}

static __noinline int copy_stack(struct bpf_dynptr *room, struct scratch *scratch, __u32 at,
				 __u32 bytes)
{
	if (bytes && bytes <= stacks.room)
		bpf_dynptr_write(room, at, stack_of(scratch), bytes, 0);
	return 0;
}

enum outcome { DELIVERED, RING_FULL, NO_SCRATCH, FILTERED };

static __noinline int count(__u32 entry, enum outcome outcome)
{
	struct counter *counter = counter_of(entry);

	if (!counter)
		return 0;
	__sync_fetch_and_add(&counter->hits, 1);
	if (outcome == NO_SCRATCH)
		__sync_fetch_and_add(&counter->no_scratch, 1);
	else if (outcome == FILTERED)
		__sync_fetch_and_add(&counter->filtered, 1);
	return 0;
}

/* Counts a hit that is to be recorded, while others are kept away. */
static __noinline int count_alone(__u32 entry, enum outcome outcome)
{
	struct counter *counter = counter_of(entry);

	if (!counter)
		return 0;
	add_one_alone(&counter->hits);
	if (outcome == RING_FULL)
		add_one_alone(&counter->ring_full);
	return 0;
}

/* The words stand right behind the record in scratch, as they will in the ring. */
static __always_inline void copy(struct bpf_dynptr *room, struct scratch *scratch, __u32 words,
				 __u32 texts)
{
	__u32 at = sizeof(scratch->record) + words, bytes = scratch->record.text_bytes;

	bpf_dynptr_write(room, 0, &scratch->record, at, 0);
	if (texts)
		bpf_dynptr_write(room, at, scratch->heads, texts, 0);
	if (bytes && bytes <= settings.text_bytes)
		bpf_dynptr_write(room, at + texts, scratch + 1, bytes, 0);
	if (stacks.room)
		copy_stack(room, scratch, at + texts + bytes, scratch->record.header.stack);
}

static __noinline int put(struct scratch *scratch)
{
	__u32 words = scratch->record.words * 8;
	__u32 texts = scratch->record.texts * sizeof(struct text_head);
	enum outcome outcome = RING_FULL;
	unsigned long flags;
	struct bpf_dynptr room;
	void *ring;

	if (words > sizeof(scratch->words) || texts > sizeof(scratch->heads))
		return 0;
	scratch->record.text_bytes = scratch->used;
	keep_others_away(flags);
	ring = ring_here();
	if (!ring)
		goto out;
	if (bpf_ringbuf_reserve_dynptr(ring,
				       sizeof(scratch->record) + words + texts + scratch->used +
					       scratch->record.header.stack,
				       0, &room)) {
		bpf_ringbuf_discard_dynptr(&room, BPF_RB_NO_WAKEUP);
		goto out;
	}
	scratch->record.header.time = bpf_ktime_get_ns();
	copy(&room, scratch, words, texts);
	bpf_ringbuf_submit_dynptr(&room, BPF_RB_NO_WAKEUP);
	outcome = DELIVERED;
out:
	count_alone(scratch->at.entry, outcome);
	let_others_in(flags);
	return 0;
}

/* The same of a fetch program, whose outputs stand right behind its record. */
static __noinline int put_program(struct scratch *scratch)
{
	__u32 bytes = sizeof(scratch->program) + scratch->used;
	enum outcome outcome = RING_FULL;
	unsigned long flags;
	struct bpf_dynptr room;
	void *ring;

	if (bytes > sizeof(scratch->program) + settings.text_bytes)
		return 0;
	keep_others_away(flags);
	ring = ring_here();
	if (!ring)
		goto out;
	if (bpf_ringbuf_reserve_dynptr(ring, bytes + scratch->program.header.stack, 0, &room)) {
		bpf_ringbuf_discard_dynptr(&room, BPF_RB_NO_WAKEUP);
		goto out;
	}
	scratch->program.header.time = bpf_ktime_get_ns();
	bpf_dynptr_write(&room, 0, &scratch->program, bytes, 0);
	if (stacks.room)
		copy_stack(&room, scratch, bytes, scratch->program.header.stack);
	bpf_ringbuf_submit_dynptr(&room, BPF_RB_NO_WAKEUP);
	outcome = DELIVERED;
out:
	count_alone(scratch->at.entry, outcome);
	let_others_in(flags);
	return 0;
}

#endif
