/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seldom used options of verbs and rdma_cm: options of ids, attributes of queue pairs, and what is told when a message
 * finds no receive. Both ends are in one process, over two devices of one daemon.
 *
 * usage: option_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...]	prints "ok NAME" or "not ok NAME" for each case
 *        option_cases --list
 * RNR_WAITS=1 in the environment: the devices have `rnr = wait`
 */
#include "cm_rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <rnic/rnicdv.h>

static bool adapter(void) { return srv.verbs->device->node_type == IBV_NODE_CA; }

static int set(struct rdma_cm_id *id, int name, uint8_t v) { return rdma_set_option(id, RDMA_OPTION_ID, name, &v, 1); }

static int set_int(struct rdma_cm_id *id, int name, int v)
{
	return rdma_set_option(id, RDMA_OPTION_ID, name, &v, sizeof(v));
}

static bool told(int rc, int err) { return rc == -1 && errno == err; }

static bool options_out_of_range_are_refused(void)
{
	struct rdma_cm_id *id = new_id(&cli), *udp;
	uint16_t two = 1;

	CHECK(id != NULL && rdma_create_id(cli.ch, &udp, NULL, RDMA_PS_UDP) == 0);
	CHECK(set(id, RDMA_OPTION_ID_TOS, 0xb8) == 0 && set(id, RDMA_OPTION_ID_ACK_TIMEOUT, 31) == 0);
	CHECK(set_int(id, RDMA_OPTION_ID_REUSEADDR, 1) == 0 && set_int(id, RDMA_OPTION_ID_AFONLY, 1) == 0);
	CHECK(told(set(id, RDMA_OPTION_ID_ACK_TIMEOUT, 32), EINVAL));
	CHECK(told(set(udp, RDMA_OPTION_ID_ACK_TIMEOUT, 14), EINVAL));
	CHECK(told(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &two, 2), EINVAL));
	CHECK(told(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL));
	CHECK(told(set(id, RDMA_OPTION_ID_AFONLY, 1), EINVAL) && told(set(id, 99, 1), ENOSYS));
	CHECK(told(rdma_set_option(id, 7, 0, &two, 1), ENOSYS));
	CHECK(told(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &two, 2), EOPNOTSUPP));
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&cli.addr) == 0);
	CHECK(told(set_int(id, RDMA_OPTION_ID_AFONLY, 1), EINVAL)); /* the address of the bind has decided the family */
	return rdma_destroy_id(id) == 0 && rdma_destroy_id(udp) == 0;
}

static struct rdma_cm_id *wildcard_of(enum rdma_port_space ps, bool six, bool own, uint16_t port)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct rdma_cm_id *id;

	if (rdma_create_id(srv.ch, &id, NULL, ps) != 0)
		return NULL;
	if ((!own || set_int(id, RDMA_OPTION_ID_AFONLY, 1) == 0) &&
	    rdma_bind_addr(id, six ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4) == 0 && rdma_listen(id, 4) == 0)
		return id;
	int err = errno;
	rdma_destroy_id(id);
	errno = err;
	return NULL;
}

static struct rdma_cm_id *wildcard(bool six, bool own, uint16_t port)
{
	return wildcard_of(RDMA_PS_TCP, six, own, port);
}

/* Two listeners on 0.0.0.0 and on [::] with the same port, as tgtd has them; a request must reach one of the two. */
static bool wildcards_of_both_families_do_not_meet(void)
{
	struct rdma_cm_id *four = wildcard(false, false, 8301), *six = wildcard(true, true, 8301), *cid;
	struct got g;

	CHECK(four != NULL && six != NULL);
	CHECK(wildcard(true, false, 8301) == NULL && errno == EADDRINUSE);
	CHECK((cid = dial(8301, NULL)) != NULL);
	CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g) && g.listen_id == four);
	CHECK(rdma_reject(g.id, NULL, 0) == 0 && want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL));
	CHECK(drop(cid) && rdma_destroy_id(g.id) == 0 && rdma_destroy_id(four) == 0);
	CHECK((cid = dial(8301, NULL)) != NULL &&
	      want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL)); /* the listener on [::] alone takes no IPv4 request */
	CHECK(drop(cid) && rdma_destroy_id(six) == 0 && (six = wildcard(true, false, 8301)) != NULL);
	CHECK((cid = dial(8301, NULL)) != NULL && want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g) &&
	      g.listen_id == six);
	CHECK(rdma_reject(g.id, NULL, 0) == 0 && want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL));
	return drop(cid) && rdma_destroy_id(g.id) == 0 && rdma_destroy_id(six) == 0;
}

