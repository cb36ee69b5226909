/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How rdma_cm behaves: both ends in one process, over two devices of one daemon. Plain verbs and rdma_cm.
 *
 * usage: cm_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...]	prints "ok NAME" or "not ok NAME" for each case
 *        cm_cases --list
 */
#include "cm_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static bool connect_and_disconnect_by_client(void)
{
	struct joined j;

	return join(&j, 8001) && part(&j);
}

static bool disconnect_by_server(void)
{
	struct joined j;

	CHECK(join(&j, 8002));
	CHECK(rdma_disconnect(j.sid) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}

static bool disconnect_by_both_at_once(void)
{
	struct joined j;

	CHECK(join(&j, 8003));
	CHECK(rdma_disconnect(j.sid) == 0);
	rdma_disconnect(j.cid); /* the connection may have ended already */
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(quiet(cli.ch, 100) && quiet(srv.ch, 100));
	return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}

static bool destroying_one_side_disconnects_the_other(void)
{
	struct joined j;

	CHECK(join(&j, 8004));
	CHECK(drop(j.cid));
	CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(quiet(cli.ch, 50));
	return drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}

static bool disconnected_comes_after_the_qp_is_gone(void)
{
	struct joined j;

	CHECK(join(&j, 8005));
	rdma_destroy_qp(j.sid);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}

/*
 * Binds an id, connects to its port, waits, and then lets the id listen. *late becomes true if this took longer than
 * the daemon lets the connecting peer wait, so that the peer was refused.
 */
static bool connect_before_listen(uint16_t port, bool *late)
{
	struct rdma_cm_id *lid = new_id(&srv), *cid;
	struct sockaddr_in at = srv.addr;
	struct got g;

	at.sin_port = htons(port);
	CHECK(lid != NULL && rdma_bind_addr(lid, (struct sockaddr *)&at) == 0);
	CHECK((cid = dial(port, NULL)) != NULL);
	*late = next_event(cli.ch, &g, 300);
	CHECK(!*late || g.type == RDMA_CM_EVENT_REJECTED);
	CHECK(rdma_listen(lid, 4) == 0);
	if (!*late && next_event(srv.ch, &g, 5000)) {
		CHECK(g.type == RDMA_CM_EVENT_CONNECT_REQUEST && rdma_reject(g.id, NULL, 0) == 0 &&
		      rdma_destroy_id(g.id) == 0);
		CHECK(want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL));
	} else if (!*late) {
		*late = true;
		CHECK(want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL));
	}
	return drop(cid) && rdma_destroy_id(lid) == 0;
}

/* A bound id may soon listen: a peer is refused only after the id has had time to do so. */
static bool connects_between_bind_and_listen(void)
{
	struct rdma_cm_id *never = new_id(&srv), *cid;
	struct sockaddr_in at = srv.addr;
	bool late = true;

	for (uint16_t i = 0; i < 10 && late; i++) /* tries again when this process got no CPU for seconds */
		CHECK(connect_before_listen((uint16_t)(8040 + i), &late));
	CHECK(!late);
	at.sin_port = htons(8014);
	CHECK(never != NULL && rdma_bind_addr(never, (struct sockaddr *)&at) == 0);
	CHECK((cid = dial(8014, NULL)) != NULL && want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL));
	return drop(cid) && rdma_destroy_id(never) == 0;
}

static bool no_route(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(1) }, from = cli.addr;
	struct rdma_cm_id *id = new_id(&cli);
	struct got g;

	CHECK(id != NULL && inet_pton(AF_INET, "192.0.2.77", &to.sin_addr) == 1);
	if (rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 1000) == 0) {
		CHECK(want(cli.ch, RDMA_CM_EVENT_ADDR_ERROR, &g));
		CHECK(g.status == -ENETUNREACH || g.status == -EHOSTUNREACH || g.status == -ENODEV);
	} else {
		CHECK(errno == ENETUNREACH || errno == EHOSTUNREACH || errno == ENODEV);
	}
	return rdma_destroy_id(id) == 0;
}

