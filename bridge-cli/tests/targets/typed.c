/* typed COUNT: COUNT times shop:sold(text, number, constant), at two places, and it prints what was sold. */
#include <stdio.h>
#include <stdlib.h>
#include "usdt.h"

USDT_SEMAPHORE(shop, sold);

struct item {
	const char *name;
	unsigned short sizes[3];
};

#define SOLD(item, count)                                                                             \
	__asm__ volatile(USDT_NOTE(shop, sold, "shop_sold_semaphore", "8@%0 -4@%1 2@%2 8@%3")::"r"(       \
				 (item)->name),                                                                   \
			 "m"(count), "i"(7), "r"(item))

__attribute__((noinline)) static void sell(struct item *item, int count)
{
	if (USDT_ENABLED(shop, sold))
		SOLD(item, count);
	printf("sold text=\"%s\" arg1=%d arg2=7 name=\"%s\" sizes={%u,%u,%u}\n", item->name, count, item->name,
	       item->sizes[0], item->sizes[1], item->sizes[2]);
	count = -count;
	if (USDT_ENABLED(shop, sold))
		SOLD(item, count);
	printf("sold text=\"%s\" arg1=%d arg2=7 name=\"%s\" sizes={%u,%u,%u}\n", item->name, count, item->name,
	       item->sizes[0], item->sizes[1], item->sizes[2]);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	struct item pens = { "two pens", { 3, 4, 65000 } };

	for (int i = 0; i < rounds; i++)
		sell(&pens, 42 + i);
	return 0;
}
