/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of reliable datagrams; each end is a process of its own. Message m of a client is a Write to slot m % SLOTS
 * of the store's memory, a Read of the same slot, an atomic addition to the store's counter and a Send. Each byte
 * is a function of m and of its place.
 *
 * usage: rd_ends ADDRESS store LEN LATER [unordered] [strict] [rnr=N] [shared]
 *		prints its QPN, address and STag; receives and checks Sends of LEN bytes, and prints their number at the
 *		next line of its stdin. LATER 1: posts no receive before the first line.
 *        rd_ends ADDRESS client LEN [unordered] [strict] [rnr=N]
 *		runs a command for each line of its stdin:
 *		to TO QPN WHERE STAG	the store for all commands that follow
 *		go N			N messages, each complete before the next; prints their number and status
 *		until			messages until one fails; prints the status
 *		ask N			N Reads of slot 0, which are not waited for
 *		told			waits for the Reads; prints as go does
 *		burst N			N Sends and Writes, many at a time; prints how many overtook an older one
 * unordered: the queue pair is unordered, and a store accepts Sends in any order. strict: the first failure ends the
 * queue pair. rnr: the queue pair's rnr_retry. shared: the receives come from a shared receive queue.
 */
#include "gram_end.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_US 60000000 /* longer is a hang */
#define SLOTS       4u
#define BURST       24u   /* messages under way at a time */
#define MESSAGES    4096u /* most messages that an unordered store takes */
#define SENDS       512u
#define RECVS       16u
#define COUNTER_LEN 64u /* before the slots: the counter to which clients add */
#define REMOTE      (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS      (IBV_ACCESS_LOCAL_WRITE | REMOTE)

static uint32_t len;
static bool unordered, shared;

static uint8_t byte_of(uint32_t m, uint32_t i) { return (uint8_t)((m * 31 + i * 7 + (i >> 8) * 13) | 1); }

static struct ibv_qp *make_qp(void)
{
	return gram_qp(e.cq, RNICDV_QPT_RD, (struct ibv_qp_cap){ SENDS, RECVS, 1, 1, 0 },
		       IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
}

static void check(const uint8_t *p, uint32_t m)
{
	for (uint32_t i = 4; i < len; i++) {
		if (p[i] == byte_of(m, i))
			continue;
		printf("# message %u: byte %u is wrong\n", m, i);
		exit(1);
	}
}

static void fill(uint8_t *p, uint32_t m)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = byte_of(m, i);
	memcpy(p, &m, sizeof(m));
}

/* ---- the store ---- */

static uint8_t seen[MESSAGES];

/* Checks that the n-th Send that has come may carry message m. */
static void note(uint32_t m, uint32_t n)
{
	must(unordered ? m < MESSAGES && !seen[m] : m == n, "a Send came twice, or out of order");
	if (unordered)
		seen[m] = 1;
}

static void post_sink(struct ibv_qp *qp, const struct ibv_mr *mr, uint64_t i)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr + i * len, .length = len, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	must((gram_srq != NULL ? ibv_post_srq_recv(gram_srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)) == 0,
	     "posting a receive");
}

static void share(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = RECVS, .max_sge = 1 } };

	gram_srq = ibv_create_srq(e.pd, &a);
	must(gram_srq != NULL, "ibv_create_srq");
}

static int store(bool later)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	struct ibv_mr *mr, *sinks;
	bool asked = false;
	uint32_t came = 0, m;
	char line[64];
	struct ibv_wc wc;
	if (shared)
		share();
	struct ibv_qp *qp = make_qp();
	uint64_t *counter = (uint64_t *)(void *)gram_memory(COUNTER_LEN + (size_t)SLOTS * len, ACCESS, &mr);
	uint8_t *sink = gram_memory((size_t)RECVS * len, ACCESS, &sinks);

	printf("store %u %" PRIu64 " %u\n", qp->qp_num, (uint64_t)(uintptr_t)counter, mr->rkey);
	fflush(stdout);
	if (later)
		must(fgets(line, sizeof(line), stdin) != NULL, "stdin");
	for (uint64_t i = 0; i < RECVS; i++)
		post_sink(qp, sinks, i);
	for (;;) {
		/* when the result is asked for, all Sends that have come are taken first */
		if (rnicdv_poll_cq(e.cq, 1, &wc, asked ? 0 : 1000) == 1) {
			if (unordered && wc.status == IBV_WC_WR_FLUSH_ERR) { /* the rest of this Send never came */
				post_sink(qp, sinks, wc.wr_id);
				continue;
			}
			must(wc.status == IBV_WC_SUCCESS && wc.byte_len == len, ibv_wc_status_str(wc.status));
			memcpy(&m, sink + wc.wr_id * len, sizeof(m));
			check(sink + wc.wr_id * len, m);
			note(m, came++);
			post_sink(qp, sinks, wc.wr_id);
			continue;
		}
		if (asked) {
			printf("came %u counter %" PRIu64 "\n", came, __atomic_load_n(counter, __ATOMIC_RELAXED));
			fflush(stdout);
			asked = false;
		}
		if (poll(&in, 1, 0) <= 0)
			continue;
		if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
			break;
		asked = true;
	}
	must(ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 && ibv_dereg_mr(sinks) == 0, "the end");
	must(gram_srq == NULL || ibv_destroy_srq(gram_srq) == 0, "ibv_destroy_srq");
	free(counter);
	free(sink);
	return 0;
}

