/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three workers, with a flow from each worker to each other, over a network that loses, repeats, delays, reorders and
 * corrupts packets. Workers are restarted now and then. Each worker forgets flows that carry nothing, after an idle
 * time of its own. In some runs workers fold flows at rest. In some runs a worker is old: such a worker knows neither
 * UDPR_F_MUCH nor a window of more than UDPR_WINDOW. A restart may bring another version. A seed determines a run.
 * usage: test_udpr_sim [SEED]: runs that seed only.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "base/rn_rng.h"
#include "crc32c/crc32c.h"
#include "udp/udpl.h"
#include "udp/udpr.h"

#define NODES     3u
#define RING      64u
#define RING_WIDE 1024u
#define WIRE      4096u /* datagrams under way at most; further ones are lost */
#define FRAME     192u
#define PACKETS   3000u /* packets that are given to flows in a run, at most */
#define SEEDS     1000u
#define ACK_DELAY (100 * RN_NS_PER_US)
#define PATIENCE  (2 * RN_NS_PER_S)

struct frame {
	uint64_t at;
	uint32_t from, to, len;
	uint8_t b[FRAME];
};

struct node {
	uint64_t key[2], idle; /* idle: ns after which the worker forgets a flow that carries nothing */
	struct udpr_tx tx[NODES];
	struct udpr_rx rx[NODES];
	struct udpr_pkt ring[NODES][RING_WIDE], other[NODES][RING_WIDE];
	uint64_t bits[NODES][UDPR_WIDE / 64];
	bool old;
};

enum fate { NOT_GIVEN = 0, WAITING, DELIVERED, FAILED, FORGOTTEN /* FORGOTTEN: the packet's sender was restarted */ };

static struct {
	struct rn_rng rng;
	uint64_t now, seed;
	struct node node[NODES];
	struct frame wire[WIRE];
	uint32_t on_wire;
	struct {
		enum fate fate;
		uint32_t from, came;
	} packet[PACKETS];
	uint32_t given, good, bad, forgotten, loss, twice, broken, late;
	bool wide;  /* receivers get memory for wide windows now and then */
	bool mixed; /* some workers are old */
	uint32_t packets, widest, fars, folds;
} sim;

static bool folding; /* ends of flows at rest are folded at random times */

static const struct udpr_cfg cfg = { .target = 100 * RN_NS_PER_US, .patience = PATIENCE, .ack_delay = ACK_DELAY };

static void start_node(uint32_t i)
{
	memset(&sim.node[i], 0, sizeof(sim.node[i]));
	sim.node[i].key[0] = rn_rng_u64(&sim.rng);
	sim.node[i].key[1] = rn_rng_u64(&sim.rng);
	sim.node[i].idle = rn_rng_below(&sim.rng, 12000) * RN_NS_PER_MS;
	sim.node[i].old = sim.mixed && rn_rng_below(&sim.rng, 2) == 0;
	for (uint32_t k = 0; k < sim.given; k++)
		if (sim.packet[k].from == i && sim.packet[k].fate == WAITING)
			sim.packet[k].fate = FORGOTTEN;
}

static void put_frame(uint32_t from, uint32_t to, const uint8_t *b, uint32_t len)
{
	struct frame *f;

	if (rn_rng_chance(&sim.rng, sim.loss) || sim.on_wire == WIRE)
		return;
	f = &sim.wire[sim.on_wire++];
	*f = (struct frame){ .from = from, .to = to, .len = len };
	f->at = sim.now + 20 * RN_NS_PER_US + rn_rng_below(&sim.rng, 30) * RN_NS_PER_US;
	if (rn_rng_chance(&sim.rng, sim.late)) /* sometimes longer than a flow lives */
		f->at += rn_rng_below(&sim.rng, 20000) * RN_NS_PER_MS;
	memcpy(f->b, b, len);
	if (rn_rng_chance(&sim.rng, sim.broken))
		f->b[rn_rng_below(&sim.rng, len)] ^= (uint8_t)(1u << rn_rng_below(&sim.rng, 8));
	if (rn_rng_chance(&sim.rng, sim.twice))
		put_frame(from, to, b, len);
}

