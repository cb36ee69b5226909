/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program under rnicrun --inject learns by events. A comment at each case gives the specification that it needs.
 */
#include "cm_rig.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
		/* nobody listens there: the injected answer comes without a message to the peer */
		struct rdma_cm_id *id = dial(PORT, NULL);
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

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* connect:1=REFUSED,connect:2=REJECTED,connect:3=TIMED_OUT/300ms */
static bool a_connection_is_refused_rejected_or_times_out(void)
{
	const bool ib = cli.verbs->device->transport_type == IBV_TRANSPORT_IB;
	struct rdma_cm_id *id;
	struct got g;

	CHECK((id = dial(PORT, NULL)) != NULL && want(cli.ch, RDMA_CM_EVENT_REJECTED, &g));
	CHECK(g.status == (ib ? 8 : -ECONNREFUSED) && drop(id));
	CHECK((id = dial(PORT, NULL)) != NULL && want(cli.ch, RDMA_CM_EVENT_REJECTED, &g));
	CHECK(g.status == (ib ? 28 : -ECONNREFUSED) && drop(id));
	const uint64_t began = now_ms();
	CHECK((id = dial(PORT, NULL)) != NULL && want(cli.ch, RDMA_CM_EVENT_UNREACHABLE, &g));
	CHECK(g.status == -ETIMEDOUT && now_ms() - began >= 300);
	return drop(id);
}

/* wc.send@active:2=DELAYED/300ms */
static bool a_completion_is_delayed_and_those_behind_it_with_it(void)
{
	struct ibv_wc wc[2];
	struct joined j;

	CHECK(join(&j, PORT));
	for (uint64_t i = 1; i <= 4; i++)
		CHECK(post_recv(&srv, j.sid, i, 64));
	CHECK(post_send(&srv, j.sid, 9, 0) == true && post_recv(&cli, j.cid, 8, 64));
	CHECK(poll_n(&srv, wc, 1) && poll_n(&cli, wc, 1)); /* sends of the passive side do not count */
	CHECK(post_send(&cli, j.cid, 1, 64) && poll_n(&cli, wc, 1) && wc[0].wr_id == 1);
	const uint64_t began = now_ms();
	CHECK(post_send(&cli, j.cid, 2, 64) && post_send(&cli, j.cid, 3, 64));
	CHECK(poll_n(&cli, wc, 2) && wc[0].wr_id == 2 && wc[1].wr_id == 3);
	CHECK(wc[0].status == IBV_WC_SUCCESS && now_ms() - began >= 300);
	CHECK(poll_n(&srv, wc, 2) && poll_n(&srv, wc, 1));
	return part(&j);
}

/* The same specification. The program sleeps until a completion event, which comes together with the completion. */
static bool a_delayed_completion_wakes_who_waits_for_its_event(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(cli.verbs);
	struct ibv_cq *old = cli.cq, *got;
	struct joined j;
	struct ibv_wc wc;
	void *context;
	int n = 0, k;

	CHECK(ch != NULL && (cli.cq = ibv_create_cq(cli.verbs, 16, NULL, ch, 0)) != NULL);
	CHECK(join(&j, PORT) && ibv_req_notify_cq(cli.cq, 0) == 0);
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_recv(&srv, j.sid, 2, 64));
	CHECK(post_send(&cli, j.cid, 3, 64) && post_send(&cli, j.cid, 4, 64));
	while (n < 2) {
		CHECK(ibv_get_cq_event(ch, &got, &context) == 0);
		ibv_ack_cq_events(got, 1);
		CHECK(ibv_req_notify_cq(cli.cq, 0) == 0);
		for (; (k = ibv_poll_cq(cli.cq, 1, &wc)) > 0; n += k)
			CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)n + 3);
		CHECK(k == 0);
	}
	CHECK(part(&j) && ibv_destroy_cq(cli.cq) == 0 && ibv_destroy_comp_channel(ch) == 0);
	cli.cq = old;
	return true;
}

