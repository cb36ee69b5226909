/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_session.h"
#include "tp_engine.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AUTO_INLINE 64u
#define UD_RANGE    (UINT64_C(16) << 10) /* bytes */

enum tp_verdict tp_verbs_fail(struct tp_err *err, const char *what)
{
	int e = errno, n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (list != NULL)
		ibv_free_device_list(list);
	if (n == 0) {
		const char *socket = getenv("RNICD_SOCKET");

		return tp_fail(err, TP_NO_DEVICE,
			       "no RDMA device: is rnicd running? (%s%s; ibv_devices lists the devices that a program "
			       "can see)",
			       socket ? "RNICD_SOCKET=" : "rnicd --help", socket ? socket : "");
	}
	if (e == ENOMEM || e == EPERM)
		return tp_fail(err, TP_NO_MEMORY,
			       "%s failed: %s; ask for less with --depth, --qps, --buffers or --size, or raise "
			       "the limit (ulimit -l, quotas in rnicd's configuration)",
			       what, strerror(e));
	return tp_fail(err, TP_VERBS_ERROR, "%s failed: %s", what, strerror(e));
}

static const char *kind_name(enum tp_kind kind)
{
	switch (kind) {
	case TP_WR_DATA: return "data operation";
	case TP_WR_RECV: return "receive";
	case TP_WR_CREDIT: return "credit write";
	case TP_WR_FENCE: return "fence";
	case TP_WR_FENCE_RECV: return "fence receive";
	case TP_WR_CTRL: return "control message";
	case TP_WR_CTRL_RECV: return "control receive";
	case TP_WR_CARDS: return "exchange of queue pairs";
	}
	return "work request";
}

enum tp_verdict tp_wc_fail(struct tp_session *s, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_WR_FLUSH_ERR || wc->status == IBV_WC_RETRY_EXC_ERR)
		return tp_fail(s->err, TP_PEER_GONE,
			       "the connection broke during the run (a %s of queue pair %u ended with \"%s\"): "
			       "see the other side's output",
			       kind_name(tp_wr_kind(wc->wr_id)), tp_wr_qp(wc->wr_id), ibv_wc_status_str(wc->status));
	return tp_fail(s->err, TP_WC_ERROR, "a %s of queue pair %u failed: %s (vendor code %u)",
		       kind_name(tp_wr_kind(wc->wr_id)), tp_wr_qp(wc->wr_id), ibv_wc_status_str(wc->status),
		       wc->vendor_err);
}

static enum tp_verdict ctrl_recvs(struct tp_session *s)
{
	for (unsigned i = 0; i < TP_CTRL_MSGS; i++) {
		struct ibv_sge sge = { (uintptr_t)s->ctrl_buf + i * TP_MSG_SIZE, TP_MSG_SIZE, s->ctrl_mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = tp_wr_id(TP_WR_CTRL_RECV, 0, i), .sg_list = &sge, .num_sge = 1 },
				   *bad;

		errno = ibv_post_recv(s->ctrl.id->qp, &wr, &bad);
		if (errno != 0)
			return tp_verbs_fail(s->err, "posting a control receive");
	}
	return TP_OK;
}

enum tp_verdict tp_session_open(struct tp_session *s)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .sq_sig_all = 0 };

	s->verbs = s->ctrl.id->verbs;
	s->pd = ibv_alloc_pd(s->verbs);
	if (s->pd == NULL)
		return tp_verbs_fail(s->err, "allocating a protection domain");
	s->ctrl_chan = ibv_create_comp_channel(s->verbs);
	if (s->ctrl_chan == NULL)
		return tp_verbs_fail(s->err, "creating a completion channel");
	s->ctrl_cq = ibv_create_cq(s->verbs, 4 * TP_CTRL_MSGS, NULL, s->ctrl_chan, 0);
	if (s->ctrl_cq == NULL)
		return tp_verbs_fail(s->err, "creating the control completion queue");
	if (posix_memalign((void **)&s->ctrl_buf, TP_PAGE, tp_round_up(2 * TP_CTRL_MSGS * TP_MSG_SIZE, TP_PAGE)) != 0) {
		s->ctrl_buf = NULL;
		return tp_fail(s->err, TP_NO_MEMORY, "out of memory");
	}
	memset(s->ctrl_buf, 0, tp_round_up(2 * TP_CTRL_MSGS * TP_MSG_SIZE, TP_PAGE));
	s->ctrl_mr = ibv_reg_mr(s->pd, s->ctrl_buf, tp_round_up(2 * TP_CTRL_MSGS * TP_MSG_SIZE, TP_PAGE),
				IBV_ACCESS_LOCAL_WRITE);
	if (s->ctrl_mr == NULL)
		return tp_verbs_fail(s->err, "registering the control buffers");
	attr.send_cq = attr.recv_cq = s->ctrl_cq;
	attr.cap = (struct ibv_qp_cap){
		.max_send_wr = TP_CTRL_MSGS + 2, .max_recv_wr = TP_CTRL_MSGS, .max_send_sge = 1, .max_recv_sge = 1
	};
	if (rdma_create_qp(s->ctrl.id, s->pd, &attr) != 0)
		return tp_verbs_fail(s->err, "creating the control queue pair");
	errno = ibv_req_notify_cq(s->ctrl_cq, 0);
	if (errno != 0)
		return tp_verbs_fail(s->err, "asking for control events");
	return ctrl_recvs(s);
}

