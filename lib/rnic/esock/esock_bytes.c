/* SPDX-License-Identifier: BSD-3-Clause */
/* The byte stream over Sends, with credits (doc/extended-sockets.md). */
#include "rnic/esock/esock.h"

#define COPY_MOST 4096u /* bytes: shorter data is copied, so that the caller need not wait */

int es_post_slot(struct es *es, struct es_op *slot)
{
	struct ibv_sge sge = { .addr = (uintptr_t)slot->buf, .length = es->hello.size, .lkey = es->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = (uintptr_t)slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(es->qp, &wr, &bad);
}

/* The bytes of the slot's message have been used up. */
static void slot_back(struct es *es, struct es_op *slot)
{
	if (es->state == ES_OVER)
		return;
	if (es_post_slot(es, slot) == 0)
		esk_posted(&es->esk);
	else
		es_broken(es, ENOMEM);
}

int es_post_message(struct es *es, struct es_op *op, enum esk_kind kind, struct ibv_sge *sge, int n)
{
	uint8_t head[ESK_HEAD_LEN], *at = op->kind == ES_BYTES ? op->buf : op->head;
	struct ibv_send_wr wr = { .wr_id = (uintptr_t)op,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = sge,
				  .num_sge = n },
			   *bad;

	if (op->kind == ES_CTRL) {
		wr.send_flags |= IBV_SEND_INLINE;
		at = head;
	}
	const struct esk before = es->esk;
	esk_out(&es->esk, kind, at);
	sge[0].addr = (uintptr_t)at;
	if (op->kind != ES_BYTES) /* the bytes of these follow the head */
		sge[0].length = ESK_HEAD_LEN;
	sge[0].lkey = es->mr->lkey;
	int rc = ibv_post_send(es->qp, &wr, &bad);
	if (rc != 0) {
		es->esk = before;
		es_put(&es->free[op->kind], op);
	} else {
		es->sending++;
	}
	return rc;
}

static void control(struct es *es, enum esk_kind kind)
{
	struct es_op *op = es_take(&es->free[ES_CTRL]);
	struct ibv_sge sge;

	if (op != NULL && es_post_message(es, op, kind, &sge, 1) != 0)
		es_broken(es, ECONNRESET);
}

void es_credit(struct es *es)
{
	if (es->state == ES_OPEN && esk_credit_due(&es->esk))
		control(es, ESK_CREDIT);
}

/* Sent by the initiator: only then may the responder send (RFC 5044, 7.1.1). */
void es_first_credit(struct es *es) { control(es, ESK_CREDIT); }

void es_end(struct es *es)
{
	if (es->bytes && es->shut && es->state == ES_OPEN && esk_may_end(&es->esk))
		control(es, ESK_END);
}

/* ---- receiving ---- */

void es_message(struct es *es, struct es_op *slot, uint32_t len)
{
	enum esk_kind kind;
	enum esk_verdict v = esk_in(&es->esk, slot->buf, len, &kind);

	if (v != ESK_OK) {
		es->rule = v;
		es_broken(es, EPROTO);
		ibv_modify_qp(es->qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE);
		return;
	}
	if (kind == ESK_DATA) {
		slot->off = ESK_HEAD_LEN;
		slot->length = len;
		es_put(&es->in, slot);
	} else {
		slot_back(es, slot);
	}
}

/* Takes bytes from the slots, in order; 0: there are none. */
static size_t take_bytes(struct es *es, uint8_t *to, size_t len)
{
	struct es_op *slot;
	size_t got = 0;

	while (got < len && (slot = es->in.first) != NULL) {
		const size_t n = len - got < slot->length - slot->off ? len - got : slot->length - slot->off;
		memcpy(to + got, slot->buf + slot->off, n);
		got += n;
		slot->off += (uint32_t)n;
		if (slot->off == slot->length) {
			es_take(&es->in);
			slot_back(es, slot);
		}
	}
	return got;
}

/* A receive takes the rest of one message at most, so that each message fills one receive, if the receive has room. */
void es_serve_receives(struct es *es)
{
	while (es->in.first != NULL && es->recv_wait.first != NULL) {
		struct es_op *op = es_take(&es->recv_wait);
		const uint32_t left = es->in.first->length - es->in.first->off;
		op->length = (uint32_t)take_bytes(es, op->buf, rn_min_u32(op->length, left));
		op->error = 0;
		es_put(&es->recv_done, op);
	}
}

/* Checks that there is a byte stream: else -1 and errno. */
static int has_bytes(const struct es *es)
{
	if (es->bytes)
		return 0;
	if (!es->agreed)
		return es_fail(ENOTCONN, "rnic_sock_start() has not brought up the connection yet");
	return es_fail(EOPNOTSUPP, "the peer has no extended sockets, or one end uses messages only: use "
				   "rnic_sock_post_send() and rnic_sock_post_recv()");
}

ssize_t rnic_sock_recv(int fd, void *buf, size_t len)
{
	struct es *es = es_get(fd);
	ssize_t rc = -1;

	if (es == NULL)
		return -1;
	if (has_bytes(es) != 0) {
		es_let(es);
		return -1;
	}
	if (es->in.first == NULL)
		es_progress(es);
	while (es->in.first == NULL && es->state == ES_OPEN && !es->esk.in_ended && len > 0 && es_blocks(es))
		es_wait(es, RN_NEVER);
	rc = (ssize_t)take_bytes(es, buf, len);
	es_credit(es);
	if (rc == 0 && len > 0 && !es->esk.in_ended) {
		if (es->state == ES_OPEN)
			rc = es_fail(EAGAIN, "no bytes have arrived");
		else
			rc = es_gone(es, ECONNRESET);
	}
	es_let(es);
	return rc;
}

/* ---- sending ---- */

int es_may_send(const struct es *es)
{
	if (es->state != ES_OPEN)
		return es_gone(es, EPIPE);
	if (es->shut)
		return es_fail(EPIPE, "this end has ended its byte stream and cannot send any more");
	return 0;
}

/* Waits until a message may be sent and an op of this kind is free. NULL and errno: EAGAIN, EPIPE. */
static struct es_op *turn(struct es *es, enum es_kind kind, bool waits)
{
	for (;;) {
		if (es_may_send(es) != 0)
			return NULL;
		if (esk_room(&es->esk) > 0 && es->free[kind].first != NULL)
			return es_take(&es->free[kind]);
		if (es_progress(es))
			continue;
		if (!waits) {
			es_fail(EAGAIN, "the peer has no slot free");
			return NULL;
		}
		/* The program's memory must stay while it is being sent. */
		if (kind == ES_PIECE && es->pieces > 0)
			es_wait_through(es, RN_NEVER);
		else
			es_wait(es, RN_NEVER);
	}
}

/* The position of the next byte. */
struct place {
	const struct iovec *iov;
	int n;
	size_t off;
};

static size_t gather(struct place *p, uint8_t *to, size_t room)
{
	size_t got = 0;

	while (got < room && p->n > 0) {
		const size_t left = p->iov->iov_len - p->off, n = left < room - got ? left : room - got;
		memcpy(to + got, (const uint8_t *)p->iov->iov_base + p->off, n);
		got += n;
		p->off += n;
		if (p->off == p->iov->iov_len) {
			p->iov++;
			p->n--;
			p->off = 0;
		}
	}
	return got;
}

static ssize_t copied_out(struct es *es, struct place *p, bool waits)
{
	ssize_t all = 0;

	while (p->n > 0 && p->iov->iov_len == 0) {
		p->iov++;
		p->n--;
	}
	while (p->n > 0) {
		struct es_op *op = turn(es, ES_BYTES, waits);
		if (op == NULL)
			return all > 0 ? all : -1;
		const uint32_t room = rn_min_u32(esk_room(&es->esk), es->out_size - ESK_HEAD_LEN);
		const uint32_t n = (uint32_t)gather(p, op->buf + ESK_HEAD_LEN, room);
		struct ibv_sge sge = { .length = ESK_HEAD_LEN + n };
		if (n == 0) {
			es_put(&es->free[ES_BYTES], op);
			break;
		}
		int rc = es_post_message(es, op, ESK_DATA, &sge, 1);
		if (rc != 0)
			return es_fail(rc, "the bytes were refused: %s", strerror(rc));
		all += n;
	}
	return all;
}

/* Slices of registered memory from *p on, for one message at most. */
static int slices(const struct es *es, struct place *p, struct ibv_sge *sge, uint32_t room)
{
	int n = 0;

	while (p->n > 0 && n < (int)ES_SGE - 1 && room > 0) {
		const uint8_t *at = (const uint8_t *)p->iov->iov_base + p->off;
		const size_t left = p->iov->iov_len - p->off;
		const uint32_t len = left < room ? (uint32_t)left : room;
		if (len > 0)
			sge[n++] = (struct ibv_sge){ .addr = (uintptr_t)at,
						     .length = len,
						     .lkey = es_mr_of(es, at, len)->lkey };
		room -= len;
		p->off += len;
		if (p->off == p->iov->iov_len) {
			p->iov++;
			p->n--;
			p->off = 0;
		}
	}
	return n;
}

/* Sends without a copy; returns when the program's memory is no longer used. */
static ssize_t pieces_out(struct es *es, struct place *p, size_t len)
{
	struct es_op *op;
	int rc = 0;

	while (rc == 0 && p->n > 0 && (op = turn(es, ES_PIECE, true)) != NULL) {
		struct ibv_sge sge[ES_SGE];
		int n = slices(es, p, sge + 1, esk_room(&es->esk));
		if (n == 0) {
			es_put(&es->free[ES_PIECE], op);
			break;
		}
		op->length = 0;
		rc = es_post_message(es, op, ESK_DATA, sge, n + 1);
		es->pieces += rc == 0;
	}
	while (es->pieces > 0 && (es_progress(es) || es->pieces == 0 || es_wait_through(es, RN_NEVER)))
		;
	if (rc != 0)
		return es_fail(rc, "the bytes were refused: %s", strerror(rc));
	return p->n == 0 && es->state == ES_OPEN ? (ssize_t)len : es_gone(es, EPIPE);
}

static bool all_registered(const struct es *es, const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++)
		if (iov[i].iov_len > 0 && es_mr_of(es, iov[i].iov_base, iov[i].iov_len) == NULL)
			return false;
	return true;
}

