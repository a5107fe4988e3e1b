/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the programs and the bridge share: settings and tables that the bridge writes, records and
 * counters that it reads. `abi.rs` says the same in Rust; both sides assert the layouts.
 *
 * The kernel side knows entries, not probes. An entry is one thing to record at one place; the bridge
 * knows which probes it serves. Every hit of an entry is counted, and ends either as one record in the
 * ring of its CPU or as one count of a loss.
 */
#ifndef TRACEBRAID_ABI_H
#define TRACEBRAID_ABI_H

#define ABI_COMM 16

/* Words of one user record: the slots of a tracepoint, or the arguments of a foreign probe. */
#define ABI_WORDS 64
/* Words of pt_regs that are kept: all of x86-64's, the general ones of arm64's. */
#define ABI_REGISTERS 34
/* Texts of one user record: each takes two slots. */
#define ABI_TEXTS 32
/* The longest string that may be asked for. */
#define ABI_STRING_LIMIT 4096
/* Words that a return probe may keep of a call's entry. */
#define ABI_KEPT 16
/* Calls of which something is kept, at most; of more the oldest are forgotten. */
#define ABI_CALLS 16384
/* The largest array that a fetch program stores in one step, bytes. */
#define ABI_ARRAY_BYTES 512
/* Different things to fetch at one address. */
#define ABI_CHAIN 4
/* The most of a user's stack that is taken, bytes. */
#define ABI_STACK_MEMORY 65528
/* CPUs that a filter can name. */
#define ABI_CPUS 4096
/* System call numbers with an entry of their own; the ones above share one. */
#define ABI_SYSCALLS 1024
/* Variable-length fields of one tracepoint. */
#define ABI_DYNAMIC 16
/* The longest raw record of a tracepoint; the kernel's own buffer is no larger. */
#define ABI_TRACEPOINT_BYTES 8192
/* No entry: the event is not wanted. */
#define ABI_NO_ENTRY 0xffffffffu

/* Events with records of their own, as indices of settings.kernel_entry. */
enum abi_event {
	ABI_SCHED_SWITCH,
	ABI_SCHED_WAKING,
	ABI_SCHED_WAKEUP,
	ABI_SCHED_WAKEUP_NEW,
	ABI_SCHED_MIGRATE_TASK,
	ABI_PROCESS_FORK,
	ABI_PROCESS_EXEC,
	ABI_PROCESS_EXIT,
	ABI_EVENTS,
};

/* Constant once loaded, so the verifier drops what a session does not use. */
struct settings {
	/* Counters of a CPU: the entries, and some more so that no two CPUs write to one cache line. */
	__u32 entries;
	/* At most ABI_STRING_LIMIT. */
	__u32 string_limit;
	/* Bytes of text that a scratch slot holds. */
	__u32 text_bytes;
	/* Scratch slots, a power of two. */
	__u32 scratch_slots;
	/* Words of pt_regs, and which of them are the first argument and the instruction pointer. */
	__u32 registers;
	__u32 first_argument;
	__u32 instruction_pointer;
	/* Which filters narrow. A single process is compared, several are looked up. */
	__u32 single_process;
	__u32 filter_processes;
	__u32 filter_threads;
	__u32 filter_excluded;
	__u32 filter_cpus;
	__u32 kernel_events_of_all;
	/* The tracepoint sched_process_exit says itself whether a thread was the last. */
	__u32 exit_tells_last;
	/* Bytes of output that fetch programs may fill; behind them is room for the heads of what did not fit.
	 * 0: there are no such programs. */
	__u32 fetch_room;
	/* Hits are counted and nothing else: no scratch, no record, no ring. */
	__u32 count_only;
	/* Some entry has a filter. */
	__u32 filters;
	/* Some return probe keeps something of the entry. */
	__u32 keeps;
	/* Something looks at the registers in the scratch slot, at the address of the probed function. */
	__u32 keeps_registers;
	__u32 asks_function;
	/* Of each solo_ring, a power of two; 0: there are none. */
	__u32 solo_bytes;
	/* Only tasks of the cgroup with this number, which lies so deep, and of those below; 0: of all. */
	__u32 cgroup_level;
	__u64 cgroup;
	__u32 kernel_entry[ABI_EVENTS];
	__u64 cpu_mask[ABI_CPUS / 64];
};

