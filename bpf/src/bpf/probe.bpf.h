/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What probes in user code and in kernel functions have in common: a location, found by the cookie, says
 * what to fetch; what is fetched goes into a scratch slot that a compare-and-swap has made ours, and from
 * there into the ring in one go.
 *
 * From 6.13 on the kernel itself would give programs that may sleep per-CPU data: a function that takes 64
 * bytes of stack or more is moved to a "private stack" of the CPU, which two threads inside the program
 * then share (seen on 7.2: a kernel oops). So no function here takes more than 48 bytes. They are many and
 * small for that reason, keep what they know in the scratch slot, and a test counts their bytes.
 *
 * Whoever includes this says how memory is read: read_user(to, size, address), read_string(to, limit,
 * address), and what is tried again where a text could not be read: read_cold_text(to, address); whose
 * hits are wanted: is_hit_wanted(tgid, tid); and where the function begins: function_of(context).
 */
#ifndef TRACEBRAID_PROBE_BPF_H
#define TRACEBRAID_PROBE_BPF_H

#include "scratch.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct location);
} locations SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct place);
} places SEC(".maps");
/* Made by the bridge with settings.text_bytes more in each value. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch_slots SEC(".maps");

/* Slots looked at before giving up. */
#define TRIES 16

static __always_inline struct scratch *scratch_try(__u32 number)
{
	__u32 index = number & (settings.scratch_slots - 1);
	struct scratch *scratch = bpf_map_lookup_elem(&scratch_slots, &index);

	if (scratch && __sync_val_compare_and_swap(&scratch->busy, 0, 1) == 0)
		return scratch;
	return NULL;
}

static __noinline struct scratch *scratch_of_others(__u32 tid)
{
	for (__u32 i = 1; i < TRIES; i++) {
		struct scratch *scratch = scratch_try(tid + i);

		if (scratch)
			return scratch;
	}
	return NULL;
}

static __always_inline struct scratch *scratch_get(__u32 tid)
{
	struct scratch *scratch = scratch_try(tid);

	return scratch ? scratch : scratch_of_others(tid);
}

static __always_inline void scratch_put(struct scratch *scratch)
{
#ifdef __TARGET_ARCH_x86
	/* No store is seen before one that stands before it. */
	*(volatile __u32 *)&scratch->busy = 0;
#else
	__sync_lock_test_and_set(&scratch->busy, 0);
#endif
}

static __always_inline __u64 saved_register(const struct scratch *scratch, __u32 word)
{
	return word < ABI_REGISTERS ? scratch->registers[word] : 0;
}

static __noinline int read_text(struct scratch *scratch, struct text_head *head, __u64 address,
				__u64 length)
{
	__u32 limit = settings.string_limit;
	__u32 used = scratch->used, to_page_end = 4096 - (address & 4095);
	__u32 take;
	char *to;

	head->full_length = length;
	head->length = 0;
	head->status = ABI_TEXT_READ;
	if (!address) {
		head->status = ABI_TEXT_NULL;
		return 0;
	}
	/* With no room left the text is cut to nothing, which its full length tells. */
	if (!length || used > settings.text_bytes - limit)
		return 0;
	take = length < limit ? length : limit;
	if (take > limit)
		return 0;
	to = (char *)(scratch + 1) + used;
	if (read_user(to, take, address)) {
		/* A wrong length runs off the end of what is mapped: keep what is there. */
		if (take <= to_page_end || to_page_end > limit || read_user(to, to_page_end, address)) {
			head->status = ABI_TEXT_FAULT;
			return 0;
		}
		take = to_page_end;
	}
	head->length = take;
	scratch->used = used + take;
	return 0;
}

/* The bodies of loops are functions, so that the verifier walks each once. */
static long one_text(__u64 i, struct scratch **context)
{
	struct scratch *scratch = *context;
	__u32 index = scratch->at.first_place + i;
	struct place *pair = bpf_map_lookup_elem(&places, &index);

	if (!pair || i >= ABI_TEXTS)
		return 1;
	read_text(scratch, &scratch->heads[i], scratch->words[pair->base & (ABI_WORDS - 1)],
		  scratch->words[pair->index & (ABI_WORDS - 1)]);
	return 0;
}

static __noinline int read_slots(struct scratch *scratch)
{
	__u32 words = scratch->at.words;

	if (words > ABI_WORDS)
		return 0;
	scratch->record.words = words;
	if (words &&
	    read_user(scratch->words, words * 8, saved_register(scratch, settings.first_argument)))
		return 0;
	scratch->record.valid = -1;
	scratch->record.texts = scratch->at.texts;
	bpf_loop(scratch->at.texts, one_text, &scratch, 0);
	return 0;
}

/* Raw bits; the bridge cuts them to their width and extends the sign. */
static __noinline int read_place(const struct scratch *scratch, const struct place *place,
				 __u64 *value)
{
	__u64 address = place->displacement;

	*value = 0;
	switch (place->kind) {
	case ABI_PLACE_CONSTANT:
		*value = address;
		return true;
	case ABI_PLACE_REGISTER:
		*value = saved_register(scratch, place->base) >> (place->shift & 63);
		return true;
	case ABI_PLACE_ADDRESS:
		*value = address + saved_register(scratch, settings.instruction_pointer);
		return true;
	case ABI_PLACE_MEMORY:
		if (place->base != ABI_NO_REGISTER)
			address += saved_register(scratch, place->base);
		if (place->index != ABI_NO_REGISTER)
			address += saved_register(scratch, place->index) << (place->shift & 63);
		switch (place->width) {
		case 1:
			return read_user(value, 1, address) == 0;
		case 2:
			return read_user(value, 2, address) == 0;
		case 4:
			return read_user(value, 4, address) == 0;
		case 8:
			return read_user(value, 8, address) == 0;
		}
	}
	return false;
}

