/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a return probe knows of its call's entry: a program at the entry reads some words and keeps them; the
 * program at the return takes them out again. Where they are not there (more calls are under way than are
 * remembered, or the entry came when no scratch slot was free) they are a fault, and never another call's.
 *
 * The rules of probe.bpf.h on stack hold.
 */
#ifndef TRACEBRAID_ENTRY_BPF_H
#define TRACEBRAID_ENTRY_BPF_H

/* Made by the bridge with room for ABI_CALLS. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct call);
	__type(value, struct kept);
} calls SEC(".maps");

/* Of pt_regs. */
#if defined(__TARGET_ARCH_x86)
#define WORD_STACK 19
/* At the return the address that was returned to has been taken from the stack. */
#define TAKEN_AT_RETURN 8
#else
#define WORD_STACK 31
#define TAKEN_AT_RETURN 0
#endif

static __always_inline void name_call(struct call *call, __u64 stack, __u32 location)
{
	call->stack = stack;
	call->tgid = bpf_get_current_pid_tgid() >> 32;
	call->location = location;
}

/* A word in memory. Behind it the page may end: of a narrower value there its own bytes are enough. */
static __noinline int read_word(struct kept *kept, __u32 number, __u64 address)
{
	__u32 to_page_end = 4096 - (address & 4095);
	__u64 *word;

	if (!kept || number >= ABI_KEPT)
		return 0;
	word = &kept->words[number];
	*word = 0;
	if (!read_user(word, 8, address))
		return true;
	return to_page_end < 8 && !read_user(word, to_page_end, address);
}

static long keep_one(__u64 i, struct scratch **context)
{
	struct scratch *scratch = *context;
	__u32 index = scratch->at.first_place + i;
	struct place *place = bpf_map_lookup_elem(&places, &index);
	__u64 value;

	if (!place || i >= ABI_KEPT)
		return 1;
	value = saved_register(scratch, place->base) + place->displacement;
	if (place->kind == ABI_PLACE_MEMORY) {
		if (!read_word(&scratch->entry, i, value))
			return 0;
	} else {
		scratch->entry.words[i] = value;
	}
	scratch->entry.valid |= 1ull << i;
	return 0;
}

/* At the entry. */
static __noinline int keep(struct scratch *scratch)
{
	struct call *call = &scratch->call;

	name_call(call, scratch->registers[WORD_STACK], scratch->at.entry);
	scratch->entry.valid = 0;
	bpf_loop(scratch->at.words, keep_one, &scratch, 0);
	if (bpf_map_update_elem(&calls, call, &scratch->entry, 0))
		bpf_map_delete_elem(&calls, call);
	return 0;
}

/* At an entry of which nothing can be kept: what an earlier call has left there is not its either. */
static __noinline int forget(void *ctx, __u32 location)
{
	struct call call;
	__u64 stack = 0;

	bpf_probe_read_kernel(&stack, 8, ctx + WORD_STACK * 8);
	name_call(&call, stack, location);
	bpf_map_delete_elem(&calls, &call);
	return 0;
}

/* At the return. */
static __noinline int recall(struct scratch *scratch, __u32 location)
{
	struct call *call = &scratch->call;
	struct kept *kept;

	name_call(call, scratch->registers[WORD_STACK] - TAKEN_AT_RETURN, location);
	kept = bpf_map_lookup_elem(&calls, call);
	if (!kept) {
		scratch->entry.valid = 0;
		return 0;
	}
	bpf_probe_read_kernel(&scratch->entry, sizeof(scratch->entry), kept);
	bpf_map_delete_elem(&calls, call);
	return 0;
}

#endif
