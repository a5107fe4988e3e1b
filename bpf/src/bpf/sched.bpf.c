// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Scheduler events, from raw tracepoints. Each is wanted for the task that plays its part: a switch
 * for who leaves or who comes, a wake for who is woken, a migration for who moves.
 */
#define FILTER_RECORDS
#include "shared.bpf.h"

/* linux/sched.h; the same since 6.1. */
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_REPORT 0x007f
#define TASK_REPORT_IDLE 0x0080
#define TASK_REPORT_PREEMPTED 0x0100
#define TASK_IDLE 0x0402
#define TASK_RTLOCK_WAIT 0x1000
#define TASK_FROZEN 0x8000

/* The state as the tracepoint's own assignment makes it: one bit, the highest. */
static __always_inline __u32 reported_state(bool preempted, __u32 state, __u32 exit_state)
{
	__u32 bits = (state | exit_state) & TASK_REPORT;

	if (preempted)
		return TASK_REPORT_PREEMPTED;
	if ((state & TASK_IDLE) == TASK_IDLE)
		bits = TASK_REPORT_IDLE;
	if (state & (TASK_RTLOCK_WAIT | TASK_FROZEN))
		bits = TASK_UNINTERRUPTIBLE;
	for (int bit = 7; bit >= 0; bit--)
		if (bits & (1u << bit))
			return 1u << bit;
	return 0;
}

/* args: preempted, prev, next, prev's state */
SEC("raw_tp/sched_switch")
int sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	/* Who leaves is still the current task. */
	struct task_struct *prev = bpf_get_current_task_btf();
	struct task_struct *next = (void *)ctx->args[2];
	struct switch_record record;

	if ((!is_current_wanted() && !is_task_wanted(next)) || !cpu_wanted())
		return 0;
	if (only_counted(settings.kernel_entry[ABI_SCHED_SWITCH]))
		return 0;
	fill_header(&record.header, settings.kernel_entry[ABI_SCHED_SWITCH]);
	record.prev_prio = prev->prio;
	record.prev_state = reported_state(ctx->args[0] & 1, ctx->args[3], prev->exit_state);
	fill_task(&record.next, next);
	/* The scheduler has interrupts off here. */
	if (!is_filtered(ABI_SLOT_SCHED, &record.header, sizeof(record)))
		put_alone(ctx, ABI_SLOT_SCHED, &record.header, sizeof(record));
	return 0;
}

static __always_inline int woken(struct bpf_raw_tracepoint_args *ctx, enum abi_event event)
{
	struct task_struct *task = (void *)ctx->args[0];
	struct task_record record;

	if (!is_task_wanted(task) || !cpu_wanted() || only_counted(settings.kernel_entry[event]))
		return 0;
	fill_header(&record.header, settings.kernel_entry[event]);
	fill_task(&record.task, task);
	record.first = task_field(task, thread_info.cpu);
	record.second = 0;
	emit(ctx, ABI_SLOT_SCHED, &record.header, sizeof(record));
	return 0;
}

SEC("raw_tp/sched_waking")
int sched_waking(struct bpf_raw_tracepoint_args *ctx)
{
	return woken(ctx, ABI_SCHED_WAKING);
}

SEC("raw_tp/sched_wakeup")
int sched_wakeup(struct bpf_raw_tracepoint_args *ctx)
{
	return woken(ctx, ABI_SCHED_WAKEUP);
}

SEC("raw_tp/sched_wakeup_new")
int sched_wakeup_new(struct bpf_raw_tracepoint_args *ctx)
{
	return woken(ctx, ABI_SCHED_WAKEUP_NEW);
}

/* args: task, destination */
SEC("raw_tp/sched_migrate_task")
int sched_migrate_task(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	struct task_record record;

	if (!is_task_wanted(task) || !cpu_wanted())
		return 0;
	if (only_counted(settings.kernel_entry[ABI_SCHED_MIGRATE_TASK]))
		return 0;
	fill_header(&record.header, settings.kernel_entry[ABI_SCHED_MIGRATE_TASK]);
	fill_task(&record.task, task);
	record.first = task_field(task, thread_info.cpu);
	record.second = ctx->args[1];
	emit(ctx, ABI_SLOT_SCHED, &record.header, sizeof(record));
	return 0;
}