static bool neighbour_does_not_answer(void)
{
	struct sockaddr_in to = srv.addr, from = cli.addr;
	struct rdma_cm_id *id = new_id(&cli);
	struct got g;

	((uint8_t *)&to.sin_addr)[3] = 99;
	to.sin_port = htons(1);
	CHECK(id != NULL && rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 3000) == 0);
	CHECK(next_event(cli.ch, &g, WAIT_MS));
	if (g.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
		CHECK(rdma_resolve_route(id, 3000) == 0);
		CHECK(next_event(cli.ch, &g, WAIT_MS));
	}
	CHECK(g.type == RDMA_CM_EVENT_ADDR_ERROR || g.type == RDMA_CM_EVENT_ROUTE_ERROR);
	CHECK(g.status < 0);
	return rdma_destroy_id(id) == 0;
}

static bool listening_on_a_used_port(void)
{
	struct rdma_cm_id *lid = listen_on(&srv, 8008, 4);

	CHECK(lid != NULL);
	CHECK(listen_on(&srv, 8008, 4) == NULL && errno == EADDRINUSE);
	struct rdma_cm_id *other = listen_on(&cli, 8008, 4); /* the same port of another device */
	CHECK(other != NULL);
	CHECK(rdma_destroy_id(other) == 0 && rdma_destroy_id(lid) == 0);
	CHECK((lid = listen_on(&srv, 8008, 4)) != NULL);
	return rdma_destroy_id(lid) == 0;
}

static bool port_0_is_chosen(void)
{
	struct rdma_cm_id *a = listen_on(&srv, 0, 4), *b = listen_on(&srv, 0, 4);

	CHECK(a != NULL && b != NULL);
	CHECK(rdma_get_src_port(a) != 0 && rdma_get_src_port(b) != 0 && rdma_get_src_port(a) != rdma_get_src_port(b));
	struct rdma_cm_id *cid = dial(ntohs(rdma_get_src_port(a)), NULL), *sid = answer(NULL);
	CHECK(cid != NULL && sid != NULL);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(rdma_get_dst_port(cid) == rdma_get_src_port(a) && rdma_get_dst_port(sid) == rdma_get_src_port(cid));
	return rdma_destroy_id(b) == 0 && part(&(struct joined){ a, sid, cid });
}

static bool listen_on_the_wildcard_address(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(8009) };
	struct rdma_cm_id *lid = new_id(&srv), *cid, *sid;

	CHECK(lid != NULL && rdma_bind_addr(lid, (struct sockaddr *)&any) == 0 && rdma_listen(lid, 4) == 0);
	CHECK((cid = dial(8009, NULL)) != NULL && (sid = answer(NULL)) != NULL);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(sid->verbs == srv.verbs);
	return part(&(struct joined){ lid, sid, cid });
}

