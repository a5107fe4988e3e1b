/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which hits of an entry are wanted, by the values of its fields.
 *
 * The decision is code of its own for each session: `filter_code.rs` writes instructions into the room that
 * `filter_code` keeps, before the object is loaded. It branches to the filter of the entry, compares values
 * at known places with constants, and answers; an entry without a filter passes. Text is compared by
 * `filter_text` below, which that code calls with the number of a test.
 *
 * Whoever includes this says how many bytes there are behind `values`, FILTER_BYTES, and where among them
 * a walk is, FILTER_WALK.
 */
#ifndef TRACEBRAID_FILTER_BPF_H
#define TRACEBRAID_FILTER_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct text_test);
} text_tests SEC(".maps");

/* A text that is looked at, and what it is compared with. */
struct look {
	__u8 *values;
	const struct text_test *test;
};

static __always_inline struct walk *walk_of(const struct look *look)
{
	return (struct walk *)(look->values + FILTER_WALK);
}

static __always_inline __u32 byte_at(const struct look *look, __u32 at)
{
	return at < FILTER_BYTES ? look->values[at] : 0;
}

static long one_byte(__u64 i, struct look *look)
{
	struct walk *walk = walk_of(look);

	if (byte_at(look, walk->start + i))
		return 0;
	walk->last = i;
	return 1;
}

/* Looks for bytes: at one place, or at each up to the last. */
static long compare_byte(__u64 i, struct look *look)
{
	struct walk *walk = walk_of(look);
	__u32 done = walk->done;

	if (done >= look->test->length || done >= ABI_PATTERN) {
		walk->fits = 1;
		return 1;
	}
	if (byte_at(look, walk->start + done) == look->test->bytes[done]) {
		walk->done = done + 1;
		return 0;
	}
	if (walk->start >= walk->last)
		return 1;
	walk->start += 1;
	walk->done = 0;
	return 0;
}

static __always_inline bool continues(__u32 byte)
{
	return (byte & 0xc0) == 0x80;
}

/* The character at a place of the text, and behind its 32 bits how many bytes it takes. */
static __noinline __u64 character(const struct look *look, __u32 at)
{
	__u32 first, second, third, fourth, left;

	left = walk_of(look)->last - at;
	first = byte_at(look, at);
	if (first < 0x80)
		return 1ull << 32 | first;
	second = left > 1 ? byte_at(look, at + 1) : 0;
	third = left > 2 ? byte_at(look, at + 2) : 0;
	fourth = left > 3 ? byte_at(look, at + 3) : 0;
	/* Neither longer than needed, nor a surrogate, nor beyond Unicode. */
	if (first >= 0xc2 && first <= 0xdf && continues(second))
		return 2ull << 32 | (first & 0x1f) << 6 | (second & 0x3f);
	if ((first & 0xf0) == 0xe0 && continues(second) && continues(third) &&
	    !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second > 0x9f))
		return 3ull << 32 | (first & 0x0f) << 12 | (second & 0x3f) << 6 | (third & 0x3f);
	if (first >= 0xf0 && first <= 0xf4 && continues(second) && continues(third) &&
	    continues(fourth) && !(first == 0xf0 && second < 0x90) &&
	    !(first == 0xf4 && second > 0x8f))
		return 4ull << 32 | (first & 0x07) << 18 | (second & 0x3f) << 12 |
		       (third & 0x3f) << 6 | (fourth & 0x3f);
	return 1ull << 32 | (ABI_BEYOND_UNICODE + first);
}

/* Takes one part of the pattern, and the character that it stands for. */
static __noinline bool take_part(const struct look *look, __u64 part)
{
	struct walk *walk = walk_of(look);
	__u64 found = character(look, walk->start);
	__u32 code = (__u32)found;
	bool member = walk->member || (code >= (part & 0xffffff) && code <= (part >> 24 & 0xffffff));

	walk->member = member && (part & ABI_PART_MORE);
	if (!(part & ABI_PART_MORE)) {
		if (member == !!(part & ABI_PART_NEGATED))
			return false;
		walk->start += found >> 32;
	}
	walk->done += 1;
	return true;
}

static long compare_part(__u64 i, struct look *look)
{
	struct walk *walk = walk_of(look);
	__u32 done = walk->done;
	bool at_end = done >= look->test->length || done >= ABI_PATTERN;
	__u64 part = at_end ? 0 : look->test->parts[done];

	if (part & ABI_PART_RUN) {
		walk->done = walk->retry_part = done + 1;
		walk->retry_at = walk->start;
		return 0;
	}
	if (at_end && walk->start >= walk->last) {
		walk->fits = 1;
		return 1;
	}
	if (!at_end && walk->start < walk->last && take_part(look, part))
		return 0;
	/* The last run takes a character more. */
	if (!walk->retry_part || walk->retry_at >= walk->last)
		return 1;
	walk->retry_at += character(look, walk->retry_at) >> 32;
	walk->start = walk->retry_at;
	walk->done = walk->retry_part;
	walk->member = 0;
	return 0;
}

/*
 * Whether the text at `at` fits a test. `length` may have ABI_TEXT_ENDS_IN_NUL set: then it ends with its
 * first NUL, or there.
 */
static __noinline long filter_text(__u8 *values, __u32 at, __u32 length, __u32 number)
{
	const struct text_test *test = bpf_map_lookup_elem(&text_tests, &number);
	struct look look = { .values = values, .test = test };
	struct walk *walk;
	__u32 places = 1;

	if (!test || !values)
		return 0;
	walk = walk_of(&look);
	walk->start = at;
	walk->retry_part = walk->done = walk->fits = walk->member = 0;
	if (length & ABI_TEXT_ENDS_IN_NUL) {
		length &= ~ABI_TEXT_ENDS_IN_NUL;
		walk->last = length;
		bpf_loop(length, one_byte, &look, 0);
		length = walk->last;
	}
	if (test->shape == ABI_SHAPE_PARTS) {
		walk->last = at + length;
		bpf_loop((length + 2) * (test->length + 1), compare_part, &look, 0);
		return walk->fits;
	}
	if (length < test->length || (test->shape == ABI_SHAPE_WHOLE && length != test->length))
		return 0;
	walk->last = at;
	if (test->shape == ABI_SHAPE_END)
		walk->start = walk->last = at + length - test->length;
	if (test->shape == ABI_SHAPE_MIDDLE) {
		walk->last = at + length - test->length;
		places = length - test->length + 1;
	}
	bpf_loop(places * (test->length + 1), compare_byte, &look, 0);
	return walk->fits;
}

/*
 * Room for the session's code, which finds the arguments in their registers. The call behind it tells
 * `filter_code.rs` where filter_text is.
 */
__attribute__((noinline, weak, visibility("hidden"))) int filter_code(void *values, __u32 entry)
{
	register int result asm("r0");

	asm volatile(".rept %[room]\n"
		     "r0 = %[mark]\n"
		     ".endr\n"
		     "call %[text]\n"
		     : "=r"(result)
		     : [room] "i"(ABI_FILTER_ROOM), [mark] "i"(ABI_FILTER_MARK), [text] "i"(filter_text)
		     : "r1", "r2", "r3", "r4", "r5", "r6", "memory");
	return result;
}

#endif
