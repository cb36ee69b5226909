/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm_rig.h"

struct rnicd rnicd;

/* ---- functions that the files under test call ---- */

int answer;

void client_answer(struct client *c, struct ipc_msg *m, uint16_t len)
{
	(void)c;
	(void)len;
	answer = m->status;
}

void client_ok(struct client *c)
{
	(void)c;
	answer = 0;
}

uint32_t answer_handle;
void client_ok_handle(struct client *c, uint32_t handle)
{
	client_ok(c);
	answer_handle = handle;
}

void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	answer = err;
}

bool can_listen[WORKERS];
static uint64_t met; /* owner of the first worker's listener */

struct cmd *under_way;
uint32_t let_go;
void cmd_send_all(struct cmd *c) { under_way = c; }
void cmd_send(struct cmd *c, uint32_t w)
{
	(void)w;
	if (c->type == CMD_NEIGH)
		c->neigh.verdict = NEIGH_WAIT;
	else if (c->type == CMD_CONN_LET_GO)
		let_go++;
	else
		return;
	c->done(c);
}

void all_work(void)
{
	struct cmd_listen *l = &under_way->listen;

	for (uint32_t i = 0; i < WORKERS && under_way->type == CMD_LISTEN; i++) {
		l->verdict[i] = can_listen[i] ? CONN_OK : CONN_FULL;
		if (can_listen[i])
			met = l->owner;
	}
}

void all_done(void)
{
	struct cmd *c = under_way;

	under_way = NULL;
	c->done(c);
}

/* Connections are only counted. */
struct cm_conn conns[8];
uint32_t n_conns, ended;

struct cm_conn *cm_conn_new(struct client *c, struct cm_id *id, uint64_t key)
{
	struct cm_conn *k = &conns[n_conns++];

	*k = (struct cm_conn){ .c = c, .id = id };
	k->owner.key = key;
	id->conn = k;
	return k;
}

void cm_conn_leave(struct cm_id *id)
{
	if (id->conn != NULL)
		ended++;
	id->conn = NULL;
}

void cm_conn_end(uint32_t w, struct rc *conn, uint64_t key)
{
	(void)w;
	(void)conn;
	(void)key;
	ended++;
}

void cm_conn_free(struct cm_conn *k)
{
	if (k->id != NULL)
		k->id->conn = NULL;
	k->owner.key = 0;
}

bool may_have_more = true;
bool cm_conn_on(struct cm_conn *k, struct user *u, uint32_t w, enum user_table as)
{
	(void)u;
	(void)as;
	k->worker = w;
	return may_have_more;
}
void cm_conn_established(struct cm_conn *k) { (void)k; }

struct rn_list all_conns;
const struct rn_list *cm_conns(void) { return &all_conns; }

struct cm_conn *cm_conn_of(uint64_t key)
{
	for (uint32_t i = 0; i < n_conns; i++)
		if (conns[i].owner.key == key)
			return &conns[i];
	return NULL;
}

/* ---- a client ---- */

struct client cl;
struct client_chan *chan;
static uint8_t ring[RING_BYTES] RN_ALIGNED(4096);

static struct rnicd_port port[2];
struct rnicd_port_cfg port_cfg[2];

struct client_chan *chan_new(uint8_t *region)
{
	const struct spsc_place at = {
		.region = region, .region_size = RING_BYTES, .nslots = SLOTS, .slot_size = IPC_EVENT_SLOT_CM
	};
	struct client_chan *ch = calloc(1, sizeof(*ch));

	memset(region, 0, RING_BYTES);
	ch->c = &cl;
	ch->kind = IPC_CHANNEL_CM;
	ch->slot_size = IPC_EVENT_SLOT_CM;
	ch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ch->handle = table_add(&cl.chan, ch);
	assert_int_equal(spsc_prod_attach(&ch->ring, &at), SPSC_OK);
	return ch;
}

void chan_free(struct client_chan *ch)
{
	ev_chan_fini(ch);
	close(ch->fd);
	table_del(&cl.chan, ch->handle);
	free(ch);
}

int begin(void **state)
{
	(void)state;
	rnicd.n_ports = 2;
	rnicd.n_workers = WORKERS;
	for (uint32_t i = 0; i < 2; i++) {
		port[i].cfg = &port_cfg[i];
		port_cfg[i].ip.b[10] = port_cfg[i].ip.b[11] = 0xff; /* IPv4 */
		rnicd.port[i] = &port[i];
	}
	rnicd.cfg.user_share = 75;
	rnicd.cfg.listeners = 256;
	user_start();
	cl = (struct client){ .state = CLIENT_READY, .user = user_get(0) };
	chan = chan_new(ring);
	can_listen[0] = can_listen[1] = true;
	n_conns = ended = 0;
	return 0;
}

int end(void **state)
{
	struct cm_id *id;

	(void)state;
	for (uint32_t h = 0; (id = table_next(&cl.cm, &h)) != NULL;)
		cm_id_free(id);
	chan_free(chan);
	table_free(&cl.cm);
	user_put(cl.user);
	table_free(&cl.chan);
	return 0;
}

uint32_t new_id(void)
{
	assert_int_equal(CALL(cm_create_id, cm_create_id, .channel = chan->handle), 0);
	return answer_handle;
}

struct ipc_addr addr(uint8_t a, uint8_t d, uint16_t p)
{
	return (struct ipc_addr){ .ip = { [10] = 0xff, [11] = 0xff, a, 77, 0, d }, .port = p };
}

void a_request_comes(void)
{
	cm_fx(&(struct event_fx){ .type = QP_FX_CONNECT_REQUEST,
				  .owner = EVENT_OWNER_PASSIVE | (n_conns + 1),
				  .listener = met,
				  .remote = addr(10, 2, 999),
				  .local = addr(10, 1, 7001) });
}

bool destroyed(uint32_t id)
{
	int rc = CALL(cm_destroy_id, handle, .handle = id);

	if (under_way != NULL) { /* a listener */
		all_work();
		all_done();
		rc = answer;
	}
	return rc == 0;
}
