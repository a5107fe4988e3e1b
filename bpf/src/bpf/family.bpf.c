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

/* args: parent, child. The child has not been woken yet. A new thread is no new process. */
SEC("raw_tp/sched_process_fork")
int family_fork(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 parent = BPF_CORE_READ((struct task_struct *)ctx->args[0], tgid);
	__u32 child = BPF_CORE_READ((struct task_struct *)ctx->args[1], tgid);
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

/* args: task, of which nothing will be heard any more. Its first thread stands for the process. */
SEC("raw_tp/sched_process_free")
int family_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 process = BPF_CORE_READ(task, tgid);

	if (process == BPF_CORE_READ(task, pid))
		bpf_map_delete_elem(&processes, &process);
	return 0;
}
