/* SPDX-License-Identifier: BSD-3-Clause */
/* Two stream sockets whose connection runs over rings of bytes. The test plays both programs and both callers. */
#include "iws/iws.h"
#include "ring.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEEDS  24u
#define TENANT 5u /* of the streams */

/*
 * What is odd about an end: no hello; a hello without a window; the program reads nothing; no program will read; the
 * program does not accept.
 */
enum { DUMB = 1, SMALL = 2, IDLE = 4, UNHEARD = 8, LATE = 16 };

struct side {
	struct iws_ctx x;
	struct iws *i;
	struct iws_pos pos;
	struct ipc_stream *mem;
	struct pair *p;
	int id, error;
	uint32_t odd;
	uint32_t total, put, got; /* bytes that the program will write, has written, and has read */
	bool ends;                /* the program ends its direction behind `total` */
	bool end_sent, fin, gone, closed;
};

struct pair {
	struct ring *g;
	struct side s[2];
};

/* ---- the programs ---- */

static uint8_t byte_of(int id, uint32_t n) { return (uint8_t)((n * UINT32_C(2654435761) >> 17) + n + (uint32_t)id); }

static bool write_bytes(struct side *s)
{
	struct rn_rng *rng = &s->p->g->r->rng;
	const uint32_t tail = s->mem->tx_tail, free = IPC_STREAM_RING - (tail - s->mem->tx_head);
	const uint32_t most = 1 + rn_rng_below(rng, rn_rng_below(rng, 3) == 0 ? 2000 : 100000);
	const uint32_t n = rn_min_u32(rn_min_u32(free, s->total - s->put), most);

	for (uint32_t k = 0; k < n; k++)
		((uint8_t *)s->mem + IPC_STREAM_TX_OFF)[(tail + k) % IPC_STREAM_RING] = byte_of(s->id, s->put + k);
	s->mem->tx_tail = tail + n;
	s->put += n;
	return n != 0;
}

static bool read_bytes(struct side *s)
{
	const uint32_t head = s->mem->rx_head, there = s->mem->rx_tail - head;
	const uint32_t n = there != 0 ? 1 + rn_rng_below(&s->p->g->r->rng, there) : 0;

	if (s->odd & IDLE)
		return false;
	for (uint32_t k = 0; k < n; k++)
		assert_int_equal(((uint8_t *)s->mem + IPC_STREAM_RX_OFF)[(head + k) % IPC_STREAM_RING],
				 byte_of(!s->id, s->got + k));
	s->mem->rx_head = head + n;
	s->got += n;
	return n != 0;
}

/* ---- the callers ---- */

static void note(void *owner, int id, const struct qp_fx *fx)
{
	struct pair *p = owner;

	if (fx->type <= QP_FX_CLOSED)
		iws_note(p->s[id].i, fx);
}

static struct rc_ctx *ctx_of(struct iws_ctx *x)
{
	struct side *s = rn_container_of(x, struct side, x);
	struct rc_ctx *ctx = &s->p->g->r->n[s->id].ctx.rc;

	ctx->qp.now = s->p->g->r->now;
	assert_false(qp_ctx_full(&ctx->qp)); /* the ring takes the effects of each turn */
	return ctx;
}

/* Whether the peer may write to the byte at position `to` in the stream of received bytes. */
static bool writable(const struct side *s, uint64_t to)
{
	const struct qp_access a = { .pd = 1, .stag = s->i->window, .to = to, .len = 1, .rights = QP_ACC_REMOTE_WRITE };

	return qp_mr_check(s->x.dev, &a) == QP_MR_OK;
}

/* The peer may write to the bytes that it has been granted, and to none that the program may read. */
static void window_is_right(struct side *s)
{
	const struct esk *e = &s->i->esk;

	if (!e->windows) {
		assert_false(writable(s, 0));
		return;
	}
	assert_true(e->got == 0 || !writable(s, e->got - 1));
	assert_int_equal(writable(s, e->got), e->in_room > 0);
	assert_int_equal(writable(s, e->got + e->in_room - 1), e->in_room > 0);
	assert_false(writable(s, e->got + e->in_room));
	assert_true(e->in_room <= IPC_STREAM_RING - (s->pos.rx_tail - s->pos.rx_head));
}

