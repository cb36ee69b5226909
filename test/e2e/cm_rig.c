/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_rig.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct end srv, cli;
struct ibv_qp_cap caps = { .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1 };
int sig_all = 1;

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "cannot begin: %s: %s\n", what, strerror(errno));
	exit(2);
}

void end_open(struct end *e, const char *address)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	const bool is_six = inet_pton(AF_INET6, address, &six.sin6_addr) == 1;
	void *p = NULL;

	e->addr = (struct sockaddr_in){ .sin_family = AF_INET };
	must(is_six || inet_pton(AF_INET, address, &e->addr.sin_addr) == 1, address);
	must((e->ch = rdma_create_event_channel()) != NULL, "rdma_create_event_channel");
	must(rdma_create_id(e->ch, &e->anchor, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	must(rdma_bind_addr(e->anchor, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&e->addr) == 0,
	     "rdma_bind_addr");
	must((e->verbs = e->anchor->verbs) != NULL, "no device after rdma_bind_addr");
	must((e->pd = ibv_alloc_pd(e->verbs)) != NULL, "ibv_alloc_pd");
	must((e->cq = ibv_create_cq(e->verbs, 4096, NULL, NULL, 0)) != NULL, "ibv_create_cq");
	must(posix_memalign(&p, 4096, BUF_LEN) == 0, "memory");
	e->buf = memset(p, 0, BUF_LEN);
	e->mr = ibv_reg_mr(e->pd, e->buf, BUF_LEN,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_ATOMIC);
	must(e->mr != NULL, "ibv_reg_mr");
}

bool next_event(struct rdma_event_channel *ch, struct got *g, int ms)
{
	struct pollfd p = { ch->fd, POLLIN, 0 };
	struct rdma_cm_event *e;

	if (poll(&p, 1, ms) != 1 || rdma_get_cm_event(ch, &e) != 0)
		return false;
	*g = (struct got){ .type = e->event,
			   .status = e->status,
			   .id = e->id,
			   .listen_id = e->listen_id,
			   .priv_len = e->param.conn.private_data_len,
			   .ird = e->param.conn.responder_resources,
			   .ord = e->param.conn.initiator_depth };
	if (e->param.conn.private_data != NULL && g->priv_len <= sizeof(g->priv))
		memcpy(g->priv, e->param.conn.private_data, g->priv_len);
	return rdma_ack_cm_event(e) == 0;
}

bool want(struct rdma_event_channel *ch, enum rdma_cm_event_type type, struct got *g)
{
	struct got local;

	if (g == NULL)
		g = &local;
	if (!next_event(ch, g, WAIT_MS)) {
		printf("# no event, %s was due\n", rdma_event_str(type));
		return false;
	}
	if (g->type != type)
		printf("# event %s status %d, %s was due\n", rdma_event_str(g->type), g->status, rdma_event_str(type));
	return g->type == type;
}

bool quiet(struct rdma_event_channel *ch, int ms)
{
	struct got g;

	if (!next_event(ch, &g, ms))
		return true;
	printf("# event %s status %d where none was due\n", rdma_event_str(g.type), g.status);
	return false;
}

struct rdma_cm_id *new_id(struct end *e)
{
	struct rdma_cm_id *id;

	return rdma_create_id(e->ch, &id, NULL, RDMA_PS_TCP) == 0 ? id : NULL;
}

struct rdma_cm_id *listen_on(struct end *e, uint16_t port, int backlog)
{
	struct sockaddr_in a = e->addr;
	struct rdma_cm_id *id = new_id(e);

	a.sin_port = htons(port);
	if (id == NULL)
		return NULL;
	if (rdma_bind_addr(id, (struct sockaddr *)&a) == 0 && rdma_listen(id, backlog) == 0)
		return id;
	int err = errno;
	rdma_destroy_id(id);
	errno = err;
	return NULL;
}

bool give_qp(struct end *e, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = { .send_cq = e->cq,
				      .recv_cq = e->cq,
				      .srq = e->srq,
				      .qp_type = IBV_QPT_RC,
				      .sq_sig_all = sig_all,
				      .cap = caps };

	return rdma_create_qp(id, e->pd, &a) == 0;
}

struct rdma_conn_param param(uint8_t ird, uint8_t ord, const void *priv, uint8_t priv_len)
{
	return (struct rdma_conn_param){ .responder_resources = ird,
					 .initiator_depth = ord,
					 .private_data = priv,
					 .private_data_len = priv_len,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
}

struct rdma_cm_id *route_to(uint16_t port)
{
	struct sockaddr_in to = srv.addr, from = cli.addr;
	struct rdma_cm_id *id = new_id(&cli);

	to.sin_port = htons(port);
	if (id == NULL)
		return NULL;
	if (rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 2000) == 0 &&
	    want(cli.ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) && rdma_resolve_route(id, 2000) == 0 &&
	    want(cli.ch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) && give_qp(&cli, id))
		return id;
	rdma_destroy_id(id);
	return NULL;
}

struct rdma_cm_id *dial(uint16_t port, struct rdma_conn_param *p)
{
	struct rdma_conn_param plain = param(4, 4, NULL, 0);
	struct rdma_cm_id *id = route_to(port);

	if (id == NULL || rdma_connect(id, p != NULL ? p : &plain) == 0)
		return id;
	drop(id);
	return NULL;
}

struct rdma_cm_id *answer(struct rdma_conn_param *p)
{
	struct rdma_conn_param plain = param(4, 4, NULL, 0);
	struct got g;

	if (!want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g) || !give_qp(&srv, g.id))
		return NULL;
	return rdma_accept(g.id, p != NULL ? p : &plain) == 0 ? g.id : NULL;
}

