/* kernel_calls FILE: opens FILE and reads five bytes of it, opens a file that there is not (whose name it has
 * looked at before, so that it is in memory), asks for its parent with arguments that the system call does not
 * have, and takes another name. Ends with status 3. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const volatile char missing[] = "/no/such/file";

int main(int argc, char **argv)
{
    int file = open(argc > 1 ? argv[1] : "/dev/null", O_RDONLY);
    char bytes[5];
    if (read(file, bytes, sizeof bytes) != sizeof bytes)
        return 4;
    if (missing[0] == '/')
        open((const char *)missing, O_RDONLY);
    syscall(SYS_getppid, 0xff82, -5L, 0x123456789abcdef0L, "hello", 77, 0);
    prctl(PR_SET_NAME, "renamed");
    printf("OPENED %d\n", file);
    return 3;
}
