/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What tasks are called: by the numbers of the bridge's pid namespace, as its user sees them. A task has a number in
 * each namespace from its own outwards. In the initial one that is what the kernel's own events say; a bridge in an
 * inner one does not see the tasks outside of it, and they have the number 0 here.
 *
 * Of a thread whose end has been waited for the kernel has forgotten the inner numbers: its last switch is nobody's.
 */
#ifndef TRACEBRAID_TASK_BPF_H
#define TRACEBRAID_TASK_BPF_H

#include "typed.bpf.h"

/* The inode of the bridge's pid namespace; 0: the initial one. */
const volatile __u32 pid_namespace SEC(".rodata.namespace");

/* The kernel's MAX_PID_NS_LEVEL (include/linux/pid_namespace.h), which is 32, and the initial one. */
#define NAMESPACES 33
/* enum pid_type (include/linux/pid_types.h): of processes. */
#define PIDTYPE_TGID 1

static __noinline __u32 number_here(struct pid *pid)
{
	__u64 numbers = (__u64)pid + bpf_core_field_offset(pid->numbers);
	__u32 level = field_of(struct pid, pid, level);

	for (__u32 i = 0; i < NAMESPACES && i <= level; i++) {
		__u64 number = numbers + (level - i) * bpf_core_type_size(struct upid);
		struct pid_namespace *of = field_of(struct upid, number, ns);

		if (field_of(struct pid_namespace, of, ns.inum) == pid_namespace)
			return field_of(struct upid, number, nr);
	}
	return 0;
}

static __noinline __u32 process_here(struct task_struct *task)
{
	struct signal_struct *process = task_field(task, signal);

	return number_here(field_of(struct signal_struct, process, pids[PIDTYPE_TGID]));
}

static __noinline __attribute__((unused)) __u32 thread_here(struct task_struct *task)
{
	return number_here(task_field(task, thread_pid));
}

/* Of the current task, and of a task by its address. */
#define own_tgid(task) (pid_namespace ? process_here(task) : (task)->tgid)
#define own_tid(task) (pid_namespace ? thread_here(task) : (task)->pid)
#define tgid_of(task) (pid_namespace ? process_here(task) : task_field(task, tgid))
#define tid_of(task) (pid_namespace ? thread_here(task) : task_field(task, pid))

#endif
