/* SPDX-License-Identifier: BSD-3-Clause */
/* Bandwidth of unreliable datagrams: Write-Records, Sends and Read-Records. */
#include "tp_ud.h"

static enum tp_verdict ud_write_bw_run(struct tp_run *r) { return tp_stream_run(r, IBV_WR_RDMA_WRITE); }
static enum tp_verdict ud_read_bw_run(struct tp_run *r) { return tp_stream_run(r, IBV_WR_RDMA_READ); }
static enum tp_verdict ud_send_bw_run(struct tp_run *r) { return tp_stream_run(r, IBV_WR_SEND); }

static enum tp_verdict ud_bw_prepare(struct tp_run *r)
{
	enum tp_verdict v = tp_ud_prepare(r);

	return v == TP_OK ? tp_stream_prepare(r) : v;
}

static enum tp_verdict ud_send_bw_prepare(struct tp_run *r)
{
	enum tp_verdict v = tp_ud_prepare(r);

	return v == TP_OK ? tp_stream_prepare_recv(r) : v;
}

const struct tp_engine tp_ud_write_bw = {
	.mode = TP_WRITE_BW,
	.two_sided = true,
	.depths = tp_stream_send_depths,
	.prepare = ud_bw_prepare,
	.run = ud_write_bw_run,
	.verify = tp_ud_verify,
};

const struct tp_engine tp_ud_read_bw = {
	.mode = TP_READ_BW,
	.depths = tp_stream_send_depths,
	.prepare = ud_bw_prepare,
	.run = ud_read_bw_run,
	.verify = tp_ud_verify,
};

const struct tp_engine tp_ud_send_bw = {
	.mode = TP_SEND_BW,
	.two_sided = true,
	.depths = tp_stream_send_depths,
	.prepare = ud_send_bw_prepare,
	.run = ud_send_bw_run,
	.verify = tp_ud_verify,
};