static void send_hdr(uint32_t from, uint32_t to, const struct udpr_hdr *h, uint64_t user)
{
	uint8_t b[FRAME];
	struct udpr_hdr sent = *h;

	if (sim.node[from].old && h->kind == UDPR_DATA)
		sent.flags &= (uint8_t)~UDPR_F_MUCH;
	uint32_t len = udpr_build(b, &sent);
	if (h->kind == UDPR_DATA) {
		rn_store_be64(b + len, user);
		len += 8;
	}
	udpl_crc_put(b, len, crc32c(0, b, len));
	put_frame(from, to, b, len + UDPL_CRC_LEN);
}

static void data_in(const struct frame *f, const struct udpr_hdr *h)
{
	struct node *n = &sim.node[f->to];
	struct udpr_rx *rx = &n->rx[f->from];
	struct udpr_hdr out;
	uint64_t user;

	if (udpr_rx_open(rx, n->key, &f->from, sizeof(f->from), h, sim.now) != UDPR_OK) {
		udpr_unknown(h, &out);
		send_hdr(f->to, f->from, &out, 0);
		return;
	}
	const enum udpr_verdict v = udpr_rx_data(rx, h, sim.now);
	sim.fars += v == UDPR_FAR;
	if (v == UDPR_FAR && n->old)
		fail_msg("seed %lu: more than an old receiver's window", (unsigned long)sim.seed);
	if (v != UDPR_OK)
		return;
	assert_int_equal(h->body_len, 8);
	user = rn_load_be64(f->b + h->body);
	assert_true(user < sim.given);
	sim.packet[user].came++;
	assert_int_equal(sim.packet[user].came, 1); /* no packet is delivered twice */
}

/* An old worker does not look at what it does not know; an ACK of its flow tells no such thing. */
static void read_as_old(const struct frame *f, struct udpr_hdr *h)
{
	const struct udpr_tx *t = &sim.node[f->to].tx[f->from];

	if (h->kind == UDPR_ACK && h->flow == t->flow && h->token == t->token &&
	    (h->sacks > UDPR_SACKS || h->flags >> UDPR_F_WINDOW != 0))
		fail_msg("seed %lu: an ACK that an old sender does not know", (unsigned long)sim.seed);
	h->flags &= h->kind == UDPR_DATA ? UDPR_F_COOKIE : UDPR_F_TWICE | UDPR_F_LATE;
}

static void frame_in(const struct frame *f)
{
	struct udpr_hdr h, out;

	if (!udpl_crc_good(f->b, f->len) || udpr_parse(f->b, f->len, &h) != UDPR_OK)
		return;
	if (sim.node[f->to].old)
		read_as_old(f, &h);
	if (h.kind == UDPR_HELLO) {
		udpr_cookie_make(sim.node[f->to].key, &f->from, sizeof(f->from), &h, sim.now, &out);
		send_hdr(f->to, f->from, &out, 0);
	} else if (h.kind == UDPR_DATA) {
		data_in(f, &h);
	} else if (udpr_tx_in(&sim.node[f->to].tx[f->from], &h, sim.now) == UDPR_FAR) {
		fail_msg("seed %lu: an honest ACK says what was never sent", (unsigned long)sim.seed);
	}
}

static void tell_fates(struct udpr_tx *t)
{
	uint64_t user;
	bool ok;

	while (udpr_tx_done(t, &user, &ok)) {
		assert_true(user < sim.given);
		assert_int_equal(sim.packet[user].fate, WAITING); /* the fate of each packet is told once */
		sim.packet[user].fate = ok ? DELIVERED : FAILED;
		if (ok)
			assert_int_equal(sim.packet[user].came, 1);
		sim.good += ok;
		sim.bad += !ok;
	}
}

/* While a sender has much to send, its receiver may get memory for a wide window; the sender then gets a long ring. */
static void look_at_windows(uint32_t i, uint32_t k)
{
	struct node *n = &sim.node[i];
	struct udpr_tx *t = &n->tx[k];
	struct udpr_rx *rx = &n->rx[k];

	if (!sim.wide || n->old)
		return;
	if (rx->open && rx->wide == NULL && rx->much && rn_rng_below(&sim.rng, 4) == 0)
		udpr_rx_widen(rx, n->bits[k]);
	else if (rx->wide != NULL && !rx->much)
		(void)udpr_rx_narrow(rx);
	if (udpr_tx_busy(t) && t->window > UDPR_WINDOW && t->mask < RING_WIDE - 1)
		udpr_tx_ring(t, n->other[k], RING_WIDE);
	sim.widest = rn_max_u32(sim.widest, t->nxt - t->una);
}

/*
 * Folds both ends of a flow at rest at random times, and unfolds them: the receiver's end goes on, the next packet of
 * the sender opens another flow.
 */
