/* Functions whose arguments a probe names. It prints them as a probe should, one line a call. Built with
 * and without optimisation; `volatile` and `noipa` keep what is asked for from being optimised out. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mood { CALM = 3, BUSY = -4 };

struct address {
	char town[12];
	uint16_t zip;
};

struct user {
	int64_t id;
	const char *name;
	struct address home;
	unsigned low : 3, high : 13;
	int negative : 6;
	struct user *friend;
	double weight;
	union {
		uint32_t word;
		uint8_t bytes[4];
	};
};

struct pair {
	int32_t first;
	int32_t second;
};

struct wide {
	uint64_t a, b, c;
};

struct two {
	const char *text;
	uint16_t count;
};

__attribute__((noipa)) int order(int amount, uint8_t flag, bool paid, char letter, enum mood mood,
				 const char *note, struct user *user, int64_t seventh, uint16_t eighth)
{
	printf("order amount=%d flag=%u paid=%d letter='%c' mood=%d note=\"%s\" seventh=%ld eighth=%u\n", amount,
	       flag, paid, letter, mood, note, (long)seventh, eighth);
	printf("user id=%ld name=\"%s\" town=\"%s\" zip=%u high=%u negative=%d friend=\"%s\" word=%u\n",
	       (long)user->id, user->name, user->home.town, user->home.zip, user->high, user->negative,
	       user->friend->name, user->word);
	return amount + 1;
}

__attribute__((noipa)) int by_value(struct pair pair, struct wide wide, struct two two)
{
	printf("by_value first=%d second=%d a=%lu c=%lu text=\"%s\" count=%u\n", pair.first, pair.second,
	       (unsigned long)wide.a, (unsigned long)wide.c, two.text, two.count);
	return pair.first;
}

__attribute__((noipa)) int floating(double price, int amount, float rate)
{
	printf("floating amount=%d\n", amount);
	return (int)(price * rate) + amount;
}

__attribute__((noipa)) int unused(int kept, int dropped)
{
	printf("unused kept=%d\n", kept);
	return kept;
}

static inline __attribute__((always_inline)) int folded(int value)
{
	return value * 3 + 1;
}

__attribute__((noipa)) int folds(int value)
{
	printf("folds value=%d\n", value);
	return folded(value) + folded(value + 1);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	struct user bob = { .name = "bob" };
	struct user ada = {
		.id = -5000000000, .name = "ada", .home = { "Paris", 750 }, .low = 5, .high = 4711,
		.negative = -9, .friend = &bob, .weight = 1.5, .word = 0x01020304,
	};

	for (int i = 0; i < rounds; i++) {
		struct pair pair = { -7 - i, 8 };
		struct wide wide = { 1000 + i, 2, 3 };
		struct two two = { "by value", 77 };

		order(-42 - i, 200, i % 2, 'x', BUSY, "two pens", &ada, -1234567890123, 65000);
		by_value(pair, wide, two);
		floating(2.5, 9, 1.5f);
		unused(11, 12);
		folds(5);
	}
	return 0;
}

/* As compilers call what they make of a function. */
int trimmed_copy(int value) __asm__("trimmed.constprop.0");
int trimmed_part(int value) __asm__("trimmed.isra.0.cold");

__attribute__((noipa)) int trimmed_copy(int value)
{
	return value + 1;
}

__attribute__((noipa)) int trimmed_part(int value)
{
	return value + 2;
}
