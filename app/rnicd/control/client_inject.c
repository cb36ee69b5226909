/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPC_INJECT: rnicctl inject replaces the injected failures of a running program. Only root and the program's user may
 * do this, which SO_PEERCRED proves. The specification is passed to the program's library without being parsed here.
 */
#include <errno.h>
#include <string.h>

#include "control/client.h"

#define WAITING_MOST 16u /* orders that may wait until the program reads them */

struct client_chan *client_orders(const struct client *c)
{
	struct client_chan *ch;

	for (uint32_t h = 0; (ch = table_next(&c->chan, &h)) != NULL;)
		if (ch->kind == IPC_CHANNEL_ORDERS)
			return ch;
	return NULL;
}

static struct client *client_meant(uint32_t number, uint32_t pid)
{
	rn_list_each(struct client, c, &clients.all, link) {
		if (c->state == CLIENT_READY && c->hosts == NULL &&
		    (number != 0 ? c->id == number : (uint32_t)c->pid == pid))
			return c;
	}
	return NULL;
}

/* Whether the specification is one line of visible ASCII characters without spaces. It ends with a zero byte. */
static bool is_text(const struct ipc_order *o)
{
	const size_t len = strnlen(o->spec, sizeof(o->spec));

	for (size_t i = 0; i < len; i++)
		if (o->spec[i] <= ' ' || o->spec[i] > '~')
			return false;
	return len > 0 && len < sizeof(o->spec);
}

void client_inject(struct client *c)
{
	const struct ipc_inject r = c->req.inject;
	struct ipc_order order;
	struct client *to = client_meant(r.client, r.pid);
	struct client_chan *ch = to != NULL ? client_orders(to) : NULL;

	memcpy(order.spec, r.spec, sizeof(order.spec));
	if (!is_text(&order)) {
		client_error(c, EINVAL, "a specification is one line of visible characters");
	} else if (to == NULL) {
		client_error(c, ESRCH,
			     "there is no such client: rnicctl clients lists them; a program beside rnicd "
			     "(--embedded, --design) has pid=NUMBER, and has to be started with rnicrun --inject none");
	} else if (c->uid != 0 && c->uid != to->uid) {
		rnicd_log(RNICD_LOG_WARNING, "uid %u may not inject failures into client %u (pid %d) of uid %u",
			  (unsigned)c->uid, to->id, (int)to->pid, (unsigned)to->uid);
		client_error(c, EPERM, "client %u (pid %d) is another user's: only that user and root may", to->id,
			     (int)to->pid);
	} else if (ch == NULL) {
		client_error(c, EOPNOTSUPP,
			     "client %u (pid %d) takes no orders: start the program with rnicrun --inject none", to->id,
			     (int)to->pid);
	} else if (ch->waiting >= WAITING_MOST || !ev_push_copy(ch, NULL, &order, sizeof(order))) {
		client_error(c, EAGAIN, "client %u (pid %d) does not take its orders", to->id, (int)to->pid);
	} else {
		rnicd_log(RNICD_LOG_INFO, "client %u (pid %d) is to inject %s, uid %u says", to->id, (int)to->pid,
			  order.spec, (unsigned)c->uid);
		client_ok(c);
	}
}
