/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polling a CQ through the functions of its ibv_cq_ex. The CQ's lock is held from a start_poll() that found a
 * completion to end_poll().
 */
#include "rnic/verbs/watch.h"

static struct rnic_cq *cq_of(struct ibv_cq_ex *ex) { return (struct rnic_cq *)ex; }

static void show(struct rnic_cq *cq)
{
	if (rn_unlikely(cq->cur.status != IBV_WC_SUCCESS))
		rnic_cqe_failed(&cq->cur);
	cq->ex.wr_id = cq->cur.wr_id;
	cq->ex.status = (enum ibv_wc_status)cq->cur.status;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct rnic_cq *cq = cq_of(ex);

	if (attr->comp_mask != 0)
		return EINVAL;
	rnic_spin_lock(&cq->lock);
	const bool late = rnic_cq_late(cq);
	if (!late && rnic_cq_next(cq, &cq->cur)) {
		cq->empty = 0;
		show(cq);
		return 0;
	}
	rnic_spin_unlock(&cq->lock);
	if (late)
		return ENOENT;
	if (rnic_dead(cq->s) || __atomic_load_n(&cq->shm->error, __ATOMIC_RELAXED) != 0)
		return EIO;
	rnic_cq_idle(cq);
	return ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct rnic_cq *cq = cq_of(ex);

	if (!rnic_cq_next(cq, &cq->cur))
		return ENOENT;
	show(cq);
	return 0;
}

static void end_poll(struct ibv_cq_ex *ex) { rnic_spin_unlock(&cq_of(ex)->lock); }

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex) { return rnic_cq_opcode(cq_of(ex), &cq_of(ex)->cur); }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return cq_of(ex)->cur.vendor_err; }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return cq_of(ex)->cur.byte_len; }
static __be32 read_imm_data(struct ibv_cq_ex *ex) { return cq_of(ex)->cur.aux; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return cq_of(ex)->cur.src_qp; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return cq_of(ex)->cur.qpn; }

static unsigned int read_wc_flags(struct ibv_cq_ex *ex) { return cq_of(ex)->cur.flags; }

static uint32_t read_slid(struct ibv_cq_ex *ex) { return rnic_cq_slid(cq_of(ex), &cq_of(ex)->cur, cq_of(ex)->from); }

/* Addresses that only InfiniBand has: 0. */
static uint8_t read_zero8(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

/*
 * The entry has the low 32 bits of its time in ns (CLOCK_MONOTONIC), which is enough if the entry is less than four
 * seconds old.
 */
static uint64_t made_at(const struct ibv_cq_ex *ex, clockid_t clock)
{
	uint64_t now = rnic_clock(CLOCK_MONOTONIC),
		 age = (uint32_t)((uint32_t)now - ((const struct rnic_cq *)ex)->cur.when);

	return (clock == CLOCK_MONOTONIC ? now : rnic_clock(clock)) - age;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex) { return made_at(ex, CLOCK_MONOTONIC); }
static uint64_t read_wallclock_ns(struct ibv_cq_ex *ex) { return made_at(ex, CLOCK_REALTIME); }

void rnic_poll_ex_init(struct ibv_cq_ex *ex, uint64_t wc_flags)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if ((wc_flags & IBV_WC_EX_WITH_BYTE_LEN) != 0)
		ex->read_byte_len = read_byte_len;
	if ((wc_flags & IBV_WC_EX_WITH_IMM) != 0)
		ex->read_imm_data = read_imm_data;
	if ((wc_flags & IBV_WC_EX_WITH_QP_NUM) != 0)
		ex->read_qp_num = read_qp_num;
	if ((wc_flags & IBV_WC_EX_WITH_SRC_QP) != 0)
		ex->read_src_qp = read_src_qp;
	if ((wc_flags & IBV_WC_EX_WITH_SLID) != 0)
		ex->read_slid = read_slid;
	if ((wc_flags & IBV_WC_EX_WITH_SL) != 0)
		ex->read_sl = read_zero8;
	if ((wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS) != 0)
		ex->read_dlid_path_bits = read_zero8;
	if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0)
		ex->read_completion_ts = read_completion_ts;
	if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0)
		ex->read_completion_wallclock_ns = read_wallclock_ns;
}
