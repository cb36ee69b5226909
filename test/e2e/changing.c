/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads, Writes and Sends of memory that its owner keeps writing to, on both sides: for SECONDS, and at least LEAST
 * operations. No operation may fail, whatever bytes arrive. Uses plain verbs and rdma_cm.
 *
 * usage: changing -s ADDRESS | changing ADDRESS SECONDS
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/rdma_cma.h>

#define LEN   65536u
#define RECVS 16u
#define GRANT 8u    /* the server reposts this many receives, then tells the client by a zero-length Send */
#define DEPTH 12u   /* work requests under way: a third of each kind */
#define LEAST 1000u /* least number of operations, however slow they are */

struct region {
	uint64_t addr;
	uint32_t rkey;
};

static uint8_t *source, *sink;
static struct ibv_mr *mr[2];
static bool stop;

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "changing: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *owner(void *arg)
{
	volatile uint64_t *word = (volatile uint64_t *)(void *)source;

	(void)arg;
	for (uint64_t n = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++)
		for (uint32_t i = 0; i < LEN / sizeof(*word); i += 8)
			word[i] = n;
	return NULL;
}

static void make_memory(struct ibv_pd *pd)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	source = aligned_alloc(4096, LEN);
	sink = aligned_alloc(4096, LEN);
	if (source == NULL || sink == NULL)
		die("memory");
	memset(source, 0, LEN);
	memset(sink, 0, LEN);
	mr[0] = ibv_reg_mr(pd, source, LEN, access);
	mr[1] = ibv_reg_mr(pd, sink, LEN, access);
	if (mr[0] == NULL || mr[1] == NULL)
		die("ibv_reg_mr");
}

static void post_recv(struct rdma_cm_id *id)
{
	struct ibv_sge g = { .addr = (uintptr_t)sink, .length = LEN, .lkey = mr[1]->lkey };
	struct ibv_recv_wr w = { .sg_list = &g, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(id->qp, &w, &bad);
	if (errno != 0)
		die("ibv_post_recv");
}

static struct rdma_cm_id *endpoint(const char *addr, bool passive)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = passive ? RAI_PASSIVE : 0 }, *ai;
	struct ibv_qp_init_attr qa = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(addr, "7797", &hints, &ai) != 0)
		die("rdma_getaddrinfo");
	if (rdma_create_ep(&id, ai, NULL, &qa) != 0)
		die("rdma_create_ep");
	rdma_freeaddrinfo(ai);
	return id;
}

/* Takes a completion, if there is one. *flushed: it is a receive that the end of the connection flushed. */
static bool take(struct ibv_cq *cq, bool *flushed)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	if (n < 0)
		die("ibv_poll_cq");
	if (n == 0)
		return false;
	if (wc.status == IBV_WC_WR_FLUSH_ERR && flushed != NULL) {
		*flushed = true;
	} else if (wc.status != IBV_WC_SUCCESS) {
		printf("failed: opcode %d: %s, vendor error 0x%x\n", wc.opcode, ibv_wc_status_str(wc.status),
		       wc.vendor_err);
		exit(2);
	}
	return true;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A Read writes into the sink; a Write or Send reads from the source. */
static void post(struct rdma_cm_id *id, const struct region *far, enum ibv_wr_opcode op, uint32_t len)
{
	const bool read = op == IBV_WR_RDMA_READ;
	struct ibv_sge g = { .addr = (uintptr_t)(read ? sink : source), .length = len, .lkey = mr[read]->lkey };
	struct ibv_send_wr w = { .sg_list = &g, .num_sge = len > 0, .opcode = op }, *bad;

	w.wr.rdma.remote_addr = far[!read].addr;
	w.wr.rdma.rkey = far[!read].rkey;
	errno = ibv_post_send(id->qp, &w, &bad);
	if (errno != 0)
		die("ibv_post_send");
}

/* Read, Write and Send in turn; a Send only when the server has a receive for it. */
static void post_next(struct rdma_cm_id *id, const struct region *far, uint32_t *credits)
{
	static const enum ibv_wr_opcode op[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND };
	static uint32_t i;
	enum ibv_wr_opcode o = op[i++ % 3];

	if (o == IBV_WR_SEND && *credits == 0)
		o = IBV_WR_RDMA_READ;
	*credits -= o == IBV_WR_SEND;
	post(id, far, o, LEN);
}

static int client(const char *addr, double seconds)
{
	struct rdma_cm_id *id = endpoint(addr, false);
	struct rdma_conn_param p = { .responder_resources = 8, .initiator_depth = 8 };
	uint32_t credits = RECVS;
	struct region far[2];
	uint64_t posted = 0, done = 0;
	pthread_t th;

	make_memory(id->pd);
	for (uint32_t i = 0; i < RECVS; i++)
		post_recv(id);
	if (rdma_connect(id, &p) != 0)
		die("rdma_connect");
	memcpy(far, id->event->param.conn.private_data, sizeof(far));
	if (pthread_create(&th, NULL, owner, NULL) != 0)
		die("thread");
	const double end = now() + seconds;
	for (bool over = false; !over || done < posted; over = now() >= end && done >= LEAST) {
		for (; !over && posted - done < DEPTH; posted++)
			post_next(id, far, &credits);
		while (take(id->send_cq, NULL))
			done++;
		for (; take(id->recv_cq, NULL); credits += GRANT)
			post_recv(id);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(th, NULL);
	printf("done %" PRIu64 "\n", done);
	return rdma_disconnect(id) == 0 ? 0 : 1;
}

static void serve(struct rdma_cm_id *id)
{
	bool flushed = false;

	/*
	 * The end of the connection flushes the receives. Both queues are polled in turn: a fast peer never lets
	 * receives run out.
	 */
	for (uint32_t again = 0; !flushed;) {
		if (take(id->recv_cq, &flushed) && !flushed) {
			post_recv(id);
			if (++again % GRANT == 0)
				post(id, (const struct region[2]){ { 0 } }, IBV_WR_SEND, 0);
		}
		while (take(id->send_cq, &flushed))
			;
	}
}

static int server(const char *addr)
{
	struct rdma_cm_id *l = endpoint(addr, true), *id;
	struct region mine[2];
	struct rdma_conn_param p = {
		.private_data = mine, .private_data_len = sizeof(mine), .responder_resources = 8, .initiator_depth = 8
	};
	pthread_t th;

	if (rdma_listen(l, 1) != 0)
		die("rdma_listen");
	puts("listening");
	fflush(stdout);
	if (rdma_get_request(l, &id) != 0)
		die("rdma_get_request");
	make_memory(id->pd);
	for (int i = 0; i < 2; i++)
		mine[i] = (struct region){ .addr = (uintptr_t)(i == 0 ? source : sink), .rkey = mr[i]->rkey };
	for (uint32_t i = 0; i < RECVS; i++)
		post_recv(id);
	if (rdma_accept(id, &p) != 0)
		die("rdma_accept");
	if (pthread_create(&th, NULL, owner, NULL) != 0)
		die("thread");
	serve(id);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(th, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: changing -s ADDRESS | changing ADDRESS SECONDS\n");
		return 2;
	}
	return strcmp(argv[1], "-s") == 0 ? server(argv[2]) : client(argv[1], atof(argv[2]));
}
