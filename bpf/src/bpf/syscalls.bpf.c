// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * System calls, from raw tracepoints: all of them, or those whose numbers have an entry. Calls by
 * another ABI (32-bit, x32) number differently and are left out, as the kernel's own syscalls:* are.
 */
#define FILTER_RECORDS
#include "shared.bpf.h"

struct numbers {
	__u32 entry[ABI_SYSCALLS + 1];
};
const volatile struct numbers enter_entries SEC(".rodata.enter");
const volatile struct numbers exit_entries SEC(".rodata.exit");

#define TS_COMPAT 0x0002
#define X32_SYSCALL_BIT 0x40000000

static __always_inline bool is_foreign_abi(__u64 number)
{
#ifdef __TARGET_ARCH_x86
	struct task_struct *task = bpf_get_current_task_btf();

	return (number & X32_SYSCALL_BIT) || (task->thread_info.status & TS_COMPAT);
#else
	return false;
#endif
}

static __always_inline __u32 entry_of(const volatile struct numbers *numbers, __u64 number)
{
	return numbers->entry[number < ABI_SYSCALLS ? number : ABI_SYSCALLS];
}

/* pt_regs of the call, as far as its arguments: one copy is cheaper than six. */
struct registers {
	__u64 word[15];
};
#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_0 14
#define ARGUMENT_1 13
#define ARGUMENT_2 12
#define ARGUMENT_3 7
#define ARGUMENT_4 9
#define ARGUMENT_5 8
#define CALL_NUMBER 15
#elif defined(__TARGET_ARCH_arm64)
/* The first argument's register holds the result on the way out; at entry all six are in place. */
#define ARGUMENT_0 0
#define ARGUMENT_1 1
#define ARGUMENT_2 2
#define ARGUMENT_3 3
#define ARGUMENT_4 4
#define ARGUMENT_5 5
#else
#error "no system call registers are known for this architecture"
#endif

static __always_inline void fill_arguments(__u64 *arguments, struct pt_regs *from)
{
	struct registers registers;

#ifdef __TARGET_ARCH_x86
	if (is_typed()) {
		from = typed(struct pt_regs, from);
		arguments[0] = from->di;
		arguments[1] = from->si;
		arguments[2] = from->dx;
		arguments[3] = from->r10;
		arguments[4] = from->r8;
		arguments[5] = from->r9;
		return;
	}
#endif
	bpf_probe_read_kernel(&registers, sizeof(registers), from);
	arguments[0] = registers.word[ARGUMENT_0];
	arguments[1] = registers.word[ARGUMENT_1];
	arguments[2] = registers.word[ARGUMENT_2];
	arguments[3] = registers.word[ARGUMENT_3];
	arguments[4] = registers.word[ARGUMENT_4];
	arguments[5] = registers.word[ARGUMENT_5];
}

/* The number of the call that ends. */
static __always_inline __s64 number_of(struct pt_regs *from)
{
#ifdef __TARGET_ARCH_x86
	__s64 number = -1;

	if (is_typed())
		return typed(struct pt_regs, from)->orig_ax;
	bpf_probe_read_kernel(&number, 8, &((struct registers *)from)->word[CALL_NUMBER]);
	return number;
#else
	__s32 number = -1;

	/* syscallno follows pstate and orig_x0 on arm64. */
	bpf_probe_read_kernel(&number, 4, (char *)from + 35 * 8);
	return number;
#endif
}

/* args: registers, number */
SEC("raw_tp/sys_enter")
int sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 number = ctx->args[1];
	__u32 entry = entry_of(&enter_entries, number);
	struct enter_record record;

	if (entry == ABI_NO_ENTRY || !is_current_wanted() || !cpu_wanted() || is_foreign_abi(number))
		return 0;
	if (only_counted(entry))
		return 0;
	fill_header(&record.header, entry);
	record.number = number;
	fill_arguments(record.arguments, (void *)ctx->args[0]);
	emit(ctx, ABI_SLOT_SYS_ENTER, &record.header, sizeof(record));
	return 0;
}

/* args: registers, result. The number is still in the registers. */
SEC("raw_tp/sys_exit")
int sys_exit(struct bpf_raw_tracepoint_args *ctx)
{
	__s64 number = number_of((void *)ctx->args[0]);
	__u32 entry = entry_of(&exit_entries, number);
	struct exit_record record;

	if (entry == ABI_NO_ENTRY || !is_current_wanted() || !cpu_wanted() || is_foreign_abi(number))
		return 0;
	if (only_counted(entry))
		return 0;
	fill_header(&record.header, entry);
	record.number = number;
	record.result = ctx->args[1];
	emit(ctx, ABI_SLOT_SYS_EXIT, &record.header, sizeof(record));
	return 0;
}
