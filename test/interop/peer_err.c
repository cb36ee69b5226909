/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <string.h>

/*
 * The client makes an error (with the prefix r.: the server). Before that both sides know that the connection is
 * established: the client has sent GO and received READY. siw's kernel crashes on an error that arrives earlier
 * (rc_quirk.h).
 */
enum err {
	ERR_WRITE_STAG,
	ERR_WRITE_KEY,
	ERR_WRITE_BOUNDS,
	ERR_WRITE_PERM,
	ERR_READ_STAG,
	ERR_READ_BOUNDS,
	ERR_READ_PERM,
	ERR_SEND_NORECV,
	ERR_SEND_LONG,
	ERR_SENDINV_STAG,
	ERR_WRITE_INVALIDATED,
	ERR_QP_ERROR,
	ERR_KINDS
};

static const char *const kinds[ERR_KINDS] = {
	"err_write_stag", "err_write_key",    "err_write_bounds", "err_write_perm",
	"err_read_stag",  "err_read_bounds",  "err_read_perm",    "err_send_norecv",
	"err_send_long",  "err_sendinv_stag", "err_write_inval",  "err_qp_error",
};

static enum err kind_of(const char *name)
{
	enum err e = 0;

	while (e < ERR_KINDS && strcmp(kinds[e], name) != 0)
		e++;
	return e;
}

bool peer_is_err(const char *kind) { return kind_of(kind) < ERR_KINDS; }

bool peer_err_prepare(struct peer_conn *c)
{
	enum err k = kind_of(c->sc.kind);
	bool victim = c->p->server != c->sc.reverse;

	c->rx_off = 0;
	memset(c->p->win, 0xee, c->sc.size + 64);
	memset(c->p->ro, 0xee, 4096);
	if (!peer_recv(c, PEER_CTL)) /* the receive for GO, or for READY */
		return false;
	if (!victim || k == ERR_SEND_NORECV)
		return true;
	return peer_recv(c, k == ERR_SEND_LONG ? c->sc.size / 2 : 64);
}

static bool offend(struct peer_conn *c)
{
	enum err k = kind_of(c->sc.kind);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	uint8_t *data = c->p->tx;

	peer_fill(data, c->sc.size, 9);
	wr.wr.rdma.rkey = c->far.rkey;
	wr.wr.rdma.remote_addr = c->far.addr;
	switch (k) {
	case ERR_READ_STAG:
		wr.opcode = IBV_WR_RDMA_READ;
		data = c->p->sink;
		/* fall through */
	case ERR_WRITE_STAG: wr.wr.rdma.rkey ^= 0x00ffff00; break;
	case ERR_WRITE_KEY: wr.wr.rdma.rkey ^= 1; break;
	case ERR_READ_BOUNDS:
		wr.opcode = IBV_WR_RDMA_READ;
		data = c->p->sink;
		/* fall through */
	case ERR_WRITE_BOUNDS:
		/* the first half is inside the region: a receiver that checks whole segments places none of it */
		wr.wr.rdma.remote_addr += 4ull * PEER_AREA - c->sc.size / 2;
		break;
	case ERR_READ_PERM:
		wr.opcode = IBV_WR_RDMA_READ;
		data = c->p->sink;
		/* fall through */
	case ERR_WRITE_PERM:
		wr.wr.rdma.rkey = c->far.ro_rkey;
		wr.wr.rdma.remote_addr = c->far.ro_addr;
		break;
	case ERR_SEND_NORECV:
	case ERR_SEND_LONG: wr.opcode = IBV_WR_SEND; break;
	case ERR_WRITE_INVALIDATED:
	case ERR_SENDINV_STAG:
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.invalidate_rkey = c->far.inv_rkey ^ (k == ERR_SENDINV_STAG ? 0x00ffff00 : 0);
		wr.wr.rdma.rkey = wr.invalidate_rkey;
		break;
	case ERR_QP_ERROR:
		return ibv_modify_qp(c->id->qp, &attr, IBV_QP_STATE) == 0 || peer_fail(c, "modify_qp to error failed");
	case ERR_KINDS: break;
	}
	if (!peer_post(c, &wr, data, c->sc.size))
		return false;
	if (k != ERR_WRITE_INVALIDATED)
		return true;
	/* the Send has invalidated the region; its address is not in the hello, and any address will do */
	struct ibv_send_wr late = { .opcode = IBV_WR_RDMA_WRITE };
	late.wr.rdma.rkey = c->far.inv_rkey;
	late.wr.rdma.remote_addr = c->far.ro_addr + 4096;
	return peer_post(c, &late, data, c->sc.size);
}

static bool unharmed(struct peer_conn *c)
{
	for (uint32_t i = 0; i < 64; i++)
		if (c->p->win[i] != 0xee || c->p->ro[i] != 0xee)
			return peer_fail(c, "memory was written");
	return true;
}

static bool both_ready(struct peer_conn *c)
{
	uint8_t *m = c->p->tx + PEER_AREA - PEER_CTL;

	if (c->p->server)
		return peer_wait(c, 0, 1) && peer_send(c, m, PEER_CTL);
	return peer_send(c, m, PEER_CTL) && peer_wait(c, 0, 1);
}

/*
 * Prints completions until the connection has ended. The victim ends it, or the side that knows that no more will
 * happen.
 */
static bool until_end(struct peer_conn *c, bool offender)
{
	enum err k = kind_of(c->sc.kind);
	struct ibv_wc wc;

	while (peer_next(c, &wc)) {
		/*
		 * siw reports an STag that cannot be invalidated only when the QP is closed, so the program must close
		 * it
		 */
		if (!offender && k == ERR_SENDINV_STAG && (wc.opcode & IBV_WC_RECV) != 0)
			rdma_disconnect(c->id);
		if (offender && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ)
			return peer_fail(c, "the Read was served");
	}
	return c->gone || peer_fail(c, "the connection lives on");
}

bool peer_err_run(struct peer_conn *c)
{
	bool offender = c->p->server == c->sc.reverse;

	if (!both_ready(c) || (offender && !offend(c)) || !until_end(c, offender))
		return false;
	peer_rest(c);
	return offender || unharmed(c);
}
