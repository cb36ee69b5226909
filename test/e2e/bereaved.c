/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bereaved ADDRESS: three threads wait without end: for an asynchronous event, for a connection request, and in
 * rdma_connect() for an answer that never comes. Prints "waiting" when all three wait, then a line for each that
 * returns.
 */
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT "18700"

static struct rdma_cm_id *listener;
static sem_t requested;

static void line(const char *who, int rc, int err, const char *what)
{
	printf("%s: %s %s\n", who, rc == 0 ? "event" : strerrorname_np(err), what);
	fflush(stdout);
}

static void *wait_async(void *arg)
{
	struct ibv_async_event e;
	int rc = ibv_get_async_event(arg, &e);

	line("async", rc, errno, rc == 0 ? ibv_event_type_str(e.event_type) : "");
	return NULL;
}

/* The first request is taken and never answered. */
static void *wait_request(void *arg)
{
	struct rdma_cm_id *id;

	if (rdma_get_request(listener, &id) != 0) {
		perror("first request");
		exit(1);
	}
	sem_post(&requested);
	int rc = rdma_get_request(listener, &id);
	line("request", rc, errno, "");
	return arg;
}

static struct rdma_cm_id *end_point(const char *addr, int flags)
{
	struct ibv_qp_init_attr qp = { .cap = { 1, 1, 1, 1, 0 }, .sq_sig_all = 1 };
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *res;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(addr, PORT, &hints, &res) != 0 || rdma_create_ep(&id, res, NULL, &qp) != 0) {
		perror("end point");
		exit(1);
	}
	rdma_freeaddrinfo(res);
	return id;
}

static void *wait_connect(void *arg)
{
	int rc = rdma_connect(arg, NULL);

	line("connect", rc, errno, "");
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[3];

	if (argc != 2)
		return 2;
	sem_init(&requested, 0, 0);
	listener = end_point(argv[1], RAI_PASSIVE);
	if (rdma_listen(listener, 1) != 0) {
		perror("listen");
		return 1;
	}
	struct rdma_cm_id *caller = end_point(argv[1], 0);
	pthread_create(&t[0], NULL, wait_async, caller->verbs);
	pthread_create(&t[1], NULL, wait_request, NULL);
	pthread_create(&t[2], NULL, wait_connect, caller);
	sem_wait(&requested);
	puts("waiting");
	fflush(stdout);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	return 0;
}
