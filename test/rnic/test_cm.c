/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_cm: ids, their events, and the guarantees between the two that programs rely on. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "cm_rig.h"
#include "rnic/cm/cm.h"

/* Ids for datagrams: the queue pair is ready at once, and the event has the address to send to. */
static void datagram_ids(void **state)
{
	struct sockaddr_in dst = addr(1, 5000), src = addr(1, 6000);
	struct rdma_conn_param p = { .private_data = "question", .private_data_len = 9 };
	struct ibv_qp_init_attr rc = { .cap = { 10, 10, 1, 1, 0 }, .qp_type = IBV_QPT_RC }, ud = rc;
	struct rdma_cm_id *id, *l;
	struct rdma_cm_event *ev;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	int mask;

	ud.qp_type = IBV_QPT_UD;
	assert_int_equal(rdma_create_id(ch, &id, state, RDMA_PS_UDP), 0);
	assert_int_equal(client()->last.cm_create_id.datagram, 1);
	assert_true(id->ps == RDMA_PS_UDP && id->qp_type == IBV_QPT_UD);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 2000), 0);
	raise_event(RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_RESOLVED));
	assert_int_equal(rdma_create_qp(id, NULL, &rc), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_qp(id, NULL, &ud), 0);
	assert_int_equal(id->qp->state, IBV_QPS_RTS);
	assert_int_equal(client()->qp[id->qp->handle].shm->state, IBV_QPS_RTS);
	assert_int_equal(rdma_init_qp_attr(id, &a, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	assert_int_equal(a.qkey, RDMA_UDP_QKEY);
	assert_int_equal(rdma_connect(id, &p), 0);
	assert_int_equal(client()->last.cm_connect.param.priv_len, 9);
	struct ipc_cm_event up = { .type = RDMA_CM_EVENT_ESTABLISHED,
				   .id = cm_id(id)->handle,
				   .dev = 1,
				   .qpn = 0x123,
				   .qkey = 0x01234567,
				   .local = ipc(2, 4000),
				   .remote = ipc(1, 5000),
				   .param = { .priv_len = 6, .priv = "answer" } };
	fake_cm(client(), &up);
	ev = next(RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(ev->param.ud.qp_num, 0x123);
	assert_int_equal(ev->param.ud.qkey, 0x01234567);
	assert_int_equal(ev->param.ud.private_data_len, 6);
	assert_memory_equal(ev->param.ud.private_data, "answer", 6);
	assert_int_equal(ev->param.ud.ah_attr.is_global, 1);
	assert_int_equal(ev->param.ud.ah_attr.port_num, 1);
	assert_memory_equal(ev->param.ud.ah_attr.grh.dgid.raw, up.remote.ip, 16);
	rdma_ack_cm_event(ev);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);

	assert_int_equal(rdma_create_id(ch, &l, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(l, (struct sockaddr *)&src), 0);
	assert_int_equal(rdma_listen(l, 3), 0);
	raise_request(l, 40);
	ev = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_memory_equal(ev->param.ud.private_data, "hello", 5);
	struct rdma_cm_id *child = ev->id;
	assert_true(child->ps == RDMA_PS_UDP && child->qp_type == IBV_QPT_UD);
	rdma_ack_cm_event(ev);
	ud = (struct ibv_qp_init_attr){ .cap = { 10, 10, 1, 1, 0 },
					/*
					 * set again, because the first rdma_create_qp() has changed the attributes
					 */
					.qp_type = IBV_QPT_UD };
	assert_int_equal(rdma_create_qp(child, NULL, &ud), 0);
	assert_int_equal(rdma_accept(child, NULL), 0);
	assert_int_equal(client()->last.type, IPC_CM_ACCEPT);
	assert_int_equal(client()->last.cm_connect.qp, child->qp->handle);
	rdma_destroy_qp(child);
	assert_int_equal(rdma_destroy_id(child), 0);
	assert_int_equal(rdma_destroy_id(l), 0);
}

static void active_side(void **state)
{
	struct sockaddr_in dst = addr(1, 5000);
	struct rdma_cm_id *id;
	char data[] = "private";
	struct rdma_conn_param p = { .private_data = data,
				     .private_data_len = sizeof(data),
				     .responder_resources = 2,
				     .initiator_depth = RDMA_MAX_INIT_DEPTH };
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_create_id(ch, &id, state, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, NULL, 100), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 2000), 0);
	assert_int_equal(client()->last.cm_resolve.timeout_ms, 2000);
	assert_int_equal(client()->last.cm_resolve.has_src, 0);
	assert_int_equal(client()->last.cm_resolve.dst.port, 5000);
	assert_null(id->verbs);
	raise_event(RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	ev = next(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_ptr_equal(ev->id, id);
	rdma_ack_cm_event(ev);
	assert_string_equal(ibv_get_device_name(id->verbs->device), "rnic1");
	assert_int_equal(id->port_num, 1);
	assert_non_null(id->pd);
	assert_int_equal(ntohs(rdma_get_src_port(id)), 4000);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 5000);
	assert_int_equal(rdma_get_local_addr(id)->sa_family, AF_INET);
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	raise_event(RDMA_CM_EVENT_ROUTE_RESOLVED, id, 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ROUTE_RESOLVED));

	struct ibv_qp_init_attr qa = { .cap = { 10, 10, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	assert_int_equal(rdma_create_qp(id, NULL, &qa), 0);
	assert_non_null(id->send_cq);
	assert_non_null(id->recv_cq_channel);
	assert_int_equal(rdma_connect(id, &p), 0);
	const struct ipc_cm_connect *c = &client()->last.cm_connect;
	assert_int_equal(c->qp, id->qp->handle);
	assert_int_equal(c->param.ird, 2);
	assert_int_equal(c->param.ord, 32); /* the device's maximum */
	assert_int_equal(c->param.priv_len, sizeof(data));
	assert_memory_equal(c->param.priv, data, sizeof(data));
	raise_event(RDMA_CM_EVENT_ESTABLISHED, id, 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ESTABLISHED));
	assert_int_equal(id->qp->state, IBV_QPS_RTS);
	assert_int_equal(rdma_disconnect(id), 0);
	/* An id whose queue pair is destroyed still gets DISCONNECTED. */
	rdma_destroy_qp(id);
	assert_null(id->qp);
	assert_null(id->send_cq);
	raise_event(RDMA_CM_EVENT_DISCONNECTED, id, 0);
	ev = next(RDMA_CM_EVENT_DISCONNECTED);
	assert_ptr_equal(ev->id->context, state);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void passive_side(void **state)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *id;
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_create_id(ch, &id, state, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	assert_int_equal(ntohs(rdma_get_src_port(id)), 54321);
	assert_null(id->verbs);
	assert_int_equal(rdma_listen(id, 5), 0);
	raise_request(id, 40);
	ev = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(ev->listen_id, id);
	assert_ptr_not_equal(ev->id, id);
	assert_ptr_equal(ev->id->context, state);
	assert_string_equal(ibv_get_device_name(ev->id->verbs->device), "rnic0");
	assert_int_equal(ev->param.conn.private_data_len, 5);
	assert_memory_equal(ev->param.conn.private_data, "hello", 5);
	assert_int_equal(ev->param.conn.responder_resources, 7);
	assert_int_equal(ev->param.conn.initiator_depth, 3);
	assert_int_equal(ev->param.conn.rnr_retry_count, 0); /* iWARP has no such count */
	assert_int_equal(ntohs(rdma_get_dst_port(ev->id)), 4000);
	struct rdma_cm_id *child = ev->id;
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_accept(child, NULL), -1);
	assert_int_equal(errno, EINVAL);
	struct ibv_qp_init_attr qa = { .cap = { 10, 10, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	assert_int_equal(rdma_create_qp(child, NULL, &qa), 0);
	assert_int_equal(rdma_accept(child, NULL), 0);
	assert_int_equal(client()->last.cm_connect.param.ird, 7);
	assert_int_equal(client()->last.cm_connect.param.ord, 3);
	raise_event(RDMA_CM_EVENT_ESTABLISHED, child, 0);
	ev = next(RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(ev->id, child);
	rdma_ack_cm_event(ev);
	rdma_destroy_qp(child);
	assert_int_equal(rdma_destroy_id(child), 0);

	/* A request that is refused with private data. */
	raise_request(id, 41);
	ev = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject(ev->id, "no", 2), 0);
	assert_int_equal(client()->last.cm_reject.priv_len, 2);
	child = ev->id;
	rdma_ack_cm_event(ev);
	rdma_destroy_id(child);

	/* Connection requests that were not fetched end with the listener. */
	raise_request(id, 42);
	raise_request(id, 43);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_false(client()->id[42].used);
	assert_false(client()->id[43].used);
	assert_no_event();
}

static void *destroy_it(void *arg)
{
	rdma_destroy_id(arg);
	return NULL;
}

static void destroying_waits_for_acknowledgements(void **state)
{
	struct rdma_cm_id *id, *other;
	struct rdma_cm_event *ev;
	pthread_t t;

	(void)state;
	rdma_create_id(ch, &id, NULL, RDMA_PS_TCP);
	rdma_create_id(ch, &other, NULL, RDMA_PS_TCP);
	raise_event(RDMA_CM_EVENT_ADDR_ERROR, id, -EHOSTUNREACH);
	raise_event(RDMA_CM_EVENT_ROUTE_ERROR, other, -ETIMEDOUT);
	raise_event(RDMA_CM_EVENT_ADDR_ERROR, id, -EHOSTUNREACH);
	ev = next(RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(ev->status, -EHOSTUNREACH);
	pthread_create(&t, NULL, destroy_it, id);
	usleep(20000);
	assert_int_equal(pthread_tryjoin_np(t, NULL), EBUSY);
	rdma_ack_cm_event(ev);
	pthread_join(t, NULL);
	ev = next(RDMA_CM_EVENT_ROUTE_ERROR);
	assert_ptr_equal(ev->id, other);
	rdma_ack_cm_event(ev);
	assert_no_event();
	rdma_destroy_id(other);
}

static void addresses(void **state)
{
	struct sockaddr_in in = addr(9, 1234);
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(77), .sin6_scope_id = 3 };
	struct sockaddr_storage back;
	struct sockaddr odd = { .sa_family = AF_UNIX };
	struct ipc_addr a;

	(void)state;
	assert_int_equal(cm_addr_from(&a, (struct sockaddr *)&in), 0);
	cm_addr_to(&back, &a);
	assert_memory_equal(&back, &in, sizeof(in));
	inet_pton(AF_INET6, "2001:db8::5", &in6.sin6_addr);
	assert_int_equal(cm_addr_from(&a, (struct sockaddr *)&in6), 0);
	cm_addr_to(&back, &a);
	assert_memory_equal(&back, &in6, sizeof(in6));
	assert_int_equal(cm_addr_from(&a, &odd), EAFNOSUPPORT);
	/* libfabric calls rdma_getaddrinfo() with hints only. */
	struct rdma_addrinfo hints = { .ai_src_addr = (struct sockaddr *)&in, .ai_src_len = sizeof(in) }, *res;
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_memory_equal(res->ai_src_addr, &in, sizeof(in));
	assert_null(res->ai_dst_addr);
	rdma_freeaddrinfo(res);
	/*
	 * libfabric asks for localhost to find a device, and gets the first one; a numeric address is taken literally.
	 */
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_PASSIVE, .ai_family = AF_INET };
	struct sockaddr_in *got;
	assert_int_equal(rdma_getaddrinfo("localhost", NULL, &hints, &res), 0);
	got = (struct sockaddr_in *)(void *)res->ai_src_addr;
	assert_int_equal(ntohl(got->sin_addr.s_addr) >> 24, 192);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), 0);
	got = (struct sockaddr_in *)(void *)res->ai_src_addr;
	assert_int_equal(ntohl(got->sin_addr.s_addr), INADDR_LOOPBACK);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &res), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_getaddrinfo("no.such.host.invalid", NULL,
					  &(struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST }, &res),
			 -1);
}