static bool channel_can_be_polled(void)
{
	int flags = fcntl(cli.ch->fd, F_GETFL);
	struct pollfd p = { cli.ch->fd, POLLIN, 0 };
	struct rdma_cm_event *e;
	struct rdma_cm_id *lid = listen_on(&srv, 8010, 4), *cid, *sid;

	CHECK(lid != NULL && fcntl(cli.ch->fd, F_SETFL, flags | O_NONBLOCK) == 0);
	CHECK(poll(&p, 1, 0) == 0);
	CHECK(rdma_get_cm_event(cli.ch, &e) == -1 && errno == EAGAIN);
	CHECK((cid = dial(8010, NULL)) != NULL && (sid = answer(NULL)) != NULL);
	CHECK(poll(&p, 1, WAIT_MS) == 1);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(poll(&p, 1, 0) == 0);
	CHECK(rdma_get_cm_event(cli.ch, &e) == -1 && errno == EAGAIN);
	CHECK(fcntl(cli.ch->fd, F_SETFL, flags) == 0);
	CHECK(want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	return part(&(struct joined){ lid, sid, cid });
}

static bool id_destroyed_with_events_waiting(void)
{
	struct joined j;
	struct got g;

	/* The client's ESTABLISHED and DISCONNECTED are never read. */
	CHECK((j.lid = listen_on(&srv, 8011, 4)) != NULL && (j.cid = dial(8011, NULL)) != NULL);
	CHECK((j.sid = answer(NULL)) != NULL);
	CHECK(want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(rdma_disconnect(j.sid) == 0 && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	usleep(20000);
	CHECK(drop(j.cid) && quiet(cli.ch, 100));
	CHECK(drop(j.sid));
	/* The listener ends while a request waits for it: the connecting side is told. */
	CHECK((j.cid = dial(8011, NULL)) != NULL);
	usleep(50000);
	CHECK(rdma_destroy_id(j.lid) == 0);
	CHECK(quiet(srv.ch, 100));
	CHECK(next_event(cli.ch, &g, WAIT_MS));
	CHECK(g.type == RDMA_CM_EVENT_REJECTED || g.type == RDMA_CM_EVENT_UNREACHABLE ||
	      g.type == RDMA_CM_EVENT_CONNECT_ERROR);
	return drop(j.cid);
}

static bool id_destroyed_while_resolving_and_connecting(void)
{
	struct sockaddr_in to = srv.addr, from = cli.addr;
	struct rdma_cm_id *lid = listen_on(&srv, 8012, 64), *id;
	struct got g;

	CHECK(lid != NULL);
	for (int i = 0; i < 20; i++) {
		to.sin_port = htons(8012);
		CHECK((id = new_id(&cli)) != NULL);
		CHECK(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000) == 0);
		CHECK(rdma_destroy_id(id) == 0);
		CHECK((id = dial(8012, NULL)) != NULL && drop(id));
	}
	CHECK(quiet(cli.ch, 200));
	CHECK(rdma_destroy_id(lid) == 0);
	while (next_event(srv.ch, &g, 200)) /* requests that were taken off the listener before it ended */
		if (g.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			CHECK(rdma_destroy_id(g.id) == 0);
	return true;
}

static bool backlog_is_bounded_and_nobody_hangs(void)
{
	enum { N = 40 };
	struct rdma_cm_id *lid = listen_on(&srv, 8013, 4), *cid[N], *sid[N];
	unsigned up = 0, refused = 0, served = 0;
	struct rdma_conn_param p = param(4, 4, NULL, 0);
	struct got g;

	CHECK(lid != NULL);
	for (int i = 0; i < N; i++)
		CHECK((cid[i] = route_to(8013)) != NULL);
	for (int i = 0; i < N; i++)
		CHECK(rdma_connect(cid[i], &p) == 0);
	for (int quiet_ms = 0; up + refused < N && quiet_ms < 3 * WAIT_MS;) {
		if (next_event(srv.ch, &g, 10) && g.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			sid[served] = g.id;
			CHECK(give_qp(&srv, g.id) && rdma_accept(g.id, &p) == 0);
			served++;
		}
		if (!next_event(cli.ch, &g, 0)) {
			quiet_ms += 10;
			continue;
		}
		quiet_ms = 0;
		up += g.type == RDMA_CM_EVENT_ESTABLISHED;
		refused += g.type == RDMA_CM_EVENT_REJECTED || g.type == RDMA_CM_EVENT_UNREACHABLE;
	}
	CHECK(up + refused == N && up >= 4 && up == served);
	for (int i = 0; i < N; i++)
		CHECK(drop(cid[i]));
	for (unsigned i = 0; i < served; i++)
		CHECK(drop(sid[i]));
	while (next_event(srv.ch, &g, 100) || next_event(cli.ch, &g, 0))
		;
	return rdma_destroy_id(lid) == 0;
}

static bool hundreds_of_connections_one_after_the_other(void)
{
	struct rdma_cm_id *lid = listen_on(&srv, 8014, 16);
	unsigned before = open_fds();

	CHECK(lid != NULL);
	for (int i = 0; i < 300; i++) {
		struct rdma_cm_id *cid = dial(8014, NULL), *sid = answer(NULL);
		struct rdma_cm_id *first = i & 1 ? cid : sid;
		CHECK(cid != NULL && sid != NULL);
		CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
		CHECK(rdma_disconnect(first) == 0);
		CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
		CHECK(drop(cid) && drop(sid));
	}
	CHECK(open_fds() == before);
	return rdma_destroy_id(lid) == 0;
}

static bool hundreds_of_connections_at_once(void)
{
	enum { N = 300 };
	static struct rdma_cm_id *cid[N], *sid[N];
	struct rdma_cm_id *lid = listen_on(&srv, 8015, 64);
	struct ibv_wc wc[2];
	struct got g;

	CHECK(lid != NULL);
	for (int i = 0; i < N; i++) {
		CHECK((cid[i] = dial(8015, NULL)) != NULL && (sid[i] = answer(NULL)) != NULL);
		CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	}
	for (int i = 0; i < N; i++) {
		CHECK(post_recv(&srv, sid[i], (uint64_t)i, 64) && post_send(&cli, cid[i], (uint64_t)i, 64));
		CHECK(poll_n(&cli, wc, 1) && wc[0].status == IBV_WC_SUCCESS && wc[0].wr_id == (uint64_t)i);
		CHECK(poll_n(&srv, wc, 1) && wc[0].status == IBV_WC_SUCCESS && wc[0].wr_id == (uint64_t)i);
		CHECK(wc[0].qp_num == sid[i]->qp->qp_num);
	}
	for (int i = 0; i < N; i++)
		CHECK(drop(cid[i]));
	for (int i = 0; i < N; i++)
		CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, &g));
	for (int i = 0; i < N; i++)
		CHECK(drop(sid[i]));
	return rdma_destroy_id(lid) == 0;
}

static bool calls_in_the_wrong_state(void)
{
	struct rdma_conn_param p = param(4, 4, NULL, 0);
	struct rdma_cm_id *id = new_id(&cli);
	struct joined j;

	CHECK(id != NULL);
	CHECK(rdma_connect(id, &p) == -1);
	CHECK(rdma_accept(id, &p) == -1);
	CHECK(rdma_reject(id, NULL, 0) == -1);
	CHECK(rdma_disconnect(id) == -1);
	CHECK(rdma_resolve_route(id, 100) == -1);
	CHECK(rdma_destroy_id(id) == 0);
	CHECK(join(&j, 8021));
	CHECK(rdma_connect(j.cid, &p) == -1);
	CHECK(rdma_accept(j.sid, &p) == -1);
	CHECK(rdma_listen(j.cid, 1) == -1);
	CHECK(rdma_reject(j.sid, NULL, 0) == -1);
	CHECK(rdma_accept(j.lid, &p) == -1);
	return part(&j);
}

static bool id_moves_to_another_channel(void)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct joined j;

	CHECK(other != NULL && join(&j, 8022));
	CHECK(rdma_migrate_id(j.cid, other) == 0 && j.cid->channel == other);
	CHECK(rdma_disconnect(j.sid) == 0);
	CHECK(want(other, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(quiet(cli.ch, 50));
	CHECK(drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0);
	rdma_destroy_event_channel(other);
	return true;
}

static bool device_talks_to_itself(void)
{
	struct sockaddr_in to = srv.addr;
	struct rdma_cm_id *lid = listen_on(&srv, 8023, 4), *cid = new_id(&srv), *sid = NULL;
	struct rdma_conn_param p = param(4, 4, NULL, 0);
	struct ibv_wc wc[2];
	struct got g;
	int up = 0;

	to.sin_port = htons(8023);
	CHECK(lid != NULL && cid != NULL &&
	      rdma_resolve_addr(cid, (struct sockaddr *)&srv.addr, (struct sockaddr *)&to, 2000) == 0);
	CHECK(want(srv.ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) && rdma_resolve_route(cid, 2000) == 0);
	CHECK(want(srv.ch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) && give_qp(&srv, cid) && rdma_connect(cid, &p) == 0);
	while (up < 2) {
		CHECK(next_event(srv.ch, &g, WAIT_MS));
		if (g.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			sid = g.id;
			CHECK(give_qp(&srv, sid) && rdma_accept(sid, &p) == 0);
		} else {
			CHECK(g.type == RDMA_CM_EVENT_ESTABLISHED);
			up++;
		}
	}
	CHECK(post_recv(&srv, sid, 1, 4096) && post_send(&srv, cid, 2, 4096) && poll_n(&srv, wc, 2));
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
	CHECK(rdma_disconnect(cid) == 0);
	CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	return drop(cid) && drop(sid) && rdma_destroy_id(lid) == 0;
}

static void *blocking_server(void *arg)
{
	struct rdma_cm_id *lid = arg, *sid = NULL;
	struct rdma_conn_param p = param(4, 4, NULL, 0);

	if (rdma_get_request(lid, &sid) != 0 || rdma_accept(sid, &p) != 0)
		return NULL;
	rdma_disconnect(sid);
	rdma_destroy_ep(sid);
	return lid;
}

/* libfabric binds to the loopback address to find out the device. */
static bool loopback_stands_for_the_first_device(void)
{
	struct sockaddr_in lo = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *id = new_id(&srv);
	struct got g;

	CHECK(id != NULL && rdma_bind_addr(id, (struct sockaddr *)&lo) == 0);
	CHECK(id->verbs == srv.verbs && rdma_get_src_port(id) != 0);
	CHECK(rdma_listen(id, 4) == 0);
	lo.sin_port = rdma_get_src_port(id);
	struct rdma_cm_id *cid = new_id(&cli);
	CHECK(cid != NULL && rdma_resolve_addr(cid, NULL, (struct sockaddr *)&lo, 2000) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) && rdma_resolve_route(cid, 2000) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) && give_qp(&cli, cid));
	CHECK(rdma_connect(cid, NULL) == 0 && want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
	CHECK(rdma_reject(g.id, NULL, 0) == 0 && want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL));
	return rdma_destroy_id(g.id) == 0 && drop(cid) && rdma_destroy_id(id) == 0;
}

