/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main thread handles connection-manager events, and creates and frees sessions. Each session has a thread for its
 * run. The main thread accepts data connections only after setup_done, and frees a session only after its thread has
 * ended.
 */
#include "tp_server.h"
#include "tp_clock.h"
#include "tp_cm.h"
#include "tp_engine.h"
#include "tp_report.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BACKLOG      256
#define MAX_SESSIONS 256
#define SLICE_MS     500
#define LINGER_NS    UINT64_C(5000000000) /* --timeout if that is longer */

struct server;

struct serving {
	struct tp_session s; /* first member: a connection's session is at this address */
	struct server *server;
	struct serving *next;
	pthread_t thread;
	bool started;
	atomic_bool setup_done, finished;
	struct tp_figures mine;
	enum tp_verdict verdict;
	struct tp_err err;
	char who[80];
};

struct server {
	const struct tp_opts *o;
	const atomic_bool *stop;
	struct tp_err *err;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener;
	struct serving *first;
	unsigned n;
	bool over;               /* --once: the client has had its last run */
	enum tp_verdict verdict; /* of the last run, or why the server cannot go on */
	int wake;                /* eventfd: a session has finished */
};

static enum tp_verdict take_setup(struct serving *v)
{
	struct tp_session *s = &v->s;
	struct tp_region mine;
	struct tp_msg m;
	uint32_t inline_want = 0;
	enum tp_verdict r = tp_ctrl_wait(s, TP_MSG_SETUP, &m, v->server->o->timeout);

	if (r != TP_OK)
		return r;
	tp_msg_get_setup(&m, &s->point, &s->peer, &inline_want);
	r = tp_point_check(&s->point, s->err);
	if (r != TP_OK)
		return r;
	tp_layout_make(&s->layout, &s->point);
	if (s->layout.len > v->server->o->max_memory)
		return tp_fail(
			s->err, TP_NO_MEMORY,
			"this run needs %" PRIu64 " MiB of buffers and the server allows %" PRIu64
			": use a smaller --size, --buffers or --qps, or start the server with a larger --max-memory",
			s->layout.len >> 20, v->server->o->max_memory >> 20);
	if (s->peer.len != s->layout.len)
		return tp_fail(s->err, TP_BAD_PEER,
			       "the client laid out its buffers otherwise: use the same version on both sides");
	r = tp_session_setup(s, inline_want > 65536 ? -1 : (int)inline_want, v->server->o->rnic_alloc);
	if (r != TP_OK)
		return r;
	atomic_store(&v->setup_done, true); /* pairs with the load in accept_data */
	mine = (struct tp_region){ (uintptr_t)s->region, s->layout.len, s->mr->rkey };
	m = (struct tp_msg){ .type = TP_MSG_SETUP_OK };
	tp_msg_put_region(&m, &mine);
	return tp_ctrl_send(s, &m);
}

static void log_line(const struct serving *v, enum tp_verdict r)
{
	char size[24];

	if (v->server->o->quiet)
		return;
	if (r != TP_OK) {
		printf("%s: %s\n", v->who, v->err.text);
	} else {
		tp_format_size(v->s.point.size, size, sizeof(size));
		printf("%s: %s %s, %u queue pair%s: %s%s\n", v->who, tp_mode_name(v->s.point.mode), size,
		       v->s.point.qps, v->s.point.qps == 1 ? "" : "s", v->mine.checked ? "verified" : "done",
		       v->s.point.bidir ? ", both ways" : "");
	}
	fflush(stdout);
}

static void *serve(void *arg)
{
	struct serving *v = arg;
	struct tp_figures unused;
	uint64_t start, linger, one = 1;
	enum tp_verdict r = take_setup(v);
	bool tell;

	if (r == TP_OK)
		r = tp_run_point(&v->s, &v->mine, &unused);
	tell = r != TP_OK && r != TP_PEER_GONE;
	if (r == TP_OK && v->mine.wrong > 0)
		r = TP_CORRUPT; /* the client learns of it from the result */
	v->verdict = r;
	log_line(v, r);
	if (tell) {
		struct tp_msg m = { .type = TP_MSG_ERROR };

		snprintf(m.text, sizeof(m.text), "%.*s", (int)sizeof(m.text) - 1, v->err.text);
		(void)tp_ctrl_send(&v->s, &m); /* a peer that cannot be told sees the connection end */
	}
	/*
	 * The client closes first: closing here could overtake the last message. A network that loses frames may deliver
	 * that message late.
	 */
	linger = v->s.point.timeout > LINGER_NS ? v->s.point.timeout : LINGER_NS;
	for (start = tp_now(); !atomic_load(&v->s.dead) && tp_now() - start < linger && !atomic_load(v->s.stop);)
		usleep(1000);
	atomic_store(&v->finished, true);
	if (write(v->server->wake, &one, sizeof(one)) != sizeof(one))
		return NULL; /* the main thread looks every SLICE_MS anyway */
	return NULL;
}

