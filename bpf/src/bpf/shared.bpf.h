/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The maps that every program uses, the filter, and how a record gets into a ring.
 *
 * Order inside a program: everything is fetched first; then interrupts (or, on older kernels,
 * preemption) are kept away while room is reserved, the clock is read, the record is copied and
 * submitted. The clock is read after the reservation, so whoever has seen the ring's producer position
 * has seen every record with an earlier time, on every kernel.
 */
#ifndef TRACEBRAID_SHARED_BPF_H
#define TRACEBRAID_SHARED_BPF_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct settings settings SEC(".rodata.settings");

/* The bridge makes these maps, sized for the session, and hands them to every object. */
struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counter);
} counters SEC(".maps");
struct ids {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
};
struct ids processes SEC(".maps");
struct ids threads SEC(".maps");
struct ids excluded SEC(".maps");

/* ---- tasks ---- */

#include "task.bpf.h"

static __always_inline void copy_comm(__u8 *to, const char *from)
{
	_Static_assert(ABI_COMM == 16, "two words");
	((__u64 *)to)[0] = ((const __u64 *)from)[0];
	((__u64 *)to)[1] = ((const __u64 *)from)[1];
}

/* ---- the filter ---- */

static __always_inline bool cpu_wanted(void)
{
	__u32 cpu;

	if (!settings.filter_cpus)
		return true;
	cpu = bpf_get_smp_processor_id();
	return cpu < ABI_CPUS && (settings.cpu_mask[cpu / 64] >> (cpu % 64) & 1);
}

/* Whether a task is in the cgroup that is asked for, or in one below it. */
static __noinline int is_in_cgroup(struct task_struct *task)
{
	struct cgroup *own = BPF_CORE_READ(task, cgroups, dfl_cgrp), *ancestor = NULL;

	if (BPF_CORE_READ(own, level) < (int)settings.cgroup_level)
		return false;
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
			      (char *)own + bpf_core_field_offset(own->ancestors) +
				      settings.cgroup_level * sizeof(ancestor));
	return BPF_CORE_READ(ancestor, kn, id) == settings.cgroup;
}

static __always_inline bool is_cgroup_wanted(struct task_struct *task)
{
	return !settings.cgroup || is_in_cgroup(task);
}

static __always_inline bool is_current_in_cgroup(void)
{
	return !settings.cgroup || is_in_cgroup(bpf_get_current_task_btf());
}

static __always_inline bool is_excluded(__u32 tgid)
{
	return settings.filter_excluded && bpf_map_lookup_elem(&excluded, &tgid);
}

static __always_inline bool is_selected(__u32 tgid, __u32 tid)
{
	if (settings.single_process) {
		if (tgid != settings.single_process)
			return false;
	} else if (settings.filter_processes && !bpf_map_lookup_elem(&processes, &tgid)) {
		return false;
	}
	return !settings.filter_threads || bpf_map_lookup_elem(&threads, &tid);
}

/* Whether the bridge's user could name a task. */
static __always_inline bool is_visible(__u32 tgid)
{
	return tgid || !pid_namespace;
}

/* Whether a task is one whose user probes are wanted. */
static __always_inline bool is_user_wanted(__u32 tgid, __u32 tid)
{
	return is_visible(tgid) && is_selected(tgid, tid) && !is_excluded(tgid);
}

/* Whether what happens in the name of a task is wanted. */
static __always_inline bool is_place_wanted(__u32 tgid, __u32 tid)
{
	if (!settings.kernel_events_of_all && !is_selected(tgid, tid))
		return false;
	return is_visible(tgid) && !is_excluded(tgid);
}

/*
 * Whether a task is one whose kernel events are wanted. The idle task (0) is nobody's here: else each
 * switch between it and the bridge would be the machine's.
 */
static __always_inline bool is_kernel_wanted(__u32 tgid, __u32 tid)
{
	return tgid && is_place_wanted(tgid, tid);
}

/* Most events are nobody's: what decides that is read first, and no more than that. */
static __always_inline bool is_task_wanted(struct task_struct *task)
{
	__u32 tid = settings.filter_threads ? tid_of(task) : 0;

	return is_kernel_wanted(tgid_of(task), tid) && is_cgroup_wanted(task);
}

static __always_inline bool is_current_wanted(void)
{
	struct task_struct *current = bpf_get_current_task_btf();
	__u32 tid = settings.filter_threads ? own_tid(current) : 0;

	return is_kernel_wanted(own_tgid(current), tid) && is_current_in_cgroup();
}

/* The same for what is not done by the current task: interrupts hit the idle one as well as others. */
static __always_inline bool is_here_wanted(struct task_struct *current)
{
	__u32 tid = settings.filter_threads ? own_tid(current) : 0;

	return is_place_wanted(own_tgid(current), tid) && is_current_in_cgroup();
}

/* ---- counting ---- */

static __always_inline struct counter *counter_on(__u32 cpu, __u32 entry)
{
	__u32 index = cpu * settings.entries + entry;

	return bpf_map_lookup_elem(&counters, &index);
}

static __always_inline struct counter *counter_of(__u32 entry)
{
	return counter_on(bpf_get_smp_processor_id(), entry);
}

/* Where nobody wants more than that, and all hits: counts one. Whether that was all. */
static __always_inline bool only_counted(__u32 entry)
{
	struct counter *counter;

	if (!settings.count_only || settings.filters)
		return false;
	counter = counter_of(entry);
	if (counter)
		__sync_fetch_and_add(&counter->hits, 1);
	return true;
}

