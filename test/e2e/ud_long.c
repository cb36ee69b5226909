/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of datagram messages of any size; each end is a process of its own. Every byte of a message is a function of
 * the message's number, which is in its first four bytes.
 *
 * usage: ud_long ADDRESS sink COUNT MAX [port=N] [paced]
 *		prints its QPN, ends when COUNT whole messages of at most MAX bytes have come, and prints the sender of
 *		the last one; paced: also a line for each message
 *        ud_long ADDRESS source TO QPN LEN... [port=N] [paced]
 *		sends messages of these lengths in turn until its stdin ends; paced: one for each line of stdin, with a
 *		line for each that has left
 *        ud_long ADDRESS ports FIRST
 *		makes queue pairs with the UDP ports from FIRST on until one is refused, and prints their number
 *        ud_long ADDRESS numbers COUNT
 *		makes and destroys COUNT queue pairs, one after the other, and prints their QPNs
 * port: the UDP port of the queue pair.
 */
#include "gram_end.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECVS 16u
#define SENDS 4u
#define GRH   40u

static bool paced;

static uint8_t byte_of(uint32_t m, uint32_t i)
{
	return i < 4 ? (uint8_t)(m >> 8 * i) : (uint8_t)(m * 31 + i * 7 + (i >> 8) * 13);
}

static struct ibv_qp *make_qp(void)
{
	return gram_qp(e.cq, RNICDV_QPT_UD, (struct ibv_qp_cap){ SENDS, RECVS, 1, 1, 0 }, 0);
}

static void recv_again(struct ibv_qp *qp, const struct ibv_mr *mr, uint8_t *at, uint32_t i, uint32_t each)
{
	struct ibv_sge sge = { (uintptr_t)at + (size_t)i * each, each, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

static void check(const uint8_t *p, uint32_t len)
{
	uint32_t m = 0;

	memcpy(&m, p, len < 4 ? len : 4);
	for (uint32_t i = 0; i < len; i++) {
		if (p[i] == byte_of(m, i))
			continue;
		printf("# message %u of %u bytes: byte %u is wrong\n", m, len, i);
		exit(1);
	}
}

static int ports(uint16_t first)
{
	struct ibv_qp *qp[4096];
	uint32_t n = 0;

	for (gram_port = first; n < 4096; gram_port++) {
		struct rnicdv_qp_attr dv = { .comp_mask = RNICDV_QP_ATTR_UDP_PORT,
					     .type = RNICDV_QPT_UD,
					     .udp_port = gram_port };
		struct ibv_qp_init_attr_ex init = { .send_cq = e.cq,
						    .recv_cq = e.cq,
						    .qp_type = IBV_QPT_UD,
						    .pd = e.pd,
						    .cap = { 1, 1, 1, 1, 0 },
						    .comp_mask = IBV_QP_INIT_ATTR_PD };
		if ((qp[n] = rnicdv_create_qp(e.verbs, &init, &dv)) == NULL)
			break;
		n++;
	}
	printf("ports %u: %s\n", n, strerror(errno));
	for (uint32_t i = 0; i < n; i++)
		must(ibv_destroy_qp(qp[i]) == 0, "ibv_destroy_qp");
	return 0;
}

static int numbers(uint32_t count)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e.cq, .recv_cq = e.cq, .qp_type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 }
	};

	printf("numbers");
	for (uint32_t i = 0; i < count; i++) {
		struct ibv_qp *qp = ibv_create_qp(e.pd, &init);

		must(qp != NULL, "ibv_create_qp");
		printf(" %u", qp->qp_num);
		must(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	}
	printf("\n");
	return 0;
}