static void adopt(struct side *s, bool hello)
{
	const struct rc_accept dumb = { .qp = &s->p->g->r->n[s->id].q[0].qp, .ird = 1, .ord = 1 };

	if (s->odd & DUMB)
		assert_int_equal(rc_accept(ctx_of(&s->x), s->i->conn, &dumb), QP_OK);
	else if (!hello)
		iws_abort(&s->x, s->i);
	else
		iws_adopt(&s->x, s->i, s->mem, TENANT);
}

static bool take(struct side *s)
{
	const uint32_t found = iws_take(&s->x, s->i, s->odd & UNHEARD);

	if (s->i->open)
		window_is_right(s);
	assert_int_equal(s->mem->tx_head != s->pos.tx_head, (found & IWS_ACKED) != 0);
	assert_int_equal(s->mem->rx_tail != s->pos.rx_tail, (found & IWS_GOT) != 0);
	assert_true(s->pos.rx_tail - s->pos.rx_head <= IPC_STREAM_RING);
	s->mem->tx_head = s->pos.tx_head;
	s->mem->rx_tail = s->pos.rx_tail;
	assert_false(s->fin && (found & (IWS_FIN | IWS_GOT)) != 0);
	s->fin |= (found & IWS_FIN) != 0;
	return found != 0;
}

static bool marks_done(struct side *s)
{
	const uint32_t marks = s->i->marks;
	bool any = marks != 0;

	s->i->marks = 0;
	if (s->odd & SMALL)
		s->i->peer.window = 0; /* an end offers a window only to an end that has offered one */
	if ((marks & IWS_ASKED) && (s->odd & LATE) == 0)
		adopt(s, (marks & IWS_HELLO) != 0);
	if (marks & IWS_UP)
		assert_int_equal(iws_up(&s->x, s->i, marks), (marks & IWS_HELLO) != 0);
	if (s->i->ready)
		any |= take(s);
	if (marks & IWS_GONE) {
		s->error = iws_gone(s->i, marks, ECONNRESET);
		s->gone = true;
	}
	if (marks & IWS_CLOSED) {
		iws_free(&s->x, s->i);
		s->closed = true;
	}
	return any;
}

/* An end's turn: what has come, and what the program has written. */
static bool side_turn(struct side *s)
{
	bool any = marks_done(s);

	any |= read_bytes(s);
	if (s->closed || !s->i->ready)
		return any;
	any |= write_bytes(s);
	s->pos.rx_head = s->mem->rx_head;
	iws_feed(&s->x, s->i, s->mem->tx_tail, s->p->g->mss);
	if (s->ends && !s->end_sent && s->put == s->total && s->pos.tx_put == s->mem->tx_tail)
		any |= s->end_sent = iws_end(&s->x, s->i);
	return any;
}

/* Runs until nothing happens any more. */
static void run(struct pair *p)
{
	for (uint32_t n = 0, idle = 0; idle < 3; n++) {
		bool any = ring_turn(p->g);
		any |= side_turn(&p->s[0]);
		any |= side_turn(&p->s[1]);
		idle = any ? 0 : idle + 1;
		assert_true(n < 2000000);
	}
}

/* ---- life ---- */

static void side_init(struct pair *p, int id, uint32_t first)
{
	struct side *s = &p->s[id];

	s->p = p;
	s->id = id;
	s->x = (struct iws_ctx){ .dev = &p->g->r->n[id].dev, .rc = ctx_of };
	s->i = aligned_alloc(RN_CACHE_LINE, sizeof(*s->i));
	s->mem = aligned_alloc(4096, IPC_STREAM_SIZE);
	memset(s->i, 0xee, sizeof(*s->i));
	memset(s->mem, 0, IPC_STREAM_SIZE);
	s->pos = (struct iws_pos){ first, first, first, first };
	s->mem->tx_head = s->mem->tx_tail = s->mem->rx_head = s->mem->rx_tail = first;
	iws_begin(s->i, &p->g->end[id].rc, &s->pos, 1);
}

