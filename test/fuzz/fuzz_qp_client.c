/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two connected devices. A client of one writes any octets over its queues at any time. A record is one octet and its
 * operands: 0 a slot for the send queue, 1 a slot for the receive queue (64 octets each), 2 a doorbell, 3 a step of
 * time, 4 an index (one octet chooses it, four octets are its value), 5 any slot of the send queue again (one octet
 * chooses it, 64 octets), 6 a state (one octet), 7 a completion is taken. The other client's connection must go on
 * working.
 */
#include <stdlib.h>
#include <string.h>

#include "rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p;
	size_t left;
};

static void get(struct input *in, void *dst, size_t n)
{
	size_t have = n < in->left ? n : in->left;

	memset(dst, 0, n);
	memcpy(dst, in->p, have);
	in->p += have;
	in->left -= have;
}

static void push(struct spsc_hdr *h, const void *slot)
{
	uint8_t *slots = (uint8_t *)(h + 1);

	memcpy(slots + (size_t)(h->prod % RIG_SLOTS) * QP_SLOT_SIZE, slot, QP_SLOT_SIZE);
	h->prod++;
}

static void step(struct rig *r, struct input *in)
{
	struct rig_node *n = &r->n[0];
	struct rig_qp *q = &n->q[0];
	uint32_t *const index[] = { &q->sq.hdr->prod,   &q->sq.hdr->cons,         &q->rq.hdr->prod,
				    &q->rq.hdr->cons,   &n->scq_client.hdr->prod, &n->scq_client.hdr->cons,
				    &n->scq.shm->armed, &q->qp.shm->state };
	uint8_t what, which, slot[QP_SLOT_SIZE];
	struct qp_cqe e;
	uint32_t value;

	get(in, &what, 1);
	switch (what & 7) {
	case 0:
	case 1:
		get(in, slot, sizeof(slot));
		push(what & 1 ? q->rq.hdr : q->sq.hdr, slot);
		break;
	case 2: rc_doorbell(&n->ctx.rc, &q->qp); break;
	case 3: rig_step(r); break;
	case 4:
		get(in, &which, 1);
		get(in, &value, 4);
		*index[which % RN_ARRAY_LEN(index)] = value;
		break;
	case 5:
		get(in, &which, 1);
		get(in, slot, sizeof(slot));
		memcpy((uint8_t *)(q->sq.hdr + 1) + (size_t)which * QP_SLOT_SIZE, slot, sizeof(slot));
		break;
	case 6:
		get(in, &which, 1);
		(void)rc_modify(&n->ctx.rc, &q->qp, (enum qp_state)(which % 7));
		break;
	case 7: (void)rig_poll(&n->scq_client, &e); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct rig_cfg cfg;
	struct qp_cqe e;

	if (size > 20000)
		return 0;
	rig_defaults(&cfg);
	cfg.recs = 160;
	cfg.p2p = true; /* one message, so that the passive side may send */
	cfg.chunks = 64;
	struct rig *r = rig_new(&cfg);
	rig_connect(r, 0);
	rig_connect(r, 1);
	while (in.left > 0)
		step(r, &in);
	rig_settle(r);
	/* The other client: node 1 writes over the second connection. */
	struct qp_sge s = rig_sge(&r->n[1], 0, 3000);
	const struct rig_wr w = { .wr_id = 77,
				  .op = QP_WR_WRITE,
				  .flags = QP_WF_SIGNALED,
				  .sge = &s,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(0) + (3u << 20),
				  .rkey = r->n[0].rkey };
	while (rig_poll(&r->n[1].scq_client, &e))
		;
	memset(r->n[1].mem, 0x5a, 3000);
	if (!rig_post(&r->n[1], 1, &w))
		abort();
	rig_settle(r);
	if (!rig_poll(&r->n[1].scq_client, &e) || e.wr_id != 77 || e.status != QP_WC_SUCCESS ||
	    r->n[0].mem[(3u << 20) + 2999] != 0x5a)
		abort();
	rig_free(r);
	return 0;
}
