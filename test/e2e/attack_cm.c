/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections, ports and listeners that belong to other users, or that all users share. */
#include "attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raw_client.h"

#define QPS      16u
#define PEER_QPN 0x4242u /* of the queue pair that the victim waits for */
enum { EV_ADDR_RESOLVED = 0, EV_ADDR_ERROR = 1, EV_ROUTE_RESOLVED = 2, EV_ESTABLISHED = 9 }; /* rdma_cm_event_type */

static int call_addr(struct raw *r, enum ipc_type type, uint32_t id, const char *from, uint16_t port,
		     struct ipc_addr to)
{
	struct ipc_msg m = { .type = (uint16_t)type };

	if (type == IPC_CM_BIND) {
		m.len = IPC_MSG_LEN(cm_bind);
		m.cm_bind = (struct ipc_cm_bind){ .id = id, .addr = raw_addr(from, port) };
	} else {
		m.len = IPC_MSG_LEN(cm_resolve);
		m.cm_resolve = (struct ipc_cm_resolve){
			.id = id, .timeout_ms = 5000, .has_src = 1, .src = raw_addr(from, port), .dst = to
		};
	}
	return raw_call(r, &m, -1);
}

static uint32_t new_id(struct raw *r, const struct raw_chan *ch)
{
	uint32_t id;

	raw_must(raw_cm_id(r, ch, &id) == 0, "an id");
	return id;
}

/* Writes the private data with which a daemon connects queue pair `from` to queue pair `to`. */
static void say(struct ipc_conn_param *p, uint32_t from, uint32_t to)
{
	const uint32_t be[2] = { htonl(from), htonl(to) };

	p->priv_len = 24;
	memcpy(p->priv, "RNQP\1\1\0", 8);
	memcpy(p->priv + 8, be, sizeof(be));
	memcpy(p->priv + 16, "whatever", 8);
}

static void must_modify(struct raw *r, struct ipc_modify_qp how)
{
	struct ipc_msg m = { .type = IPC_MODIFY_QP, .len = IPC_MSG_LEN(modify_qp), .modify_qp = how };

	raw_must(raw_call(r, &m, -1) == 0, "modify a queue pair");
}

/* A queue pair waits for PEER_QPN of the device that attackers use. Until stdin ends, no message may come. */
int mode_victim(void)
{
	const struct ipc_addr peer = raw_addr(RAW_FROM, 0);
	struct ipc_modify_qp to_rtr = { .mask = IPC_QP_ATTR_STATE | IPC_QP_ATTR_DEST,
					.state = 2,
					.dest_qpn = PEER_QPN };
	struct raw_job j = { .dev = 0 };
	struct raw *r = &j.r;
	struct qp_cqe e;
	int bad = 0;
	char c;

	raw_must(raw_open(r) == 0 && raw_pd(r, j.dev, &j.pd) == 0 && raw_cq(r, j.dev, 0, 64, &j.cq) == 0 &&
			 raw_mr(r, j.pd, 1, 0, 4096, &j.mr) == 0 && raw_qp(r, j.pd, j.cq.handle, 64, &j.qp) == 0,
		 "open");
	must_modify(r, (struct ipc_modify_qp){ .qp = j.qp.handle, .mask = IPC_QP_ATTR_STATE, .state = 1 });
	raw_must(raw_post_recv(&j.qp, j.mr.stag, RAW_TO(0), 4096), "post a receive");
	raw_ring_bell(r, &j.qp);
	to_rtr.qp = j.qp.handle;
	memcpy(to_rtr.dest_ip, peer.ip, sizeof(to_rtr.dest_ip));
	must_modify(r, to_rtr);
	printf("waits %u\n", j.qp.qpn);
	ssize_t got = read(0, &c, 1);
	(void)got;
	EXPECT(!raw_poll(r, &j.cq, &e), "another user's client has sent a message");
	return bad;
}

/* Sends a message, and waits for its completion. */
static void speak(struct raw_job *j)
{
	const struct qp_wqe w = { .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .slots = 1 };
	const uint64_t end = raw_now_ms() + 15000;
	struct qp_cqe e;

	raw_must(raw_post(&j->qp, &w), "post");
	raw_ring_bell(&j->r, &j->qp);
	while (!raw_poll(&j->r, &j->cq, &e) && raw_now_ms() < end)
		usleep(1000);
}

