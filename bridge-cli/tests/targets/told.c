/* told WHAT…: does what it is told, one after the other:
 *   getppid A B C TEXT ID        asks for its parent with arguments that the system call does not have; TEXT
 *                                may be NULL
 *   openat DFD PATH FLAGS MODE   opens, and closes what it got
 *   name NAME                    calls itself so
 * Numbers as strtoll reads them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static long number(const char *text)
{
    return *text == '-' ? strtoll(text, NULL, 0) : (long)strtoull(text, NULL, 0);
}

int main(int argc, char **argv)
{
    for (int at = 1; at < argc;) {
        const char *what = argv[at];
        char **with = argv + at + 1;
        int left = argc - at - 1;
        if (!strcmp(what, "getppid") && left >= 5) {
            const char *text = strcmp(with[3], "NULL") ? with[3] : NULL;
            syscall(SYS_getppid, number(with[0]), number(with[1]), number(with[2]), text, number(with[4]), 0);
            at += 6;
        } else if (!strcmp(what, "openat") && left >= 4) {
            int file = openat((int)number(with[0]), with[1], (int)number(with[2]), (mode_t)number(with[3]));
            if (file >= 0)
                close(file);
            at += 5;
        } else if (!strcmp(what, "name") && left >= 1) {
            prctl(PR_SET_NAME, with[0]);
            at += 2;
        } else {
            fprintf(stderr, "told: cannot %s\n", what);
            return 2;
        }
    }
    return 0;
}
