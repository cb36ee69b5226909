/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listeners of a worker's streams. A listener is found by port and TCP port; listeners that share both
 * (SO_REUSEPORT) are a list, whose first entry is in the table.
 */
#include "plane/stream.h"
#include "plane/worker_int.h"

static struct flow listener_flow(uint32_t port, uint16_t lport)
{
	struct flow f = { .key = { .lport = lport, .port = port }, .kind = FLOW_STREAM };

	f.hash = flow_hash(rnicd.secret, &f.key);
	return f;
}

static struct stream_listener *first_listener(const struct rnicd_worker *w, uint32_t port, uint16_t lport)
{
	struct flow f = listener_flow(port, lport);
	struct flow *found = flow_find(&w->streams.listens, &f.key, f.hash);

	return found == NULL ? NULL : rn_container_of(found, struct stream_listener, flow);
}

static void listen_on(struct rnicd_worker *w, struct cmd_stream_listen *c)
{
	struct stream_listener *first = first_listener(w, c->port, c->lport);
	enum conn_verdict *v = &c->verdict[w->index];

	*v = CONN_FULL;
	for (uint32_t i = 0; i < WORKER_LISTENERS; i++) {
		struct stream_listener *l = &w->streams.listener[i];
		if (l->key != 0)
			continue;
		l->flow = listener_flow(c->port, c->lport);
		if (first == NULL && flow_add(&w->streams.listens, &l->flow) != FLOW_OK)
			return;
		if (first != NULL) {
			l->same = first->same;
			first->same = l;
		}
		l->key = c->key;
		l->families = c->families;
		l->backlog = c->backlog;
		*v = CONN_OK;
		return;
	}
}

struct stream_listener *stream_listener_of(const struct rnicd_worker *w, const struct cmd_stream_listen *c)
{
	struct stream_listener *l = first_listener(w, c->port, c->lport);

	while (l != NULL && l->key != c->key)
		l = l->same;
	return l;
}

static void listen_again(const struct rnicd_worker *w, const struct cmd_stream_listen *c)
{
	struct stream_listener *l = stream_listener_of(w, c);

	if (l != NULL)
		l->backlog = c->backlog;
}

void stream_listener_set(struct rnicd_worker *w, struct cmd_stream_listen *c)
{
	if (c->again)
		listen_again(w, c);
	else
		listen_on(w, c);
}

/* Takes l out of the list of listeners with the same port and TCP port, whose first entry is in the table. */
static void leave_others(struct rnicd_worker *w, struct stream_listener *l)
{
	struct stream_listener *first = first_listener(w, l->flow.key.port, l->flow.key.lport);

	if (first == l) {
		flow_del(&w->streams.listens, &l->flow);
		if (l->same != NULL)
			(void)flow_add(&w->streams.listens, &l->same->flow); /* takes the place of l */
		return;
	}
	while (first->same != l)
		first = first->same;
	first->same = l->same;
}

void stream_listener_end(struct rnicd_worker *w, struct stream_listener *l)
{
	leave_others(w, l);
	*l = (struct stream_listener){ .key = 0 };
}

struct stream_listener *stream_listener_first(const struct rnicd_worker *w, const struct conn_addr *a)
{
	struct stream_listener *l = first_listener(w, a->port, a->lport);

	return l != NULL ? l : first_listener(w, STREAM_ANY_PORT, a->lport);
}

struct stream_listener *stream_listener_pick(struct stream_listener *first, const struct conn_addr *a)
{
	const struct flow_key key = flow_key_of(a);
	const uint8_t family = stream_family(&a->local);
	uint32_t n = 0;

	for (const struct stream_listener *l = first; l != NULL; l = l->same)
		n += (l->families & family) != 0;
	if (n == 0)
		return NULL;
	for (n = flow_hash(rnicd.secret, &key) % n; (first->families & family) == 0 || n-- > 0;)
		first = first->same;
	return first;
}
