/* Calls take(text, length) with texts of many lengths, each of the letter a. */
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) void take(const char *text, int length)
{
	__asm__ volatile("" ::"r"(text), "r"(length) : "memory");
}

int main(void)
{
	static const int lengths[] = { 0, 1, 14, 15, 16, 17, 62, 63, 64, 65, 4094, 4095, 4096, 5000, 1000000 };
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		char *text = malloc(lengths[i] + 1);
		memset(text, 'a', lengths[i]);
		text[lengths[i]] = 0;
		take(text, lengths[i]);
		free(text);
	}
	return 0;
}
