/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of engines: one file per mode (mode_*.c), one struct of functions each. tp_run_point drives a session that
 * is connected through one run of its engine; what is common to engines stands below.
 */
#ifndef TP_ENGINE_H
#define TP_ENGINE_H

#include "tp_clock.h"
#include "tp_session.h"

struct tp_run {
	struct tp_session *s;
	const struct tp_point *p;
	bool tx; /* this side starts operations */
	bool rx; /* the other side does */
	bool fin_sent;
	bool awaits_credit;          /* set by the engine: it waits for credit, which brings no event */
	uint64_t posted, min_posted; /* operations in all, and on the least used queue pair: what FIN tells */
	uint32_t spins;              /* empty polls in a row, see tp_idle */
	uint64_t idle_since;         /* ns */
	uint64_t next_tick;          /* ns, of the progress counters */
	struct tp_figures fig;
	struct tp_hist hist;
	void *state; /* memory of the engine, freed by tp_run_point */
	bool *whole; /* likewise, for tp_ud_take(): receive slots with a complete message */
};

struct tp_engine {
	enum tp_mode mode;
	/* Both sides execute run(); else only a side with tx does, and the other sleeps until FIN. */
	bool two_sided;
	bool ping_pong; /* both sides start operations, whatever --bidir says */
	/* One-sided writes: a Send behind the last one tells the peer that all are placed (RFC 5040 section 5.5). */
	bool fence;
	/* Work requests that the engine has outstanding per queue pair at most, without fences. */
	void (*depths)(const struct tp_point *p, uint32_t *sq, uint32_t *rq);
	enum tp_verdict (*prepare)(struct tp_run *r); /* fill buffers, post receives; before the peer may start */
	enum tp_verdict (*run)(struct tp_run *r);
	enum tp_verdict (*verify)(struct tp_run *r); /* may be NULL; adds to fig.checked and fig.wrong */
};

extern const struct tp_engine tp_write_bw, tp_read_bw, tp_send_bw, tp_write_lat, tp_read_lat, tp_send_lat, tp_soak,
	tp_idle_conns;

const struct tp_engine *tp_engine_find(const struct tp_point *p);
/* Queue sizes for a point: the engine's own needs and the fences. */
void tp_engine_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq);

/* Run the session's point; fills mine and (client) peer. The client returns when the server's result is there. */
enum tp_verdict tp_run_point(struct tp_session *s, struct tp_figures *mine, struct tp_figures *peer);

/* --- for engines --- */

/*
 * After an empty poll: pause, or sleep on the completion channel; now and then receives control messages and checks
 * that the peer lives and the run makes progress. tp_busy is called after every poll that returned completions.
 */
enum tp_verdict tp_idle(struct tp_run *r);
static inline void tp_busy(struct tp_run *r) { r->spins = 0; }

/* Handles completions of the session's own requests (fences), and failed ones. TP_OK: continue. */
enum tp_verdict tp_session_wc(struct tp_session *s, const struct ibv_wc *wc);
enum tp_verdict tp_post_fence_recv(struct tp_session *s, uint32_t qp);
enum tp_verdict tp_post_fence(struct tp_session *s, uint32_t qp);
/* Whether a user on either side has asked for the run to end. */
bool tp_should_stop(const struct tp_run *r);

/* Compare one receive slot, bytes [0, len), with the peer's pattern. */
void tp_check_slot(struct tp_run *r, uint32_t qp, uint64_t slot, uint64_t len);
/* Fill every transmit slot; compare the first n receive slots of qp, bytes [0, len), with the peer's pattern. */
void tp_fill_tx(struct tp_run *r);
enum tp_verdict tp_check_rx(struct tp_run *r, uint32_t qp, uint64_t n, uint64_t len);
/* Compare the receive slots that the peer's FIN says were written on every queue pair. */
enum tp_verdict tp_verify_written(struct tp_run *r);

void tp_progress_phase(struct tp_run *r, uint32_t phase, uint64_t now);
void tp_progress_tick(struct tp_run *r, uint64_t now, uint64_t ops);

/* --- the ping-pong that the latency modes share (tp_ping_pong.c); over ud it may be a Read of the client's --- */
typedef enum tp_verdict (*tp_ping_fn)(struct tp_run *r, uint64_t i);
enum tp_pong {
	TP_PONG_BACK,
	TP_PONG_ENDED, /* the peer's FIN says that there is none */
	TP_PONG_LOST,  /* the next one is sent, and no figure of latency contains this one */
};
/* Wait for the peer's ping i; *pong is TP_PONG_BACK unless it is set. */
typedef enum tp_verdict (*tp_await_fn)(struct tp_run *r, uint64_t i, enum tp_pong *pong);
enum tp_verdict tp_ping_pong(struct tp_run *r, tp_ping_fn ping, tp_await_fn await);

/* --- the pipeline that the bandwidth modes share (tp_stream.c) --- */
enum tp_verdict tp_stream_run(struct tp_run *r, enum ibv_wr_opcode opcode);
enum tp_verdict tp_stream_prepare(struct tp_run *r);
enum tp_verdict tp_stream_prepare_recv(struct tp_run *r);
void tp_stream_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq);
void tp_stream_send_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq);

#endif