static enum tp_verdict alloc_region(struct tp_session *s, bool rnic_alloc)
{
	uint64_t len = s->layout.len;

	if (rnic_alloc) {
		void *(*fn)(size_t) = (void *(*)(size_t))(uintptr_t)dlsym(RTLD_DEFAULT, "rnic_alloc");

		if (fn == NULL)
			return tp_fail(s->err, TP_BAD_OPTION,
				       "this RDMA library has no rnic_alloc(): leave out --alloc rnic");
		s->region = fn(len);
		s->rnic_memory = s->region != NULL;
	} else if (posix_memalign((void **)&s->region, 2 << 20, len) != 0) {
		s->region = NULL;
	}
	if (s->region == NULL)
		return tp_fail(s->err, TP_NO_MEMORY,
			       "cannot get %" PRIu64 " MiB for buffers: ask for less with --size, --buffers or "
			       "--qps",
			       len >> 20);
	memset(s->region, 0, len);
	/*
	 * REMOTE_WRITE also because the sink of a Read on iWARP is a tagged buffer that the peer writes (RFC 5040, Read
	 * Response).
	 */
	s->mr = ibv_reg_mr(s->pd, s->region, len,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	return s->mr != NULL ? TP_OK : tp_verbs_fail(s->err, "registering the buffers");
}

static enum tp_verdict make_cq(struct tp_session *s, const struct ibv_device_attr *dev)
{
	const struct tp_point *p = &s->point;
	uint64_t want = (uint64_t)p->qps * (s->sq_depth + s->rq_depth), max = (uint64_t)dev->max_cqe;
	uint64_t need = (uint64_t)p->qps * (s->sq_depth / p->signal_every + s->rq_depth + 2);

	/* Records use at most half of the queue, and have many completions if a segment in twenty is lost. */
	if (p->qp_type == TP_QP_UD)
		want = (uint64_t)p->qps * (s->sq_depth + 4 * (uint64_t)s->rq_depth * (1 + p->size / UD_RANGE));
	if (need > max)
		return tp_fail(s->err, TP_BAD_OPTION,
			       "the device has completion queues of %" PRIu64 " entries, this run needs %" PRIu64
			       ": use a smaller --depth or --qps",
			       max, need);
	s->cq = ibv_create_cq(s->verbs, (int)(want < max ? want : max), NULL, s->chan, 0);
	return s->cq != NULL ? TP_OK : tp_verbs_fail(s->err, "creating the completion queue");
}

enum tp_verdict tp_session_setup(struct tp_session *s, int inline_want, bool rnic_alloc)
{
	struct ibv_device_attr dev;
	enum tp_verdict v;

