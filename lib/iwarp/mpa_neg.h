/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA connection set-up: Request and Reply frames (RFC 5044 section 7.1), their enhanced form with IRD, ORD and the
 * peer-to-peer RTR (RFC 6581 section 9), and what the two sides agree on. Pure: bytes in, bytes and verdicts out.
 *
 *   initiator: mpa_neg_request -> send; mpa_neg_feed(reply) -> mpa_neg_finish
 *   responder: mpa_neg_feed(request) -> mpa_neg_accept or mpa_neg_reject -> send
 *
 * The responder sends no FPDU before the initiator's first one has come (RFC 5044 section 7.1.2); with agreed.rtr set
 * the initiator's stack sends that one by itself.
 */
#ifndef MPA_NEG_H
#define MPA_NEG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "iwarp/iw_term.h"

#define MPA_KEY_LEN    16
#define MPA_HDR_LEN    20  /* key, flags, revision, PD_Length */
#define MPA_PD_MAX     512 /* octets of private data, with the enhanced words */
#define MPA_ENH_LEN    4   /* the enhanced words */
#define MPA_FRAME_MAX  (MPA_HDR_LEN + MPA_PD_MAX)
#define MPA_DEPTH_MAX  0x3ffe
#define MPA_DEPTH_NONE 0x3fff /* "not negotiated": RFC 6581 section 9.1 */

/* Octet 16 of a frame. */
#define MPA_F_MARKERS  0x80 /* the sender of this frame wants to receive markers */
#define MPA_F_CRC      0x40
#define MPA_F_REJECT   0x20 /* Reply only */
#define MPA_F_ENHANCED 0x10 /* revision 2: private data begins with the enhanced words */

/* Ready-to-receive indications, a mask where several are offered. */
enum mpa_rtr {
	MPA_RTR_NONE = 0,
	MPA_RTR_SEND = 1,  /* B: zero-length FPDU */
	MPA_RTR_WRITE = 2, /* C: zero-length RDMA Write */
	MPA_RTR_READ = 4,  /* D: zero-length RDMA Read */
};

/* A parsed frame. */
struct mpa_frame {
	bool reply;
	uint8_t flags;     /* octet 16 as received; unknown bits are ignored */
	uint8_t rev;       /* 1 or 2 */
	bool enhanced;     /* the next four members are valid */
	bool p2p;          /* A */
	uint8_t rtr;       /* mask of enum mpa_rtr */
	uint16_t ird, ord; /* as the sender of the frame sees itself; MPA_DEPTH_NONE possible */
	uint16_t pd_len;   /* user's private data, without the enhanced words */
	const uint8_t *pd; /* points into the parser's buffer */
};

enum mpa_neg_verdict {
	MPA_NEG_OK = 0,      /* feed: a whole frame is there; others: agreed */
	MPA_NEG_MORE,        /* feed: not whole yet, everything was consumed */
	MPA_NEG_BAD_KEY,     /* not an MPA frame, or a Request where a Reply was expected (or the other way round) */
	MPA_NEG_REV_0,       /* revision 0: the RDMAC draft protocol, not supported */
	MPA_NEG_REV_UNKNOWN, /* revision 3 and above, or a Reply above the Request's */
	MPA_NEG_PD_TOO_LONG, /* PD_Length above 512 */
	MPA_NEG_PD_SHORT,    /* enhanced, but PD_Length below 4 */
	MPA_NEG_REJECTED,    /* finish: R set; private data is valid */
	MPA_NEG_NO_RTR,      /* no RTR kind in common */
	MPA_NEG_IRD_SHORT,   /* finish: the responder's ORD is above our IRD */
	MPA_NEG_NO_MARKERS,  /* the peer wants markers and the policy refuses to send them */
	MPA_NEG_NO_CRC,      /* policy demands CRC and the peer declines */
};

const char *mpa_neg_text(enum mpa_neg_verdict v);
/* True when the verdict is answered by a Terminate before closing (RFC 6581 section 9.3); *e is that Terminate. */
bool mpa_neg_err(enum mpa_neg_verdict v, struct iw_err *e);

/* Incremental parser: one per connection being set up. */
struct mpa_neg_rx {
	bool want_reply;
	uint16_t have;
	uint8_t buf[MPA_FRAME_MAX];
};

