/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several flows on one line of 100 MB/s with a tail-drop queue and a round trip of 1 ms. Time is simulated, so the
 * figures are exact. They show that no flow starves, and how unequal the shares are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "tcp_lite/tcpl_int.h"

#define FLOWS 4u
#define RING  1024u /* of each flow: chunks, records, held segments */
#define LINE  8192u /* segments under way at most */
#define MSS   1448u
#define BEGIN (12 * RN_NS_PER_S) /* beginning of the measured time, after a PROBE_RTT */
#define END   (24 * RN_NS_PER_S)

struct flight {
	uint64_t at;
	struct tcpl_seg seg;
	uint8_t opt[TCPL_OPT_MAX];
	uint32_t flow;
};

/* A first-in-first-out queue: each segment has the same delay. */
struct pipe {
	struct flight slot[LINE];
	uint32_t head, tail;
};

struct end {
	struct tcpl_conn c;
	struct tcpl_chunk chunk[RING];
	struct tcpl_txrec rec[RING];
	struct tcpl_sent sent[RING];
	struct tcpl_hold hold[RING];
};

struct world {
	struct tcpl_cfg cfg[FLOWS];
	struct end tx[FLOWS], rx[FLOWS];
	bool open[FLOWS];
	struct pipe there, back;
	struct rn_rng rng;
	uint64_t now, line_free;
	uint32_t n, queue_ns, loss; /* loss: parts per million */
	uint64_t got[FLOWS];
};

static void put(struct pipe *p, uint64_t at, uint32_t flow, const struct tcpl_out *o)
{
	assert_true(p->tail - p->head < LINE);
	struct flight *f = &p->slot[p->tail++ % LINE];
	*f = (struct flight){ .at = at,
			      .flow = flow,
			      .seg = { .seq = o->seq,
				       .ack = o->ack,
				       .len = o->len,
				       .wnd = o->wnd,
				       .flags = o->flags,
				       .optlen = o->optlen,
				       .ref = 1 } };
	for (uint32_t i = 0; i < o->optlen; i++)
		f->opt[i] = o->opt[i];
}

/* The common line: 10 ns for each byte, after the bytes that are queued already. */
static void transmit(struct world *w, uint32_t flow, const struct tcpl_out *o)
{
	uint64_t start = rn_max_u64(w->line_free, w->now);

	if (start - w->now > w->queue_ns || rn_rng_chance(&w->rng, w->loss))
		return;
	w->line_free = start + (o->len + 66u) * 10u;
	put(&w->there, w->line_free + 500000, flow, o);
}

static void send_all(struct world *w, uint32_t i)
{
	struct tcpl_conn *c = &w->tx[i].c;
	struct tcpl_out o;
	uint64_t ref;

	while (tcpl_acked(c, &ref))
		;
	while (tcpl_room(c) > 0 && tcpl_unsent(c) < 4 * MSS && tcpl_send(c, MSS, 1))
		;
	while (tcpl_out(c, w->now, &o))
		transmit(w, i, &o);
}

static void answer_all(struct world *w, uint32_t i)
{
	struct tcpl_slice s;
	struct tcpl_out o;

	while (tcpl_rx_next(&w->rx[i].c, &s))
		w->got[i] += s.len;
	while (tcpl_out(&w->rx[i].c, w->now, &o))
		put(&w->back, w->now + 500000, i, &o);
}

static void arrive(struct world *w, struct flight *f, bool there)
{
	struct tcpl_conn *c = there ? &w->rx[f->flow].c : &w->tx[f->flow].c;
	struct tcpl_ev ev;

	f->seg.opt = f->opt;
	if (there && !w->open[f->flow]) {
		w->open[f->flow] = tcpl_accept_syn(c, w->now, 7, &f->seg) == TCPL_OK;
	} else {
		tcpl_in(c, w->now, &f->seg, &ev);
		if (ev.bits & TCPL_EV_DATA)
			w->got[f->flow] += ev.slice.len;
	}
	if (there)
		answer_all(w, f->flow);
	else
		send_all(w, f->flow);
}

static void timers(struct world *w)
{
	struct tcpl_ev ev;

	for (uint32_t i = 0; i < w->n; i++) {
		if (tcpl_next_wake(&w->tx[i].c) <= w->now) {
			tcpl_timer(&w->tx[i].c, w->now, &ev);
			send_all(w, i);
		}
		if (w->open[i] && tcpl_next_wake(&w->rx[i].c) <= w->now) {
			tcpl_timer(&w->rx[i].c, w->now, &ev);
			answer_all(w, i);
		}
	}
}

