/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams over any RDMA device: a connection for each, made by the producer, with a Send for each unit. The consumer
 * keeps a receive posted for each unit that may be under way, and reports by Sends of its own how many units it has
 * released in all: a producer that has sent `buffers` more than that waits. An empty Send ends a stream.
 */
#include "stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "say.h"

#define CREDITS    4u    /* credit messages under way at most: each reports half of the buffers, or the end */
#define SPIN_LOOKS 1000u /* empty polls until a spinning process looks at the connection manager */
#define RETRY_NS   20000000l
#define RESOLVE_MS 5000

enum slot_kind { SLOT_UNIT_OUT, SLOT_UNIT_IN, SLOT_CREDIT_OUT, SLOT_CREDIT_IN };

struct slot { /* a buffer, and the work request that uses it */
	enum slot_kind kind;
	bool free;
	struct stream *s;
	struct slot *next;
	uint8_t *mem;
	uint32_t len;
};

struct stream {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct slot units[BUFFERS_MOST], credits[CREDITS], *open; /* open: the unit that its producer fills */
	uint32_t sent, taken,
		told;  /* units: sent by the producer; released by the consumer; last reported by the consumer */
	unsigned rank; /* of the other process */
	bool out, up, finished, down;
};

struct verbs_hub {
	struct hub_cfg cfg;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct stream out[STREAMS], in[STREAMS];
	unsigned n_in, up_in, finished_in;
	struct slot *ready, **ready_end; /* units that have come */
	unsigned looks;
};

static struct verbs_hub *hub_of(struct hub *h) { return (struct verbs_hub *)(void *)h; }

/* The device of the first connection serves all connections: each has this process's own address. */
static void use_device(struct verbs_hub *h, struct ibv_context *ctx)
{
	int depth = (int)((h->cfg.n_to + h->cfg.n_from) * (h->cfg.buffers + CREDITS));

	if (h->ctx != NULL)
		return;
	if (ctx == NULL)
		die("%s is not the address of an RDMA device (ibv_devices lists them; is rnicd running?)",
		    h->cfg.addr[h->cfg.me]);
	h->ctx = ctx;
	h->pd = ibv_alloc_pd(ctx);
	h->channel = ibv_create_comp_channel(ctx);
	h->cq = h->channel != NULL ? ibv_create_cq(ctx, depth, NULL, h->channel, 0) : NULL;
	if (h->pd == NULL || h->cq == NULL)
		die("the device cannot have a completion queue of %d entries: %s", depth, strerror(errno));
}

static void post_receive(struct slot *k, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)k->mem, len, k->s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = (uintptr_t)k, .sg_list = &sge, .num_sge = 1 }, *bad;
	int rc = ibv_post_recv(k->s->id->qp, &wr, &bad);

	if (rc != 0)
		die("a receive for rank %u cannot be posted: %s", k->s->rank, strerror(rc));
}

static void post_send(struct slot *k, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)k->mem, len, k->s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = (uintptr_t)k,
				  .sg_list = &sge,
				  .num_sge = len > 0,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	int rc = ibv_post_send(k->s->id->qp, &wr, &bad);

	if (rc != 0)
		die("a unit for rank %u cannot be posted: %s", k->s->rank, strerror(rc));
	k->free = false;
}

