// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Probes in user code. The cookie is the index of a location, which says what to fetch: the slots of a
 * tracebraid tracepoint with the text they lead to, or the arguments of any other USDT probe.
 *
 * The programs may sleep, since memory that nobody has touched yet can only be read by faulting it in.
 * They may be preempted too, so they hold no per-CPU data: what is fetched goes into a scratch slot
 * that a compare-and-swap has made theirs, and from there into the ring in one go.
 */
#include "shared.bpf.h"

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

/* What the loops' bodies share. They are functions of their own, so that the verifier walks each once. */
struct work {
	const void *ctx;
	struct scratch *scratch;
	const struct location *at;
};

/* Slots looked at before giving up. */
#define TRIES 16

static __always_inline struct scratch *scratch_get(__u32 tid)
{
	for (__u32 i = 0; i < TRIES; i++) {
		__u32 index = (tid + i) & (settings.scratch_slots - 1);
		struct scratch *scratch = bpf_map_lookup_elem(&scratch_slots, &index);

		if (!scratch)
			break;
		if (__sync_val_compare_and_swap(&scratch->busy, 0, 1) == 0)
			return scratch;
	}
	return NULL;
}

static __always_inline void scratch_put(struct scratch *scratch)
{
	__sync_lock_test_and_set(&scratch->busy, 0);
}

/* Memory that is there costs no fault handling; only what is not is faulted in. */
static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	if (bpf_probe_read_user(to, size, (void *)address) == 0)
		return 0;
	return bpf_copy_from_user(to, size, (void *)address);
}

static __always_inline __u64 saved_register(const void *ctx, __u32 offset)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (const char *)ctx + offset);
	return value;
}

static __always_inline void read_text(struct scratch *scratch, struct text_head *head,
				      __u64 address, __u64 length)
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
		return;
	}
	/* With no room left the text is cut to nothing, which its full length tells. */
	if (!length || used > settings.text_bytes - limit)
		return;
	take = length < limit ? length : limit;
	if (take > limit)
		return;
	to = (char *)(scratch + 1) + used;
	if (read_user(to, take, address)) {
		/* A wrong length runs off the end of what is mapped: keep what is there. */
		if (take <= to_page_end || to_page_end > limit || read_user(to, to_page_end, address)) {
			head->status = ABI_TEXT_FAULT;
			return;
		}
		take = to_page_end;
	}
	head->length = take;
	scratch->used = used + take;
}

static long one_text(__u64 i, struct work *work)
{
	__u32 index = work->at->first_place + i;
	struct place *pair = bpf_map_lookup_elem(&places, &index);
	struct scratch *scratch = work->scratch;

	if (!pair || i >= ABI_TEXTS)
		return 1;
	read_text(scratch, &scratch->heads[i], scratch->words[pair->base & (ABI_WORDS - 1)],
		  scratch->words[pair->index & (ABI_WORDS - 1)]);
	return 0;
}

static __always_inline void read_slots(struct work *work)
{
	struct scratch *scratch = work->scratch;
	__u32 words = work->at->words;
	__u64 slots = saved_register(work->ctx, settings.first_argument);

	if (words > ABI_WORDS)
		return;
	scratch->record.words = words;
	if (words && read_user(scratch->words, words * 8, slots))
		return;
	scratch->record.valid = -1;
	scratch->record.texts = work->at->texts;
	if (work->at->texts)
		bpf_loop(work->at->texts, one_text, work, 0);
}

