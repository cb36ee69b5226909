/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer -s [-a ADDR] [-p PORT] [-i IRD] [-o ORD]                      serve until the end of standard input
 * peer [-p PORT] [-i IRD] [-o ORD] [-n FIRST] ADDR SCENARIO...       one connection for each scenario
 * One line "N NAME ok" or "N NAME FAIL why" per connection; N is the client's number of it, from FIRST on.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool parse_scenario(struct peer_scenario *sc, const char *text)
{
	char name[PEER_NAME_MAX];

	if (strlen(text) >= PEER_NAME_MAX)
		return false;
	*sc = (struct peer_scenario){ .size = 64, .count = 1 };
	strcpy(sc->name, text);
	sc->reverse = strncmp(text, "r.", 2) == 0;
	strcpy(name, sc->reverse ? text + 2 : text);
	char *size = strchr(name, ':');
	if (size != NULL) {
		*size++ = '\0';
		char *count = strchr(size, ':');
		sc->size = (uint32_t)strtoul(size, NULL, 0);
		if (count != NULL)
			sc->count = (uint32_t)strtoul(count + 1, NULL, 0);
	}
	strcpy(sc->kind, name);
	return true;
}

static bool prepare(struct peer_conn *c)
{
	/* the last connection may have invalidated the region: register it again */
	if (strstr(c->sc.kind, "inv") != NULL) {
		ibv_dereg_mr(c->p->inv_mr);
		c->p->inv_mr = ibv_reg_mr(c->p->pd, c->p->inv, 4096,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
		if (c->p->inv_mr == NULL)
			return peer_fail(c, "reg_mr: %s", strerror(errno));
	}
	return peer_is_err(c->sc.kind) ? peer_err_prepare(c) : peer_prepare(c);
}

static struct rdma_conn_param param(struct peer_conn *c, uint8_t *priv)
{
	peer_hello(c, priv);
	return (struct rdma_conn_param){
		.private_data = priv,
		.private_data_len = strcmp(c->sc.kind, "pd") == 0 ? (uint8_t)c->sc.size : sizeof(struct peer_hello),
		.responder_resources = c->p->ird,
		.initiator_depth = c->p->ord,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

static bool established(struct peer_conn *c)
{
	struct rdma_cm_event *e;

	if (!peer_expect(c, RDMA_CM_EVENT_ESTABLISHED, &e))
		return false;
	c->established = true;
	peer_say(c, "established ird %u ord %u private %u", e->param.conn.responder_resources,
		 e->param.conn.initiator_depth, e->param.conn.private_data_len);
	bool ok = c->p->server || peer_far(c, e);
	if (ok && !c->p->server && strcmp(c->sc.kind, "pd") == 0 && e->param.conn.private_data_len < c->sc.size)
		ok = peer_fail(c, "%u bytes of private data", e->param.conn.private_data_len);
	rdma_ack_cm_event(e);
	return ok;
}

static bool run(struct peer_conn *c) { return peer_is_err(c->sc.kind) ? peer_err_run(c) : peer_run(c); }

/* ---- server ---- */

static bool refuse(struct peer_conn *c)
{
	static const char sorry[] = "sorry-no";

	return rdma_reject(c->id, sorry, sizeof(sorry)) == 0 || peer_fail(c, "reject: %s", strerror(errno));
}

static bool serve_one(struct peer_conn *c, struct rdma_cm_event *e)
{
	uint8_t priv[256];

	if (!peer_far(c, e))
		return false;
	c->number = c->far.id;
	if (!parse_scenario(&c->sc, c->far.name))
		return peer_fail(c, "scenario %s", c->far.name);
	peer_say(c, "request ird %u ord %u private %u", e->param.conn.responder_resources,
		 e->param.conn.initiator_depth, e->param.conn.private_data_len);
	if (strcmp(c->sc.kind, "pd") == 0 && e->param.conn.private_data_len < c->sc.size)
		return peer_fail(c, "%u bytes of private data", e->param.conn.private_data_len);
	if (strcmp(c->sc.kind, "reject") == 0)
		return refuse(c);
	peer_setup(c->p, c->id->verbs);
	if (!peer_make_qp(c) || !prepare(c))
		return false;
	struct rdma_conn_param cp = param(c, priv);
	if (rdma_accept(c->id, &cp) != 0)
		return peer_fail(c, "accept: %s", strerror(errno));
	return established(c) && run(c);
}

static void finish(struct peer_conn *c, bool ok)
{
	if (!ok && c->established && !c->gone)
		rdma_disconnect(c->id);
	if (c->id != NULL && c->id->qp != NULL)
		rdma_destroy_qp(c->id);
	if (c->cq != NULL)
		ibv_destroy_cq(c->cq);
	if (c->id != NULL)
		rdma_destroy_id(c->id);
	if (!ok)
		printf("%u %s FAIL %s\n", c->number, c->sc.name, c->why);
	else if (!c->p->quiet)
		printf("%u %s ok\n", c->number, c->sc.name);
}

static int serve(struct peer *p, struct sockaddr_in *sa)
{
	struct rdma_cm_id *listener;

	if (rdma_create_id(p->ch, &listener, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(listener, (struct sockaddr *)sa) != 0 || rdma_listen(listener, 16) != 0) {
		printf("DIE listen: %s\n", strerror(errno));
		return 2;
	}
	printf("listening\n");
	for (;;) {
		struct peer_conn c = { .p = p };
		struct rdma_cm_event *e = p->stash;
		struct pollfd pfd[2] = { { .fd = p->ch->fd, .events = POLLIN },
					 { .fd = STDIN_FILENO, .events = POLLIN } };

		p->stash = NULL;
		if (e == NULL) {
			if (poll(pfd, 2, -1) > 0 && pfd[1].revents != 0)
				break;
			if (rdma_get_cm_event(p->ch, &e) != 0)
				continue;
		}
		if (e->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
			printf("stray event %s\n", rdma_event_str(e->event));
			rdma_ack_cm_event(e);
			continue;
		}
		/* the private data belongs to the event until the event is acknowledged */
		c.id = e->id;
		bool ok = serve_one(&c, e);
		rdma_ack_cm_event(e);
		finish(&c, ok);
	}
	rdma_destroy_id(listener);
	return 0;
}

/* ---- client ---- */

static bool refused(struct peer_conn *c)
{
	struct rdma_cm_event *e;

	if (!peer_expect(c, RDMA_CM_EVENT_REJECTED, &e))
		return false;
	uint32_t n = e->param.conn.private_data_len;
	bool ok = n >= 9 && memcmp(e->param.conn.private_data, "sorry-no", 9) == 0;
	rdma_ack_cm_event(e);
	return ok || peer_fail(c, "rejected with %u bytes of private data", n);
}

static bool connect_one(struct peer_conn *c, struct sockaddr_in *sa)
{
	uint8_t priv[256];

	if (rdma_create_id(c->p->ch, &c->id, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_resolve_addr(c->id, NULL, (struct sockaddr *)sa, PEER_STEP_MS) != 0)
		return peer_fail(c, "resolve_addr: %s", strerror(errno));
	if (!peer_expect(c, RDMA_CM_EVENT_ADDR_RESOLVED, NULL))
		return false;
	if (rdma_resolve_route(c->id, PEER_STEP_MS) != 0)
		return peer_fail(c, "resolve_route: %s", strerror(errno));
	if (!peer_expect(c, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL))
		return false;
	peer_setup(c->p, c->id->verbs);
	if (!peer_make_qp(c) || !prepare(c))
		return false;
	struct rdma_conn_param cp = param(c, priv);
	if (rdma_connect(c->id, &cp) != 0)
		return peer_fail(c, "connect: %s", strerror(errno));
	if (strcmp(c->sc.kind, "reject") == 0)
		return refused(c);
	return established(c) && run(c);
}

static int client(struct peer *p, struct sockaddr_in *sa, uint32_t number, char **names)
{
	int failed = 0;

	for (; *names != NULL; names++) {
		struct peer_scenario sc;
		uint32_t times = 1;

		if (!parse_scenario(&sc, *names)) {
			printf("DIE scenario %s\n", *names);
			return 2;
		}
		if (strcmp(sc.kind, "many") == 0) { /* many:SIZE:COUNT: COUNT connections, one after the other */
			times = sc.count;
			p->quiet = true;
			snprintf(sc.kind, sizeof(sc.kind), "send:%u", sc.size);
			parse_scenario(&sc, sc.kind);
		}
		uint32_t good = 0;
		for (uint32_t i = 0; i < times; i++) {
			struct peer_conn c = { .p = p, .sc = sc, .number = number++ };
			bool ok = connect_one(&c, sa);
			finish(&c, ok);
			good += ok;
			failed |= !ok;
		}
		if (p->quiet)
			printf("many %u of %u ok\n", good, times);
	}
	return failed;
}

int main(int argc, char **argv)
{
	struct peer p = { .ird = 4, .ord = 4 };
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(7471) };
	uint32_t first = 1;
	int o;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((o = getopt(argc, argv, "sqa:p:i:o:n:")) != -1) {
		switch (o) {
		case 's': p.server = true; break;
		case 'q': p.quiet = true; break;
		case 'a': inet_pton(AF_INET, optarg, &sa.sin_addr); break;
		case 'p': sa.sin_port = htons((uint16_t)atoi(optarg)); break;
		case 'i': p.ird = (uint8_t)atoi(optarg); break;
		case 'o': p.ord = (uint8_t)atoi(optarg); break;
		case 'n': first = (uint32_t)atoi(optarg); break;
		default: return 2;
		}
	}
	p.ch = rdma_create_event_channel();
	if (p.ch == NULL) {
		printf("DIE event channel: %s\n", strerror(errno));
		return 2;
	}
	if (p.server)
		return serve(&p, &sa);
	if (optind + 1 >= argc || inet_pton(AF_INET, argv[optind], &sa.sin_addr) != 1)
		return 2;
	return client(&p, &sa, first, argv + optind + 1);
}
