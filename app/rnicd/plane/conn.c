/* SPDX-License-Identifier: BSD-3-Clause */
/* The connections of a worker: how they are opened, accepted, found and ended. */
#include <errno.h>

#include "base/rn_seq.h"
#include "border/expect.h"
#include "border/strangers.h"
#include "plane/frame.h"
#include "plane/port_host.h"
#include "plane/worker_int.h"
#include "tcp_lite/tcpl_room.h"

#define BACKLOG_DEFAULT 64u
#define SETUPS_KEPT     8u /* one set-up in SETUPS_KEPT is kept from connections that have not sent a Request */
#define BLOCKS_KEPT     8u /* one block in BLOCKS_KEPT likewise, for established connections that rest */
#define COOKIE_LIFE_NS  (137 * RN_NS_PER_S) /* tcpl.h: a cookie lives 68 to 137 s */

const struct conn_addr *conn_addr(const struct rc *c) { return &conn_of(c)->addr; }

void conn_set_client(struct rc *c, struct worker_client *client) { conn_of(c)->client = client; }

void conn_set_tos(struct rc *c, uint8_t tos) { pkt_tcp_template_set_tos(&conn_of(c)->way.tmpl, tos & WAY_DSCP); }

bool conn_refers(const struct rnicd_worker *w, const struct cmd_refers *r)
{
	if (w->tcp.rc.recs_of[r->tenant] == 0)
		return false;
	for (uint32_t i = 0; i < w->conns_used; i++)
		for (uint32_t k = 0; k < r->n; k++)
			if (rc_tcp_refers(&w->conns[i].qc, r->region[k].base, r->region[k].len))
				return true;
	return false;
}

static struct flow flow_of(const struct conn_addr *a)
{
	struct flow f = { .key = flow_key_of(a) };

	f.hash = flow_hash(rnicd.secret, &f.key);
	return f;
}

static uint32_t make_iss(const struct flow *f, uint64_t now)
{
	return tcpl_isn(&rnicd.secret[2], &f->key, sizeof(f->key), now);
}

/* The free connection that is to be used next. NULL: all are in use. */
static struct conn *free_conn(const struct rnicd_worker *w)
{
	struct conn *c = rn_list_first(&w->conn_free, struct conn, link);

	if (c != NULL)
		return c;
	return w->conns_used < w->n_conns ? &w->conns[w->conns_used] : NULL;
}

/* Takes a free connection, enters the flow and prepares its headers. syn: as for way_find(). */
static enum conn_verdict conn_make(struct rnicd_worker *w, const struct conn_addr *a, const struct rte_mbuf *syn,
				   struct conn **out)
{
	struct conn *c = free_conn(w);

	if (c == NULL)
		return CONN_FULL;
	c->flow = flow_of(a);
	enum flow_verdict fv = flow_add(&w->flows, &c->flow);
	if (fv != FLOW_OK)
		return fv == FLOW_EXISTS ? CONN_IN_USE : CONN_FULL;
	enum conn_verdict v = way_find(w, a, syn, &c->way);
	if (v != CONN_OK) {
		flow_del(&w->flows, &c->flow);
		return v;
	}
	if (rn_link_linked(&c->link))
		rn_list_remove(&w->conn_free, &c->link);
	else
		w->conns_used++;
	c->addr = *a;
	c->client = NULL;
	c->listener = NULL;
	c->path_mss = 0;
	c->timer = (struct rn_timer){ .pprev = NULL };
	*out = c;
	return CONN_OK;
}

static void half_open_end(struct rnicd_worker *w, struct conn *c)
{
	struct listener *l = c->listener;

	if (l == NULL)
		return;
	rn_list_remove(&l->half, &c->half);
	rn_list_remove(&w->half_open, &c->half_any);
	w->half_opens--;
	l->half_open--;
	c->listener = NULL;
}

static void time_wait_end(struct rnicd_worker *w, struct conn *c)
{
	rn_list_remove(&w->time_wait, &c->half_any);
	w->time_waits--;
}

