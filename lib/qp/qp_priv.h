/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this room share. Not for anyone else. */
#ifndef QP_PRIV_H
#define QP_PRIV_H

#include "iwarp/ddp.h"
#include "iwarp/iw_term.h"
#include "iwarp/mpa_tx.h"
#include "iwarp/rdmap_wire.h"
#include "qp/qp.h"
#include "qp/qp_ud.h"

#define QP_REF_FRAME    UINT64_C(1) /* a chunk that is the MPA frame in conn->setup, not a record */
#define QP_WR_NONE      UINT32_MAX
#define QP_CTRL_CHUNKS  4u  /* chunks of each connection kept for RTR and Terminate */
#define QP_CTRL_RECS    64u /* records of a worker kept for the same */
#define QP_SEG_SLICES   6u  /* payload slices of one FPDU; a segment with more is made shorter */
#define QP_MSG_MAX      UINT32_C(0x80000000) /* bytes of one message */
#define QP_REST_MAX     32u  /* blocks that connections may keep while they are at rest */
#define QP_OOO          64u /* FPDUs of one connection placed ahead of their turn: a power of two */

/* A queued FPDU. Lives from tcpl_send until its last byte is acknowledged. */
struct qp_rec {
	struct qp_rec *next;
	uint32_t wr;   /* the work request that is done when this is acknowledged, or QP_WR_NONE */
	bool crc_due;  /* summed when the bytes are first wanted: that may be in the pass that copies them */
	struct mpa_fpdu f;
	struct rn_iov iov[]; /* ctx->rec_iov slices, then QP_MAX_INLINE bytes for inline data */
};

static inline uint8_t *qp_rec_inline(const struct qp_ctx *ctx, struct qp_rec *r)
{
	return (uint8_t *)(r->iov + ctx->rec_iov);
}

/* A send work request taken from the SQ and not yet completed. */
struct qp_wr {
	uint64_t wr_id;
	uint64_t raddr;  /* Write, Read */
	uint32_t key;    /* Write, Read: remote STag; Send, Atomic: MSN */
	uint32_t len;
	uint8_t op;      /* enum qp_wr_op */
	uint8_t flags;   /* QP_WF_* */
	uint8_t slots;
	uint8_t done;
	uint8_t status;  /* enum qp_wc_status */
	uint16_t imm_msn; /* Write with immediate: the low half of its Immediate Data message's MSN */
};

/* The work request whose message is being cut: a checked copy. */
struct qp_send {
	struct qp_wqe w;
	union {
		struct qp_sge sge[QP_MAX_SGE];
		uint8_t data[QP_MAX_INLINE];
	} u;
	uint32_t total, sent;  /* bytes */
	uint32_t at, at_off;   /* SGE and offset in it of the next byte */
	uint32_t wr;           /* index in the ring */
	uint32_t msn;
	bool loaded;           /* w and u hold a work request that is not finished with */
	bool started;          /* it has its entry in the ring */
};

/* The receive work request of the message that comes next or is open: a copy. */
struct qp_recv {
	uint64_t wr_id;
	uint32_t len;
	uint8_t num_sge;
	uint8_t slots;
	bool loaded;
	struct qp_sge sge[QP_MAX_SGE];
};

/* An RDMA Read of the peer that is to be answered, or an Atomic that has been executed. */
struct qp_resp {
	struct rdmap_read_req r;
	uint32_t sent;
	bool is_atomic;
	struct rdmap_atomic_resp atomic;
};

/* An FPDU placed ahead of its turn. */
struct qp_ooo {
	uint32_t pos;     /* offset in Full Operation */
	uint32_t raw_len;
	struct ddp_hdr h;
};

/* An FPDU in the stage that waits for a receive. */
struct qp_late {
	uint32_t ulpdu_len; /* 0: none */
	uint32_t pos, raw_len;
};

