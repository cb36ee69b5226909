/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs that connect without connection manager; the test plays the workers and the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "border/policy.h"
#include "control/cm.h"
#include "control/dev.h"
#include "control/oob.h"

#define SHARE 767u /* three quarters of 1023 */
#define QPS   1100u

struct rnicd rnicd;

static struct rnicd_port port;
static struct rnicd_port_cfg port_cfg;
static struct client alice, bob;
static struct client_pd pd;

/* ---- functions that the files under test call ---- */

static uint32_t refs; /* of all users */
struct user *user_hold(struct user *u)
{
	refs++;
	return u;
}
void user_put(struct user *u)
{
	(void)u;
	refs--;
}

static uint64_t now = RN_NS_PER_S;
uint64_t rnicd_now(void) { return now; }
static uint32_t lines;
void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
	lines++;
}
static uint32_t armed; /* how often a timer was armed */
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	(void)t;
	(void)when;
	armed++;
}
void loop_timer_disarm(struct loop_timer *t) { (void)t; }

/* Connections, each with the command that opens it. */
struct conn {
	struct cm_conn k;
	struct cmd *cmd;
	bool used;
};
static struct conn conns[2 * QPS];
static uint32_t live;
static bool table_full; /* the users have too many connections of the worker */

struct cm_conn *cm_conn_make(struct client *c, uint64_t key)
{
	struct conn *n = conns;

	while (n->used)
		n++;
	*n = (struct conn){ .used = true, .k = { .c = c } };
	n->k.owner.key = key;
	live++;
	return &n->k;
}
void cm_conn_free(struct cm_conn *k)
{
	if (k->oob != NULL)
		k->oob->k = NULL;
	if (k->share != NULL)
		oob_share_give(k->share);
	cm_conn_give(k, NULL);
	rn_container_of(k, struct conn, k)->used = false;
	live--;
}
struct cm_conn *cm_conn_of(uint64_t key)
{
	for (uint32_t i = 0; i < RN_ARRAY_LEN(conns); i++)
		if (conns[i].used && conns[i].k.owner.key == key)
			return &conns[i].k;
	return NULL;
}
bool cm_conn_on(struct cm_conn *k, struct user *u, uint32_t worker, enum user_table as)
{
	(void)k;
	(void)u;
	(void)worker;
	(void)as;
	return !table_full;
}
void cm_conn_end(uint32_t worker, struct rc *conn, uint64_t key) { (void)worker, (void)conn, (void)key; }

static uint32_t elsewhere_n;
uint16_t cm_port_own(uint32_t dev, bool elsewhere)
{
	static uint16_t next;

	(void)dev;
	elsewhere_n += elsewhere;
	return (uint16_t)(1 + ++next % OOB_PORTS);
}
uint16_t cm_port_next(uint32_t dev, uint32_t families)
{
	(void)dev;
	(void)families;
	return 40000;
}
uint8_t cm_family_of(uint32_t dev) { return dev == 0 ? CM_IP4 : CM_IP6; }

uint64_t owner_new(void)
{
	static uint64_t n;

	return ++n;
}
uint32_t conn_owner(const struct conn_addr *a)
{
	(void)a;
	return 0;
}
struct mpa_policy conn_policy(const struct rnicd_port *p)
{
	(void)p;
	return (struct mpa_policy){ .ird = 0 };
}
struct qp_dev *dev_get(uint32_t index)
{
	(void)index;
	return NULL;
}
void oob_hello_build(uint8_t priv[OOB_PRIV_LEN], enum oob_kind kind, const struct oob_hello *h)
{
	(void)priv;
	(void)kind;
	(void)h;
}
bool oob_hello_parse(const uint8_t *priv, uint32_t len, enum oob_kind kind, struct oob_hello *h)
{
	(void)priv;
	(void)len;
	(void)kind;
	(void)h;
	return false;
}
struct cm_conn *oob_held_take(struct oob *o)
{
	(void)o;
	return NULL;
}
struct client_qp *client_qp_of(uint32_t qpn)
{
	(void)qpn;
	return NULL;
}
void client_qp_command(struct client_qp *q, enum cmd_type type, void (*done)(struct cmd *))
{
	(void)q;
	(void)type;
	(void)done;
}
void client_qp_return(struct client_qp *q) { (void)q; }
void client_qp_lend(struct client_qp *q, uint32_t worker, void *borrower, void (*then)(struct client_qp *q))
{
	(void)q;
	(void)worker;
	(void)borrower;
	(void)then;
}

static uint32_t n_sent;
void cmd_send(struct cmd *c, uint32_t worker)
{
	assert_int_equal(worker, 0);
	assert_int_equal(c->type, CMD_CONN_OPEN);
	rn_container_of(cm_conn_of(c->open.owner), struct conn, k)->cmd = c;
	n_sent++;
}

/* ---- tests ---- */

static struct client_qp qp[QPS];

