/* SPDX-License-Identifier: BSD-3-Clause */
#include "mini_int.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUIET_FIRST 5000000ull /* ns without a new piece until the missing ones are asked for; twice that next time */
#define QUIET_MOST  200000000ull
#define POLLS       500000ull /* ns that a rank polls without a pause before it naps */
#define NAP_PART    8u        /* a nap lasts 1/8 of the time waited so far, and so delays a message by at most that */
#define NAP_MOST    500000ull
#define MOST        ((uint64_t)PAYLOAD * 8 * PIECE) /* bytes of a message, for whose map a packet has room */

enum req_state {
	REQ_POSTED,  /* a receive that no message has come for */
	REQ_ASKED,   /* a Send that waits for a grant, a receive whose bytes come */
	REQ_WRITING, /* a Send with pieces to write */
	REQ_WRITTEN, /* a Send that waits for DONE */
	REQ_DONE
};

struct mini_req {
	struct mini_req *next;
	enum req_state state;
	struct peer *peer;
	bool is_recv;
	bool asked_again, ended; /* ended: the receiver knows that all pieces have been sent */
	int tag;
	uint8_t *buf;
	uint64_t len;
	uint32_t id, other_id, rkey;
	uint64_t to; /* the grant's address */
	struct ibv_mr *mr;
	uint8_t *map;          /* a bit for each piece: a Send's: to be written; a receive's: has not come */
	uint32_t pieces, left; /* left: bits that are set */
	unsigned posted;       /* Writes that have not completed */
	uint64_t news_at, quiet;
};

struct early { /* a message that came before its receive */
	struct early *next;
	struct head head;
	uint8_t payload[];
};

static struct mini_req *active, **active_end = &active;
static struct early *waiting, **waiting_end = &waiting;
static uint32_t ids;

static bool has(const uint8_t *map, uint32_t i) { return (map[i / 8] >> i % 8 & 1) != 0; }
static uint32_t map_bytes(uint32_t pieces) { return (pieces + 7) / 8; }

static void tell(struct mini_req *r, enum kind kind)
{
	struct slot *s = stream_slot();

	s->head->kind = (uint8_t)kind;
	s->head->tag = r->tag;
	s->head->size = r->len;
	s->head->from_id = r->is_recv ? r->other_id : r->id;
	s->head->to_id = r->is_recv ? r->id : r->other_id;
	s->head->addr = (uintptr_t)r->buf;
	s->head->rkey = r->mr->rkey;
	if (kind == KIND_MISSING) {
		s->head->len = map_bytes(r->pieces);
		memcpy(s->head + 1, r->map, s->head->len);
	}
	s->head->ordered = kind == KIND_WRITTEN && stream_lane(r->peer)->carrier != BY_UD && !r->asked_again;
	stream_put(r->peer, s);
}

static struct mini_req *request(void *buf, uint64_t len, unsigned with, int tag)
{
	struct mini_req *r = calloc(1, sizeof(*r));

	mini_need(r != NULL, "allocating a request");
	mini_need(len <= MOST && with < mini.size && with != mini.rank, "a message's length and partner");
	r->peer = &mini.peer[with];
	r->buf = buf;
	r->len = len;
	r->tag = tag;
	r->id = ++ids;
	*active_end = r;
	active_end = &r->next;
	return r;
}

static void register_memory(struct mini_req *r)
{
	r->mr = ibv_reg_mr(mini.pd, r->buf, r->len,
			   IBV_ACCESS_LOCAL_WRITE | (r->is_recv ? IBV_ACCESS_REMOTE_WRITE : 0));
	mini_need(r->mr != NULL, "registering a message's memory");
	r->pieces = (uint32_t)((r->len + PIECE - 1) / PIECE);
	mini_need((r->map = calloc(1, map_bytes(r->pieces))) != NULL, "allocating a map");
}

static void set_all(struct mini_req *r)
{
	for (uint32_t i = 0; i < r->pieces; i++)
		r->map[i / 8] |= (uint8_t)(1 << i % 8);
	r->left = r->pieces;
}

static void finish(struct mini_req *r)
{
	mini_need(r->mr == NULL || ibv_dereg_mr(r->mr) == 0, "deregistering a message's memory");
	free(r->map);
	r->mr = NULL;
	r->map = NULL;
	r->state = REQ_DONE;
}

/* The bytes are all there: from here on no late record may change them, so the STag goes first. */
static void arrived(struct mini_req *r)
{
	tell(r, KIND_DONE);
	finish(r);
}

