/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool peer_fail(struct peer_conn *c, const char *fmt, ...)
{
	va_list ap;

	if (c->why[0] == '\0') {
		va_start(ap, fmt);
		vsnprintf(c->why, sizeof(c->why), fmt, ap);
		va_end(ap);
	}
	return false;
}

void peer_say(const struct peer_conn *c, const char *fmt, ...)
{
	va_list ap;

	if (c->p->quiet)
		return;
	printf("%u: ", c->number);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

static void die(const char *what)
{
	printf("DIE %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Allocates and registers memory once, when the first id has a device. */
void peer_setup(struct peer *p, struct ibv_context *verbs)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	void *m;

	if (p->verbs != NULL)
		return;
	p->verbs = verbs;
	p->pd = ibv_alloc_pd(verbs);
	if (p->pd == NULL)
		die("alloc_pd");
	if (posix_memalign(&m, 4096, 5 * (size_t)PEER_AREA + 8192) != 0)
		die("memory");
	memset(m, 0, 5 * (size_t)PEER_AREA + 8192);
	p->tx = m;
	p->win = p->tx + PEER_AREA;
	p->sink = p->win + PEER_AREA;
	p->rx = p->sink + PEER_AREA;
	p->ro = p->rx + 2 * (size_t)PEER_AREA;
	p->inv = p->ro + 4096;
	p->mr = ibv_reg_mr(p->pd, m, 5 * (size_t)PEER_AREA, all);
	p->ro_mr = ibv_reg_mr(p->pd, p->ro, 4096, IBV_ACCESS_LOCAL_WRITE);
	p->inv_mr = ibv_reg_mr(p->pd, p->inv, 4096, all);
	if (p->mr == NULL || p->ro_mr == NULL || p->inv_mr == NULL)
		die("reg_mr");
}

bool peer_make_qp(struct peer_conn *c)
{
	struct ibv_qp_init_attr qa = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = PEER_DEPTH, .max_recv_wr = PEER_DEPTH, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	c->cq = ibv_create_cq(c->p->verbs, 4 * PEER_DEPTH, NULL, NULL, 0);
	if (c->cq == NULL)
		return peer_fail(c, "create_cq: %s", strerror(errno));
	qa.send_cq = qa.recv_cq = c->cq;
	if (rdma_create_qp(c->id, c->p->pd, &qa) != 0)
		return peer_fail(c, "create_qp: %s", strerror(errno));
	return true;
}

void peer_hello(struct peer_conn *c, uint8_t *buf)
{
	struct peer *p = c->p;
	struct peer_hello h = { .magic = htonl(PEER_MAGIC),
				.id = htonl(c->number),
				.rkey = htonl(p->mr->rkey),
				.inv_rkey = htonl(p->inv_mr->rkey),
				.addr = htobe64((uintptr_t)p->win),
				.len = htonl(PEER_AREA),
				.ro_rkey = htonl(p->ro_mr->rkey),
				.ro_addr = htobe64((uintptr_t)p->ro) };

	memcpy(h.name, c->sc.name, sizeof(h.name));
	for (unsigned i = 0; i < 256; i++)
		buf[i] = (uint8_t)(i * 3 + 1);
	memcpy(buf, &h, sizeof(h));
}

/* Reads the other side's private data: the hello, then filling bytes that must be those of the function above. */
bool peer_far(struct peer_conn *c, const struct rdma_cm_event *e)
{
	const uint8_t *d = e->param.conn.private_data;
	uint32_t n = e->param.conn.private_data_len;
	struct peer_hello *h = &c->far;

	if (n < sizeof(*h))
		return peer_fail(c, "%u bytes of private data", n);
	memcpy(h, d, sizeof(*h));
	h->magic = ntohl(h->magic);
	h->id = ntohl(h->id);
	h->rkey = ntohl(h->rkey);
	h->inv_rkey = ntohl(h->inv_rkey);
	h->addr = be64toh(h->addr);
	h->len = ntohl(h->len);
	h->ro_rkey = ntohl(h->ro_rkey);
	h->ro_addr = be64toh(h->ro_addr);
	h->name[PEER_NAME_MAX - 1] = '\0';
	if (h->magic != PEER_MAGIC)
		return peer_fail(c, "private data begins with %08x", h->magic);
	for (uint32_t i = sizeof(*h); i < n; i++)
		if (d[i] != (uint8_t)(i * 3 + 1))
			return peer_fail(c, "private data: byte %u is %02x", i, d[i]);
	return true;
}

/* Returns the next event of this connection; NULL after ms. Another client's connection request is put aside. */
struct rdma_cm_event *peer_event(struct peer_conn *c, int ms)
{
	struct pollfd pfd = { .fd = c->p->ch->fd, .events = POLLIN };
	uint64_t end = now_ms() + (uint64_t)ms;
	struct rdma_cm_event *e;

	for (;;) {
		uint64_t t = now_ms();
		if (poll(&pfd, 1, t < end ? (int)(end - t) : 0) <= 0)
			return NULL;
		if (rdma_get_cm_event(c->p->ch, &e) != 0)
			return NULL;
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST && c->id != NULL) {
			if (c->p->stash != NULL)
				die("two requests at once");
			c->p->stash = e;
			continue;
		}
		if (c->id != NULL && e->id != c->id) {
			rdma_ack_cm_event(e);
			continue;
		}
		peer_say(c, "event %s status %d", rdma_event_str(e->event), e->status);
		if (e->event == RDMA_CM_EVENT_DISCONNECTED)
			c->gone = true;
		return e;
	}
}

bool peer_expect(struct peer_conn *c, enum rdma_cm_event_type type, struct rdma_cm_event **out)
{
	struct rdma_cm_event *e = peer_event(c, PEER_STEP_MS);

	if (e == NULL)
		return peer_fail(c, "no event, wanted %s", rdma_event_str(type));
	if (e->event != type) {
		peer_fail(c, "event %s status %d, wanted %s", rdma_event_str(e->event), e->status,
			  rdma_event_str(type));
		rdma_ack_cm_event(e);
		return false;
	}
	if (out != NULL)
		*out = e;
	else
		rdma_ack_cm_event(e);
	return true;
}

bool peer_gone(struct peer_conn *c) { return c->gone || peer_expect(c, RDMA_CM_EVENT_DISCONNECTED, NULL); }

/* Posts a receive buffer of exactly the length of the coming message; the buffers lie one behind the other in rx. */
bool peer_recv(struct peer_conn *c, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)c->p->rx + c->rx_off, .length = len, .lkey = c->p->mr->lkey };
	/* libsiw refuses a num_sge of 0 */
	struct ibv_recv_wr wr = { .wr_id = c->rx_off, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (c->rx_off + len > 2 * PEER_AREA)
		return peer_fail(c, "the scenario is too large");
	c->rx_off += len;
	int rc = ibv_post_recv(c->id->qp, &wr, &bad);
	return rc == 0 || peer_fail(c, "post_recv: %s", strerror(rc));
}

