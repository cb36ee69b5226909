/* SPDX-License-Identifier: BSD-3-Clause */
/* How a socket becomes an extended one, and how that ends. */
#include "rnic/esock/esock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_DEFAULT 64u
#define SLOTS_DEFAULT 32u
#define SIZE_DEFAULT  16384u
#define RETRIES_MOST  7

void es_set_state(struct es *es, enum es_state to) { es->state = to; }

/* ---- prepare ---- */

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void es_free(struct es *es)
{
	for (uint32_t i = 0; i < es->n_mrs; i++)
		ibv_dereg_mr(es->mrs[i]);
	free(es->mrs);
	if (es->qp != NULL)
		ibv_destroy_qp(es->qp);
	if (es->mr != NULL)
		ibv_dereg_mr(es->mr);
	free(es->mem);
	if (es->cq != NULL)
		ibv_destroy_cq(es->cq);
	if (es->cc != NULL)
		ibv_destroy_comp_channel(es->cc);
	if (es->id != NULL)
		rdma_destroy_id(es->id);
	if (es->ch != NULL)
		rdma_destroy_event_channel(es->ch);
	close_fd(es->ep);
	close_fd(es->ready_fd);
	close_fd(es->kick_fd);
	free(es->ops);
	pthread_mutex_destroy(&es->lock);
	pthread_cond_destroy(&es->turn);
	free(es);
}

static struct es *es_new(int fd, const struct rnic_iwarp_mode *mode)
{
	struct es *es = calloc(1, sizeof(*es));
	pthread_condattr_t attr;

	if (es == NULL)
		return NULL;
	es->fd = fd;
	es->mode = *mode;
	es->mode.depth = mode->depth != 0 ? mode->depth : DEPTH_DEFAULT;
	es->mode.slots = mode->slots != 0 ? mode->slots : SLOTS_DEFAULT;
	es->mode.slot_size = mode->slot_size != 0 ? mode->slot_size : SIZE_DEFAULT;
	es->hello = (struct esk_hello){ .version = ESK_VERSION,
					.slots = (uint16_t)es->mode.slots,
					.size = es->mode.slot_size };
	es->ep = epoll_create1(EPOLL_CLOEXEC);
	es->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	es->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&es->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&es->turn, &attr);
	pthread_condattr_destroy(&attr);
	return es;
}

static bool mode_good(const struct rnic_iwarp_mode *m)
{
	const uint32_t roles = RNIC_SOCK_CONNECTED | RNIC_SOCK_ACCEPTED, role = m->flags & roles;

	if ((role != RNIC_SOCK_CONNECTED && role != RNIC_SOCK_ACCEPTED) ||
	    (m->flags & ~(roles | RNIC_SOCK_MESSAGES)) != 0) {
		es_fail(EINVAL, "the mode's flags must name either RNIC_SOCK_CONNECTED or RNIC_SOCK_ACCEPTED");
		return false;
	}
	if (m->depth > 4096 || (m->slots != 0 && (m->slots < ESK_SLOTS_MIN || m->slots > ESK_SLOTS_MAX)) ||
	    (m->slot_size != 0 && (m->slot_size < ESK_SIZE_MIN || m->slot_size > ESK_SIZE_MAX))) {
		es_fail(EINVAL, "the mode's depth must be at most 4096, its slots from 4 to 4096, "
				"its slot_size from 64 to 1 MiB");
		return false;
	}
	return true;
}

static bool listens(struct es *es, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return fd >= 0 && epoll_ctl(es->ep, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static bool does_not_block(int fd) { return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

/* Makes the queues, large enough for the program's calls and for the byte stream. */
static bool queues(struct es *es)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = es->mode.depth + ES_OUT + ES_PIECES + ES_CONTROL,
			 .max_recv_wr = rn_max_u32(es->mode.depth, es->mode.slots),
			 .max_send_sge = ES_SGE,
			 .max_recv_sge = 1,
			 .max_inline_data = ES_INLINE },
	};

	es->cc = ibv_create_comp_channel(es->id->verbs);
	if (es->cc == NULL || !does_not_block(es->cc->fd) || !listens(es, es->cc->fd))
		return false;
	es->cq = ibv_create_cq(es->id->verbs, (int)(attr.cap.max_send_wr + attr.cap.max_recv_wr), NULL, es->cc, 0);
	attr.send_cq = attr.recv_cq = es->cq;
	es->qp = es->cq != NULL ? ibv_create_qp(es->id->pd, &attr) : NULL;
	return es->qp != NULL && es_make_ops(es);
}

