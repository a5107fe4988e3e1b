/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How programs of the kernel's own probes read memory, and know where the function begins. They never sleep:
 * memory of the process that is not there is a fault.
 */
#ifndef TRACEBRAID_KERNEL_MEMORY_BPF_H
#define TRACEBRAID_KERNEL_MEMORY_BPF_H

/* User and kernel addresses do not overlap: the sign tells them apart. */
static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	if ((__s64)address >= 0)
		return bpf_probe_read_user(to, size, (void *)address);
	return bpf_probe_read_kernel(to, size, (void *)address);
}

static __always_inline long read_string(char *to, __u32 limit, __u64 address)
{
	if ((__s64)address >= 0)
		return bpf_probe_read_user_str(to, limit, (void *)address);
	return bpf_probe_read_kernel_str(to, limit, (void *)address);
}

static __always_inline long read_cold_text(char *to, __u64 address)
{
	return -1;
}

static __always_inline __u64 function_of(void *context)
{
	return bpf_get_func_ip(context);
}

#endif
