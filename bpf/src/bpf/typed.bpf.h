/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Kernel memory at an address. With the type of what is there, reading it is a load that gives 0 where nothing is;
 * before 6.2 it is a call.
 */
#ifndef TRACEBRAID_TYPED_BPF_H
#define TRACEBRAID_TYPED_BPF_H

extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

#define is_typed() bpf_ksym_exists(bpf_rdonly_cast)
#define typed(type, address) ((type *)bpf_rdonly_cast((const void *)(address), bpf_core_type_id_kernel(type)))
#define field_of(type, address, field)					\
	(is_typed() ? typed(type, address)->field : BPF_CORE_READ((type *)(address), field))
#define task_field(task, field) field_of(struct task_struct, task, field)

#endif