static bool a_wildcard_outlives_that_of_the_other_family(void)
{
	struct rdma_cm_id *four = wildcard(false, false, 8303), *six = wildcard(true, true, 8303), *cid;
	struct got g;

	CHECK(four != NULL && six != NULL && rdma_destroy_id(six) == 0);
	CHECK((cid = dial(8303, NULL)) != NULL);
	CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g) && g.listen_id == four);
	CHECK(rdma_reject(g.id, NULL, 0) == 0 && want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL));
	return drop(cid) && rdma_destroy_id(g.id) == 0 && rdma_destroy_id(four) == 0;
}

/* Asks for the queue pair that serves the port over IPv4; `by`, which gets the request, refuses. NULL: nobody has. */
static bool asks(uint16_t port, const struct rdma_cm_id *by)
{
	struct rdma_conn_param p = param(0, 0, NULL, 0);
	struct sockaddr_in to = srv.addr, from = cli.addr;
	struct rdma_cm_id *id;
	struct got g;

	to.sin_port = htons(port);
	CHECK(rdma_create_id(cli.ch, &id, NULL, RDMA_PS_UDP) == 0);
	CHECK(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) && rdma_resolve_route(id, 2000) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) && rdma_connect(id, &p) == 0);
	if (by != NULL) {
		CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g) && g.listen_id == by);
		CHECK(rdma_reject(g.id, NULL, 0) == 0 && rdma_destroy_id(g.id) == 0);
	}
	CHECK(want(cli.ch, RDMA_CM_EVENT_UNREACHABLE, NULL));
	return rdma_destroy_id(id) == 0;
}

static bool wildcards_of_both_families_serve_one_port_of_datagrams(void)
{
	struct rdma_cm_id *four = wildcard_of(RDMA_PS_UDP, false, false, 8304), *six, *both;

	CHECK(four != NULL && (six = wildcard_of(RDMA_PS_UDP, true, true, 8304)) != NULL);
	CHECK(wildcard_of(RDMA_PS_UDP, true, false, 8304) == NULL && errno == EADDRINUSE);
	CHECK(asks(8304, four) && rdma_destroy_id(six) == 0 && asks(8304, four));
	CHECK((six = wildcard_of(RDMA_PS_UDP, true, true, 8304)) != NULL && rdma_destroy_id(four) == 0);
	CHECK(asks(8304, NULL) && rdma_destroy_id(six) == 0);
	CHECK((both = wildcard_of(RDMA_PS_UDP, true, false, 8304)) != NULL && asks(8304, both));
	CHECK(wildcard_of(RDMA_PS_UDP, false, false, 8304) == NULL && errno == EADDRINUSE);
	return rdma_destroy_id(both) == 0;
}

/* A port of RDMA_PS_TCP and one of RDMA_PS_UDP may have one number, as with the kernel's connection manager. */
static bool a_port_of_connections_and_one_of_datagrams_have_one_number(void)
{
	for (int first = 0; first < 2; first++) {
		struct rdma_cm_id *tcp = first ? wildcard_of(RDMA_PS_TCP, false, false, 8305) : NULL, *cid;
		struct rdma_cm_id *udp = wildcard_of(RDMA_PS_UDP, false, false, 8305);
		struct got g;

		CHECK(udp != NULL && (tcp != NULL || (tcp = wildcard_of(RDMA_PS_TCP, false, false, 8305)) != NULL));
		CHECK(wildcard_of(RDMA_PS_UDP, false, false, 8305) == NULL && errno == EADDRINUSE);
		CHECK(wildcard_of(RDMA_PS_TCP, false, false, 8305) == NULL && errno == EADDRINUSE);
		CHECK(asks(8305, udp) && (cid = dial(8305, NULL)) != NULL);
		CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g) && g.listen_id == tcp);
		CHECK(rdma_reject(g.id, NULL, 0) == 0 && want(cli.ch, RDMA_CM_EVENT_REJECTED, NULL));
		CHECK(drop(cid) && rdma_destroy_id(g.id) == 0);
		/* the one that ends does not take the other's port along */
		CHECK(rdma_destroy_id(first ? tcp : udp) == 0);
		CHECK(wildcard_of(first ? RDMA_PS_UDP : RDMA_PS_TCP, false, false, 8305) == NULL &&
		      errno == EADDRINUSE);
		CHECK(rdma_destroy_id(first ? udp : tcp) == 0);
	}
	return true;
}