/* $QP_PORT: tries to connect as the peer for which queue pair $VICTIM of another user waits. */
int mode_hijack(void)
{
	const uint16_t port = (uint16_t)atoi(getenv("QP_PORT"));
	struct ipc_cm_event ev = { .type = 99 };
	struct raw_job j = { .dev = 1 };
	struct raw *r = &j.r;
	int bad = 0, rc;

	raw_must(raw_open(r) == 0 && raw_pd(r, 1, &j.pd) == 0 && raw_cq(r, 1, 0, 64, &j.cq) == 0 &&
			 raw_qp(r, j.pd, j.cq.handle, 64, &j.qp) == 0 && raw_chan(r, IPC_CHANNEL_CM, 0, 16, &j.cm) == 0,
		 "open");
	uint32_t id = new_id(r, &j.cm);
	rc = call_addr(r, IPC_CM_RESOLVE_ADDR, id, RAW_FROM, 0, raw_addr("10.77.0.1", port));
	EXPECT(rc == 0 && raw_event(&j.cm, &ev, 15000) && ev.type == EV_ADDR_RESOLVED, "resolve: %d, event %u", rc,
	       ev.type);
	struct ipc_msg m = { .type = IPC_CM_RESOLVE_ROUTE,
			     .len = IPC_MSG_LEN(cm_resolve),
			     .cm_resolve = { .id = id, .timeout_ms = 5000 } };
	rc = raw_call(r, &m, -1);
	EXPECT(rc == 0 && raw_event(&j.cm, &ev, 15000) && ev.type == EV_ROUTE_RESOLVED, "route: %d, event %u", rc,
	       ev.type);
	m = (struct ipc_msg){ .type = IPC_CM_CONNECT,
			      .len = IPC_MSG_LEN(cm_connect),
			      .cm_connect = { .id = id, .qp = j.qp.handle, .param = { .ird = 4, .ord = 4 } } };
	say(&m.cm_connect.param, PEER_QPN, (uint32_t)strtoul(getenv("VICTIM"), NULL, 10));
	rc = raw_call(r, &m, -1);
	EXPECT(rc == EACCES, "connecting to qp-port: %d (%s)", rc, r->text);
	if (rc == 0 && raw_event(&j.cm, &ev, 15000) && ev.type == EV_ESTABLISHED)
		speak(&j);
	rc = call_addr(r, IPC_CM_BIND, new_id(r, &j.cm), RAW_FROM, port, raw_addr(RAW_FROM, 0));
	EXPECT(rc == EACCES, "listening on qp-port: %d (%s)", rc, r->text);
	rc = call_addr(r, IPC_CM_RESOLVE_ADDR, new_id(r, &j.cm), RAW_FROM, port, raw_addr("10.77.0.1", 7001));
	EXPECT(rc == EACCES, "connecting from qp-port: %d (%s)", rc, r->text);
	rc = call_addr(r, IPC_CM_BIND, new_id(r, &j.cm), RAW_FROM, 700, raw_addr(RAW_FROM, 0));
	EXPECT(rc == EACCES, "a port as daemons have: %d (%s)", rc, r->text);
	rc = call_addr(r, IPC_CM_RESOLVE_ADDR, new_id(r, &j.cm), RAW_FROM, 700, raw_addr("10.77.0.1", 7001));
	EXPECT(rc == EACCES, "connecting from a port as daemons have: %d (%s)", rc, r->text);
	return bad;
}

/*
 * From each of $N ports, asks for a way to an address that no device reaches; the port must be free after that. Does
 * the same from $PORT, which another client has and must keep.
 */
int mode_ports(void)
{
	const struct ipc_addr nowhere = raw_addr("10.99.0.1", 7);
	const uint16_t others = (uint16_t)atoi(getenv("PORT")), n = (uint16_t)atoi(getenv("N"));
	struct ipc_cm_event ev = { .type = 99 };
	struct raw_chan ch;
	struct raw r;
	uint32_t id;
	int bad = 0, rc;

	raw_must(raw_open(&r) == 0 && raw_chan(&r, IPC_CHANNEL_CM, 0, 16, &ch) == 0, "open");
	for (uint16_t i = 0; i <= n && bad == 0; i++) {
		const uint16_t port = i < n ? (uint16_t)(20000 + i) : others;
		const char *from = i < n ? RAW_FROM : "10.77.0.1";
		id = new_id(&r, &ch);
		rc = call_addr(&r, IPC_CM_RESOLVE_ADDR, id, from, port, nowhere);
		EXPECT(rc == 0 && raw_event(&ch, &ev, 15000) && ev.type == EV_ADDR_ERROR, "port %u: %d, event %u (%s)",
		       port, rc, ev.type, r.text);
		raw_must(raw_call_handle(&r, IPC_CM_DESTROY_ID, id) == 0, "destroy the id");
		id = new_id(&r, &ch);
		rc = call_addr(&r, IPC_CM_BIND, id, from, port, nowhere);
		EXPECT(rc == (i < n ? 0 : EADDRINUSE), "bind to port %u: %d (%s)", port, rc, r.text);
		raw_must(raw_call_handle(&r, IPC_CM_DESTROY_ID, id) == 0, "destroy the id");
	}
	return bad;
}

