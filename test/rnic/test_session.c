/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection to the daemon: no daemon, a wrong one, one that dies, and a connection inherited by fork(). */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rnic/rnic.h>

#include "fake.h"
#include "rnic/verbs/objects.h"

static struct fake *fake;

static int quiet(void **state)
{
	(void)state;
	return getenv("RNIC_REG_VERBOSE") == NULL ? setenv("RNIC_REG_VERBOSE", "0", 1) : 0;
}

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list != NULL ? ibv_open_device(list[0]) : NULL;

	ibv_free_device_list(list);
	return c;
}

/* Runs what() in a process of its own; text is what it prints on stderr. Returns its exit status. */
static int said(void (*what)(void), char *text, size_t room)
{
	int p[2], st;
	size_t n = 0;
	ssize_t k;

	assert_int_equal(pipe(p), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(p[1], 2);
		unsetenv("RNIC_REG_VERBOSE");
		what();
		_exit(0);
	}
	close(p[1]);
	while ((k = read(p[0], text + n, room - 1 - n)) > 0)
		n += (size_t)k;
	text[n] = '\0';
	close(p[0]);
	waitpid(pid, &st, 0);
	return st;
}

static void list_devices(void)
{
	int n = 7;

	ibv_get_device_list(NULL); /* the reason is printed once only */
	if (ibv_get_device_list(&n) != NULL || errno != ENOSYS || n != 0)
		_exit(1);
}

static void without_a_daemon(void **state)
{
	char text[1000];

	(void)state;
	setenv("RNICD_SOCKET", "/nonexistent/rnicd.sock", 1);
	assert_int_equal(said(list_devices, text, sizeof(text)), 0);
	assert_string_equal(text,
			    "rnic: rnicd is not running at /nonexistent/rnicd.sock: "
			    "start it, set RNICD_SOCKET, or run the program without a daemon (rnicrun --embedded)\n");
	assert_null(rdma_create_event_channel());
	assert_int_equal(errno, ENODEV);
	assert_null(rnic_alloc(100));
	assert_int_equal(errno, ENODEV);
	assert_null(rdma_get_devices(NULL));
}

static void list_of_another_version(void)
{
	ibv_get_device_list(NULL);
	if (ibv_get_device_list(NULL) != NULL || errno != EPROTO)
		_exit(1);
}

static void list_once(void)
{
	if (ibv_get_device_list(NULL) != NULL || errno != EPROTO)
		_exit(1);
}

static void another_version(void **state)
{
	char text[1000], wanted[200];

	(void)state;
	fake = fake_start();
	for (int d = -1; d <= 1; d += 2) { /* this daemon does not check the client's version itself */
		fake_version(fake, (uint32_t)(IPC_VERSION + d));
		snprintf(wanted, sizeof(wanted),
			 "rnic: librnic speaks version %d of the control protocol, rnicd version %d: "
			 "install both from one release and restart rnicd\n",
			 IPC_VERSION, IPC_VERSION + d);
		assert_int_equal(said(list_of_another_version, text, sizeof(text)), 0);
		assert_string_equal(text, wanted);
		assert_null(ibv_get_device_list(NULL));
		assert_int_equal(errno, EPROTO);
	}
	fake_version(fake, IPC_VERSION);
	fake_refuse(fake, EPROTO, "what rnicd says of the versions");
	assert_int_equal(said(list_once, text, sizeof(text)), 0);
	assert_string_equal(text, "rnic: rnicd refuses this client: what rnicd says of the versions\n");
	fake_refuse(fake, EUSERS, "as many clients as there may be");
	assert_null(ibv_get_device_list(NULL));
	assert_int_equal(errno, EUSERS);
	fake_stop(fake);
}