static int timeout_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(qp, &a, IBV_QP_TIMEOUT, &init) == 0 ? a.timeout : -1;
}

static struct rdma_cm_id *client_with(uint16_t port, uint8_t tos, uint8_t timeout)
{
	struct rdma_conn_param p = param(4, 4, NULL, 0);
	struct rdma_cm_id *id = route_to(port);

	if (id == NULL || set(id, RDMA_OPTION_ID_TOS, tos) != 0 || set(id, RDMA_OPTION_ID_ACK_TIMEOUT, timeout) != 0)
		return NULL;
	return rdma_connect(id, &p) == 0 ? id : NULL;
}

/* The newest perftest sets both options on each id. test_options.py checks them in the packets. */
static bool options_of_a_connection_are_kept(void)
{
	struct joined j;

	CHECK((j.lid = new_id(&srv)) != NULL && set(j.lid, RDMA_OPTION_ID_ACK_TIMEOUT, 13) == 0);
	CHECK(set(j.lid, RDMA_OPTION_ID_TOS, 0x48) == 0);
	struct sockaddr_in a = srv.addr;
	a.sin_port = htons(8302);
	CHECK(rdma_bind_addr(j.lid, (struct sockaddr *)&a) == 0 && rdma_listen(j.lid, 4) == 0);
	CHECK((j.cid = client_with(8302, 0xbb, 14)) != NULL && (j.sid = answer(NULL)) != NULL);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(timeout_of(j.cid->qp) == 14 && timeout_of(j.sid->qp) == 13);
	struct ibv_wc wc;
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_send(&cli, j.cid, 2, 64));
	CHECK(poll_n(&srv, &wc, 1) && wc.status == IBV_WC_SUCCESS && poll_n(&cli, &wc, 1) &&
	      wc.status == IBV_WC_SUCCESS);
	return part(&j);
}

static bool meets(struct joined *j)
{
	CHECK(j->lid != NULL && j->cid != NULL && (j->sid = answer(NULL)) != NULL);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	return true;
}

/* Two clients send to a peer that no longer answers. The client with ACK_TIMEOUT gets an error before the other one. */
static bool a_silent_peer_is_waited_for_no_longer_than_asked(void)
{
	struct joined as_tcp = { .lid = listen_on(&srv, 8305, 4), .cid = dial(8305, NULL) };
	CHECK(meets(&as_tcp));
	struct joined a_moment = { .lid = listen_on(&srv, 8306, 4), .cid = client_with(8306, 0, 1) };
	CHECK(meets(&a_moment));
	struct ibv_wc wc;

	puts("joined");
	CHECK(getchar() == '\n'); /* test_options.py has made the wire silent */
	CHECK(post_send(&cli, as_tcp.cid, 1, 64) && post_send(&cli, a_moment.cid, 2, 64));
	CHECK(poll_n(&cli, &wc, 1) && wc.wr_id == 2 && wc.status == IBV_WC_RETRY_EXC_ERR);
	struct got g;
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, &g) && g.id == a_moment.cid);
	return true;
}

/* A queue pair cannot go from INIT to RTS without RTR. An ibv_modify_qp() that fails changes no attribute, either. */
static bool a_modify_that_fails_changes_nothing(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .qp_access_flags = IBV_ACCESS_REMOTE_READ, .timeout = 9 }, is;
	struct ibv_qp *qp = qp_new(&cli, IBV_QPT_RC);
	struct ibv_qp_init_attr init;

	CHECK(qp != NULL && qp_init(qp) == 0);
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_TIMEOUT) == EINVAL);
	CHECK(ibv_query_qp(qp, &is, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, &init) == 0 && qp->state == IBV_QPS_INIT);
	CHECK(is.qp_state == IBV_QPS_INIT && is.qp_access_flags == 7 && is.timeout == 0);
	return ibv_destroy_qp(qp) == 0;
}

/*
 * The state in the program's struct ibv_qp changes only when the program queries the state; UCX checks that it has not
 * changed.
 */
