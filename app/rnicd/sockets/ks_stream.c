/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between a connection of lib/rc and its socket. A record is complete when the socket has its bytes. Bytes that the
 * socket does not take at once are copied to `rest`; until they are sent, no further record is pulled. Bytes for which
 * the queue pair has no receive stay in their buffer, and the socket is not read meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "sockets/ks.h"

#define MSS_DEFAULT 536u
#define MSS_MAX     (KS_MTU_MAX - PKT_IP4_LEN - PKT_TCP_LEN)
#define SLICE_MIN   2048u                /* bytes of a slice: shorter ones are copied */
#define READS       4u                   /* of one socket in one turn */
#define SLICES_MAX  16u                  /* of a record: what has more is copied */
#define RECORDS     256u                 /* of one batch */
#define DUE_MAX     4u                   /* records of one batch that go before others */
#define ARRIVE_NS   (200 * RN_NS_PER_US) /* between two looks whether a set-up frame has arrived */

/* The output of one sendmsg(). */
struct batch {
	struct iovec iov[KS_BATCH_IOV];
	uint32_t n;
	uint32_t len;    /* bytes in all slices */
	uint32_t copied; /* bytes of ks.out in use */
	uint64_t ref[RECORDS];
	uint32_t n_ref;
};

void ks_interest(struct ks_conn *c)
{
	uint32_t events = 0;

	if (c->state == KS_CONNECTING)
		events = EPOLLOUT;
	else if (c->state == KS_OPEN)
		events = (!c->eof && c->kept == NULL ? EPOLLIN : 0u) | (c->rest != NULL ? EPOLLOUT : 0u);
	ks_watch(&c->src, events);
}

void ks_opened(struct ks_conn *c)
{
	uint32_t mss = rn_max_u32(ks.net->mss(&c->src), MSS_DEFAULT);

	c->state = KS_OPEN;
	rc_set_mss(&c->rc, rn_min_u32(mss, MSS_MAX));
	ks_interest(c);
}

/* Gives up a broken socket. lost: the connection is to be told in its next turn. */
void ks_broken(struct ks_conn *c, bool lost)
{
	if (c->state == KS_BROKEN)
		return;
	c->state = KS_BROKEN;
	c->lost_due = lost;
	ks_interest(c);
	free(c->rest);
	c->rest = NULL;
	rc_ready_put(&ks.rc, &c->rc);
}

/* ---- in ---- */

static struct ks_buf *buffer(void)
{
	if (ks.in == NULL)
		ks.in = malloc(sizeof(*ks.in));
	return ks.in;
}

/* Bytes [off, off + n) of the buffer are next. Bytes for which the queue pair is not ready stay in the buffer. */
static void bytes_in(struct ks_conn *c, struct ks_buf *b, uint32_t off, uint32_t n)
{
	struct rn_iov iov = { .base = b->data + off, .len = n };
	const struct rc_bytes in = { .iov = &iov, .n = 1, .len = n, .pos = c->pos };
	uint32_t used = rc_in(&ks.rc, &c->rc, &in);

	c->pos += used;
	b->off = off + used;
	b->len = n - used;
	rc_answer_put(&ks.rc, &c->rc);
}

/* Design assisted: rnicd checks the CRCs of received FPDUs, from the first FPDU on that it has not released yet. */
static void ask_for_sums(struct ks_conn *c)
{
	uint32_t offset;

	if (rn_likely(!c->assisted || c->sums_in) || c->state != KS_OPEN || c->kept != NULL || !rc_agreed(&c->rc)->crc)
		return;
	if (rc_fpdu_next(&c->rc, &offset))
		c->sums_in = ks.net->fpdus_in(&c->src, offset, rc_agreed(&c->rc)->rx_markers);
}

/* Copies bytes for which the queue pair was not ready out of the ring, and keeps them. */
static void keep_rest(struct ks_conn *c)
{
	struct ks_buf *b = buffer();
	ssize_t n = b != NULL ? ks.net->recv(&c->src, b->data, KS_BUF) : -1;

	if (n <= 0) {
		ks_broken(c, true);
		return;
	}
	b->off = 0;
	b->len = (uint32_t)n;
	c->kept = b;
	ks.in = NULL;
}

/* The bytes are placed from where they lie. False: there are none. */
static bool in_place(struct ks_conn *c)
{
	struct iovec at[2];
	struct rn_iov iov[2];
	bool summed;
	uint32_t n = ks.net->look(&c->src, at, &summed);

	if (n == 0 || !ks_space() || !rc_wake(&ks.rc, &c->rc))
		return false;
	for (unsigned i = 0; i < 2; i++)
		iov[i] = (struct rn_iov){ .base = at[i].iov_base, .len = at[i].iov_len };
	const struct rc_bytes in = {
		.iov = iov, .n = at[1].iov_len != 0 ? 2 : 1, .len = n, .pos = c->pos, .crc_due = summed
	};
	uint32_t used = rc_in(&ks.rc, &c->rc, &in);
	ks.net->took(&c->src, used);
	c->pos += used;
	rc_answer_put(&ks.rc, &c->rc);
	if (used < n)
		keep_rest(c);
	ask_for_sums(c);
	return true;
}