/* What a connection needs while it works; from the ctx's pool. */
struct qp_block {
	struct qp_block *next;
	struct qp_wr *wr;
	uint32_t wr_mask;
	uint32_t wr_head, wr_tail; /* free running */
	bool tx_stop;     /* a work request failed: nothing more is taken, it reports when its turn has come */
	uint32_t resp_head, resp_tail; /* free running */
	uint32_t ooo_head, n_ooo; /* free running; those of ooo in use, in the order of their pos */
	struct qp_ooo ooo[QP_OOO];
	struct qp_pkt *kept_head, *kept_tail; /* qp_rnr.c */
	struct qp_late late;
	struct qp_send send;
	struct qp_recv recv;
	struct tcpl_mem tcp;
	struct qp_resp resp[QP_MAX_RD_ATOMIC];
	struct rdmap_read read[QP_MAX_RD_ATOMIC];
};
_Static_assert((QP_MAX_RD_ATOMIC & (QP_MAX_RD_ATOMIC - 1)) == 0, "rings of reads are masked");

/* What a connection needs until it is operational. */
struct qp_setup {
	struct qp_setup *next;
	struct mpa_neg_rx rx;
	struct mpa_frame peer; /* points into rx */
	struct mpa_out out;    /* our Request or Reply */
	bool out_live;         /* queued and not yet acknowledged */
	bool fin_due;          /* the FIN waits for that: qp_quirk.h */
};

enum qp_tx_src { QP_TX_NONE = 0, QP_TX_SQ, QP_TX_RESP };

/* The last quarter is for those who receive: else all could wait with a message open for one that has none. */
static inline uint32_t qp_blocks_for_senders(const struct qp_ctx *ctx)
{
	uint32_t kept = ctx->cfg.blocks / 4;

	return ctx->blk_left > kept ? ctx->blk_left - kept : 0;
}

/* Whether input is still looked at as FPDUs. */
static inline bool qp_conn_streaming(const struct qp_conn *c)
{
	return c->state == QP_C_WAIT_FIRST || c->state == QP_C_OPERATIONAL || c->state == QP_C_DRAINING ||
	       c->state == QP_C_CLOSING;
}

/* Work requests that the peer answers: they take a place in the outbound depth. */
static inline bool qp_op_answered(uint8_t op)
{
	return (1u << op & (1u << QP_WR_READ | 1u << QP_WR_CMP_SWAP | 1u << QP_WR_FETCH_ADD)) != 0;
}

/* Its entry in the ring of work requests on the way; from here on it is completed from there. */
static inline struct qp_wr *qp_sq_start(struct qp_conn *c, struct qp_send *s)
{
	struct qp_block *b = c->blk;
	struct qp_wr *wr = &b->wr[b->wr_tail & b->wr_mask];

	*wr = (struct qp_wr){ .wr_id = s->w.wr_id, .raddr = s->w.raddr, .key = s->w.rkey, .len = s->total,
			      .op = s->w.op, .flags = s->w.flags, .slots = s->w.slots };
	if (s->w.op == QP_WR_SEND || s->w.op == QP_WR_SEND_INV) {
		s->msn = c->msn_send++;
		wr->key = s->msn;
	}
	s->wr = b->wr_tail++;
	s->started = true;
	return wr;
}

/* Payload slices of a view; the header is inside it, so it cannot fail. */
static inline uint32_t qp_rx_payload(const struct ddp_hdr *h, const struct mpa_view *v, struct rn_iov *iov)
{
	if (rn_likely(v->n == 1)) {
		iov[0] = (struct rn_iov){ .base = v->ulpdu[0].base + h->hdr_len, .len = h->payload_len };
		return h->payload_len > 0;
	}
	if (rn_likely(v->ulpdu[0].len > h->hdr_len)) {
		memcpy(iov, v->ulpdu, v->n * sizeof(iov[0]));
		iov[0].base += h->hdr_len;
		iov[0].len -= h->hdr_len;
		return v->n;
	}
	return rn_iov_cut(v->ulpdu, v->n, h->hdr_len, h->payload_len, iov, MPA_VIEW_IOV);
}

static inline uint32_t qp_vendor_err(struct iw_err e)
{
	return (uint32_t)e.layer << 16 | (uint32_t)e.etype << 8 | e.code;
}

