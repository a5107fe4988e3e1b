/* Closes a seccomp filter behind itself that kills for every system call with a number above 334, and then calls
 * `work` ten times. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include "ready.h"

__attribute__((noinline)) int work(int value)
{
	__asm__ volatile("" : "+r"(value));
	return value + 1;
}

int main(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 334, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(rules) / sizeof(*rules), rules };
	int sum = 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 1;
	say_ready();
	await_go();
	for (int i = 0; i < 10; i++)
		sum += work(i);
	printf("SUM %d\n", sum);
	return 0;
}
