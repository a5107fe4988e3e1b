/* versions LIBRARY: calls both versions of `rate` of the library and its `bare`, three times each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!library)
		return 1;
	int (*first)(int) = (int (*)(int))dlvsym(library, "rate", "FIRST");
	int (*second)(int) = (int (*)(int))dlvsym(library, "rate", "SECOND");
	int (*bare)(int) = (int (*)(int))dlsym(library, "bare");
	for (int i = 0; i < 3; i++)
		printf("%d %d %d\n", first(10 + i), second(20 + i), bare(30 + i));
	return 0;
}
