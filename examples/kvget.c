/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvget - a key-value store whose GETs cost the server nothing: its hash table lies in registered memory, clients fetch
 * buckets with RDMA Read and search them for the key. The accept carries the table's address. Each bucket has a
 * checksum, so that a client notices a bucket that changed while it was read, and reads it again.
 *
 * 	kvget -s 10.77.0.1 [KEY=VALUE ..]	on the server; runs until SIGINT (without pairs: a basket of fruit)
 * 	kvget 10.77.0.1 KEY [KEY ..]		on a client; prints the values
 *
 * Build:	cc -o kvget kvget.c -lrnic		or, with the system's libraries: -lrdmacm -libverbs
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u /* open addressing: a key stands in its bucket, or behind it with no empty one between */

struct bucket {
	uint32_t sum; /* checksum of the other fields; big endian */
	char key[60]; /* zero-terminated and zero-filled; empty: the bucket is free */
	char value[192];
};

struct where { /* on the wire, big endian */
	uint64_t addr;
	uint32_t rkey, buckets;
};

static void die(const char *what)
{
	fprintf(stderr, "kvget: %s: %s%s\n", what, strerror(errno),
		errno == ENODEV ? " (no RDMA device: is rnicd running?)" : "");
	exit(1);
}

static uint32_t fnv(const void *data, size_t len) /* FNV-1a, 32 bits */
{
	const uint8_t *p = data;
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 16777619u;
	return h;
}

static uint32_t bucket_sum(const struct bucket *b) { return htonl(fnv(b->key, sizeof(*b) - sizeof(b->sum))); }

static void put(struct bucket *table, const char *pair)
{
	const char *value = strchrnul(pair, '=');
	char key[sizeof(table->key)] = "";
	uint32_t h;

	snprintf(key, sizeof(key), "%.*s", (int)(value - pair), pair);
	for (h = fnv(key, strlen(key)); table[h % BUCKETS].key[0] != '\0'; h++)
		if (strcmp(table[h % BUCKETS].key, key) == 0)
			break;
	memcpy(table[h % BUCKETS].key, key, sizeof(key));
	snprintf(table[h % BUCKETS].value, sizeof(table->value), "%s", *value != '\0' ? value + 1 : "");
	table[h % BUCKETS].sum = bucket_sum(&table[h % BUCKETS]);
}

static struct rdma_cm_id *end_point(const char *addr, const char *port, int is_server)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = is_server ? RAI_PASSIVE : 0 }, *ai;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = { 4, 4, 1, 1, 0 } };
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(addr, port, &hints, &ai) != 0)
		die("resolving the address");
	if (rdma_create_ep(&id, ai, NULL, &attr) != 0)
		die(is_server ? "listening at the address" : "reaching the address");
	rdma_freeaddrinfo(ai);
	return id;
}

/* Accepts clients. The server takes no part in their Reads, and never closes a connection. */
static void server(struct rdma_cm_id *listener, struct bucket *table, const char *addr, const char *port)
{
	struct where here;
	struct rdma_conn_param param = { &here, sizeof(here), .responder_resources = 4 };

	if (rdma_listen(listener, 16) != 0)
		die("listening");
	printf("listening on %s port %s\n", addr, port);
	fflush(stdout);
	for (;;) {
		struct rdma_cm_id *id;
		struct ibv_mr *mr;

		if (rdma_get_request(listener, &id) != 0)
			die("waiting for a client");
		mr = ibv_reg_mr(id->pd, table, BUCKETS * sizeof(*table), IBV_ACCESS_REMOTE_READ);
		if (mr == NULL)
			die("registering the table");
		here = (struct where){ htobe64((uintptr_t)table), htonl(mr->rkey), htonl(BUCKETS) };
		if (rdma_accept(id, &param) != 0)
			rdma_destroy_ep(id); /* a client that went away meanwhile is no reason to end */
	}
}

