/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The adapter between a connection of lib/rc and its socket. A record (an FPDU to send) is complete when the socket has
 * its bytes. Bytes that the socket does not take at once are copied to `rest`; until they are sent, no further record
 * is pulled. Received bytes for which the queue pair has no receive stay in their buffer, and the socket is not read
 * meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "sockets/ks.h"

#define MSS_DEFAULT 536u
#define MSS_MAX     (KS_MTU_MAX - PKT_IP4_LEN - PKT_TCP_LEN)
#define SLICE_MIN   2048u                /* bytes: shorter records are copied, longer ones are sent by reference */
#define READS       4u                   /* reads of one socket in one turn, at most */
#define LAST_READS  4096u                /* reads of a socket whose peer has reset the connection, at most */
#define SLICES_MAX  16u                  /* slices of a record: a record with more is copied */
#define RECORDS     256u                 /* records of one batch, at most */
#define DUE_MAX     4u                   /* records that rc_due() gives for one batch, at most */
#define ARRIVE_NS   (200 * RN_NS_PER_US) /* time to the first look whether the peer has a set-up frame */
#define ARRIVE_MOST (50 * RN_NS_PER_MS)  /* between two looks, at most: each pause is twice as long as the last one */

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

/* A kernel that gets no answer tells the reason if it knows one: ICMP, or ARP that failed. */
void ks_failed(struct ks_conn *c, int err)
{
	c->silent = err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH || err == EHOSTDOWN ||
		    err == ENETDOWN;
	if (c->silent && c->sk != NULL)
		ks.streams->silent(c->sk, err);
	ks_broken(c, true);
}

/* ---- a silent peer ---- */

#define LOOKS 4u /* in the time after which a silent peer counts as gone */

/* Bytes were sent, so an answer is awaited. */
static void await_answer(struct ks_conn *c)
{
	const uint64_t most = rc_silence(&c->rc);

	if (c->look == 0 && c->state == KS_OPEN && ks.net->unanswered != NULL && most != 0)
		c->look = ks.now + most / LOOKS;
}

void ks_look_silent(struct ks_conn *c)
{
	const uint64_t most = rc_silence(&c->rc);

	if (c->look == 0 || ks.now < c->look)
		return;
	c->look = 0;
	if (c->state != KS_OPEN || (c->rest == NULL && ks.net->unacked(&c->src) == 0))
		return;
	if (most != 0 && ks.net->unanswered(&c->src) >= most) {
		ks.net->reset(&c->src);
		ks_failed(c, ETIMEDOUT);
	} else {
		await_answer(c);
	}
}

/* ---- in ---- */

static struct ks_buf *buffer(void)
{
	if (ks.in == NULL)
		ks.in = malloc(sizeof(*ks.in));
	return ks.in;
}

/*
 * Gives bytes [off, off + n) of the buffer to c->rc. Bytes for which the queue pair has no receive stay in the buffer.
 */
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

/*
 * Design assisted: asks rnicd to check the CRCs of received FPDUs, from the next FPDU on of which this process has read
 * no byte.
 */
static void ask_for_sums(struct ks_conn *c)
{
	uint32_t offset;

	if (rn_likely(!c->assisted || c->sums_in) || c->state != KS_OPEN || c->kept != NULL || !rc_agreed(&c->rc)->crc)
		return;
	if (rc_fpdu_next(&c->rc, &offset))
		c->sums_in = ks.net->fpdus_in(&c->src, offset, rc_agreed(&c->rc)->rx_markers);
}

/* Copies bytes for which the queue pair had no receive out of the ring, and keeps them. */
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

/* Received or sent bytes may have completed work requests of a stream socket. */
static void note_work(const struct ks_conn *c)
{
	if (rn_unlikely(c->sk != NULL))
		ks.streams->touch(c->sk);
}

/* Gives received bytes to c->rc from where they lie in the ring. False: there are none, or no room for effects. */
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

/* Whether c->rc may get bytes of the socket now. */
static bool may_read(const struct ks_conn *c)
{
	return c->state == KS_OPEN && !c->eof && c->kept == NULL && ks_space();
}

/* Gives c->rc what one recv() brings. Returns how many bytes; 0: the end; -1 and errno, EAGAIN also for no memory. */
static ssize_t read_once(struct ks_conn *c)
{
	struct ks_buf *b = buffer();

	if (b == NULL || !rc_wake(&ks.rc, &c->rc)) {
		errno = EAGAIN;
		return -1;
	}
	ssize_t n = ks.net->recv(&c->src, b->data, KS_BUF);
	if (n <= 0)
		return n;
	bytes_in(c, b, 0, (uint32_t)n);
	if (b->len > 0) {
		c->kept = b;
		ks.in = NULL;
	}
	return n;
}

bool ks_in(struct ks_conn *c)
{
	bool any = false;

	if (ks.net->look != NULL && c->state == KS_OPEN && !c->eof && c->kept == NULL && in_place(c)) {
		ks_interest(c);
		return true;
	}
	for (uint32_t i = 0; i < READS && may_read(c); i++) {
		ssize_t n = read_once(c);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		any = true;
		if (n == 0) {
			c->eof = true;
			rc_fin(&ks.rc, &c->rc);
			rc_ready_put(&ks.rc, &c->rc);
		} else if (n < 0) {
			ks_failed(c, errno);
		}
		if (n < (ssize_t)KS_BUF)
			break;
	}
	if (any)
		note_work(c);
	ks_interest(c);
	return any;
}

