/* kernel_calls FILE: opens FILE and reads five bytes of it, opens a file that there is not, asks for its parent
 * with arguments that the system call does not have, and takes another name. It looks at its texts first, so
 * that they are in memory. Ends with status 3. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const volatile char missing[] = "/no/such/file";
static const volatile char greeting[] = "hello";

int main(int argc, char **argv)
{
    int file = open(argc > 1 ? argv[1] : "/dev/null", O_RDONLY);
    char bytes[5];
    if (read(file, bytes, sizeof bytes) != sizeof bytes)
        return 4;
    if (missing[0] == '/')
        open((const char *)missing, O_RDONLY);
    if (greeting[0] == 'h')
        syscall(SYS_getppid, 0xff82, -5L, 0x123456789abcdef0L, greeting, 77, 0);
    prctl(PR_SET_NAME, "renamed");
    printf("OPENED %d\n", file);
    return 3;
}