/* qp_ctx.c */
struct qp_fx *qp_fx_add(struct qp_ctx *ctx, enum qp_fx_type type, uint64_t owner);
struct qp_fx *qp_fx_conn(struct qp_ctx *ctx, enum qp_fx_type type, struct qp_conn *c);
void qp_ref_back(struct qp_ctx *ctx, uint64_t ref);
struct qp_rec *qp_rec_get(struct qp_ctx *ctx, uint32_t reserve);
void qp_rec_put(struct qp_ctx *ctx, struct qp_rec *r);
struct qp_block *qp_block_get(struct qp_ctx *ctx);
void qp_block_put(struct qp_ctx *ctx, struct qp_block *b);
struct qp_setup *qp_setup_get(struct qp_ctx *ctx);
void qp_setup_put(struct qp_ctx *ctx, struct qp_setup *s); /* it is free after the next qp_drained */
uint8_t *qp_stage_get(struct qp_ctx *ctx);
void qp_stage_put(struct qp_ctx *ctx, uint8_t *mem);
void qp_starve(struct qp_ctx *ctx, struct qp_conn *c, enum qp_want want);
void qp_answer_put(struct qp_ctx *ctx, struct qp_conn *c);
void qp_unlist(struct qp_ctx *ctx, struct qp_conn *c);
void qp_list_qp(struct qp_ctx *ctx, struct qp *qp);

/* qp_cq.c */
bool qp_cq_push(struct qp_ctx *ctx, struct qp_cq *cq, const struct qp_cqe *cqe);
void qp_cq_publish(struct qp_ctx *ctx, struct qp_cq *cq);

/* qp.c */
void qp_set_state(struct qp *qp, enum qp_state to);
void qp_release(struct qp *qp);
void qp_send_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_wr *wr, enum qp_wc_status status);
void qp_recv_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r, const struct qp_cqe *with);
void qp_enter_error(struct qp_ctx *ctx, struct qp *qp);
void qp_look_drained(struct qp_ctx *ctx, struct qp *qp);
void qp_event_too(struct qp_ctx *ctx, struct qp *qp, enum qp_event ev, uint32_t vendor_err);
void qp_event(struct qp_ctx *ctx, struct qp *qp, enum qp_event ev, uint32_t vendor_err);

/* qp_sq.c */
enum qp_take { QP_TAKE_OK, QP_TAKE_NONE, QP_TAKE_STALL, QP_TAKE_BAD, QP_TAKE_BAD_RING };
enum qp_take qp_sq_take(struct qp_ctx *ctx, struct qp *qp, struct qp_send *s, enum qp_wc_status *why);
enum qp_wc_status qp_mr_status(enum qp_mr_verdict v);
enum qp_wc_status qp_sq_check_local(const struct qp *qp, struct qp_send *s);
void qp_sq_complete(struct qp_ctx *ctx, struct qp_conn *c);
void qp_sq_acked(struct qp_conn *c, uint32_t wr);
uint32_t qp_sq_slices(struct qp *qp, struct qp_send *s, uint32_t *len, struct rn_iov *out, enum qp_mr_verdict *v);

/* qp_rq.c */
enum qp_take qp_rq_take(struct qp_ctx *ctx, struct qp *qp, struct qp_recv *r);
bool qp_rq_peek(struct qp *qp, uint32_t ahead, struct qp_recv *r);
bool qp_rq_any(struct qp *qp);

/* qp_place.c */
/* Writes a->len bytes of src to where the access says. On anything but OK nothing is written. */
enum qp_mr_verdict qp_place(struct qp_ctx *ctx, const struct qp_dev *dev, const struct qp_access *a,
			    const struct rn_iov *src, uint32_t n);
/* Scatters src, the payload of an untagged segment, to the receive's SGEs. */
enum qp_mr_verdict qp_rq_place(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r, const struct ddp_hdr *h,
			       const struct rn_iov *src, uint32_t n);
void qp_place_fence(struct qp_ctx *ctx);

/* All that was placed is there for everyone: before it is told of, or read here. */
static inline void qp_place_settle(struct qp_ctx *ctx)
{
	if (rn_unlikely(ctx->stream.out))
		qp_place_fence(ctx);
}

/* qp_ud.c */
void qp_ud_forget(struct qp_ctx *ctx, struct qp *qp);