bool drop(struct rdma_cm_id *id)
{
	if (id->qp != NULL)
		rdma_destroy_qp(id);
	return rdma_destroy_id(id) == 0;
}

bool join_with(struct joined *j, uint16_t port, struct rdma_conn_param *cp, struct rdma_conn_param *sp)
{
	CHECK((j->lid = listen_on(&srv, port, 16)) != NULL);
	CHECK((j->cid = dial(port, cp)) != NULL);
	CHECK((j->sid = answer(sp)) != NULL);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	return true;
}

bool with_srq(bool (*f)(void))
{
	struct ibv_srq_init_attr room = { .attr = { .max_wr = 64, .max_sge = 1 } };

	CHECK((srv.srq = ibv_create_srq(srv.pd, &room)) != NULL);
	CHECK(f() && ibv_destroy_srq(srv.srq) == 0);
	srv.srq = NULL;
	return true;
}

bool join(struct joined *j, uint16_t port) { return join_with(j, port, NULL, NULL); }

bool part(struct joined *j)
{
	CHECK(rdma_disconnect(j->cid) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	return drop(j->cid) && drop(j->sid) && rdma_destroy_id(j->lid) == 0;
}

bool post_recv(struct end *e, struct rdma_cm_id *id, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, len, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return (e->srq != NULL ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(id->qp, &wr, &bad)) == 0;
}

static bool post(struct ibv_send_wr *wr, struct rdma_cm_id *id)
{
	struct ibv_send_wr *bad;

	wr->send_flags = IBV_SEND_SIGNALED;
	return ibv_post_send(id->qp, wr, &bad) == 0;
}

bool post_send(struct end *e, struct rdma_cm_id *id, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, len, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	return post(&wr, id);
}

bool post_read(struct end *e, struct end *from, struct rdma_cm_id *id, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, len, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ };

	wr.wr.rdma.remote_addr = (uintptr_t)from->buf;
	wr.wr.rdma.rkey = from->mr->rkey;
	return post(&wr, id);
}

bool poll_n(struct end *e, struct ibv_wc *wc, int n)
{
	uint64_t end = now_ms() + WAIT_MS;
	int have = 0;

	while (have < n && now_ms() < end) {
		int k = ibv_poll_cq(e->cq, n - have, wc + have);
		if (k < 0)
			return false;
		have += k;
		if (k == 0)
			usleep(100);
	}
	if (have < n)
		printf("# %d completions of %d\n", have, n);
	return have == n;
}