/*
 * A connection in TIME_WAIT keeps its place for a second, so after many short connections there would be no place for
 * new ones. Therefore at most an eighth of the places may be in TIME_WAIT, and beyond that the oldest makes room.
 */
static void time_wait_begin(struct rnicd_worker *w, struct conn *c)
{
	/* half open: the link half_any is in use, and the connection ends with those of its listener */
	if (rn_link_linked(&c->half_any))
		return;
	rn_list_push_back(&w->time_wait, &c->half_any);
	w->time_waits++;
	while (w->time_waits > worker_time_waits(w->n_conns) && worker_space(w)) {
		struct conn *oldest = rn_list_first(&w->time_wait, struct conn, half_any);
		time_wait_end(w, oldest);
		oldest->way.port->stats[w->index].time_wait_overflow++;
		rc_abort(&w->tcp.rc, &oldest->qc.rc);
	}
}

static void conn_free(struct rnicd_worker *w, struct conn *c)
{
	rn_wheel_disarm(&w->wheel, &c->timer);
	flow_del(&w->flows, &c->flow);
	if (c->listener != NULL)
		c->way.port->stats[w->index].no_request++;
	half_open_end(w, c);
	way_leave(&c->way);
	if (rn_link_linked(&c->half_any))
		time_wait_end(w, c);
	c->client = NULL;
	c->dead = false;
	rn_list_push_front(&w->conn_free, &c->link);
}

static void half_open_put(struct rnicd_worker *w, struct listener *l, struct conn *c)
{
	c->listener = l;
	rn_list_push_back(&l->half, &c->half);
	rn_list_push_back(&w->half_open, &c->half_any);
	w->half_opens++;
	l->half_open++;
}

void conn_died(struct rnicd_worker *w, struct rc *qc)
{
	struct conn *c = conn_of(qc);

	if (c->dead)
		return;
	c->dead = true;
	c->dead_next = w->dead;
	w->dead = c;
}

void conn_bury(struct rnicd_worker *w)
{
	while (w->dead != NULL) {
		struct conn *c = w->dead;
		w->dead = c->dead_next;
		conn_free(w, c);
	}
}

enum conn_verdict conn_open(struct rnicd_worker *w, const struct conn_addr *a, struct rc_tcp_params *p, struct rc **out,
			    enum qp_verdict *qp)
{
	struct conn *c;
	enum conn_verdict v = conn_make(w, a, NULL, &c);

	if (v != CONN_OK)
		return v;
	p->tcp = conn_tcp_cfg(a->port, p->rc.flags);
	p->iss = make_iss(&c->flow, w->now);
	*qp = rc_tcp_connect(&w->tcp, &c->qc, p);
	if (*qp != QP_OK) {
		conn_free(w, c);
		return CONN_QP;
	}
	*out = &c->qc.rc;
	return CONN_OK;
}

/* ---- listeners ---- */

static struct flow listen_key(uint32_t port, uint16_t lport)
{
	struct flow f = { .key = { .lport = lport, .port = port } };
	f.hash = flow_hash(rnicd.secret, &f.key);
	return f;
}

static struct listener *find_listener(struct rnicd_worker *w, uint32_t port, uint16_t lport)
{
	struct flow f = listen_key(port, lport);
	struct flow *found = flow_find(&w->listens, &f.key, f.hash);
	return found == NULL ? NULL : rn_container_of(found, struct listener, flow);
}

enum conn_verdict conn_listen(struct rnicd_worker *w, const struct conn_listen *l)
{
	for (uint32_t i = 0; i < WORKER_LISTENERS; i++) {
		struct listener *s = &w->listener[i];
		if (s->used)
			continue;
		s->flow = listen_key(l->port, l->lport);
		enum flow_verdict v = flow_add(&w->listens, &s->flow);
		if (v != FLOW_OK)
			return v == FLOW_EXISTS ? CONN_IN_USE : CONN_FULL;
		s->cfg = *l;
		if (s->cfg.backlog == 0)
			s->cfg.backlog = BACKLOG_DEFAULT;
		s->used = true;
		return CONN_OK;
	}
	return CONN_FULL;
}

