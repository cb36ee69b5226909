/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP connection that both programs have used as TCP becomes an iWARP connection.
 *
 *	handed connect|listen ADDRESS PORT active|passive
 *
 * First each end sends the line "streams" and reads the peer's line, but no byte beyond it. At the switch the passive
 * end tells the address of its memory in its private data. The active end writes to this memory, then sends a message,
 * which the passive end answers. Then the program prints "refusals": the sockets that cannot be switched, and why.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rnic/rnicdv.h>

#define SIZE (1u << 20)

struct where {
	uint64_t addr;
	uint32_t rkey;
};

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static uint8_t pattern(uint32_t i) { return (uint8_t)(i * 2654435761u >> 24 ^ i); }

static int tcp(bool listens, const char *addr, const char *port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1, c = s;

	inet_pton(AF_INET, addr, &sin.sin_addr);
	if (!listens) {
		if (connect(s, (struct sockaddr *)&sin, sizeof(sin)) != 0)
			die("connect");
		return s;
	}
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&sin, sizeof(sin)) != 0 || listen(s, 1) != 0)
		die("listen");
	puts("listening");
	c = accept(s, NULL, NULL);
	if (c < 0)
		die("accept");
	close(s);
	return c;
}

static void line_out(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die("write");
}

/* Reads a line, and not one byte beyond it. */
static void line_in(int fd)
{
	char c = 0;

	while (c != '\n') {
		if (read(fd, &c, 1) != 1)
			die("read");
		if (c != '\n')
			putchar(c);
	}
	putchar('\n');
}

static void complete(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	if (n < 0 || wc.status != IBV_WC_SUCCESS) {
		printf("%s: %s\n", what, n < 0 ? "poll" : ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static void queue_pair(struct rdma_cm_id *id, uint8_t *buf, struct ibv_mr **mr)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	if (rdma_create_qp(id, NULL, &attr) != 0)
		die("queue pair");
	*mr = ibv_reg_mr(id->pd, buf, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (*mr == NULL || rdma_post_recv(id, NULL, buf + SIZE - 64, 64, *mr) != 0)
		die("receive");
}

static void active(struct rdma_cm_id *id, int fd, uint8_t *buf)
{
	struct rdma_conn_param param = { .private_data = "asks", .private_data_len = 4 };
	struct ibv_mr *mr;
	struct where there;

	if (rnicdv_resolve_socket(id, fd) != 0)
		die("resolve");
	queue_pair(id, buf, &mr);
	if (rdma_connect(id, &param) != 0)
		die("rdma_connect");
	close(fd);
	memcpy(&there, id->event->param.conn.private_data, sizeof(there));
	for (uint32_t i = 0; i < SIZE / 2; i++)
		buf[i] = pattern(i);
	if (rdma_post_write(id, NULL, buf, SIZE / 2, mr, 0, there.addr, there.rkey) != 0)
		die("write");
	complete(id->send_cq, "write");
	if (rdma_post_send(id, NULL, "written", 8, NULL, IBV_SEND_INLINE) != 0)
		die("send");
	complete(id->send_cq, "send");
	complete(id->recv_cq, "answer");
	printf("answer: %s\n", (char *)buf + SIZE - 64);
	rdma_disconnect(id);
}

static void passive(struct rdma_cm_id *id, int fd, uint8_t *buf)
{
	struct where here = { .addr = (uintptr_t)buf };
	struct rdma_conn_param param = { .private_data = &here, .private_data_len = sizeof(here) };
	struct ibv_mr *mr;
	uint32_t i = 0;

	if (rnicdv_await_socket(id, fd) != 0)
		die("await");
	printf("%s: %.*s\n", rdma_event_str(id->event->event), (int)id->event->param.conn.private_data_len,
	       (const char *)id->event->param.conn.private_data);
	queue_pair(id, buf, &mr);
	here.rkey = mr->rkey;
	if (rdma_accept(id, &param) != 0)
		die("rdma_accept");
	close(fd);
	complete(id->recv_cq, "receive");
	while (i < SIZE / 2 && buf[i] == pattern(i))
		i++;
	printf("%u bytes are right\n", i);
	if (rdma_post_send(id, NULL, "all there", 10, NULL, IBV_SEND_INLINE) != 0)
		die("send");
	complete(id->send_cq, "send");
	rdma_disconnect(id);
}

static void refusal(const char *what, int fd)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
		die("id");
	errno = 0;
	printf("refusals: %s %s\n", what, rnicdv_resolve_socket(id, fd) == 0 ? "none" : strerrorname_np(errno));
	rdma_destroy_id(id);
	close(fd);
}

int main(int argc, char **argv)
{
	uint8_t *buf = calloc(1, SIZE);
	struct rdma_cm_id *id;
	int pair[2];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 5 || buf == NULL)
		return 2;
	int fd = tcp(strcmp(argv[1], "listen") == 0, argv[2], argv[3]);
	line_out(fd, "streams\n");
	line_in(fd);
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
		die("id");
	if (strcmp(argv[4], "active") == 0)
		active(id, fd, buf);
	else
		passive(id, fd, buf);
	rdma_destroy_ep(id);
	refusal("closed", 1000);
	refusal("datagrams", socket(AF_INET, SOCK_DGRAM, 0));
	refusal("unconnected", socket(AF_INET, SOCK_STREAM, 0));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		die("pair");
	refusal("pair", pair[0]);
	return 0;
}