/* ---- the client ---- */

static struct client {
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *from, *back; /* from: bytes to write and send; back: bytes read */
	uint64_t *sum;        /* the counter's old value */
	struct ibv_ah *ah;
	uint32_t qpn, rkey, m, asked; /* asked: Reads that are not waited for yet */
	uint64_t where;
	uint8_t *many; /* memory of BURST messages */
	struct ibv_mr *many_mr;
} c;

static enum ibv_wc_status complete(void)
{
	struct ibv_wc wc;

	must(rnicdv_poll_cq(e.cq, 1, &wc, PATIENCE_US) == 1, "a work request has no completion");
	must(wc.wr_id == c.m, "the completion is of another work request");
	return wc.status;
}

/* op 0: Write, 1: Read, 2: fetch and add */
static void post_one_sided(int op)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(c.qp);
	const uint64_t slot = c.where + COUNTER_LEN + (uint64_t)(c.m % SLOTS) * len;
	uint8_t *local = op == 0 ? c.from : op == 1 ? c.back : (uint8_t *)c.sum;

	ibv_wr_start(ex);
	ex->wr_id = c.m;
	if (op == 0)
		ibv_wr_rdma_write(ex, c.rkey, slot);
	else if (op == 1)
		ibv_wr_rdma_read(ex, c.rkey, slot);
	else
		ibv_wr_atomic_fetch_add(ex, c.rkey, c.where, 1);
	ibv_wr_set_ud_addr(ex, c.ah, c.qpn, QKEY);
	ibv_wr_set_sge(ex, c.mr->lkey, (uintptr_t)local, op == 2 ? 8 : len);
	must(ibv_wr_complete(ex) == 0, "ibv_wr_complete");
}

static enum ibv_wc_status one_sided(int op)
{
	post_one_sided(op);
	return complete();
}

static enum ibv_wc_status send_message(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)c.from, .length = len, .lkey = c.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = c.m, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = { c.ah, c.qpn, QKEY }
	};
	struct ibv_send_wr *bad;

	must(ibv_post_send(c.qp, &wr, &bad) == 0, "ibv_post_send");
	return complete();
}

/* Message m as Write, Read, atomic addition and Send. */
static enum ibv_wc_status message(void)
{
	enum ibv_wc_status s;

	fill(c.from, c.m);
	memset(c.back, 0, len);
	if ((s = one_sided(0)) != IBV_WC_SUCCESS || (s = one_sided(1)) != IBV_WC_SUCCESS)
		return s;
	must(memcmp(c.from, c.back, len) == 0, "what was read is not what was written");
	if ((s = one_sided(2)) != IBV_WC_SUCCESS)
		return s;
	must(*c.sum == c.m, "the counter is wrong");
	if ((s = send_message()) == IBV_WC_SUCCESS)
		c.m++;
	return s;
}

static void ask(uint32_t n)
{
	c.m = 0;
	for (c.asked += n; n > 0; n--)
		post_one_sided(1);
}

static enum ibv_wc_status told(void)
{
	enum ibv_wc_status s = IBV_WC_SUCCESS;
	uint32_t n = 0;

	for (; c.asked > 0 && s == IBV_WC_SUCCESS; c.asked--, n++)
		s = complete();
	c.m = n;
	return s;
}

/* Posts request m: message m / 2 as a Write to its slot in the store if m is odd, else as a Send. */
static void post_one(uint32_t m, uint8_t *from)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from, .length = len, .lkey = c.many_mr->lkey };
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(c.qp);

	fill(from, m / 2);
	ibv_wr_start(ex);
	ex->wr_id = m;
	if (m % 2)
		ibv_wr_rdma_write(ex, c.rkey, c.where + COUNTER_LEN + (uint64_t)(m / 2 % SLOTS) * len);
	else
		ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, c.ah, c.qpn, QKEY);
	ibv_wr_set_sge_list(ex, 1, &sge);
	must(ibv_wr_complete(ex) == 0, "ibv_wr_complete");
}