static bool blocking_calls_without_a_channel(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *here = NULL,
			     *there = NULL;
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct rdma_conn_param p = param(4, 4, NULL, 0);
	struct rdma_cm_id *lid, *cid;
	char text[INET_ADDRSTRLEN];
	void *done = NULL;
	pthread_t t;

	CHECK(inet_ntop(AF_INET, &srv.addr.sin_addr, text, sizeof(text)) != NULL);
	CHECK(rdma_getaddrinfo(text, "8024", &hints, &here) == 0);
	hints.ai_flags = 0;
	CHECK(rdma_getaddrinfo(text, "8024", &hints, &there) == 0);
	CHECK(rdma_create_ep(&lid, here, NULL, &a) == 0 && rdma_listen(lid, 4) == 0);
	CHECK(pthread_create(&t, NULL, blocking_server, lid) == 0);
	CHECK(rdma_create_ep(&cid, there, NULL, &a) == 0);
	CHECK(rdma_connect(cid, &p) == 0);
	CHECK(pthread_join(t, &done) == 0 && done == lid);
	rdma_disconnect(cid); /* the connection may have ended already */
	rdma_destroy_ep(cid);
	rdma_destroy_ep(lid);
	rdma_freeaddrinfo(here);
	rdma_freeaddrinfo(there);
	return true;
}