static void the_port_space_of_datagrams_does_not_mean_a_connection(void **state)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_UDP }, *res;
	/* tftp is a service of udp only; the system may know no services. */
	const char *service = getservbyname("tftp", "udp") != NULL ? "tftp" : "69";
	const struct sockaddr_in *got;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("192.0.2.1", service, &hints, &res), 0);
	assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
	assert_int_equal(res->ai_port_space, RDMA_PS_UDP);
	got = (const struct sockaddr_in *)(const void *)res->ai_dst_addr;
	assert_int_equal(ntohs(got->sin_port), 69);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_qp_type = IBV_QPT_UD };
	assert_int_equal(rdma_getaddrinfo("192.0.2.1", service, &hints, &res), 0);
	assert_int_equal(res->ai_port_space, RDMA_PS_UDP);
	rdma_freeaddrinfo(res);
}

static void joined(struct rdma_cm_id *id, uint32_t number, int status)
{
	struct ipc_cm_event ev = { .type = RDMA_CM_EVENT_MULTICAST_JOIN,
				   .status = status,
				   .id = cm_id(id)->handle,
				   .dev = 1,
				   .join = number,
				   .qpn = 0xffffff,
				   .qkey = RDMA_UDP_QKEY,
				   .local = ipc(2, 4000) };

	memcpy(ev.remote.ip, client()->last.cm_join.group, 16);
	fake_cm(client(), &ev);
}