/* Returns the number of completions that came while an older request had not completed. */
static uint32_t burst(uint32_t n)
{
	uint32_t of[BURST], given = 0, overtaken = 0; /* of: the message in each place */
	bool used[BURST] = { false };
	struct ibv_wc wc;

	for (uint32_t done = 0; done < n; done++) {
		for (uint32_t i = 0; i < BURST && given < n; i++) {
			if (used[i])
				continue;
			used[i] = true;
			of[i] = given;
			post_one(given++, c.many + (size_t)i * len);
		}
		must(rnicdv_poll_cq(e.cq, 1, &wc, PATIENCE_US) == 1, "a work request has no completion");
		must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		bool mine = false, older = false;
		for (uint32_t i = 0; i < BURST; i++) {
			older |= used[i] && of[i] < wc.wr_id;
			if (!used[i] || of[i] != wc.wr_id)
				continue;
			used[i] = false;
			mine = true;
		}
		must(mine, "a completion came twice");
		overtaken += older;
	}
	return overtaken;
}

static void turn_to(const char *address)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
	must(inet_pton(AF_INET, address, attr.grh.dgid.raw + 12) == 1, address);
	if (c.ah != NULL)
		must(ibv_destroy_ah(c.ah) == 0, "ibv_destroy_ah");
	c.ah = ibv_create_ah(e.pd, &attr);
	must(c.ah != NULL, "ibv_create_ah");
	c.m = 0;
}

static int client(void)
{
	enum ibv_wc_status s = IBV_WC_SUCCESS;
	char line[128], address[64];
	unsigned n;

	c.qp = make_qp();
	c.from = gram_memory(2 * (size_t)len + 8, ACCESS, &c.mr);
	c.back = c.from + len;
	c.sum = (uint64_t *)(void *)(c.back + len);
	c.many = gram_memory(BURST * (size_t)len, ACCESS, &c.many_mr);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (sscanf(line, "to %63s %u %" SCNu64 " %u", address, &c.qpn, &c.where, &c.rkey) == 4) {
			turn_to(address);
			continue;
		}
		if (sscanf(line, "burst %u", &n) == 1) {
			printf("overtaken %u\n", burst(n));
			fflush(stdout);
			continue;
		}
		if (sscanf(line, "ask %u", &n) == 1) {
			ask(n);
			continue;
		}
		if (strncmp(line, "told", 4) == 0)
			s = told();
		else if (sscanf(line, "go %u", &n) == 1)
			for (s = IBV_WC_SUCCESS; n > 0 && s == IBV_WC_SUCCESS; n--)
				s = message();
		else
			while ((s = message()) == IBV_WC_SUCCESS)
				;
		printf("messages %u status %u\n", c.m, (unsigned)s);
		fflush(stdout);
	}
	if (c.ah != NULL)
		must(ibv_destroy_ah(c.ah) == 0, "ibv_destroy_ah");
	must(ibv_destroy_qp(c.qp) == 0 && ibv_dereg_mr(c.mr) == 0 && ibv_dereg_mr(c.many_mr) == 0, "the end");
	free(c.from);
	free(c.many);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 4 || (strcmp(argv[2], "store") == 0 && argc < 5)) {
		fprintf(stderr, "usage: rd_ends ADDRESS store LEN LATER [unordered] [strict] [rnr=N] [shared]\n"
				"       rd_ends ADDRESS client LEN [unordered] [strict] [rnr=N]\n");
		return 2;
	}
	for (int i = 4; i < argc; i++) {
		unordered |= strcmp(argv[i], "unordered") == 0;
		shared |= strcmp(argv[i], "shared") == 0;
		gram_flags |= strcmp(argv[i], "strict") == 0 ? RNICDV_QP_STRICT : 0;
		if (strncmp(argv[i], "rnr=", 4) == 0)
			gram_rnr = atoi(argv[i] + 4);
	}
	gram_flags |= unordered ? RNICDV_QP_UNORDERED : 0;
	end_open(&e, argv[1]);
	len = (uint32_t)atoi(argv[3]); /* must be a multiple of 8 */
	return strcmp(argv[2], "store") == 0 ? store(atoi(argv[4]) != 0) : client();
}