static bool a_query_does_not_write_a_state_that_was_not_asked_for(void)
{
	struct ibv_qp *qp = qp_new(&cli, IBV_QPT_RC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(qp != NULL && qp_init(qp) == 0);
	qp->state = IBV_QPS_RESET;
	CHECK(ibv_query_qp(qp, &a, IBV_QP_CAP, &init) == 0 && qp->state == IBV_QPS_RESET);
	CHECK(ibv_query_qp(qp, &a, IBV_QP_STATE, &init) == 0 && qp->state == IBV_QPS_INIT);
	return ibv_destroy_qp(qp) == 0;
}

/*
 * A message finds no receive. InfiniBand has a status of its own for this, for which its programs check; iWARP ends the
 * stream (RFC 5041, 7.1).
 */
static bool no_receive_is_no_bad_request_of_an_adapter(void)
{
	struct rdma_conn_param p = param(4, 4, NULL, 0);
	bool waits = getenv("RNR_WAITS") != NULL;
	struct ibv_wc wc;
	struct joined j;

	p.rnr_retry_count = 0;
	CHECK(join_with(&j, 8303, &p, &p));
	CHECK(post_send(&cli, j.cid, 1, 64));
	if (waits) {
		CHECK(no_wc(&srv, 100) && post_recv(&srv, j.sid, 2, 64) && poll_n(&srv, &wc, 1));
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 && poll_n(&cli, &wc, 1) &&
		      wc.status == IBV_WC_SUCCESS);
		return part(&j);
	}
	CHECK(poll_n(&cli, &wc, 1));
	if (wc.status != (adapter() ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_REM_INV_REQ_ERR)) {
		printf("# %s\n", ibv_wc_status_str(wc.status));
		return false;
	}
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	async_sweep(cli.verbs);
	async_sweep(srv.verbs);
	return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}

/*
 * The program may use its buffer again as soon as a Send has completed, and the Send may complete while its message
 * waits for a receive. Where messages do not wait, there is nothing to test.
 */
static bool a_message_that_waits_keeps_the_bytes_that_were_sent(void)
{
	const uint32_t len = 20000;
	struct rdma_conn_param p = param(4, 4, NULL, 0);
	struct ibv_wc wc;
	struct joined j;

	if (getenv("RNR_WAITS") == NULL) {
		printf("# SKIP messages do not wait for receives on this device\n");
		return true;
	}
	p.rnr_retry_count = 7;
	CHECK(join_with(&j, 8309, &p, &p));
	memset(cli.buf, 'a', len);
	memset(srv.buf, 0, len);
	CHECK(post_send(&cli, j.cid, 1, len));
	const bool early = !no_wc(&cli, 300);
	if (early)
		memset(cli.buf, 'b', len);
	CHECK(post_recv(&srv, j.sid, 2, len) && poll_n(&srv, &wc, 1) && wc.status == IBV_WC_SUCCESS &&
	      wc.byte_len == len);
	for (uint32_t i = 0; i < len; i++)
		CHECK(srv.buf[i] == 'a');
	CHECK(early || (poll_n(&cli, &wc, 1) && wc.status == IBV_WC_SUCCESS));
	return part(&j);
}

/* UCX and others read into several buffers with one work request; on the wire each buffer has its own Read Request. */
static bool a_read_fills_several_sinks_and_completes_once(void)
{
	const struct ibv_qp_cap one = caps;
	struct ibv_device_attr dev;
	struct ibv_sge sge[4];
	struct ibv_wc wc;
	struct joined j;

	CHECK(ibv_query_device(cli.verbs, &dev) == 0 && dev.max_sge_rd == dev.max_sge);
	caps.max_send_sge = 4;
	bool up = join(&j, 8304);
	caps = one;
	CHECK(up);
	for (uint32_t i = 0; i < BUF_LEN; i++)
		srv.buf[i] = (uint8_t)(i * 3 + (i >> 8));
	memset(cli.buf, 0, BUF_LEN);
	for (uint32_t i = 0; i < 4; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)cli.buf + i * 8192, 1000 * (i + 1), cli.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = sge, .num_sge = 4, .opcode = IBV_WR_RDMA_READ }, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)srv.buf;
	wr.wr.rdma.rkey = srv.mr->rkey;
	for (int round = 0; round < 20; round++)
		CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == 0);
	for (int round = 0; round < 20; round++)
		CHECK(poll_n(&cli, &wc, 1) && wc.status == IBV_WC_SUCCESS && wc.wr_id == 7 && wc.byte_len == 10000);
	for (uint32_t i = 0, at = 0; i < 4; at += 1000 * ++i)
		CHECK(memcmp(cli.buf + i * 8192, srv.buf + at, 1000 * (i + 1)) == 0 &&
		      cli.buf[i * 8192 + 1000 * (i + 1)] == 0);
	return no_wc(&cli, 20) && part(&j);
}

