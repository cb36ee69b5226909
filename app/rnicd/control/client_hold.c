/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and settings with which the engine delays the peer's Writes to a queue pair (rnicrun --sanitize). */
#include "control/client.h"
#include "qp/qp_hold.h"

const char *client_hold_refusal(const struct ipc_create_qp *r)
{
	if ((r->hold & ~(uint32_t)(IPC_HOLD_WRITES | IPC_HOLD_ORDERED)) != 0)
		return "the order in which Writes are to be held back is not known";
	if ((r->hold & IPC_HOLD_WRITES) != 0 && (r->datagram != IPC_UD_NONE || r->xrc != IPC_XRC_NONE))
		return "only connected queue pairs can hold Writes back";
	return NULL;
}

bool client_hold_begin(struct client_qp *q, const struct ipc_create_qp *r)
{
	const struct client_region *at = &q->c->region[IPC_REGION_QUEUES];

	if ((r->hold & IPC_HOLD_WRITES) == 0)
		return true;
	if (r->hold_off % RN_CACHE_LINE != 0 || !rn_in_range(r->hold_off, sizeof(struct qp_hold_shm), at->size))
		return false;
	q->held = (struct span){ .off = r->hold_off, .len = sizeof(struct qp_hold_shm) };
	if (spans_take(&q->c->spans, &q->held) != SPAN_OK)
		return false;
	q->hold = user_alloc(q->c->user, sizeof(*q->hold));
	if (q->hold == NULL)
		return false;
	qp_hold_begin(q->qp, q->hold, (struct qp_hold_shm *)(void *)(at->base + r->hold_off), r->hold_seed,
		      (r->hold & IPC_HOLD_ORDERED) != 0);
	return true;
}

void client_hold_end(struct client_qp *q)
{
	spans_give(&q->c->spans, &q->held);
	user_free(q->c->user, q->hold);
}
