/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs program that runs commands from stdin and prints on stdout what happens: the well-behaved side in tests whose
 * other side is a peer in Python or a malicious client. Plain verbs and rdma_cm.
 *
 * usage: target ADDRESS
 *   prints "mr NAME STAG ADDRESS LENGTH" for each memory region, then "ready"
 * commands
 *   listen PORT RECEIVES IRD ORD [accept|reject|hold]	accepts each connection with that many receives posted
 *   connect ADDRESS PORT [PRIVATE-BYTES]			RECEIVES, IRD and ORD as of the last listen, else 4 4 4
 *   recv CONN N		posts receives
 *   send CONN BYTES		from region rw
 *   write CONN BYTES STAG ADDRESS
 *   read CONN BYTES STAG ADDRESS	into the second half of region rw
 *   accept CONN | rejectit CONN	a connection that was held
 *   disc CONN			ends the connection by rdma_disconnect()
 *   destroy CONN
 *   error CONN			moves the connection's QP to ERROR
 *   sum NAME			prints the sum of a region's bytes
 *   quit
 * further lines of output: "cm CONN EVENT STATUS PRIVATE-HEX", "wc CONN OPCODE STATUS BYTES VENDOR INVALIDATED
 * FIRST-BYTES-HEX", "async TYPE", "done COMMAND", "failed COMMAND: REASON". INVALIDATED is the STag that a Send has
 * invalidated, or the immediate; 0: neither.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define REGION    65536u
#define RECV_LEN  4096u
#define MAX_CONNS 4096u
#define MAX_RECVS 64u

struct region {
	const char *name;
	int access;
	bool other_pd;
	bool deregister;
	uint8_t *buf;
	struct ibv_mr *mr;
};

static struct region regions[] = {
	{ "rw", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, false, false, NULL, NULL },
	{ "wo", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, false, false, NULL, NULL },
	{ "ro", IBV_ACCESS_REMOTE_READ, false, false, NULL, NULL },
	{ "lo", IBV_ACCESS_LOCAL_WRITE, false, false, NULL, NULL },
	{ "other", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, true, false, NULL, NULL },
	{ "gone", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, false, true, NULL, NULL },
	{ "inv", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, false, false, NULL, NULL },
	{ "inv2", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, false, false, NULL, NULL },
	{ "at", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	  false, false, NULL, NULL },
	{ "recv", IBV_ACCESS_LOCAL_WRITE, false, false, NULL, NULL },
};
#define N_REGIONS   (sizeof(regions) / sizeof(regions[0]))
#define RECV_REGION (N_REGIONS - 1)

struct conn {
	struct rdma_cm_id *id;
	bool has_qp;
	uint32_t qpn;
	unsigned priv; /* bytes of private data in the connection request */
};

enum on_request { ACCEPT, REJECT, HOLD };

static struct rdma_event_channel *events;
static struct ibv_context *verbs;
static struct ibv_pd *pd, *other_pd;
static struct ibv_comp_channel *comp;
static struct ibv_cq *cq;
static struct sockaddr_in local;
static struct conn conns[MAX_CONNS];
static unsigned n_conns;
static unsigned receives = 4, ird = 4, ord = 4;
static enum on_request on_request = ACCEPT;

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "target: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *page_aligned(size_t len)
{
	void *p = NULL;

	if (posix_memalign(&p, 4096, len) != 0)
		die("memory");
	memset(p, 0, len);
	return p;
}

static void make_regions(void)
{
	for (unsigned i = 0; i < N_REGIONS; i++) {
		struct region *r = &regions[i];
		size_t len = i == RECV_REGION ? (size_t)MAX_RECVS * RECV_LEN : REGION;

		r->buf = page_aligned(len);
		if (i != RECV_REGION)
			for (size_t b = 0; b < len; b++)
				r->buf[b] = (uint8_t)(b * 7 + i);
		r->mr = ibv_reg_mr(r->other_pd ? other_pd : pd, r->buf, len, r->access);
		if (r->mr == NULL && (r->access & IBV_ACCESS_REMOTE_ATOMIC)) /* the device has no atomics */
			r->mr = ibv_reg_mr(pd, r->buf, len, r->access & ~IBV_ACCESS_REMOTE_ATOMIC);
		if (r->mr == NULL)
			die("ibv_reg_mr");
		printf("mr %s %" PRIu32 " %" PRIu64 " %zu\n", r->name, r->mr->rkey, (uint64_t)(uintptr_t)r->buf, len);
		if (r->deregister && ibv_dereg_mr(r->mr) != 0)
			die("ibv_dereg_mr");
	}
}