bool peer_post(struct peer_conn *c, struct ibv_send_wr *wr, const void *data, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = len, .lkey = c->p->mr->lkey };
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = len > 0 || wr->opcode == IBV_WR_RDMA_READ;
	wr->send_flags |= IBV_SEND_SIGNALED;
	int rc = ibv_post_send(c->id->qp, wr, &bad);
	return rc == 0 || peer_fail(c, "post_send of opcode %d: %s", wr->opcode, strerror(rc));
}

bool peer_send(struct peer_conn *c, const void *data, uint32_t len)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	return peer_post(c, &wr, data, len);
}

bool peer_wc(struct peer_conn *c, struct ibv_wc *wc, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	int n;

	while ((n = ibv_poll_cq(c->cq, 1, wc)) == 0) {
		if (now_ms() > end)
			return false;
		usleep(100);
	}
	if (n < 0)
		return peer_fail(c, "poll_cq failed");
	return true;
}

/*
 * Waits for this number of completions of sends and of receives, all with success. Further completions count for the
 * next wait.
 */
bool peer_wait(struct peer_conn *c, uint32_t sends, uint32_t recvs)
{
	struct ibv_wc wc;

	while (c->spare_sends < sends || c->spare_recvs < recvs) {
		if (!peer_wc(c, &wc, PEER_STEP_MS))
			return peer_fail(c, "no completion: %u of %u sends, %u of %u receives", c->spare_sends, sends,
					 c->spare_recvs, recvs);
		if (wc.status != IBV_WC_SUCCESS)
			return peer_fail(c, "completion %s of opcode %d: %u of %u sends, %u of %u receives",
					 ibv_wc_status_str(wc.status), wc.opcode, c->spare_sends, sends, c->spare_recvs,
					 recvs);
		++*((wc.opcode & IBV_WC_RECV) != 0 ? &c->spare_recvs : &c->spare_sends);
	}
	c->spare_sends -= sends;
	c->spare_recvs -= recvs;
	return true;
}

static void say_wc(const struct peer_conn *c, const struct ibv_wc *wc)
{
	peer_say(c, "wc %s opcode %d", ibv_wc_status_str(wc->status), wc->opcode);
}

/*
 * Takes and prints the next completion. False: the connection has ended, or no completion has come within a step's
 * time.
 */
bool peer_next(struct peer_conn *c, struct ibv_wc *wc)
{
	for (uint64_t end = now_ms() + PEER_STEP_MS; !c->gone && now_ms() < end;) {
		if (ibv_poll_cq(c->cq, 1, wc) > 0) {
			say_wc(c, wc);
			return true;
		}
		struct rdma_cm_event *e = peer_event(c, 1);
		if (e != NULL)
			rdma_ack_cm_event(e);
	}
	return false;
}

/* Prints the completions and asynchronous events that an ended connection has left. */
void peer_rest(struct peer_conn *c)
{
	struct pollfd pfd = { .fd = c->p->verbs->async_fd, .events = POLLIN };
	struct ibv_async_event ae;
	struct ibv_wc wc;

	while (ibv_poll_cq(c->cq, 1, &wc) > 0)
		say_wc(c, &wc);
	while (poll(&pfd, 1, 0) > 0 && ibv_get_async_event(c->p->verbs, &ae) == 0) {
		peer_say(c, "async %s", ibv_event_type_str(ae.event_type));
		ibv_ack_async_event(&ae);
	}
}

static uint8_t pattern(uint32_t i, uint32_t seed) { return (uint8_t)(i * 7 + (i >> 8) * 13 + seed * 31 + 5); }

void peer_fill(uint8_t *p, uint32_t n, uint32_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		p[i] = pattern(i, seed);
}

bool peer_check(struct peer_conn *c, const uint8_t *p, uint32_t n, uint32_t seed, const char *what)
{
	for (uint32_t i = 0; i < n; i++)
		if (p[i] != pattern(i, seed))
			return peer_fail(c, "%s: byte %u of %u is %02x, not %02x", what, i, n, p[i], pattern(i, seed));
	return true;
}