static void run(struct world *w, uint64_t until)
{
	while (w->now < until) {
		uint64_t next = until;
		for (uint32_t i = 0; i < w->n; i++) {
			next = rn_min_u64(next, tcpl_next_wake(&w->tx[i].c));
			next = rn_min_u64(next, w->open[i] ? tcpl_next_wake(&w->rx[i].c) : RN_NEVER);
		}
		struct pipe *both[] = { &w->there, &w->back };
		for (int k = 0; k < 2; k++)
			if (both[k]->head != both[k]->tail)
				next = rn_min_u64(next, both[k]->slot[both[k]->head % LINE].at);
		w->now = rn_max_u64(w->now, next);
		for (int k = 0; k < 2; k++)
			while (both[k]->head != both[k]->tail && both[k]->slot[both[k]->head % LINE].at <= w->now) {
				struct flight f = both[k]->slot[both[k]->head++ % LINE];
				arrive(w, &f, k == 0);
			}
		timers(w);
	}
}

static void begin(struct end *e, const struct tcpl_cfg *cfg)
{
	const struct tcpl_mem mem = { .chunk = e->chunk,
				      .rec = e->rec,
				      .hold = e->hold,
				      .chunk_n = RING,
				      .rec_n = RING,
				      .hold_n = RING,
				      .sent = e->sent };

	tcpl_init(&e->c, cfg, &mem);
}

/* The flows' shares of the line between BEGIN and END, in percent; each flow begins 100 ms after the one before. */
static void share(uint32_t n, const struct tcpl_cc *const *cc, uint32_t queue_ms, uint32_t loss, double *part)
{
	struct world *w = calloc(1, sizeof(*w));

	w->queue_ns = queue_ms * (uint32_t)RN_NS_PER_MS;
	w->loss = loss;
	w->now = RN_NS_PER_S;
	rn_rng_seed(&w->rng, 5);
	for (uint32_t i = 0; i < n; i++) {
		tcpl_cfg_default(&w->cfg[i], MSS + 12);
		w->cfg[i].cc = cc[i];
		begin(&w->tx[i], &w->cfg[i]);
		begin(&w->rx[i], &w->cfg[i]);
		w->n = i + 1;
		tcpl_connect(&w->tx[i].c, w->now, 1000 * i);
		send_all(w, i);
		run(w, w->now + 100 * RN_NS_PER_MS);
	}
	run(w, BEGIN);
	uint64_t before[FLOWS];
	for (uint32_t i = 0; i < n; i++)
		before[i] = w->got[i];
	run(w, END);
	for (uint32_t i = 0; i < n; i++) {
		part[i] = (double)(w->got[i] - before[i]) * 100 / ((double)(END - BEGIN) / 10);
		print_message("# queue %u ms, loss %u ppm, flow %u of %u: %s %.1f %%\n", queue_ms, loss, i + 1, n,
			      cc[i]->name, part[i]);
	}
	free(w);
}

static void alike(void **state)
{
	const struct tcpl_cc *const bbr[] = { &tcpl_bbr, &tcpl_bbr, &tcpl_bbr, &tcpl_bbr };
	const struct tcpl_cc *const cubic[] = { &tcpl_cubic, &tcpl_cubic, &tcpl_cubic, &tcpl_cubic };
	double part[FLOWS];

	(void)state;
	share(1, bbr, 2, 0, part);
	assert_true(part[0] > 90);
	share(1, bbr, 2, 10000, part);
	assert_true(part[0] > 85);
	share(4, bbr, 2, 0, part);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(part[i] > 10);
	share(4, cubic, 2, 0, part);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(part[i] > 15);
}

/*
 * BBR and CUBIC on one line: with a queue of two round trips each gets at least a fifth. A short queue overflows, to
 * which CUBIC reacts and BBR does not. A long queue is filled by CUBIC, while BBR keeps at most two round trips of data
 * under way.
 */
static void mixed(void **state)
{
	static const struct {
		uint32_t queue_ms;
		double bbr, cubic;
	} least[] = { { 1, 60, 3 }, { 2, 20, 20 }, { 8, 5, 10 } };
	const struct tcpl_cc *const cc[] = { &tcpl_bbr, &tcpl_cubic };
	const struct tcpl_cc *const other[] = { &tcpl_cubic, &tcpl_bbr };
	double part[FLOWS];

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(least); i++) {
		share(2, cc, least[i].queue_ms, 0, part);
		assert_true(part[0] > least[i].bbr && part[1] > least[i].cubic);
		share(2, other, least[i].queue_ms, 0, part);
		assert_true(part[1] > least[i].bbr && part[0] > least[i].cubic);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(alike), cmocka_unit_test(mixed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