/* What is taken of stacks; constant too. Sizes are bytes. */
struct stacks {
	/* Behind the head of a slot; 0: no stacks are taken. */
	__u32 room;
	/* The most addresses of the kernel and of the user. */
	__u32 kernel_frames;
	__u32 user_frames;
	/* The most of the user's stack; at most ABI_STACK_MEMORY. */
	__u32 memory;
	/* Words of pt_regs. */
	__u32 instruction_pointer;
	__u32 stack_pointer;
	__u32 frame_pointer;
	__u32 reserved;
};

/*
 * Whose memory of a CPU something is. A program never runs while it runs already on the same CPU (the kernel's guard
 * of each), but may be preempted by a task that comes into another one: those that have a slot in common may not.
 */
enum abi_slot {
	/* The scheduler's programs, which run with interrupts off. */
	ABI_SLOT_SCHED,
	ABI_SLOT_FORK,
	ABI_SLOT_EXEC,
	ABI_SLOT_EXIT,
	ABI_SLOT_SYS_ENTER,
	ABI_SLOT_SYS_EXIT,
	/* Those of tracepoints by name, of which one runs at a time. */
	ABI_SLOT_TRACEPOINT,
	ABI_SLOTS,
};

/* Indexed by cpu * settings.entries + entry. */
struct counter {
	__u64 hits;
	/* The ring was full, or the CPU has none. */
	__u64 ring_full;
	/* No scratch slot was free. */
	__u64 no_scratch;
	/* The entry's filter did not pass it. */
	__u64 filtered;
};

/* Instructions that the code of all filters of an object may have, and what stands there before. */
#define ABI_FILTER_ROOM 4096
#define ABI_FILTER_MARK 0x7ab1e5f0
/* The same for the code of all fetch programs. */
#define ABI_FETCH_CODE_ROOM 4096
#define ABI_FETCH_CODE_MARK 0x7ab1e5f1
/* Bytes of any record of constant size. */
#define ABI_RECORD_BYTES 128
/* Bytes or parts of a pattern that a text can be compared with, and one more. */
#define ABI_PATTERN 256
/* Of the length of a text. */
#define ABI_TEXT_ENDS_IN_NUL 0x40000000u

/* The text is these bytes, begins with them, ends with them, has them in it; is made of these parts. */
enum abi_shape {
	ABI_SHAPE_WHOLE,
	ABI_SHAPE_FRONT,
	ABI_SHAPE_END,
	ABI_SHAPE_MIDDLE,
	ABI_SHAPE_PARTS,
};

/*
 * What a text is compared with. A part of a pattern is a character, between the one in the lowest 24 bits
 * and the one in the next 24, or any run of them.
 */
struct text_test {
	__u32 shape;
	__u32 length;
	union {
		__u8 bytes[ABI_PATTERN];
		__u64 parts[ABI_PATTERN];
	};
};

/* The character may be in the range of the next part too. */
#define ABI_PART_MORE (1ull << 48)
/* It may not be in the ranges. */
#define ABI_PART_NEGATED (1ull << 49)
#define ABI_PART_RUN (1ull << 50)
/* Added to a byte that begins no UTF-8 sequence. */
#define ABI_BEYOND_UNICODE 0x10ffff

enum abi_fetch {
	ABI_FETCH_SLOTS,
	ABI_FETCH_ARGUMENTS,
	ABI_FETCH_PROGRAM,
	/* Of a call's entry: its places are kept for the return, whose location `entry` is. Nothing is counted. */
	ABI_FETCH_KEEP,
};

/* What to do at an address; the cookie of a user probe is the index of one. */
struct location {
	__u32 entry;
	/* The next location of the same address, or 0. */
	__u32 next;
	/*
	 * The first of its places: one a text of ABI_FETCH_SLOTS, one a word of ABI_FETCH_ARGUMENTS, one a step
	 * of ABI_FETCH_PROGRAM, of which there are words + 256 * texts.
	 */
	__u32 first_place;
	__u8 fetch;
	__u8 words;
	__u8 texts;
	/* Something was kept of the call's entry. */
	__u8 keeps;
	/* Of ABI_FETCH_PROGRAM: the number of its code in `fetch_code`; 0: it has none, and its steps are followed. */
	__u32 code;
};