static void fold_at_random(uint32_t i, uint32_t k)
{
	struct udpr_tx *t = &sim.node[i].tx[k];
	struct udpr_rx *rx = &sim.node[i].rx[k];
	struct udpr_rx again = { .src_worker = rx->src_worker, .dst_worker = rx->dst_worker, .heard = rx->heard };
	struct udpr_fold f;

	if (!folding || udpr_tx_busy(t) || rn_rng_below(&sim.rng, 4) != 0 || !udpr_rx_fold(rx, &f))
		return;
	udpr_rx_unfold(&again, sim.node[i].key, &k, sizeof(k), &f);
	sim.folds += t->state == UDPR_OPEN || rx->open;
	*t = (struct udpr_tx){ .last_sent = t->last_sent };
	*rx = again;
}

/* One flow's turn. Returns the time of its next turn. */
static uint64_t turn(uint32_t i, uint32_t k)
{
	struct udpr_tx *t = &sim.node[i].tx[k];
	struct udpr_rx *rx = &sim.node[i].rx[k];
	struct udpr_hdr h;
	uint64_t user, due;

	look_at_windows(i, k);
	fold_at_random(i, k);
	tell_fates(t);
	udpr_tx_tick(t, sim.now);
	tell_fates(t);
	while (udpr_tx_next(t, sim.now, &h, &user))
		send_hdr(i, k, &h, user);
	if (!udpr_tx_busy(t) && t->state == UDPR_LOST)
		*t = (struct udpr_tx){ .last_sent = t->last_sent };
	if (udpr_rest_due(t, rx, sim.node[i].idle) <= sim.now) {
		assert_true(!udpr_tx_busy(t) && udpr_rx_due(rx, ACK_DELAY) == RN_NEVER);
		sim.forgotten += t->state != UDPR_CLOSED || rx->open;
		memset(t, 0, sizeof(*t));
		memset(rx, 0, sizeof(*rx));
	}
	due = udpr_rx_due(rx, ACK_DELAY);
	if (due <= sim.now) {
		udpr_rx_ack(rx, sim.now, &h);
		send_hdr(i, k, &h, 0);
		due = RN_NEVER;
	}
	if (t->state != UDPR_CLOSED || rx->open)
		due = rn_min_u64(due, udpr_rest_due(t, rx, sim.node[i].idle));
	return rn_min_u64(due, udpr_tx_timer(t, sim.now));
}

static void give(void)
{
	uint32_t i = rn_rng_below(&sim.rng, NODES), k = (i + 1 + rn_rng_below(&sim.rng, NODES - 1)) % NODES;
	struct udpr_tx *t = &sim.node[i].tx[k];

	const uint32_t most = sim.wide ? 900 : 40;

	for (uint32_t burst = 1 + rn_rng_below(&sim.rng, most); burst > 0 && sim.given < sim.packets; burst--) {
		if (!udpr_tx_send(t, sim.given, sim.now)) {
			if (t->state != UDPR_CLOSED)
				return;
			udpr_tx_open(t, &cfg, sim.node[i].ring[k], sim.wide ? UDPR_WINDOW : RING,
				     rn_rng_u32(&sim.rng) | 1);
			assert_true(udpr_tx_send(t, sim.given, sim.now));
		}
		sim.packet[sim.given].from = i;
		sim.packet[sim.given++].fate = WAITING;
	}
}

static uint64_t deliver(void)
{
	uint64_t due = RN_NEVER;

	for (uint32_t i = 0; i < sim.on_wire;) {
		struct frame f = sim.wire[i];

		if (f.at > sim.now) {
			due = rn_min_u64(due, f.at);
			i++;
			continue;
		}
		sim.wire[i] = sim.wire[--sim.on_wire];
		frame_in(&f);
		due = sim.now;
	}
	return due;
}

static bool waiting(void)
{
	for (uint32_t k = 0; k < sim.given; k++)
		if (sim.packet[k].fate == WAITING)
			return true;
	return false;
}

