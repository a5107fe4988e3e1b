// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Any kernel tracepoint, as raw bytes: the fixed part and what its variable-length fields lead to.
 *
 * Programs of this kind share the kernel's guard: on one CPU only one runs at a time, and an event that
 * comes in the middle is dropped and counted by the kernel. So per-CPU scratch is safe here, counts that nobody
 * else adds to, and a ring without locks; where stacks are wanted, which it has no room for, records go to the
 * ring of all others.
 */
#include "shared.bpf.h"
#include "solo_ring.bpf.h"

/* The record, and for filters the thread's name and a comparison of text. */
struct bytes {
	__u8 data[ABI_TRACEPOINT_BYTES];
	__u8 comm[ABI_COMM];
	struct walk walk;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bytes);
} record_bytes SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tracepoint);
} tracepoints SEC(".maps");

#define FILTER_BYTES sizeof(struct bytes)
#define FILTER_WALK __builtin_offsetof(struct bytes, walk)
#include "filter.bpf.h"

/* The bytes up to the end of the last variable-length field. */
static __always_inline __u32 whole_size(const struct bytes *bytes, const struct tracepoint *at)
{
	__u32 size = at->size;

	for (__u32 i = 0; i < ABI_DYNAMIC; i++) {
		__u32 offset, descriptor, end;

		if (i >= at->dynamic_count)
			break;
		offset = at->dynamic[i] & ~ABI_RELATIVE;
		if (offset > ABI_TRACEPOINT_BYTES - 4)
			continue;
		descriptor = *(const __u32 *)(bytes->data + offset);
		end = (descriptor & 0xffff) + (descriptor >> 16);
		if (at->dynamic[i] & ABI_RELATIVE)
			end += offset + 4;
		if (end > size)
			size = end;
	}
	return size;
}

static __always_inline void put(struct counter *counter, struct header *header,
				struct bytes *bytes, __u32 size)
{
	struct stack_record *stack = NULL;
	__u32 stack_bytes = header->stack;
	unsigned long flags;
	struct bpf_dynptr room;
	void *ring;

	if (stack_bytes)
		stack = stack_slot_here(ABI_SLOT_TRACEPOINT);
	keep_others_away(flags);
	ring = ring_here();
	if (!ring) {
		if (counter)
			__sync_fetch_and_add(&counter->ring_full, 1);
		goto out;
	}
	if (bpf_ringbuf_reserve_dynptr(ring, sizeof(*header) + size + stack_bytes, 0, &room)) {
		if (counter)
			__sync_fetch_and_add(&counter->ring_full, 1);
		bpf_ringbuf_discard_dynptr(&room, BPF_RB_NO_WAKEUP);
		goto out;
	}
	header->time = bpf_ktime_get_ns();
	bpf_dynptr_write(&room, 0, header, sizeof(*header), 0);
	bpf_dynptr_write(&room, sizeof(*header), bytes->data, size, 0);
	if (stack && stack_bytes && stack_bytes <= stacks.room)
		bpf_dynptr_write(&room, sizeof(*header) + size, stack, stack_bytes, 0);
	bpf_ringbuf_submit_dynptr(&room, BPF_RB_NO_WAKEUP);
out:
	let_others_in(flags);
}

SEC("tp")
int tracepoint(void *ctx)
{
	__u32 index = bpf_get_attach_cookie(ctx), cpu = bpf_get_smp_processor_id(), zero = 0, size;
	struct task_struct *current = bpf_get_current_task_btf();
	struct tracepoint *at;
	struct bytes *bytes;
	struct counter *counter;
	struct header header;

	if (!is_here_wanted(current) || !cpu_wanted())
		return 0;
	at = bpf_map_lookup_elem(&tracepoints, &index);
	if (!at || only_counted(at->entry))
		return 0;
	counter = counter_on(cpu, at->entry);
	if (!counter)
		return 0;
	++*(volatile __u64 *)&counter->hits;
	size = at->size;
	/* The shortest way, of what nobody has to look at before. */
	if (settings.solo_bytes && !settings.filters && !at->dynamic_count) {
		if (!put_solo(cpu, at->entry, current, ctx, size))
			++*(volatile __u64 *)&counter->ring_full;
		return 0;
	}
	bytes = bpf_map_lookup_elem(&record_bytes, &zero);
	if (!bytes)
		return 0;
	if (size > ABI_TRACEPOINT_BYTES)
		size = ABI_TRACEPOINT_BYTES;
	copy_bytes(bytes->data, ctx, size);
	if (at->dynamic_count) {
		size = whole_size(bytes, at);
		if (size > ABI_TRACEPOINT_BYTES)
			size = ABI_TRACEPOINT_BYTES;
		copy_bytes(bytes->data, ctx, size);
	}
	if (settings.filters && !filter_code(bytes, at->entry)) {
		++*(volatile __u64 *)&counter->filtered;
		return 0;
	}
	if (settings.count_only)
		return 0;
	if (settings.solo_bytes) {
		if (!put_solo(cpu, at->entry, current, bytes->data, size))
			++*(volatile __u64 *)&counter->ring_full;
		return 0;
	}
	fill_header(&header, at->entry);
	if (stacks.room)
		header.stack = take_stack_here(ctx, ABI_SLOT_TRACEPOINT);
	put(counter, &header, bytes, size);
	return 0;
}