static void post_recv(struct conn *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t at = i % MAX_RECVS;
		struct ibv_sge sge = { (uintptr_t)regions[RECV_REGION].buf + at * RECV_LEN, RECV_LEN,
				       regions[RECV_REGION].mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = at, .sg_list = &sge, .num_sge = 1 }, *bad;

		if (ibv_post_recv(c->id->qp, &wr, &bad) != 0)
			printf("failed post_recv: %s\n", strerror(errno));
	}
}

static bool make_qp(struct conn *c)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 64, .max_recv_wr = MAX_RECVS * 2, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	if (rdma_create_qp(c->id, pd, &a) != 0)
		return false;
	c->has_qp = true;
	c->qpn = c->id->qp->qp_num;
	post_recv(c, receives);
	return true;
}

static struct rdma_conn_param params(void)
{
	return (struct rdma_conn_param){ .responder_resources = (uint8_t)ird,
					 .initiator_depth = (uint8_t)ord,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
}

static unsigned add_conn(struct rdma_cm_id *id)
{
	if (n_conns == MAX_CONNS) {
		errno = ENOSPC;
		die("connections");
	}
	conns[n_conns] = (struct conn){ .id = id };
	id->context = &conns[n_conns];
	return n_conns++;
}

static void accept_conn(unsigned n)
{
	struct rdma_conn_param p = params();

	if (!make_qp(&conns[n]) || rdma_accept(conns[n].id, &p) != 0)
		printf("failed accept: %s\n", strerror(errno));
}

static void connect_conn(unsigned n)
{
	static uint8_t data[512];
	struct rdma_conn_param p = params();

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	p.private_data = data;
	p.private_data_len = (uint8_t)conns[n].priv;
	if (!make_qp(&conns[n]) || rdma_connect(conns[n].id, &p) != 0)
		printf("failed connect: %s\n", strerror(errno));
}

static void on_cm(void)
{
	struct rdma_cm_event *e;

	while (rdma_get_cm_event(events, &e) == 0) {
		struct rdma_cm_id *id = e->id;
		enum rdma_cm_event_type type = e->event;
		const uint8_t *priv = e->param.conn.private_data;
		bool fresh = type == RDMA_CM_EVENT_CONNECT_REQUEST;
		unsigned n = fresh ? add_conn(id) : (unsigned)((struct conn *)id->context - conns);

		printf("cm %u %s %d ", n, rdma_event_str(type), e->status);
		for (unsigned i = 0; priv != NULL && i < e->param.conn.private_data_len; i++)
			printf("%02x", priv[i]);
		printf("\n");
		rdma_ack_cm_event(e);
		if (fresh && on_request == ACCEPT)
			accept_conn(n);
		else if (fresh && on_request == REJECT)
			rdma_reject(id, "no", 2);
		else if (type == RDMA_CM_EVENT_ADDR_RESOLVED)
			rdma_resolve_route(id, 2000);
		else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED)
			connect_conn(n);
	}
}

static void on_wc(const struct ibv_wc *wc)
{
	unsigned n = 0;

	while (n < n_conns && !(conns[n].has_qp && conns[n].qpn == wc->qp_num))
		n++;
	printf("wc %u %d %s %u %x %x ", n, wc->opcode, ibv_wc_status_str(wc->status), wc->byte_len, wc->vendor_err,
	       wc->wc_flags & IBV_WC_WITH_INV   ? wc->invalidated_rkey
	       : wc->wc_flags & IBV_WC_WITH_IMM ? ntohl(wc->imm_data)
						: 0);
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV)
		for (unsigned i = 0; i < wc->byte_len && i < 16; i++)
			printf("%02x", regions[RECV_REGION].buf[wc->wr_id * RECV_LEN + i]);
	printf("\n");
}