/* Features that the device lacks: the call returns the right errno, and prints one sentence with an alternative. */
static void ask_for_what_is_not_there(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list != NULL ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = c != NULL ? ibv_alloc_pd(c) : NULL;
	struct ibv_cq *cq = c != NULL ? ibv_create_cq(c, 8, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr raw = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET };
	struct ibv_ah_attr ah = { .port_num = 1, .is_global = 1, .grh.dgid.raw = { 0xff, 0x0e, [15] = 1 } };
	struct ibv_ece ece;
	struct rdma_cm_id *id, *tcp;
	uint8_t path = 8;
	char byte;

	if (pd == NULL || cq == NULL || rdma_create_id(NULL, &tcp, NULL, RDMA_PS_TCP) != 0)
		_exit(1);
	for (int i = 0; i < 2; i++) {
		if (ibv_create_qp(pd, &raw) != NULL || errno != EOPNOTSUPP)
			_exit(3);
		if (ibv_create_ah(pd, &ah) != NULL || errno != EOPNOTSUPP)
			_exit(4);
		if (ibv_reg_mr(pd, &byte, 1, IBV_ACCESS_ON_DEMAND) != NULL || errno != EOPNOTSUPP)
			_exit(5);
		if (ibv_reg_dmabuf_mr(pd, 0, 1, 0, -1, 0) != NULL || errno != EOPNOTSUPP)
			_exit(6);
		if (rdma_create_id(NULL, &id, NULL, RDMA_PS_IPOIB) != -1 || errno != EPROTONOSUPPORT)
			_exit(7);
		if (rdma_set_option(tcp, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, 1) != -1 || errno != EOPNOTSUPP)
			_exit(9);
		if (ibv_query_ece(&(struct ibv_qp){ .context = c }, &ece) !=
		    EOPNOTSUPP) /* prints no sentence: programs that ask for ECE also work without it */
			_exit(8);
	}
}

static void what_is_not_there_is_told_once(void **state)
{
	char text[2000];

	(void)state;
	fake = fake_start();
	assert_int_equal(said(ask_for_what_is_not_there, text, sizeof(text)), 0);
	assert_string_equal(
		text,
		"rnic: ibv_create_qp: the types of queue pairs are IBV_QPT_RC, IBV_QPT_UC and IBV_QPT_UD, and with "
		"qp-port IBV_QPT_XRC_SEND and IBV_QPT_XRC_RECV\n"
		"rnic: ibv_create_ah: the group's address and the device's are not both of IPv4, or both of IPv6\n"
		"rnic: ibv_reg_mr: on-demand paging is not supported: register without IBV_ACCESS_ON_DEMAND\n"
		"rnic: rdma_create_id: the port spaces are RDMA_PS_TCP, RDMA_PS_IB and RDMA_PS_UDP\n"
		"rnic: rdma_set_option: a path record is InfiniBand's: call rdma_resolve_route() in its place\n");
	fake_stop(fake);
}

/*
 * Inline functions of verbs.h call through pointers in the context. For a feature that the device lacks, the function
 * returns an error; programs that try such a feature also work without it.
 */
static void what_a_software_device_has_not(void **state)
{
#define NONE(call) \
	do { \
		errno = 0; \
		assert_null(call); \
		assert_int_equal(errno, EOPNOTSUPP); \
	} while (0)
#define REFUSED(call) assert_int_equal(call, EOPNOTSUPP)
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_ops_wr ops = { 0 }, *bad_op;
	struct ibv_ece ece = { 0 };
	struct rdma_cm_id id = { 0 };

	(void)state;
	fake = fake_start();
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_cq *cq = ibv_create_cq(c, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr qa = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &qa);
	struct ibv_srq *srq = ibv_create_srq(pd, &sa);
	assert_non_null(qp);
	assert_non_null(srq);
	NONE(ibv_alloc_dm(c, &dm));
	NONE(ibv_reg_dm_mr(pd, NULL, 0, 64, 0));
	NONE(ibv_import_dm(c, 1));
	NONE(ibv_create_flow(qp, NULL));
	NONE(ibv_create_flow_action_esp(c, &esp));
	NONE(ibv_create_wq(c, &(struct ibv_wq_init_attr){ 0 }));
	NONE(ibv_create_rwq_ind_table(c, NULL));
	NONE(ibv_create_counters(c, NULL));
	NONE(ibv_reg_dmabuf_mr(pd, 0, 1, 0, -1, 0));
	REFUSED(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0));
	REFUSED(ibv_modify_cq(cq, &(struct ibv_modify_cq_attr){ 0 }));
	REFUSED(ibv_modify_qp_rate_limit(qp, NULL));
	REFUSED(ibv_post_srq_ops(srq, &ops, &bad_op));
	REFUSED(ibv_set_ece(qp, &ece));
	REFUSED(ibv_query_ece(qp, &ece));
	assert_int_equal(rdma_set_local_ece(&id, &ece), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(rdma_get_remote_ece(&id, &ece), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	/* Registered memory survives fork() without ibv_fork_init(), which does nothing. */
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(c), 0);
	fake_stop(fake);
}

