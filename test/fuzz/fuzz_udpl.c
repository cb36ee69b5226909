/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams from any octets: the parser reads no octet outside, and a good datagram can be built again to the same
 * octets.
 */
#include <stdlib.h>
#include <string.h>

#include "crc32c/crc32c.h"
#include "udp/udpl.h"
#include "udp/udpl_sidr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void look_sidr(const uint8_t *p, const struct udpl_hdr *h)
{
	uint8_t out[UDPL_SIDR_MAX];
	struct udpl_sidr s, again;

	if (!udpl_sidr_parse(p + UDPL_HDR_LEN, h->body_len, (enum udpl_kind)h->kind, &s))
		return;
	uint32_t n = udpl_sidr_build(out, (enum udpl_kind)h->kind, &s);
	check(n == UDPL_HDR_LEN + h->body_len + UDPL_CRC_LEN && udpl_crc_good(out, n));
	check(udpl_sidr_parse(out + UDPL_HDR_LEN, h->body_len, (enum udpl_kind)h->kind, &again));
	check(again.id == s.id && again.port == s.port && again.qpn == s.qpn && again.qkey == s.qkey &&
	      again.status == s.status && again.src_port == s.src_port && again.priv_len == s.priv_len);
	check(memcmp(again.priv, s.priv, s.priv_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1), out[UDPL_HDR_LEN];
	uint32_t len = (uint32_t)size;
	struct udpl_hdr h, again;

	memcpy(exact, data, size);
	if (udpl_parse(exact, len, &h) == UDPL_OK) {
		check(h.body_len + UDPL_HDR_LEN + UDPL_CRC_LEN == len);
		/* a fuzzer does not guess a CRC: the right one is put in, after which the datagram must be good */
		udpl_crc_put(exact, len - UDPL_CRC_LEN, crc32c(0, exact, len - UDPL_CRC_LEN));
		check(udpl_crc_good(exact, len));
		udpl_build(out, &h);
		check(udpl_parse(exact, len, &again) == UDPL_OK && memcmp(&again, &h, sizeof(h)) == 0);
		check(memcmp(out + 4, exact + 4, 12) == 0);
		if (h.kind == UDPL_SEGMENT || h.kind == UDPL_RECORD)
			check(memcmp(out + 3, exact + 3, UDPL_HDR_LEN - 3) == 0 && h.total > 0 &&
			      (h.total + h.unit - 1) / h.unit <= UDPL_SEGS_MAX);
		if (udpl_for_cm(h.kind))
			look_sidr(exact, &h);
	}
	free(exact);
	return 0;
}