static void drain_cq(void)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = ibv_poll_cq(cq, 16, wc)) > 0)
		for (int i = 0; i < n; i++)
			on_wc(&wc[i]);
}

static void on_comp(void)
{
	struct ibv_cq *q;
	void *ctx;

	while (ibv_get_cq_event(comp, &q, &ctx) == 0) {
		ibv_ack_cq_events(q, 1);
		if (ibv_req_notify_cq(q, 0) != 0)
			die("ibv_req_notify_cq");
		drain_cq();
	}
}

static void on_async(void)
{
	struct ibv_async_event e;

	while (ibv_get_async_event(verbs, &e) == 0) {
		printf("async %d\n", e.event_type);
		ibv_ack_async_event(&e);
	}
}

static int do_listen(const char *args)
{
	struct sockaddr_in a = local;
	struct rdma_cm_id *id;
	unsigned port, backlog = 128;
	char how[16] = "accept";

	if (sscanf(args, "%u %u %u %u %15s", &port, &receives, &ird, &ord, how) < 4)
		return EINVAL;
	on_request = strcmp(how, "reject") == 0 ? REJECT : strcmp(how, "hold") == 0 ? HOLD : ACCEPT;
	a.sin_port = htons((uint16_t)port);
	if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP) != 0)
		return errno;
	if (rdma_bind_addr(id, (struct sockaddr *)&a) != 0 || rdma_listen(id, (int)backlog) != 0) {
		int e = errno;
		rdma_destroy_id(id);
		return e;
	}
	return 0;
}

static int do_connect(const char *args)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct sockaddr_in from = local;
	struct rdma_cm_id *id;
	unsigned port, priv = 0;
	char addr[64];

	if (sscanf(args, "%63s %u %u", addr, &port, &priv) < 2 || inet_pton(AF_INET, addr, &a.sin_addr) != 1)
		return EINVAL;
	a.sin_port = htons((uint16_t)port);
	from.sin_port = 0;
	if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP) != 0)
		return errno;
	conns[add_conn(id)].priv = priv;
	return rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&a, 2000) == 0 ? 0 : errno;
}

