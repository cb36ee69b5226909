/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many connections without connection manager each user has opened to each peer. With qp-peers = daemons these
 * leave from ports below 1024, and a peer sees one connection from each port. So that one user leaves ports to the
 * others, it gets a share of them (user-share).
 */
#include <stdlib.h>
#include <string.h>

#include "border/flow_owner.h"
#include "control/oob.h"

#define LISTS 256u

struct oob_share {
	struct rn_link link;
	struct user *user;
	uint32_t dev;
	uint8_t peer[16]; /* IP address */
	uint32_t n;       /* connections; at 0 the share is freed */
};

static struct rn_list shares[LISTS]; /* by a hash of device and peer */

static struct rn_list *shares_of(uint32_t dev, const uint8_t peer[16])
{
	struct pkt_addr a;

	memcpy(a.b, peer, sizeof(a.b));
	return &shares[flow_endpoint(rnicd.secret, &a, (uint16_t)dev) % LISTS];
}

static struct oob_share *oob_share_find(const struct user *u, uint32_t dev, const uint8_t peer[16])
{
	rn_list_each(struct oob_share, s, shares_of(dev, peer), link) {
		if (s->user == u && s->dev == dev && memcmp(s->peer, peer, sizeof(s->peer)) == 0)
			return s;
	}
	return NULL;
}

struct oob_share *oob_share_take(struct user *u, uint32_t dev, const uint8_t peer[16])
{
	struct oob_share *s = oob_share_find(u, dev, peer);

	if (s == NULL) {
		s = calloc(1, sizeof(*s));
		if (s == NULL)
			return NULL;
		s->user = user_hold(u);
		s->dev = dev;
		memcpy(s->peer, peer, sizeof(s->peer));
		rn_list_push_front(shares_of(dev, peer), &s->link);
	}
	if (s->n >= user_part(OOB_PORTS))
		return NULL;
	s->n++;
	return s;
}

void oob_share_give(struct oob_share *s)
{
	if (--s->n > 0)
		return;
	rn_list_remove(shares_of(s->dev, s->peer), &s->link);
	user_put(s->user);
	free(s);
}