bool no_wc(struct end *e, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	struct ibv_wc wc;

	do {
		if (ibv_poll_cq(e->cq, 1, &wc) != 0) {
			printf("# completion wr_id %llu status %d where none was due\n", (unsigned long long)wc.wr_id,
			       wc.status);
			return false;
		}
		usleep(1000);
	} while (now_ms() < end);
	return true;
}

unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	if (d == NULL)
		return 0;
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static bool chosen(const char *name, int argc, char **argv)
{
	for (int i = 3; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc <= 3;
}

/* Discards what a failed case left in the channels, so that it cannot fail the next case. */
static void sweep(void)
{
	struct ibv_wc wc;
	struct got g;

	while (next_event(srv.ch, &g, 50) || next_event(cli.ch, &g, 0))
		;
	while (ibv_poll_cq(srv.cq, 1, &wc) > 0 || ibv_poll_cq(cli.cq, 1, &wc) > 0)
		;
}

/* ---- QPs without a connection manager ---- */

struct ibv_qp *qp_new(struct end *e, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = type, .sq_sig_all = 1, .cap = { 16, 16, 1, 1, 0 }
	};

	return ibv_create_qp(e->pd, &a);
}

int qp_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 7 };

	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int qp_rtr(struct ibv_qp *qp, const union ibv_gid *peer, uint32_t qpn)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = qpn,
				 .rq_psn = 77,
				 .max_dest_rd_atomic = 4,
				 .min_rnr_timer = 12,
				 .ah_attr = { .port_num = 1, .is_global = peer != NULL } };

	if (peer != NULL)
		a.ah_attr.grh.dgid = *peer;
	return ibv_modify_qp(qp, &a, QP_RTR_MASK);
}

int qp_rts(struct ibv_qp *qp, uint8_t timeout, uint8_t retries)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .timeout = timeout,
				 .retry_cnt = retries,
				 .rnr_retry = 7,
				 .sq_psn = 88,
				 .max_rd_atomic = 4 };

	return ibv_modify_qp(qp, &a, QP_RTS_MASK);
}

int rig_main(int argc, char **argv, const struct rig_case *cases, unsigned n)
{
	int failed = 0;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (unsigned i = 0; i < n; i++)
			puts(cases[i].name);
		return 0;
	}
	if (argc < 3) {
		fprintf(stderr, "usage: %s SERVER-ADDRESS CLIENT-ADDRESS [CASE...] | --list\n", argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	end_open(&srv, argv[1]);
	end_open(&cli, argv[2]);
	for (unsigned i = 0; i < n; i++) {
		if (!chosen(cases[i].name, argc, argv))
			continue;
		bool ok = cases[i].run();
		printf("%s %s\n", ok ? "ok" : "not ok", cases[i].name);
		failed += !ok;
		sweep();
	}
	return failed != 0;
}

bool async(struct ibv_context *c, enum ibv_event_type type, struct ibv_async_event *ev)
{
	struct pollfd p = { c->async_fd, POLLIN, 0 };

	if (poll(&p, 1, WAIT_MS) != 1 || ibv_get_async_event(c, ev) != 0) {
		printf("# no asynchronous event, %s was due\n", ibv_event_type_str(type));
		return false;
	}
	ibv_ack_async_event(ev);
	if (ev->event_type != type)
		printf("# %s, %s was due\n", ibv_event_type_str(ev->event_type), ibv_event_type_str(type));
	return ev->event_type == type;
}

bool no_async(struct ibv_context *c)
{
	struct pollfd p = { c->async_fd, POLLIN, 0 };

	return poll(&p, 1, 50) == 0;
}

void async_sweep(struct ibv_context *c)
{
	struct pollfd p = { c->async_fd, POLLIN, 0 };
	struct ibv_async_event ev;

	while (poll(&p, 1, 50) == 1 && ibv_get_async_event(c, &ev) == 0)
		ibv_ack_async_event(&ev);
}
