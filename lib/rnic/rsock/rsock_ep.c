/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: queues and memory of a connection, and the private data (hello) that tells the peer about them. */
#include "rnic/rsock/rsock.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include "rnic/rsock/rsock_wr.h"

#define PAGE(n)  (((n) + 4095u) & ~(uint64_t)4095)
#define HALF_MAX (UINT32_C(1) << 28) /* bytes: a length must fit into a message */

/* ---- queues ---- */

static int queues_make(struct rsock *rs)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC };

	rs->credits = rs->opt.rq;
	rs->rq_size = rs->opt.rq + RSOCK_RESERVE + rs->opt.maps;
	rs->sq_size = 2 * rs->opt.sq + RSOCK_SQ_CTRL; /* each DATA message is a Write and a Send */
	rs->cc = ibv_create_comp_channel(rs->id->verbs);
	if (rs->cc == NULL)
		return errno;
	if (fcntl(rs->cc->fd, F_SETFL, O_NONBLOCK) != 0 || epoll_ctl(rs->fd, EPOLL_CTL_ADD, rs->cc->fd, &ev) != 0)
		return errno;
	rs->cq = ibv_create_cq(rs->id->verbs, (int)(rs->sq_size + rs->rq_size), rs, rs->cc, 0);
	if (rs->cq == NULL)
		return errno;
	a.send_cq = a.recv_cq = rs->cq;
	a.cap = (struct ibv_qp_cap){ .max_send_wr = rs->sq_size,
				     .max_recv_wr = rs->rq_size,
				     .max_send_sge = 1,
				     .max_recv_sge = 1,
				     .max_inline_data = rs->opt.inl };
	if (rdma_create_qp(rs->id, NULL, &a) != 0)
		return errno;
	rs->inl = a.cap.max_inline_data;
	rs->sq_free = rs->sq_size;
	return 0;
}

/* ---- memory ---- */

static int block_make(struct rsock *rs)
{
	uint64_t head = PAGE(RSOCK_SGL * sizeof(struct rsock_sge) + rs->opt.maps * sizeof(struct rsock_map) +
			     rs->rq_size * sizeof(*rs->msg));
	uint64_t half = PAGE(rn_min_u32(rs->opt.rcvbuf / 2, HALF_MAX)),
		 send = PAGE(rn_min_u32(rs->opt.sndbuf, HALF_MAX));

	rs->rsize = (uint32_t)(2 * half);
	rs->ssize = (uint32_t)send;
	rs->block = rnic_alloc(head + 2 * half + send);
	if (rs->block == NULL)
		return errno;
	rs->sgl = (struct rsock_sge *)(void *)rs->block;
	rs->map = (struct rsock_map *)(void *)(rs->sgl + RSOCK_SGL);
	rs->msg = (uint32_t *)(void *)(rs->map + rs->opt.maps);
	rs->rbuf = rs->block + head;
	rs->sbuf = rs->rbuf + rs->rsize;
	rs->mr = (ibv_reg_mr)(rs->id->pd, rs->block, head + 2 * half + send,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (rs->mr == NULL)
		return errno;
	rs->r_offered = (uint32_t)half;
	rs->r_free = rs->r_next = (uint32_t)half;
	rs->granted = (uint16_t)rs->credits;
	return 0;
}

int rsock_ep_make(struct rsock *rs)
{
	int rc = queues_make(rs);

	if (rc == 0)
		rc = block_make(rs);
	for (uint32_t i = 0; rc == 0 && i < rs->rq_size; i++) {
		struct rsock_recv r;
		struct ibv_recv_wr *bad;
		rsock_recv_fill(&r, rs, i);
		rc = ibv_post_recv(rs->id->qp, &r.wr, &bad);
	}
	return rc;
}

void rsock_ep_free(struct rsock *rs)
{
	rsock_iomaps_free(rs);
	if (rs->id != NULL && rs->id->qp != NULL)
		rdma_destroy_qp(rs->id);
	if (rs->mr != NULL)
		ibv_dereg_mr(rs->mr);
	rnic_free(rs->block);
	if (rs->cq != NULL)
		ibv_destroy_cq(rs->cq);
	if (rs->cc != NULL)
		ibv_destroy_comp_channel(rs->cc);
}

/* ---- hello ---- */

static uint8_t maps_pack(uint32_t n) { return (uint8_t)(n <= 128 ? n : 128 + n / 256); }
static uint32_t maps_unpack(uint8_t v) { return v <= 128 ? v : (v - 128u) * 256; }

void rsock_hello_fill(const struct rsock *rs, struct rsock_hello *h)
{
	*h = (struct rsock_hello){ .version = RSOCK_VERSION, .flags = HELLO_IOMAP, .maps = maps_pack(rs->opt.maps) };
	if (htole16(1) != 1)
		h->flags |= HELLO_BIG_ENDIAN;
	h->credits = htobe16((uint16_t)rs->credits);
	h->sgl = (struct rsock_sge){ htobe64((uintptr_t)rs->sgl), htobe32(rs->mr->rkey), htobe32(RSOCK_SGL) };
	h->buf = (struct rsock_sge){ htobe64((uintptr_t)rs->rbuf), htobe32(rs->mr->rkey), htobe32(rs->rsize / 2) };
}

int rsock_hello_take(struct rsock *rs, const void *priv, size_t len)
{
	struct rsock_hello h;

	if (priv == NULL || len < sizeof(h))
		return EPROTO;
	memcpy(&h, priv, sizeof(h));
	rs->peer_sgl = (struct rsock_sge){ be64toh(h.sgl.addr), be32toh(h.sgl.key), be32toh(h.sgl.length) };
	if (h.version != RSOCK_VERSION || rs->peer_sgl.length < 2 || be16toh(h.credits) == 0)
		return EPROTO;
	rs->peer_big = (h.flags & HELLO_BIG_ENDIAN) != 0;
	rs->peer_maps = (h.flags & HELLO_IOMAP) != 0 ? maps_unpack(h.maps) : 0;
	rs->seq_max = be16toh(h.credits);
	rs->target[0] = (struct rsock_sge){ be64toh(h.buf.addr), be32toh(h.buf.key), be32toh(h.buf.length) };
	rs->ntargets = rs->target[0].length > 0;
	/* Entry 0 of either SGL is the buffer named in the hello. */
	rs->next_sgl = rs->peer_slot = 1;
	return 0;
}
