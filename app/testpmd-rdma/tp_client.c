/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_client.h"
#include "tp_clock.h"
#include "tp_cm.h"
#include "tp_engine.h"
#include "tp_loss.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define CONNECTING 32u /* connections under way at a time */
#define RESOLVE_MS 2000
#define SLICE_NS   UINT64_C(100000000)

struct client {
	struct tp_session s;
	const struct tp_opts *o;
	struct rdma_event_channel *ch;
	struct sockaddr_storage to, from;
	pthread_t watcher;
	bool watching;
	int quit; /* eventfd that ends the watcher */
};

static enum tp_verdict not_reached(struct client *c)
{
	return tp_fail(c->s.err, TP_NO_DEVICE,
		       "no RDMA device reaches %s%s%s: is rnicd running with a port in that network? "
		       "(-a ADDR names the address to call from)",
		       c->o->host, c->o->addr[0] ? " from " : "", c->o->addr);
}

static enum tp_verdict start_one(struct client *c, struct tp_conn *conn)
{
	struct sockaddr *from = c->o->addr[0] != '\0' ? (struct sockaddr *)&c->from : NULL;

	conn->session = &c->s;
	if (rdma_create_id(c->ch, &conn->id, conn, RDMA_PS_TCP) != 0) {
		conn->id = NULL;
		return tp_verbs_fail(c->s.err, "creating a connection");
	}
	if (rdma_resolve_addr(conn->id, from, (struct sockaddr *)&c->to, RESOLVE_MS) != 0) {
		int e = errno;

		if (tp_verbs_fail(c->s.err, "resolving the server's address") == TP_NO_DEVICE ||
		    (e != ENODEV && e != EADDRNOTAVAIL))
			return TP_NO_DEVICE;
		return not_reached(c);
	}
	return TP_OK;
}

static enum tp_verdict nobody_there(struct client *c, int status)
{
	return tp_fail(c->s.err, TP_NO_PEER,
		       "%s refused the connection to port %u (status %d): is \"testpmd-rdma -s\" running there, "
		       "on that port?",
		       c->o->host, c->o->port, status);
}

static enum tp_verdict connect_one(struct client *c, struct tp_conn *conn)
{
	bool control = conn == &c->s.ctrl;
	uint8_t wire[TP_PRIVATE_SIZE];
	struct rdma_conn_param cp;
	enum tp_verdict v = control ? tp_session_open(&c->s) : tp_session_add_qp(&c->s, conn);

	if (v != TP_OK)
		return v;
	tp_cm_param(&cp, conn->id->verbs, &conn->priv, wire);
	if (rdma_connect(conn->id, &cp) == 0)
		return TP_OK;
	return errno == ECONNREFUSED ? nobody_there(c, -errno) : tp_verbs_fail(c->s.err, "connecting");
}

static enum tp_verdict refused(struct client *c, const struct rdma_cm_event *ev)
{
	char text[200] = "";
	size_t n = ev->param.conn.private_data_len;

	/* A testpmd-rdma server gives the reason in its reject. The bytes are untrusted, so only printable ones are
	 * shown. */
	if (ev->param.conn.private_data != NULL && n > 4 && memcmp(ev->param.conn.private_data, "tp: ", 4) == 0) {
		n = n - 4 < sizeof(text) - 1 ? n - 4 : sizeof(text) - 1;
		memcpy(text, (const char *)ev->param.conn.private_data + 4, n);
		for (size_t i = 0; i < n && text[i] != '\0'; i++)
			if (text[i] < ' ' || text[i] > '~')
				text[i] = '?';
		return tp_fail(c->s.err, TP_NO_PEER, "the server refused: %s", text);
	}
	return nobody_there(c, ev->status);
}