void conn_unlisten(struct rnicd_worker *w, uint32_t port, uint16_t lport)
{
	struct listener *s = find_listener(w, port, lport);

	if (s == NULL)
		return;
	flow_del(&w->listens, &s->flow);
	s->used = false;
	/* The place is free at once. Its half-open connections stay evictable, and end by their own time-out. */
	for (struct conn *c; (c = rn_list_first(&s->half, struct conn, half)) != NULL;) {
		rn_list_remove(&s->half, &c->half);
		rn_list_push_back(&w->orphans.half, &c->half);
		c->listener = &w->orphans;
	}
	w->orphans.half_open += s->half_open;
	s->half_open = 0;
}

/* ---- segments ---- */

/*
 * Limits answers to strangers, answers to HELLOs of reliable datagrams, and connections without a Request: without
 * limits they would take the worker's time from established connections.
 */
bool conn_allowed(const struct rnicd_worker *w, struct rnicd_port *port, uint64_t *at)
{
	if (stranger_allowed(at, w->now))
		return true;
	port->stats[w->index].rx_unanswered++;
	return false;
}

void conn_proved(uint64_t *at) { *at -= rn_min_u64(*at, STRANGER_NS); }

bool conn_answer_allowed(struct rnicd_worker *w, struct rnicd_port *port)
{
	return conn_allowed(w, port, &w->answers_at);
}

bool conn_hello_allowed(struct rnicd_worker *w, struct rnicd_port *port, bool known)
{
	return conn_allowed(w, port, &w->hellos_at[known]);
}

void conn_requested(struct rnicd_worker *w, struct rc *qc)
{
	struct conn *c = conn_of(qc);

	conn_proved(&w->strangers_at);
	way_proved(w, &c->way, &c->addr.remote);
	half_open_end(w, c);
}

/* Answers a segment without a connection. */
static void conn_answer(struct rnicd_worker *w, const struct conn_addr *a, const struct rte_mbuf *m,
			const struct pkt *p, const struct tcpl_out *o)
{
	struct rnicd_port *port = rnicd.port[a->port];
	struct rte_mbuf *out = rte_pktmbuf_alloc(port->pool);
	if (out == NULL) {
		port->stats[w->index].no_buffer++;
		return;
	}
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	struct pkt_flow f = {
		.l2.vlan = port->cfg->vlan, .src = p->dst, .dst = p->src, .sport = p->dport, .dport = p->sport
	};
	f.tos = a->tos & WAY_DSCP;
	memcpy(f.l2.dst, frame + PKT_MAC_LEN, PKT_MAC_LEN);
	memcpy(f.l2.src, port->mac, PKT_MAC_LEN);
	struct pkt_tcp_template t;
	pkt_tcp_template_init(&t, &f);
	struct pkt_tcp_seg s = {
		.seq = o->seq, .ack = o->ack, .flags = o->flags, .wnd = o->wnd, .opt = o->opt, .opt_len = o->optlen
	};
	uint32_t len = pkt_tcp_build(&t, &s, PKT_CSUM_FULL, rte_pktmbuf_mtod(out, uint8_t *));
	out->data_len = (uint16_t)len;
	out->pkt_len = len;
	if (rn_unlikely(pkt_addr_eq(&p->src, &port->cfg->ip)))
		conn_loop(w, port, out);
	else
		port_tx_push(&w->tx[port->index], out);
}

static void answer_rst(struct rnicd_worker *w, const struct conn_addr *a, const struct rte_mbuf *m, const struct pkt *p,
		       const struct tcpl_seg *seg)
{
	struct rnicd_port *port = rnicd.port[a->port];
	struct tcpl_out o = { 0 };

	port->stats[w->index].rx_no_flow++;
	if (tcpl_rst_for(seg, &o) && conn_answer_allowed(w, port))
		conn_answer(w, a, m, p, &o);
}

