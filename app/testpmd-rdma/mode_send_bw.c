/* SPDX-License-Identifier: BSD-3-Clause */
/* Send bandwidth: the server posts receives and grants credit. */
#include "tp_engine.h"

static enum tp_verdict send_bw_run(struct tp_run *r) { return tp_stream_run(r, IBV_WR_SEND); }

const struct tp_engine tp_send_bw = {
	.mode = TP_SEND_BW,
	.two_sided = true,
	.depths = tp_stream_send_depths,
	.prepare = tp_stream_prepare_recv,
	.run = send_bw_run,
	.verify = tp_verify_written,
};