static struct serving *find(struct server *srv, uint64_t id)
{
	for (struct serving *v = srv->first; v != NULL; v = v->next)
		if (v->s.id == id && !atomic_load(&v->finished))
			return v;
	return NULL;
}

static void reject(struct rdma_cm_id *id, const char *why)
{
	char text[148];
	int n = snprintf(text, sizeof(text), "tp: %s", why);

	rdma_reject(id, text, (uint8_t)(n < (int)sizeof(text) ? n + 1 : (int)sizeof(text)));
	rdma_destroy_id(id);
}

static bool accept_one(struct tp_conn *c, const struct rdma_conn_param *asked)
{
	struct rdma_conn_param cp;
	uint8_t wire[TP_PRIVATE_SIZE];

	tp_cm_param(&cp, c->id->verbs, &c->priv, wire);
	if (cp.initiator_depth > asked->responder_resources)
		cp.initiator_depth = asked->responder_resources;
	if (cp.responder_resources > asked->initiator_depth)
		cp.responder_resources = asked->initiator_depth;
	cp.private_data = NULL;
	cp.private_data_len = 0;
	c->id->context = c;
	return rdma_accept(c->id, &cp) == 0;
}

static void accept_control(struct server *srv, struct rdma_cm_id *id, const struct tp_private *p,
			   const struct rdma_conn_param *asked)
{
	struct serving *v;

	if (srv->n >= MAX_SESSIONS || find(srv, p->session) != NULL) {
		reject(id, "too many clients at once: try again later");
		return;
	}
	v = calloc(1, sizeof(*v));
	if (v == NULL) {
		reject(id, "the server is out of memory");
		return;
	}
	v->server = srv;
	v->s.is_server = true;
	v->s.stop = srv->stop;
	v->s.err = &v->err;
	v->s.id = p->session;
	v->s.ctrl = (struct tp_conn){ .session = &v->s, .id = id, .priv = *p };
	tp_cm_format(rdma_get_peer_addr(id), v->who, sizeof(v->who));
	if (tp_session_open(&v->s) != TP_OK || !accept_one(&v->s.ctrl, asked)) {
		if (v->err.text[0] == '\0')
			tp_verbs_fail(&v->err, "accepting a connection");
		fprintf(stderr, "%s: %s\n", v->who, v->err.text);
		v->s.ctrl.id = NULL;
		if (id->qp != NULL)
			rdma_destroy_qp(id);
		reject(id, v->err.text);
		tp_session_close(&v->s);
		free(v);
		return;
	}
	v->next = srv->first;
	srv->first = v;
	srv->n++;
}

static void accept_data(struct server *srv, struct rdma_cm_id *id, const struct tp_private *p,
			const struct rdma_conn_param *asked)
{
	struct serving *v = find(srv, p->session);
	struct tp_conn *c;

	if (v == NULL || !atomic_load(&v->setup_done) || v->s.conns == NULL || p->index >= v->s.point.qps ||
	    v->s.conns[p->index].id != NULL) {
		reject(id, "a data connection that belongs to no run");
		return;
	}
	c = &v->s.conns[p->index];
	c->id = id;
	if (tp_session_add_qp(&v->s, c) == TP_OK && accept_one(c, asked))
		return;
	if (v->err.text[0] == '\0')
		tp_verbs_fail(&v->err, "accepting a connection");
	c->id = NULL;
	if (id->qp != NULL)
		rdma_destroy_qp(id);
	reject(id, v->err.text);
	atomic_store(&v->s.dead, true);
}

static void on_request(struct server *srv, const struct rdma_cm_event *ev)
{
	struct tp_private p;
	struct tp_err err;

	if (tp_private_decode(&p, ev->param.conn.private_data, ev->param.conn.private_data_len, &err) != TP_OK)
		reject(ev->id, err.text);
	else if (p.role == TP_ROLE_CONTROL)
		accept_control(srv, ev->id, &p, &ev->param.conn);
	else
		accept_data(srv, ev->id, &p, &ev->param.conn);
}

static void on_established(struct tp_conn *c)
{
	struct serving *v = (struct serving *)c->session;

	c->established = true;
	if (c != &v->s.ctrl) {
		atomic_fetch_add(&v->s.established, 1);
	} else if (pthread_create(&v->thread, NULL, serve, v) == 0) {
		v->started = true;
	} else {
		fprintf(stderr, "%s: cannot start a thread\n", v->who);
		atomic_store(&v->finished, true);
	}
}

static void on_end(struct tp_conn *c)
{
	struct serving *v = (struct serving *)c->session;

	atomic_store(&v->s.dead, true);
	if (!v->started)
		atomic_store(&v->finished, true);
}

static void server_on_event(struct server *srv, const struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST: on_request(srv, ev); break;
	case RDMA_CM_EVENT_ESTABLISHED: on_established(ev->id->context); break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED: on_end(ev->id->context); break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		if (ev->id != srv->listener)
			on_end(ev->id->context);
		srv->over = true;
		srv->verdict = tp_fail(srv->err, TP_NO_DEVICE, "the RDMA device went away: has rnicd been stopped?");
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT: break;
	}
}

