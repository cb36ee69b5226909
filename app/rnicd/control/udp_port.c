/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/udp_port.h"

#include <errno.h>
#include <stdlib.h>

#include "control/client.h"
#include "control/sk.h"

#define WORDS ((UINT16_MAX + 1) / 64)

const char *udp_port_refusal(const struct client *c, uint32_t dev, uint16_t udp_port, int *err)
{
	const char *no = sk_gram_refusal(c, dev, udp_port);

	*err = EACCES;
	if (no != NULL)
		return no;
	*err = EOPNOTSUPP;
	if (rnicd.port[dev]->cfg->personality == RNICD_EFA)
		return "a UDP port of its own makes a number of 24 bits, and those of personality efa have 16: choose "
		       "another 'personality' in rnicd's configuration";
	*err = EADDRINUSE;
	if (port_has_qp(rnicd.port[dev], udp_port) || sk_gram_has_port(dev, udp_port))
		return "another queue pair or socket has the UDP port that it asks for: choose another port";
	*err = ENOBUFS;
	if (!user_has_room(c->user, USER_UDP_PORTS, dev, 1))
		return "its user has as many UDP ports of queue pairs as a user may: raise user-share in rnicd's "
		       "configuration";
	return NULL;
}

/* relaxed: the command that tells the worker of the queue pair is sent later, and no datagram finds the queue pair
 * before. */
static void put_bit(uint64_t *bits, uint16_t udp_port, bool on)
{
	const uint64_t bit = UINT64_C(1) << udp_port % 64, word = bits[udp_port / 64];

	__atomic_store_n(&bits[udp_port / 64], on ? word | bit : word & ~bit, __ATOMIC_RELAXED);
}

bool udp_port_take(struct user *u, uint32_t dev, uint16_t udp_port)
{
	struct rnicd_port *port = rnicd.port[dev];
	uint64_t *bits = port->qp_ports != NULL ? port->qp_ports : calloc(WORDS, sizeof(*bits));

	/* Freed with the port, after the workers have ended. release: pairs with port_has_qp(). */
	__atomic_store_n(&port->qp_ports, bits, __ATOMIC_RELEASE);
	if (bits == NULL || !user_take(u, USER_UDP_PORTS, dev, 1))
		return false;
	put_bit(bits, udp_port, true);
	return true;
}

void udp_port_give(struct user *u, uint32_t dev, uint16_t udp_port)
{
	put_bit(rnicd.port[dev]->qp_ports, udp_port, false);
	user_give(u, USER_UDP_PORTS, dev, 1);
}