enum abi_place {
	/* Slots `base` and `index` are the address and the length of a text. */
	ABI_PLACE_TEXT,
	/* `displacement` is the value. */
	ABI_PLACE_CONSTANT,
	/* Word `base` of pt_regs, shifted right by `shift` bits. */
	ABI_PLACE_REGISTER,
	/* `width` bytes at base + (index << shift) + displacement; ABI_NO_REGISTER for neither. */
	ABI_PLACE_MEMORY,
	/* The address instruction pointer + displacement. */
	ABI_PLACE_ADDRESS,
	/* Not to be had. */
	ABI_PLACE_NONE,
	/*
	 * Steps of a fetch program, which work on one value. The first three begin an argument anew:
	 * word `base` of pt_regs + displacement, displacement, address of the probed function + displacement.
	 */
	ABI_STEP_REGISTER,
	ABI_STEP_CONSTANT,
	ABI_STEP_FUNCTION,
	/* The value becomes the word at value + displacement. */
	ABI_STEP_READ,
	/* The value is kept; the kept value comes back. */
	ABI_STEP_KEEP,
	ABI_STEP_BACK,
	/*
	 * Outputs: the value; `base` bytes at value + displacement; the text at value + displacement. Where
	 * `index` is that of a word, the word says where the output is, for filters.
	 */
	ABI_STEP_STORE,
	ABI_STEP_STORE_MEMORY,
	ABI_STEP_STORE_TEXT,
	/* Outputs from here on are for filters only: they go into no record. */
	ABI_STEP_SHOWN,
	/*
	 * Of the record of an event, each begins an argument anew: `width` bytes of it at `displacement`, with
	 * their sign where `shift` is 1; the address of what a descriptor there leads to, which counts from
	 * its own end where `shift` is 1.
	 */
	ABI_STEP_FIELD,
	ABI_STEP_FIELD_DATA,
	/* Begins an argument anew: word `base` of those that were kept of the call's entry. */
	ABI_STEP_KEPT,
	/* Output: the text at value + displacement, of as many bytes as the kept value says. */
	ABI_STEP_STORE_SIZED,
	/* A fault where value + displacement is no address of the process. */
	ABI_STEP_OF_PROCESS,
};

/* The word of pt_regs in whose place the address of an event's record stands. */
#define ABI_RECORD_WORD 21

#define ABI_NO_REGISTER 0xffff

struct place {
	__s64 displacement;
	__u16 base;
	__u16 index;
	__u8 kind;
	__u8 width;
	__u8 shift;
	__u8 reserved;
};

/* A kernel tracepoint; the cookie of its program is the index of one. */
struct tracepoint {
	__u32 entry;
	/* Bytes of the fixed part. */
	__u32 size;
	__u32 dynamic_count;
	/* Offsets of descriptors; the top bit marks one that counts from its own end. */
	__u32 dynamic[ABI_DYNAMIC];
};

#define ABI_RELATIVE 0x80000000u

/*
 * A CPU's ring for programs of which the kernel lets only one run at a time. Positions only grow. A record begins
 * with a word, which is its length with that word, and is padded to a multiple of 8. It ends behind the end of the
 * data where it does not fit before, so that none is in two pieces. Whoever has seen `begun` after a time, and
 * waited until `done` has come as far, has seen every record of before that time.
 */
struct solo_ring {
	/* All before is read: written by the bridge. */
	__u64 read;
	__u64 away_from_reader[7];
	/* Will be written, once the clock has been read. */
	__u64 begun;
	/* Is written. */
	__u64 done;
	__u64 unused[502];
	/* settings.solo_bytes, and ABI_SOLO_MORE. */
	__u8 data[];
};

/* Behind the data of a solo_ring: more than any of its records. */
#define ABI_SOLO_MORE 12288

/* ---- records ---- */

struct header {
	__u64 time;
	__u32 entry;
	__u32 tgid;
	__u32 tid;
	/* Bytes of the stack_record that ends the record; 0: there is none. */
	__u32 stack;
	__u8 comm[ABI_COMM];
};

/*
 * Addresses of the kernel follow, then the user's, innermost first, then what lies at the user's stack
 * pointer.
 */
