/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the parameters of each run from the settings. */
#include "tp_opts.h"

#include <inttypes.h>
#include <string.h>

#define DEFAULT_DEPTH     128u
#define UD_READS          8u  /* outstanding Reads: half of the answers that a peer may owe */
#define UD_LATE           64u /* buffers for answers, so that a late answer is not taken for that of another Read */
#define DEFAULT_BATCH     16u
#define DEFAULT_IN_FLIGHT (UINT64_C(64) << 20) /* bytes outstanding per queue pair */

void tp_opts_default(struct tp_opts *o)
{
	memset(o, 0, sizeof(*o));
	o->port = TP_PORT;
	o->cpu = -1;
	o->inline_max = -1;
	o->modes[0] = TP_WRITE_BW;
	o->n_modes = 1;
	o->qps = 1;
	o->buffers = 1;
	o->duration = UINT64_C(1000000000);
	o->warmup = UINT64_C(100000000);
	o->timeout = UINT64_C(10000000000);
	o->seed = 1;
	o->max_memory = UINT64_C(4) << 30;
}

/* Values of a list; one where none is given: the default. */
static unsigned count_of(unsigned n) { return n > 0 ? n : 1; }

static enum tp_verdict check_depth(const struct tp_opts *o, uint32_t depth, struct tp_err *err)
{
	for (unsigned i = 0; depth > 1 && i < o->n_modes; i++)
		if (tp_mode_is_latency(o->modes[i]))
			return tp_fail(err, TP_BAD_OPTION,
				       "%s has one operation outstanding by definition: leave out --depth, or use "
				       "a bandwidth mode, which reports latency under load",
				       tp_mode_name(o->modes[i]));
	if (depth != 0 && o->batch > depth)
		return tp_fail(err, TP_BAD_OPTION,
			       "--batch %" PRIu32 " does not fit into --depth %" PRIu32 ": make it smaller", o->batch,
			       depth);
	return TP_OK;
}

enum tp_verdict tp_opts_check(const struct tp_opts *o, struct tp_err *err)
{
	if (o->plot[0] != '\0' && (o->server || o->interactive))
		return tp_fail(err, TP_BAD_OPTION, "--plot draws what a client has measured: leave out -s and -i");
	if (o->server) {
		if (o->interactive)
			return tp_fail(err, TP_BAD_OPTION, "the server has no prompt: give -s or -i, not both");
		if (o->host[0] != '\0')
			return tp_fail(err, TP_BAD_OPTION,
				       "a server calls nobody: leave out HOST, or use -a to choose the "
				       "address to listen on");
		return TP_OK;
	}
	if (o->once)
		return tp_fail(err, TP_BAD_OPTION, "--once goes with -s: a client ends by itself");
	if (o->host[0] == '\0' && !o->interactive)
		return tp_fail(err, TP_BAD_OPTION,
			       "no server named: start \"testpmd-rdma -s\" on one side and \"testpmd-rdma "
			       "HOST\" on the other (see --help)");
	for (unsigned i = 0; i < o->n_modes; i++) {
		if (o->modes[i] == TP_WRITE_LAT && o->events)
			return tp_fail(err, TP_BAD_OPTION,
				       "write_lat watches memory, so there is no event to sleep on: leave out "
				       "--events, or use send_lat");
		if (o->modes[i] != TP_SEND_BW && o->touch)
			return tp_fail(err, TP_BAD_OPTION,
				       "the receiver of %s does not learn of each message: --touch goes with "
				       "send_bw",
				       tp_mode_name(o->modes[i]));
		if (o->modes[i] > TP_SEND_BW && o->compute != 0)
			return tp_fail(err, TP_BAD_OPTION,
				       "%s has no stream of posts to compute between: --compute goes with write_bw, "
				       "read_bw and send_bw",
				       tp_mode_name(o->modes[i]));
		if (tp_mode_is_latency(o->modes[i]) && o->bidir)
			return tp_fail(err, TP_BAD_OPTION,
				       "%s is two-way already: --bidir goes with the bandwidth modes and soak",
				       tp_mode_name(o->modes[i]));
	}
	for (unsigned i = 0; o->qp_type == TP_QP_UD && i < o->n_sizes; i++)
		if (o->sizes[i] > TP_MAX_UD_SIZE)
			return tp_fail(err, TP_BAD_OPTION,
				       "a message of unreliable datagrams has at most 1m bytes: use smaller --size, or "
				       "--qp-type rd");
	for (unsigned i = 0; i < count_of(o->n_depths); i++) {
		enum tp_verdict v = check_depth(o, o->n_depths > 0 ? o->depths[i] : o->depth, err);

		if (v != TP_OK)
			return v;
	}
	return TP_OK;
}

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t default_depth(uint64_t size)
{
	uint64_t fit = DEFAULT_IN_FLIGHT / size;

	if (fit >= DEFAULT_DEPTH)
		return DEFAULT_DEPTH;
	return fit < 4 ? 4 : (uint32_t)fit;
}

uint32_t tp_recv_depth(const struct tp_point *p) { return p->depth < 32 ? 64 : 2 * p->depth; }

/*
 * With datagrams that may be lost, an arrival is identified by its buffer: the buffer of an answer names its Read, and
 * receives do not share buffers.
 */
static uint32_t ud_slots(const struct tp_point *p)
{
	uint32_t least = p->mode == TP_READ_BW ? 2 * p->depth : p->slots > 1 ? tp_recv_depth(p) : 1;

	return p->slots > least ? p->slots : least;
}