/* Checks that the number of a queue pair and the STag of a region cannot be guessed from those given out before. */
int mode_numbers(void)
{
	struct raw_mr mr[QPS];
	uint32_t pd, qpn[QPS];
	struct raw r;
	struct raw_cq cq;
	struct raw_qp qp;
	int bad = 0;

	raw_must(raw_open(&r) == 0 && raw_pd(&r, 1, &pd) == 0 && raw_cq(&r, 1, 0, 64, &cq) == 0, "open");
	for (uint32_t i = 0; i < QPS; i++) {
		raw_must(raw_qp(&r, pd, cq.handle, 64, &qp) == 0 && raw_mr(&r, pd, 7, i * 4096, 4096, &mr[i]) == 0,
			 "make");
		qpn[i] = qp.qpn;
	}
	uint32_t next_qpn = 0, next_stag = 0;
	for (uint32_t i = 1; i < QPS; i++) {
		next_qpn += qpn[i] == qpn[i - 1] + 1;
		next_stag += mr[i].stag >> 8 == (mr[i - 1].stag >> 8) + 1;
	}
	/* Two neighbouring numbers may come by chance, a series does not. */
	EXPECT(next_qpn < 3, "%u of %u queue pair numbers follow the one before", next_qpn, QPS);
	EXPECT(next_stag < 3, "%u of %u STag indices follow the one before", next_stag, QPS);
	return bad;
}

/* Makes listeners on all devices until one is refused; stays until stdin ends. */
int mode_listeners(void)
{
	struct raw r;
	struct raw_chan ch;
	int bad = 0, rc = 0;
	uint32_t n = 0;

	raw_must(raw_open(&r) == 0 && raw_chan(&r, IPC_CHANNEL_CM, 0, 16, &ch) == 0, "open");
	for (uint16_t port = 20000; port < 30000 && rc == 0; port++) {
		uint32_t id = new_id(&r, &ch);
		rc = call_addr(&r, IPC_CM_BIND, id, "0.0.0.0", port, raw_addr("0.0.0.0", 0));
		struct ipc_msg m = { .type = IPC_CM_LISTEN,
				     .len = IPC_MSG_LEN(cm_listen),
				     .cm_listen = { .id = id, .backlog = 1 } };
		if (rc == 0)
			rc = raw_call(&r, &m, -1);
		n += rc == 0;
	}
	EXPECT(rc == ENOMEM, "a listener too many: %d (%s)", rc, r.text);
	printf("%u listeners\n", n);
	char c;
	ssize_t got = read(0, &c, 1);
	(void)got;
	return bad;
}

/* Opens clients, each with its memory regions, until one is refused; stays until stdin ends. */
int mode_clients(void)
{
	static struct raw r[1024];
	uint32_t n = 0;
	char c;

	while (n < 1024 && raw_open(&r[n]) == 0)
		n++;
	printf("%u clients\n", n);
	ssize_t got = read(0, &c, 1);
	(void)got;
	return n == 1024;
}

/* The id's next event must be of this type. */
static bool next_is(struct raw_chan *ch, uint32_t type)
{
	struct ipc_cm_event ev;

	return raw_event(ch, &ev, 15000) && ev.type == type;
}

/* Connects to its own listener, which answers no request, until a connection is refused. Stays until stdin ends. */
int mode_setups(void)
{
	const struct ipc_addr to = raw_addr(RAW_FROM, 7100);
	struct raw_job j = { .dev = 1 };
	struct raw_chan deaf;
	struct raw *r = &j.r;
	uint32_t n = 0;
	int bad = 0, rc;

	raw_must(raw_open(r) == 0 && raw_chan(r, IPC_CHANNEL_CM, 0, 16, &j.cm) == 0 &&
			 raw_chan(r, IPC_CHANNEL_CM, 0, 16, &deaf) == 0,
		 "open");
	uint32_t listener = new_id(r, &deaf);
	struct ipc_msg m = { .type = IPC_CM_LISTEN,
			     .len = IPC_MSG_LEN(cm_listen),
			     .cm_listen = { .id = listener, .backlog = 4096 } };
	raw_must(call_addr(r, IPC_CM_BIND, listener, RAW_FROM, 7100, to) == 0 && raw_call(r, &m, -1) == 0, "listen");
	for (;; n++) {
		uint32_t id = new_id(r, &j.cm);

		m = (struct ipc_msg){ .type = IPC_CM_RESOLVE_ADDR,
				      .len = IPC_MSG_LEN(cm_resolve),
				      .cm_resolve = { .id = id, .timeout_ms = 5000, .dst = to } };
		raw_must(raw_call(r, &m, -1) == 0 && next_is(&j.cm, EV_ADDR_RESOLVED), "resolve the address");
		m = (struct ipc_msg){ .type = IPC_CM_RESOLVE_ROUTE,
				      .len = IPC_MSG_LEN(cm_resolve),
				      .cm_resolve = { .id = id, .timeout_ms = 5000 } };
		raw_must(raw_call(r, &m, -1) == 0 && next_is(&j.cm, EV_ROUTE_RESOLVED), "resolve the route");
		m = (struct ipc_msg){ .type = IPC_CM_CONNECT,
				      .len = IPC_MSG_LEN(cm_connect),
				      .cm_connect = { .id = id, .param = { .ird = 4, .ord = 4 } } };
		if ((rc = raw_call(r, &m, -1)) != 0)
			break;
	}
	EXPECT(rc == ENOMEM, "connection %u: %d (%s)", n, rc, r->text);
	printf("%u connections, then: %s\n", n, r->text);
	char c;
	ssize_t end = read(0, &c, 1);
	(void)end;
	return bad;
}