/* Programs that are older or newer than the library pass structures that are shorter or longer than the library's. */
static void structures_of_other_sizes(void **state)
{
	struct {
		struct ibv_device_attr_ex a;
		uint8_t more[64];
	} dev;
	struct {
		struct ibv_port_attr a;
		uint8_t more[64];
	} port;
	struct {
		struct ibv_gid_entry e;
		uint8_t more[64];
	} gid;
	const size_t sizes[] = { sizeof(struct ibv_device_attr), sizeof(struct ibv_device_attr) + 9, sizeof(dev) };

	(void)state;
	fake = fake_start();
	struct ibv_context *c = open_first();
	struct verbs_context *v = verbs_get_ctx(c);
	assert_int_equal(v->query_device_ex(c, NULL, &dev.a, sizeof(struct ibv_device_attr) - 1), EINVAL);
	for (unsigned i = 0; i < RN_ARRAY_LEN(sizes); i++) {
		memset(&dev, 0xaa, sizeof(dev));
		assert_int_equal(v->query_device_ex(c, NULL, &dev.a, sizes[i]), 0);
		assert_true(dev.a.orig_attr.max_cqe >= 262144);
		for (size_t k = sizeof(dev.a); k < sizeof(dev); k++)
			assert_int_equal(((uint8_t *)&dev)[k], k < sizes[i] ? 0 : 0xaa);
		assert_int_equal(((uint8_t *)&dev)[sizes[i] - 1], 0);
		assert_true(sizes[i] == sizeof(dev) || ((uint8_t *)&dev)[sizes[i]] == 0xaa);
	}
	memset(&port, 0xaa, sizeof(port));
	assert_int_equal(v->query_port(c, 1, &port.a, 20), 0);
	assert_int_equal(port.a.state, IBV_PORT_ACTIVE);
	assert_int_equal(((uint8_t *)&port)[20], 0xaa);
	assert_int_equal(v->query_port(c, 1, &port.a, sizeof(port)), 0);
	assert_int_equal(port.more[63], 0);
	memset(&gid, 0xaa, sizeof(gid));
	assert_int_equal(_ibv_query_gid_ex(c, 1, 0, &gid.e, 0, sizeof(gid)), 0);
	assert_int_equal(gid.e.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(gid.more[63], 0);
	assert_int_equal(ibv_close_device(c), 0);
	fake_stop(fake);
}

static void devices(void **state)
{
	struct ibv_device_attr a;
	struct ibv_port_attr p;
	struct ibv_gid_entry table[4];
	union ibv_gid gid;
	__be16 pkey;
	int n;

	(void)state;
	fake = fake_start();
	struct ibv_device **list = ibv_get_device_list(&n);
	assert_int_equal(n, FAKE_DEVS);
	assert_null(list[n]);
	assert_string_equal(ibv_get_device_name(list[1]), "rnic1");
	assert_int_equal(list[0]->node_type, IBV_NODE_RNIC);
	assert_int_equal(list[0]->transport_type, IBV_TRANSPORT_IWARP);
	assert_int_equal(be64toh(ibv_get_device_guid(list[1])), UINT64_C(0x000000fffe000001));
	struct ibv_context *c = ibv_open_device(list[1]);
	ibv_free_device_list(list);
	assert_non_null(c);
	assert_int_equal(ibv_query_device(c, &a), 0);
	assert_int_equal(a.max_sge, QP_MAX_SGE);
	assert_int_equal(a.max_sge_rd, a.max_sge);
	assert_true(a.max_cqe >= 262144);
	assert_int_equal(a.phys_port_cnt, 1);
	assert_int_equal(ibv_query_port(c, 1, &p), 0);
	assert_int_equal(p.state, IBV_PORT_ACTIVE);
	assert_int_equal(p.active_mtu, IBV_MTU_1024);
	assert_int_equal(p.max_msg_sz, UINT32_C(1) << 31); /* a longer message ends the connection */
	assert_int_equal(p.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(ibv_query_port(c, 2, &p), EINVAL);
	assert_int_equal(ibv_query_gid(c, 1, 0, &gid), 0);
	assert_int_equal(gid.raw[15], 2);
	assert_int_equal(p.gid_tbl_len, 2);
	assert_int_equal(ibv_query_gid(c, 1, 2, &gid), -1);
	assert_int_equal(ibv_query_gid_table(c, table, 1, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(c, table, 4, 0), 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(ibv_query_gid(c, 1, (int)i, &gid), 0);
		assert_memory_equal(&table[i].gid, &gid, sizeof(gid));
		assert_int_equal(table[i].gid_index, i);
		assert_int_equal(table[i].gid_type, i == 0 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
	}
	assert_int_equal(ibv_query_pkey(c, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(c, 1, pkey), 0);

	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_parent_domain_init_attr pa = { .pd = pd };
	struct ibv_pd *parent = ibv_alloc_parent_domain(c, &pa);
	assert_non_null(parent);
	assert_int_equal(parent->handle, pd->handle);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(c), 0);
	fake_stop(fake);
}

/* A daemon that was started again may number its ports otherwise. */
static void a_device_of_an_earlier_session_is_found_by_its_name(void **state)
{
	(void)state;
	fake = fake_start();
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct rnic_dev *old = (struct rnic_dev *)list[1];
	ibv_free_device_list(list);
	fake_stop(fake);
	old->index = 0;
	fake = fake_start();
	struct ibv_context *c = ibv_open_device(&old->ibv);
	assert_int_equal(((struct rnic_dev *)c->device)->index, 1);
	assert_int_equal(ibv_close_device(c), 0);
	fake_stop(fake);
}

static void *wait_async(void *arg)
{
	static struct ibv_async_event ev;

	return ibv_get_async_event(arg, &ev) == 0 ? &ev : NULL;
}

static void *wait_comp(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	return ibv_get_cq_event(arg, &cq, &context) == -1 && errno == EIO ? arg : NULL;
}

/* Waiting threads are woken, later calls return an error, and a new daemon is found. */
static void the_daemon_dies(void **state)
{
	struct ibv_async_event *ev;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_wc wc;
	pthread_t t[2];
	void *ret;

	(void)state;
	fake = fake_start();
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_comp_channel *ch = ibv_create_comp_channel(c);
	struct ibv_cq *cq = ibv_create_cq(c, 10, NULL, ch, 0);
	struct ibv_qp_init_attr qa = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qa);
	uint8_t *p = malloc(100000);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 100000, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(qp);
	assert_non_null(mr);
	p[5000] = 17;
	fake_client(fake, 0)->qp[qp->handle].shm->state = IBV_QPS_RTS;
	pthread_create(&t[0], NULL, wait_async, c);
	pthread_create(&t[1], NULL, wait_comp, ch);
	usleep(10000);
	fake_stop(fake);
	pthread_join(t[0], &ret);
	ev = ret;
	assert_non_null(ev);
	assert_int_equal(ev->event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(ev);
	pthread_join(t[1], &ret);
	assert_ptr_equal(ret, ch);
	assert_null(wait_async(c));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), -1);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EIO);
	assert_null(ibv_alloc_pd(c));
	assert_int_equal(errno, EIO);
	/* All objects of the lost session can be destroyed. */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(c), 0);

	fake = fake_start();
	c = open_first();
	assert_non_null(c);
	pd = ibv_alloc_pd(c);
	/* Memory in the old session's arena is moved into that of the new session. */
	mr = ibv_reg_mr(pd, p, 100000, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(p[5000], 17);
	p[5000] = 18;
	uint8_t got;
	assert_true(fake_mr_read(fake_client(fake, 0), mr->rkey, (uintptr_t)p + 5000, &got, 1));
	assert_int_equal(got, 18);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(c);
	free(p);
	fake_stop(fake);
}

static void a_forked_child_starts_afresh(void **state)
{
	int st;

	(void)state;
	fake = fake_start();
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_cq *cq = ibv_create_cq(c, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr qa = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qa);
	struct fake_qp *fq = &fake_client(fake, 0)->qp[qp->handle];
	fq->shm->state = IBV_QPS_RTS;
	pid_t pid = fork();
	if (pid == 0) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
		struct ibv_wc wc;
		/* The parent's objects do not work here, not even posting. */
		if (ibv_post_send(qp, &wr, &bad) == 0)
			_exit(1);
		if (ibv_poll_cq(cq, 1, &wc) != -1)
			_exit(2);
		if (ibv_alloc_pd(c) != NULL || errno != EIO)
			_exit(3);
		struct ibv_context *mine = open_first();
		if (mine == NULL)
			_exit(4);
		struct ibv_pd *p = ibv_alloc_pd(mine);
		uint8_t *buf = calloc(1, 5000);
		struct ibv_mr *mr = ibv_reg_mr(p, buf, 5000, IBV_ACCESS_LOCAL_WRITE);
		if (mr == NULL) {
			perror("reg_mr");
			_exit(5);
		}
		ibv_dereg_mr(mr);
		ibv_dealloc_pd(p);
		ibv_close_device(mine);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(WIFSIGNALED(st), 0);
	assert_int_equal(WEXITSTATUS(st), 0);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	assert_int_equal(spsc_cons_avail(&fq->sq, 1), 0);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(spsc_cons_avail(&fq->sq, 1), 1);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(c), 0);
	fake_stop(fake);
}