static void run(uint64_t seed, uint32_t restarts, bool wide, bool mixed)
{
	uint64_t next_give = 0, last = 0, due;

	memset(&sim, 0, sizeof(sim));
	sim.seed = seed;
	sim.wide = wide;
	sim.mixed = mixed;
	sim.packets = wide ? PACKETS : 600;
	rn_rng_seed(&sim.rng, seed);
	sim.now = RN_NS_PER_S;
	sim.loss = rn_rng_below(&sim.rng, wide ? 20000 : 200000);
	sim.twice = rn_rng_below(&sim.rng, 50000);
	sim.broken = rn_rng_below(&sim.rng, 20000);
	sim.late = rn_rng_below(&sim.rng, 5000);
	for (uint32_t i = 0; i < NODES; i++)
		start_node(i);
	while (sim.given < sim.packets || waiting()) {
		if (sim.given < sim.packets && sim.now >= next_give) {
			give();
			last = sim.now;
			next_give = sim.now + rn_rng_below(&sim.rng, 300) * RN_NS_PER_US;
			if (rn_rng_chance(&sim.rng, 50000)) /* a pause in which flows may expire */
				next_give += rn_rng_below(&sim.rng, 15000) * RN_NS_PER_MS;
		}
		if (rn_rng_chance(&sim.rng, restarts))
			start_node(rn_rng_below(&sim.rng, NODES));
		due = deliver();
		for (uint32_t i = 0; i < NODES; i++)
			for (uint32_t k = 0; k < NODES; k++)
				due = rn_min_u64(due, i == k ? RN_NEVER : turn(i, k));
		due = rn_min_u64(due, sim.given < sim.packets ? next_give : RN_NEVER);
		/* each packet of a ring may be waited for during `patience`, and no longer */
		assert_true(sim.given < sim.packets || !waiting() ||
			    sim.now - last < (wide ? RING_WIDE : RING) * PATIENCE);
		sim.now = rn_max_u64(sim.now + RN_NS_PER_US, due == RN_NEVER ? 0 : due);
	}
	for (uint32_t k = 0; k < PACKETS; k++)
		assert_true(sim.packet[k].fate != DELIVERED || sim.packet[k].came == 1);
}

static uint64_t only;

static void every_success_is_delivered_once_every_failure_at_most_once(void **state)
{
	uint64_t good[2] = { 0 }, bad[2] = { 0 }, forgotten = 0; /* runs without restarts, runs with restarts */

	(void)state;
	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS); seed++) {
		run(seed, seed % 2 ? 0 : 2000, false, false);
		good[seed % 2 == 0] += sim.good;
		bad[seed % 2 == 0] += sim.bad;
		forgotten += sim.forgotten;
	}
	for (uint32_t i = 0; i < 2; i++)
		print_message("# %s restarts: %lu delivered, %lu failed\n", i ? "with" : "without",
			      (unsigned long)good[i], (unsigned long)bad[i]);
	print_message("# %lu flows were forgotten\n", (unsigned long)forgotten);
	assert_true(bad[0] == 0);
	assert_true(only || forgotten > SEEDS);
	assert_true(only || good[1] > bad[1]);
}

static void the_same_with_flows_that_are_folded_at_random_times(void **state)
{
	uint64_t folds = 0;

	(void)state;
	folding = true;
	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS); seed++) {
		run(seed, seed % 2 ? 0 : 2000, false, false);
		assert_true(seed % 2 == 0 || sim.bad == 0);
		folds += sim.folds;
	}
	folding = false;
	print_message("# %lu flows were folded\n", (unsigned long)folds);
	assert_true(only || folds > 100 * SEEDS);
}

/* Returns the most packets that were on the way in a flow. */
static uint32_t run_wide(bool mixed)
{
	uint32_t widest = 0, fars = 0;

	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS / 10); seed++) {
		run(seed, seed % 2 ? 0 : 200, true, mixed);
		assert_true(seed % 2 == 0 || sim.bad == 0);
		widest = rn_max_u32(widest, sim.widest);
		fars += sim.fars;
	}
	print_message("# %u packets on the way at most, %u behind a window\n", widest, fars);
	return widest;
}

static void the_same_in_windows_that_grow_and_shrink(void **state)
{
	(void)state;
	assert_true(run_wide(false) > 2 * UDPR_WINDOW || only);
}

static void the_same_between_old_and_new_workers(void **state)
{
	(void)state;
	assert_true(run_wide(true) > 2 * UDPR_WINDOW || only); /* between two new ones */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_success_is_delivered_once_every_failure_at_most_once),
		cmocka_unit_test(the_same_with_flows_that_are_folded_at_random_times),
		cmocka_unit_test(the_same_in_windows_that_grow_and_shrink),
		cmocka_unit_test(the_same_between_old_and_new_workers),
	};

	only = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	return cmocka_run_group_tests_name("udpr_sim", tests, NULL, NULL);
}