/* The event of joining attaches the queue pair, and leaving detaches it. An id that only sends is not attached. */
static void groups_of_an_id(void **state)
{
	static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 1, 1 }, none[16];
	struct sockaddr_in dst = addr(1, 5000), g = addr(1, 0);
	struct rdma_cm_join_mc_attr_ex ex = { .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS,
					      .addr = (struct sockaddr *)&g,
					      .join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER };
	struct ibv_qp_init_attr ud = { .cap = { 10, 10, 1, 1, 0 }, .qp_type = IBV_QPT_UD };
	struct rdma_cm_id *id, *tcp;
	struct rdma_cm_event *ev;
	int mine;

	(void)state;
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_create_id(ch, &tcp, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 2000), 0);
	raise_event(RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_RESOLVED));
	assert_int_equal(rdma_create_qp(id, NULL, &ud), 0);
	struct fake_qp *q = &client()->qp[id->qp->handle];

	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&g, NULL), -1); /* 192.0.2.1 */
	assert_int_equal(errno, EINVAL);
	g.sin_addr.s_addr = htonl(0xef010101);
	assert_int_equal(rdma_join_multicast(tcp, (struct sockaddr *)&g, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_join_multicast_ex(id, &ex, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&g), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);

	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&g, &mine), 0);
	assert_int_equal(client()->last.cm_join.send_only, 0);
	assert_memory_equal(client()->last.cm_join.group, group, 16);
	joined(id, client()->last.cm_join.join, 0);
	ev = next(RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(ev->status, 0);
	assert_ptr_equal(ev->param.ud.private_data, &mine);
	assert_memory_equal(ev->param.ud.ah_attr.grh.dgid.raw, group, 16);
	assert_true(ev->param.ud.ah_attr.is_global && ev->param.ud.ah_attr.grh.hop_limit == 64);
	assert_int_equal(ev->param.ud.qp_num, 0xffffff);
	assert_int_equal(ev->param.ud.qkey, RDMA_UDP_QKEY);
	rdma_ack_cm_event(ev);
	assert_memory_equal(q->group, group, 16);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&g), 0);
	assert_memory_equal(q->group, none, 16);

	ex.comp_mask |= RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	assert_int_equal(rdma_join_multicast_ex(id, &ex, &mine), 0);
	assert_int_equal(client()->last.cm_join.send_only, 1);
	joined(id, client()->last.cm_join.join, 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_MULTICAST_JOIN));
	assert_memory_equal(q->group, none, 16);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&g), 0);

	/* an event that is not fetched before the id leaves is discarded */
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&g, &mine), 0);
	joined(id, client()->last.cm_join.join, 0);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&g), 0);
	assert_no_event();

	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&g, &mine), 0);
	joined(id, client()->last.cm_join.join, -EIO);
	ev = next(RDMA_CM_EVENT_MULTICAST_ERROR);
	assert_int_equal(ev->status, -EIO);
	assert_ptr_equal(ev->param.ud.private_data, &mine);
	rdma_ack_cm_event(ev);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(tcp), 0);
}

/* Ids get an event when their device goes away with its daemon. */
static void the_daemon_dies(void **state)
{
	struct sockaddr_in dst = addr(1, 5000);
	struct rdma_cm_id *id;
	struct rdma_cm_event *ev;

	(void)state;
	rdma_create_id(ch, &id, NULL, RDMA_PS_TCP);
	rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 100);
	raise_event(RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_RESOLVED));
	fake_stop(fake);
	ev = next(RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_ptr_equal(ev->id, id);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_get_cm_event(ch, &ev), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(rdma_destroy_id(id), 0);
	fake = fake_start();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(active_side),
		cmocka_unit_test(datagram_ids),
		cmocka_unit_test(groups_of_an_id),
		cmocka_unit_test(passive_side),
		cmocka_unit_test(destroying_waits_for_acknowledgements),
		cmocka_unit_test(addresses),
		cmocka_unit_test(the_port_space_of_datagrams_does_not_mean_a_connection),
		cmocka_unit_test(the_daemon_dies),
	};

	return cmocka_run_group_tests(tests, cm_setup, cm_teardown);
}
