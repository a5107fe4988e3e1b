/* frames INTERFACE FILE: when told to go, switches the interface on and sends three frames out of it; when told
 * again, opens FILE. Says how many of the frames were taken. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "ready.h"

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int sent = 0, packets = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    struct ifreq interface = {0};
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_halen = ETH_ALEN};
    unsigned char frame[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};

    say_ready();
    await_go();
    strncpy(interface.ifr_name, argv[1], IFNAMSIZ - 1);
    interface.ifr_flags = IFF_UP;
    ioctl(packets, SIOCSIFFLAGS, &interface);
    to.sll_ifindex = (int)if_nametoindex(argv[1]);
    for (int i = 0; i < 3; i++)
        sent += sendto(packets, frame, sizeof(frame), 0, (struct sockaddr *)&to, sizeof(to)) == sizeof(frame);
    close(packets);
    printf("SENT %d\n", sent);
    fflush(stdout);
    await_go();
    close(open(argv[2], O_RDONLY));
    return 0;
}
