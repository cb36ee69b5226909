/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets against a peer that makes the bytes of the protocol itself, over plain verbs: the bytes must be those of
 * librdmacm's documentation (docs/rsocket), and a peer that breaks the rules must be refused.
 */
#include "rsock_rig.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Offsets in the peer's 64 KiB. */
#define SGL   0u
#define DATA  4096u
#define OUT   32768u
#define MSGS  60000u
#define NMSGS 32u

struct sge {
	uint64_t addr;
	uint32_t key, len;
};

/* The peer of an rsocket: an end of cm_rig, and the memory that the rsocket's hello has told of. */
struct raw {
	struct end *e;
	struct rdma_cm_id *id, *lid;
	int fd, lfd; /* the rsocket at the other end, and its listener */
	struct sge sgl, buf;
	unsigned seen; /* messages received */
};

static void hello_make(uint8_t h[40], const struct end *e, uint16_t credits, uint32_t len)
{
	struct sge s = { htobe64((uintptr_t)e->buf + SGL), htobe32(e->mr->rkey), htobe32(2) };
	struct sge b = { htobe64((uintptr_t)e->buf + DATA), htobe32(e->mr->rkey), htobe32(len) };

	memset(h, 0, 40);
	h[0] = 1;
	h[1] = 2;
	h[2] = (uint8_t)(credits >> 8);
	h[3] = (uint8_t)credits;
	memcpy(h + 8, &s, 16);
	memcpy(h + 24, &b, 16);
}

static bool hello_check(struct raw *r, const struct got *g)
{
	static const uint8_t head[8] = { 1, 2, 0x01, 0x80, 0, 0, 0, 0 }; /* version, iomap flag, 384 credits, no maps */

	CHECK(g->priv_len >= 40 && memcmp(g->priv, head, 8) == 0);
	memcpy(&r->sgl, g->priv + 8, 16);
	memcpy(&r->buf, g->priv + 24, 16);
	r->sgl = (struct sge){ be64toh(r->sgl.addr), be32toh(r->sgl.key), be32toh(r->sgl.len) };
	r->buf = (struct sge){ be64toh(r->buf.addr), be32toh(r->buf.key), be32toh(r->buf.len) };
	CHECK(r->sgl.len == 2 && r->buf.len == 131072);
	return true;
}

static bool receives_post(struct raw *r)
{
	for (unsigned i = 0; i < NMSGS; i++) {
		struct ibv_sge s = { (uintptr_t)r->e->buf + MSGS + 8 * i, 8, r->e->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = 1000 + i, .sg_list = &s, .num_sge = 1 }, *bad;
		CHECK(ibv_post_recv(r->id->qp, &wr, &bad) == 0);
	}
	return true;
}

/* The next completion of this connection; completions of earlier connections of the case are skipped. */
static bool next_wc(struct raw *r, struct ibv_wc *wc)
{
	do {
		CHECK(poll_n(r->e, wc, 1));
	} while (wc->qp_num != r->id->qp->qp_num);
	CHECK(wc->status == IBV_WC_SUCCESS);
	return true;
}

/* Posts the request and waits for its completion; counts messages that come meanwhile for heard(). */
static bool done(struct raw *r, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->send_flags = IBV_SEND_SIGNALED;
	wr->wr_id = 1;
	CHECK(ibv_post_send(r->id->qp, wr, &bad) == 0);
	do {
		CHECK(next_wc(r, &wc));
		r->seen += wc.wr_id >= 1000;
	} while (wc.wr_id != 1);
	return true;
}

static bool put(struct raw *r, const void *data, uint32_t len, uint64_t to, uint32_t key)
{
	struct ibv_sge s = { (uintptr_t)r->e->buf + OUT, len, r->e->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &s, .num_sge = 1 };

	memcpy(r->e->buf + OUT, data, len);
	wr.wr.rdma.remote_addr = to;
	wr.wr.rdma.rkey = key;
	return done(r, &wr);
}

