// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Probes in user code: the slots of a tracebraid tracepoint with the text they lead to, the arguments of
 * any other USDT probe, or what the fetch program of a definition says.
 *
 * The programs may sleep, since memory that nobody has touched yet can only be read by faulting it in.
 * They may be preempted too, so they hold no per-CPU data.
 */
#include "shared.bpf.h"

/* Memory that is there costs no fault handling; only what is not is faulted in. */
static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	if (bpf_probe_read_user(to, size, (void *)address) == 0)
		return 0;
	return bpf_copy_from_user(to, size, (void *)address);
}

static __always_inline long read_string(char *to, __u32 limit, __u64 address)
{
	return bpf_probe_read_user_str(to, limit, (void *)address);
}

/* Text that lies in memory which nobody has touched yet: its pages are faulted in, two at most. */
static __noinline long read_cold_text(char *to, __u64 address)
{
	__u64 next_page = (address | 4095) + 1;
	long length;

	if (!to || bpf_copy_from_user(to, 1, (void *)address))
		return -1;
	length = bpf_probe_read_user_str(to, settings.string_limit, (void *)address);
	if (length >= 0 || bpf_copy_from_user(to, 1, (void *)next_page))
		return length;
	return bpf_probe_read_user_str(to, settings.string_limit, (void *)address);
}

/*
 * The address that is probed. Before 6.6 the kernel does not tell it; of a return it is where the kernel keeps
 * what this thread returns to.
 */
static __noinline __u64 function_of(void *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 function = bpf_get_func_ip(context);

	if (!function && bpf_core_field_exists(struct uprobe_task, return_instances) &&
	    bpf_core_field_exists(struct return_instance, func))
		function = BPF_CORE_READ(task, utask, return_instances, func);
	return function;
}

#define is_hit_wanted is_user_wanted
#define OF_CALLS
#define OF_SIZED_TEXTS
#include "probe.bpf.h"

SEC("uprobe.multi.s")
int user_multi(void *ctx)
{
	return hit(ctx, bpf_get_attach_cookie(ctx));
}

SEC("uprobe.s")
int user_single(void *ctx)
{
	return hit(ctx, bpf_get_attach_cookie(ctx));
}
