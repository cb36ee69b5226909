/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wakes a worker when packets come in, and tells a port's driver to look for packets if it needs that. The packet
 * socket's driver keeps its descriptor to itself; so a second socket on the same interface, with the smallest of
 * buffers and one byte of each packet, serves as a bell.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "plane/port.h"
#include "plane/port_host.h"

static int open_bell(unsigned int if_index)
{
	const struct sockaddr_ll at = { .sll_family = AF_PACKET,
					.sll_protocol = htons(0x0003 /* ETH_P_ALL */),
					.sll_ifindex = (int)if_index };
	struct sock_filter one_byte = BPF_STMT(BPF_RET | BPF_K, 1);
	const struct sock_fprog filter = { .len = 1, .filter = &one_byte };
	const int least = 1, yes = 1;
	/* protocol 0: the socket receives nothing until it is bound, so no other interface's packets get in */
	int s = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (s < 0)
		return -1;
	if (setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0 ||
	    setsockopt(s, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)) != 0 ||
	    setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes)) != 0 ||
	    bind(s, (const struct sockaddr *)&at, sizeof(at)) != 0) {
		close(s);
		return -1;
	}
	return s;
}

bool port_wake_open(struct rnicd_port *port)
{
	struct rte_eth_dev_info info;

	for (uint16_t q = 0; q < RNICD_MAX_WORKERS; q++)
		port->bell[q] = -1;
	if (port->cfg->kind != RNICD_PORT_AF_PACKET || rte_eth_dev_info_get(port->ethdev, &info) != 0)
		return false;
	for (uint16_t q = 0; q < port->caps.queues; q++) {
		port->bell[q] = open_bell(info.if_index);
		if (port->bell[q] < 0) {
			port_wake_close(port);
			return false;
		}
	}
	return true;
}

void port_wake_close(struct rnicd_port *port)
{
	for (uint16_t q = 0; q < RNICD_MAX_WORKERS; q++) {
		if (port->bell[q] >= 0)
			close(port->bell[q]);
		port->bell[q] = -1;
	}
}

int port_rx_fd(const struct rnicd_port *port, uint16_t queue)
{
	if (!port->caps.rx_fd)
		return -1;
	if (port->host != NULL)
		return port_host_fd(port, queue);
	return port->bell[queue] >= 0 ? port->bell[queue] : rte_eth_dev_rx_intr_ctl_q_get_fd(port->ethdev, queue);
}

void port_rx_arm(const struct rnicd_port *port, uint16_t queue)
{
	uint8_t byte;

	if (!port->caps.rx_fd || port->host != NULL) /* a worker that sleeps has emptied the socket */
		return;
	/* empties the bell's buffer: when full, with two or three packets, it signals no more */
	if (port->bell[queue] >= 0) {
		while (recv(port->bell[queue], &byte, sizeof(byte), 0) >= 0)
			;
	} else if (port->cfg->kind == RNICD_PORT_PCI) {
		/* interrupts of hardware are one-shot */
		rte_eth_dev_rx_intr_enable(port->ethdev, queue);
	}
}

/*
 * The tap driver reads only after a signal, which its descriptors send with each frame. For a worker that is busy with
 * other ports a signal costs more than reading the frame. So the descriptors send no signals, and the worker calls the
 * driver's handler itself when it is time to look (worker_read.c). A driver that works otherwise stays as it is.
 */
void port_tap_quiet(struct rnicd_port *port)
{
	for (uint16_t q = 0; q < port->caps.queues; q++) {
		struct sigaction sa;
		int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(port->ethdev, q);
		int flags = fcntl(fd, F_GETFL), signo = fcntl(fd, F_GETSIG);

		if (flags < 0 || !(flags & O_ASYNC) || signo <= 0 || sigaction(signo, NULL, &sa) != 0 ||
		    (sa.sa_flags & SA_SIGINFO) || sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN ||
		    fcntl(fd, F_SETFL, flags & ~O_ASYNC) != 0)
			return;
		port->tap_signo = signo;
		port->tap_look = sa.sa_handler;
	}
}