/* qp_tx.c */
void qp_tx_fill(struct qp_ctx *ctx, struct qp_conn *c);
bool qp_tx_queue(struct qp_ctx *ctx, struct qp_conn *c, struct qp_rec *r, uint32_t wr);
bool qp_tx_idle(const struct qp_conn *c);
bool qp_tx_nudge(struct qp_ctx *ctx, struct qp_conn *c);
bool qp_tx_ask(struct qp_ctx *ctx, struct qp_conn *c);
bool qp_tx_short(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const uint8_t *body, uint32_t wr);
void qp_sq_fail(struct qp_ctx *ctx, struct qp_conn *c, enum qp_wc_status why);
/* qp_tx_op.c */
bool qp_tx_op(struct qp_ctx *ctx, struct qp_conn *c);
bool qp_tx_atomic_resp(struct qp_ctx *ctx, struct qp_conn *c);

/* qp_rx.c */
bool qp_rx_slice(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_slice *s);
void qp_rx_fpdu(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_view *v);
void qp_rx_stage_back(struct qp_ctx *ctx, struct qp_conn *c);
void qp_rx_fin(struct qp_ctx *ctx, struct qp_conn *c);
/* qp_rx_op.c: one segment, its payload in src; with n == 0 and h->payload_len > 0 the bytes are placed already */
void qp_rx_segment(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v);
void qp_rx_first(struct qp_ctx *ctx, struct qp_conn *c);
void qp_rx_refuse(struct qp_ctx *ctx, struct qp_conn *c, struct iw_err e, const struct mpa_view *v);
struct iw_err qp_rx_source_err(enum qp_mr_verdict v, bool read);
/* qp_rx_atomic.c */
void qp_rx_atomic_req(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v);
void qp_rx_atomic_resp(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v);
/* qp_rnr.c */
bool qp_rnr_ask(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_view *v);
void qp_rnr_wait(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_view *v);
void qp_rnr_keep(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_slice *s);
bool qp_rnr_rest(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_slice *s);
void qp_rnr_window(struct qp_conn *c);
void qp_rnr_fin(struct qp_ctx *ctx, struct qp_conn *c);
void qp_rnr_stop(struct qp_ctx *ctx, struct qp_conn *c);
void qp_rnr_look(struct qp_ctx *ctx, struct qp_conn *c);
/* qp_ooo.c */
void qp_ooo_place(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_slice *s);
bool qp_ooo_placed(struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v);

/* qp_term.c */
void qp_terminate(struct qp_ctx *ctx, struct qp_conn *c, struct iw_err e, const struct mpa_view *v);
void qp_term_received(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_view *v, uint32_t hdr_len);

/* qp_neg.c */
void qp_neg_send(struct qp_conn *c);
bool qp_neg_request(struct qp_conn *c, const uint8_t *priv, uint32_t len);
uint32_t qp_neg_feed(struct qp_ctx *ctx, struct qp_conn *c, const uint8_t *p, uint32_t n);
void qp_neg_self(struct qp_ctx *ctx, struct qp_conn *c);
void qp_neg_operational(struct qp_ctx *ctx, struct qp_conn *c);

/* qp_conn.c */
void qp_conn_to(struct qp_ctx *ctx, struct qp_conn *c, enum qp_conn_state to);
void qp_conn_bind(struct qp_conn *c, struct qp *qp);
void qp_conn_end(struct qp_ctx *ctx, struct qp_conn *c, enum qp_fx_type what, uint8_t code);
void qp_conn_lost(struct qp_ctx *ctx, struct qp_conn *c, uint32_t ev);
void qp_conn_reset(struct qp_ctx *ctx, struct qp_conn *c);
void qp_conn_finish(struct qp_ctx *ctx, struct qp_conn *c);
bool qp_conn_wake(struct qp_ctx *ctx, struct qp_conn *c);
void qp_conn_rest(struct qp_ctx *ctx, struct qp_conn *c);
void qp_conn_shutdown(struct qp_ctx *ctx, struct qp_conn *c);
void qp_conn_setup_done(struct qp_ctx *ctx, struct qp_conn *c);
void qp_conn_drain(struct qp_ctx *ctx, struct qp_conn *c);
void qp_conn_drained(struct qp_ctx *ctx, struct qp_conn *c);
bool qp_conn_unheard(const struct qp_conn *c);

#endif
