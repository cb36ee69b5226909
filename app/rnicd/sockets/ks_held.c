/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports that were chosen for the connection manager. A program that binds an id to port 0 knows the port at once, and
 * listens later. So the kernel (or rnicd) itself chooses the port, and a bound socket holds the port on each device of
 * the id. The listener, or the connection that the id opens, takes the socket over.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sockets/ks.h"

#define TRIES 64u /* ports that are free on one device and in use on another */

struct held {
	struct ks_src src;
	struct rn_link link;
	uint32_t dev;
	uint16_t port;
};

static struct rn_list all;

bool ks_addr_has_gone(void) { return errno == EADDRNOTAVAIL || errno == ENODEV; }

/* Holds the port on the device. 0: any port. Returns the port; 0 and errno. */
static uint16_t hold_on(uint32_t dev, uint16_t port)
{
	const struct conn_addr at = { .port = dev, .local = rnicd.port[dev]->cfg->ip, .lport = port };
	struct held *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return 0;
	h->src = (struct ks_src){ .kind = KS_CONN, .fd = -1 };
	if (!ks.net->open(&h->src, &at)) {
		const int err = errno;
		free(h);
		errno = err;
		return 0;
	}
	h->dev = dev;
	h->port = ks.net->lport(&h->src);
	pthread_mutex_lock(&ks.lock);
	rn_list_push_front(&all, &h->link);
	pthread_mutex_unlock(&ks.lock);
	return h->port;
}

uint32_t ks_distinct(uint32_t devs)
{
	for (uint32_t d = 0; d < rnicd.n_ports; d++)
		for (uint32_t e = d + 1; (devs >> d & 1) != 0 && e < rnicd.n_ports; e++)
			if (ks_has_addr(e, &rnicd.port[d]->cfg->ip, rnicd.port[d]->if_index))
				devs &= ~(UINT32_C(1) << e);
	return devs;
}

/* Of several devices, those are left out whose address the host no longer has. */
uint16_t ks_hold(uint32_t devs)
{
	devs = ks_distinct(devs);
	uint32_t chooser = (uint32_t)__builtin_ctz(devs);

	for (uint32_t i = 0; i < TRIES; i++) {
		const uint16_t port = hold_on(chooser, 0);
		uint32_t left = devs & ~(UINT32_C(1) << chooser);
		for (; port != 0 && left != 0; left &= left - 1)
			if (hold_on((uint32_t)__builtin_ctz(left), port) == 0)
				break;
		if (port != 0 && left == 0)
			return port;
		const uint32_t failed = port == 0 ? chooser : (uint32_t)__builtin_ctz(left);
		const int err = errno;
		ks_hold_end(devs & ~left, port); /* on the others another id may hold the port */
		errno = err;
		if (ks_addr_has_gone() && (devs & (devs - 1)) != 0) {
			devs &= ~(UINT32_C(1) << failed);
			chooser = (uint32_t)__builtin_ctz(devs);
		} else if (port != 0 && err == EADDRINUSE) {
			chooser = failed; /* it knows which ports are free there */
		} else {
			return 0;
		}
	}
	return 0;
}

void ks_hold_end(uint32_t devs, uint16_t port)
{
	pthread_mutex_lock(&ks.lock);
	for (; devs != 0; devs &= devs - 1) {
		struct ks_src src = { .kind = KS_CONN, .fd = -1 };
		if (ks_held(&src, (uint32_t)__builtin_ctz(devs), port))
			ks.net->close(&src);
	}
	pthread_mutex_unlock(&ks.lock);
}

bool ks_held(struct ks_src *to, uint32_t dev, uint16_t port)
{
	rn_list_each(struct held, h, &all, link) {
		if (h->dev != dev || h->port != port)
			continue;
		to->fd = h->src.fd;
		to->sock = h->src.sock;
		rn_list_remove(&all, &h->link);
		free(h);
		return true;
	}
	return false;
}

void ks_held_close(void)
{
	rn_list_each(struct held, h, &all, link)
		close(h->src.fd);
}