static int begin(void **state)
{
	static uint8_t user[2]; /* stand for the users */

	(void)state;
	rnicd.n_ports = 1;
	rnicd.cfg.user_share = 75;
	rnicd.port[0] = &port;
	port_cfg.ip = (struct pkt_addr){ .b = { [10] = 0xff, [11] = 0xff, 10, 77, 0, 9 } };
	port_cfg.qp_peers = RNICD_PEERS_DAEMONS;
	port.cfg = &port_cfg;
	alice = (struct client){ .state = CLIENT_READY, .uid = 1, .user = (struct user *)(void *)&user[0] };
	bob = (struct client){ .state = CLIENT_READY, .uid = 2, .user = (struct user *)(void *)&user[1] };
	n_sent = lines = elsewhere_n = armed = 0;
	now += 60 * RN_NS_PER_S;
	return 0;
}

/* Queue pair i of the client comes to RTR; its peer is queue pair 1 of 10.77.0.`host`. */
static void connects(uint32_t i, struct client *c, uint8_t host)
{
	const struct ipc_modify_qp r = { .dest_qpn = 1, .dest_ip = { [10] = 0xff, [11] = 0xff, 10, 77, 0, host } };

	qp[i] = (struct client_qp){ .c = c, .pd = &pd, .qpn = 100 + i };
	assert_true(oob_begin(&qp[i], &r));
}

/* The queue pair ends, and so does its connection if there is one. */
static void ends(uint32_t i)
{
	struct cm_conn *k = qp[i].oob->k;
	struct cmd *open = k != NULL ? rn_container_of(k, struct conn, k)->cmd : NULL;

	oob_leave(&qp[i]);
	if (k != NULL)
		cm_conn_free(k);
	if (open != NULL)
		open->done(open);
}

static void one_user_leaves_ports_below_1024_to_others(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < SHARE + 2; i++)
		connects(i, &alice, 1);
	assert_int_equal(n_sent, SHARE);
	assert_int_equal(lines, 1); /* once for both that wait */
	connects(i++, &alice, 2);   /* another peer */
	connects(i++, &bob, 1);
	assert_int_equal(n_sent, SHARE + 2);
	ends(0);
	connects(0, &alice, 1);
	assert_int_equal(n_sent, SHARE + 3);
	while (i > 0)
		ends(--i);
	assert_int_equal(live, 0);
	assert_int_equal(refs, 0);
}

/* The worker answers that another connection to the peer has the port. */
static void in_use(uint32_t i)
{
	struct cmd *open = rn_container_of(qp[i].oob->k, struct conn, k)->cmd;

	open->open.cv = CONN_IN_USE;
	open->done(open);
}

static void a_port_in_use_is_followed_by_others_at_once(void **state)
{
	(void)state;
	connects(0, &bob, 1);
	for (uint32_t n = 1; n <= 32; n++) {
		in_use(0);
		assert_int_equal(n_sent, n + 1);
		assert_int_equal(elsewhere_n, n);
	}
	assert_int_equal(lines, 0);
	in_use(0); /* now it pauses */
	assert_int_equal(n_sent, 33);
	assert_int_equal(lines, 1);
	assert_int_equal(qp[0].oob->state, OOB_SEEKING);
	assert_int_equal(refs, 0);
	ends(0);
	connects(0, &bob, 1);
	bob.state = CLIENT_DYING;
	in_use(0);
	assert_int_equal(n_sent, 34);
	ends(0);
	assert_int_equal(live, 0);
}

static void a_connection_that_is_not_opened_does_not_count(void **state)
{
	(void)state;
	table_full = true;
	for (uint32_t i = 0; i < SHARE + 1; i++)
		connects(i, &alice, 1);
	table_full = false;
	assert_int_equal(n_sent, 0);
	assert_int_equal(lines, 0);
	assert_int_equal(refs, 0);
	port_cfg.qp_peers = RNICD_PEERS_ANY; /* from any of 28,232 ports */
	for (uint32_t i = 0; i < SHARE + 1; i++) {
		ends(i);
		connects(i, &alice, 1);
	}
	assert_int_equal(n_sent, SHARE + 1);
	for (uint32_t i = 0; i < SHARE + 1; i++)
		ends(i);
	assert_int_equal(live, 0);
}

/* The peer has the larger address, so it connects. Without patience there is nothing to look at meanwhile. */
static void a_side_that_only_waits_for_its_peer_is_not_looked_at(void **state)
{
	(void)state;
	connects(0, &bob, 200);
	oob_patience(&qp[0], 0, 7);
	assert_int_equal(armed, 0);
	oob_patience(&qp[0], 14, 7);
	assert_int_equal(armed, 1);
	ends(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_user_leaves_ports_below_1024_to_others, begin),
		cmocka_unit_test_setup(a_port_in_use_is_followed_by_others_at_once, begin),
		cmocka_unit_test_setup(a_connection_that_is_not_opened_does_not_count, begin),
		cmocka_unit_test_setup(a_side_that_only_waits_for_its_peer_is_not_looked_at, begin),
	};

	return cmocka_run_group_tests_name("oob", tests, NULL, NULL);
}
