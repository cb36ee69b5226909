/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous and one-sided calls, and registered memory. */
#include "rnic/esock/esock.h"

/* ---- memory ---- */

struct ibv_mr *es_mr_of(const struct es *es, const void *buf, size_t len)
{
	const uintptr_t at = (uintptr_t)buf;

	for (uint32_t i = 0; i < es->n_mrs; i++) {
		const uintptr_t base = (uintptr_t)es->mrs[i]->addr;
		if (at >= base && len <= es->mrs[i]->length && at - base <= es->mrs[i]->length - len)
			return es->mrs[i];
	}
	return NULL;
}

int rnic_sock_register(int fd, void *addr, size_t length, int access, struct rnic_sock_mem *mem)
{
	struct es *es = es_get(fd);
	int rc = 0;

	if (es == NULL)
		return -1;
	if (es->n_mrs == es->mrs_room) {
		uint32_t room = es->mrs_room == 0 ? 8 : 2 * es->mrs_room;
		struct ibv_mr **more = realloc(es->mrs, room * sizeof(struct ibv_mr *));
		es->mrs = more != NULL ? more : es->mrs;
		es->mrs_room = more != NULL ? room : es->mrs_room;
	}
	const unsigned rights = (unsigned)access | IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr = es->n_mrs < es->mrs_room ? ibv_reg_mr(es->id->pd, addr, length, rights) : NULL;
	if (mr != NULL) {
		es->mrs[es->n_mrs++] = mr;
		*mem = (struct rnic_sock_mem){ .addr = (uintptr_t)addr, .length = length, .rkey = mr->rkey, .mr = mr };
	} else {
		rc = es_fail(errno, "%zu bytes at %p cannot be registered: %s", length, addr, strerror(errno));
	}
	es_let(es);
	return rc;
}

int rnic_sock_deregister(int fd, struct rnic_sock_mem *mem)
{
	struct es *es = es_get(fd);
	uint32_t i = 0;
	int rc;

	if (es == NULL)
		return -1;
	while (i < es->n_mrs && es->mrs[i] != mem->mr)
		i++;
	if (i == es->n_mrs) {
		rc = es_fail(EINVAL, "this memory is not registered with descriptor %d", fd);
	} else {
		es->mrs[i] = es->mrs[--es->n_mrs];
		rc = ibv_dereg_mr(mem->mr) == 0 ? 0 : es_fail(errno, "the memory is in use: %s", strerror(errno));
		mem->mr = NULL;
	}
	es_let(es);
	return rc;
}

/* ---- posting ---- */

/* Checks that the socket's state allows the call: else -1 and errno, with the sentence. */
static int usable(const struct es *es)
{
	if (es->state == ES_OPEN)
		return 0;
	if (es->state == ES_OVER)
		return es_gone(es, EPIPE);
	return es_fail(ENOTCONN, "rnic_sock_start() has not brought up the connection yet");
}

static int all_under_way(const struct es *es)
{
	return es_fail(EAGAIN,
		       "%u calls of this kind are under way or done: take finished ones with "
		       "rnic_sock_send_done() or rnic_sock_recv_done() first",
		       es->mode.depth);
}

/*
 * Finds the memory of a call: an lkey, or 0: a few bytes of a send or write, which are copied. False, with the
 * sentence.
 */
static bool memory_of(const struct es *es, struct ibv_sge *s, const void *buf, size_t len, uint32_t inlined)
{
	const struct ibv_mr *mr = es_mr_of(es, buf, len);

	if (len > UINT32_MAX) {
		es_fail(EMSGSIZE, "%zu bytes are too many for one call", len);
		return false;
	}
	*s = (struct ibv_sge){ .addr = (uintptr_t)buf, .length = (uint32_t)len, .lkey = mr != NULL ? mr->lkey : 0 };
	if (mr != NULL || len <= inlined)
		return true;
	es_fail(EFAULT, "%zu bytes at %p are not registered: rnic_sock_register() does it", len, buf);
	return false;
}

static int post(struct es *es, struct ibv_send_wr *wr, struct es_op *op)
{
	struct ibv_send_wr *bad;

	wr->wr_id = (uintptr_t)op;
	wr->send_flags |= IBV_SEND_SIGNALED;
	int rc = ibv_post_send(es->qp, wr, &bad);
	if (rc != 0) {
		es_put(&es->free[op->kind], op);
		return es_fail(rc, "the work request was refused: %s", strerror(rc));
	}
	es->sending++;
	return 0;
}

/* Sends a message as a part of the byte stream: it waits for the peer's credit. */
static int send_bytes(struct es *es, const struct ibv_sge *data, uint64_t cookie)
{
	struct ibv_sge sge[2] = { [1] = *data };
	int rc;

	if (data->length > es->esk.peer.size - ESK_HEAD_LEN || data->length == 0)
		return es_fail(EMSGSIZE, "a message must have 1 to %u bytes here, since the peer's slots have %u",
			       es->esk.peer.size - ESK_HEAD_LEN, es->esk.peer.size);
	while ((rc = es_may_send(es)) == 0 && esk_room(&es->esk) == 0) {
		if (es_progress(es))
			continue;
		if (!es_blocks(es))
			return es_fail(EAGAIN, "the peer has no slot free");
		es_wait(es, RN_NEVER);
	}
	struct es_op *op = rc == 0 ? es_take(&es->free[ES_SEND]) : NULL;
	if (op == NULL)
		return rc == 0 ? all_under_way(es) : -1;
	op->cookie = cookie;
	op->length = data->length;
	rc = es_post_message(es, op, ESK_DATA, sge, 2);
	return rc == 0 ? 0 : es_fail(rc, "the message was refused: %s", strerror(rc));
}