/* Makes queue pair and memory of a stream whose id has a device, and posts its receives. */
static void equip(struct verbs_hub *h, struct stream *s)
{
	uint32_t n = h->cfg.buffers, bytes = n * h->cfg.unit + CREDITS * 64;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .send_cq = h->cq,
					 .recv_cq = h->cq,
					 .cap = { .max_send_wr = s->out ? n : CREDITS,
						  .max_recv_wr = s->out ? CREDITS : n,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	s->mem = allocate(bytes);
	s->mr = ibv_reg_mr(h->pd, s->mem, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (s->mr == NULL)
		die("%u buffers of %u bytes cannot be registered: %s", n, h->cfg.unit, strerror(errno));
	if (rdma_create_qp(s->id, h->pd, &attr) != 0)
		die("a queue pair with %u receives cannot be made: %s", n, strerror(errno));
	for (unsigned i = 0; i < n; i++)
		s->units[i] = (struct slot){ .kind = s->out ? SLOT_UNIT_OUT : SLOT_UNIT_IN,
					     .free = true,
					     .s = s,
					     .mem = s->mem + (size_t)i * h->cfg.unit };
	for (unsigned i = 0; i < CREDITS; i++)
		s->credits[i] = (struct slot){ .kind = s->out ? SLOT_CREDIT_IN : SLOT_CREDIT_OUT,
					       .free = true,
					       .s = s,
					       .mem = s->mem + (size_t)n * h->cfg.unit + (size_t)i * 64 };
	for (unsigned i = 0; i < (s->out ? CREDITS : n); i++)
		post_receive(s->out ? &s->credits[i] : &s->units[i], s->out ? 4 : h->cfg.unit);
}

/* Reports released units to the producer, if there are enough for a message. */
static void tell_credit(struct verbs_hub *h, struct stream *s)
{
	uint32_t word = htonl(s->taken), untold = s->taken - s->told;

	if (untold == 0 || (untold < (h->cfg.buffers + 1) / 2 && !s->finished))
		return;
	for (unsigned i = 0; i < CREDITS; i++) {
		if (!s->credits[i].free)
			continue;
		memcpy(s->credits[i].mem, &word, 4);
		s->told = s->taken;
		post_send(&s->credits[i], 4);
		return;
	}
}

static void unit_came(struct verbs_hub *h, struct slot *k, uint32_t len)
{
	struct stream *s = k->s;

	k->len = len;
	if (len > 0) {
		k->next = NULL;
		*h->ready_end = k;
		h->ready_end = &k->next;
		return;
	}
	s->finished = true;
	s->taken++;
	h->finished_in++;
	tell_credit(h, s);
}

static void completed(struct verbs_hub *h, const struct ibv_wc *wc)
{
	struct slot *k = (struct slot *)(uintptr_t)wc->wr_id;
	struct stream *s = k->s;
	uint32_t word;

	if (wc->status != IBV_WC_SUCCESS) {
		if (!s->finished || (s->out && s->taken != s->sent && !s->down))
			die("the stream %s rank %u broke: %s", s->out ? "to" : "from", s->rank,
			    ibv_wc_status_str(wc->status));
		k->free = true;
		return;
	}
	switch (k->kind) {
	case SLOT_UNIT_OUT: k->free = true; break;
	case SLOT_UNIT_IN: unit_came(h, k, wc->byte_len); break;
	case SLOT_CREDIT_OUT:
		k->free = true;
		tell_credit(h, s);
		break;
	case SLOT_CREDIT_IN:
		memcpy(&word, k->mem, 4);
		if (wc->byte_len != 4 || s->sent - ntohl(word) > s->sent - s->taken)
			die("rank %u tells of units that it never got", s->rank);
		s->taken = ntohl(word);
		post_receive(k, 4);
		break;
	}
}

static bool drain(struct verbs_hub *h)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(h->cq, 16, wc);

	if (n < 0)
		die("polling the completion queue failed");
	for (int i = 0; i < n; i++)
		completed(h, &wc[i]);
	return n > 0;
}

/* Accepts a producer, which has sent the number of its process. */
static void admit(struct verbs_hub *h, struct rdma_cm_event *ev)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct stream *s = &h->in[h->n_in];
	struct hello hello = { 0 };

	if (ev->param.conn.private_data_len >= sizeof(hello))
		memcpy(&hello, ev->param.conn.private_data, sizeof(hello));
	if (h->n_in == h->cfg.n_from || !hello_fits(&h->cfg, &hello)) {
		rdma_reject(ev->id, NULL, 0);
		return;
	}
	h->n_in++;
	s->id = ev->id;
	s->id->context = s;
	s->rank = hello.from;
	equip(h, s);
	if (rdma_accept(s->id, &param) != 0)
		die("rank %u cannot be accepted: %s", s->rank, strerror(errno));
}

static void gone(struct stream *s)
{
	if (!s->finished || (s->out && s->taken != s->sent))
		die("rank %u ended before the stream %s it was finished", s->rank, s->out ? "to" : "from");
	s->down = true;
}

/* The next event of the connection manager; returns the event's type, for a caller that waits for a certain event. */
static enum rdma_cm_event_type cm_event(struct verbs_hub *h)
{
	struct rdma_cm_event *ev, copy;
	struct stream *s;

	if (rdma_get_cm_event(h->events, &ev) != 0)
		die("the connection manager is gone: %s", strerror(errno));
	copy = *ev;
	s = ev->id->context;
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		admit(h, ev);
	} else if (ev->event == RDMA_CM_EVENT_ESTABLISHED && s != NULL) {
		s->up = true;
		h->up_in += !s->out;
	}
	rdma_ack_cm_event(ev);
	/* CONNECT_ERROR: the producer has ended while its connection was being accepted */
	if (s != NULL &&
	    (copy.event == RDMA_CM_EVENT_DISCONNECTED || (copy.event == RDMA_CM_EVENT_CONNECT_ERROR && !s->out)))
		gone(s);
	if (copy.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		die("the RDMA device is gone");
	return copy.event;
}