static struct pair *pair_new(uint64_t seed)
{
	static const uint32_t mss[] = { 536, 1448, 4000, 8948 };
	struct pair *p = calloc(1, sizeof(*p));
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.seed = seed;
	cfg.mtu = seed % 3 == 0 ? 1500 : 9000;
	cfg.stages = 16;
	cfg.crc = seed % 4 != 0;
	p->g = ring_new(&cfg, mss[seed % RN_ARRAY_LEN(mss)], seed % 5 < 3 ? RING_READ : RING_TAKEN, (uint32_t)seed);
	p->g->take = note;
	p->g->owner = p;
	for (int id = 0; id < 2; id++)
		iws_times(&p->g->r->n[id].ctx.rc.cfg);
	for (int id = 0; id < 2; id++) /* the positions of every other seed wrap */
		side_init(p, id, seed % 2 ? (uint32_t)0 - IPC_STREAM_RING : 0);
	return p;
}

static struct mpa_policy policy_of(const struct pair *p)
{
	return iws_policy(&(struct mpa_policy){ .rev = 2, .crc = p->g->r->cfg.crc, .p2p = true, .ird = 16, .ord = 16 });
}

/* End 0 connects; its stream does not open yet. */
static void begin_pair(struct pair *p)
{
	struct rc_params a = { .policy = policy_of(p) };
	uint8_t priv[IWS_HELLO_MAX];
	struct esk_hello h;

	a.priv = priv;
	a.priv_len = iws_ask(&p->s[0].x, p->s[0].i, p->s[0].mem, TENANT, priv);
	assert_int_equal(a.priv_len, IWS_HELLO_MAX);
	assert_int_equal(esk_window_parse(priv, a.priv_len, &h), ESK_HELLO_OK);
	if (p->s[0].odd & (SMALL | DUMB)) {
		esk_hello_build(priv, &h);
		a.priv_len = p->s[0].odd & SMALL ? ESK_HELLO_LEN : 0;
	}
	a.qp = &p->s[0].i->qp;
	assert_int_equal(rc_connect(ctx_of(&p->s[0].x), &p->g->end[0].rc, &a), QP_OK);
}

static void connect_pair(struct pair *p)
{
	struct rc *c[2] = { &p->g->end[0].rc, &p->g->end[1].rc };
	const struct rc_params b = { .policy = policy_of(p) };

	begin_pair(p);
	assert_int_equal(rc_passive(ctx_of(&p->s[1].x), c[1], &b), QP_OK);
	rc_set_mss(c[0], p->g->mss);
	rc_set_mss(c[1], p->g->mss);
	rc_opened(ctx_of(&p->s[0].x), c[0], p->g->pipe[1].head);
	run(p);
}

static void memory_free(struct pair *p)
{
	for (int id = 0; id < 2; id++) {
		assert_int_equal(p->s[id].x.dev->live, 1); /* the rig's */
		free(p->s[id].i);
		free(p->s[id].mem);
	}
	ring_free(p->g);
	free(p);
}

/* Both connections have ended: error is what each program gets. */
static void pair_free(struct pair *p, int error)
{
	run(p);
	for (int id = 0; id < 2; id++) {
		const struct side *s = &p->s[id];
		assert_true(s->closed);
		if ((s->odd & DUMB) == 0)
			assert_int_equal(s->gone ? s->error : -1, error);
	}
	memory_free(p);
}

/* ---- tests ---- */

/* Bytes go both ways. One end ends its direction and still receives, then the other end does. */
static void both_ways(uint64_t seed, uint32_t odd0, uint32_t odd1)
{
	struct pair *p = pair_new(seed);
	struct side *a = &p->s[seed & 1], *b = &p->s[!(seed & 1)];

	p->s[0].odd = odd0;
	p->s[1].odd = odd1;
	connect_pair(p);
	for (int id = 0; id < 2; id++)
		assert_int_equal(p->s[id].i->open && p->s[id].i->esk.windows, ((odd0 | odd1) & SMALL) == 0);
	a->total = 1 + rn_rng_below(&p->g->r->rng, 900000);
	b->total = 1 + rn_rng_below(&p->g->r->rng, 900000);
	a->ends = true;
	run(p);
	assert_true(a->end_sent && b->fin && !a->fin && !a->gone && !b->gone);
	assert_int_equal(b->got, a->total);
	assert_int_equal(a->got, b->total);
	assert_int_equal(a->pos.tx_head, a->mem->tx_tail);
	b->total += 1 + rn_rng_below(&p->g->r->rng, 300000);
	run(p);
	assert_int_equal(a->got, b->total);
	b->ends = true;
	run(p);
	assert_true(a->fin);
	pair_free(p, 0);
}