/* Reads bucket i until its checksum is right. */
static void read_bucket(struct rdma_cm_id *id, struct bucket *b, struct ibv_mr *mr, const struct where *there,
			uint32_t i)
{
	const uint64_t addr = be64toh(there->addr) + i * sizeof(*b);
	struct ibv_wc wc;

	do {
		if (rdma_post_read(id, NULL, b, sizeof(*b), mr, 0, addr, ntohl(there->rkey)) != 0)
			die("posting a Read");
		while (ibv_poll_cq(id->send_cq, 1, &wc) == 0)
			;
		errno = EIO;
		if (wc.status != IBV_WC_SUCCESS)
			die(ibv_wc_status_str(wc.status));
	} while (b->sum != bucket_sum(b));
}

/* 1 and *b holds the pair; 0 there is none. */
static int get(struct rdma_cm_id *id, struct bucket *b, struct ibv_mr *mr, const struct where *there, const char *key)
{
	for (uint32_t h = fnv(key, strlen(key));; h++) {
		read_bucket(id, b, mr, there, h % ntohl(there->buckets));
		if (b->key[0] == '\0')
			return 0;
		if (strncmp(b->key, key, sizeof(b->key)) == 0)
			return 1;
	}
}

static int client(struct rdma_cm_id *id, char **keys, int n)
{
	static struct bucket b;
	struct rdma_conn_param param = { .initiator_depth = 4 }; /* Reads under way */
	struct ibv_mr *mr = ibv_reg_mr(id->pd, &b, sizeof(b), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct where there = { 0 };
	int missing = 0;

	if (mr == NULL)
		die("registering memory");
	if (rdma_connect(id, &param) != 0)
		die("connecting (is \"kvget -s\" running there?)");
	if (id->event != NULL && id->event->param.conn.private_data_len >= sizeof(there))
		memcpy(&there, id->event->param.conn.private_data, sizeof(there));
	errno = EPROTO;
	if (there.buckets == 0)
		die("learning where the table is");
	for (int i = 0; i < n; i++) {
		int found = get(id, &b, mr, &there, keys[i]);

		printf("%s %s %.*s\n", keys[i], found ? "=" : "is not there", found ? (int)sizeof(b.value) : 0,
		       b.value);
		missing |= !found;
	}
	rdma_disconnect(id);
	ibv_dereg_mr(mr);
	return missing;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "help", 0, NULL, 'h' }, { "server", 0, NULL, 's' }, { "port", 1, NULL, 'p' }, { NULL, 0, NULL, 0 }
	};
	static struct bucket table[BUCKETS] __attribute__((aligned(4096)));
	static char apple[] = "apple=green", cherry[] = "cherry=red", *fruit[] = { apple, cherry, NULL };
	const char *port = "18612";
	int c, is_server = 0, bad = 0, help = 0, rest;

	while ((c = getopt_long(argc, argv, "hsp:", longs, NULL)) != -1) {
		is_server |= c == 's';
		help |= c == 'h';
		bad |= c == '?';
		port = c == 'p' ? optarg : port;
	}
	rest = argc - optind - 1;
	if (help || bad || rest < !is_server || rest >= (int)BUCKETS / 2) {
		fputs("usage: kvget -s [-p PORT] ADDR [KEY=VALUE ..]   serve a table on ADDR until SIGINT\n"
		      "       kvget [-p PORT] ADDR KEY [KEY ..]        look keys up in it\n",
		      help ? stdout : stderr);
		return help ? 0 : 2;
	}
	if (!is_server)
		return client(end_point(argv[optind], port, 0), argv + optind + 1, rest);
	for (uint32_t i = 0; i < BUCKETS; i++)
		table[i].sum = bucket_sum(&table[i]);
	for (char **pair = rest > 0 ? argv + optind + 1 : fruit; *pair != NULL; pair++)
		put(table, *pair);
	server(end_point(argv[optind], port, 1), table, argv[optind], port);
}
