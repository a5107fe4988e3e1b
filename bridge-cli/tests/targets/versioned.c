/* A library with two functions of one symbol, each of a version, and one that has a version alone; and a function
 * in assembly whose symbol says neither what it is nor how long. Linked with versioned.map. */
__attribute__((noinline)) int rate_first(int value)
{
	return value + 1;
}

__attribute__((noinline)) int rate_second(int value)
{
	return value + 2;
}

__asm__(".symver rate_first,rate@FIRST\n.symver rate_second,rate@@SECOND");

int single(int value)
{
	return value + 3;
}

int bare(int value);
__asm__(".text\n.globl bare\nbare: lea 4(%rdi),%eax\nret");

static int fast(int value)
{
	return value * 2;
}

int slow(int value)
{
	return value + value;
}

static int (*pick(void))(int)
{
	return __builtin_cpu_supports("sse2") ? fast : slow;
}

int twice(int value) __attribute__((ifunc("pick")));