static void bytes_go_both_ways_by_the_window(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		both_ways(seed, 0, 0);
}

static void bytes_go_both_ways_by_slots_to_a_peer_without_a_window(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		both_ways(seed, seed % 2 ? SMALL : 0, seed % 2 ? 0 : SMALL);
}

/* The program that reads nothing gets as much as its ring has room for; the other one fills its own ring. */
static void a_program_that_does_not_read_stops_the_other(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct pair *p = pair_new(seed);
		struct side *a = &p->s[seed & 1], *b = &p->s[!(seed & 1)];
		const bool slots = seed % 3 == 0;

		p->s[1].odd = slots ? SMALL : 0;
		connect_pair(p);
		b->odd |= IDLE;
		a->total = 1000000;
		run(p);
		assert_in_range(b->mem->rx_tail - b->mem->rx_head, slots ? 1 : IPC_STREAM_RING, IPC_STREAM_RING);
		assert_int_equal(a->mem->tx_tail - a->mem->tx_head, IPC_STREAM_RING);
		b->odd &= ~(uint32_t)IDLE;
		a->ends = b->ends = true;
		run(p);
		assert_int_equal(b->got, a->total);
		pair_free(p, 0);
	}
}

/* The streams of another user have all stages of that user's share, and their peers have stopped. */
static void a_stream_has_a_share_of_the_stages_with_those_of_its_user_only(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct pair *p = pair_new(seed);

		connect_pair(p);
		for (int id = 0; id < 2; id++) {
			struct rc_ctx *ctx = &p->g->r->n[id].ctx.rc;
			const uint32_t share = ctx->cfg.stages - ctx->cfg.stages / 4;
			ctx->stages_of[TENANT - 1] = ctx->stages_of[0] = share;
			p->s[id].total = 300000;
			p->s[id].ends = true;
		}
		run(p);
		for (int id = 0; id < 2; id++) {
			struct rc_ctx *ctx = &p->g->r->n[id].ctx.rc;
			assert_int_equal(p->s[id].got, p->s[!id].total);
			assert_true(ctx->qp.stats.staged > 0);
			ctx->stages_of[TENANT - 1] = ctx->stages_of[0] = 0;
		}
		pair_free(p, 0);
	}
}

/* Moves the clock on by `s` seconds. */
static void wait_s(struct pair *p, uint32_t s)
{
	for (uint32_t i = 0; i < s; i++) {
		p->g->r->now += RN_NS_PER_S;
		run(p);
	}
}

/* No answer has come to the SYN yet. When TCP gives up, the caller knows the errno. */
static void a_connect_lasts_until_tcp_gives_up(void **state)
{
	struct pair *p = pair_new(1);
	struct side *s = &p->s[0];

	(void)state;
	begin_pair(p);
	wait_s(p, 130);
	assert_int_equal(rc_get_state(s->i->conn), RC_OPENING);
	s->i->error = ETIMEDOUT;
	p->g->pipe[1].rst = true;
	run(p);
	assert_true(s->closed);
	assert_int_equal(s->error, ETIMEDOUT);
	memory_free(p);
}

/* Both ends end their direction, one of them while its bytes are still on the way. */
static void bytes_may_take_any_time_when_both_ends_have_ended(void **state)
{
	uint32_t draining = 0, closing = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct pair *p = pair_new(seed);
		struct side *a = &p->s[seed & 1], *b = &p->s[!(seed & 1)];

		connect_pair(p);
		p->g->pipe[a->id].stalled = true;
		a->total = seed % 3 == 0 ? 200000 : 40000;
		while (a->put < a->total)
			(void)write_bytes(a); /* at once: few messages carry them, so the credits are enough */
		a->ends = b->ends = true;
		run(p);
		assert_true(a->end_sent && a->fin && !b->fin);
		draining += rc_get_state(a->i->conn) == RC_DRAINING;
		closing += rc_get_state(a->i->conn) == RC_CLOSING;
		wait_s(p, 60);
		assert_false(a->gone || b->gone);
		p->g->pipe[a->id].stalled = false;
		run(p);
		assert_int_equal(b->got, a->total);
		pair_free(p, 0);
	}
	assert_true(draining > 0 && closing > 0 && draining + closing == SEEDS);
}

