// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * System calls, from raw tracepoints: all of them, or those whose numbers have an entry. Calls by
 * another ABI (32-bit, x32) number differently and are left out, as the kernel's own syscalls:* are.
 */
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

/* args: registers, number */
SEC("raw_tp/sys_enter")
int sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 number = ctx->args[1];
	__u32 entry = entry_of(&enter_entries, number);
	struct registers registers;
	struct enter_record record;

	if (entry == ABI_NO_ENTRY || !is_current_wanted() || !cpu_wanted() || is_foreign_abi(number))
		return 0;
	if (only_counted(entry))
		return 0;
	fill_header(&record.header, entry);
	record.number = number;
	bpf_probe_read_kernel(&registers, sizeof(registers), (void *)ctx->args[0]);
	record.arguments[0] = registers.word[ARGUMENT_0];
	record.arguments[1] = registers.word[ARGUMENT_1];
	record.arguments[2] = registers.word[ARGUMENT_2];
	record.arguments[3] = registers.word[ARGUMENT_3];
	record.arguments[4] = registers.word[ARGUMENT_4];
	record.arguments[5] = registers.word[ARGUMENT_5];
	emit(&record.header, sizeof(record));
	return 0;
}

/* args: registers, result. The number is still in the registers. */
SEC("raw_tp/sys_exit")
int sys_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct registers *registers = (void *)ctx->args[0];
	struct exit_record record;
	__s64 number = -1;
	__u32 entry;

#ifdef CALL_NUMBER
	bpf_probe_read_kernel(&number, 8, &registers->word[CALL_NUMBER]);
#else
	{
		__s32 narrow = -1;

		/* syscallno follows pstate and orig_x0 on arm64. */
		bpf_probe_read_kernel(&narrow, 4, (char *)registers + 35 * 8);
		number = narrow;
	}
#endif
	entry = entry_of(&exit_entries, number);
	if (entry == ABI_NO_ENTRY || !is_current_wanted() || !cpu_wanted() || is_foreign_abi(number))
		return 0;
	if (only_counted(entry))
		return 0;
	fill_header(&record.header, entry);
	record.number = number;
	record.result = ctx->args[1];
	emit(&record.header, sizeof(record));
	return 0;
}
