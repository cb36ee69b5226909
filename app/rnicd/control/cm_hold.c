/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DISCONNECTED is delivered after the completions that came before the end of the connection. The kernel's connection
 * manager is so slow that programs rely on this order: libfabric closes its endpoint on DISCONNECTED, but uses the
 * endpoint for completions that it polls afterwards. So DISCONNECTED waits here while the client has completions of the
 * queue pair to poll: as long as their number falls, and for HOLD_NS if the client does not poll. Meanwhile the
 * descriptor of the event channel is not readable, since the channel has no event. Control thread.
 *
 * The consumer index in each ring of the completion queues shows how much the client has polled. A client that writes
 * other values there delays only its own events: by HOLD_NS for each completion, and by HELD_MAX_NS in all.
 */
#include "control/cm.h"

#define LOOK_NS     RN_NS_PER_MS
#define HOLD_NS     (20 * RN_NS_PER_MS)
#define HELD_MAX_NS RN_NS_PER_S
#define SCAN_MAX    256u /* entries of a ring that one check reads */

/*
 * Counts the queue pair's successful completions that the client has not polled from the worker's ring of a completion
 * queue. Completions from index *upto on were made after the end of the connection and do not count; the first call
 * sets *upto.
 */
static uint32_t unread(const struct client_cq *cq, const struct cm_hold *h, uint32_t qpn, uint32_t *upto, bool first)
{
	const struct client_region *r = &cq->c->region[IPC_REGION_QUEUES];
	const struct spsc_place at = { .region = r->base,
				       .region_size = r->size,
				       .off = cq->ring_off + h->worker * cq->ring_stride,
				       .nslots = cq->cqe,
				       .slot_size = qp_cqe_size(cq->cq->wide) };
	struct spsc_cons ring; /* a private consumer that reads without consuming */
	uint32_t n = 0;

	if (spsc_cons_attach(&ring, &at) != SPSC_OK)
		return 0;
	if (first)
		*upto = ring.seen;
	if (*upto - ring.own > cq->cqe) /* all before *upto are consumed */
		return 0;
	for (uint32_t i = 0; i < rn_min_u32(*upto - ring.own, SCAN_MAX); i++) {
		const struct qp_cqe *e = spsc_cons_slot(&ring, i);
		n += __atomic_load_n(&e->qpn, __ATOMIC_RELAXED) == qpn &&
		     __atomic_load_n(&e->status, __ATOMIC_RELAXED) == QP_WC_SUCCESS;
	}
	return n;
}

static uint32_t hold_left(struct cm_hold *h, bool first)
{
	const struct owner *o = owner_get(OWNER_QP, h->qp);
	const struct client_qp *q = o != NULL ? rn_container_of(o, struct client_qp, owner) : NULL;

	if (q == NULL)
		return 0;
	uint32_t n = unread(q->scq, h, q->qpn, &h->upto[0], first);
	return q->rcq == q->scq ? n : n + unread(q->rcq, h, q->qpn, &h->upto[1], first);
}

static void hold_tell(struct cm_id *id)
{
	id->hold.on = false;
	cm_event(id, CM_EV_DISCONNECTED, 0, NULL);
	if (id->hold.timewait)
		cm_event(id, CM_EV_TIMEWAIT_EXIT, 0, NULL);
}

static void hold_look(struct loop_timer *t)
{
	struct cm_id *id = rn_container_of(t, struct cm_id, hold.timer);
	struct cm_hold *h = &id->hold;
	const uint64_t now = rnicd_now();
	const uint32_t n = hold_left(h, false);

	if (n < h->left)
		h->until = rn_min_u64(now + HOLD_NS, h->last);
	h->left = n;
	if (n == 0 || now >= h->until)
		hold_tell(id);
	else
		loop_timer_arm(&h->timer, now + LOOK_NS);
}

void cm_disconnected(struct cm_id *id, uint64_t qp, uint32_t worker)
{
	struct cm_hold *h = &id->hold;
	const uint64_t now = rnicd_now();

	*h = (struct cm_hold){ .qp = qp, .worker = worker, .until = now + HOLD_NS, .last = now + HELD_MAX_NS };
	h->left = hold_left(h, true);
	if (h->left == 0) {
		hold_tell(id);
		return;
	}
	h->on = true;
	h->timer.due = hold_look;
	loop_timer_arm(&h->timer, now + LOOK_NS);
}

void cm_timewait_over(struct cm_id *id)
{
	if (id->hold.on)
		id->hold.timewait = true; /* DISCONNECTED comes first */
	else
		cm_event(id, CM_EV_TIMEWAIT_EXIT, 0, NULL);
}