struct stack_record {
	/* All of it. */
	__u32 bytes;
	/* Of the addresses, or an error. */
	__s32 kernel;
	__s32 user;
	__u32 memory;
	/* The registers with which user code goes on. */
	__u64 instruction_pointer;
	__u64 stack_pointer;
	__u64 frame_pointer;
};

struct task {
	__u32 tid;
	__u32 tgid;
	__s32 prio;
	__u32 reserved;
	__u8 comm[ABI_COMM];
};

/* Who leaves is still the one that the header names. */
struct switch_record {
	struct header header;
	__s32 prev_prio;
	__u32 prev_state;
	struct task next;
};

/* Wakes (first: target CPU), migrations (first: from, second: to), exits (first: last thread). */
struct task_record {
	struct header header;
	struct task task;
	__u32 first;
	__u32 second;
};

struct fork_record {
	struct header header;
	struct task parent;
	struct task child;
};

/* The file name follows, with its NUL where it was not cut. */
struct exec_record {
	struct header header;
	__u32 old_tid;
	/* What the kernel's copy returned: bytes with the NUL, or an error. */
	__s32 length;
};

struct enter_record {
	struct header header;
	__s64 number;
	__u64 arguments[6];
};

struct exit_record {
	struct header header;
	__s64 number;
	__s64 result;
};

/* `words` words follow, then `texts` text heads, then their bytes in a row. */
struct user_record {
	struct header header;
	/* Bit i: word i was read. */
	__u64 valid;
	__u16 words;
	__u16 texts;
	__u32 text_bytes;
};

enum abi_text { ABI_TEXT_READ, ABI_TEXT_NULL, ABI_TEXT_FAULT, ABI_TEXT_CUT, ABI_TEXT_NO_ROOM };

/*
 * Before each output of a fetch program: the bytes that follow in the low half (with the NUL of a text), an
 * abi_text in the high one. Outputs stand where the bytes of texts do, in the order of their steps.
 */
#define ABI_OUTPUT_HEAD 8

struct text_head {
	/* What the program said; larger than `length` when cut. */
	__u64 full_length;
	__u32 length;
	__u32 status;
};

/*
 * How far a comparison of text has come. It stands in a map and not on the stack, where the verifier would
 * follow every value that it can have.
 */
struct walk {
	/* Where what is to be compared begins; the last such place, or the text's end. */
	__u32 start;
	__u32 last;
	/* Where the last run of any characters ended as long as nothing else fitted, and the part behind it. */
	__u32 retry_at;
	__u32 retry_part;
	/* Bytes or parts that fit. */
	__u32 done;
	__u32 fits;
	/* The character is in one of the ranges so far. */
	__u32 member;
	__u32 reserved;
};

_Static_assert(sizeof(struct stacks) == 32, "stacks");
_Static_assert(ABI_SLOTS == 7, "SLOTS");
_Static_assert(sizeof(struct stack_record) == 40, "stack_record");
_Static_assert(sizeof(struct settings) == 96 + 4 * ABI_EVENTS + ABI_CPUS / 8, "settings");
_Static_assert(sizeof(struct counter) == 32, "counter");
_Static_assert(sizeof(struct text_test) == 8 + 8 * ABI_PATTERN, "text_test");
_Static_assert(sizeof(struct location) == 20, "location");
_Static_assert(sizeof(struct place) == 16, "place");
_Static_assert(sizeof(struct solo_ring) == 4096, "solo_ring");
_Static_assert(ABI_SOLO_MORE > 8 + 40 + ABI_TRACEPOINT_BYTES, "room for each record");
_Static_assert(sizeof(struct tracepoint) == 12 + 4 * ABI_DYNAMIC, "tracepoint");
_Static_assert(sizeof(struct header) == 40, "header");
_Static_assert(sizeof(struct task) == 32, "task");
_Static_assert(sizeof(struct switch_record) == 80, "switch_record");
_Static_assert(sizeof(struct task_record) == 80, "task_record");
_Static_assert(sizeof(struct fork_record) == 104, "fork_record");
_Static_assert(sizeof(struct exec_record) == 48, "exec_record");
_Static_assert(sizeof(struct enter_record) == 96, "enter_record");
_Static_assert(sizeof(struct exit_record) == 56, "exit_record");
_Static_assert(sizeof(struct user_record) == 56, "user_record");
_Static_assert(sizeof(struct text_head) == 16, "text_head");

#endif
