/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/port_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_malloc.h>

#include "plane/frame.h"
#include "plane/host_seg.h"
#include "plane/pool.h"
#include "plane/port.h"
#include "plane/worker_int.h"

#define ALL_ETHERTYPES 0x0003u /* ETH_P_ALL */
#define IGNORE_OUT     0x4000u /* PACKET_FANOUT_FLAG_IGNORE_OUTGOING, Linux 5.11 */
#define SOCKET_BYTES   (8 * 1024 * 1024)
#define RX_BURST       32u
#define TX_BURST       64u
#define TX_IOV         1024u  /* the kernel's limit for one message */
#define LARGE_ROOM     65024u /* bytes of a large buffer; with one small buffer in front it holds any frame */
#define LARGE_SIZE     (LARGE_ROOM + RTE_PKTMBUF_HEADROOM)
#define LARGE_EACH     256u /* large buffers for each queue */
#define AUX_ROOM       CMSG_SPACE(sizeof(struct tpacket_auxdata))

/* A frame lands in a small buffer, and the rest of a longer frame in a large buffer behind. */
struct rx_slot {
	struct rte_mbuf *small, *large; /* small NULL: the slot is to be filled */
	struct virtio_net_hdr hdr;
	struct iovec iov[3];
	uint8_t aux[AUX_ROOM] RN_ALIGNED(sizeof(struct cmsghdr));
};

struct queue {
	int fd;
	uint32_t todo; /* slots from here on have their buffers */
	struct rx_slot slot[RX_BURST];
	struct mmsghdr rx[RX_BURST];
	struct mmsghdr tx[TX_BURST];
	uint32_t tx_frames[TX_BURST]; /* of each message */
	struct virtio_net_hdr tx_hdr[TX_BURST];
	uint8_t tx_head[TX_BURST][HOST_HDR_MAX];
	struct iovec tx_iov[TX_IOV];
};

struct port_host {
	struct rte_mempool *large;
	uint32_t n;
	struct queue queue[];
};

/* ---- control thread ---- */

static bool option(int fd, int name, int value) { return setsockopt(fd, SOL_PACKET, name, &value, sizeof(value)) == 0; }

