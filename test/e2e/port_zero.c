/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_zero ADDRESS [PEER PORT]: binds an id to port 0 of the address and prints the port. After a line on stdin the id
 * listens, or connects to the peer; after another line the program ends.
 * OWN_PORT=N in the environment: port N in the place of 0
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

static struct sockaddr_in addr_of(const char *text, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	inet_pton(AF_INET, text, &a.sin_addr);
	return a;
}

static int tell(const char *what, int rc)
{
	if (rc != 0)
		perror(what);
	else
		puts(what);
	fflush(stdout);
	return rc;
}

static int dial(struct rdma_cm_id *id, const char *peer, const char *port)
{
	struct sockaddr_in to = addr_of(peer, port);
	struct rdma_conn_param param = { .retry_count = 7 };

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) != 0 || rdma_resolve_route(id, 1000) != 0)
		return -1;
	return rdma_connect(id, &param);
}

int main(int argc, char **argv)
{
	const char *own = getenv("OWN_PORT");
	struct sockaddr_in at = addr_of(argv[1], own != NULL ? own : "0");
	struct rdma_cm_id *id;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0 ||
	    tell("bind", rdma_bind_addr(id, (struct sockaddr *)&at)) != 0)
		return 1;
	printf("port %u\n", ntohs(rdma_get_src_port(id)));
	fflush(stdout);
	(void)getchar();
	if (argc > 3 ? tell("connect", dial(id, argv[2], argv[3])) : tell("listen", rdma_listen(id, 4)))
		return 1;
	(void)getchar();
	return tell("destroy", rdma_destroy_id(id));
}