/* Free the sessions that have ended. */
static void reap(struct server *srv)
{
	struct serving **link = &srv->first, *v;

	while ((v = *link) != NULL) {
		if (!atomic_load(&v->finished)) {
			link = &v->next;
			continue;
		}
		*link = v->next;
		srv->n--;
		if (v->started)
			pthread_join(v->thread, NULL);
		/* A client that broke off or was stopped has no further run. */
		if (srv->o->once && v->started && (!v->s.point.more || v->verdict != TP_OK || v->s.peer_stopped)) {
			srv->over = true;
			srv->verdict = v->verdict;
			*srv->err = v->err;
		}
		tp_session_close(&v->s);
		free(v);
	}
}

static enum tp_verdict listen_on(struct server *srv)
{
	struct sockaddr_storage sa;
	enum tp_verdict v = tp_cm_address(srv->o->addr, srv->o->port, true, &sa, srv->err);

	if (v != TP_OK)
		return v;
	srv->ch = rdma_create_event_channel();
	if (srv->ch == NULL)
		return tp_verbs_fail(srv->err, "opening the connection manager");
	if (rdma_create_id(srv->ch, &srv->listener, NULL, RDMA_PS_TCP) != 0) {
		srv->listener = NULL;
		return tp_verbs_fail(srv->err, "creating a listener");
	}
	if (rdma_bind_addr(srv->listener, (struct sockaddr *)&sa) == 0 && rdma_listen(srv->listener, BACKLOG) == 0)
		return TP_OK;
	if (errno == EADDRINUSE)
		return tp_fail(srv->err, TP_BAD_OPTION,
			       "port %u is taken, perhaps by another server: choose one with -p", srv->o->port);
	if (errno == ENODEV || errno == EADDRNOTAVAIL) {
		if (tp_verbs_fail(srv->err, "") == TP_NO_DEVICE)
			return TP_NO_DEVICE;
		return tp_fail(srv->err, TP_NO_DEVICE,
			       "no RDMA device has the address %s: choose one that a port of rnicd has",
			       srv->o->addr[0] ? srv->o->addr : "0.0.0.0");
	}
	return tp_verbs_fail(srv->err, "listening");
}

static enum tp_verdict loop(struct server *srv)
{
	struct pollfd fd[2] = { { .fd = srv->ch->fd, .events = POLLIN }, { .fd = srv->wake, .events = POLLIN } };
	struct rdma_cm_event *ev;
	uint64_t drained;

	while (!atomic_load(srv->stop) && !srv->over) {
		int n = poll(fd, 2, SLICE_MS);

		if (n > 0 && fd[1].revents != 0 && read(srv->wake, &drained, sizeof(drained)) < 0)
			return tp_fail(srv->err, TP_VERBS_ERROR, "reading an event failed: %s", strerror(errno));
		if (n > 0 && fd[0].revents != 0) {
			if (rdma_get_cm_event(srv->ch, &ev) == 0) {
				struct rdma_cm_event copy = *ev;
				uint8_t priv[UINT8_MAX];

				/* Acknowledged first, since handling it may destroy its connection. */
				if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST &&
				    copy.param.conn.private_data != NULL) {
					memcpy(priv, copy.param.conn.private_data, copy.param.conn.private_data_len);
					copy.param.conn.private_data = priv;
				}
				rdma_ack_cm_event(ev);
				server_on_event(srv, &copy);
			} else if (errno != EAGAIN && errno != EINTR) {
				return tp_verbs_fail(srv->err, "waiting for a connection event");
			}
		}
		reap(srv);
	}
	return srv->verdict;
}

enum tp_verdict tp_server(const struct tp_opts *o, const atomic_bool *stop, struct tp_err *err)
{
	struct server srv = { .o = o, .stop = stop, .verdict = TP_OK, .err = err, .wake = eventfd(0, EFD_CLOEXEC) };
	enum tp_verdict v = srv.wake >= 0 ? listen_on(&srv) : tp_fail(err, TP_NO_MEMORY, "no file descriptor left");

	if (v == TP_OK) {
		if (!o->quiet)
			printf("testpmd-rdma: listening on %s port %u\n", o->addr[0] ? o->addr : "every address",
			       o->port);
		fflush(stdout);
		v = loop(&srv);
	}
	for (struct serving *s = srv.first; s != NULL; s = s->next) {
		atomic_store(&s->s.dead, true);
		if (!s->started)
			atomic_store(&s->finished, true);
	}
	while (srv.first != NULL) {
		reap(&srv);
		usleep(1000);
	}
	if (srv.listener != NULL)
		rdma_destroy_id(srv.listener);
	if (srv.ch != NULL)
		rdma_destroy_event_channel(srv.ch);
	if (srv.wake >= 0)
		close(srv.wake);
	return v;
}