static int sink(uint32_t count, uint32_t max)
{
	const uint32_t each = GRH + max;
	struct ibv_mr *mr;
	uint8_t *at = gram_memory((size_t)RECVS * each, IBV_ACCESS_LOCAL_WRITE, &mr);
	struct ibv_qp *qp = make_qp();
	struct ibv_wc wc = { .src_qp = 0 };

	for (uint32_t i = 0; i < RECVS; i++)
		recv_again(qp, mr, at, i, each);
	printf("qpn %u\n", qp->qp_num);
	fflush(stdout);
	for (uint32_t n = 0; n < count;) {
		if (ibv_poll_cq(e.cq, 1, &wc) == 0) {
			sched_yield();
			continue;
		}
		must(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV, ibv_wc_status_str(wc.status));
		check(at + (size_t)wc.wr_id * each + GRH, wc.byte_len - GRH);
		recv_again(qp, mr, at, (uint32_t)wc.wr_id, each);
		n++;
		if (paced) {
			printf("came %u\n", wc.byte_len - GRH);
			fflush(stdout);
		}
	}
	printf("whole %u from %u\n", count, wc.src_qp);
	return ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 ? 0 : 1;
}

static struct ibv_ah *way_to(const char *address)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
	must(inet_pton(AF_INET, address, attr.grh.dgid.raw + 12) == 1, address);
	struct ibv_ah *ah = ibv_create_ah(e.pd, &attr);
	must(ah != NULL, "ibv_create_ah");
	return ah;
}

/* Whether the next message may be sent. *ended is set when stdin has ended. */
static bool asked(bool *ended)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };
	char line;

	if (poll(&p, 1, 0) == 0)
		return !paced;
	*ended = !paced || read(0, &line, 1) != 1;
	return !*ended;
}

static int source(const char *to, uint32_t qpn, char **lens, uint32_t n_lens)
{
	struct rnicdv_device_attr dev = { 0 };
	struct ibv_mr *mr;
	struct ibv_qp *qp = make_qp();
	struct ibv_ah *ah = way_to(to);
	uint32_t sent = 0, done = 0;
	bool ended = false;
	struct ibv_wc wc;

	must(rnicdv_query_device(e.verbs, &dev) == 0 && dev.max_ud_msg > 0, "rnicdv_query_device");
	uint8_t *at = gram_memory((size_t)SENDS * dev.max_ud_msg, IBV_ACCESS_LOCAL_WRITE, &mr);
	while (done < sent || !ended) {
		if (ibv_poll_cq(e.cq, 1, &wc) == 1) {
			must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
			done++;
			if (paced) {
				printf("left %u\n", done);
				fflush(stdout);
			}
		} else if (sent - done == SENDS || !asked(&ended)) {
			sched_yield();
		} else {
			uint8_t *p = at + (size_t)(sent % SENDS) * dev.max_ud_msg;
			const uint32_t len = (uint32_t)atoi(lens[sent % n_lens]);
			struct ibv_sge sge = { (uintptr_t)p, len, mr->lkey };
			struct ibv_send_wr wr = { .sg_list = &sge,
						  .num_sge = 1,
						  .opcode = IBV_WR_SEND,
						  .wr.ud = { ah, qpn, QKEY } },
					   *bad;
			for (uint32_t i = 0; i < len; i++)
				p[i] = byte_of(sent, i);
			must(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
			sent++;
		}
	}
	printf("sent %u\n", sent);
	return ibv_destroy_qp(qp) == 0 && ibv_destroy_ah(ah) == 0 && ibv_dereg_mr(mr) == 0 ? 0 : 1;
}

static bool is_option(const char *a)
{
	if (strcmp(a, "paced") == 0)
		paced = true;
	else if (strncmp(a, "port=", 5) == 0)
		gram_port = (uint16_t)atoi(a + 5);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	while (argc > 4 && is_option(argv[argc - 1]))
		argc--;
	if (argc < 4 || (argc < 5 && strcmp(argv[2], "ports") != 0 && strcmp(argv[2], "numbers") != 0)) {
		fprintf(stderr, "usage: ud_long ADDRESS sink COUNT MAX [port=N] [paced] | ADDRESS source TO QPN LEN... "
				"[port=N] [paced] | ADDRESS ports FIRST | ADDRESS numbers COUNT\n");
		return 2;
	}
	end_open(&e, argv[1]);
	if (strcmp(argv[2], "ports") == 0)
		return ports((uint16_t)atoi(argv[3]));
	if (strcmp(argv[2], "numbers") == 0)
		return numbers((uint32_t)atoi(argv[3]));
	if (strcmp(argv[2], "sink") == 0)
		return sink((uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
	return source(argv[3], (uint32_t)atoi(argv[4]), argv + 5, (uint32_t)(argc - 5));
}