/* post_recv:2=HELD/300ms, on a port where messages wait for receives */
static bool a_receiver_is_not_ready_for_a_time(void)
{
	struct ibv_wc wc[2];
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_send(&cli, j.cid, 2, 64) && poll_n(&cli, wc, 1));
	CHECK(poll_n(&srv, wc, 1));
	const uint64_t began = now_ms();
	CHECK(post_recv(&srv, j.sid, 3, 64) && post_recv(&srv, j.sid, 4, 64));
	CHECK(post_send(&cli, j.cid, 5, 64) && post_send(&cli, j.cid, 6, 64));
	CHECK(poll_n(&srv, wc, 2) && wc[0].wr_id == 3 && wc[1].wr_id == 4 && now_ms() - began >= 300);
	CHECK(poll_n(&cli, wc, 2) && wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
	return part(&j);
}

/* post_srq_recv:2=HELD/300ms; the receives of a shared queue are counted for all its queue pairs together */
static bool a_shared_receive_queue_is_not_ready_for_a_time(void)
{
	return with_srq(a_receiver_is_not_ready_for_a_time);
}

/* The same on a port where a message without a receive ends the connection. */
static bool a_receiver_that_is_not_ready_ends_the_stream(void)
{
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_send(&cli, j.cid, 2, 64) && poll_n(&cli, &wc, 1));
	CHECK(poll_n(&srv, &wc, 1) && post_recv(&srv, j.sid, 3, 64) && post_send(&cli, j.cid, 5, 64));
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(drop(j.cid) && drop(j.sid));
	return rdma_destroy_id(j.lid) == 0;
}

static enum ibv_port_state port_state(struct ibv_context *c)
{
	struct ibv_port_attr a = { .state = IBV_PORT_NOP };

	return ibv_query_port(c, 1, &a) == 0 ? a.state : IBV_PORT_NOP;
}

/* async:1=PORT_ERR,async:2=PORT_ACTIVE,async:100ms=QP_LAST_WQE_REACHED,async:100ms=DEVICE_FATAL */
static bool a_port_goes_down_and_up_and_events_come_at_a_time(void)
{
	struct ibv_async_event ev;
	struct ibv_wc wc;
	struct joined j;

	CHECK(async(srv.verbs, IBV_EVENT_DEVICE_FATAL, &ev));
	CHECK(join(&j, PORT));
	CHECK(async(srv.verbs, IBV_EVENT_QP_LAST_WQE_REACHED, &ev) && ev.element.qp == j.sid->qp);
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_recv(&srv, j.sid, 2, 64) && post_send(&cli, j.cid, 3, 64));
	CHECK(poll_n(&srv, &wc, 1) && async(srv.verbs, IBV_EVENT_PORT_ERR, &ev));
	CHECK(port_state(srv.verbs) == IBV_PORT_DOWN && port_state(cli.verbs) == IBV_PORT_ACTIVE);
	CHECK(post_send(&cli, j.cid, 4, 64) && poll_n(&srv, &wc, 1) && async(srv.verbs, IBV_EVENT_PORT_ACTIVE, &ev));
	CHECK(port_state(srv.verbs) == IBV_PORT_ACTIVE);
	return part(&j);
}

/* each of these calls fails at its first use */
static bool other_calls_fail_with_their_errno(void)
{
	struct ibv_srq_init_attr room = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ah_attr where = { .is_global = 1, .port_num = 1 };
	struct ibv_sge sge = { .addr = (uintptr_t)cli.buf, .length = 8, .lkey = cli.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad = NULL;
	struct ibv_recv_wr rwr = { .sg_list = &sge, .num_sge = 1 }, *rbad = NULL;
	struct ibv_qp_attr to = { .qp_state = IBV_QPS_ERR };
	struct ibv_srq *srq;
	struct joined j;

	CHECK(ibv_open_device(cli.verbs->device) == NULL && errno == EACCES);
	CHECK(ibv_create_comp_channel(cli.verbs) == NULL && errno == EMFILE);
	CHECK(ibv_create_srq(cli.pd, &room) == NULL && errno == ENOMEM);
	CHECK(ibv_create_ah(cli.pd, &where) == NULL && errno == EHOSTUNREACH);
	CHECK(ibv_alloc_mw(cli.pd, IBV_MW_TYPE_2) == NULL && errno == EPERM);
	CHECK(join(&j, PORT));
	CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == ENOMEM && bad == &wr);
	CHECK(ibv_post_recv(j.cid->qp, &rwr, &rbad) == EINVAL && rbad == &rwr);
	CHECK(ibv_modify_qp(j.cid->qp, &to, IBV_QP_STATE) == EIO);
	CHECK((srq = ibv_create_srq(cli.pd, &room)) != NULL);
	rbad = NULL;
	CHECK(ibv_post_srq_recv(srq, &rwr, &rbad) == ENOMEM && rbad == &rwr && ibv_destroy_srq(srq) == 0);
	return part(&j);
}