static int do_post(enum ibv_wr_opcode op, const char *args)
{
	unsigned n, len, stag = 0;
	uint64_t addr = 0;

	if (sscanf(args, "%u %u %u %" SCNu64, &n, &len, &stag, &addr) < (op == IBV_WR_SEND ? 2 : 4) || n >= n_conns)
		return EINVAL;
	/* Reads write into the half of the region from which nothing is sent */
	uint32_t off = op == IBV_WR_RDMA_READ ? REGION / 2 : 0;
	if (len > REGION - off)
		return EINVAL;
	struct ibv_sge sge = { (uintptr_t)regions[0].buf + off, len, regions[0].mr->lkey };
	struct ibv_send_wr wr = { .wr_id = n,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = stag;
	return ibv_post_send(conns[n].id->qp, &wr, &bad);
}

static int do_conn(const char *cmd, const char *args)
{
	unsigned n, k = 1;

	if (sscanf(args, "%u %u", &n, &k) < 1 || n >= n_conns)
		return EINVAL;
	struct conn *c = &conns[n];
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	if (strcmp(cmd, "recv") == 0)
		post_recv(c, k);
	else if (strcmp(cmd, "accept") == 0)
		accept_conn(n);
	else if (strcmp(cmd, "rejectit") == 0)
		return rdma_reject(c->id, "later", 5) == 0 ? 0 : errno;
	else if (strcmp(cmd, "disc") == 0)
		return rdma_disconnect(c->id) == 0 ? 0 : errno;
	else if (strcmp(cmd, "error") == 0)
		return ibv_modify_qp(c->id->qp, &err, IBV_QP_STATE);
	else if (strcmp(cmd, "destroy") == 0) {
		if (c->has_qp)
			rdma_destroy_qp(c->id);
		return rdma_destroy_id(c->id) == 0 ? 0 : errno;
	} else
		return ENOSYS;
	return 0;
}

static int do_sum(const char *args)
{
	for (unsigned i = 0; i < N_REGIONS; i++) {
		size_t len = strlen(regions[i].name);
		uint64_t sum = 0;

		if (strncmp(args, regions[i].name, len) != 0 || i == RECV_REGION)
			continue;
		for (unsigned b = 0; b < REGION; b++)
			sum = sum * 31 + regions[i].buf[b];
		printf("sum %s %016" PRIx64 "\n", regions[i].name, sum);
		return 0;
	}
	return EINVAL;
}

static void command(char *line)
{
	char cmd[32] = "";
	int at = 0, rc;

	sscanf(line, "%31s %n", cmd, &at);
	const char *args = line + at;
	if (strcmp(cmd, "listen") == 0)
		rc = do_listen(args);
	else if (strcmp(cmd, "connect") == 0)
		rc = do_connect(args);
	else if (strcmp(cmd, "send") == 0)
		rc = do_post(IBV_WR_SEND, args);
	else if (strcmp(cmd, "write") == 0)
		rc = do_post(IBV_WR_RDMA_WRITE, args);
	else if (strcmp(cmd, "read") == 0)
		rc = do_post(IBV_WR_RDMA_READ, args);
	else if (strcmp(cmd, "sum") == 0)
		rc = do_sum(args);
	else if (strcmp(cmd, "quit") == 0)
		exit(0);
	else
		rc = do_conn(cmd, args);
	if (rc == 0)
		printf("done %s\n", cmd);
	else
		printf("failed %s: %s\n", cmd, strerror(rc));
}

static void on_stdin(void)
{
	static char buf[4096];
	static size_t have;
	ssize_t n = read(STDIN_FILENO, buf + have, sizeof(buf) - 1 - have);
	char *eol;

	if (n <= 0)
		exit(0);
	have += (size_t)n;
	buf[have] = '\0';
	while ((eol = strchr(buf, '\n')) != NULL) {
		*eol = '\0';
		command(buf);
		have -= (size_t)(eol + 1 - buf);
		memmove(buf, eol + 1, have + 1);
	}
}

static void nonblocking(int fd)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
		die("fcntl");
}

static void open_device(const char *address)
{
	struct rdma_cm_id *anchor;

	local = (struct sockaddr_in){ .sin_family = AF_INET };
	if (inet_pton(AF_INET, address, &local.sin_addr) != 1) {
		errno = EINVAL;
		die(address);
	}
	events = rdma_create_event_channel();
	if (events == NULL)
		die("rdma_create_event_channel");
	if (rdma_create_id(events, &anchor, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(anchor, (struct sockaddr *)&local) != 0 || anchor->verbs == NULL)
		die("rdma_bind_addr");
	verbs = anchor->verbs;
	pd = ibv_alloc_pd(verbs);
	other_pd = ibv_alloc_pd(verbs);
	comp = ibv_create_comp_channel(verbs);
	cq = comp != NULL ? ibv_create_cq(verbs, 16384, NULL, comp, 0) : NULL;
	if (pd == NULL || other_pd == NULL || cq == NULL || ibv_req_notify_cq(cq, 0) != 0)
		die("verbs objects");
	nonblocking(events->fd);
	nonblocking(comp->fd);
	nonblocking(verbs->async_fd);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: target ADDRESS\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_device(argv[1]);
	make_regions();
	printf("ready\n");
	for (;;) {
		struct pollfd p[] = { { STDIN_FILENO, POLLIN, 0 },
				      { events->fd, POLLIN, 0 },
				      { comp->fd, POLLIN, 0 },
				      { verbs->async_fd, POLLIN, 0 } };
		if (poll(p, 4, -1) < 0 && errno != EINTR)
			die("poll");
		if (p[1].revents)
			on_cm();
		if (p[2].revents)
			on_comp();
		if (p[3].revents)
			on_async();
		if (p[0].revents)
			on_stdin();
	}
}
