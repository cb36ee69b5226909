/* SPDX-License-Identifier: BSD-3-Clause */
#include "mini_int.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK     32u         /* slots that are made at a time */
#define RTO_FIRST 20000000ull /* ns until a packet without acknowledgement is sent again; twice that the next time */
#define RTO_MOST  500000000ull
#define HOLE_WAIT 2000000ull /* ns that a packet before one that has come may take */
#define TALK      64u        /* packets to a partner before a connection to it is worth its memory */

static struct slot *spare;

struct slot *stream_slot(void)
{
	if (spare == NULL) {
		struct ibv_mr *mr;
		uint8_t *mem = net_memory((size_t)CHUNK * PACKET, &mr);
		struct slot *s = calloc(CHUNK, sizeof(*s));

		mini_need(s != NULL, "allocating packets");
		for (unsigned i = 0; i < CHUNK; i++) {
			s[i] = (struct slot){ .next = spare,
					      .head = (struct head *)(void *)(mem + (size_t)i * PACKET),
					      .mr = mr };
			spare = &s[i];
		}
	}
	struct slot *s = spare;
	spare = s->next;
	s->next = NULL;
	s->acked = s->posted = false;
	memset(s->head, 0, sizeof(*s->head));
	return s;
}

static void give_back(struct slot *s)
{
	if (s->posted || !s->acked)
		return;
	s->next = spare;
	spare = s;
}

void stream_sent(struct slot *s)
{
	s->posted = false;
	give_back(s);
}

struct lane *stream_lane(struct peer *p) { return p->conn == CONN_UP ? &p->rc : &mini.gram; }

static uint64_t stashed(const struct peer *p)
{
	uint64_t map = 0;

	for (uint32_t i = 0; i + 1 < WINDOW; i++)
		map |= (uint64_t)(p->stash[(p->rx_next + 1 + i) % WINDOW] != NULL) << i;
	return map;
}

static void transmit(struct peer *p, struct slot *s, struct lane *l)
{
	s->head->job = mini.job;
	s->head->src = (uint16_t)mini.rank;
	s->head->ack = p->rx_next;
	s->head->sack = stashed(p);
	s->sent_at = mini_now();
	p->owed = 0;
	p->ack_due = 0;
	net_send(s, l, p, (uint32_t)sizeof(*s->head) + s->head->len);
}

/* Sends an acknowledgement, by datagram if the channel has datagrams: a connection has receives for the window only. */
static void acknowledge(struct peer *p, bool please)
{
	struct lane *l = mini.gram.qp != NULL ? &mini.gram : &p->rc;

	if (l->posted == l->depth)
		return; /* ack_due stands */
	struct slot *s = stream_slot();
	s->head->kind = KIND_ACK;
	s->head->please = please;
	s->acked = true; /* an acknowledgement is not acknowledged */
	transmit(p, s, l);
}

/* A partner that talks much gets a connection, if both sides have one left. */
static void consider(struct peer *p)
{
	if (mini.channel != CHANNEL_HYBRID || p->conn != CONN_NONE || p->talk < TALK || mini.n_rc >= mini.max_rc)
		return;
	net_connect_begin(p);
	struct slot *s = stream_slot();
	s->head->kind = KIND_CONNECT;
	s->head->from_id = p->rc.qp->qp_num;
	stream_put(p, s);
}

static void pump(struct peer *p)
{
	while (p->unsent != NULL && p->in_flight < WINDOW) {
		struct lane *l = stream_lane(p);
		struct slot *s = p->unsent;

		if (l->posted == l->depth)
			return;
		p->unsent = s->next;
		p->in_flight++;
		p->talk++;
		transmit(p, s, l);
		consider(p);
	}
}

void stream_put(struct peer *p, struct slot *s)
{
	s->head->seq = p->next_seq++;
	if (p->first == NULL)
		p->first = s;
	else
		p->last->next = s;
	p->last = s;
	if (p->unsent == NULL)
		p->unsent = s;
	p->queued++;
	pump(p);
}

static void repeat(struct peer *p, struct slot *s)
{
	if (s->posted || s->lane->carrier != BY_UD || mini.gram.posted == mini.gram.depth)
		return;
	mini.repeated++;
	transmit(p, s, &mini.gram);
}