static void bytes_that_no_program_will_read_reset_the_connection(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct pair *p = pair_new(seed);
		struct side *a = &p->s[seed & 1], *b = &p->s[!(seed & 1)];

		connect_pair(p);
		b->odd |= UNHEARD;
		a->total = seed % 3 == 0 ? 100 : 300000;
		run(p);
		assert_true(a->gone && b->gone && !b->fin);
		assert_int_equal(b->got, 0);
		assert_int_equal(b->mem->rx_tail, b->mem->rx_head);
		pair_free(p, ECONNRESET);
	}
}

/* The stream below gives up the peer of end 0. */
static void give_up(struct pair *p)
{
	rc_lost(ctx_of(&p->s[0].x), p->s[0].i->conn, RC_LOST_TIMEOUT);
	p->g->pipe[0].rst = true; /* the end of the peer, which notices nothing otherwise */
	rc_closed(ctx_of(&p->s[0].x), p->s[0].i->conn);
	run(p);
	assert_int_equal(p->s[0].error, ETIMEDOUT);
	p->s[0].error = ECONNRESET;
	pair_free(p, ECONNRESET);
}

static void a_silent_peer_of_an_idle_stream_is_a_time_out(void **state)
{
	struct pair *p = pair_new(1);

	(void)state;
	connect_pair(p);
	p->s[0].total = p->s[1].total = 1000;
	run(p);
	assert_int_equal(p->s[0].pos.tx_head, p->s[0].mem->tx_tail);
	give_up(p);
}

static void a_silent_peer_that_has_not_accepted_is_a_time_out(void **state)
{
	struct pair *p = pair_new(1);

	(void)state;
	p->s[1].odd = LATE;
	connect_pair(p);
	assert_int_equal(rc_get_state(p->s[0].i->conn), RC_WAIT_REP);
	give_up(p);
}

/* A message grants more slots than there are: a Terminate ends the connection. */
static void a_message_that_breaks_the_rules_ends_the_connection(void **state)
{
	struct pair *p = pair_new(1);

	(void)state;
	connect_pair(p);
	p->s[0].i->esk.owed = IWS_SLOTS + 1;
	run(p);
	assert_int_equal(p->g->r->n[1].ctx.rc.qp.stats.terms_sent, 1);
	pair_free(p, ECONNRESET);
}

static void a_peer_without_a_hello_is_refused(void **state)
{
	(void)state;
	for (int dumb = 0; dumb < 2; dumb++) {
		struct pair *p = pair_new(1);

		p->s[dumb].odd = DUMB;
		connect_pair(p);
		assert_false(p->s[0].i->open || p->s[1].i->open);
		pair_free(p, ECONNRESET);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_go_both_ways_by_the_window),
		cmocka_unit_test(bytes_go_both_ways_by_slots_to_a_peer_without_a_window),
		cmocka_unit_test(a_program_that_does_not_read_stops_the_other),
		cmocka_unit_test(a_stream_has_a_share_of_the_stages_with_those_of_its_user_only),
		cmocka_unit_test(a_connect_lasts_until_tcp_gives_up),
		cmocka_unit_test(bytes_may_take_any_time_when_both_ends_have_ended),
		cmocka_unit_test(bytes_that_no_program_will_read_reset_the_connection),
		cmocka_unit_test(a_silent_peer_of_an_idle_stream_is_a_time_out),
		cmocka_unit_test(a_silent_peer_that_has_not_accepted_is_a_time_out),
		cmocka_unit_test(a_message_that_breaks_the_rules_ends_the_connection),
		cmocka_unit_test(a_peer_without_a_hello_is_refused),
	};

	return cmocka_run_group_tests_name("iws", tests, NULL, NULL);
}
