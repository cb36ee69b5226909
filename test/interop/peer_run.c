/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <string.h>

/* Seeds of the patterns with which the areas are filled. */
enum { SEED_SEND = 1, SEED_WRITE = 2, SEED_READ = 3 };

/* Kinds of control messages. Each has a place of its own at the end of tx while it is under way. */
enum ctl { CTL_GO = 1, CTL_DONE, CTL_VERDICT };

static bool is(const struct peer_conn *c, const char *kind) { return strcmp(c->sc.kind, kind) == 0; }

static bool actor(const struct peer_conn *c) { return is(c, "bidir") || c->p->server == c->sc.reverse; }

static bool passive(const struct peer_conn *c) { return is(c, "bidir") || c->p->server != c->sc.reverse; }

static bool sends(const struct peer_conn *c)
{
	return strncmp(c->sc.kind, "send", 4) == 0 || is(c, "mixed") || is(c, "bidir");
}

static bool writes(const struct peer_conn *c) { return is(c, "write") || is(c, "mixed") || is(c, "bidir"); }

static bool reads(const struct peer_conn *c) { return is(c, "read") || is(c, "fence") || is(c, "mixed"); }

static bool transfers(const struct peer_conn *c) { return sends(c) || writes(c) || reads(c); }

static uint8_t *ctl_place(struct peer_conn *c, enum ctl k) { return c->p->tx + PEER_AREA - (uint32_t)k * PEER_CTL; }

static bool ctl_send(struct peer_conn *c, enum ctl k)
{
	uint8_t *m = ctl_place(c, k);

	memset(m, 0, PEER_CTL);
	m[0] = (uint8_t)k;
	return peer_send(c, m, PEER_CTL);
}

/* Before the connection exists: fills the memory for the scenario and posts all receives that the scenario needs. */
bool peer_prepare(struct peer_conn *c)
{
	struct peer *p = c->p;
	uint32_t total = c->sc.size * c->sc.count;
	bool ok = true;

	c->rx_off = 0;
	if ((uint64_t)c->sc.size * c->sc.count > PEER_AREA - 4096)
		return peer_fail(c, "the scenario is too large");
	if (is(c, "first"))
		return peer_recv(c, PEER_CTL);
	if (!transfers(c))
		return true;
	peer_fill(p->tx, total, sends(c) ? SEED_SEND : SEED_WRITE);
	if (reads(c))
		peer_fill(p->win, total, SEED_READ);
	else
		memset(p->win, 0, total + 64);
	memset(p->sink, 0, total + 64);
	memset(p->rx, 0, total + 64);
	if (p->server)
		ok = peer_recv(c, PEER_CTL); /* GO */
	if (passive(c)) {
		for (uint32_t i = 0; ok && sends(c) && i < c->sc.count; i++)
			ok = peer_recv(c, c->sc.size);
		ok = ok && peer_recv(c, PEER_CTL); /* DONE */
	}
	if (actor(c))
		ok = ok && peer_recv(c, PEER_CTL); /* VERDICT */
	return ok;
}

static bool act_one(struct peer_conn *c, uint32_t i)
{
	uint32_t off = i * c->sc.size;
	struct ibv_send_wr wr = { .wr_id = i };
	bool ok = true;

	wr.wr.rdma.rkey = c->far.rkey;
	wr.wr.rdma.remote_addr = c->far.addr + off;
	if (reads(c)) {
		wr.opcode = IBV_WR_RDMA_READ;
		ok = peer_post(c, &wr, c->p->sink + off, c->sc.size);
	}
	if (ok && writes(c)) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		/* in scenarios with Reads win is the source of the Reads: the Write writes the same bytes there */
		ok = peer_post(c, &wr, (reads(c) ? c->p->win : c->p->tx) + off, c->sc.size);
	}
	if (ok && sends(c)) {
		bool inv = is(c, "sendinv") || is(c, "sendseinv");
		wr.opcode = inv ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
		wr.send_flags = strncmp(c->sc.kind, "sendse", 6) == 0 ? IBV_SEND_SOLICITED : 0;
		if (inv) {
			wr.invalidate_rkey = c->far.inv_rkey;
			wr.wr.rdma.rkey = c->far.inv_rkey; /* libsiw of rdma-core 44 takes the STag from here */
		}
		ok = peer_post(c, &wr, c->p->tx + off, c->sc.size);
	}
	return ok;
}