static enum tp_verdict client_on_event(struct client *c, struct tp_conn *conn, const struct rdma_cm_event *ev,
				       uint32_t *up)
{
	const char *host = c->o->host;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return rdma_resolve_route(conn->id, RESOLVE_MS) == 0 ? TP_OK
								     : tp_verbs_fail(c->s.err, "resolving the route");
	case RDMA_CM_EVENT_ROUTE_RESOLVED: return connect_one(c, conn);
	case RDMA_CM_EVENT_ESTABLISHED:
		conn->established = true;
		(*up)++;
		return TP_OK;
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (ev->status == -ENODEV)
			return not_reached(c);
		return tp_fail(c->s.err, TP_NO_PEER,
			       "the address of %s cannot be resolved (status %d): does an RDMA device have a port "
			       "in that network, and is the server's machine up?",
			       host, ev->status);
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return tp_fail(c->s.err, TP_NO_PEER, "no route to %s (status %d)", host, ev->status);
	case RDMA_CM_EVENT_REJECTED: return refused(c, ev);
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		return tp_fail(c->s.err, TP_NO_PEER,
			       "%s does not answer on port %u (status %d): is the server running, and does the "
			       "network reach it?",
			       host, c->o->port, ev->status);
	case RDMA_CM_EVENT_DISCONNECTED:
		return tp_fail(c->s.err, TP_PEER_GONE,
			       "%s closed a connection while others were being made: see the server's output", host);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return tp_fail(c->s.err, TP_NO_DEVICE, "the RDMA device went away: has rnicd been stopped?");
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT: break;
	}
	return TP_OK;
}

/* Makes n connections, up to CONNECTING at a time. */
static enum tp_verdict connect_all(struct client *c, struct tp_conn *conns, uint32_t n)
{
	uint32_t started = 0, up = 0, before = 0;
	uint64_t last = tp_now();
	enum tp_verdict v = TP_OK;

	while (v == TP_OK && up < n) {
		struct rdma_cm_event *ev;

		while (v == TP_OK && started < n && started - up < CONNECTING)
			v = start_one(c, &conns[started++]);
		if (v == TP_OK)
			v = tp_cm_next(c->ch, SLICE_NS, &ev, c->s.err);
		if (v != TP_OK)
			break;
		if (ev != NULL) {
			v = client_on_event(c, ev->id->context, ev, &up);
			rdma_ack_cm_event(ev);
		}
		if (up != before) {
			before = up;
			last = tp_now();
		}
		if (v == TP_OK && atomic_load(c->s.stop))
			v = tp_fail(c->s.err, TP_STOPPED, "stopped while connecting");
		if (v == TP_OK && tp_now() - last > c->s.point.timeout)
			v = tp_fail(c->s.err, TP_TIMEOUT,
				    "%s does not answer: is \"testpmd-rdma -s\" running there, and does the network "
				    "reach it?",
				    c->o->host);
	}
	return v;
}

