/* SPDX-License-Identifier: BSD-3-Clause */
/* More work for a worker than it may do in one turn. */
#include "attack.h"

#include <poll.h>

#include "raw_client.h"

#define QPS   64u
#define SLOTS 2048u
#define CQE   65536u
#define BELLS 1000u /* queue pairs whose doorbells are rung all the time */

static struct raw_qp qp[QPS];

/* Queue pairs in ERR, whose queues are filled again as soon as they have been flushed, until stdin ends. */
int mode_flushing(void)
{
	struct raw_job j = { .dev = 0 };
	struct pollfd end = { .fd = 0, .events = POLLIN };
	struct qp_cqe e;
	int bad = 0;

	raw_must(raw_open(&j.r) == 0 && raw_pd(&j.r, 0, &j.pd) == 0 && raw_cq(&j.r, 0, 0, CQE, &j.cq) == 0, "open");
	for (uint32_t i = 0; i < QPS; i++) {
		raw_must(raw_qp(&j.r, j.pd, j.cq.handle, SLOTS, &qp[i]) == 0, "a queue pair");
		struct ipc_msg m = { .type = IPC_MODIFY_QP,
				     .len = IPC_MSG_LEN(modify_qp),
				     .modify_qp = {
					     .qp = qp[i].handle, .mask = IPC_QP_ATTR_STATE, .state = QP_S_ERR } };
		raw_must(raw_call(&j.r, &m, -1) == 0, "ERR");
	}
	printf("flushing\n");
	while (poll(&end, 1, 0) == 0) {
		for (uint32_t i = 0; i < QPS; i++) { /* an entry of zeros is a work request of one slot */
			spsc_prod_publish(&qp[i].sq, spsc_prod_free(&qp[i].sq, SLOTS));
			spsc_prod_publish(&qp[i].rq, spsc_prod_free(&qp[i].rq, SLOTS));
		}
		for (uint32_t i = 0; i < QPS; i++)
			raw_ring_bell(&j.r, &qp[i]);
		while (raw_poll(&j.r, &j.cq, &e))
			;
	}
	int rc = raw_call_handle(&j.r, IPC_QUERY_QP, qp[0].handle);
	EXPECT(rc == 0, "the client lives: %d (%s)", rc, j.r.text);
	return bad;
}

/* Rings the doorbells of all its queue pairs again and again, until stdin ends. */
int mode_bells(void)
{
	static struct raw_qp all[BELLS];
	struct raw_job j = { .dev = 0 };
	struct pollfd end = { .fd = 0, .events = POLLIN };
	int bad = 0;

	raw_must(raw_open(&j.r) == 0 && raw_pd(&j.r, 0, &j.pd) == 0 && raw_cq(&j.r, 0, 0, 64, &j.cq) == 0, "open");
	for (uint32_t i = 0; i < BELLS; i++)
		raw_must(raw_qp(&j.r, j.pd, j.cq.handle, 16, &all[i]) == 0, "a queue pair");
	printf("ringing\n");
	while (poll(&end, 1, 0) == 0)
		for (uint32_t i = 0; i < BELLS; i++)
			raw_ring_bell(&j.r, &all[i]);
	int rc = raw_call_handle(&j.r, IPC_QUERY_QP, all[0].handle);
	EXPECT(rc == 0, "the client lives: %d (%s)", rc, j.r.text);
	return bad;
}
