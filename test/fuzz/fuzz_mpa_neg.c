/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA frames from any octets. The first octet chooses the expected frame and the policy; the rest is the stream. Fed
 * whole and octet by octet the stream gives the same verdict. A complete frame builds again to the same octets, and no
 * octet behind it is read. Both sides' decisions about any frame end in a verdict, and our Reply can be read back.
 */
#include <stdlib.h>
#include <string.h>

#include "iwarp/mpa_neg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void answer(const struct mpa_policy *p, const struct mpa_frame *req)
{
	struct mpa_agreed a, i;
	struct mpa_neg_rx rx;
	struct mpa_frame rep;
	struct mpa_out out;
	uint32_t used;
	enum mpa_neg_verdict v = mpa_neg_accept(p, req, (const uint8_t *)"pd", 2, &out, &a);

	check(v == MPA_NEG_OK || v == MPA_NEG_NO_RTR || v == MPA_NEG_NO_MARKERS);
	mpa_neg_rx_init(&rx, true);
	check(mpa_neg_feed(&rx, out.buf, out.len, &used, &rep) == MPA_NEG_OK && used == out.len);
	check(rep.rev <= p->rev && rep.pd_len == 2 && !rep.enhanced == !(rep.flags & MPA_F_ENHANCED));
	check((a.rtr & (a.rtr - 1u)) == 0 && (v != MPA_NEG_OK || !a.p2p || (a.rtr & p->rtr & req->rtr)));
	check(a.ird <= p->ird && a.ord <= p->ord);
	v = mpa_neg_finish(p, &rep, &i);
	check(v != MPA_NEG_MORE && v != MPA_NEG_BAD_KEY);
	check(mpa_neg_reject(p, req, NULL, 0, &out) == MPA_NEG_OK);
	mpa_neg_rx_init(&rx, true);
	check(mpa_neg_feed(&rx, out.buf, out.len, &used, &rep) == MPA_NEG_OK);
	check(mpa_neg_finish(p, &rep, &i) == MPA_NEG_REJECTED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 4096)
		return 0;
	struct mpa_policy p = { .rev = data[0] & 2 ? 2 : 1,
				.crc = data[0] & 4,
				.crc_must = data[0] & 4,
				.markers = data[0] & 8,
				.no_markers = data[0] & 16,
				.p2p = data[0] & 32,
				.rtr = data[0] & 64 ? 7 : MPA_RTR_READ,
				.ird = 7,
				.ord = 5 };
	bool reply = data[0] & 1;
	uint32_t n = (uint32_t)size - 1, used, at = 0;
	uint8_t *exact = malloc(n ? n : 1), again[MPA_FRAME_MAX];
	enum mpa_neg_verdict whole, pieces = MPA_NEG_MORE;
	struct mpa_frame f, g;
	struct mpa_neg_rx rx, rx2;
	struct mpa_agreed a;

	memcpy(exact, data + 1, n);
	mpa_neg_rx_init(&rx, reply);
	whole = mpa_neg_feed(&rx, exact, n, &used, &f);
	check(used <= n && used <= MPA_FRAME_MAX);
	mpa_neg_rx_init(&rx2, reply);
	while (at < n && pieces == MPA_NEG_MORE) {
		uint32_t one;

		pieces = mpa_neg_feed(&rx2, exact + at, 1, &one, &g);
		at += one;
	}
	check(pieces == whole);
	if (whole == MPA_NEG_OK) {
		check(at == used && mpa_neg_build(&f, again) == used && memcmp(again, exact, used) == 0);
		check(f.pd + f.pd_len <= rx.buf + sizeof(rx.buf) && f.pd_len <= MPA_PD_MAX);
		if (reply)
			(void)!mpa_neg_finish(&p, &f, &a);
		else
			answer(&p, &f);
	}
	free(exact);
	return 0;
}
