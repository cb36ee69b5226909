/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The deframer: in-order stream octets in, one FPDU at a time out (RFC 5044 sections 4 and 6). TCP may split and merge
 * FPDUs in any way.
 *
 * Fast path: the FPDU lies wholly in the input; the view is slices of it, markers cut out, nothing copied.
 * Slow path: the FPDU began in an earlier input; its octets are copied into a staging buffer (markers left out, CRC
 * summed on the way) and the view points there. The buffer is asked for with MPA_RX_NEED_STAGE.
 *
 *   mpa_rx_input(&in, iov, n);
 *   for (;;) switch (mpa_rx_next(&rx, &in, &v)) {
 *   case MPA_RX_FPDU: if (!mpa_rx_crc(&v)) -> Terminate; place; continue;
 *   case MPA_RX_MORE: give back the stage if mpa_rx_idle; return;
 *   case MPA_RX_NEED_STAGE: mpa_rx_give_stage(&rx, mem, size >= mpa_rx_stage_need(&rx)); continue;
 *   default: Terminate mpa_rx_err(verdict);
 *   }
 *
 * A view is valid until the next call on the same mpa_rx, or until the input memory goes. The thread that owns the
 * connection owns the state.
 */
#ifndef MPA_RX_H
#define MPA_RX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "base/rn_iov.h"
#include "iwarp/ddp.h"
#include "iwarp/iw_term.h"
#include "iwarp/mpa_fpdu.h"

#define MPA_STAGE_SIZE 65600 /* octets: enough for every FPDU */
#define MPA_VIEW_IOV   40    /* slices of an unstaged view: markers of a 9,000-octet segment plus a chain of mbufs */

enum mpa_rx_verdict {
	MPA_RX_FPDU = 0,   /* *v is filled */
	MPA_RX_EMPTY,      /* ULPDU_Length 0, *v is filled: only legal as RTR (RFC 6581), an error elsewhere */
	MPA_RX_MORE,       /* input used up */
	MPA_RX_NEED_STAGE, /* everything consumed so far is kept: give a stage and call again */
	MPA_RX_BAD_MARKER, /* FPDUPTR does not point at the length field */
	MPA_RX_TOO_SHORT,  /* ULPDU_Length 1..13: no DDP header fits */
};

struct mpa_rx_in {
	const struct rn_iov *iov; /* caller's, alive while views are used */
	uint32_t n;
	uint32_t idx; /* slice and offset of the next octet */
	uint32_t off;
};

struct mpa_view {
	uint32_t ulpdu_len;
	uint32_t pos;     /* offset in Full Operation of the FPDU's first octet (leading marker included), mod 2^32 */
	uint32_t raw_len; /* octets on the stream, markers, pad and CRC included */
	uint32_t n;       /* slices of the ULPDU */
	bool staged;      /* slices point into the stage */
	bool crc_on;
	uint32_t crc_sum;     /* staged: the sum of all octets before the CRC field */
	uint32_t crc_field;   /* as received */
	struct mpa_rx_in raw; /* unstaged: where the FPDU's octets begin in the input */
	struct rn_iov ulpdu[MPA_VIEW_IOV];
};

struct mpa_rx {
	uint32_t pos;   /* offset in Full Operation of the next octet to be consumed, mod 2^32 */
	uint32_t start; /* offset of the current FPDU's first octet; == pos between FPDUs */
	uint32_t have;  /* octets in the stage: ULPDU, pad and CRC, no markers */
	uint32_t sum;   /* running CRC32C over everything before the CRC field */
	uint8_t *stage; /* borrowed */
	uint32_t stage_size;
	uint16_t step; /* spacing of the peer's markers; 0: none */
	bool crc;
	uint8_t nlen; /* octets of the length field seen, 0..2 */
	uint8_t len_field[MPA_LEN_FIELD];
	uint8_t mark[MPA_MARKER_LEN]; /* the marker being read; pos tells how much of it is there */
};

/* Full Operation begins: the next octet is at offset 0. crc and the step of received markers as agreed. */
void mpa_rx_init(struct mpa_rx *rx, uint32_t step, bool crc);

static inline void mpa_rx_input(struct mpa_rx_in *in, const struct rn_iov *iov, uint32_t n)
{
	in->iov = iov;
	in->n = n;
	in->idx = 0;
	in->off = 0;
}