/* daemon:2=GONE/300ms */
static bool the_daemon_restarts_after_a_time(void)
{
	struct ibv_async_event ev;
	struct ibv_context *anew = NULL;
	struct ibv_device **list;
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_send(&cli, j.cid, 2, 64));
	CHECK(poll_n(&srv, &wc, 1));
	const uint64_t began = now_ms();
	CHECK(poll_n(&cli, &wc, 1) && async(cli.verbs, IBV_EVENT_DEVICE_FATAL, &ev));
	while (anew == NULL && now_ms() - began < WAIT_MS) {
		int n = 0;
		list = ibv_get_device_list(&n);
		if (list != NULL && n > 0)
			anew = ibv_open_device(list[0]);
		if (list != NULL)
			ibv_free_device_list(list);
		usleep(1000);
	}
	CHECK(anew != NULL && now_ms() - began >= 300);
	return ibv_close_device(anew) == 0;
}

/* create_comp_channel:?20=ENOMEM */
static bool many_channels_are_made(void)
{
	for (int i = 0; i < 400; i++) {
		struct ibv_comp_channel *ch = ibv_create_comp_channel(cli.verbs);
		CHECK(ch == NULL || ibv_destroy_comp_channel(ch) == 0);
	}
	return true;
}

/* no specification at the start; rnicctl sets alloc_pd:3=ENOMEM while this runs */
static bool is_told(void)
{
	const uint64_t began = now_ms();
	struct ibv_pd *pd;

	while (now_ms() - began < 8 * WAIT_MS) {
		if ((pd = ibv_alloc_pd(cli.verbs)) == NULL)
			return errno == ENOMEM && (pd = ibv_alloc_pd(cli.verbs)) != NULL && ibv_dealloc_pd(pd) == 0;
		CHECK(ibv_dealloc_pd(pd) == 0);
		usleep(10000);
	}
	return false;
}

static bool a_running_program_is_told(void)
{
	puts("runs");
	return is_told();
}

/* The same for a child process, which opens a device of its own. */
static bool a_child_is_told(void)
{
	const pid_t child = fork();
	int status;

	if (child == 0) {
		int n = 0;
		struct ibv_device **list = ibv_get_device_list(&n);
		cli.verbs = n > 0 ? ibv_open_device(list[0]) : NULL;
		printf("child runs %d\n", (int)getpid());
		fflush(stdout);
		_exit(cli.verbs != NULL && is_told() ? 0 : 1);
	}
	return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = { CASE(connections_fail_by_events),
						 CASE(resolving_fails_by_events),
						 CASE(asynchronous_events_come_with_completions),
						 CASE(a_shared_receive_queue_has_an_event_of_its_own),
						 CASE(the_daemon_is_gone_and_a_device_that_is_opened_anew_works),
						 CASE(a_connection_is_refused_rejected_or_times_out),
						 CASE(a_completion_is_delayed_and_those_behind_it_with_it),
						 CASE(a_delayed_completion_wakes_who_waits_for_its_event),
						 CASE(a_receiver_is_not_ready_for_a_time),
						 CASE(a_receiver_that_is_not_ready_ends_the_stream),
						 CASE(a_shared_receive_queue_is_not_ready_for_a_time),
						 CASE(a_port_goes_down_and_up_and_events_come_at_a_time),
						 CASE(other_calls_fail_with_their_errno),
						 CASE(the_daemon_restarts_after_a_time),
						 CASE(many_channels_are_made),
						 CASE(a_running_program_is_told),
						 CASE(a_child_is_told) };

	return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
