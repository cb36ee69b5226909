/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plane of an embedded program, over the kernel's sockets on loopback. The test plays the control thread and the
 * peers, and runs each turn itself: there is no progress thread. The queues and memory of datagram queue pairs are
 * those of the rig of test/qp.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/event.h"
#include "border/policy.h"
#include "rig.h"
#include "sockets/ks_ud.h"
#include "udp/udpl_sidr.h"

#define DEVS     3u
#define LOOPBACK 0x7f000001u /* address of device 0; device 1 has the next one, and so on */
#define PATIENCE 60000       /* ms */

static int begin(void **state)
{
	static const uint8_t mac[PKT_MAC_LEN] = { 2 };
	char err[256];

	(void)state;
	for (uint32_t i = 0; i < DEVS; i++) {
		rnicd.cfg.port[i] =
			(struct rnicd_port_cfg){ .name = "lo", .mtu = 1500, .mpa_rev = 2, .max_ird = 4, .max_ord = 4 };
		rnicd.cfg.port[i].ip = pkt_addr_ip4(LOOPBACK + i);
		if (!ks_port_add(mac))
			return -1;
	}
	rnicd.cfg.flows = 64;
	rnicd.cfg.record_timeout_ns = rnicd.cfg.record_linger_ns = RN_NS_PER_S;
	ks.net = &ks_net_kernel;
	return ks_start(err, sizeof(err)) ? 0 : -1;
}

/* ---- sockets of the test ---- */

static union ks_sockaddr endpoint(uint32_t ip, uint16_t port)
{
	return (union ks_sockaddr){ .v4 = { AF_INET, htons(port), { htonl(ip) }, { 0 } } };
}

