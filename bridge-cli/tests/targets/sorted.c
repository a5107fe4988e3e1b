/* sorted COUNT: COUNT times sorts eight numbers by a function that calls leaf: between leaf and main stand
 * functions of the C library. */
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline, noclone, used)) long leaf(long value)
{
    asm volatile("" : "+r"(value));
    return value;
}

__attribute__((noinline)) static int compare(const void *a, const void *b)
{
    long difference = leaf(*(const long *)a - *(const long *)b);
    asm volatile("" : "+r"(difference));
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1, wrong = 0;
    for (long i = 0; i < count; i++) {
        long numbers[8] = {5, 3, 8, 1, 7, 2, 6, 4};
        qsort(numbers, 8, sizeof(numbers[0]), compare);
        wrong += numbers[0] != 1;
    }
    return wrong != 0;
}