/* Handles a completion or an event of the connection manager: sleeps until there is one, or only polls. */
static void progress(struct verbs_hub *h)
{
	struct pollfd fds[2] = { { h->events->fd, POLLIN, 0 }, { h->channel->fd, POLLIN, 0 } };
	struct ibv_cq *cq;
	void *arg;

	if (drain(h))
		return;
	if (h->cfg.polling) {
		if (++h->looks % SPIN_LOOKS == 0 && poll(fds, 1, 0) == 1)
			cm_event(h);
		return;
	}
	if (ibv_req_notify_cq(h->cq, 0) != 0)
		die("completions cannot be waited for: use --wait poll");
	if (drain(h))
		return;
	if (poll(fds, 2, -1) < 0 && errno != EINTR)
		die("waiting failed: %s", strerror(errno));
	if (fds[1].revents != 0 && ibv_get_cq_event(h->channel, &cq, &arg) == 0)
		ibv_ack_cq_events(cq, 1);
	if (fds[0].revents != 0)
		cm_event(h);
}

static struct sockaddr_in address(const struct hub_cfg *c, unsigned rank, bool port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port ? (uint16_t)(c->port + rank) : 0) };

	if (inet_pton(AF_INET, c->addr[rank], &a.sin_addr) != 1)
		die("'%s' is no IPv4 address", c->addr[rank]);
	return a;
}

static void expect(struct verbs_hub *h, struct stream *s, enum rdma_cm_event_type type)
{
	enum rdma_cm_event_type got = cm_event(h);

	if (got != type)
		die("%s cannot be reached from %s (%s): both have to be addresses of RDMA devices in one network",
		    h->cfg.addr[s->rank], h->cfg.addr[h->cfg.me], rdma_event_str(got));
}

/* One attempt to connect; false: the other process does not listen yet. */
static bool try_connect(struct verbs_hub *h, struct stream *s)
{
	struct sockaddr_in me = address(&h->cfg, h->cfg.me, false), to = address(&h->cfg, s->rank, true);
	struct hello hello = hello_make(&h->cfg);
	struct rdma_conn_param param = {
		.private_data = &hello, .private_data_len = sizeof(hello), .retry_count = 7, .rnr_retry_count = 7
	};
	enum rdma_cm_event_type got;

	if (rdma_create_id(h->events, &s->id, s, RDMA_PS_TCP) != 0)
		die("a connection cannot be made: %s", strerror(errno));
	if (rdma_resolve_addr(s->id, (struct sockaddr *)&me, (struct sockaddr *)&to, RESOLVE_MS) != 0)
		die("%s is not the address of an RDMA device (is rnicd running?): %s", h->cfg.addr[h->cfg.me],
		    strerror(errno));
	expect(h, s, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(s->id, RESOLVE_MS) != 0)
		die("there is no route to %s: %s", h->cfg.addr[s->rank], strerror(errno));
	expect(h, s, RDMA_CM_EVENT_ROUTE_RESOLVED);
	use_device(h, s->id->verbs);
	equip(h, s);
	if (rdma_connect(s->id, &param) != 0)
		die("connecting to %s: %s", h->cfg.addr[s->rank], strerror(errno));
	got = cm_event(h);
	if (got == RDMA_CM_EVENT_ESTABLISHED)
		return true;
	if (got != RDMA_CM_EVENT_REJECTED && got != RDMA_CM_EVENT_UNREACHABLE && got != RDMA_CM_EVENT_CONNECT_ERROR)
		die("%s cannot be reached: %s", h->cfg.addr[s->rank], rdma_event_str(got));
	return false;
}

static void destroy(struct stream *s)
{
	rdma_destroy_qp(s->id);
	ibv_dereg_mr(s->mr);
	rdma_destroy_id(s->id);
	free(s->mem);
}

static void connect_to(struct verbs_hub *h, struct stream *s, unsigned rank)
{
	time_t end = time(NULL) + (time_t)h->cfg.patience;

	s->out = true;
	s->rank = rank;
	while (!try_connect(h, s)) {
		s->finished = s->down = true; /* destroying the QP flushes its receives */
		destroy(s);
		while (drain(h))
			;
		s->finished = s->down = false;
		if (time(NULL) > end)
			die("rank %u does not listen on %s port %u: start it, or give another --port", rank,
			    h->cfg.addr[rank], h->cfg.port + rank);
		nanosleep(&(struct timespec){ 0, RETRY_NS }, NULL);
	}
}