bool ks_in(struct ks_conn *c)
{
	bool any = false;

	if (ks.net->look != NULL && c->state == KS_OPEN && !c->eof && c->kept == NULL && in_place(c)) {
		ks_interest(c);
		return true;
	}
	for (uint32_t i = 0; i < READS && c->state == KS_OPEN && !c->eof && c->kept == NULL && ks_space(); i++) {
		struct ks_buf *b = buffer();
		if (b == NULL || !rc_wake(&ks.rc, &c->rc))
			break;
		ssize_t n = ks.net->recv(&c->src, b->data, KS_BUF);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		any = true;
		if (n > 0) {
			bytes_in(c, b, 0, (uint32_t)n);
			if (b->len > 0) {
				c->kept = b;
				ks.in = NULL;
			}
		} else if (n == 0) {
			c->eof = true;
			rc_fin(&ks.rc, &c->rc);
			rc_ready_put(&ks.rc, &c->rc);
		} else {
			ks_broken(c, true);
		}
		if (n < (ssize_t)KS_BUF)
			break;
	}
	ks_interest(c);
	return any;
}

/* In the connection's turn, while a message waits for a receive or bytes behind it are kept. */
static void ready_to_receive(struct ks_conn *c)
{
	struct ks_buf *b = c->kept;

	rc_rnr_look(&ks.rc, &c->rc, c->state == KS_BROKEN);
	if (c->rc.rnr.state != RC_RNR_BEHIND)
		return;
	if (b != NULL && c->state == KS_OPEN)
		bytes_in(c, b, b->off, b->len);
	if (b != NULL && (b->len == 0 || c->state != KS_OPEN)) {
		free(b);
		c->kept = NULL;
	}
	if (c->kept == NULL && c->rc.rnr.state == RC_RNR_BEHIND)
		rc_caught_up(&ks.rc, &c->rc);
	ks_interest(c);
}

/* ---- out ---- */

/* Design assisted: tells where the first FPDU will begin. Only FPDUs follow it. */
static void leave_sums(struct ks_conn *c, const struct batch *b)
{
	if (c->sums_out)
		return;
	c->sums_out = true;
	ks.net->fpdus_out(&c->src, b->len + (c->rest != NULL ? c->rest->len - c->rest->sent : 0),
			  rc_agreed(&c->rc)->tx_markers);
}

/*
 * A record becomes part of the batch: references to registered memory, or a copy with its CRC. In design assisted the
 * CRC is left open both ways.
 */
static void put(struct ks_conn *c, struct batch *b, uint64_t ref, uint32_t len)
{
	const struct rc_part part = { .ref = ref, .len = len };
	struct rn_iov iov[SLICES_MAX];
	bool due = false;
	uint32_t n = len < SLICE_MIN ? 0 : rc_slices(&part, c->assisted, iov, SLICES_MAX, &due);

	if (n == 0) {
		uint8_t *at = ks.out + b->copied;
		due = c->assisted;
		rc_copy(&ks.rc, &c->rc, &part, at, &due);
		b->copied += len;
		iov[0] = (struct rn_iov){ .base = at, .len = len };
		n = 1;
	}
	if (due)
		leave_sums(c, b);
	b->ref[b->n_ref++] = ref;
	b->len += len;
	for (uint32_t i = 0; i < n; i++) {
		struct iovec *last = b->n > 0 ? &b->iov[b->n - 1] : NULL;
		if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == iov[i].base)
			last->iov_len += iov[i].len;
		else
			b->iov[b->n++] = (struct iovec){ .iov_base = iov[i].base, .iov_len = iov[i].len };
	}
}

/* Room for another record, besides those that may be due. */
static bool room(const struct batch *b)
{
	return b->n + (DUE_MAX + 1) * SLICES_MAX <= KS_BATCH_IOV && b->n_ref + DUE_MAX < RECORDS &&
	       b->len + (DUE_MAX + 1) * KS_MTU_MAX <= KS_BATCH;
}

/* Carries out what the connection asks of its stream; the kernel sends acknowledgements by itself. */
static void obey(struct ks_conn *c, struct batch *b)
{
	uint32_t todo = rc_todo(&c->rc), len;
	uint64_t ref;

	rc_todo_clear(&c->rc);
	if ((todo & RC_TODO_RST) != 0) {
		if (c->state == KS_OPEN)
			ks.net->reset(&c->src);
		ks_broken(c, false);
		return;
	}
	while ((todo & RC_TODO_SEND) != 0 && (len = rc_due(&c->rc, &ref)) != 0)
		put(c, b, ref, len);
	if ((todo & RC_TODO_FIN) != 0)
		c->fin = true;
}