void mpa_neg_rx_init(struct mpa_neg_rx *rx, bool want_reply);
/*
 * Takes at most n octets of the stream; *used says how many, never one beyond the frame (what follows are FPDUs). On
 * MPA_NEG_OK *f is filled and stays valid until rx goes. A refusing verdict comes as early as the octets allow.
 */
enum mpa_neg_verdict mpa_neg_feed(struct mpa_neg_rx *rx, const uint8_t *p, uint32_t n, uint32_t *used,
				  struct mpa_frame *f) RN_NODISCARD;

/*
 * Writes a frame into buf (MPA_FRAME_MAX octets): flags, rev and, when f->enhanced, the enhanced words as given.
 * Returns its length, 0 when the private data does not fit.
 */
uint32_t mpa_neg_build(const struct mpa_frame *f, uint8_t *buf);

/* What this side wants and permits. */
struct mpa_policy {
	uint8_t rev;       /* highest revision spoken: 1 or 2 */
	bool crc;          /* ask for CRC; used when either side asks (RFC 5044 section 7.1) */
	bool crc_must;     /* refuse a connection without (only matters against peers that ignore our C) */
	bool markers;      /* want to receive markers */
	uint16_t spacing;  /* octets from marker to marker, either way: mpa_step_good(); 0: MPA_MARKER_STEP */
	bool unmarked;     /* both ends leave out the markers that they have agreed on */
	bool no_markers;   /* refuse to send them (RFC 5044 says MUST send when asked: leave false) */
	bool p2p;          /* initiator: ask for the peer-to-peer model */
	uint8_t rtr;       /* mask of enum mpa_rtr: initiator can send, responder can take */
	uint16_t ird, ord; /* local depths, at most MPA_DEPTH_MAX, or MPA_DEPTH_NONE on revision 2 */
	uint16_t ird_max;  /* initiator: how far IRD may be raised to the responder's ORD; 0: not at all */
};

struct mpa_agreed {
	uint8_t rev;
	uint16_t tx_markers, rx_markers; /* octets from one to the next; 0: none */
	bool crc;
	bool enhanced; /* IRD and ORD were negotiated */
	bool p2p;
	enum mpa_rtr rtr;  /* the one kind the initiator sends first; MPA_RTR_NONE without p2p */
	uint16_t ird, ord; /* local depths from now on */
};

/* Frame to be sent. */
struct mpa_out {
	uint16_t len;
	uint8_t buf[MPA_FRAME_MAX];
};

/* Longest user private data under a policy: 512, or 508 when the frame is enhanced. */
uint32_t mpa_neg_pd_max(const struct mpa_policy *p);

/* Initiator's Request. MPA_NEG_PD_TOO_LONG when pd does not fit. */
enum mpa_neg_verdict mpa_neg_request(const struct mpa_policy *p, const uint8_t *pd, uint32_t pd_len,
				     struct mpa_out *out) RN_NODISCARD;
/*
 * Responder: builds the Reply that accepts `req` and fills *a. On MPA_NEG_NO_RTR and MPA_NEG_NO_MARKERS the frame
 * built is the one to send before closing (the Reply with our RTR kinds; a reject). On MPA_NEG_PD_TOO_LONG nothing
 * was built.
 */
enum mpa_neg_verdict mpa_neg_accept(const struct mpa_policy *p, const struct mpa_frame *req, const uint8_t *pd,
				    uint32_t pd_len, struct mpa_out *out, struct mpa_agreed *a) RN_NODISCARD;
/* The spacing of the markers that a side has asked for; 0: it has not asked. */
uint16_t mpa_step_of(const struct mpa_policy *p, bool asked);
/* Responder: builds the Reply with R (a reject), in the Request's revision. */
enum mpa_neg_verdict mpa_neg_reject(const struct mpa_policy *p, const struct mpa_frame *req, const uint8_t *pd,
				    uint32_t pd_len, struct mpa_out *out) RN_NODISCARD;
/* Initiator: evaluates the Reply to the Request that was sent under p. */
enum mpa_neg_verdict mpa_neg_finish(const struct mpa_policy *p, const struct mpa_frame *rep,
				    struct mpa_agreed *a) RN_NODISCARD;

#endif
