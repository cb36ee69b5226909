/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of the engine's fast path without ports and processes: two devices in one thread, segments handed over as
 * slices. Prints one line for each case, and no verdict. Usage: bench_qp [milliseconds per case]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "rig.h"

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * RN_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* One turn of a node: its segments go straight into the other node. */
static void turn(struct rig *r, int id)
{
	struct rig_node *n = &r->n[id], *o = &r->n[!id];
	struct rn_iov iov[RC_MAX_IOV];
	struct tcpl_out out;
	static uint8_t flat[10000];
	struct rc_tcp *c;

	n->ctx.rc.qp.now = o->ctx.rc.qp.now = r->now;
	while ((c = rc_tcp_ready_pop(&n->ctx)) != NULL)
		while (rc_tcp_out(&n->ctx, c, &out)) {
			struct rc_tcp_pkt p = { .iov = iov };
			p.n = rc_tcp_slices(c, &out, iov, RN_ARRAY_LEN(iov), &p.crc_due);
			if (p.n == 0 && out.len > 0) {
				p.crc_due = false;
				rc_tcp_copy(&n->ctx, c, &out, flat, RC_TCP_CRC_KEPT);
				iov[0] = (struct rn_iov){ flat, out.len };
				p.n = 1;
			}
			struct tcpl_seg s = { .seq = out.seq,
					      .ack = out.ack,
					      .len = out.len,
					      .wnd = out.wnd,
					      .flags = out.flags,
					      .optlen = out.optlen,
					      .opt = out.opt,
					      .ref = (uint64_t)(uintptr_t)&p };
			if (rc_tcp_segment(&o->ctx, &o->conn[c - n->conn], &s))
				abort();
		}
	rc_flush(&n->ctx.rc);
	rc_tcp_drained(&n->ctx);
	for (uint32_t f = 0; f < RIG_FLOWS; f++)
		if (rc_get_state(&n->conn[f].rc) != RC_FREE && rc_tcp_next_wake(&n->conn[f]) <= r->now)
			rc_tcp_timer(&n->ctx, &n->conn[f]);
}

static void run(const char *name, const struct rig_cfg *cfg, uint8_t op, uint32_t len, uint32_t depth, uint64_t ms)
{
	struct rig *r = rig_new(cfg);
	struct rig_node *a = &r->n[0], *b = &r->n[1];
	uint64_t done = 0, posted = 0;
	struct qp_cqe e;

	rig_connect(r, 0);
	struct qp_sge s = rig_sge(a, 0, len);
	struct rig_wr w = {
		.op = op, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1, .raddr = RIG_IOVA(1), .rkey = b->rkey
	};
	uint64_t t0 = clock_ns(), t;
	uint64_t base = r->now;
	do {
		t = clock_ns();
		r->now = base + (t - t0);
		while (posted - done < depth && rig_post(a, 0, &w))
			posted++;
		turn(r, 0);
		turn(r, 1);
		while (rig_poll(&a->scq_client, &e)) {
			if (e.status != QP_WC_SUCCESS)
				abort();
			done++;
		}
	} while (t - t0 < ms * RN_NS_PER_MS);
	double sec = (double)(t - t0) / 1e9;
	printf("%-28s %8u B  %9.0f /s  %7.2f GB/s\n", name, len, (double)done / sec, (double)done * len / sec / 1e9);
	fflush(stdout);
	free(r);
}

int main(int argc, char **argv)
{
	uint64_t ms = argc > 1 ? strtoull(argv[1], NULL, 0) : 300;
	static const struct {
		const char *name;
		uint32_t mtu;
		bool crc, markers;
	} c[] = {
		{ "mtu 1500, crc", 1500, true, false },
		{ "mtu 1500", 1500, false, false },
		{ "mtu 1500, crc, markers", 1500, true, true },
		{ "mtu 9000, crc", 9000, true, false },
		{ "mtu 9000", 9000, false, false },
		{ "mtu 9000, crc, markers", 9000, true, true },
	};

	for (uint32_t i = 0; i < RN_ARRAY_LEN(c); i++) {
		struct rig_cfg cfg;
		char name[64];
		rig_defaults(&cfg);
		cfg.mtu = c[i].mtu;
		cfg.crc = c[i].crc;
		cfg.markers[0] = cfg.markers[1] = c[i].markers;
		cfg.chunks = 512;
		cfg.recs = 8192;
		snprintf(name, sizeof(name), "write %s", c[i].name);
		run(name, &cfg, QP_WR_WRITE, 65536, 16, ms);
		snprintf(name, sizeof(name), "read %s", c[i].name);
		run(name, &cfg, QP_WR_READ, 65536, 16, ms);
		snprintf(name, sizeof(name), "write %s", c[i].name);
		run(name, &cfg, QP_WR_WRITE, 64, 100, ms);
		run(name, &cfg, QP_WR_WRITE, 64, 1, ms);
	}
	return 0;
}