static long one_argument(__u64 i, struct scratch **context)
{
	struct scratch *scratch = *context;
	__u32 index = scratch->at.first_place + i;
	struct place *place = bpf_map_lookup_elem(&places, &index);

	if (!place || i >= ABI_WORDS)
		return 1;
	if (read_place(scratch, place, &scratch->words[i]))
		scratch->record.valid |= 1ull << i;
	return 0;
}

static __noinline int read_arguments(struct scratch *scratch)
{
	scratch->record.words = scratch->at.words;
	bpf_loop(scratch->at.words, one_argument, &scratch, 0);
	return 0;
}

#ifdef OF_CALLS
#include "entry.bpf.h"
#endif
#include "fetch.bpf.h"

#define FILTER_BYTES (sizeof(struct scratch) + settings.text_bytes)
#define FILTER_WALK __builtin_offsetof(struct scratch, walk)
#include "filter.bpf.h"

#include "probe_record.bpf.h"

/* The rest of a hit whose values are fetched. */
static __always_inline int deliver(void *ctx, struct scratch *scratch, struct header *header,
				   int (*put_it)(struct scratch *))
{
	__u32 entry = scratch->at.entry;

	if (settings.filters && !filter_code(scratch, entry))
		return count(entry, FILTERED);
	if (settings.count_only)
		return count(entry, DELIVERED);
	if (settings.filters && scratch->used > scratch->shown)
		scratch->used = scratch->shown;
	fill_header(header, entry);
	header->stack = stack_bytes(ctx, scratch);
	return put_it(scratch);
}

static __noinline int record(void *ctx, struct scratch *scratch)
{
	scratch->used = 0;
	scratch->shown = -1;
	if (settings.fetch_room && scratch->at.fetch == ABI_FETCH_PROGRAM) {
		run_program(ctx, scratch);
		return deliver(ctx, scratch, &scratch->program.header, put_program);
	}
	scratch->record.valid = 0;
	scratch->record.words = 0;
	scratch->record.texts = 0;
	if (scratch->at.fetch == ABI_FETCH_SLOTS)
		read_slots(scratch);
	else
		read_arguments(scratch);
	return deliver(ctx, scratch, &scratch->record.header, put);
}

/* Counts a hit for each of the locations of one address. */
static __noinline int only_count(__u32 index)
{
	for (__u32 i = 0; i < ABI_CHAIN; i++) {
		struct location *at = bpf_map_lookup_elem(&locations, &index);

		if (!at)
			break;
		if (at->fetch != ABI_FETCH_KEEP)
			only_counted(at->entry);
		index = at->next;
		if (!index)
			break;
	}
	return 0;
}

static __always_inline void copy_registers(struct scratch *scratch, void *ctx)
{
	bpf_probe_read_kernel(scratch->registers, settings.registers * 8, ctx);
}

/* What a user probe's or kprobe's program is handed is pt_regs. Code of fetch programs looks there itself. */
static __always_inline int gather_registers(struct scratch *scratch, void *ctx)
{
	if (settings.keeps_registers || !has_fetch_code)
		copy_registers(scratch, ctx);
	if (settings.asks_function)
		scratch->function = function_of(ctx);
	return 0;
}

/* Does what a location of the address says. */
static __always_inline int hit_one(void *ctx, struct scratch *scratch, __u32 index)
{
#ifdef OF_CALLS
	if (settings.keeps && scratch->at.fetch == ABI_FETCH_KEEP)
		return keep(scratch);
	if (settings.keeps && scratch->at.keeps)
		recall(scratch, index);
#endif
	/* A call may return on a CPU that is wanted, wherever it was entered. */
	return cpu_wanted() ? record(ctx, scratch) : 0;
}

/* The same where no scratch slot was free. */
static __noinline int miss_one(void *ctx, const struct location *at)
{
#ifdef OF_CALLS
	if (settings.keeps && at->fetch == ABI_FETCH_KEEP)
		return forget(ctx, at->entry);
#endif
	if (cpu_wanted())
		count(at->entry, NO_SCRATCH);
	return 0;
}

/* Does what the locations of one address say, over registers as `gather` finds them. */
static __always_inline int hit_with(void *ctx, __u32 index, int (*gather)(struct scratch *, void *))
{
	struct task_struct *current = bpf_get_current_task_btf();
	__u32 tid = settings.filter_threads ? own_tid(current) : 0;
	struct scratch *scratch;

	if (!is_hit_wanted(own_tgid(current), tid) || !is_current_in_cgroup())
		return 0;
	if (!settings.keeps && !cpu_wanted())
		return 0;
	if (settings.count_only && !settings.filters)
		return cpu_wanted() ? only_count(index) : 0;
	scratch = scratch_get(current->pid);
	if (scratch) {
		scratch->has_stack = false;
		gather(scratch, ctx);
		/* Where nobody can refuse the hit it is taken here, which is the least for the verifier to follow. */
		if (stacks.room && !settings.filters && !settings.count_only)
			take_stack(ctx, scratch);
	}
	for (__u32 i = 0; i < ABI_CHAIN; i++) {
		struct location *at = bpf_map_lookup_elem(&locations, &index);

		if (!at)
			break;
		if (scratch) {
			scratch->at = *at;
			hit_one(ctx, scratch, index);
		} else {
			miss_one(ctx, at);
		}
		index = at->next;
		if (!index)
			break;
	}
	if (scratch)
		scratch_put(scratch);
	return 0;
}

static __always_inline int hit(void *ctx, __u32 index)
{
	return hit_with(ctx, index, gather_registers);
}

#endif