static struct tcpl_tuple cookie_tuple(const struct flow *f)
{
	return (struct tcpl_tuple){ .key = &rnicd.secret[2], .bytes = &f->key, .len = sizeof(f->key) };
}

/* Whether few blocks are left for established connections, which have none while they rest. */
static bool few_blocks(const struct rnicd_worker *w)
{
	return w->tcp.rc.blk_left <= w->tcp.rc.cfg.blocks / BLOCKS_KEPT;
}

/* Whether half-open connections have as many blocks as they may have: half of them, or all but those that are kept. */
static bool blocks_scarce(const struct rnicd_worker *w)
{
	return rn_unlikely(w->half_opens > w->tcp.rc.cfg.blocks / 2 || few_blocks(w));
}

/* Makes the connection that a SYN, or the ACK of a SYN cookie, asks for. */
static enum qp_verdict make_passive(struct rnicd_worker *w, struct listener *l, const struct conn_addr *a,
				    const struct rte_mbuf *m, const struct tcpl_seg *seg, struct conn **out)
{
	struct rc_tcp_params params = { .rc = { .owner = l->cfg.owner, .policy = l->cfg.policy, .flags = l->cfg.flags },
					.tcp = conn_tcp_cfg(a->port, l->cfg.flags) };
	struct conn *c;
	enum qp_verdict v;

	if (few_blocks(w) || conn_make(w, a, m, &c) != CONN_OK)
		return QP_NO_MEMORY;
	if (seg->flags & TCPL_SYN) {
		params.iss = make_iss(&c->flow, w->now);
		v = rc_tcp_passive(&w->tcp, &c->qc, seg, &params);
	} else {
		const struct tcpl_tuple of = cookie_tuple(&c->flow);
		v = rc_tcp_passive_cookie(&w->tcp, &c->qc, seg, &of, &params);
	}
	if (v != QP_OK) {
		conn_free(w, c);
		return v;
	}
	half_open_put(w, l, c);
	*out = c;
	return QP_OK;
}

/*
 * RFC 4987, section 3.6: with a full backlog, or few free blocks, a SYN takes no memory, and honest peers can still
 * connect.
 */
static void answer_cookie(struct rnicd_worker *w, struct listener *l, const struct conn_addr *a,
			  const struct rte_mbuf *m, const struct pkt *p, const struct tcpl_seg *syn)
{
	struct rnicd_port *port = rnicd.port[a->port];
	struct tcpl_out o;

	if (!conn_answer_allowed(w, port))
		return;
	const struct flow f = flow_of(a);
	const struct tcpl_tuple of = cookie_tuple(&f);
	if (!tcpl_cookie_make(conn_tcp_cfg(a->port, l->cfg.flags), &of, w->now, syn, &o))
		return;
	port->stats[w->index].syn_cookies++;
	l->cookies_until = w->now + COOKIE_LIFE_NS;
	conn_answer(w, a, m, p, &o);
}

/*
 * Peers that finish the handshake and then send nothing: the oldest half-open connection makes room. It is the
 * listener's oldest when that listener has too many, and the worker's oldest when many listeners together leave too
 * little for others. The addresses are not forged: the handshake has proved them.
 */
static struct conn *in_the_way(const struct rnicd_worker *w, const struct listener *l)
{
	if (l->half_open >= 4u * l->cfg.backlog)
		return rn_list_first(&l->half, struct conn, half);
	if (w->tcp.rc.setups_left > w->tcp.rc.cfg.setups / SETUPS_KEPT && free_conn(w) != NULL && !blocks_scarce(w))
		return NULL;
	return rn_list_first(&w->half_open, struct conn, half_any);
}

static void evict(struct rnicd_worker *w, struct conn *oldest)
{
	half_open_end(w, oldest);
	oldest->way.port->stats[w->index].syn_evicted++;
	rc_abort(&w->tcp.rc, &oldest->qc.rc);
}

