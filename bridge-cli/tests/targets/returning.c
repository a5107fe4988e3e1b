/* returning THREADS: calls whose returns a probe awaits with what they were called with: recursive ones in
 * several threads, some that are left by longjmp, one that tail-calls, and one that two processes return from.
 * Parameters are overwritten before the return. Ends with status 3. */
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct wide {
	uint64_t a, b, c;
};

static volatile long sink;

/* What is passed on the stack and in the registers of arguments is used for something else. */
__attribute__((noipa)) static void scramble(long a, long b, long c, long d, long e, long f, long g)
{
	sink += a + b + c + d + e + f + g;
}

/* 2 * depth(n - 1) + n */
__attribute__((noipa)) long depth(int n, const char *name, long c, long d, long e, long f, long seventh)
{
	long below = 0, own = n;

	if (n > 0)
		below = depth(n - 1, name, c, d, e, f, seventh + 1);
	*(volatile long *)&seventh = -1;
	scramble(-1, -2, -3, -4, -5, -6, -7);
	return 2 * below + own;
}

static jmp_buf out;

__attribute__((noipa)) int jumps(int n, int jump)
{
	if (n == 0) {
		if (jump)
			longjmp(out, 1);
		return 0;
	}
	n = jumps(n - 1, jump);
	/* Not in a loop, which the compiler could make of it. */
	scramble(n, 0, 0, 0, 0, 0, 0);
	return n + 1;
}

__attribute__((noipa)) long last(long value)
{
	return value + 1;
}

__attribute__((noipa)) long first(long value, long other)
{
	sink += other;
	return last(value * 10);
}

__attribute__((noipa)) int large(struct wide wide, int number)
{
	memset((void *)(volatile struct wide *)&wide, 0xff, sizeof wide);
	sink += wide.a;
	return number + 1;
}

__attribute__((noipa)) int forks(int number)
{
	pid_t child = fork();

	scramble(1, 2, 3, 4, 5, 6, 7);
	return child == 0 ? 0 : number;
}

static void *run(void *name)
{
	for (int round = 0; round < 20; round++)
		depth(6, name, 0, 0, 0, 0, 100);
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t threads[16];
	struct wide wide = { 11, 22, 33 };

	for (int i = 0; i < count && i < 16; i++)
		pthread_create(&threads[i], NULL, run, "thread");
	for (int i = 0; i < count && i < 16; i++)
		pthread_join(threads[i], NULL);
	depth(100, "deep", 0, 0, 0, 0, 0);
	if (setjmp(out) == 0)
		jumps(5, 1);
	jumps(3, 0);
	first(7, 8);
	large(wide, 4);
	if (forks(9) == 0)
		_exit(0);
	wait(NULL);
	return 3;
}
