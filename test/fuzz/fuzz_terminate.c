/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Terminate payloads from any octets: the parser reads no octet outside, and what it has read can be built and read
 * again.
 */
#include <stdlib.h>
#include <string.h>

#include "iwarp/rdmap_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1), out[RDMAP_TERM_MAX_LEN], seg[DDP_MAX_HDR_LEN + RDMAP_READ_REQ_LEN];
	struct rdmap_term t, again;
	uint32_t seg_len;

	memcpy(exact, data, size);
	enum rdmap_term_verdict v = rdmap_term_parse(exact, (uint32_t)size, &t);
	free(exact);
	check(iw_err_text(t.err) != NULL);
	check(t.ddp_len == 0 || t.ddp_len == DDP_TAGGED_HDR_LEN || t.ddp_len == DDP_UNTAGGED_HDR_LEN);
	check(!t.has_read_req || t.ddp_len > 0);
	if (v != RDMAP_TERM_OK || !(t.err.hdrct & IW_HDRCT_DDP))
		return 0;
	memcpy(seg, t.ddp, t.ddp_len);
	seg_len = t.ddp_len;
	if (t.has_read_req) {
		rdmap_read_req_build(seg + seg_len, &t.read_req);
		seg_len += RDMAP_READ_REQ_LEN;
	}
	uint32_t n = rdmap_term_build(out, t.err, seg, seg_len);
	check(n <= sizeof(out) && rdmap_term_parse(out, n, &again) == RDMAP_TERM_OK);
	check(again.form == RDMAP_TERM_RFC && memcmp(&again.err, &t.err, sizeof(t.err)) == 0);
	check(again.ddp_len == t.ddp_len && memcmp(again.ddp, t.ddp, t.ddp_len) == 0);
	check(again.has_read_req == t.has_read_req);
	return 0;
}
