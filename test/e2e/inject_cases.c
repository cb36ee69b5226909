/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program under rnicrun --inject is told by events; each case says which specification it wants. */
#include "cm_rig.h"

#include <errno.h>

#define PORT 7920

/* connect:1=REJECTED,connect:2=UNREACHABLE,connect:3=CONNECT_ERROR */
static bool connections_fail_by_events(void)
{
	static const struct {
		enum rdma_cm_event_type type;
		int status;
	} due[] = { { RDMA_CM_EVENT_REJECTED, -ECONNREFUSED },
		    { RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT },
		    { RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET } };
	struct joined j;
	struct got g;

	for (unsigned i = 0; i < sizeof(due) / sizeof(due[0]); i++) {
		struct rdma_cm_id *id = dial(PORT, NULL); /* nobody listens, and nobody is asked */
		CHECK(id != NULL && want(cli.ch, due[i].type, &g));
		CHECK(g.id == id && g.status == due[i].status);
		CHECK(drop(id));
	}
	CHECK(join(&j, PORT));
	return part(&j);
}

/* resolve_addr:2=ADDR_ERROR,resolve_route:1=ROUTE_ERROR */
static bool resolving_fails_by_events(void)
{
	struct sockaddr_in to = srv.addr, from = cli.addr;
	struct rdma_cm_id *id;
	struct got g;

	CHECK((id = new_id(&cli)) != NULL);
	CHECK(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) && rdma_resolve_route(id, 2000) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ROUTE_ERROR, &g) && g.id == id && g.status == -ETIMEDOUT);
	CHECK(rdma_destroy_id(id) == 0 && (id = new_id(&cli)) != NULL);
	CHECK(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ADDR_ERROR, &g) && g.id == id && g.status == -EHOSTUNREACH);
	return rdma_destroy_id(id) == 0;
}

/* async:2=PORT_ERR,async:3=QP_FATAL */
static bool asynchronous_events_come_with_completions(void)
{
	struct ibv_async_event ev;
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_recv(&srv, j.sid, 2, 64) && post_send(&cli, j.cid, 3, 64));
	CHECK(poll_n(&cli, &wc, 1) && no_async(cli.verbs) && no_async(srv.verbs));
	CHECK(poll_n(&srv, &wc, 1) && async(srv.verbs, IBV_EVENT_PORT_ERR, &ev) && ev.element.port_num == 1);
	CHECK(post_send(&cli, j.cid, 4, 64) && poll_n(&cli, &wc, 1) && wc.status == IBV_WC_SUCCESS);
	CHECK(async(cli.verbs, IBV_EVENT_QP_FATAL, &ev) && ev.element.qp == j.cid->qp);
	CHECK(poll_n(&srv, &wc, 1) && no_async(cli.verbs) && no_async(srv.verbs));
	return part(&j);
}

/* async:1=SRQ_LIMIT_REACHED */
static bool a_shared_receive_queue_has_an_event_of_its_own(void)
{
	struct ibv_srq_init_attr room = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(srv.pd, &room);
	struct ibv_qp_init_attr a = { .send_cq = srv.cq,
				      .recv_cq = srv.cq,
				      .srq = srq,
				      .cap = { .max_send_wr = 4, .max_send_sge = 1 },
				      .qp_type = IBV_QPT_RC };
	struct ibv_sge sge = { .addr = (uintptr_t)srv.buf, .length = 64, .lkey = srv.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct rdma_conn_param p = param(1, 1, NULL, 0);
	struct ibv_async_event ev;
	struct ibv_wc wc;
	struct joined j;
	struct got g;

	CHECK(srq != NULL && (j.lid = listen_on(&srv, PORT, 1)) != NULL && (j.cid = dial(PORT, NULL)) != NULL);
	CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
	j.sid = g.id;
	CHECK(rdma_create_qp(j.sid, srv.pd, &a) == 0 && rdma_accept(j.sid, &p) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(ibv_post_srq_recv(srq, &wr, &bad) == 0 && post_send(&cli, j.cid, 2, 64) && poll_n(&srv, &wc, 1));
	CHECK(async(srv.verbs, IBV_EVENT_SRQ_LIMIT_REACHED, &ev) && ev.element.srq == srq);
	CHECK(poll_n(&cli, &wc, 1) && no_async(cli.verbs) && no_async(srv.verbs) && part(&j));
	return ibv_destroy_srq(srq) == 0;
}

/* daemon:2=GONE */
static bool the_daemon_is_gone_and_a_device_that_is_opened_anew_works(void)
{
	struct ibv_device **list;
	struct ibv_async_event ev;
	struct ibv_context *anew;
	struct ibv_pd *pd;
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_send(&cli, j.cid, 2, 64));
	CHECK(poll_n(&srv, &wc, 1) && no_async(srv.verbs) && poll_n(&cli, &wc, 1) && wc.status == IBV_WC_SUCCESS);
	CHECK(async(cli.verbs, IBV_EVENT_DEVICE_FATAL, &ev) && async(srv.verbs, IBV_EVENT_DEVICE_FATAL, &ev));
	CHECK(ibv_alloc_pd(cli.verbs) == NULL);
	CHECK((list = ibv_get_device_list(NULL)) != NULL && (anew = ibv_open_device(list[0])) != NULL);
	CHECK((pd = ibv_alloc_pd(anew)) != NULL && ibv_dealloc_pd(pd) == 0);
	ibv_free_device_list(list);
	return ibv_close_device(anew) == 0;
}

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = { CASE(connections_fail_by_events), CASE(resolving_fails_by_events),
						 CASE(asynchronous_events_come_with_completions),
						 CASE(a_shared_receive_queue_has_an_event_of_its_own),
						 CASE(the_daemon_is_gone_and_a_device_that_is_opened_anew_works) };

	return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