static int listening(uint32_t ip, uint16_t port)
{
	const union ks_sockaddr at = endpoint(ip, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, &at.sa, sizeof(at.v4)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* A TCP port that is not in use. */
static uint16_t free_port(void)
{
	int fd = listening(INADDR_ANY, 0);
	union ks_sockaddr at;
	socklen_t len = sizeof(at);

	assert_int_equal(getsockname(fd, &at.sa, &len), 0);
	close(fd);
	return ntohs(at.v4.sin_port);
}

static int dial(uint16_t port)
{
	const union ks_sockaddr to = endpoint(LOOPBACK, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, &to.sa, sizeof(to.v4)), 0);
	return fd;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* Sends an octet; returns when the peer's kernel has it. */
static void octet_to(int fd)
{
	int left = 1;

	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
	while (left != 0)
		assert_int_equal(ioctl(fd, SIOCOUTQ, &left), 0);
}

/* ---- guests: connections at qp-port without an MPA Request ---- */

#define GUESTS 256u /* GUESTS_MAX of ks_pass.c: a further guest closes the oldest */

/*
 * The oldest guest has input when a further guest comes, and epoll reports the further one first: the listener has
 * input since before.
 */
static void guest_that_makes_room_may_have_input(void **state)
{
	const struct ks_listener how = {
		.lport = free_port(), .backlog = 16, .flags = RC_KEEP_RECV, .policy = conn_policy(rnicd.port[0])
	};
	int fd[GUESTS + 1];
	char c;

	(void)state;
	assert_int_equal(ks_listen(&how), CONN_OK);
	const int at = ks_listener(0, how.lport)->src.fd;
	for (uint32_t i = 0; i < GUESTS; i++) {
		fd[i] = dial(how.lport);
		assert_true(readable(at, PATIENCE));
		while (readable(at, 0))
			assert_true(ks_poll());
	}
	fd[GUESTS] = dial(how.lport);
	assert_true(readable(at, PATIENCE));
	octet_to(fd[0]);
	assert_true(ks_poll());
	assert_true(readable(fd[0], PATIENCE));
	assert_true(recv(fd[0], &c, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
	for (uint32_t i = 1; i <= GUESTS; i++)
		assert_false(readable(fd[i], 0));
	assert_int_equal(rnicd.port[0]->stats[0].syn_evicted, 1);
	ks_unlisten(0, how.lport);
	for (uint32_t i = 0; i <= GUESTS; i++)
		close(fd[i]);
	while (readable(ks.ep, 0))
		assert_true(ks_poll());
}

/* ---- listeners ---- */

static void answered(struct cmd *c) { c->type = CMD_NOTHING; }
static void no_event(const struct event *ev) { assert_int_equal(ev->type, EVENT_FX); }

/* The plane carries out a command about the port on devices [first, DEVS) except those in the mask `without`. */
static enum conn_verdict listener(enum cmd_type type, uint32_t first, uint32_t without, uint16_t port)
{
	struct cmd c = { .type = type,
			 .done = answered,
			 .listen = { .first = first, .last = DEVS, .without = without, .lport = port, .owner = 1 } };

	cmd_send_all(&c);
	while (c.type != CMD_NOTHING) {
		assert_true(ks_poll());
		(void)event_collect(64, no_event);
	}
	return c.listen.verdict[0];
}

/* Two listeners for all addresses, one of each family, may have the same port. */
static void listener_ends_on_its_own_devices_only(void **state)
{
	const uint16_t port = free_port();

	(void)state;
	assert_int_equal(listener(CMD_LISTEN, 0, 1u << 1, port), CONN_OK);
	assert_int_equal(listener(CMD_LISTEN, 0, ~(1u << 1), port), CONN_OK);
	for (uint32_t d = 0; d < DEVS; d++)
		assert_non_null(ks_listener(d, port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, ~(1u << 1), port), CONN_OK);
	assert_non_null(ks_listener(0, port));
	assert_null(ks_listener(1, port));
	assert_non_null(ks_listener(2, port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, 1u << 1, port), CONN_OK);
	for (uint32_t d = 0; d < DEVS; d++)
		assert_null(ks_listener(d, port));
}

static void listener_that_finds_its_port_in_use_ends_no_other_listener(void **state)
{
	const uint16_t port = free_port();
	int other = listening(LOOPBACK + 2, port);

	(void)state;
	assert_int_equal(listener(CMD_LISTEN, 0, ~(1u << 1), port), CONN_OK);
	assert_int_equal(listener(CMD_LISTEN, 0, 1u << 1, port), CONN_IN_USE);
	assert_null(ks_listener(0, port));
	assert_non_null(ks_listener(1, port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, ~(1u << 1), port), CONN_OK);
	assert_null(ks_listener(1, port));
	close(other);
}

static void a_port_that_the_kernel_denies_is_no_port_in_use(void **state)
{
	const struct conn_addr at = { .local = rnicd.port[0]->cfg->ip, .remote = rnicd.port[1]->cfg->ip, .lport = 1 };
	const uid_t was = geteuid();
	struct rc_params p = { .owner = 1 };
	enum qp_verdict qv;
	struct rc *c;

	(void)state;
	assert_int_equal(seteuid(was == 0 ? 65534 : was), 0);
	const enum conn_verdict listen = listener(CMD_LISTEN, 0, 0, 1), open = ks_conn_open(&at, &p, &c, &qv);
	assert_int_equal(seteuid(was), 0);
	if (listen == CONN_OK) { /* the system allows all ports to all */
		assert_int_equal(listener(CMD_UNLISTEN, 0, 0, 1), CONN_OK);
		skip();
	}
	assert_int_equal(listen, CONN_DENIED);
	assert_int_equal(open, CONN_DENIED);
}

static void an_address_that_has_gone_stops_no_listener_at_the_others(void **state)
{
	struct rnicd_port_cfg *gone = &rnicd.cfg.port[1];
	const struct pkt_addr was = gone->ip;
	const uint16_t port = free_port();

	(void)state;
	gone->ip = pkt_addr_ip4(0xc0000201); /* 192.0.2.1, of documentation (RFC 5737) */
	assert_int_equal(listener(CMD_LISTEN, 0, 0, port), CONN_OK);
	assert_non_null(ks_listener(0, port));
	assert_null(ks_listener(1, port));
	assert_non_null(ks_listener(2, port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, 0, port), CONN_OK);
	assert_int_equal(listener(CMD_LISTEN, 0, ~(1u << 1), port), CONN_NO_ROUTE);
	for (uint32_t devs = 3; devs < 8; devs++) {
		const uint16_t held = ks_hold(devs);
		assert_int_not_equal(held, 0);
		ks_hold_end(devs, held);
	}
	assert_int_equal(ks_hold(1u << 1), 0);
	gone->ip = was;
}

/* Unaccepted, the connection would keep its listener readable, and the progress thread busy. */
static void a_connection_for_which_there_is_no_descriptor_is_closed(void **state)
{
	const struct ks_listener how = { .lport = free_port(), .backlog = 16, .policy = conn_policy(rnicd.port[0]) };
	const uint64_t before = rnicd.port[0]->stats[0].rx_unanswered;
	struct rlimit was, none;
	char c;

	(void)state;
	assert_int_equal(ks_listen(&how), CONN_OK);
	const int at = ks_listener(0, how.lport)->src.fd;
	const int fd = dial(how.lport);
	assert_true(readable(at, PATIENCE));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	const int unused = dup(fd);
	close(unused);
	none = (struct rlimit){ .rlim_cur = (rlim_t)unused, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_true(ks_poll());
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_false(readable(at, 0));
	assert_true(readable(fd, PATIENCE));
	assert_true(recv(fd, &c, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
	assert_int_equal(rnicd.port[0]->stats[0].rx_unanswered, before + 1);
	close(fd);
	ks_unlisten(0, how.lport);
}

/* ---- ports that are held for the connection manager ---- */

#define ALL_DEVS ((1u << DEVS) - 1)

/* A bit for each device on which another program can have the port. */
static uint32_t free_devs(uint16_t port)
{
	uint32_t devs = 0;

	for (uint32_t d = 0; d < DEVS; d++) {
		const union ks_sockaddr at = endpoint(LOOPBACK + d, port);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(fd, &at.sa, sizeof(at.v4)) == 0)
			devs |= 1u << d;
		close(fd);
	}
	return devs;
}

static void a_listener_takes_over_the_socket_that_holds_its_port(void **state)
{
	const uint16_t port = ks_hold(ALL_DEVS);

	(void)state;
	assert_int_not_equal(port, 0);
	assert_int_equal(free_devs(port), 0);
	assert_int_equal(listener(CMD_LISTEN, 0, 0, port), CONN_OK);
	close(dial(port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, 0, port), CONN_OK);
	assert_int_equal(free_devs(port), ALL_DEVS);
}

static void a_port_that_is_given_back_on_one_device_stays_held_on_the_others(void **state)
{
	const uint16_t port = ks_hold(ALL_DEVS);

	(void)state;
	ks_hold_end(1u << 1, port);
	assert_int_equal(free_devs(port), 1u << 1);
	ks_hold_end(ALL_DEVS, port);
	assert_int_equal(free_devs(port), ALL_DEVS);
}

static void two_interfaces_with_one_address_do_not_keep_a_port_from_each_other(void **state)
{
	struct rnicd_port_cfg *twin = &rnicd.cfg.port[1];
	const struct pkt_addr own = twin->ip;

	(void)state;
	twin->ip = rnicd.cfg.port[0].ip;
	const uint16_t port = ks_hold(ALL_DEVS);
	twin->ip = own;
	assert_int_not_equal(port, 0);
	assert_int_equal(free_devs(port), 1u << 1);
	ks_hold_end(ALL_DEVS, port);
}

static void a_child_of_fork_holds_no_port(void **state)
{
	const uint16_t port = ks_hold(ALL_DEVS);
	int told[2], ends[2];
	char c;

	(void)state;
	assert_true(pipe(told) == 0 && pipe(ends) == 0);
	const pid_t child = fork();
	if (child == 0) {
		close(ends[1]);
		ks_held_close();
		_exit(write(told[1], "x", 1) == 1 && read(ends[0], &c, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(read(told[0], &c, 1), 1);
	ks_hold_end(ALL_DEVS, port);
	assert_int_equal(free_devs(port), ALL_DEVS);
	close(ends[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(ends[0]);
	close(told[0]);
	close(told[1]);
}

/* ---- datagram queue pairs of one process ---- */

#define ENDS    6u
#define SENDS   80u /* more than twice what a queue pair may send in its turn */
#define QKEY    0x11111111u
#define READ    8u   /* octets that a Read-Record reads */
#define ROUNDS  100u /* turns after which all must have been sent */
#define NOBODY  (rnicd.qpn_first + 100)
#define QPN(i)  (rnicd.qpn_first + (i))
#define NODE(i) (&r->n[(i) % 2])

static struct ud_long_qp end_qp[ENDS];

/* The end is queue pair i / 2 of node i % 2, over the rings of that queue pair. */
static void end_make(struct rig *r, uint32_t i)
{
	struct qp_attr a = rig_attr(NODE(i), i / 2);
	struct qp *qp = &end_qp[i].u.qp;

	a.type = QP_UD;
	a.qpn = QPN(i);
	a.access = QP_ACC_REMOTE;
	a.max_msg = dgram_max(UDPL_UNIT);
	rc_destroy(&NODE(i)->ctx.rc, &NODE(i)->q[i / 2].qp);
	assert_int_equal(qp_init(qp, &a), QP_OK);
	qp_set(qp, &(struct qp_tune){ .qkey = QKEY, .access = QP_ACC_REMOTE });
	dgram_msgs_init(&end_qp[i].msgs, qp, UDPL_UNIT, UDPL_UNIT, 0);
	ks_ud_add(&end_qp[i].u, 0);
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		assert_int_equal(dgram_modify(&ks.dgram, qp, (enum qp_state)s), QP_OK);
}

static struct rig *ends_make(void)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	struct rig *r = rig_new(&cfg);
	for (uint32_t i = 0; i < ENDS; i++)
		end_make(r, i);
	return r;
}

static void ends_free(struct rig *r)
{
	for (uint32_t i = 0; i < ENDS; i++) {
		ks_ud_end(&end_qp[i].u, false);
		dgram_destroy(&ks.dgram, &end_qp[i].u.qp);
	}
	rig_free(r);
}

/* Posts messages without data to a queue pair that does not exist. */
static void post_sends(struct rig *r, uint32_t i)
{
	struct rig_qp *q = &NODE(i)->q[i / 2];
	struct qp_wqe w = {
		.op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .slots = 1, .ud = { .qpn = NOBODY, .qkey = QKEY }
	};

	memcpy(w.dgram.addr, rnicd.port[0]->cfg->ip.b, sizeof(w.dgram.addr));
	for (uint32_t n = 0; n < SENDS; n++)
		spsc_prod_copy(&q->sq, n, &w, sizeof(w));
	spsc_prod_publish(&q->sq, SENDS);
}

/* Posts a request of end i to read from the memory of end `of`. */
static void post_read(struct rig *r, uint32_t i, uint32_t of)
{
	struct rig_qp *q = &NODE(i)->q[i / 2];
	struct {
		struct qp_wqe w;
		struct qp_sge sge[4];
	} e = { .w = { .op = QP_WR_READ,
		       .flags = QP_WF_SIGNALED,
		       .num_sge = 1,
		       .slots = 2,
		       .rkey = NODE(of)->rkey,
		       .ud = { .qpn = QPN(of), .qkey = QKEY } },
		.sge = { rig_sge(NODE(i), READ * of, READ) } };

	memcpy(e.w.dgram_write.addr, rnicd.port[0]->cfg->ip.b, sizeof(e.w.dgram_write.addr));
	e.w.dgram_write.raddr = RIG_IOVA(NODE(of)->id);
	spsc_prod_copy(&q->sq, 0, &e, sizeof(e));
	spsc_prod_publish(&q->sq, 2);
}

/* Runs turns until no queue pair has anything to send, and counts each end's completions of both queues. */
static void run(struct rig *r, const uint32_t *order, uint32_t n, uint32_t done[ENDS], uint32_t records[ENDS])
{
	struct qp_cqe c;

	memset(done, 0, ENDS * sizeof(*done));
	memset(records, 0, ENDS * sizeof(*records));
	for (uint32_t k = 0; k < n; k++)
		ks_doorbell(&end_qp[order[k]].u.qp);
	for (uint32_t k = 0; k < ROUNDS && ks_ud_more(); k++)
		assert_true(ks_poll());
	for (uint32_t k = 0; k < 2; k++) {
		while (rig_poll(&NODE(k)->scq_client, &c)) {
			assert_int_equal(c.status, QP_WC_SUCCESS);
			done[c.qpn - QPN(0)]++;
		}
		while (rig_poll(&NODE(k)->rcq_client, &c)) {
			assert_true(c.status == QP_WC_SUCCESS && c.op == QP_WC_RECORD && c.byte_len == READ);
			records[c.qpn - QPN(0)]++;
		}
	}
	assert_false(ks_ud_more());
}

/* A request arrives, within the turn in which it is sent, at a queue pair that has more to send in the next turn. */
static void request_to_a_queue_pair_that_waits_for_its_next_turn_stops_no_sends(void **state)
{
	static const uint32_t order[] = { 0, 1, 2 };
	uint32_t done[ENDS], records[ENDS];
	struct rig *r = ends_make();

	(void)state;
	post_sends(r, 0);
	post_sends(r, 1);
	post_read(r, 2, 0);
	run(r, order, RN_ARRAY_LEN(order), done, records);
	assert_int_equal(done[0], SENDS);
	assert_int_equal(done[1], SENDS);
	assert_int_equal(done[2], 1);
	assert_int_equal(records[2], 1);
	ends_free(r);
}

/* As before; and the turn has no time left for the queue pairs that have got requests. */
static void request_at_the_end_of_a_full_turn_is_answered_in_the_next(void **state)
{
	static const uint32_t order[] = { 0, 2, 1, 3, 5 };
	uint32_t done[ENDS], records[ENDS];
	struct rig *r = ends_make();

	(void)state;
	for (uint32_t k = 0; k < RN_ARRAY_LEN(order); k++)
		if (order[k] != 2)
			post_sends(r, order[k]);
	post_read(r, 2, 0);
	post_read(r, 2, 4);
	run(r, order, RN_ARRAY_LEN(order), done, records);
	for (uint32_t k = 0; k < RN_ARRAY_LEN(order); k++)
		assert_int_equal(done[order[k]], order[k] == 2 ? 2 : SENDS);
	assert_int_equal(records[2], 2);
	ends_free(r);
}

/* ---- the control thread is behind ---- */

/* Fills the queue to the control thread as far as events of this class may. */
static void fill(enum event_class class)
{
	struct event *ev;

	while ((ev = event_room(0, class)) != NULL) {
		ev->type = EVENT_FX;
		ev->fx = (struct event_fx){ .type = QP_FX_CLOSED };
		event_put(0);
	}
}

static uint32_t n_events;
static void count_event(const struct event *ev) { n_events += ev->type == EVENT_FX; }

static void datagram_that_the_control_thread_has_no_room_for_is_not_lost_uncounted(void **state)
{
	const struct rnicd_port_stats *st = &rnicd.port[0]->stats[0];
	const struct udpl_sidr ask = { .id = 1, .port = 7, .src_port = 7 };
	uint8_t asks[UDPL_SIDR_MAX], sends[UDPL_HDR_LEN + UDPL_CRC_LEN];
	struct ks_gram g = { .p = asks, .from = rnicd.port[1]->cfg->ip, .to = rnicd.port[0]->cfg->ip, .passed = true };

	(void)state;
	g.len = udpl_sidr_build(asks, UDPL_SIDR_REQ, &ask);
	fill(EVENT_DROPPABLE);
	ks_ud_take(&g);
	assert_int_equal(st->rx_no_room, 1);
	fill(EVENT_LOSSLESS);
	ks.rc.qp.n_fx = QP_FX_MAX; /* effects that wait for room */
	udpl_build(sends, &(struct udpl_hdr){ .kind = UDPL_SEND, .dst_qpn = NOBODY, .src_qpn = NOBODY });
	g.p = sends;
	g.len = sizeof(sends);
	ks_ud_take(&g);
	assert_int_equal(st->rx_no_room, 2);
	ks.rc.qp.n_fx = 0;
	while (event_collect(64, count_event) != 0)
		;
	assert_true(n_events > 0);
	ks_ud_take(&g);
	assert_int_equal(st->rx_no_room, 2);
}

/* A reply for a process that is gone, and a datagram to a group that the last member has just left. */
static void datagram_for_nobody_is_not_lost_uncounted(void **state)
{
	const struct udpl_sidr tells = { .id = rnicd.process + 1u };
	uint8_t reply[UDPL_SIDR_MAX], sends[UDPL_HDR_LEN + UDPL_CRC_LEN];
	struct ks_gram g = { .p = reply, .from = rnicd.port[1]->cfg->ip, .to = rnicd.port[0]->cfg->ip };
	const uint64_t before = ks.rc.qp.stats.ud_no_qp;

	(void)state;
	g.sport = g.dport = rnicd.port[0]->cfg->ud_port;
	g.len = udpl_sidr_build(reply, UDPL_SIDR_REP, &tells);
	ks_ud_take(&g);
	assert_int_equal(ks.rc.qp.stats.ud_no_qp, before + 1);
	g.p = sends;
	g.len = sizeof(sends);
	g.to = pkt_addr_ip4(0xe0000101);
	udpl_build(sends, &(struct udpl_hdr){ .kind = UDPL_SEND, .dst_qpn = UDPL_QPN_GROUP, .src_qpn = NOBODY });
	ks_ud_take(&g);
	assert_int_equal(ks.rc.qp.stats.ud_no_qp, before + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guest_that_makes_room_may_have_input),
		cmocka_unit_test(listener_ends_on_its_own_devices_only),
		cmocka_unit_test(listener_that_finds_its_port_in_use_ends_no_other_listener),
		cmocka_unit_test(a_port_that_the_kernel_denies_is_no_port_in_use),
		cmocka_unit_test(an_address_that_has_gone_stops_no_listener_at_the_others),
		cmocka_unit_test(a_connection_for_which_there_is_no_descriptor_is_closed),
		cmocka_unit_test(a_listener_takes_over_the_socket_that_holds_its_port),
		cmocka_unit_test(a_port_that_is_given_back_on_one_device_stays_held_on_the_others),
		cmocka_unit_test(two_interfaces_with_one_address_do_not_keep_a_port_from_each_other),
		cmocka_unit_test(a_child_of_fork_holds_no_port),
		cmocka_unit_test(request_to_a_queue_pair_that_waits_for_its_next_turn_stops_no_sends),
		cmocka_unit_test(request_at_the_end_of_a_full_turn_is_answered_in_the_next),
		cmocka_unit_test(datagram_that_the_control_thread_has_no_room_for_is_not_lost_uncounted),
		cmocka_unit_test(datagram_for_nobody_is_not_lost_uncounted),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
