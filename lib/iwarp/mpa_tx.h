/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building FPDUs in three separate stages: frame, mark, copy (RFC 5044 sections 4.1 to 4.4). The result is a list of
 * slices: header, pad, CRC and markers lie in the record itself, payload slices point at the caller's memory, so that
 * a send queue holds references. The record and its slices must not move or change until the octets are acknowledged;
 * a retransmission reads them again. One thread owns a record; no state is shared.
 *
 *   uint8_t *h = mpa_tx_begin(&f, iov, n_iov);
 *   hdr_len = ddp_build(h, &hdr);                      + a Read Request or inline data right behind it
 *   mpa_tx_frame(&f, hdr_len, payload, n, payload_len)
 *   mpa_tx_mark(&f, stream_off, step)                  only when the peer asked for markers
 *   mpa_tx_copy(&f, crc, dst)                          without CRC the four octets are zero
 * or, where no CRC is needed: mpa_tx_slices(&f)
 *
 * Markers are only noted until mpa_tx_slices() is called; a copy inserts them.
 */
#ifndef MPA_TX_H
#define MPA_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "base/rn_iov.h"
#include "iwarp/mpa_fpdu.h"

#define MPA_TX_HDR_MAX 96 /* octets after the length field: DDP header and what is inline behind it */
#define MPA_TX_MARKERS 20 /* markers one FPDU can hold: enough for MPA_TX_MARKED_EMSS octets on the stream */
#define MPA_TX_INLINE  (MPA_LEN_FIELD + MPA_TX_HDR_MAX + MPA_TX_MARKERS * MPA_MARKER_LEN + 3 + MPA_CRC_LEN + 7)

#define MPA_TX_MARKED_EMSS 9600 /* octets: a longer segment could need more markers than an FPDU holds */

/*
 * The largest ULPDU of an FPDU that fits one TCP segment of emss octets and one record: mpa_mulpdu(), bound by markers.
 */
static inline uint32_t mpa_tx_mulpdu(uint32_t emss, uint32_t step)
{
	return mpa_mulpdu(step != 0 ? rn_min_u32(emss, MPA_TX_MARKED_EMSS) : emss, step);
}

/* Slices an FPDU needs at most with p payload slices and m markers (a marker splits a slice). */
#define MPA_TX_IOV(p, m) ((p) + 2 + 2 * (m))

struct mpa_fpdu {
	struct rn_iov *iov; /* the caller's array of max_iov entries, which belongs to the record */
	uint32_t len;       /* octets on the stream, markers included */
	uint16_t max_iov;
	uint16_t n_iov; /* slices in use */
	uint16_t ulpdu_len;
	uint16_t crc_at;  /* offset of the CRC field in inl; behind the field lie only markers */
	uint16_t markers; /* markers that are noted, but no slices yet; in inl, aligned */
	uint16_t first;   /* octets before the first noted marker */
	uint16_t step;    /* octets from one marker to the next */
	uint8_t inl[MPA_TX_INLINE] RN_ALIGNED(MPA_MARKER_LEN);
};

enum mpa_tx_verdict {
	MPA_TX_OK = 0,
	MPA_TX_HDR_TOO_LONG, /* hdr_len above MPA_TX_HDR_MAX */
	MPA_TX_TOO_LONG,     /* ULPDU above MPA_ULPDU_MAX, or more markers than MPA_TX_MARKERS */
	MPA_TX_NO_IOV,       /* max_iov is too small */
	MPA_TX_BAD_PAYLOAD,  /* slices hold fewer octets than payload_len */
};

/* Starts a record; returns where the DDP header goes (MPA_TX_HDR_MAX octets). */
static inline uint8_t *mpa_tx_begin(struct mpa_fpdu *f, struct rn_iov *iov, uint32_t max_iov)
{
	f->iov = iov;
	f->max_iov = (uint16_t)max_iov;
	f->n_iov = 0;
	f->markers = 0;
	return f->inl + MPA_LEN_FIELD;
}

/*
 * Stage 1: length field, header, the first payload_len octets of the payload slices, pad, CRC field of zeros. On a
 * verdict other than MPA_TX_OK the record is not usable.
 */
enum mpa_tx_verdict mpa_tx_frame(struct mpa_fpdu *f, uint32_t hdr_len, const struct rn_iov *payload, uint32_t n,
				 uint32_t payload_len) RN_NODISCARD;

/* Stage 2: markers, for an FPDU whose first octet (a leading marker counts) has this offset in Full Operation. */
enum mpa_tx_verdict mpa_tx_mark(struct mpa_fpdu *f, uint32_t stream_off, uint32_t step) RN_NODISCARD;

/* The slices of the octets, markers and all: f->iov[0..return). */
uint32_t mpa_tx_slices(struct mpa_fpdu *f);

/*
 * Stage 3: copies the f->len octets to dst, reading each once. With crc, CRC32C over all but the CRC field is computed
 * in the same pass: the owner of the payload may write to it at any time.
 */
void mpa_tx_copy(struct mpa_fpdu *f, bool crc, uint8_t *dst);

#endif