void tp_point_make(struct tp_point *p, const struct tp_opts *o, enum tp_mode mode, uint64_t size)
{
	memset(p, 0, sizeof(*p));
	p->mode = mode;
	p->qp_type = o->qp_type;
	p->loss = TP_NO_LOSS;
	p->size = size;
	p->qps = o->qps;
	p->bidir = o->bidir;
	p->events = o->events;
	p->touch = o->touch;
	p->verify = !o->no_verify || mode == TP_SOAK;
	p->iters = o->iters;
	p->duration = o->duration;
	p->warmup_ops = mode == TP_SOAK ? 0 : o->warmup_ops;
	p->warmup = mode == TP_SOAK ? 0 : o->warmup;
	p->timeout = o->timeout;
	p->compute = o->compute;
	p->seed = mode == TP_SOAK ? o->seed : o->seed ^ size << 8 ^ (uint64_t)mode << 56;
	p->slots = o->buffers;
	if (tp_mode_is_latency(mode) || mode == TP_IDLE) {
		p->depth = p->batch = p->signal_every = 1;
		if (p->qp_type == TP_QP_UD)
			p->slots = mode == TP_READ_LAT ? UD_LATE : 1;
		return;
	}
	p->depth = o->depth != 0 ? o->depth : default_depth(size);
	if (p->qp_type == TP_QP_UD && mode != TP_WRITE_BW && mode != TP_SEND_BW && o->depth == 0)
		p->depth = min_u32(p->depth, UD_READS);
	if (mode == TP_SOAK) {
		/*
		 * Every message has its slot until the receiver has compared it: one kind for Sends, one for Writes,
		 * and one for Read-Records, whose answer may come while the peer writes.
		 */
		p->slots = (p->qp_type == TP_QP_UD ? 3 : 2) * p->depth;
		p->batch = p->signal_every = 1;
		return;
	}
	p->batch = o->batch != 0 ? min_u32(o->batch, p->depth) : min_u32(DEFAULT_BATCH, p->depth / 2);
	if (p->batch == 0)
		p->batch = 1;
	/* A batch must still fit while the newest signal_every - 1 requests are not known to be complete. */
	p->signal_every = min_u32(o->signal_every != 0 ? o->signal_every : p->batch, p->depth - p->batch + 1);
	if (p->qp_type == TP_QP_UD)
		p->slots = ud_slots(p);
}

unsigned tp_opts_points(const struct tp_opts *o)
{
	return o->n_modes * count_of(o->n_losses) * count_of(o->n_qps) * count_of(o->n_depths) * count_of(o->n_sizes);
}

/* The next of the values that i counts through. */
static unsigned place_in(unsigned *i, unsigned n)
{
	unsigned at = *i % count_of(n);

	*i /= count_of(n);
	return at;
}

void tp_opts_point(const struct tp_opts *o, unsigned i, struct tp_point *p)
{
	const bool more = i + 1 < tp_opts_points(o);
	const unsigned size = place_in(&i, o->n_sizes), series = i, depth = place_in(&i, o->n_depths);
	const unsigned qps = place_in(&i, o->n_qps), loss = place_in(&i, o->n_losses);
	const enum tp_mode mode = o->modes[i];
	const uint64_t fallback = tp_mode_is_latency(mode) || mode == TP_IDLE ? 8 : 64 << 10;
	struct tp_opts one = *o;

	if (o->n_depths > 0)
		one.depth = o->depths[depth];
	if (o->n_qps > 0)
		one.qps = o->qps_list[qps];
	tp_point_make(p, &one, mode, o->n_sizes > 0 ? o->sizes[size] : fallback);
	if (o->n_losses > 0)
		p->loss = o->losses[loss];
	p->series = series;
	p->more = more;
}

enum tp_verdict tp_point_check(const struct tp_point *p, struct tp_err *err)
{
	if ((unsigned)p->mode >= TP_MODE_COUNT || (unsigned)p->qp_type >= TP_QP_TYPES || p->size == 0 ||
	    p->size > TP_MAX_SIZE || p->qps == 0 || p->qps > TP_MAX_QPS || p->depth == 0 || p->depth > TP_MAX_DEPTH ||
	    p->slots == 0 || p->slots > TP_MAX_BUFFERS || p->batch == 0 || p->batch > p->depth ||
	    p->signal_every == 0 || p->signal_every > p->depth - p->batch + 1 || (p->iters == 0 && p->duration == 0) ||
	    p->timeout == 0)
		return tp_fail(err, TP_BAD_PEER,
			       "the client asked for a run that makes no sense: use the same version of "
			       "testpmd-rdma on both sides");
	if (tp_mode_is_latency(p->mode) && (p->depth != 1 || p->bidir))
		return tp_fail(err, TP_BAD_PEER,
			       "the client asked for a latency run with several operations outstanding");
	if (p->qp_type == TP_QP_UD && p->size > TP_MAX_UD_SIZE)
		return tp_fail(err, TP_BAD_PEER, "the client asked for datagrams that are too long");
	if (p->mode == TP_SOAK && p->slots < (p->qp_type == TP_QP_UD ? 3 : 2) * p->depth)
		return tp_fail(err, TP_BAD_PEER, "the client asked for a soak with fewer buffers than messages");
	return TP_OK;
}
