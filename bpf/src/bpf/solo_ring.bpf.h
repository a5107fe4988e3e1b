/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The writer of a CPU's ring that needs no lock, since no two of its programs meet on a CPU: `struct solo_ring`
 * in abi.h. The kernel's own ring takes a lock with each record, which is most of what it costs, and asks for
 * interrupts to be kept away so that times stand in order.
 *
 * A program of these may be interrupted, by others than these; so the order is: room is taken, for everybody to see;
 * the clock is read; the record is written; it is said to be done. Each of the steps is seen before the next. Should
 * two meet all the same, the one that interrupts finds a record unfinished, or the one that is interrupted finds its
 * place taken: that one's record is lost, and nobody else's.
 */
#ifndef TRACEBRAID_SOLO_RING_BPF_H
#define TRACEBRAID_SOLO_RING_BPF_H

#include "copy.bpf.h"

/* One a CPU; made by the bridge, with the data. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct solo_ring);
} solo_rings SEC(".maps");

static __always_inline void finish_record(struct solo_ring *ring, __u64 position)
{
#ifdef __TARGET_ARCH_x86
	/* No store is seen before one that stands before it. */
	barrier();
	*(volatile __u64 *)&ring->done = position;
#else
	__sync_lock_test_and_set(&ring->done, position);
#endif
}

/* A record of the bytes at `from`; false where there is no room. */
static __always_inline bool put_solo(__u32 cpu, __u32 entry, struct task_struct *current,
				     const void *from, __u32 size)
{
	struct solo_ring *ring = bpf_map_lookup_elem(&solo_rings, &cpu);
	struct header *header;
	__u32 length, bytes;
	__u64 begin;
	char *record;

	if (size > ABI_TRACEPOINT_BYTES)
		size = ABI_TRACEPOINT_BYTES;
	length = 8 + sizeof(*header) + size;
	bytes = (length + 7) & ~7;
	if (!ring)
		return false;
	begin = *(volatile __u64 *)&ring->begun;
	if (begin - *(volatile __u64 *)&ring->read > settings.solo_bytes - bytes)
		return false;
	if (begin != *(volatile __u64 *)&ring->done ||
	    __sync_val_compare_and_swap(&ring->begun, begin, begin + bytes) != begin)
		return false;
	record = (char *)ring->data + (begin & (settings.solo_bytes - 8));
	*(__u64 *)record = length;
	header = (struct header *)(record + 8);
	fill_header_of(header, entry, current);
	header->time = bpf_ktime_get_ns();
	copy_bytes(header + 1, from, size);
	finish_record(ring, begin + bytes);
	return true;
}

#endif
