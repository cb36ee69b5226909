/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * onesided - RDMA Write and RDMA Read: the client writes into the server's memory and reads it back, while the server
 * only waits. The private data of the server's accept has the address of its memory. A Send at the end tells the server
 * that all Writes have arrived (a Send arrives after the Writes before it); then the server checks the data.
 *
 * 	onesided -s 10.77.0.1	on the server; it ends after one client
 * 	onesided 10.77.0.1	on the client
 *
 * Build:	cc -o onesided onesided.c -lrnic	or, with the system's libraries: -lrdmacm -libverbs
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (1u << 20)

struct where { /* on the wire, big endian */
	uint64_t addr;
	uint32_t rkey, size;
};

static void die(const char *what)
{
	fprintf(stderr, "onesided: %s: %s%s\n", what, strerror(errno),
		errno == ENODEV ? " (no RDMA device: is rnicd running?)" : "");
	exit(1);
}

static struct rdma_cm_id *end_point(const char *addr, const char *port, int is_server)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = is_server ? RAI_PASSIVE : 0 }, *ai;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(addr, port, &hints, &ai) != 0)
		die("resolving the address");
	if (rdma_create_ep(&id, ai, NULL, &attr) != 0)
		die(is_server ? "listening at the address" : "reaching the address");
	rdma_freeaddrinfo(ai);
	return id;
}

static void complete(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	if (n < 0)
		die("polling");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "onesided: %s: %s\n", what, ibv_wc_status_str(wc.status));
		exit(1);
	}
}

/* Do one operation of len bytes between buf and the server's memory, and wait until it has completed. */
static void operate(struct rdma_cm_id *id, enum ibv_wr_opcode op, void *buf, uint32_t len, struct ibv_mr *mr,
		    const struct where *there)
{
	struct ibv_sge sge = { (uintptr_t)buf, len, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .wr.rdma = { be64toh(there->addr), ntohl(there->rkey) } },
			   *bad;

	errno = ibv_post_send(id->qp, &wr, &bad);
	if (errno != 0)
		die("posting");
	complete(id->send_cq, op == IBV_WR_RDMA_WRITE ? "writing" : op == IBV_WR_RDMA_READ ? "reading" : "sending");
}

/* Byte i of the test data. */
static uint8_t pattern(uint32_t i) { return (uint8_t)(i * 2654435761u >> 24 ^ i); }

static void check(const uint8_t *buf, const char *whose)
{
	for (uint32_t i = 0; i < SIZE; i++) {
		if (buf[i] != pattern(i)) {
			fprintf(stderr, "onesided: byte %u of %s memory is wrong\n", i, whose);
			exit(1);
		}
	}
	printf("%u bytes of %s memory are as they should be\n", SIZE, whose);
}

static void server(struct rdma_cm_id *listener, uint8_t *buf, const char *addr, const char *port)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	struct ibv_sge sge = { (uintptr_t)buf + SIZE, 8 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct rdma_cm_id *id;
	struct where here;
	struct ibv_mr *mr;

	if (rdma_listen(listener, 1) != 0)
		die("listening");
	printf("listening on %s port %s\n", addr, port);
	fflush(stdout);
	if (rdma_get_request(listener, &id) != 0)
		die("waiting for a client");
	mr = ibv_reg_mr(id->pd, buf, SIZE + 8,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (mr == NULL)
		die("registering memory");
	here = (struct where){ htobe64((uintptr_t)buf), htonl(mr->rkey), htonl(SIZE) };
	param.private_data = &here;
	param.private_data_len = sizeof(here);
	sge.lkey = mr->lkey; /* the receive for the last Send lies after the offered memory */
	errno = ibv_post_recv(id->qp, &wr, &bad);
	if (errno != 0)
		die("posting a receive");
	if (rdma_accept(id, &param) != 0)
		die("accepting");
	complete(id->recv_cq, "waiting for the client to finish");
	check(buf, "the server's");
	rdma_disconnect(id);
	ibv_dereg_mr(mr);
	rdma_destroy_ep(id);
}

static void client(struct rdma_cm_id *id, uint8_t *buf)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	struct ibv_mr *mr = ibv_reg_mr(id->pd, buf, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct where there;

	if (mr == NULL)
		die("registering memory");
	if (rdma_connect(id, &param) != 0)
		die("connecting (is \"onesided -s\" running there?)");
	if (id->event == NULL || id->event->param.conn.private_data_len < sizeof(there)) {
		fprintf(stderr, "onesided: the server did not say where its memory is\n");
		exit(1);
	}
	memcpy(&there, id->event->param.conn.private_data, sizeof(there));
	for (uint32_t i = 0; i < SIZE; i++)
		buf[i] = pattern(i);
	operate(id, IBV_WR_RDMA_WRITE, buf, SIZE, mr, &there);
	memset(buf, 0, SIZE);
	operate(id, IBV_WR_RDMA_READ, buf, SIZE, mr, &there);
	check(buf, "read-back");
	operate(id, IBV_WR_SEND, buf, 8, mr, &there);
	rdma_disconnect(id);
	ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' },
					       { "server", no_argument, NULL, 's' },
					       { "port", required_argument, NULL, 'p' },
					       { NULL, 0, NULL, 0 } };
	const char *port = "18611";
	struct rdma_cm_id *id;
	void *buf = NULL;
	int c, is_server = 0, bad = 0, help = 0;

	while ((c = getopt_long(argc, argv, "hsp:", longs, NULL)) != -1) {
		is_server |= c == 's';
		help |= c == 'h';
		bad |= c == '?';
		if (c == 'p')
			port = optarg;
	}
	if (help || bad || argc - optind != 1) {
		fputs("usage: onesided -s [-p PORT] ADDR    offer memory to one client on ADDR\n"
		      "       onesided [-p PORT] ADDR       write it, read it back, compare\n",
		      help ? stdout : stderr);
		return help ? 0 : 2;
	}
	if (posix_memalign(&buf, 4096, SIZE + 8) != 0)
		die("allocating memory");
	id = end_point(argv[optind], port, is_server);
	if (is_server)
		server(id, buf, argv[optind], port);
	else
		client(id, buf);
	rdma_destroy_ep(id);
	free(buf);
	return 0;
}