static struct ibv_qp *qp_of_design(struct end *e, uint32_t design)
{
	struct ibv_qp_init_attr_ex a = { .send_cq = e->cq,
					 .recv_cq = e->cq,
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = caps,
					 .pd = e->pd,
					 .comp_mask = IBV_QP_INIT_ATTR_PD };
	const struct rnicdv_qp_attr dv = { .comp_mask = RNICDV_QP_ATTR_DESIGN, .design = design };

	return rnicdv_create_qp(e->verbs, &a, &dv);
}

/* Gives the id a queue pair of this design. */
static bool give_design(struct end *e, struct rdma_cm_id *id, uint32_t design)
{
	if (id->qp != NULL)
		rdma_destroy_qp(id);
	CHECK((id->qp = qp_of_design(e, design)) != NULL);
	return qp_init(id->qp) == 0;
}

static bool moves_data(struct joined *j)
{
	struct ibv_wc wc;

	for (uint32_t len = 1; len < BUF_LEN; len = len * 5 + 3) {
		memset(cli.buf, (int)len, len);
		CHECK(post_recv(&srv, j->sid, 1, BUF_LEN) && post_send(&cli, j->cid, 2, len));
		CHECK(poll_n(&srv, &wc, 1) && wc.status == IBV_WC_SUCCESS && wc.byte_len == len);
		CHECK(poll_n(&cli, &wc, 1) && wc.status == IBV_WC_SUCCESS && memcmp(srv.buf, cli.buf, len) == 0);
	}
	return true;
}

/*
 * Two environment variables, with a digit of enum rnicdv_design for each design. DESIGNS: the designs that queue pairs
 * of this process may have; not set: rnicd's own design. TRIES: the designs to try, 0 for the design of the process;
 * not set: all.
 */
static bool a_queue_pair_has_the_design_that_it_asks_for_or_is_refused(void)
{
	const char *designs = getenv("DESIGNS"), *may = designs != NULL ? designs : "1", *tries = getenv("TRIES");
	struct got g;
	struct joined j;

	for (uint32_t d = 0; d < 7; d++) {
		if (tries != NULL && strchr(tries, '0' + (int)d) == NULL)
			continue;
		if (d != 0 && strchr(may, '0' + (int)d) == NULL) {
			CHECK(qp_of_design(&cli, d) == NULL && errno == EOPNOTSUPP);
			continue;
		}
		CHECK((j.lid = listen_on(&srv, (uint16_t)(8310 + d), 4)) != NULL);
		CHECK((j.cid = route_to((uint16_t)(8310 + d))) != NULL && give_design(&cli, j.cid, d));
		struct rdma_conn_param p = param(1, 1, NULL, 0);
		CHECK(rdma_connect(j.cid, &p) == 0 && want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
		j.sid = g.id;
		CHECK(give_design(&srv, j.sid, d) && rdma_accept(j.sid, &p) == 0);
		CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
		CHECK(moves_data(&j) && part(&j));
	}
	return true;
}

static const struct rig_case cases[] = {
	CASE(options_out_of_range_are_refused),
	CASE(wildcards_of_both_families_do_not_meet),
	CASE(a_wildcard_outlives_that_of_the_other_family),
	CASE(wildcards_of_both_families_serve_one_port_of_datagrams),
	CASE(a_port_of_connections_and_one_of_datagrams_have_one_number),
	CASE(options_of_a_connection_are_kept),
	CASE(a_silent_peer_is_waited_for_no_longer_than_asked),
	CASE(a_modify_that_fails_changes_nothing),
	CASE(a_query_does_not_write_a_state_that_was_not_asked_for),
	CASE(a_read_fills_several_sinks_and_completes_once),
	CASE(no_receive_is_no_bad_request_of_an_adapter),
	CASE(a_message_that_waits_keeps_the_bytes_that_were_sent),
	CASE(a_queue_pair_has_the_design_that_it_asks_for_or_is_refused),
};

int main(int argc, char **argv) { return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0])); }