static bool act(struct peer_conn *c)
{
	uint32_t per = (uint32_t)reads(c) + (uint32_t)writes(c) + (uint32_t)sends(c);
	uint32_t open = 0;

	for (uint32_t i = 0; i < c->sc.count; i++) {
		if (open + per > PEER_DEPTH) {
			if (!peer_wait(c, PEER_DEPTH / 2, 0))
				return false;
			open -= PEER_DEPTH / 2;
		}
		if (!act_one(c, i))
			return false;
		open += per;
	}
	/* DONE may overtake the Responses to Reads, and the side that receives DONE may close */
	uint32_t before = is(c, "fence") ? 0 : reads(c) ? open : open == PEER_DEPTH;
	if (!peer_wait(c, before, 0))
		return false;
	open -= before;
	if (is(c, "fence")) { /* the Send says that the Reads are done, so it is fenced */
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_FENCE };
		memset(ctl_place(c, CTL_DONE), 0, PEER_CTL);
		ctl_place(c, CTL_DONE)[0] = CTL_DONE;
		if (!peer_post(c, &wr, ctl_place(c, CTL_DONE), PEER_CTL))
			return false;
	} else if (!ctl_send(c, CTL_DONE)) {
		return false;
	}
	open++;
	return peer_wait(c, open, 0) &&
	       (!reads(c) || peer_check(c, c->p->sink, c->sc.size * c->sc.count, SEED_READ, "read"));
}

static bool verify(struct peer_conn *c)
{
	uint32_t total = c->sc.size * c->sc.count;
	const uint8_t *rx = c->p->rx + (c->p->server ? PEER_CTL : 0);

	if (sends(c) && !peer_check(c, rx, total, SEED_SEND, "sent"))
		return false;
	if (writes(c) && !peer_check(c, c->p->win, total,
				     reads(c)   ? SEED_READ
				     : sends(c) ? SEED_SEND
						: SEED_WRITE,
				     "written"))
		return false;
	if (!reads(c) && !writes(c))
		return true;
	for (uint32_t i = 0; !reads(c) && i < 64; i++)
		if (c->p->win[total + i] != 0)
			return peer_fail(c, "written beyond the end");
	return true;
}

static bool give_verdict(struct peer_conn *c)
{
	bool good = verify(c);

	return ctl_send(c, CTL_VERDICT) && peer_wait(c, 1, is(c, "bidir")) && good;
}

static bool transfer(struct peer_conn *c)
{
	if (c->p->server ? !peer_wait(c, 0, 1) : !(ctl_send(c, CTL_GO) && peer_wait(c, 1, 0)))
		return false;
	if (is(c, "bidir"))
		return act(c) && peer_wait(c, 0, c->sc.count + 1) && give_verdict(c);
	if (actor(c))
		return act(c) && peer_wait(c, 0, 1);
	return peer_wait(c, 0, (sends(c) ? c->sc.count : 0) + 1) && give_verdict(c);
}

/* The client's part from ESTABLISHED to the end of the connection. */
bool peer_run(struct peer_conn *c)
{
	bool ok = true;

	if (is(c, "first")) /* RFC 6581: in peer-to-peer mode the responder may speak first */
		ok = c->p->server ? ctl_send(c, CTL_GO) && peer_wait(c, 1, 1)
				  : peer_wait(c, 0, 1) && ctl_send(c, CTL_DONE) && peer_wait(c, 1, 0);
	else if (transfers(c))
		ok = transfer(c);
	if (ok && c->p->server == is(c, "disc"))
		rdma_disconnect(c->id);
	return ok && peer_gone(c);
}