enum mpa_rx_verdict mpa_rx_next(struct mpa_rx *rx, struct mpa_rx_in *in, struct mpa_view *v) RN_NODISCARD;

/* After MPA_RX_NEED_STAGE: how large the stage must be, at most MPA_STAGE_SIZE. */
uint32_t mpa_rx_stage_need(const struct mpa_rx *rx);
/* False: mem is too small for the current FPDU. The memory is borrowed until mpa_rx_take_stage. */
bool mpa_rx_give_stage(struct mpa_rx *rx, uint8_t *mem, uint32_t size) RN_NODISCARD;
/* True when the stage holds no part of an unfinished FPDU. A staged view still lies there: use that first. */
bool mpa_rx_idle(const struct mpa_rx *rx);
/* Takes the stage back; NULL when there is none or mpa_rx_idle is false. */
uint8_t *mpa_rx_take_stage(struct mpa_rx *rx);

/* True when the CRC is good, or not in use. Call before placing or using any octet of the view. */
bool mpa_rx_crc(const struct mpa_view *v) RN_NODISCARD;

/* The Terminate for BAD_MARKER, TOO_SHORT and EMPTY; for a bad CRC use iw_err_of(IW_LAYER_LLP, .., IW_MPA_CRC). */
struct iw_err mpa_rx_err(enum mpa_rx_verdict v);

/*
 * The first n <= DDP_MAX_HDR_LEN octets of the ULPDU in one piece: a pointer into the view, or to scratch after
 * copying. n must not pass ulpdu_len.
 */
static inline const uint8_t *mpa_view_head(const struct mpa_view *v, uint8_t *scratch, uint32_t n)
{
	if (rn_likely(v->n > 0 && v->ulpdu[0].len >= n))
		return v->ulpdu[0].base;
	rn_iov_gather(v->ulpdu, v->n, scratch, n);
	return scratch;
}

/*
 * Whole FPDUs inside a segment that arrived ahead of its turn, for placing them at once. pos: offset of the segment's
 * first octet in Full Operation. With markers, a marker leads to the FPDU's start. Without markers, the segment is
 * assumed to begin with an FPDU, which only a good CRC can confirm, so with CRC off nothing is found. Payload may have
 * been chosen to look like an FPDU, so the caller must know from elsewhere that an FPDU begins there. With CRC in use,
 * every FPDU returned has a good CRC. The FPDUs are for placement only: the same octets come through mpa_rx_next again.
 */
enum mpa_find_state {
	MPA_FIND_START,  /* no FPDU's beginning is known yet */
	MPA_FIND_SYNCED, /* the cursor stands where an FPDU ended */
	MPA_FIND_DONE,
};

struct mpa_find {
	struct mpa_rx rx;
	struct mpa_rx_in in;
	enum mpa_find_state state;
};

void mpa_find_init(struct mpa_find *f, const struct mpa_rx *rx, uint32_t pos, const struct rn_iov *iov, uint32_t n);
/* True: *v is the next whole FPDU. False: no more can be found. */
bool mpa_find_next(struct mpa_find *f, struct mpa_view *v) RN_NODISCARD;

/* The last FPDU returned, which is unstaged, was not used: its octets will come again. */
void mpa_rx_unread(struct mpa_rx *rx, const struct mpa_view *v);
/* Offset in Full Operation of the next octet mpa_rx_next will take. */
static inline uint32_t mpa_rx_pos(const struct mpa_rx *rx) { return rx->pos; }

/*
 * An FPDU is wrong with the markers of rx: finds the other spacings with which the octets of iov, from `off` on, begin
 * with a sound FPDU. pos: the offset in Full Operation of these octets. Bit i stands for mpa_spacings[i]; 0: the FPDU
 * is not whole, or wrong with each spacing. Without CRC (rx->crc) the FPDU must end where iov ends.
 */
#define MPA_SPACINGS 5u
extern const uint16_t mpa_spacings[MPA_SPACINGS]; /* octets from marker to marker; 0: no markers */
uint32_t mpa_fitting(const struct mpa_rx *rx, uint32_t pos, const struct rn_iov *iov, uint32_t n, uint32_t off);

#endif
