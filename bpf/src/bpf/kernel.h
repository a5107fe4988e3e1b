/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The few kernel types that the programs touch, in place of a generated vmlinux.h. Structures marked
 * for CO-RE hold only the fields that are read: the loader finds each by name in the running kernel.
 */
#ifndef TRACEBRAID_KERNEL_H
#define TRACEBRAID_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum { BPF_F_MMAPABLE = 1024 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_F_USER_STACK = 256 };

struct bpf_dynptr {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	/* From the initial namespace inwards, one more than the level. */
	struct upid numbers[1];
};

struct signal_struct {
	atomic_t live;
	struct pid *pids[4];
};

struct return_instance {
	unsigned long func;
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

/* A return that the kernel's own probes have led to themselves. */
struct rethook_node {
	struct llist_node llist;
	unsigned long ret_addr;
	/* Where on the stack the address was. */
	unsigned long frame;
};

struct thread_info {
	__u32 status;
	__u32 cpu;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	/* Of those that it lies in, itself the last. */
	struct cgroup *ancestors[1];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	int exit_state;
	int pid;
	int tgid;
	int prio;
	struct pid *thread_pid;
	char comm[16];
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct uprobe_task *utask;
	struct llist_head rethooks;
};

/* Where a system call's arguments and its number are. */
#ifdef __TARGET_ARCH_x86
struct pt_regs {
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
};
#else
struct pt_regs;
#endif

struct linux_binprm {
	const char *filename;
};

#pragma clang attribute pop

#endif
