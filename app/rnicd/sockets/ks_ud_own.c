/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP ports that queue pairs have for themselves. Each has a socket at its device's address, without SO_REUSEPORT: the
 * kernel refuses the port to a second queue pair of any process and to other programs, and frees it when the process
 * ends.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sockets/ks_ud.h"

#define OWN_BUCKETS 256u

struct ks_ud_own {
	struct ks_src src;
	uint32_t port; /* index of the device */
	uint16_t udp_port;
	struct rn_link link;
};

static struct rn_list own_ports[OWN_BUCKETS];

static struct ks_ud_own *own_find(uint32_t port, uint16_t udp_port)
{
	rn_list_each(struct ks_ud_own, o, &own_ports[udp_port % OWN_BUCKETS], link)
		if (o->udp_port == udp_port && o->port == port)
			return o;
	return NULL;
}

bool ks_ud_own_put(uint32_t port, uint16_t udp_port, int fd)
{
	struct ks_ud_own *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return false;
	*o = (struct ks_ud_own){ .src = { .kind = KS_UD_OWN, .fd = fd }, .port = port, .udp_port = udp_port };
	rn_list_push_front(&own_ports[udp_port % OWN_BUCKETS], &o->link);
	ks_watch(&o->src, EPOLLIN);
	return true;
}

void ks_ud_own_close(uint32_t port, uint16_t udp_port)
{
	struct ks_ud_own *o = own_find(port, udp_port);

	ks_watch(&o->src, 0);
	close(o->src.fd);
	rn_list_remove(&own_ports[udp_port % OWN_BUCKETS], &o->link);
	free(o);
}

struct ks_src *ks_ud_own_src(uint32_t port, uint16_t udp_port)
{
	struct ks_ud_own *o = own_find(port, udp_port);

	return o != NULL ? &o->src : NULL;
}

uint16_t ks_ud_own_port(const struct ks_src *s, uint32_t *port)
{
	const struct ks_ud_own *o = rn_container_of(s, const struct ks_ud_own, src);

	*port = o->port;
	return o->udp_port;
}

void ks_ud_own_close_all(void)
{
	for (uint32_t i = 0; i < OWN_BUCKETS; i++)
		rn_list_each(struct ks_ud_own, o, &own_ports[i], link)
			close(o->src.fd);
}