/* The last case, because it takes long: the peer's program never answers the request. */
static bool request_that_is_never_answered(void)
{
	struct rdma_cm_id *lid = listen_on(&srv, 8025, 4), *cid;
	struct got g;

	CHECK(lid != NULL && (cid = dial(8025, NULL)) != NULL);
	CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
	struct rdma_cm_id *sid = g.id;
	CHECK(next_event(cli.ch, &g, 2 * WAIT_MS));
	CHECK(g.type == RDMA_CM_EVENT_UNREACHABLE && g.status == -ETIMEDOUT);
	CHECK(rdma_destroy_id(sid) == 0);
	return drop(cid) && rdma_destroy_id(lid) == 0;
}

static const struct rig_case cases[] = {
	CASE(connect_and_disconnect_by_client),
	CASE(disconnect_by_server),
	CASE(disconnect_by_both_at_once),
	CASE(destroying_one_side_disconnects_the_other),
	CASE(disconnected_comes_after_the_qp_is_gone),
	CASE(private_data_has_the_room_of_its_messages),
	CASE(private_data_both_ways),
	CASE(reject_with_private_data),
	CASE(nobody_listens),
	CASE(connects_between_bind_and_listen),
	CASE(no_route),
	CASE(neighbour_does_not_answer),
	CASE(listening_on_a_used_port),
	CASE(port_0_is_chosen),
	CASE(listen_on_the_wildcard_address),
	CASE(channel_can_be_polled),
	CASE(id_destroyed_with_events_waiting),
	CASE(id_destroyed_while_resolving_and_connecting),
	CASE(backlog_is_bounded_and_nobody_hangs),
	CASE(hundreds_of_connections_one_after_the_other),
	CASE(hundreds_of_connections_at_once),
	CASE(depths_meet),
	CASE(depth_0_forbids_reads),
	CASE(qp_error_flushes_everything_in_order),
	CASE(last_completion_comes_out_of_a_drain),
	CASE(the_end_is_told_behind_completions),
	CASE(disconnect_lets_posted_sends_through),
	CASE(calls_in_the_wrong_state),
	CASE(id_moves_to_another_channel),
	CASE(device_talks_to_itself),
	CASE(loopback_stands_for_the_first_device),
	CASE(blocking_calls_without_a_channel),
	CASE(request_that_is_never_answered),
};

int main(int argc, char **argv) { return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0])); }