static void grant(struct mini_req *r, const struct head *h)
{
	mini_need(h->size <= r->len, "a message is longer than its receive");
	r->len = h->size;
	r->other_id = h->from_id;
	register_memory(r);
	set_all(r);
	r->quiet = QUIET_FIRST;
	r->state = REQ_ASKED;
	tell(r, KIND_GRANT);
}

static void take(struct mini_req *r, const struct head *h, const uint8_t *payload)
{
	if (h->kind == KIND_ASK) {
		grant(r, h);
		return;
	}
	mini_need(h->len <= r->len, "a message is longer than its receive");
	memcpy(r->buf, payload, h->len);
	r->state = REQ_DONE;
}

static struct mini_req *of_id(uint32_t id, bool is_recv)
{
	for (struct mini_req *r = active; r != NULL; r = r->next)
		if (r->id == id && r->is_recv == is_recv && r->state != REQ_DONE)
			return r;
	return NULL;
}

static void message_in(struct peer *p, const struct head *h, const uint8_t *payload)
{
	for (struct mini_req *r = active; r != NULL; r = r->next) {
		if (r->is_recv && r->state == REQ_POSTED && r->peer == p && r->tag == h->tag) {
			take(r, h, payload);
			return;
		}
	}
	struct early *e = malloc(sizeof(*e) + h->len);
	mini_need(e != NULL, "keeping a message that has no receive yet");
	*e = (struct early){ .head = *h };
	memcpy(e->payload, payload, h->len);
	*waiting_end = e;
	waiting_end = &e->next;
}

static void connect_in(struct peer *p, uint32_t qpn)
{
	const bool crossed = p->conn == CONN_ASKED; /* both have sent CONNECT: each takes the other's as ACCEPT */

	if (!crossed) {
		struct slot *s = stream_slot();
		const bool room = mini.n_rc < mini.max_rc;

		if (room)
			net_connect_begin(p);
		else
			p->conn = CONN_NEVER;
		s->head->kind = room ? KIND_ACCEPT : KIND_REFUSE;
		s->head->from_id = room ? p->rc.qp->qp_num : 0;
		stream_put(p, s);
		if (!room)
			return;
	}
	net_connect_end(p, qpn);
}

static void refused(struct peer *p)
{
	if (p->conn == CONN_ASKED)
		p->conn = CONN_NEVER; /* the queue pair stays, unused, and counts as one of max-rc */
}

static void granted(struct mini_req *r, const struct head *h)
{
	r->other_id = h->to_id;
	r->to = h->addr;
	r->rkey = h->rkey;
	set_all(r);
	r->state = REQ_WRITING;
}

static void missing(struct mini_req *r, const struct head *h, const uint8_t *payload)
{
	if (h->len != map_bytes(r->pieces) || r->state != REQ_WRITTEN)
		return;
	memcpy(r->map, payload, h->len);
	r->left = 0;
	for (uint32_t i = 0; i < r->pieces; i++)
		r->left += has(r->map, i);
	mini.repeated += r->left;
	r->asked_again = true;
	r->state = REQ_WRITING;
}

static void written(struct mini_req *r, const struct head *h)
{
	r->ended = true;
	r->news_at = mini_now();
	if (h->ordered)
		arrived(r);
}

void msg_in(struct peer *p, const struct head *h, const uint8_t *payload)
{
	const enum kind kind = (enum kind)h->kind;
	const bool of_recv = kind == KIND_WRITTEN;
	struct mini_req *r = NULL;

	if (kind == KIND_GRANT || kind == KIND_MISSING || kind == KIND_DONE || of_recv)
		r = of_id(of_recv ? h->to_id : h->from_id, of_recv);
	if (kind == KIND_SHORT || kind == KIND_ASK)
		message_in(p, h, payload);
	else if (kind == KIND_CONNECT)
		connect_in(p, h->from_id);
	else if (kind == KIND_ACCEPT)
		net_connect_end(p, h->from_id);
	else if (kind == KIND_REFUSE)
		refused(p);
	else if (r == NULL)
		return; /* the request is over */
	else if (kind == KIND_GRANT)
		granted(r, h);
	else if (kind == KIND_MISSING)
		missing(r, h, payload);
	else if (kind == KIND_DONE)
		r->ended = true;
	else
		written(r, h);
}

/* A record is whole: its immediate names the receive, its address the piece. */
void msg_piece(uint32_t id, uint64_t addr)
{
	struct mini_req *r = of_id(id, true);

	if (r == NULL || r->state != REQ_ASKED || addr < (uintptr_t)r->buf || addr - (uintptr_t)r->buf >= r->len)
		return;
	const uint32_t i = (uint32_t)((addr - (uintptr_t)r->buf) / PIECE);
	if (!has(r->map, i))
		return;
	r->map[i / 8] &= (uint8_t) ~(1 << i % 8);
	r->news_at = mini_now();
	r->quiet = QUIET_FIRST;
	if (--r->left == 0)
		arrived(r);
}

