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

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = { CASE(connections_fail_by_events), CASE(resolving_fails_by_events),
						 CASE(asynchronous_events_come_with_completions) };

	return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