static __always_inline void count_filtered(struct counter *counter)
{
	if (counter)
		__sync_fetch_and_add(&counter->filtered, 1);
}

/* ---- the ring ---- */

extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/* Both compile to nothing where the kernel has neither (before 6.10). */
#define keep_others_away(flags)						\
	do {								\
		if (bpf_ksym_exists(bpf_local_irq_save))		\
			bpf_local_irq_save(&(flags));			\
		else if (bpf_ksym_exists(bpf_preempt_disable))		\
			bpf_preempt_disable();				\
	} while (0)
#define let_others_in(flags)						\
	do {								\
		if (bpf_ksym_exists(bpf_local_irq_save))		\
			bpf_local_irq_restore(&(flags));		\
		else if (bpf_ksym_exists(bpf_preempt_disable))		\
			bpf_preempt_enable();				\
	} while (0)

/* To a counter of this CPU, while others are kept away: where interrupts are, nothing comes in between. */
static __always_inline void add_one_alone(__u64 *count)
{
	if (bpf_ksym_exists(bpf_local_irq_save))
		++*(volatile __u64 *)count;
	else
		__sync_fetch_and_add(count, 1);
}

static __always_inline void *ring_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rings, &cpu);
}

static __always_inline void fill_header_of(struct header *header, __u32 entry,
					   struct task_struct *current)
{
	header->time = 0;
	header->entry = entry;
	header->tgid = own_tgid(current);
	header->tid = own_tid(current);
	header->stack = 0;
	copy_comm(header->comm, current->comm);
}

static __always_inline void fill_header(struct header *header, __u32 entry)
{
	fill_header_of(header, entry, bpf_get_current_task_btf());
}

#include "stack.bpf.h"

/* The same as below, with a stack behind the record. */
static __always_inline void emit_with_stack(void *ctx, enum abi_slot slot, struct header *record,
					    const __u32 size)
{
	struct counter *counter = counter_of(record->entry);
	struct stack_record *stack = stack_slot_here(slot);
	__u32 bytes = take_stack_here(ctx, slot);
	unsigned long flags;
	struct bpf_dynptr room;
	int full = true;
	void *ring;

	if (counter)
		__sync_fetch_and_add(&counter->hits, 1);
	if (bytes > stacks.room)
		bytes = 0;
	record->stack = bytes;
	keep_others_away(flags);
	ring = ring_here();
	if (ring) {
		full = bpf_ringbuf_reserve_dynptr(ring, size + bytes, 0, &room) != 0;
		record->time = bpf_ktime_get_ns();
		bpf_dynptr_write(&room, 0, record, size, 0);
		if (stack && bytes)
			bpf_dynptr_write(&room, size, stack, bytes, 0);
		bpf_ringbuf_submit_dynptr(&room, BPF_RB_NO_WAKEUP);
	}
	if (full && counter)
		__sync_fetch_and_add(&counter->ring_full, 1);
	let_others_in(flags);
}

#ifdef FILTER_RECORDS
#include "records.bpf.h"
#else
#define is_record_wanted(slot, record, size) true
#endif

/* Whether the entry's filter refuses a record, which is then counted. */
static __always_inline bool is_filtered(enum abi_slot slot, const struct header *record,
					const __u32 size)
{
	struct counter *counter;

	if (!settings.filters || is_record_wanted(slot, record, size))
		return false;
	counter = counter_of(record->entry);
	if (counter)
		__sync_fetch_and_add(&counter->hits, 1);
	count_filtered(counter);
	return true;
}

/* Puts a record of constant size into the ring of this CPU, where nothing can come in between. */
static __always_inline void put_alone(void *ctx, enum abi_slot slot, struct header *record,
				      const __u32 size)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct counter *counter = counter_on(cpu, record->entry);
	void *ring = bpf_map_lookup_elem(&rings, &cpu), *room = NULL;

	if (stacks.room && !settings.count_only) {
		emit_with_stack(ctx, slot, record, size);
		return;
	}
	if (counter)
		add_one_alone(&counter->hits);
	if (settings.count_only)
		return;
	if (ring)
		room = bpf_ringbuf_reserve(ring, size, 0);
	if (room) {
		record->time = bpf_ktime_get_ns();
		__builtin_memcpy(room, record, size);
		bpf_ringbuf_submit(room, BPF_RB_NO_WAKEUP);
	} else if (counter) {
		__sync_fetch_and_add(&counter->ring_full, 1);
	}
}

/* The same anywhere. */
static __always_inline void emit(void *ctx, enum abi_slot slot, struct header *record,
				 const __u32 size)
{
	unsigned long flags;

	if (is_filtered(slot, record, size))
		return;
	if (stacks.room && !settings.count_only) {
		emit_with_stack(ctx, slot, record, size);
		return;
	}
	keep_others_away(flags);
	put_alone(ctx, slot, record, size);
	let_others_in(flags);
}

static __always_inline void fill_task(struct task *to, struct task_struct *from)
{
	to->reserved = 0;
	to->tid = tid_of(from);
	to->tgid = tgid_of(from);
	if (is_typed()) {
		from = typed(struct task_struct, from);
		to->prio = from->prio;
		copy_comm(to->comm, from->comm);
	} else {
		to->prio = BPF_CORE_READ(from, prio);
		bpf_core_read(to->comm, sizeof(to->comm), &from->comm);
	}
}

#endif