/* After connecting, this thread reads the event channel, and tells the run's thread when a connection ends. */
static void *watch(void *arg)
{
	struct client *c = arg;
	struct pollfd fd[2] = { { .fd = c->ch->fd, .events = POLLIN }, { .fd = c->quit, .events = POLLIN } };
	struct rdma_cm_event *ev;

	while (poll(fd, 2, -1) < 0 || fd[1].revents == 0) {
		if (fd[0].revents == 0 || rdma_get_cm_event(c->ch, &ev) != 0)
			continue;
		if (ev->event == RDMA_CM_EVENT_DISCONNECTED || ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			atomic_store(&c->s.dead, true);
		rdma_ack_cm_event(ev);
	}
	return NULL;
}

static enum tp_verdict start_watcher(struct client *c)
{
	c->quit = eventfd(0, EFD_CLOEXEC);
	if (c->quit < 0 || pthread_create(&c->watcher, NULL, watch, c) != 0)
		return tp_fail(c->s.err, TP_NO_MEMORY, "cannot start a thread");
	c->watching = true;
	return TP_OK;
}

static enum tp_verdict setup(struct client *c)
{
	struct tp_session *s = &c->s;
	struct tp_region mine;
	struct tp_msg m;
	enum tp_verdict v;

	tp_layout_make(&s->layout, &s->point);
	if (s->layout.len > c->o->max_memory)
		return tp_fail(s->err, TP_NO_MEMORY,
			       "this run needs %" PRIu64 " MiB of buffers on each side: use a smaller --size, "
			       "--buffers or --qps, or allow it with --max-memory on both sides",
			       s->layout.len >> 20);
	v = tp_session_setup(s, c->o->inline_max, c->o->rnic_alloc);
	if (v != TP_OK)
		return v;
	mine = (struct tp_region){ (uintptr_t)s->region, s->layout.len, s->mr->rkey };
	tp_msg_put_setup(&m, &s->point, &mine, s->inline_max);
	v = tp_ctrl_send(s, &m);
	if (v == TP_OK)
		v = tp_ctrl_wait(s, TP_MSG_SETUP_OK, &m, s->point.timeout);
	if (v != TP_OK)
		return v;
	tp_msg_get_region(&m, &s->peer);
	if (s->peer.len != s->layout.len)
		return tp_fail(s->err, TP_BAD_PEER,
			       "the server laid out its buffers otherwise: use the same version on both sides");
	return s->grams != NULL ? tp_gram_exchange(s) : TP_OK;
}

/* The device and address that the connection manager has chosen. */
static void tell_device(struct tp_result *res, struct ibv_context *verbs, uint8_t port)
{
	struct ibv_port_attr attr;

	snprintf(res->device, sizeof(res->device), "%s", ibv_get_device_name(verbs->device));
	if (ibv_query_port(verbs, port, &attr) == 0)
		res->active_mtu = 128u << attr.active_mtu;
}

static enum tp_verdict client_run(struct client *c, struct tp_result *res)
{
	struct tp_session *s = &c->s;
	struct tp_err unsaid;
	uint64_t start;
	enum tp_verdict v = tp_cm_address(c->o->host, c->o->port, false, &c->to, s->err);

	if (v == TP_OK && c->o->addr[0] != '\0')
		v = tp_cm_address(c->o->addr, 0, false, &c->from, s->err);
	if (v != TP_OK)
		return v;
	c->ch = rdma_create_event_channel();
	if (c->ch == NULL)
		return tp_verbs_fail(s->err, "opening the connection manager");
	s->ctrl.priv = (struct tp_private){ TP_ROLE_CONTROL, 0, s->id };
	v = connect_all(c, &s->ctrl, 1);
	if (v == TP_OK) {
		tell_device(res, s->verbs, s->ctrl.id->port_num);
		v = setup(c);
	}
	if (v == TP_OK) {
		start = tp_now();
		v = s->grams != NULL ? tp_gram_join(s) : connect_all(c, s->conns, s->point.qps);
		res->connect_ns = tp_now() - start;
	}
	if (v == TP_OK)
		v = start_watcher(c);
	if (v == TP_OK && s->point.loss != TP_NO_LOSS)
		v = tp_loss_set(res->device, s->point.loss, s->err);
	if (v != TP_OK)
		return v;
	v = tp_run_point(s, &res->mine, &res->peer);
	res->counts = s->counts;
	if (s->point.loss != TP_NO_LOSS && tp_loss_set(res->device, 0, &unsaid) != TP_OK && v == TP_OK)
		v = tp_fail(s->err, TP_BAD_OPTION, "%s", unsaid.text);
	return v;
}

/* Sends the reason to the server, if the control connection still works. */
static void tell_server(struct client *c)
{
	struct tp_msg m = { .type = TP_MSG_ERROR };
	struct tp_err keep = *c->s.err;

	if (!c->s.ctrl.established || c->s.ctrl_sent == 0)
		return;
	snprintf(m.text, sizeof(m.text), "%.*s", (int)sizeof(m.text) - 1, keep.text);
	if (tp_ctrl_send(&c->s, &m) == TP_OK)
		usleep(50000); /* closing at once could overtake the message */
	*c->s.err = keep;
}

enum tp_verdict tp_client_point(const struct tp_opts *o, const struct tp_point *p, const struct tp_client_env *env,
				struct tp_result *res, struct tp_err *err)
{
	struct client *c = calloc(1, sizeof(*c));
	enum tp_verdict v;
	uint64_t closing;

	if (c == NULL)
		return tp_fail(err, TP_NO_MEMORY, "out of memory");
	memset(res, 0, sizeof(*res));
	err->text[0] = '\0';
	res->point = *p;
	c->o = o;
	c->quit = -1;
	c->s.point = *p;
	c->s.stop = env->stop;
	c->s.progress = env->progress;
	c->s.err = err;
	if (getrandom(&c->s.id, sizeof(c->s.id), 0) != sizeof(c->s.id))
		c->s.id = tp_now();
	v = client_run(c, res);
	if (v != TP_OK)
		tell_server(c);
	if (c->watching) {
		uint64_t one = 1;

		if (write(c->quit, &one, sizeof(one)) == sizeof(one))
			pthread_join(c->watcher, NULL);
	}
	closing = tp_now();
	tp_session_close(&c->s);
	res->close_ns = tp_now() - closing;
	if (c->quit >= 0)
		close(c->quit);
	if (c->ch != NULL)
		rdma_destroy_event_channel(c->ch);
	free(c);
	return v;
}