ssize_t rnic_sock_writev(int fd, const struct iovec *iov, int n)
{
	struct es *es = es_get(fd);
	struct place p = { .iov = iov, .n = n };
	size_t len = 0;
	ssize_t rc = -1;

	if (es == NULL)
		return -1;
	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	if (has_bytes(es) == 0) {
		bool waits = es_blocks(es);
		if (waits && len >= COPY_MOST && all_registered(es, iov, n))
			rc = pieces_out(es, &p, len);
		else
			rc = copied_out(es, &p, waits);
	}
	es_let(es);
	return rc;
}

ssize_t rnic_sock_send(int fd, const void *buf, size_t len)
{
	const struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };

	return rnic_sock_writev(fd, &iov, 1);
}

int rnic_sock_shutdown(int fd)
{
	struct es *es = es_get(fd);
	int rc = -1;

	if (es == NULL)
		return -1;
	if (has_bytes(es) == 0 && es_may_send(es) == 0) {
		es->shut = true;
		es_end(es);
		while (es->state == ES_OPEN && !es->esk.out_ended && es_blocks(es))
			es_wait(es, RN_NEVER);
		rc = es->state == ES_OPEN || es->esk.out_ended ? 0 : es_gone(es, EPIPE);
	}
	es_let(es);
	return rc;
}