/* Connects to the consumers, then waits for the producers: when the connections of read are up, all are. */
static struct hub *verbs_open(const struct hub_cfg *cfg)
{
	struct sockaddr_in me = address(cfg, cfg->me, true);
	struct verbs_hub *h = calloc(1, sizeof(*h));

	if (h == NULL)
		die("there is no memory");
	h->cfg = *cfg;
	h->ready_end = &h->ready;
	h->events = rdma_create_event_channel();
	if (h->events == NULL)
		die("there is no RDMA device (is rnicd running?): %s", strerror(errno));
	for (unsigned i = 0; i < cfg->n_to; i++)
		connect_to(h, &h->out[i], cfg->to[i]);
	if (cfg->n_from > 0) {
		if (rdma_create_id(h->events, &h->listener, NULL, RDMA_PS_TCP) != 0 ||
		    rdma_bind_addr(h->listener, (struct sockaddr *)&me) != 0)
			die("%s port %u cannot be had: %s", cfg->addr[cfg->me], ntohs(me.sin_port), strerror(errno));
		use_device(h, h->listener->verbs);
		if (rdma_listen(h->listener, STREAMS) != 0)
			die("listening at %s port %u: %s", cfg->addr[cfg->me], ntohs(me.sin_port), strerror(errno));
	}
	while (h->up_in < cfg->n_from)
		progress(h);
	return (struct hub *)(void *)h;
}

static uint8_t *verbs_buffer(struct hub *hub, unsigned i)
{
	struct verbs_hub *h = hub_of(hub);
	struct stream *s = &h->out[i];

	for (;;) {
		for (unsigned k = 0; k < h->cfg.buffers; k++) {
			if (!s->units[k].free)
				continue;
			s->open = &s->units[k];
			s->open->free = false;
			return s->open->mem;
		}
		progress(h);
	}
}

static void verbs_send(struct hub *hub, unsigned i, uint32_t len)
{
	struct verbs_hub *h = hub_of(hub);
	struct stream *s = &h->out[i];

	while (s->sent - s->taken == h->cfg.buffers)
		progress(h);
	s->sent++;
	post_send(s->open, len);
}

static bool verbs_receive(struct hub *hub, struct unit *u)
{
	struct verbs_hub *h = hub_of(hub);

	while (h->ready == NULL) {
		if (h->finished_in == h->cfg.n_from)
			return false;
		progress(h);
	}
	*u = (struct unit){ h->ready->mem, h->ready->len, h->ready };
	h->ready = h->ready->next;
	if (h->ready == NULL)
		h->ready_end = &h->ready;
	return true;
}

static void verbs_done(struct hub *hub, struct unit *u)
{
	struct verbs_hub *h = hub_of(hub);
	struct slot *k = u->owner;

	post_receive(k, h->cfg.unit);
	k->s->taken++;
	tell_credit(h, k->s);
}

static bool idle(const struct verbs_hub *h)
{
	bool yes = true;

	for (unsigned i = 0; i < h->cfg.n_to; i++)
		yes &= h->out[i].taken == h->out[i].sent;
	for (unsigned i = 0; i < h->n_in; i++)
		yes &= h->in[i].down; /* its producer has all credits back, and has hung up */
	return yes;
}

static void verbs_close(struct hub *hub)
{
	struct verbs_hub *h = hub_of(hub);

	for (unsigned i = 0; i < h->cfg.n_to; i++) {
		verbs_buffer(hub, i);
		verbs_send(hub, i, 0);
		h->out[i].finished = true;
	}
	while (!idle(h))
		progress(h);
	for (unsigned i = 0; i < h->cfg.n_to; i++)
		rdma_disconnect(h->out[i].id);
	for (unsigned i = 0; i < h->cfg.n_to; i++)
		while (!h->out[i].down)
			progress(h);
	for (unsigned i = 0; i < h->n_in; i++)
		rdma_disconnect(h->in[i].id);
	for (unsigned i = 0; i < h->cfg.n_to; i++)
		destroy(&h->out[i]);
	for (unsigned i = 0; i < h->n_in; i++)
		destroy(&h->in[i]);
	if (h->listener != NULL)
		rdma_destroy_id(h->listener);
	ibv_destroy_cq(h->cq);
	ibv_destroy_comp_channel(h->channel);
	ibv_dealloc_pd(h->pd);
	rdma_destroy_event_channel(h->events);
	free(h);
}

const struct hub_ops hub_verbs = { verbs_open, verbs_buffer, verbs_send, verbs_receive, verbs_done, verbs_close };