	tp_layout_make(&s->layout, &s->point);
	tp_engine_depths(&s->point, &s->sq_depth, &s->rq_depth);
	errno = ibv_query_device(s->verbs, &dev);
	if (errno != 0)
		return tp_verbs_fail(s->err, "asking the device for its limits");
	if (s->sq_depth > (uint32_t)dev.max_qp_wr || s->rq_depth > (uint32_t)dev.max_qp_wr)
		return tp_fail(s->err, TP_BAD_OPTION,
			       "the device allows %d work requests per queue, this run needs %u: use a smaller "
			       "--depth",
			       dev.max_qp_wr, s->sq_depth > s->rq_depth ? s->sq_depth : s->rq_depth);
	if (s->point.qps + 1 > (uint32_t)dev.max_qp)
		return tp_fail(s->err, TP_BAD_OPTION,
			       "the device has %d queue pairs, this run needs %u: use a smaller --qps", dev.max_qp,
			       s->point.qps + 1);
	s->inline_max = inline_want < 0 ? AUTO_INLINE : (uint32_t)inline_want;
	s->chan = ibv_create_comp_channel(s->verbs);
	if (s->chan == NULL)
		return tp_verbs_fail(s->err, "creating a completion channel");
	v = make_cq(s, &dev);
	if (v == TP_OK)
		v = alloc_region(s, rnic_alloc);
	if (v != TP_OK)
		return v;
	if (s->point.qp_type != TP_QP_RC)
		return tp_gram_open(s);
	s->conns = calloc(s->point.qps, sizeof(*s->conns));
	if (s->conns == NULL)
		return tp_fail(s->err, TP_NO_MEMORY, "out of memory");
	for (uint32_t q = 0; q < s->point.qps; q++) {
		s->conns[q].session = s;
		s->conns[q].priv = (struct tp_private){ TP_ROLE_DATA, q, s->id };
	}
	return TP_OK;
}

enum tp_verdict tp_post_fence_recv(struct tp_session *s, uint32_t qp)
{
	struct ibv_sge sge = { (uintptr_t)s->region + s->layout.fence + 64, 64, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = tp_wr_id(TP_WR_FENCE_RECV, qp, 0), .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(tp_qp(s, qp), &wr, &bad);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a receive");
}

enum tp_verdict tp_session_add_qp(struct tp_session *s, struct tp_conn *c)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .send_cq = s->cq, .recv_cq = s->cq };
	int rc;

	if (c->id->verbs != s->verbs)
		return tp_fail(s->err, TP_BAD_PEER,
			       "a data connection came in on another device than the control connection: "
			       "name one address with -a");
	attr.cap = (struct ibv_qp_cap){ .max_send_wr = s->sq_depth,
					.max_recv_wr = s->rq_depth,
					.max_send_sge = 1,
					.max_recv_sge = 1,
					.max_inline_data = s->inline_max };
	rc = rdma_create_qp(c->id, s->pd, &attr);
	if (rc != 0 && s->inline_max > 0 && s->inline_max <= AUTO_INLINE) {
		/* A device without inline data refuses this; then the run does without inline data. */
		s->inline_max = 0;
		attr.cap.max_inline_data = 0;
		rc = rdma_create_qp(c->id, s->pd, &attr);
	}
	if (rc != 0)
		return tp_verbs_fail(s->err, s->inline_max > AUTO_INLINE
						     ? "creating a queue pair (is --inline more than the device "
						       "can do?)"
						     : "creating a queue pair");
	if (s->is_server)
		return tp_post_fence_recv(s, c->priv.index); /* for the initiator's first message */
	return TP_OK;
}

static void close_conn(struct tp_conn *c)
{
	if (c->id == NULL)
		return;
	if (c->established)
		rdma_disconnect(c->id);
	if (c->id->qp != NULL)
		rdma_destroy_qp(c->id);
	rdma_destroy_id(c->id);
	c->id = NULL;
}

void tp_session_close(struct tp_session *s)
{
	for (uint32_t q = 0; s->conns != NULL && q < s->point.qps; q++)
		close_conn(&s->conns[q]);
	tp_gram_close(s);
	close_conn(&s->ctrl);
	free(s->conns);
	s->conns = NULL;
	if (s->cq != NULL && s->unacked_events > 0)
		ibv_ack_cq_events(s->cq, s->unacked_events);
	if (s->mr != NULL)
		ibv_dereg_mr(s->mr);
	if (s->ctrl_mr != NULL)
		ibv_dereg_mr(s->ctrl_mr);
	if (s->cq != NULL)
		ibv_destroy_cq(s->cq);
	if (s->ctrl_cq != NULL)
		ibv_destroy_cq(s->ctrl_cq);
	if (s->chan != NULL)
		ibv_destroy_comp_channel(s->chan);
	if (s->ctrl_chan != NULL)
		ibv_destroy_comp_channel(s->ctrl_chan);
	if (s->pd != NULL)
		ibv_dealloc_pd(s->pd);
	if (s->rnic_memory) {
		void (*fn)(void *) = (void (*)(void *))(uintptr_t)dlsym(RTLD_DEFAULT, "rnic_free");

		if (fn != NULL)
			fn(s->region);
	} else {
		free(s->region);
	}
	free(s->ctrl_buf);
	s->region = s->ctrl_buf = NULL;
}
