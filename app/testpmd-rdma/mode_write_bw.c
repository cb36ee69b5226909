/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Write bandwidth: the server sleeps, its memory is written. */
#include "tp_engine.h"

static enum tp_verdict write_bw_run(struct tp_run *r) { return tp_stream_run(r, IBV_WR_RDMA_WRITE); }

const struct tp_engine tp_write_bw = {
	.mode = TP_WRITE_BW,
	.fence = true,
	.depths = tp_stream_depths,
	.prepare = tp_stream_prepare,
	.run = write_bw_run,
	.verify = tp_verify_written,
};