static void sees_queue_pair(struct rnic_qp *qp, void *arg)
{
	(void)qp;
	(void)arg;
	sched_yield();
}

/* Walks the list of the process's queue pairs, so that its lock is nearly always taken. */
static void *walks_queue_pairs(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
		rnic_qp_each(sees_queue_pair, NULL);
		sched_yield();
	}
	return NULL;
}

static void a_child_need_not_wait_for_a_thread_that_used_the_queue_pairs(void **state)
{
	bool stop = false;
	pthread_t t;

	(void)state;
	fake = fake_start();
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_cq *cq = ibv_create_cq(c, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr qa = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qa);
	assert_int_equal(pthread_create(&t, NULL, walks_queue_pairs, &stop), 0);
	for (uint32_t i = 0; i < 20; i++) {
		int st = -1;
		pid_t pid = fork();
		if (pid == 0) {
			alarm(20);
			_exit(rnic_qp_find(qp->qp_num) == qp ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &st, 0), pid);
		assert_int_equal(st, 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(c);
	fake_stop(fake);
}

static void queue_blocks_come_again_zeroed(void **state)
{
	(void)state;
	fake = fake_start();
	struct ibv_context *c = open_first();
	struct rnic_session *s = rnic_ctx(c)->s;
	uint64_t first[8], size[8] = { 1, 128, 129, 4096, 5000, 70000, 1 << 20, 5 << 20 };

	for (unsigned i = 0; i < 8; i++) {
		first[i] = rnic_shm_alloc(s->shm, size[i]);
		assert_int_not_equal(first[i], 0);
		assert_int_equal(first[i] % (size[i] < 129 ? 128 : size[i] < 4096 ? 256 : 4096), 0);
		memset(s->queues + first[i], 0xff, size[i]);
	}
	for (unsigned i = 0; i < 8; i++)
		for (unsigned k = 0; k < i; k++)
			assert_true(first[k] + size[k] <= first[i] || first[i] + size[i] <= first[k]);
	for (unsigned i = 0; i < 8; i++)
		rnic_shm_free(s->shm, first[i], size[i]);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t off = rnic_shm_alloc(s->shm, size[i]);
		for (uint64_t k = 0; k < size[i]; k++)
			assert_int_equal(s->queues[off + k], 0);
	}
	assert_int_equal(rnic_shm_alloc(s->shm, UINT64_C(1) << 31), 0);
	assert_int_equal(rnic_shm_alloc(s->shm, UINT64_C(1) << 30), 0);
	ibv_close_device(c);
	fake_stop(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_daemon),
		cmocka_unit_test(another_version),
		cmocka_unit_test(what_is_not_there_is_told_once),
		cmocka_unit_test(what_a_software_device_has_not),
		cmocka_unit_test(structures_of_other_sizes),
		cmocka_unit_test(devices),
		cmocka_unit_test(a_device_of_an_earlier_session_is_found_by_its_name),
		cmocka_unit_test(the_daemon_dies),
		cmocka_unit_test(a_forked_child_starts_afresh),
		cmocka_unit_test(a_child_need_not_wait_for_a_thread_that_used_the_queue_pairs),
		cmocka_unit_test(queue_blocks_come_again_zeroed),
	};

	return cmocka_run_group_tests(tests, quiet, NULL);
}