/* Handles an ACK that answers one of our SYN cookies. */
static bool brings_cookie(const struct rnicd_worker *w, const struct listener *l, const struct conn_addr *a,
			  const struct tcpl_seg *seg)
{
	if (rn_likely(w->now >= l->cookies_until))
		return false;
	const struct flow f = flow_of(a);
	const struct tcpl_tuple of = cookie_tuple(&f);
	return tcpl_cookie_good(&of, w->now, seg);
}

/*
 * Handles a segment that belongs to no connection: a SYN for a listener makes one, and so does the ACK of a cookie.
 * True: the packet is held.
 */
static bool stranger(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m, const struct pkt *p,
		     const struct tcpl_seg *seg)
{
	struct listener *l = find_listener(w, port->index, p->dport);
	uint8_t kind = seg->flags & (TCPL_SYN | TCPL_ACK | TCPL_RST);
	struct conn_addr a = { .port = port->index,
			       .local = p->dst,
			       .remote = p->src,
			       .lport = p->dport,
			       .rport = p->sport,
			       .tos = l != NULL ? l->cfg.tos : 0 };
	bool cookie = kind == TCPL_ACK && l != NULL && brings_cookie(w, l, &a, seg);
	struct conn *c;

	if (l == NULL && kind == TCPL_SYN && expect_is(port->index, p->dport, w->now)) {
		port->stats[w->index].rx_unanswered++;
		return false;
	}
	if (l == NULL || (kind != TCPL_SYN && !cookie)) {
		answer_rst(w, &a, m, p, seg);
		return false;
	}
	if (!cookie && (l->half_open >= l->cfg.backlog || blocks_scarce(w))) {
		answer_cookie(w, l, &a, m, p, seg);
		return false;
	}
	if (!cookie && !conn_allowed(w, port, &w->strangers_at))
		return false; /* an honest peer's TCP repeats its SYN */
	struct conn *oldest = in_the_way(w, l);
	if (oldest != NULL) {
		evict(w, oldest);
		if (!worker_space(w)) {
			port->stats[w->index].rx_no_room++;
			return false;
		}
	}
	switch (make_passive(w, l, &a, m, seg, &c)) {
	case QP_OK: return cookie && rc_tcp_segment(&w->tcp, &c->qc, seg);
	case QP_BAD_SEGMENT: answer_rst(w, &a, m, p, seg); return false;
	case QP_BAD_ATTR:
	case QP_BAD_STATE:
	case QP_NO_MEMORY:
	case QP_BAD_PRIV:
	case QP_NO_AGREEMENT: return false;
	}
	return false;
}

/* Whether TCP may keep the packet and acknowledge its bytes: ahead of a hole, or as a message waits for a receive. */
static inline bool is_kept(const struct flow *f, const struct tcpl_seg *seg)
{
	const struct rc_tcp *qc = f != NULL ? &rn_container_of(f, struct conn, flow)->qc : NULL;

	return rn_unlikely(qc == NULL || qc->rc.rnr.state != RC_RNR_NONE || rn_seq_gt(seg->seq, qc->tcp.rcv_nxt));
}

/* Gives a frame that TCP keeps bytes of its own, if it refers to a client's memory. False: no buffer. */
static bool own_bytes(struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p)
{
	struct mbuf_priv *priv = mbuf_priv(m);

	if (!txseg_is_reference(m))
		return true;
	struct rte_mbuf *copy = frame_copy(port->pool, m);
	if (copy == NULL)
		return false;
	rte_pktmbuf_free(m->next);
	m->next = copy;
	m->nb_segs = 2;
	priv->iov[0] = (struct rn_iov){ rte_pktmbuf_mtod_offset(copy, uint8_t *, p->payload_off), p->payload_len };
	priv->pkt.n = 1;
	return true;
}

