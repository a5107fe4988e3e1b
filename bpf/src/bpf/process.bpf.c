// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The life of processes, from raw tracepoints: fork (of the parent), exec, exit. */
#define FILTER_RECORDS
#include "shared.bpf.h"

/* args: parent, child */
SEC("raw_tp/sched_process_fork")
int process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0];
	struct fork_record record;

	if (!is_task_wanted(parent) || !cpu_wanted())
		return 0;
	if (only_counted(settings.kernel_entry[ABI_PROCESS_FORK]))
		return 0;
	fill_header(&record.header, settings.kernel_entry[ABI_PROCESS_FORK]);
	fill_task(&record.parent, parent);
	fill_task(&record.child, (void *)ctx->args[1]);
	emit(ctx, ABI_SLOT_FORK, &record.header, sizeof(record));
	return 0;
}

/*
 * args: task, tid before, binprm. The name goes straight into the ring: it is kernel memory that was
 * just written, so the copy neither faults nor sleeps, and no stack could hold it.
 */
SEC("raw_tp/sched_process_exec")
int process_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct linux_binprm *binprm = (void *)ctx->args[2];
	const char *name = BPF_CORE_READ(binprm, filename);
	struct exec_record record, *room = NULL;
	struct counter *counter;
	unsigned long flags;
	void *ring;

	if (!is_current_wanted() || !cpu_wanted())
		return 0;
	if (only_counted(settings.kernel_entry[ABI_PROCESS_EXEC]))
		return 0;
	fill_header(&record.header, settings.kernel_entry[ABI_PROCESS_EXEC]);
	record.old_tid = ctx->args[1];
	/* That it was another thread's is known, but not what its number is here. */
	if (pid_namespace)
		record.old_tid = ctx->args[1] == bpf_get_current_task_btf()->pid ? record.header.tid : 0;
	record.length = 0;
	counter = counter_of(record.header.entry);
	if (counter)
		__sync_fetch_and_add(&counter->hits, 1);
	if (settings.filters && !is_record_wanted(ABI_SLOT_EXEC, &record.header, sizeof(record))) {
		count_filtered(counter);
		return 0;
	}
	if (settings.count_only)
		return 0;
	keep_others_away(flags);
	ring = ring_here();
	if (ring)
		room = bpf_ringbuf_reserve(ring, sizeof(record) + settings.string_limit, 0);
	if (room) {
		record.header.time = bpf_ktime_get_ns();
		__builtin_memcpy(room, &record, sizeof(record));
		room->length = bpf_probe_read_kernel_str(room + 1, settings.string_limit, name);
		bpf_ringbuf_submit(room, BPF_RB_NO_WAKEUP);
	} else if (counter) {
		__sync_fetch_and_add(&counter->ring_full, 1);
	}
	let_others_in(flags);
	return 0;
}

/* args: task; from 6.16 on, whether it was the last thread of its process */
SEC("raw_tp/sched_process_exit")
int process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	struct task_record record;

	if (!is_current_wanted() || !cpu_wanted())
		return 0;
	if (only_counted(settings.kernel_entry[ABI_PROCESS_EXIT]))
		return 0;
	fill_header(&record.header, settings.kernel_entry[ABI_PROCESS_EXIT]);
	fill_task(&record.task, task);
	record.first = settings.exit_tells_last ? ctx->args[1] & 1 :
						  BPF_CORE_READ(task, signal, live.counter) == 0;
	record.second = 0;
	emit(ctx, ABI_SLOT_EXIT, &record.header, sizeof(record));
	return 0;
}
