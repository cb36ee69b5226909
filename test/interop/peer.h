/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs program that plays one side of named exchanges ("scenarios") with another copy of itself; data is verified.
 * One copy is linked with the stock libraries (for a Linux siw peer), one with librnic.
 *
 * The client's private data names the scenario, so one server serves them all. Unless a scenario says otherwise the
 * client's first message is GO (RFC 5044, 7.1.2: the initiator sends first), the actor then acts and says DONE, and the
 * other side verifies and answers with its verdict. The actor is the client, or with the prefix "r." the server.
 */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rdma/rdma_cma.h>

#define PEER_MAGIC    0x70656572u
#define PEER_NAME_MAX 32
#define PEER_CTL      16u        /* bytes of a control message */
#define PEER_AREA     (2u << 20) /* bytes of each of the areas tx, win and sink; rx is twice as large */
#define PEER_STEP_MS  60000      /* ms; a step that takes longer counts as a hang */
#define PEER_DEPTH    64u

/* Private data of both sides, big-endian; padded to the length that a scenario asks for. */
struct peer_hello {
	uint32_t magic;
	uint32_t id;
	uint32_t rkey;     /* key of the area win */
	uint32_t inv_rkey; /* key of the region that a Send with Invalidate may invalidate */
	uint64_t addr;
	uint32_t len;
	uint32_t ro_rkey; /* key of the region without remote access */
	uint64_t ro_addr;
	char name[PEER_NAME_MAX];
};

struct peer_scenario {
	char name[PEER_NAME_MAX]; /* the words of the command line: [r.]kind[:size[:count]] */
	char kind[PEER_NAME_MAX];
	bool reverse;
	uint32_t size, count;
};

/* The process: one event channel, one device. */
struct peer {
	struct rdma_event_channel *ch;
	struct rdma_cm_event *stash; /* a connection request that arrived while another connection was served */
	bool server, quiet;
	uint8_t ird, ord;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_mr *mr, *ro_mr, *inv_mr;
	uint8_t *tx, *rx, *win, *sink, *ro, *inv;
};

/* One connection. */
struct peer_conn {
	struct peer *p;
	struct peer_scenario sc;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	uint32_t number;
	uint32_t rx_off; /* offset in rx of the next receive buffer */
	bool established, gone;
	uint32_t spare_sends, spare_recvs; /* good completions that no peer_wait() has counted yet */
	struct peer_hello far;             /* the other side's hello, in host byte order */
	char why[160];                     /* the first failure; empty: none */
};

/* peer_ep.c: functions that return false have noted the reason in why. */
bool peer_fail(struct peer_conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void peer_say(const struct peer_conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void peer_setup(struct peer *p, struct ibv_context *verbs);
bool peer_make_qp(struct peer_conn *c);
void peer_hello(struct peer_conn *c, uint8_t *buf);
bool peer_far(struct peer_conn *c, const struct rdma_cm_event *e);
struct rdma_cm_event *peer_event(struct peer_conn *c, int ms);
bool peer_expect(struct peer_conn *c, enum rdma_cm_event_type type, struct rdma_cm_event **out);
bool peer_gone(struct peer_conn *c);
bool peer_recv(struct peer_conn *c, uint32_t len);
bool peer_post(struct peer_conn *c, struct ibv_send_wr *wr, const void *data, uint32_t len);
bool peer_send(struct peer_conn *c, const void *data, uint32_t len);
bool peer_wc(struct peer_conn *c, struct ibv_wc *wc, int ms);
bool peer_wait(struct peer_conn *c, uint32_t sends, uint32_t recvs);
bool peer_next(struct peer_conn *c, struct ibv_wc *wc);
void peer_rest(struct peer_conn *c);
void peer_fill(uint8_t *p, uint32_t n, uint32_t seed);
bool peer_check(struct peer_conn *c, const uint8_t *p, uint32_t n, uint32_t seed, const char *what);

/* peer_run.c */
bool peer_prepare(struct peer_conn *c);
bool peer_run(struct peer_conn *c);

/* peer_err.c: exchanges that end in a Terminate or an abrupt end. */
bool peer_is_err(const char *kind);
bool peer_err_prepare(struct peer_conn *c);
bool peer_err_run(struct peer_conn *c);

#endif
