/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connected device and a peer that sends anything. First octet: bit 0 packets in several slices, bit 1 a bad link,
 * bit 3 messages wait for receives, bit 4 the wait is limited. Then records: two octets, little endian. Their low 12
 * bits are a length; bit 15 plain octets instead of an FPDU with its CRC; bit 14 the device posts a Read, or with bit
 * 12 an Atomic; bit 13 the client posts a receive. Then the octets. No byte may be written outside the two regions that
 * the peer may write to, and every packet must come back.
 */
#include <stdlib.h>
#include <string.h>

#include "raw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define GUARD (1u << 20) /* memory below this offset and above the region `small` must never change */

static void record(const uint8_t *p, uint32_t len, uint32_t flags)
{
	struct qp_sge sink = rig_sge(dev(), 3u << 20, 5000);
	const struct rig_wr w = { .wr_id = 9,
				  .op = flags & 0x1000 ? QP_WR_FETCH_ADD : QP_WR_READ,
				  .flags = QP_WF_SIGNALED,
				  .sge = &sink,
				  .num_sge = 1,
				  .raddr = 4096,
				  .rkey = 0x1234 };

	if (flags & 0x4000)
		(void)rig_post(dev(), 0, &w);
	if (flags & 0x2000)
		(void)rig_post_recv(dev(), 0, 1, &sink, 1);
	if (flags & 0x8000)
		send_bytes(p, len);
	else
		send_ulpdu(p, len, false);
	rig_step(B.r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rig_cfg cfg;
	size_t at = 1;

	if (size < 1 || size > 20000)
		return 0;
	rig_defaults(&cfg);
	cfg.recs = 128;
	cfg.chunks = 64;
	cfg.split = data[0] & 1;
	open_bench(0, &cfg);
	/* The peer may write to the region `small` only. */
	if (qp_mr_dereg(&dev()->dev, dev()->rkey) != QP_MR_OK)
		abort();
	dev()->lkey = rig_reg(dev(), 0, RIG_MEM, QP_ACC_LOCAL_WRITE, RIG_PD);
	raw_up();
	if (data[0] & 8)
		qp_set(&dev()->q[0].qp, &(struct qp_tune){ .access = QP_ACC_ALL,
							   .rnr_ns = data[0] & 16 ? 20 * RN_NS_PER_US : RN_NEVER });
	if (data[0] & 2)
		B.r->cfg.link = (struct rig_link){ .delay_ns = 5000,
						   .loss = 30000,
						   .dup = 50000,
						   .reorder = 200000,
						   .reorder_ns = 100000,
						   .cut = 200000 };
	while (at + 2 <= size) {
		uint32_t word = data[at] | (uint32_t)data[at + 1] << 8, len = word & 0xfff;

		at += 2;
		if (len > size - at)
			len = (uint32_t)(size - at);
		record(data + at, len, word);
		at += len;
	}
	rig_settle(B.r);
	const uint8_t *guard = dev()->mem + 2 * SMALL_LEN;
	if (guard[0] != 0xee || memcmp(guard, guard + 1, GUARD - 2 * SMALL_LEN - 1) != 0)
		abort();
	close_bench();
	return 0;
}
