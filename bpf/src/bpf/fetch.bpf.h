/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fetch programs: what the arguments of a probe definition say, step by step. A step that cannot read
 * makes the argument a fault, and the next one begins anew. Outputs are appended behind the scratch slot,
 * each with a head; an output without room has its head alone.
 *
 * The rules of probe.bpf.h on stack hold: what a step knows stands in the scratch slot.
 */
#ifndef TRACEBRAID_FETCH_BPF_H
#define TRACEBRAID_FETCH_BPF_H

static __always_inline char *output(struct scratch *scratch, __u32 used)
{
	return (char *)(scratch + 1) + used;
}

static __noinline int put_head(struct scratch *scratch, __u32 status)
{
	__u32 used = scratch->used;

	if (used > settings.text_bytes - ABI_OUTPUT_HEAD)
		return 0;
	*(__u64 *)output(scratch, used) = (__u64)status << 32;
	scratch->used = used + ABI_OUTPUT_HEAD;
	return 0;
}

/* Puts the head before an output that is there already. */
static __always_inline void close_output(struct scratch *scratch, char *to, __u32 used, __u32 length,
					 __u32 status)
{
	*(__u64 *)to = (__u64)status << 32 | length;
	scratch->used = used + ABI_OUTPUT_HEAD + length;
}

static __noinline int store_value(struct scratch *scratch)
{
	__u32 used = scratch->used;
	char *to;

	if (used > settings.fetch_room - 16)
		return put_head(scratch, ABI_TEXT_NO_ROOM);
	to = output(scratch, used);
	*(__u64 *)(to + ABI_OUTPUT_HEAD) = scratch->value;
	close_output(scratch, to, used, 8, ABI_TEXT_READ);
	return 0;
}

static __noinline int store_memory(struct scratch *scratch, __u64 address, __u32 size)
{
	__u32 used = scratch->used;
	char *to;

	if (used > settings.fetch_room - ABI_OUTPUT_HEAD - ABI_ARRAY_BYTES)
		return put_head(scratch, ABI_TEXT_NO_ROOM);
	if (!size || size > ABI_ARRAY_BYTES)
		return put_head(scratch, ABI_TEXT_FAULT);
	to = output(scratch, used);
	if (read_user(to + ABI_OUTPUT_HEAD, size, address))
		return put_head(scratch, ABI_TEXT_FAULT);
	close_output(scratch, to, used, size, ABI_TEXT_READ);
	return 0;
}

static __noinline int store_text(struct scratch *scratch, __u64 address)
{
	__u32 used = scratch->used, limit = settings.string_limit, status = ABI_TEXT_READ;
	long length;
	char *to, last;

	if (used > settings.fetch_room - ABI_OUTPUT_HEAD - limit)
		return put_head(scratch, ABI_TEXT_NO_ROOM);
	to = output(scratch, used);
	length = read_string(to + ABI_OUTPUT_HEAD, limit, address);
	if (length < 0)
		length = read_cold_text(to + ABI_OUTPUT_HEAD, address);
	if (length < 0 || length > limit)
		return put_head(scratch, ABI_TEXT_FAULT);
	/* It fills the room: whether it ends just there is asked of the byte that the NUL stands for. */
	if (length == limit && (read_user(&last, 1, address + limit - 1) || last))
		status = ABI_TEXT_CUT;
	close_output(scratch, to, used, length, status);
	return 0;
}

#ifdef OF_SIZED_TEXTS
/* A text without an end mark; it gets one, so that it is an output like any other text. */
static __noinline int store_sized(struct scratch *scratch, __u64 address)
{
	__u32 used = scratch->used, limit = settings.string_limit, status = ABI_TEXT_READ;
	__u32 take = limit - 1;
	char *to;

	if (used > settings.fetch_room - ABI_OUTPUT_HEAD - limit)
		return put_head(scratch, ABI_TEXT_NO_ROOM);
	if (scratch->kept > take)
		status = ABI_TEXT_CUT;
	else
		take = scratch->kept;
	if (take >= limit || scratch->kept_failed)
		return put_head(scratch, ABI_TEXT_FAULT);
	to = output(scratch, used);
	/* Nothing may be anywhere. */
	if (take && read_user(to + ABI_OUTPUT_HEAD, take, address))
		return put_head(scratch, ABI_TEXT_FAULT);
	to[ABI_OUTPUT_HEAD + take] = 0;
	close_output(scratch, to, used, take + 1, status);
	return 0;
}
#endif

static __noinline int store(struct scratch *scratch, const struct place *step)
{
	__u64 address = scratch->value + step->displacement;
	__u32 word = step->index;

	if (settings.filters && word < ABI_WORDS)
		scratch->words[word] = scratch->used;
#ifdef OF_SIZED_TEXTS
	/* Whether it lies anywhere does not matter to an empty text. */
	if (step->kind == ABI_STEP_STORE_SIZED && (!scratch->failed || !scratch->kept))
		return store_sized(scratch, address);
#endif
	if (scratch->failed)
		return put_head(scratch, ABI_TEXT_FAULT);
	if (step->kind == ABI_STEP_STORE)
		return store_value(scratch);
	if (step->kind == ABI_STEP_STORE_MEMORY)
		return store_memory(scratch, address, step->base);
	return store_text(scratch, address);
}