/* Raw bits; the bridge cuts them to their width and extends the sign. */
static __always_inline bool read_place(const void *ctx, const struct place *place, __u64 *value)
{
	__u64 address = place->displacement;

	switch (place->kind) {
	case ABI_PLACE_CONSTANT:
		*value = address;
		return true;
	case ABI_PLACE_REGISTER:
		*value = saved_register(ctx, place->base) >> (place->shift & 63);
		return true;
	case ABI_PLACE_ADDRESS:
		*value = address + saved_register(ctx, settings.instruction_pointer);
		return true;
	case ABI_PLACE_MEMORY:
		if (place->base != ABI_NO_REGISTER)
			address += saved_register(ctx, place->base);
		if (place->index != ABI_NO_REGISTER)
			address += saved_register(ctx, place->index) << (place->shift & 63);
		*value = 0;
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

static long one_argument(__u64 i, struct work *work)
{
	__u32 index = work->at->first_place + i;
	struct place *place = bpf_map_lookup_elem(&places, &index);
	__u64 value = 0;

	if (!place || i >= ABI_WORDS)
		return 1;
	if (read_place(work->ctx, place, &value))
		work->scratch->record.valid |= 1ull << i;
	work->scratch->words[i] = value;
	return 0;
}

static __always_inline void read_arguments(struct work *work)
{
	work->scratch->record.words = work->at->words;
	bpf_loop(work->at->words, one_argument, work, 0);
}

static __always_inline void put(struct counter *counter, struct scratch *scratch)
{
	struct user_record *record = &scratch->record;
	__u32 words = record->words * 8, texts = record->texts * sizeof(struct text_head);
	__u32 bytes = scratch->used, at = sizeof(*record);
	unsigned long flags;
	struct bpf_dynptr room;
	void *ring;

	if (words > sizeof(scratch->words) || texts > sizeof(scratch->heads) ||
	    bytes > settings.text_bytes)
		return;
	record->text_bytes = bytes;
	keep_others_away(flags);
	ring = ring_here();
	if (!ring) {
		if (counter)
			__sync_fetch_and_add(&counter->ring_full, 1);
		goto out;
	}
	if (bpf_ringbuf_reserve_dynptr(ring, at + words + texts + bytes, 0, &room)) {
		if (counter)
			__sync_fetch_and_add(&counter->ring_full, 1);
		bpf_ringbuf_discard_dynptr(&room, BPF_RB_NO_WAKEUP);
		goto out;
	}
	record->header.time = bpf_ktime_get_ns();
	bpf_dynptr_write(&room, 0, record, sizeof(*record), 0);
	bpf_dynptr_write(&room, at, scratch->words, words, 0);
	at += words;
	bpf_dynptr_write(&room, at, scratch->heads, texts, 0);
	at += texts;
	bpf_dynptr_write(&room, at, scratch + 1, bytes, 0);
	bpf_ringbuf_submit_dynptr(&room, BPF_RB_NO_WAKEUP);
out:
	let_others_in(flags);
}

static __always_inline int hit(const void *ctx, __u32 index)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct scratch *scratch;

	if (!is_user_wanted(id >> 32, (__u32)id) || !cpu_wanted())
		return 0;
	scratch = scratch_get((__u32)id);
	for (__u32 i = 0; i < ABI_CHAIN; i++) {
		struct location *at = bpf_map_lookup_elem(&locations, &index);
		struct counter *counter;

		if (!at)
			break;
		counter = counter_of(at->entry);
		if (counter)
			__sync_fetch_and_add(&counter->hits, 1);
		if (scratch) {
			struct work work = { ctx, scratch, at };

			fill_header(&scratch->record.header, at->entry);
			scratch->record.valid = 0;
			scratch->record.words = 0;
			scratch->record.texts = 0;
			scratch->used = 0;
			if (at->fetch == ABI_FETCH_SLOTS)
				read_slots(&work);
			else
				read_arguments(&work);
			put(counter, scratch);
		} else if (counter) {
			__sync_fetch_and_add(&counter->no_scratch, 1);
		}
		index = at->next;
		if (!index)
			break;
	}
	if (scratch)
		scratch_put(scratch);
	return 0;
}

SEC("uprobe.multi.s")
int user_multi(void *ctx)
{
	return hit(ctx, bpf_get_attach_cookie(ctx));
}

SEC("uprobe.s")
int user_single(void *ctx)
{
	return hit(ctx, bpf_get_attach_cookie(ctx));
}
