/* jit COUNT [MICROSECONDS]: makes a function at run time, keeps perf's file of its name, and COUNT times calls
 * leaf through it. Ends so much later. The file stays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline, noclone, used)) void leaf(void) { asm volatile("" ::: "memory"); }

int main(int argc, char **argv)
{
    /* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    long count = argc > 1 ? atol(argv[1]) : 1;
    char path[64];
    unsigned char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    memcpy(memory + 64, code, sizeof(code));
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    FILE *names = fopen(path, "w");
    if (!names)
        return 1;
    fprintf(names, "%lx %zx made at run time\n", (unsigned long)(memory + 64), sizeof(code));
    fclose(names);
    for (long i = 0; i < count; i++) {
        ((void (*)(void (*)(void)))(memory + 64))(leaf);
        asm volatile("" ::: "memory");
    }
    if (argc > 2)
        usleep(atol(argv[2]));
    return 0;
}
