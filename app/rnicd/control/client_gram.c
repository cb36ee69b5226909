/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram queue pairs: which kinds a device has, and what they need beyond a connected queue pair. */
#include <errno.h>
#include <string.h>

#include "border/policy.h"
#include "control/client.h"
#include "control/dev.h"
#include "control/rd_memory.h"
#include "control/udp_port.h"

/* Why the device has no datagram queue pairs. */
static const char *none_there(void)
{
	return client_by_design(
		"there are no datagram queue pairs on the device: set 'datagram-port' in rnicd's configuration",
		"there are no datagram queue pairs on the device: another program or user has its UDP port. "
		"Choose another one on all hosts (RNIC_EMBEDDED_KEYS=datagram-port=PORT)",
		"there are no datagram queue pairs with the designs host and assisted: run the program without "
		"--design");
}

const char *client_gram_refusal(const struct client *c, const struct ipc_create_qp *r, uint32_t dev, int *err)
{
	const struct rnicd_port *port = rnicd.port[dev];

	*err = EINVAL;
	if (r->datagram != IPC_UD_NONE && ud_mtu(port) == 0)
		return none_there();
	if ((r->rd_flags & ~(uint32_t)(r->datagram == IPC_RD ? IPC_RD_FLAGS : 0)) != 0)
		return "only reliable datagrams may be unordered, or fail as a whole";
	if (r->maps != 0 && r->datagram != IPC_UD_LONG)
		return "only queue pairs that records are written to have maps of them";
	if (r->maps > QP_MAPS_MAX)
		return "it asks for more maps of records than a queue pair may have";
	*err = EOPNOTSUPP;
	if (r->datagram == IPC_RD && rnicd.own)
		return "reliable datagrams are rnicd's alone: start it, and run the program without --embedded";
	if (r->datagram == IPC_RD && port->mtu < RD_MTU_MIN)
		return "reliable datagrams need an MTU of 1500: set 'mtu' of the device in rnicd's configuration";
	if (r->udp_port == 0)
		return NULL;
	if (r->datagram == IPC_UD_LONG && r->udp_port <= UINT16_MAX)
		return udp_port_refusal(c, dev, (uint16_t)r->udp_port, err);
	*err = EINVAL;
	return "a UDP port of its own is between 1 and 65535, and of a queue pair of unreliable datagrams that "
	       "rnicdv_create_qp() makes";
}

const char *client_gram_why(int err)
{
	switch (err) {
	case 0: /* from rnicd's workers only */
		return "no room for another datagram queue pair: raise 'flows' in rnicd's configuration";
	case EADDRINUSE:
		return "queue pair: another queue pair or program of the host has the UDP port that it asks for: "
		       "choose another port";
	case EACCES: return "queue pair: UDP ports below 1024 are root's: choose another one";
	case EMFILE: return "queue pair: its UDP port needs a file descriptor: raise the program's limit (ulimit -n)";
	default: return strerror(err);
	}
}

size_t client_gram_size(const struct ipc_create_qp *r)
{
	/* a connected queue pair is smaller than a datagram queue pair of either kind */
	return r->datagram == IPC_RD        ? sizeof(struct rd_qp)
	       : r->datagram == IPC_UD_LONG ? sizeof(struct ud_long_qp)
					    : sizeof(struct ud_qp);
}

static bool begin_long(struct client_qp *q, const struct ipc_create_qp *r)
{
	const struct client_region *at = &q->c->region[IPC_REGION_QUEUES];
	struct dgram_msgs *g = &rn_container_of(ud_of(q->qp), struct ud_long_qp, u)->msgs;
	const struct spsc_place ring = { .region = at->base,
					 .region_size = at->size,
					 .off = r->maps_off,
					 .nslots = r->maps,
					 .slot_size = QP_MAP_SIZE };

	dgram_msgs_init(g, q->qp, ud_segment(rnicd.port[q->pd->dev]), ud_unit(rnicd.port[q->pd->dev]),
			(uint32_t)dev_random());
	if (r->udp_port != 0 && !udp_port_take(q->c->user, q->pd->dev, (uint16_t)r->udp_port))
		return false;
	q->udp_port = (uint16_t)r->udp_port;
	if (r->maps == 0)
		return true;
	if (dgram_msgs_maps(g, &ring) != SPSC_OK)
		return false;
	q->maps = (struct span){ .off = r->maps_off, .len = spsc_size(r->maps, QP_MAP_SIZE) };
	return spans_take(&q->c->spans, &q->maps) == SPAN_OK;
}

bool client_gram_begin(struct client_qp *q, const struct ipc_create_qp *r)
{
	const struct rd_manner manner = { .loose = (r->rd_flags & IPC_RD_UNORDERED) != 0,
					  .strict = (r->rd_flags & IPC_RD_STRICT) != 0 };

	if (r->datagram == IPC_UD_LONG)
		return begin_long(q, r);
	return r->datagram != IPC_RD || rd_qp_init(q->qp, rd_memory(q->pd->dev, q->qpn), manner) == QP_OK;
}

void client_gram_end(struct client_qp *q)
{
	if (q->udp_port != 0)
		udp_port_give(q->c->user, q->pd->dev, q->udp_port);
	q->udp_port = 0;
	spans_give(&q->c->spans, &q->maps);
}
