/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of DDP headers from a hostile peer, through the parser and the trackers: 20 octets each (header, then two
 * octets of ULPDU length). For any input: bytes may be placed only inside their buffer or their Read; a message grows
 * no longer than its buffer; queues never hold more than their limit.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"
#include "iwarp/rdmap_track.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECORD (DDP_MAX_HDR_LEN + 2)
#define BUFFER 3000
#define POSTED 4

static void check(bool ok)
{
	if (!ok)
		abort();
}

static bool taken(enum rdmap_verdict v, const struct ddp_hdr *h)
{
	if (v == RDMAP_OK || v == RDMAP_DONE)
		return true;
	check(iw_err_known(rdmap_verdict_err(v, h)));
	return false;
}

static void send_seg(struct ddp_uq *q, uint32_t *posted, const struct ddp_hdr *h)
{
	enum rdmap_verdict v = ddp_uq_check(q, h, *posted, BUFFER);
	uint32_t slot, msn = q->msn;

	if (ddp_uq_peek(q, h, *posted, &slot) == RDMAP_OK)
		check(slot < *posted);
	if (!taken(v, h))
		return;
	check(rn_in_range(h->mo, h->payload_len, BUFFER) && *posted > 0);
	ddp_uq_advance(q, h);
	check(q->mo <= BUFFER && q->msn - msn == (v == RDMAP_DONE));
	if (v == RDMAP_DONE)
		*posted -= 1;
}

static void read_resp(struct rdmap_readq *q, const struct ddp_hdr *h)
{
	enum rdmap_verdict v = rdmap_readq_check(q, h);
	const struct rdmap_read *r = rdmap_readq_head(q);
	uint32_t count = rdmap_readq_count(q);

	(void)!rdmap_readq_peek(q, h);
	if (!taken(v, h))
		return;
	check(r != NULL && (r->len == 0 || rn_in_range(h->to - r->to, h->payload_len, r->len)));
	if (r->len > 0)
		check(rdmap_readq_peek(q, h) == RDMAP_OK);
	rdmap_readq_advance(q, h);
	check(rdmap_readq_count(q) == count - (v == RDMAP_DONE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rdmap_read ring[4];
	struct rdmap_readq reads;
	struct rdmap_ird ird;
	struct ddp_uq sends;
	uint32_t posted = POSTED;

	ddp_uq_init(&sends);
	rdmap_readq_init(&reads, ring, 4, 3);
	rdmap_ird_init(&ird, 2);
	rdmap_readq_post(&reads, 0, 0, 2000, 0);
	rdmap_readq_post(&reads, 1, UINT64_MAX - 99, 100, 1);
	rdmap_readq_post_atomic(&reads, 1, 0, 7, 2);
	for (; size >= RECORD; data += RECORD, size -= RECORD) {
		uint32_t ulpdu_len = rn_load_be16(data + DDP_MAX_HDR_LEN);
		uint32_t head = rn_min_u32(ulpdu_len, DDP_MAX_HDR_LEN);
		uint8_t *exact = malloc(head ? head : 1), again[DDP_MAX_HDR_LEN];
		struct ddp_hdr h;

		memcpy(exact, data, head);
		enum ddp_verdict v = ddp_parse(exact, ulpdu_len, &h);
		if (v == DDP_OK) {
			check(h.hdr_len + h.payload_len == ulpdu_len && ddp_build(again, &h) == h.hdr_len);
			again[0] |= exact[0] & 0x3c; /* the parser drops reserved bits */
			again[1] |= exact[1] & 0x30;
			check(memcmp(again, exact, h.hdr_len) == 0);
			if (rdmap_op_of(h.opcode)->takes_recv)
				send_seg(&sends, &posted, &h);
			else if (h.opcode == RDMAP_READ_RESP)
				read_resp(&reads, &h);
			else if (h.opcode == RDMAP_READ_REQ || h.opcode == RDMAP_ATOMIC_REQ)
				taken(rdmap_ird_take(&ird), &h);
			else if (h.opcode == RDMAP_ATOMIC_RESP &&
				 rdmap_readq_check_atomic(&reads, h.stag) == RDMAP_DONE)
				rdmap_readq_retire(&reads);
			check(ird.used <= ird.depth && posted <= POSTED);
		} else {
			check(iw_err_known(ddp_verdict_err(v, &h)));
		}
		free(exact);
	}
	return 0;
}