/* Enlarges the socket's buffers: two or three large segments would fill those of the usual size. */
static void more_room(int fd)
{
	const int bytes = SOCKET_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

static bool open_queue(struct queue *q, uint32_t if_index)
{
	const struct sockaddr_ll at = { .sll_family = AF_PACKET,
					.sll_protocol = htons(ALL_ETHERTYPES),
					.sll_ifindex = (int)if_index };
	const struct packet_mreq all = { .mr_ifindex = (int)if_index, .mr_type = PACKET_MR_PROMISC };

	/* protocol 0: the socket receives nothing until it is bound, so no other interface's packets get in */
	q->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (q->fd < 0)
		return false;
	more_room(q->fd);
	return option(q->fd, PACKET_VNET_HDR, 1) && option(q->fd, PACKET_AUXDATA, 1) &&
	       option(q->fd, PACKET_IGNORE_OUTGOING, 1) && bind(q->fd, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
	       setsockopt(q->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) == 0;
}

/* The kernel spreads frames over the sockets by their flow; a worker hands frames of another worker's flow on. */
static bool fan_out(struct port_host *h)
{
	const int how = (PACKET_FANOUT_HASH | IGNORE_OUT) << 16;
	int id;
	socklen_t len = sizeof(id);

	if (h->n == 1)
		return true;
	if (!option(h->queue[0].fd, PACKET_FANOUT, how | (int)PACKET_FANOUT_FLAG_UNIQUEID << 16) ||
	    getsockopt(h->queue[0].fd, SOL_PACKET, PACKET_FANOUT, &id, &len) != 0)
		return false;
	for (uint32_t i = 1; i < h->n; i++)
		if (!option(h->queue[i].fd, PACKET_FANOUT, how | (id & 0xffff)))
			return false;
	return true;
}

static struct port_host *make_host(struct rnicd_port *port)
{
	const uint32_t n = rnicd.cfg.n_workers, one = LARGE_SIZE;
	const uint64_t fit = rnicd_free_memory() / 4 / rnicd.cfg.n_ports / one;
	struct port_host *h = rte_zmalloc("host", sizeof(*h) + n * sizeof(h->queue[0]), RN_CACHE_LINE);
	char name[RTE_MEMPOOL_NAMESIZE];

	if (h == NULL)
		return NULL;
	h->n = n;
	for (uint32_t i = 0; i < n; i++) {
		h->queue[i].fd = -1;
		h->queue[i].todo = RX_BURST;
	}
	snprintf(name, sizeof(name), "host_%u", port->index);
	h->large = pool_create(
		name,
		&(struct pool_size){ .n = rn_min_u32((uint32_t)rn_max_u64(fit, 2 * RX_BURST), n * LARGE_EACH),
				     .room = (uint16_t)one },
		SOCKET_ID_ANY);
	if (h->large != NULL)
		return h;
	rte_free(h);
	return NULL;
}

bool port_host_open(struct rnicd_port *port, char *err, uint32_t err_len)
{
	const uint32_t if_index = if_nametoindex(port->cfg->args);
	char why[PORT_CAUSE_MAX];

	if (port->host == NULL)
		port->host = make_host(port);
	if (port->host == NULL) {
		snprintf(err, err_len, "port %s: no memory for its buffers (raise the daemon's memory)",
			 port->cfg->name);
		return false;
	}
	bool ok = if_index != 0;
	for (uint32_t i = 0; ok && i < port->host->n; i++)
		ok = open_queue(&port->host->queue[i], if_index);
	if (!ok || !fan_out(port->host)) {
		port_cause(port->cfg, -errno, why, sizeof(why));
		snprintf(err, err_len, "port %s: device \"%s\" cannot be opened: %s", port->cfg->name, port->cfg->args,
			 why);
		port_host_close(port);
		return false;
	}
	port->if_index = if_index;
	port->caps = (struct rnicd_port_caps){ .multi_seg = true,
					       .zero_copy = true,
					       .tx_csum = true,
					       .rx_csum = true,
					       .rx_fd = rnicd.cfg.spin_us != UINT32_MAX,
					       .queues = (uint16_t)port->host->n,
					       .max_mtu = RNICD_MTU_WIRE };
	return true;
}

void port_host_close(struct rnicd_port *port)
{
	for (uint32_t i = 0; port->host != NULL && i < port->host->n; i++) {
		struct queue *q = &port->host->queue[i];
		if (q->fd >= 0)
			close(q->fd);
		q->fd = -1;
		for (uint32_t k = 0; k < RX_BURST; k++) {
			rte_pktmbuf_free(q->slot[k].small);
			rte_pktmbuf_free(q->slot[k].large);
			q->slot[k].small = q->slot[k].large = NULL;
		}
		q->todo = RX_BURST;
	}
}

void port_host_free(struct rnicd_port *port)
{
	if (port->host == NULL)
		return;
	rte_mempool_free(port->host->large);
	rte_free(port->host);
	port->host = NULL;
}

int port_host_fd(const struct rnicd_port *port, uint16_t queue) { return port->host->queue[queue].fd; }

/* ---- receive ---- */

/*
 * Gives slot i its buffers. False: no small buffer. Without a large buffer the slot takes all frames but large
 * segments.
 */
static bool fill(struct rnicd_port *port, struct queue *q, uint32_t i)
{
	struct rx_slot *s = &q->slot[i];

	if (s->small == NULL)
		s->small = rte_pktmbuf_alloc(port->pool);
	if (s->small == NULL)
		return false;
	if (s->large == NULL)
		s->large = rte_pktmbuf_alloc(port->host->large);
	s->iov[0] = (struct iovec){ .iov_base = &s->hdr, .iov_len = sizeof(s->hdr) };
	s->iov[1] = (struct iovec){ .iov_base = rte_pktmbuf_mtod(s->small, void *),
				    .iov_len = rte_pktmbuf_tailroom(s->small) };
	if (s->large != NULL)
		s->iov[2] = (struct iovec){ .iov_base = rte_pktmbuf_mtod(s->large, void *),
					    .iov_len = rte_pktmbuf_tailroom(s->large) };
	q->rx[i].msg_hdr = (struct msghdr){ .msg_iov = s->iov,
					    .msg_iovlen = s->large != NULL ? 3 : 2,
					    .msg_control = s->aux,
					    .msg_controllen = sizeof(s->aux) };
	return true;
}

/* Puts the tag that the kernel has taken off back into the frame. */
static void put_tag(struct rte_mbuf *m, const struct msghdr *msg)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct tpacket_auxdata aux;

	if (c == NULL || c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
		return;
	memcpy(&aux, CMSG_DATA(c), sizeof(aux));
	if (!(aux.tp_status & TP_STATUS_VLAN_VALID))
		return;
	uint8_t *frame = (uint8_t *)rte_pktmbuf_prepend(m, PKT_VLAN_LEN);
	memmove(frame, frame + PKT_VLAN_LEN, 2 * PKT_MAC_LEN);
	rn_store_be16(frame + 2 * PKT_MAC_LEN,
		      (aux.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? aux.tp_vlan_tpid : PKT_ETHERTYPE_VLAN);
	rn_store_be16(frame + 2 * PKT_MAC_LEN + 2, aux.tp_vlan_tci);
}

static struct rte_mbuf *take(struct queue *q, uint32_t i, struct rnicd_port_stats *st)
{
	static const uint64_t flag[] = { [HOST_SUM_UNKNOWN] = 0,
					 [HOST_SUM_VALID] = RTE_MBUF_F_RX_L4_CKSUM_GOOD,
					 [HOST_SUM_TCP] = RTE_MBUF_F_TX_TCP_CKSUM,
					 [HOST_SUM_UDP] = RTE_MBUF_F_TX_UDP_CKSUM };
	struct rx_slot *s = &q->slot[i];
	struct rte_mbuf *m = s->small;

	if (q->rx[i].msg_len < sizeof(s->hdr) + PKT_ETH_LEN || (q->rx[i].msg_hdr.msg_flags & MSG_TRUNC) != 0) {
		st->no_buffer++;
		return NULL;
	}
	const uint32_t len = q->rx[i].msg_len - (uint32_t)sizeof(s->hdr);
	const uint32_t first = rn_min_u32(len, (uint32_t)s->iov[1].iov_len);
	const enum host_sum sum = host_sum_of(&s->hdr, rte_pktmbuf_mtod(m, const uint8_t *), first);
	if (sum == HOST_BAD) {
		st->rx_bad[PKT_BAD_HEADER]++;
		return NULL;
	}
	m->data_len = (uint16_t)first;
	m->pkt_len = len;
	m->ol_flags |= flag[sum];
	if (len > first) {
		m->next = s->large;
		m->nb_segs = 2;
		s->large->data_len = (uint16_t)(len - first);
		s->large = NULL;
	}
	put_tag(m, &q->rx[i].msg_hdr);
	s->small = NULL;
	return m;
}

uint32_t port_host_rx(struct rnicd_port *port, uint16_t queue, struct rte_mbuf **m, uint32_t n)
{
	struct queue *q = &port->host->queue[queue];
	struct rnicd_port_stats *st = &port->stats[queue];
	uint32_t i = 0, k = 0;
	bool all = true;

	for (; i < q->todo && fill(port, q, i); i++)
		all &= q->slot[i].large != NULL;
	n = rn_min_u32(n, RX_BURST);
	if (i < q->todo) {
		st->no_buffer++;
		n = rn_min_u32(n, i);
	} else if (all) {
		q->todo = 0;
	}
	const int got = n == 0 ? 0 : recvmmsg(q->fd, q->rx, n, MSG_DONTWAIT, NULL);
	if (got <= 0)
		return 0;
	for (i = 0; i < (uint32_t)got; i++) {
		m[k] = take(q, i, st);
		k += m[k] != NULL;
	}
	q->todo = rn_max_u32(q->todo, (uint32_t)got);
	return k;
}

bool port_host_scarce(const struct rte_mbuf *m)
{
	const struct rte_mbuf *rest = m->next;

	return rn_unlikely(rest != NULL) && rte_pktmbuf_data_room_size(rest->pool) == LARGE_SIZE &&
	       rte_mempool_avail_count(rest->pool) < rest->pool->size / 2;
}

/* ---- transmit ---- */

static uint32_t put_segs(struct iovec *iov, const struct rte_mbuf *m, uint32_t skip)
{
	uint32_t n = 0;

	for (; m != NULL; m = m->next) {
		if (m->data_len > skip)
			iov[n++] = (struct iovec){ .iov_base = rte_pktmbuf_mtod_offset(m, void *, skip),
						   .iov_len = m->data_len - skip };
		skip -= rn_min_u32(skip, m->data_len);
	}
	return n;
}

static bool seg_of(const struct rte_mbuf *m, struct host_seg *s)
{
	return (m->ol_flags & RTE_MBUF_F_TX_L4_MASK) == RTE_MBUF_F_TX_TCP_CKSUM &&
	       host_seg_of(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, m->pkt_len, s) && s->hdr <= HOST_HDR_MAX;
}

/* Writes one message of one or more frames from m on. Returns the slices used; 0: there is no room for them. */
static uint32_t put_message(struct queue *q, uint32_t at, struct rte_mbuf **m, uint32_t n, uint32_t room)
{
	struct iovec *iov = q->tx_iov + TX_IOV - room;
	struct host_seg s;
	struct host_join j = { .n = 1 };
	uint32_t used = 1, segs = m[0]->nb_segs;

	if (segs + 2 > room)
		return 0;
	if (n > 1 && seg_of(m[0], &s)) {
		host_join_begin(&j, &s);
		while (j.n < n && segs + m[j.n]->nb_segs + 2 <= room && seg_of(m[j.n], &s)) {
			const uint32_t more = m[j.n]->nb_segs;
			if (!host_join_add(&j, &s))
				break;
			segs += more;
		}
	}
	iov[0] = (struct iovec){ .iov_base = &q->tx_hdr[at], .iov_len = sizeof(q->tx_hdr[at]) };
	if (j.n == 1) {
		memset(&q->tx_hdr[at], 0, sizeof(q->tx_hdr[at]));
		if (frame_csum_deferred(m[0]))
			host_defer(rte_pktmbuf_mtod(m[0], const uint8_t *), m[0]->data_len, &q->tx_hdr[at]);
		used += put_segs(iov + used, m[0], 0);
	} else {
		host_join_head(&j, q->tx_head[at], &q->tx_hdr[at]);
		iov[used++] = (struct iovec){ .iov_base = q->tx_head[at], .iov_len = j.head.hdr };
		for (uint32_t i = 0; i < j.n; i++)
			used += put_segs(iov + used, m[i], j.head.hdr);
	}
	q->tx[at].msg_hdr = (struct msghdr){ .msg_iov = iov, .msg_iovlen = used };
	q->tx_frames[at] = j.n;
	return used;
}

/* Counts and frees the frames of a message that has gone, or is lost. */
static void done_with(struct rnicd_port_stats *st, struct rte_mbuf **m, uint32_t n, bool gone)
{
	for (uint32_t i = 0; gone && i < n; i++)
		st->tx_bytes += m[i]->pkt_len;
	*(gone ? &st->tx_packets : &st->tx_drops) += n;
	rte_pktmbuf_free_bulk(m, n);
}

uint32_t port_host_tx(struct rnicd_port *port, uint16_t queue, struct rte_mbuf **m, uint32_t n)
{
	struct queue *q = &port->host->queue[queue];
	struct rnicd_port_stats *st = &port->stats[queue];
	uint32_t msgs = 0, room = TX_IOV, frames = 0, done = 0;

	while (frames < n && msgs < TX_BURST) {
		const uint32_t used = put_message(q, msgs, m + frames, n - frames, room);
		if (used == 0)
			break;
		room -= used;
		frames += q->tx_frames[msgs++];
	}
	for (uint32_t at = 0; at < msgs;) {
		const int sent = sendmmsg(q->fd, q->tx + at, msgs - at, MSG_DONTWAIT);
		if (sent < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		/* any other error loses one message, as a full queue of the interface does (ENOBUFS) */
		for (uint32_t i = 0; i < (uint32_t)(sent > 0 ? sent : 1); i++, at++) {
			done_with(st, m + done, q->tx_frames[at], sent > 0);
			done += q->tx_frames[at];
		}
	}
	return done;
}
