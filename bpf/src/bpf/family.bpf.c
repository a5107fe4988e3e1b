// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Which processes are meant where children are followed: a set that grows with each fork in it, before
 * the child runs its first instruction, and shrinks when the kernel lets go of a process. Sessions take
 * the same set as their filter.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#include "task.bpf.h"

/* Made by the bridge, which puts the first ones in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} processes SEC(".maps");
/* How many found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} left_out SEC(".maps");

/*
 * The numbers of processes whose last thread has ended, by those in the initial namespace: when the kernel lets go
 * of them it knows no others.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} ended SEC(".maps");

/* args: parent, child. The child has not been woken yet. A new thread is no new process. */
SEC("raw_tp/sched_process_fork")
int family_fork(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 parent = tgid_of((struct task_struct *)ctx->args[0]);
	__u32 child = tgid_of((struct task_struct *)ctx->args[1]);
	__u32 one = 1, zero = 0;
	__u64 *count;

	if (parent == child || !bpf_map_lookup_elem(&processes, &parent))
		return 0;
	if (bpf_map_update_elem(&processes, &child, &one, 0)) {
		count = bpf_map_lookup_elem(&left_out, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	return 0;
}

/* args: task. Attached only where numbers are of an inner namespace. */
SEC("raw_tp/sched_process_exit")
int family_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 process = BPF_CORE_READ(task, tgid), here = tgid_of(task);

	if (BPF_CORE_READ(task, signal, live.counter) == 0 && bpf_map_lookup_elem(&processes, &here))
		bpf_map_update_elem(&ended, &process, &here, 0);
	return 0;
}

/* args: task, of which nothing will be heard any more. Its first thread stands for the process. */
SEC("raw_tp/sched_process_free")
int family_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 process = BPF_CORE_READ(task, tgid), *here = &process;

	if (process != BPF_CORE_READ(task, pid))
		return 0;
	if (pid_namespace) {
		here = bpf_map_lookup_elem(&ended, &process);
		if (!here)
			return 0;
	}
	bpf_map_delete_elem(&processes, here);
	if (pid_namespace)
		bpf_map_delete_elem(&ended, &process);
	return 0;
}