/*
 * A send has failed with this errno. Bytes that came before the peer's reset are the program's still: they are read
 * first, as the kernel lets its own programs do. The end behind them is the reset's, and not a FIN.
 */
static void send_failed(struct ks_conn *c, int err)
{
	bool more = true;

	for (uint32_t i = 0; more && i < LAST_READS && may_read(c); i++)
		more = ks.net->look != NULL ? in_place(c) : read_once(c) > 0;
	note_work(c);
	ks_failed(c, err);
}

/* Called in the connection's turn while a message waits for a receive, or while bytes that came after it are kept. */
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

/* Design assisted: tells rnicd where the first FPDU begins. All bytes from there on are FPDUs. */
static void leave_sums(struct ks_conn *c, const struct batch *b)
{
	if (c->sums_out)
		return;
	c->sums_out = true;
	ks.net->fpdus_out(&c->src, b->len + (c->rest != NULL ? c->rest->len - c->rest->sent : 0),
			  rc_agreed(&c->rc)->tx_markers);
}

/*
 * Adds a record to the batch: as references to registered memory, or as a copy with its CRC. In design assisted rnicd
 * fills in the CRC in both cases.
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

/* Whether the batch has room for one more record, besides those that rc_due() may still give. */
static bool room(const struct batch *b)
{
	return b->n + (DUE_MAX + 1) * SLICES_MAX <= KS_BATCH_IOV && b->n_ref + DUE_MAX < RECORDS &&
	       b->len + (DUE_MAX + 1) * KS_MTU_MAX <= KS_BATCH;
}

/*
 * Carries out what c->rc asks of its byte stream. The TCP below sends acknowledgements by itself. There are no records
 * to let go of (RC_TODO_LET_GO): the bytes of each are sent or copied in the turn that makes the record.
 */
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

/* Appends the batch, from its byte `sent` on, to the bytes in c->rest. False: no memory. */
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

/* Sends a batch. Bytes that the socket does not take go to c->rest. */
static void write_batch(struct ks_conn *c, struct batch *b)
{
	ssize_t n = 0;

	if (c->rest == NULL) {
		n = ks.net->send(&c->src, b->iov, b->n);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			n = 0;
	}
	if (n < 0)
		send_failed(c, errno);
	else if (n < (ssize_t)b->len && !keep(c, b, (uint32_t)n))
		ks_broken(c, true);
	else if (c->rest != NULL)
		ks_interest(c);
}

/* Sends a batch, and tells c->rc for each of its records that the bytes were sent or copied, or that they are lost. */
static void send_batch(struct ks_conn *c, struct batch *b)
{
	if (b->n_ref == 0)
		return;
	if (c->state == KS_OPEN)
		write_batch(c, b);
	await_answer(c);
	for (uint32_t i = 0; i < b->n_ref; i++) {
		if (c->state == KS_OPEN)
			rc_acked(&ks.rc, &c->rc, b->ref[i]);
		else
			rc_dropped(&ks.rc, &c->rc, b->ref[i]);
	}
	if (c->state == KS_OPEN)
		rc_complete(&ks.rc, &c->rc);
}

/*
 * Sends the FIN that is due. If the last bytes were a set-up frame of MPA, the FIN waits until the peer has the frame:
 * Linux siw treats a set-up frame that comes with a FIN as a reset (rc_shutdown).
 */
static void finish(struct ks_conn *c)
{
	if (!c->fin || c->fin_sent || c->rest != NULL || c->state != KS_OPEN)
		return;
	if (!c->spoke && ks.net->unacked(&c->src) != 0) {
		if (ks.now >= c->again) {
			c->pause = c->pause == 0 ? ARRIVE_NS : rn_min_u64(2 * c->pause, ARRIVE_MOST);
			c->again = ks.now + c->pause;
		}
		return;
	}
	c->fin_sent = true;
	ks.net->finish(&c->src);
}

/* Tells c->rc that the byte stream is closed, when both directions have ended and c->rc has got all bytes. */
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
		send_failed(c, errno);
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

/* Fills the batch with the records that c->rc has to send. */
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
		rc_lost(&ks.rc, &c->rc, c->silent ? RC_LOST_TIMEOUT : RC_LOST_RESET);
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
	/*
	 * If the end of the connection waits for the last record, it continues now: on this plane a byte that was sent
	 * counts as acknowledged, so no later event makes it continue.
	 */
	const bool drained = b.n_ref > 0 && rc_get_state(&c->rc) == RC_DRAINING;
	if (rc_todo(&c->rc) != 0 || rc_failed(&c->rc) || drained)
		rc_ready_put(&ks.rc, &c->rc);
	look_closed(c);
	note_work(c);
	if (c->rest == NULL && c->kept == NULL && rc_get_state(&c->rc) != RC_FREE && rc_resting(&ks.rc, &c->rc))
		rc_rest(&ks.rc, &c->rc);
	return b.len > 0;
}
