/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read bandwidth: the server sleeps, its memory is read. */
#include "tp_engine.h"

static enum tp_verdict read_bw_run(struct tp_run *r) { return tp_stream_run(r, IBV_WR_RDMA_READ); }

static enum tp_verdict read_bw_verify(struct tp_run *r)
{
	enum tp_verdict v = TP_OK;

	for (uint32_t q = 0; r->tx && v == TP_OK && q < r->p->qps; q++)
		v = tp_check_rx(r, q, r->min_posted, r->p->size);
	return v;
}

const struct tp_engine tp_read_bw = {
	.mode = TP_READ_BW,
	.depths = tp_stream_depths,
	.prepare = tp_stream_prepare,
	.run = read_bw_run,
	.verify = read_bw_verify,
};

/* One Read at a time: the same pipeline with a depth of one. */
const struct tp_engine tp_read_lat = {
	.mode = TP_READ_LAT,
	.depths = tp_stream_depths,
	.prepare = tp_stream_prepare,
	.run = read_bw_run,
	.verify = read_bw_verify,
};