static int send_out(struct es *es, struct ibv_send_wr *wr, struct ibv_sge *sge, uint64_t cookie)
{
	struct es_op *op = es_take(&es->free[ES_SEND]);

	if (op == NULL)
		return all_under_way(es);
	op->cookie = cookie;
	op->length = sge->length;
	wr->sg_list = sge;
	wr->num_sge = sge->length > 0;
	if (sge->lkey == 0)
		wr->send_flags = IBV_SEND_INLINE;
	return post(es, wr, op);
}

int rnic_sock_post_send(int fd, const void *buf, size_t len, uint64_t cookie)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct es *es = es_get(fd);
	struct ibv_sge sge;
	int rc = -1;

	if (es == NULL)
		return -1;
	/* a head from registered memory cannot be combined with bytes that are copied */
	if (usable(es) == 0 && memory_of(es, &sge, buf, len, es->bytes ? 0 : ES_INLINE))
		rc = es->bytes ? send_bytes(es, &sge, cookie) : send_out(es, &wr, &sge, cookie);
	es_let(es);
	return rc;
}

static int one_sided(int fd, struct ibv_send_wr *wr, const void *buf, size_t len, uint64_t cookie)
{
	struct es *es = es_get(fd);
	struct ibv_sge sge;
	int rc = -1;

	if (es == NULL)
		return -1;
	if (usable(es) == 0 && memory_of(es, &sge, buf, len, wr->opcode == IBV_WR_RDMA_WRITE ? ES_INLINE : 0))
		rc = send_out(es, wr, &sge, cookie);
	es_let(es);
	return rc;
}

int rnic_sock_write(int fd, const void *buf, size_t len, uint64_t addr, uint32_t rkey, uint64_t cookie)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { addr, rkey } };

	return one_sided(fd, &wr, buf, len, cookie);
}

int rnic_sock_read(int fd, void *buf, size_t len, uint64_t addr, uint32_t rkey, uint64_t cookie)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ, .wr.rdma = { addr, rkey } };

	return one_sided(fd, &wr, buf, len, cookie);
}

int es_post_recv(struct es *es, struct es_op *op)
{
	const struct ibv_mr *mr = es_mr_of(es, op->buf, op->length);
	struct ibv_sge sge = { .addr = (uintptr_t)op->buf, .length = op->length, .lkey = mr != NULL ? mr->lkey : 0 };
	struct ibv_recv_wr wr = { .wr_id = (uintptr_t)op, .sg_list = &sge, .num_sge = op->length > 0 }, *bad;
	int rc = ibv_post_recv(es->qp, &wr, &bad);

	if (rc != 0)
		es_put(&es->free[ES_RECV], op);
	return rc;
}

/* Receives wait until it is known whether there is a byte stream; then they are filled from its slots. */
int rnic_sock_post_recv(int fd, void *buf, size_t len, uint64_t cookie)
{
	struct es *es = es_get(fd);
	struct ibv_sge sge;
	int rc = -1;

	if (es == NULL)
		return -1;
	struct es_op *op = NULL;
	if (es->state == ES_OVER)
		(void)usable(es);
	else if (memory_of(es, &sge, buf, len, 0) && (op = es_take(&es->free[ES_RECV])) == NULL)
		all_under_way(es);
	if (op != NULL) {
		op->cookie = cookie;
		op->buf = buf;
		op->length = (uint32_t)len;
		rc = 0;
		if (es->agreed && !es->bytes)
			rc = es_post_recv(es, op);
		else
			es_put(&es->recv_wait, op);
		if (rc != 0)
			rc = es_fail(rc, "the receive was refused: %s", strerror(rc));
		else if (es->bytes)
			es_serve_receives(es);
	}
	es_let(es);
	return rc;
}

/* ---- calls that are done ---- */

static int take_done(struct es *es, struct es_list *from, struct rnic_sock_done *d, int n)
{
	struct es_op *op;
	int got = 0;

	while (got < n && (op = es_take(from)) != NULL) {
		d[got++] = (struct rnic_sock_done){ .cookie = op->cookie, .length = op->length, .error = op->error };
		es_put(&es->free[op->kind], op);
	}
	return got;
}

static int done(int fd, bool sends, struct rnic_sock_done *d, int n, int timeout_ms)
{
	struct es *es = es_get(fd);
	const uint64_t until = es_until(timeout_ms);

	if (es == NULL)
		return -1;
	struct es_list *from = sends ? &es->send_done : &es->recv_done;
	es_progress(es);
	int got = take_done(es, from, d, n);
	while (got == 0 && n > 0 && timeout_ms != 0 && (es->state != ES_OVER || es->sending > 0) && es_wait(es, until))
		got = take_done(es, from, d, n);
	es_let(es);
	return got;
}

int rnic_sock_send_done(int fd, struct rnic_sock_done *d, int n, int timeout_ms)
{
	return done(fd, true, d, n, timeout_ms);
}

int rnic_sock_recv_done(int fd, struct rnic_sock_done *d, int n, int timeout_ms)
{
	return done(fd, false, d, n, timeout_ms);
}