void msg_write_done(void *req) { ((struct mini_req *)req)->posted--; }

/* Posts a long message: one Write over RC or RD, a Write-Record for each piece over UD. */
static void write_some(struct mini_req *r)
{
	struct lane *l = stream_lane(r->peer);
	struct net_write w = { .req = r, .mr = r->mr, .id = r->other_id, .rkey = r->rkey };
	const bool whole = l->carrier != BY_UD && !r->asked_again && r->left == r->pieces;

	for (uint32_t i = 0; i < r->pieces && r->left > 0; i++) {
		const uint64_t at = (uint64_t)i * PIECE;

		if (!has(r->map, i))
			continue;
		/* only a Write-Record reports its piece: a message that began as records ends as records */
		l = whole ? l : &mini.gram;
		if (l->posted + 8 >= l->depth)
			return;
		w.from = r->buf + at;
		w.to = r->to + at;
		w.len = (uint32_t)(whole ? r->len : r->len - at < PIECE ? r->len - at : PIECE);
		r->posted++;
		r->left = whole ? 0 : r->left - 1;
		r->map[i / 8] &= (uint8_t) ~(1 << i % 8);
		r->asked_again |= !whole;
		net_write(&w, l, r->peer);
	}
	tell(r, KIND_WRITTEN);
	r->state = REQ_WRITTEN;
}

void msg_run(uint64_t now)
{
	for (struct mini_req *r = active; r != NULL; r = r->next) {
		if (r->state == REQ_WRITING)
			write_some(r);
		else if (!r->is_recv && r->ended && r->posted == 0 && r->state != REQ_DONE)
			finish(r);
		else if (r->is_recv && r->state == REQ_ASKED && r->ended && now - r->news_at > r->quiet) {
			r->ended = false;
			r->quiet = r->quiet * 2 < QUIET_MOST ? r->quiet * 2 : QUIET_MOST;
			tell(r, KIND_MISSING);
		}
	}
}

/*
 * Leaves the CPU to other ranks. Where ranks share a CPU, the kernel gives all of them the same time, so ranks that only
 * poll would hold up the one that computes: a rank that has waited for long naps.
 */
static void rest(uint64_t waited)
{
	const uint64_t ns = waited / NAP_PART;
	const struct timespec nap = { .tv_nsec = (long)(ns < NAP_MOST ? ns : NAP_MOST) };

	if (waited > POLLS)
		nanosleep(&nap, NULL);
	else
		sched_yield();
}

void msg_progress(void)
{
	static uint64_t news_at;
	const bool news = net_poll();
	const uint64_t now = mini_now();

	stream_run(now);
	msg_run(now);
	if (news)
		news_at = now;
	else
		rest(now - news_at);
}

struct mini_req *msg_send(const void *buf, uint64_t len, unsigned to, int tag)
{
	struct mini_req *r = request((void *)(uintptr_t)buf, len, to, tag);

	if (len > PAYLOAD) {
		register_memory(r);
		r->state = REQ_ASKED;
		tell(r, KIND_ASK);
		return r;
	}
	while (r->peer->queued > 4 * WINDOW) /* bounds the packets that are queued */
		msg_progress();
	struct slot *s = stream_slot();
	s->head->kind = KIND_SHORT;
	s->head->tag = tag;
	s->head->len = (uint32_t)len;
	memcpy(s->head + 1, buf, len);
	stream_put(r->peer, s);
	r->state = REQ_DONE;
	return r;
}

struct mini_req *msg_recv(void *buf, uint64_t len, unsigned from, int tag)
{
	struct mini_req *r = request(buf, len, from, tag);

	r->is_recv = true;
	for (struct early **at = &waiting; *at != NULL; at = &(*at)->next) {
		struct early *e = *at;

		if (e->head.src != from || e->head.tag != tag)
			continue;
		*at = e->next;
		if (waiting_end == &e->next)
			waiting_end = at;
		take(r, &e->head, e->payload);
		free(e);
		break;
	}
	return r;
}

void msg_wait(struct mini_req *r)
{
	while (r->state != REQ_DONE)
		msg_progress();
	for (struct mini_req **at = &active; *at != NULL; at = &(*at)->next) {
		if (*at != r)
			continue;
		*at = r->next;
		if (active_end == &r->next)
			active_end = at;
		break;
	}
	free(r);
}
