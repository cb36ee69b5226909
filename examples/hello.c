/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello - the smallest RDMA conversation: the client sends a greeting, the server answers it. Send and Recv over a
 * connection of rdma_cm. Runs over librnic and over any other RDMA device.
 *
 *	hello -s 10.77.0.1		on the server; it ends after one client
 *	hello 10.77.0.1 "good day"	on the client
 *
 * Build:	cc -o hello hello.c -lrnic		or, with the system's libraries: -lrdmacm -libverbs
 */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 256

static void die(const char *what)
{
	fprintf(stderr, "hello: %s: %s%s\n", what, strerror(errno),
		errno == ENODEV ? " (no RDMA device: is rnicd running?)" : "");
	exit(1);
}

static void usage(FILE *out)
{
	fputs("usage: hello -s [-p PORT] ADDR             wait for one client on ADDR\n"
	      "       hello [-p PORT] ADDR [GREETING]     greet the server at ADDR\n",
	      out);
}

/* Makes the end point for ADDR: the server's listens, the client's is ready to connect. */
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

/* Poll until one operation has completed; returns its length. */
static uint32_t complete(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	if (n < 0)
		die("polling");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "hello: %s: %s\n", what, ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc.byte_len;
}

static void post_recv(struct rdma_cm_id *id, char *buf, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)buf, SIZE, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(id->qp, &wr, &bad);
	if (errno != 0)
		die("posting a receive");
}

static void send_text(struct rdma_cm_id *id, const char *text, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)text, (uint32_t)strlen(text), mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	errno = ibv_post_send(id->qp, &wr, &bad);
	if (errno != 0)
		die("posting a Send");
	complete(id->send_cq, "sending");
}

/* Waits until the peer has closed the connection. */
static void wait_for_end(struct rdma_cm_id *id)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;

	do {
		if (rdma_get_cm_event(id->channel, &event) != 0)
			die("waiting for the client's end");
		type = event->event;
		rdma_ack_cm_event(event);
	} while (type != RDMA_CM_EVENT_DISCONNECTED);
}

static void server(struct rdma_cm_id *listener, const char *addr, const char *port)
{
	static char in[SIZE + 1], out[2 * SIZE];
	struct ibv_mr *mr_in, *mr_out;
	struct rdma_cm_id *id;

	if (rdma_listen(listener, 1) != 0)
		die("listening");
	printf("listening on %s port %s\n", addr, port);
	fflush(stdout);
	if (rdma_get_request(listener, &id) != 0)
		die("waiting for a client");
	mr_in = ibv_reg_mr(id->pd, in, SIZE, IBV_ACCESS_LOCAL_WRITE);
	mr_out = ibv_reg_mr(id->pd, out, sizeof(out), 0);
	if (mr_in == NULL || mr_out == NULL)
		die("registering memory");
	post_recv(id, in, mr_in); /* posted before accepting, since the greeting may follow at once */
	if (rdma_accept(id, NULL) != 0)
		die("accepting");
	in[complete(id->recv_cq, "receiving")] = '\0';
	printf("the client says: %s\n", in);
	snprintf(out, SIZE, "hello to you too, I heard \"%.200s\"", in);
	send_text(id, out, mr_out);
	wait_for_end(id); /* the client closes when it has the answer: a close by the server could overtake the
			   * answer */
	ibv_dereg_mr(mr_in);
	ibv_dereg_mr(mr_out);
	rdma_destroy_ep(id);
}

static void client(struct rdma_cm_id *id, const char *greeting)
{
	static char in[SIZE + 1], out[SIZE];
	struct ibv_mr *mr_in = ibv_reg_mr(id->pd, in, SIZE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *mr_out = ibv_reg_mr(id->pd, out, sizeof(out), 0);

	if (mr_in == NULL || mr_out == NULL)
		die("registering memory");
	post_recv(id, in, mr_in);
	if (rdma_connect(id, NULL) != 0)
		die("connecting (is \"hello -s\" running there?)");
	snprintf(out, sizeof(out), "%s", greeting);
	send_text(id, out, mr_out);
	in[complete(id->recv_cq, "receiving")] = '\0';
	printf("the server says: %s\n", in);
	rdma_disconnect(id);
	ibv_dereg_mr(mr_in);
	ibv_dereg_mr(mr_out);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' },
					       { "server", no_argument, NULL, 's' },
					       { "port", required_argument, NULL, 'p' },
					       { NULL, 0, NULL, 0 } };
	const char *port = "18610";
	struct rdma_cm_id *id;
	int c, is_server = 0;

	while ((c = getopt_long(argc, argv, "hsp:", longs, NULL)) != -1) {
		if (c == 's') {
			is_server = 1;
		} else if (c == 'p') {
			port = optarg;
		} else {
			usage(c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
	}
	if (optind == argc || argc - optind > (is_server ? 1 : 2)) {
		usage(stderr);
		return 2;
	}
	id = end_point(argv[optind], port, is_server);
	if (is_server)
		server(id, argv[optind], port);
	else
		client(id, argc - optind == 2 ? argv[optind + 1] : "hello");
	rdma_destroy_ep(id);
	return 0;
}