/* Copies the batch from byte `sent` on behind the bytes that wait already. False: no memory. */
static bool keep(struct ks_conn *c, const struct batch *b, uint32_t sent)
{
	uint32_t before = c->rest != NULL ? c->rest->len : 0;
	struct ks_rest *r = realloc(c->rest, sizeof(*r) + before + b->len - sent);

	if (r == NULL)
		return false;
	if (c->rest == NULL)
		r->sent = 0;
	r->len = before;
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t skip = rn_min_u32(sent, (uint32_t)b->iov[i].iov_len);
		uint32_t len = (uint32_t)b->iov[i].iov_len - skip;
		memcpy(r->data + r->len, (const uint8_t *)b->iov[i].iov_base + skip, len);
		ks.rc.qp.stats.copied_tx += len;
		r->len += len;
		sent -= skip;
	}
	c->rest = r;
	return true;
}

static void write_batch(struct ks_conn *c, struct batch *b)
{
	ssize_t n = 0;

	if (c->rest == NULL) {
		n = ks.net->send(&c->src, b->iov, b->n);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			n = 0;
	}
	if (n < 0 || (n < (ssize_t)b->len && !keep(c, b, (uint32_t)n)))
		ks_broken(c, true);
	else if (c->rest != NULL)
		ks_interest(c);
}

/* Returns each record to the connection: its bytes have been sent or copied, or are lost. */
static void send_batch(struct ks_conn *c, struct batch *b)
{
	if (b->n_ref == 0)
		return;
	if (c->state == KS_OPEN)
		write_batch(c, b);
	for (uint32_t i = 0; i < b->n_ref; i++) {
		if (c->state == KS_OPEN)
			rc_acked(&ks.rc, &c->rc, b->ref[i]);
		else
			rc_dropped(&ks.rc, &c->rc, b->ref[i]);
	}
	if (c->state == KS_OPEN)
		rc_complete(&ks.rc, &c->rc);
}

/* Not before the peer has our set-up frame: Linux siw takes what comes with a FIN for a reset (rc_shutdown). */
static void finish(struct ks_conn *c)
{
	if (!c->fin || c->fin_sent || c->rest != NULL || c->state != KS_OPEN)
		return;
	if (!c->spoke && !ks.net->arrived(&c->src)) {
		c->again = ks.now + ARRIVE_NS;
		return;
	}
	c->fin_sent = true;
	ks.net->finish(&c->src);
}

/* The stream is over, and the connection has been told all of it. */
static void look_closed(struct ks_conn *c)
{
	bool over = (c->state == KS_BROKEN && !c->lost_due) || (c->eof && c->fin_sent);

	if (!over || c->rc.rnr.state != RC_RNR_NONE || rc_get_state(&c->rc) == RC_FREE)
		return;
	ks_watch(&c->src, 0);
	rc_closed(&ks.rc, &c->rc);
}

void ks_writable(struct ks_conn *c)
{
	struct ks_rest *r = c->rest;

	if (r == NULL || c->state != KS_OPEN)
		return;
	const struct iovec iov = { .iov_base = r->data + r->sent, .iov_len = r->len - r->sent };
	ssize_t n = ks.net->send(&c->src, &iov, 1);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		ks_broken(c, true);
		return;
	}
	r->sent += (uint32_t)n;
	if (r->sent < r->len)
		return;
	free(r);
	c->rest = NULL;
	ks_interest(c);
	rc_ready_put(&ks.rc, &c->rc);
}

static void pull(struct ks_conn *c, struct batch *b)
{
	uint64_t ref;
	uint32_t len;

	if (c->rest != NULL || c->state != KS_OPEN || !rc_tx_begin(&ks.rc, &c->rc))
		return;
	obey(c, b);
	while (rc_tx_open(&c->rc) && c->state == KS_OPEN && ks_space()) {
		if (!room(b)) {
			rc_ready_put(&ks.rc, &c->rc);
			return;
		}
		if (rc_peek(&ks.rc, &c->rc) == 0)
			return;
		len = rc_pull(&ks.rc, &c->rc, &ref);
		if (len == 0)
			return;
		put(c, b, ref, len);
		c->spoke = true;
	}
}

bool ks_out(struct ks_conn *c)
{
	struct batch b;

	b.n = b.len = b.copied = b.n_ref = 0;
	if (c->dead || rc_get_state(&c->rc) == RC_FREE)
		return false;
	if (c->lost_due) {
		c->lost_due = false;
		rc_lost(&ks.rc, &c->rc, RC_LOST_RESET);
	}
	obey(c, &b);
	rc_turn(&ks.rc, &c->rc);
	if (c->rc.rnr.state != RC_RNR_NONE)
		ready_to_receive(c);
	ask_for_sums(c);
	pull(c, &b);
	rc_turn_end(&ks.rc, &c->rc);
	obey(c, &b);
	send_batch(c, &b);
	finish(c);
	/* An end that waits for the last record continues now: here a sent byte counts as acknowledged, so no later
	 * event comes. */
	const bool drained = b.n_ref > 0 && rc_get_state(&c->rc) == RC_DRAINING;
	if (rc_todo(&c->rc) != 0 || rc_failed(&c->rc) || drained)
		rc_ready_put(&ks.rc, &c->rc);
	look_closed(c);
	if (c->rest == NULL && c->kept == NULL && rc_get_state(&c->rc) != RC_FREE && rc_resting(&ks.rc, &c->rc))
		rc_rest(&ks.rc, &c->rc);
	return b.len > 0;
}
