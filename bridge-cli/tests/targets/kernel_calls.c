/* kernel_calls FILE: opens FILE, a file that there is not, and asks for its parent with arguments that the
 * system call does not have. Ends with status 3. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int file = open(argc > 1 ? argv[1] : "/dev/null", O_RDONLY);
    open("/no/such/file", O_RDONLY);
    syscall(SYS_getppid, 0xff82, -5L, 0x123456789abcdef0L, "hello", 77, 0);
    printf("OPENED %d\n", file);
    return 3;
}
