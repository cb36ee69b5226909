/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * routed ADDRESS [SOURCE]: prints the device by which rdma_resolve_addr() reaches the address, with or without a
 * source.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

static struct sockaddr_in addr_of(const char *text)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(4711) };

	inet_pton(AF_INET, text, &a.sin_addr);
	return a;
}

int main(int argc, char **argv)
{
	struct sockaddr_in dst, src;
	struct rdma_cm_id *id;

	if (argc < 2)
		return 2;
	dst = addr_of(argv[1]);
	if (argc > 2) {
		src = addr_of(argv[2]);
		src.sin_port = 0;
	}
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_resolve_addr(id, argc > 2 ? (struct sockaddr *)&src : NULL, (struct sockaddr *)&dst, 1000) != 0) {
		perror("routed");
		return 1;
	}
	puts(ibv_get_device_name(id->verbs->device));
	return rdma_destroy_id(id);
}