static bool say(struct raw *r, const uint8_t *msg, uint32_t len)
{
	struct ibv_sge s = { (uintptr_t)r->e->buf + OUT, len, r->e->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &s, .num_sge = 1 };

	memcpy(r->e->buf + OUT, msg, len);
	return done(r, &wr);
}
#define SAY(r, ...) say(r, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

/* Waits for the n-th message, which must be these four bytes. */
static bool heard(struct raw *r, unsigned n, const uint8_t want[4])
{
	const uint8_t *m = r->e->buf + MSGS + 8 * n;
	struct ibv_wc wc;

	while (r->seen <= n) {
		CHECK(next_wc(r, &wc) && wc.wr_id == 1000 + r->seen && wc.byte_len == 4);
		r->seen++;
	}
	if (memcmp(m, want, 4) != 0)
		printf("# message %u: %02x%02x%02x%02x\n", n, m[0], m[1], m[2], m[3]);
	return memcmp(m, want, 4) == 0;
}
#define HEARD(r, n, ...) heard(r, n, (const uint8_t[]){ __VA_ARGS__ })

/* Connects an rsocket to the peer, which offers `len` bytes of room. */
static bool raw_server(struct raw *r, uint16_t port, uint32_t len)
{
	struct sockaddr_in to = srv.addr;
	struct pollfd p = { .events = POLLOUT };
	struct rdma_conn_param back;
	uint8_t h[40];
	struct got g;

	*r = (struct raw){ .e = &srv, .lfd = -1 };
	memset(srv.buf, 0, BUF_LEN);
	to.sin_port = htons(port);
	CHECK((r->lid = listen_on(&srv, port, 4)) != NULL);
	CHECK((r->fd = p.fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	CHECK(rconnect(r->fd, (struct sockaddr *)&to, sizeof(to)) == -1 && errno == EINPROGRESS);
	while (!next_event(srv.ch, &g, 10))
		CHECK(rpoll(&p, 1, 10) == 0);
	CHECK(g.type == RDMA_CM_EVENT_CONNECT_REQUEST && hello_check(r, &g));
	r->id = g.id;
	CHECK(give_qp(&srv, r->id) && receives_post(r));
	hello_make(h, &srv, 8, len);
	back = param(0, 0, h, sizeof(h));
	CHECK(rdma_accept(r->id, &back) == 0);
	CHECK(rpoll(&p, 1, WAIT_MS) == 1 && p.revents == POLLOUT);
	CHECK(want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	return true;
}

static bool raw_end(struct raw *r)
{
	CHECK(rclose(r->fd) == 0);
	if (r->lfd >= 0)
		CHECK(rclose(r->lfd) == 0);
	return drop(r->id) && (r->lid == NULL || rdma_destroy_id(r->lid) == 0);
}

bool the_wire_from_a_client(void)
{
	struct sge second;
	struct raw r;
	char b[8];

	CHECK(raw_server(&r, 9101, 10));
	/*
	 * The rsocket first writes the address of the other half of its ring into entry 1 of the peer's SGL, and
	 * allows 384 messages. Then it writes as much data as the peer's buffer has room for.
	 */
	CHECK(HEARD(&r, 0, 0x80, 0x01, 0x00, 0x80));
	memcpy(&second, srv.buf + SGL + 16, 16);
	CHECK(le64toh(second.addr) == r.buf.addr + 131072 && le32toh(second.key) == r.buf.key &&
	      le32toh(second.len) == 131072);
	CHECK(rsend(r.fd, "0123456789abc", 13, 0) == 10);
	CHECK(HEARD(&r, 1, 0x0a, 0x00, 0x00, 0x00) && memcmp(srv.buf + DATA, "0123456789", 11) == 0);
	/* The peer offers a buffer of 3 bytes and allows a 9th message. */
	second = (struct sge){ htole64((uintptr_t)srv.buf + DATA + 100), htole32(srv.mr->rkey), htole32(3) };
	CHECK(put(&r, &second, 16, r.sgl.addr + 16, r.sgl.key) && SAY(&r, 0x09, 0x00, 0x00, 0x80));
	CHECK(rpoll(&(struct pollfd){ .fd = r.fd, .events = POLLOUT }, 1, WAIT_MS) == 1);
	CHECK(rsend(r.fd, "abcd", 4, 0) == 3);
	CHECK(HEARD(&r, 2, 0x03, 0x00, 0x00, 0x00) && memcmp(srv.buf + DATA + 100, "abc", 4) == 0);
	/* The peer writes data, then sends the message that ends its direction. */
	CHECK(put(&r, "reply", 5, r.buf.addr, r.buf.key) && SAY(&r, 0x05, 0x00, 0x00, 0x00) &&
	      SAY(&r, 0x02, 0x00, 0x00, 0xe0));
	CHECK(rfcntl(r.fd, F_SETFL, 0) == 0 && rrecv(r.fd, b, 8, 0) == 5 && memcmp(b, "reply", 5) == 0);
	CHECK(rrecv(r.fd, b, 8, 0) == 0 && rshutdown(r.fd, SHUT_WR) == 0);
	CHECK(HEARD(&r, 3, 0x00, 0x00, 0x00, 0xe0));
	return raw_end(&r);
}

bool the_wire_from_a_server(void)
{
	struct rdma_conn_param p;
	uint8_t h[40];
	struct got g;
	struct raw r = { .e = &cli };
	char b[8];

	memset(cli.buf, 0, BUF_LEN);
	CHECK((r.lfd = listen_rs(9102)) >= 0);
	hello_make(h, &cli, 8, 1000);
	p = param(0, 0, h, sizeof(h));
	CHECK((r.id = dial(9102, &p)) != NULL && receives_post(&r));
	CHECK((r.fd = raccept(r.lfd, NULL, NULL)) >= 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, &g) && hello_check(&r, &g));
	CHECK(put(&r, "hi", 2, r.buf.addr, r.buf.key) && SAY(&r, 0x02, 0x00, 0x00, 0x00));
	CHECK(rrecv(r.fd, b, 8, 0) == 2 && memcmp(b, "hi", 2) == 0);
	CHECK(HEARD(&r, 0, 0x80, 0x01, 0x00, 0x80) || HEARD(&r, 0, 0x81, 0x01, 0x00, 0x80));
	CHECK(rsend(r.fd, "ho", 2, 0) == 2);
	CHECK(HEARD(&r, 1, 0x02, 0x00, 0x00, 0x00) && memcmp(cli.buf + DATA, "ho", 3) == 0);
	CHECK(rshutdown(r.fd, SHUT_WR) == 0 && HEARD(&r, 2, 0x02, 0x00, 0x00, 0xe0));
	CHECK(SAY(&r, 0x00, 0x00, 0x00, 0xe0) && rrecv(r.fd, b, 8, 0) == 0);
	return raw_end(&r);
}

/* When a peer vanishes without having announced the end, a reader must not take this for the end of the data. */
bool a_peer_that_vanishes(void)
{
	struct raw r;
	char b[8];

	CHECK(raw_server(&r, 9103, 1000));
	CHECK(put(&r, "half", 4, r.buf.addr, r.buf.key) && SAY(&r, 0x04, 0x00, 0x00, 0x00));
	CHECK(rdma_disconnect(r.id) == 0);
	CHECK(rfcntl(r.fd, F_SETFL, 0) == 0 && rrecv(r.fd, b, 8, 0) == 4);
	CHECK(rrecv(r.fd, b, 8, 0) == -1 && errno == ECONNRESET);
	CHECK(rsend(r.fd, b, 8, 0) == -1 && errno == ECONNRESET);
	return raw_end(&r);
}

bool a_peer_that_writes_more_than_was_offered(void)
{
	struct raw r;
	char b[8];

	CHECK(raw_server(&r, 9104, 1000));
	CHECK(SAY(&r, 0x01, 0x00, 0x04, 0x00)); /* 262145 bytes */
	CHECK(rfcntl(r.fd, F_SETFL, 0) == 0 && rrecv(r.fd, b, 8, 0) == -1 && errno == EPROTO);
	return raw_end(&r);
}

static bool refused_message(uint16_t port, const uint8_t *msg, uint32_t len)
{
	struct raw r;
	char b[8];

	CHECK(raw_server(&r, port, 1000) && say(&r, msg, len));
	CHECK(rfcntl(r.fd, F_SETFL, 0) == 0 && rrecv(r.fd, b, 8, 0) == -1 && errno == EPROTO);
	return raw_end(&r);
}

bool messages_that_are_none(void)
{
	static const uint8_t reserved[4] = { 0, 0, 0, 0x20 }, three[3] = { 0, 0, 0 };
	struct rdma_conn_param p;
	uint8_t h[40];
	int l = listen_rs(9107);

	CHECK(refused_message(9105, reserved, 4) && refused_message(9106, three, 3));
	/* A hello of another version, and a hello that is too short. */
	hello_make(h, &cli, 8, 1000);
	h[0] = 2;
	CHECK(l >= 0 && rfcntl(l, F_SETFL, O_NONBLOCK) == 0);
	for (unsigned i = 0; i < 2; i++) {
		p = param(0, 0, h, i == 0 ? 40 : 39);
		struct rdma_cm_id *id = dial(9107, &p);
		CHECK(id != NULL && rpoll(&(struct pollfd){ .fd = l, .events = POLLIN }, 1, WAIT_MS) == 1);
		CHECK(raccept(l, NULL, NULL) == -1 && errno == EAGAIN);
		CHECK(want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL) && drop(id));
		h[0] = 1;
	}
	return rclose(l) == 0;
}

bool buffers_mapped_for_the_peer(void)
{
	static const struct rig_opt opts[] = { { SOL_RDMA, RDMA_IOMAPSIZE, 2 }, { 0, 0, 0 } };
	uint8_t *a = pattern_new(100000, 1), *b = pattern_new(100000, 2), *c = pattern_new(5000, 3);
	struct two t;
	char x;

	CHECK(two_open(&t, 9108, opts));
	CHECK(riomap(t.s, a, 100000, PROT_WRITE, 0, 4096) == 4096 &&
	      riomap(t.s, c, 5000, PROT_WRITE, 0, -1) == (off_t)(uintptr_t)c);
	CHECK(riomap(t.s, &x, 1, PROT_WRITE, 0, 0) == -1 && errno == ENOBUFS);
	CHECK(riomap(t.c, b, 100000, PROT_NONE, 0, 0) == 0 && rsend(t.s, "m", 1, 0) == 1 && rrecv(t.c, &x, 1, 0) == 1);
	CHECK(riowrite(t.c, b, 100000, 4096, 0) == 100000 && rsend(t.c, "w", 1, 0) == 1 && rrecv(t.s, &x, 1, 0) == 1);
	CHECK(memcmp(a, b, 100000) == 0);
	CHECK(riowrite(t.c, b, 10, (off_t)(uintptr_t)c + 4990, 0) == 10 && rsend(t.c, "w", 1, 0) == 1 &&
	      rrecv(t.s, &x, 1, 0) == 1);
	CHECK(memcmp(c + 4990, b, 10) == 0);
	CHECK(riowrite(t.c, b, 10, 1, 0) == (size_t)-1 && errno == EINVAL);
	CHECK(riounmap(t.s, a, 100000) == 0 && riounmap(t.s, a, 100000) == -1 && errno == EINVAL);
	CHECK(two_close(&t));
	free(a);
	free(b);
	free(c);
	return true;
}