static int take_socket(struct es *es)
{
	es->ch = rdma_create_event_channel();
	if (es->ch == NULL || !does_not_block(es->ch->fd) || !listens(es, es->ch->fd) || !listens(es, es->ready_fd) ||
	    rdma_create_id(es->ch, &es->id, es, RDMA_PS_TCP) != 0)
		return es_fail(errno, "no RDMA device, descriptor or memory for an extended socket: %s",
			       strerror(errno));
	int rc = (es->mode.flags & RNIC_SOCK_CONNECTED) != 0 ? rnicdv_resolve_socket(es->id, es->fd)
							     : rnicdv_await_socket(es->id, es->fd);
	if (rc != 0)
		return es_fail(errno,
			       "descriptor %d cannot be switched: %s (a connected TCP socket is needed, and rnicrun "
			       "--embedded, or --sockets --design host with a connection over rnicd)",
			       es->fd, strerror(errno));
	return 0;
}

/* Gives the program's descriptor number to the epoll: a read of the socket by mistake would take bytes of iWARP. */
static int replace(struct es *es, int flags)
{
	int cloexec = fcntl(es->fd, F_GETFD);

	if (cloexec < 0 || dup3(es->ep, es->fd, (cloexec & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0) < 0 ||
	    fcntl(es->fd, F_SETFL, flags & O_NONBLOCK) < 0)
		return es_fail(errno, "descriptor %d cannot be replaced: %s", es->fd, strerror(errno));
	return 0;
}

int rnic_sock_prepare(int fd, const struct rnic_iwarp_mode *mode)
{
	if (!mode_good(mode))
		return -1;
	const int flags = fcntl(fd, F_GETFL); /* taking the socket changes its own flags */
	struct es *es = flags >= 0 ? es_new(fd, mode) : NULL;
	if (flags < 0)
		return es_fail(EBADF, "%d is no open descriptor", fd);
	if (es == NULL || es->ep < 0 || es->ready_fd < 0 || es->kick_fd < 0) {
		if (es != NULL)
			es_free(es);
		return es_fail(ENOMEM, "no memory or descriptors for an extended socket");
	}
	int rc = take_socket(es);
	if (rc == 0 && !queues(es))
		rc = es_fail(errno, "no queue pair for an extended socket: %s; ask for less depth", strerror(errno));
	if (rc == 0 && !es_enter(es))
		rc = es_fail(EBUSY, "descriptor %d is an extended socket already, or its number is beyond 65535", fd);
	if (rc == 0) {
		rc = replace(es, flags);
		if (rc != 0 && es_leave(fd) != NULL) {
			pthread_mutex_unlock(&es->lock);
			es_call_end();
		}
	}
	if (rc != 0) {
		int err = errno;
		es_free(es);
		errno = err;
	}
	return rc;
}

/* ---- start ---- */

static bool wants_bytes(const struct es *es) { return (es->mode.flags & RNIC_SOCK_MESSAGES) == 0; }

/* The socket stays as it is, until it is closed. */
static void starter_gone(void *arg)
{
	struct es *es = arg;

	pthread_mutex_lock(&es->lock);
	es_drop(es);
}

/*
 * Waits for the next event, which must be of this type; false and errno: it is another one. *said: what its private
 * data contains.
 */
static bool event_is(struct es *es, enum rdma_cm_event_type type, enum esk_hello_verdict *said)
{
	struct rdma_cm_event *ev;

	while (rdma_get_cm_event(es->ch, &ev) != 0) {
		struct pollfd p = { .fd = es->ch->fd, .events = POLLIN };
		if (errno != EAGAIN)
			return false;
		es_poll(es, &p, 1, 1000, es_cancel, starter_gone);
		if (es->state == ES_OVER) {
			es_fail(ECANCELED, "the socket has been closed");
			return false;
		}
	}
	const enum rdma_cm_event_type is = ev->event;
	if (said != NULL && is == type)
		*said = esk_hello_parse(ev->param.conn.private_data, ev->param.conn.private_data_len, &es->esk.peer);
	rdma_ack_cm_event(ev);
	if (is == type)
		return true;
	if (is == RDMA_CM_EVENT_REJECTED)
		es_fail(ECONNREFUSED, "the peer has rejected the switch to iWARP");
	else
		es_fail(ECONNRESET,
			"the switch to iWARP failed: the peer has ended the stream, has sent nothing for 10 s, or "
			"has sent something other than MPA (%s)",
			rdma_event_str(is));
	return false;
}

/*
 * Both ends' wishes are known. With a byte stream, posts a receive for each slot before the peer can send; else the
 * program's receives.
 */
static int agree(struct es *es, enum esk_hello_verdict said)
{
	struct es_op *op;
	int rc = 0;

	if (said == ESK_HELLO_BAD)
		return es_fail(EPROTO, "the peer's private data begins like that of extended sockets and is malformed");
	es->bytes = wants_bytes(es) && said == ESK_HELLO_OK;
	es->agreed = true;
	if (es->bytes) {
		const struct esk_hello peer = es->esk.peer;
		esk_init(&es->esk, &es->hello, &peer);
		rc = es_make_bytes(es);
	}
	while (rc == 0 && es->bytes && (op = es_take(&es->free[ES_SLOT])) != NULL)
		rc = es_post_slot(es, op);
	while (rc == 0 && !es->bytes && (op = es_take(&es->recv_wait)) != NULL)
		rc = es_post_recv(es, op);
	return rc == 0 ? 0
		       : es_fail(rc, "no memory for the bytes of an extended socket: ask for fewer or smaller slots");
}

static void depths(struct rdma_conn_param *p)
{
	p->responder_resources = RDMA_MAX_RESP_RES;
	p->initiator_depth = RDMA_MAX_INIT_DEPTH;
	p->retry_count = p->rnr_retry_count = RETRIES_MOST;
}

static int start_active(struct es *es)
{
	struct rdma_conn_param p = { .qp_num = 0 };
	enum esk_hello_verdict said = ESK_HELLO_NONE;
	uint8_t hello[ESK_HELLO_LEN];

	depths(&p);
	if (wants_bytes(es)) {
		esk_hello_build(hello, &es->hello);
		p.private_data = hello;
		p.private_data_len = sizeof(hello);
	}
	if (rdma_connect(es->id, &p) != 0)
		return es_fail(errno, "MPA could not be started: %s", strerror(errno));
	if (!event_is(es, RDMA_CM_EVENT_CONNECT_RESPONSE, &said))
		return -1;
	if (said == ESK_HELLO_OK && es->esk.peer.version != ESK_VERSION)
		said = ESK_HELLO_BAD; /* the version of a Reply must be known to the Request's sender */
	if (agree(es, said) != 0)
		return -1;
	p = (struct rdma_conn_param){ .qp_num = es->qp->qp_num };
	depths(&p);
	if (rdma_accept(es->id, &p) != 0)
		return es_fail(errno, "the peer has gone: %s", strerror(errno));
	return event_is(es, RDMA_CM_EVENT_ESTABLISHED, NULL) ? 0 : -1;
}

static int start_passive(struct es *es)
{
	struct rdma_conn_param p = { .qp_num = es->qp->qp_num };
	enum esk_hello_verdict said = ESK_HELLO_NONE;
	uint8_t hello[ESK_HELLO_LEN];

	if (!event_is(es, RDMA_CM_EVENT_CONNECT_REQUEST, &said))
		return -1;
	es->hello.version = esk_version(es->esk.peer.version);
	if (agree(es, said) != 0) {
		int err = errno;
		rdma_reject(es->id, NULL, 0);
		errno = err;
		return -1;
	}
	depths(&p);
	if (es->bytes) {
		esk_hello_build(hello, &es->hello);
		p.private_data = hello;
		p.private_data_len = sizeof(hello);
	}
	if (rdma_accept(es->id, &p) != 0)
		return es_fail(errno, "the peer has gone: %s", strerror(errno));
	return event_is(es, RDMA_CM_EVENT_ESTABLISHED, NULL) ? 0 : -1;
}

int rnic_sock_start(int fd)
{
	struct es *es = es_get(fd);

	if (es == NULL)
		return -1;
	if (es->state != ES_PREPARED) {
		es_let(es);
		return es_fail(EISCONN, "descriptor %d has been started already", fd);
	}
	es_set_state(es, ES_STARTING);
	bool active = (es->mode.flags & RNIC_SOCK_CONNECTED) != 0;
	int rc = active ? start_active(es) : start_passive(es), err = errno;
	if (rc == 0) {
		es_set_state(es, ES_OPEN);
		if (es->bytes && active)
			es_first_credit(es);
	} else {
		es_broken(es, err);
	}
	es_let(es);
	errno = err;
	return rc;
}

int rnic_sock_switch(int fd, const struct rnic_iwarp_mode *mode)
{
	int rc = rnic_sock_prepare(fd, mode);

	return rc == 0 ? rnic_sock_start(fd) : rc;
}

struct ibv_qp *rnic_sock_qp(int fd)
{
	struct es *es = es_get(fd);

	if (es == NULL)
		return NULL;
	struct ibv_qp *qp = es->qp;
	es_let(es);
	return qp;
}

/* ---- the end ---- */

int rnic_sock_close(int fd)
{
	struct es *es = es_leave(fd);
	const uint64_t until = es_until(ES_CLOSE_MS);

	if (es == NULL)
		return -1;
	close(fd);
	es_progress(es);
	if (es->state == ES_OPEN) {
		es->shut = true;
		es_end(es);
		while (es->bytes && es->state == ES_OPEN && !es->esk.out_ended && es_wait_through(es, until))
			;
		rdma_disconnect(es->id); /* sends posted work first */
		while (es->state == ES_OPEN && es_wait_through(es, until))
			;
	}
	es_broken(es, ECANCELED);
	pthread_cond_broadcast(&es->turn);
	es_let(es);
	return 0;
}