/* Handles the partner's acknowledgements. */
static void acknowledged(struct peer *p, const struct head *h)
{
	const uint64_t now = mini_now();

	while (p->first != p->unsent && (int32_t)(p->first->head->seq - h->ack) < 0) {
		struct slot *s = p->first;

		p->first = s->next;
		p->queued--;
		p->in_flight--;
		p->rto = RTO_FIRST;
		s->acked = true;
		give_back(s);
	}
	if (h->sack == 0)
		return;
	const uint32_t top = h->ack + 64 - (uint32_t)__builtin_clzll(h->sack); /* the highest number that has come */
	for (struct slot *s = p->first; s != p->unsent && (int32_t)(s->head->seq - top) < 0; s = s->next) {
		const uint32_t i = s->head->seq - h->ack; /* not below 0: earlier packets have been freed */

		if ((i == 0 || (h->sack >> (i - 1) & 1) == 0) && now - s->sent_at > HOLE_WAIT)
			repeat(p, s);
	}
}

static void deliver(struct peer *p, const uint8_t *packet)
{
	struct head h;

	memcpy(&h, packet, sizeof(h));
	p->rx_next++;
	p->owed++;
	msg_in(p, &h, packet + sizeof(h));
}

static void stash(struct peer *p, const struct head *h, const uint8_t *packet, uint32_t len)
{
	uint8_t **place = &p->stash[h->seq % WINDOW];

	if (*place != NULL)
		return;
	mini_need((*place = malloc(len)) != NULL, "keeping a packet");
	memcpy(*place, packet, len);
}

void stream_in(const uint8_t *packet, uint32_t len)
{
	struct head h;

	if (len < sizeof(h))
		return;
	memcpy(&h, packet, sizeof(h));
	if (h.job != mini.job || h.src >= mini.size || h.src == mini.rank || h.len != len - sizeof(h))
		return; /* not of this job */
	struct peer *p = &mini.peer[h.src];
	acknowledged(p, &h);
	if (h.kind == KIND_ACK) {
		if (h.please)
			acknowledge(p, false);
		return;
	}
	const int32_t ahead = (int32_t)(h.seq - p->rx_next);
	if (ahead >= (int32_t)WINDOW)
		return;
	if (ahead != 0) { /* there is a hole, or an acknowledgement was lost */
		if (ahead > 0)
			stash(p, &h, packet, len);
		acknowledge(p, false);
		return;
	}
	deliver(p, packet);
	for (uint8_t *next; (next = p->stash[p->rx_next % WINDOW]) != NULL;) {
		p->stash[p->rx_next % WINDOW] = NULL;
		deliver(p, next);
		free(next);
	}
	if (p->owed >= ACK_EVERY)
		acknowledge(p, false);
	else if (p->owed > 0 && p->ack_due == 0 && mini.gram.carrier == BY_UD)
		p->ack_due = mini_now() + ACK_DELAY;
}

/* The oldest packet has waited too long: it is sent again, or the partner of a connection is asked what has come. */
static void overdue(struct peer *p, uint64_t now)
{
	if (p->first == p->unsent || p->first->posted || mini.gram.qp == NULL || mini.gram.carrier != BY_UD)
		return;
	if (p->rto == 0)
		p->rto = RTO_FIRST;
	if (now - p->first->sent_at < p->rto)
		return;
	p->rto = p->rto * 2 < RTO_MOST ? p->rto * 2 : RTO_MOST;
	if (p->first->lane->carrier == BY_UD) {
		repeat(p, p->first);
	} else {
		p->first->sent_at = now;
		acknowledge(p, true);
	}
}

void stream_run(uint64_t now)
{
	for (unsigned i = 0; i < mini.size; i++) {
		struct peer *p = &mini.peer[i];

		pump(p);
		overdue(p, now);
		if (p->ack_due != 0 && now >= p->ack_due)
			acknowledge(p, false);
	}
}

/* Whether all packets are delivered. On a connection a completed Send is enough, as the connection delivers it. */
bool stream_empty(void)
{
	for (unsigned i = 0; i < mini.size; i++) {
		const struct peer *p = &mini.peer[i];

		if (p->unsent != NULL || p->rc.posted != 0)
			return false;
		for (struct slot *s = p->first; s != NULL; s = s->next)
			if (s->lane->carrier == BY_UD)
				return false;
	}
	return mini.gram.posted == 0;
}