#ifdef OF_CALLS
static __noinline int take_kept(struct scratch *scratch, __u32 number)
{
	if (number >= ABI_KEPT) {
		scratch->failed = 1;
		return 0;
	}
	scratch->value = scratch->entry.words[number];
	scratch->failed = !(scratch->entry.valid >> number & 1);
	return 0;
}
#endif

#ifdef OF_EVENTS
/* A number of an event's record. */
static __noinline int load_field(struct scratch *scratch, const struct place *step)
{
	__u64 at = saved_register(scratch, ABI_RECORD_WORD) + step->displacement;
	__u32 size = step->width, unused = (64 - 8 * size) & 63;

	scratch->value = 0;
	scratch->failed = !size || size > 8 ||
			  bpf_probe_read_kernel(&scratch->value, size, (void *)at) != 0;
	if (step->shift)
		scratch->value = (__s64)(scratch->value << unused) >> unused;
	return 0;
}

/* What a descriptor in an event's record leads to. */
static __noinline int find_field_data(struct scratch *scratch, const struct place *step)
{
	__u64 at = saved_register(scratch, ABI_RECORD_WORD);

	scratch->value = 0;
	scratch->failed =
		bpf_probe_read_kernel(&scratch->value, 4, (void *)(at + step->displacement)) != 0;
	scratch->value = (scratch->value & 0xffff) + at;
	if (step->shift)
		scratch->value += step->displacement + 4;
	return 0;
}
#endif

static __noinline int do_step(struct scratch *scratch, const struct place *step)
{
	switch (step->kind) {
	case ABI_STEP_REGISTER:
		scratch->value = saved_register(scratch, step->base) + step->displacement;
		scratch->failed = 0;
		return 0;
	case ABI_STEP_CONSTANT:
		scratch->value = step->displacement;
		scratch->failed = 0;
		return 0;
	case ABI_STEP_FUNCTION:
		scratch->value = scratch->function + step->displacement;
		scratch->failed = !scratch->function;
		return 0;
	case ABI_STEP_READ:
		if (!scratch->failed)
			scratch->failed =
				read_user(&scratch->value, 8, scratch->value + step->displacement) != 0;
		return 0;
	case ABI_STEP_KEEP:
		scratch->kept = scratch->value;
		scratch->kept_failed = scratch->failed;
		return 0;
	case ABI_STEP_BACK:
		scratch->value = scratch->kept;
		scratch->failed = scratch->kept_failed;
		return 0;
	case ABI_STEP_OF_PROCESS:
		/* The sign tells addresses of the kernel. */
		if ((__s64)(scratch->value + step->displacement) < 0)
			scratch->failed = 1;
		return 0;
	case ABI_STEP_SHOWN:
		scratch->shown = scratch->used;
		return 0;
#ifdef OF_CALLS
	case ABI_STEP_KEPT:
		return take_kept(scratch, step->base);
#endif
#ifdef OF_EVENTS
	case ABI_STEP_FIELD:
		return load_field(scratch, step);
	case ABI_STEP_FIELD_DATA:
		return find_field_data(scratch, step);
#endif
	}
	return store(scratch, step);
}

static long one_step(__u64 i, struct scratch **context)
{
	__u32 index = (*context)->at.first_place + i;
	struct place *step = bpf_map_lookup_elem(&places, &index);

	if (!step)
		return 1;
	do_step(*context, step);
	return 0;
}

/* A step of those that `fetch_code` leaves to others. */
static __noinline int other_step(struct scratch *scratch, __u32 index)
{
	struct place *step = bpf_map_lookup_elem(&places, &index);

	return scratch && step ? do_step(scratch, step) : 0;
}

/*
 * Room for code that does what the steps of a program say, which `fetch_code.rs` writes: it is found by the
 * number of the program. The calls behind it tell where the functions are that it calls.
 */
__attribute__((noinline, weak, visibility("hidden"))) int fetch_code(struct scratch *scratch,
								     void *ctx, __u32 number)
{
	register int result asm("r0");

	asm volatile(".rept %[room]\n"
		     "r0 = %[mark]\n"
		     ".endr\n"
		     "call %[text]\n"
		     "call %[other]\n"
		     : "=r"(result)
		     : [room] "i"(ABI_FETCH_CODE_ROOM), [mark] "i"(ABI_FETCH_CODE_MARK),
		       [text] "i"(store_text), [other] "i"(other_step)
		     : "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "memory");
	return result;
}

/* Whether that code was written into this object. */
const volatile __u32 has_fetch_code SEC(".rodata.fetch_code");

static __always_inline void run_program(void *ctx, struct scratch *scratch)
{
	if (has_fetch_code && scratch->at.code)
		fetch_code(scratch, ctx, scratch->at.code);
	else
		bpf_loop(scratch->at.words + 256 * scratch->at.texts, one_step, &scratch, 0);
}

#endif