/*
 * Describes the payload as slices in the packet's private area. A frame in too many pieces is copied into one. own: so
 * is any other frame. NULL: no buffer.
 */
static struct rte_mbuf *slice(struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p, bool own)
{
	struct mbuf_priv *priv = mbuf_priv(m);
	uint32_t n = own ? UINT32_MAX : frame_iov(m, p->payload_off, p->payload_len, priv->iov, WORKER_MAX_IOV);

	if (rn_unlikely(n == UINT32_MAX)) {
		struct rte_mbuf *copy = frame_copy(port->pool, m);
		rte_pktmbuf_free(m);
		if (copy == NULL)
			return NULL;
		m = copy;
		priv = mbuf_priv(m);
		n = frame_iov(m, p->payload_off, p->payload_len, priv->iov, WORKER_MAX_IOV);
	}
	priv->pkt = (struct rc_tcp_pkt){ .iov = priv->iov, .n = n, .crc_due = frame_crc_deferred(m) };
	return m;
}

struct rte_mbuf *conn_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
			    const struct flow *f)
{
	uint8_t opt[PKT_TCP_OPT_MAX];
	struct tcpl_seg seg = way_segment(p);

	if (rn_likely(f != NULL))
		way_came(&rn_container_of(f, struct conn, flow)->way, m);
	const bool keep = p->payload_len != 0 && is_kept(f, &seg);
	if (keep && port_host_scarce(m)) { /* without its payload, as its ACK still counts */
		port->stats[w->index].no_buffer++;
		if (f == NULL)
			return m;
		tcpl_strip(&seg);
	}
	if (seg.len != 0) {
		/* the program that has sent acknowledged bytes may change them, so a frame must not refer to them */
		const bool own = keep && txseg_is_reference(m);
		if (rn_unlikely(own || m->nb_segs > WORKER_MAX_IOV)) {
			/* slice() may replace the frame by a copy: the pointer to the options must follow */
			memcpy(opt, p->tcp_opt, p->tcp_opt_len);
			seg.opt = opt;
		}
		m = slice(port, m, p, own);
		if (m == NULL) {
			port->stats[w->index].no_buffer++;
			return NULL;
		}
		seg.ref = (uint64_t)(uintptr_t)&mbuf_priv(m)->pkt;
	}
	if (rn_unlikely(f == NULL))
		return stranger(w, port, m, p, &seg) ? NULL : m;
	struct rc_tcp *qc = &rn_container_of(f, struct conn, flow)->qc;
	const enum tcpl_state was = tcpl_get_state(&qc->tcp);
	bool anew = (seg.flags & (TCPL_SYN | TCPL_ACK | TCPL_RST)) == TCPL_SYN &&
		    (was == TCPL_S_TIME_WAIT || was == TCPL_S_CLOSED);
	bool held = rc_tcp_segment(&w->tcp, qc, &seg);
	/* now the timer's neighbours are in the cache: they are the connections that sent just before and behind */
	if (seg.len == 0 && !rc_is_ready(&qc->rc))
		conn_arm(w, rn_container_of(qc, struct conn, qc));
	if (rn_unlikely(tcpl_get_state(&qc->tcp) == TCPL_S_TIME_WAIT) && was != TCPL_S_TIME_WAIT)
		time_wait_begin(w, rn_container_of(qc, struct conn, qc));
	if (rn_unlikely(held)) {
		if (!own_bytes(port, m, p)) { /* a message has begun to wait for a receive in this packet */
			port->stats[w->index].no_buffer++;
			rc_abort(&w->tcp.rc, &qc->rc);
		}
		return NULL;
	}
	if (rn_unlikely(anew) && tcpl_get_state(&qc->tcp) == TCPL_S_CLOSED) {
		/*
		 * TCPL_NEW_SYN: the connection is freed at the end of this turn, and a listener may answer in the next
		 * one. If the SYN comes by once more in this turn, it finds the connection CLOSED.
		 */
		conn_again(w, port, m);
		return NULL;
	}
	return m;
}
