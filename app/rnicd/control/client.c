/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's answers, its request under way, the creation and the end of a client. */
#include "control/client.h"

#include <errno.h>
#include <stdarg.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "border/news.h"
#include "control/why.h"

#define FDS_EACH 4u /* descriptors of a client: socket, /proc/PID, wake eventfd, and one spare */
/* memory mappings of a client: its regions, the address range of its imports, and the gaps between them */
#define MAPPINGS_EACH 8u

struct clients clients;
struct client_totals client_totals;

/* ---- answers ---- */

void client_listen_again(struct client *c)
{
	if (c->deaf)
		loop_events(&c->src, EPOLLIN);
	c->deaf = false;
}

/* Whether something that rnicd has sent lies unread at the other end. */
static bool client_reads_late(int sock)
{
	int bytes = 0;

	return ioctl(sock, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

void client_answer(struct client *c, struct ipc_msg *m, uint16_t len) { client_answer_fds(c, m, len, NULL, 0); }

static void put_answer(struct client *c, const struct client_late *to, struct ipc_msg *m, const int *fds, uint32_t n)
{
	m->type = to->type;
	m->seq = to->seq;
	m->rsv = 0;
	if (!to->put_off)
		c->busy = false;
	if (c->state == CLIENT_DYING)
		return;
	/* A client has one request at a time, and few that were put off: so a socket without room for the answer
	 * belongs to a client that never reads. Descriptors that lie unread in sockets count against a limit that all
	 * sockets of rnicd share (ETOOMANYREFS): so one answer with descriptors may lie there for each client. */
	int rc = n > 0 && client_reads_late(c->src.fd) ? -EAGAIN : ipc_send(c->src.fd, m, fds, n);
	c->passed |= rc == 0 && n > 0;
	if (rc == -EPIPE)
		client_die(c);
	else if (rc != 0)
		client_drop(c, "it does not read its answers");
	else if (!to->put_off)
		client_listen_again(c);
}

void client_answer_fds(struct client *c, struct ipc_msg *m, uint16_t len, const int *fds, uint32_t n)
{
	const struct client_late now = { .type = c->req.type, .seq = c->req.seq };

	m->len = len;
	put_answer(c, &now, m, fds, n);
}

void client_ok(struct client *c)
{
	struct ipc_msg m = { .status = 0 };

	client_answer(c, &m, IPC_MSG_HDR);
}

void client_ok_handle(struct client *c, uint32_t handle)
{
	struct ipc_msg m = { .handle = { .handle = handle } };

	client_answer(c, &m, IPC_MSG_LEN(handle));
}

static void answer_error(struct client *c, const struct client_late *to, struct ipc_msg *m)
{
	client_totals.bad_requests++;
	rnicd_log(RNICD_LOG_DEBUG, "client %u (pid %d), request %u: %s", c->id, (int)c->pid, to->type, m->text);
	m->len = (uint16_t)(IPC_MSG_HDR + strlen(m->text) + 1);
	put_answer(c, to, m, NULL, 0);
}

static void refuse(struct client *c, struct ipc_msg *m)
{
	const struct client_late now = { .type = c->req.type, .seq = c->req.seq };

	answer_error(c, &now, m);
}

void client_error(struct client *c, int err, const char *fmt, ...)
{
	struct ipc_msg m = { .status = err };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m.text, sizeof(m.text), fmt, ap);
	va_end(ap);
	refuse(c, &m);
}

void client_over_quota(struct client *c, const char *fmt, ...)
{
	struct ipc_msg m = { .status = ENOMEM };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m.text, sizeof(m.text), fmt, ap);
	va_end(ap);
	why_quota(c->id, (int)c->pid, m.text);
	refuse(c, &m);
}

void client_put_off(struct client *c)
{
	c->busy = false;
	client_listen_again(c);
}

void client_answer_late(struct client *c, const struct client_late *late, int err, const char *text)
{
	struct ipc_msg m = { .status = err, .len = IPC_MSG_HDR };

	if (err == 0) {
		put_answer(c, late, &m, NULL, 0);
		return;
	}
	snprintf(m.text, sizeof(m.text), "%s", text);
	answer_error(c, late, &m);
}

/* ---- what is under way ---- */

void client_death_soon(struct client *c)
{
	if (c->state == CLIENT_DYING && c->under_way == 0 && !rn_link_linked(&c->dying))
		rn_list_push_back(&clients.dying, &c->dying);
}

void client_hold(struct client *c) { c->under_way++; }

void client_unhold(struct client *c)
{
	c->under_way--;
	client_death_soon(c);
}

bool client_back(struct client *c)
{
	client_unhold(c);
	return c->state != CLIENT_DYING;
}

bool client_open(struct client *c, const struct fds_mapping *m, void (*then)(struct client *c, struct fds_result *r))
{
	owner_put(&c->asked, OWNER_FDS, owner_new());
	c->opening = then;
	if (fds_open(c->asked.key, c->src.fd, c->proc.dir, m))
		return true;
	owner_del(&c->asked);
	c->opening = NULL;
	return false;
}

/* ---- creation and end ---- */

void client_drop(struct client *c, const char *why)
{
	if (c->state == CLIENT_DYING)
		return;
	client_totals.dropped++;
	rnicd_log(RNICD_LOG_WARNING, "client %u (pid %d, uid %u) is dropped: %s", c->id, (int)c->pid, (unsigned)c->uid,
		  why);
	client_die(c);
}

void client_die(struct client *c)
{
	if (c->state == CLIENT_DYING)
		return;
	if (c->hosts != NULL) { /* a domain's host has no process and no socket */
		c->state = CLIENT_DYING;
		c->step = 0;
		free(c->closing);
		c->closing = NULL;
		client_death_soon(c);
		return;
	}
	rnicd_log(RNICD_LOG_DEBUG, "client %u (pid %d) is gone", c->id, (int)c->pid);
	news_add(NEWS_CLIENT, "client %u (pid %d, uid %u) is gone", c->id, (int)c->pid, (unsigned)c->uid);
	client_totals.died++;
	c->state = CLIENT_DYING;
	c->step = 0;
	c->sock = c->src.fd;
	loop_del(&c->src);
	fds_cancel(c->asked.key);
	owner_del(&c->asked);
	if (!client_close(c))
		shutdown(c->sock, SHUT_RDWR); /* the client sees the end now */
	client_reaches_leave(c);
	client_death_soon(c);
}

bool client_close(struct client *c)
{
	if (c->closing == NULL)
		return true;
	if (c->passed && !clients.stopping && client_reads_late(c->sock))
		return false;
	fds_close(c->closing, c->uid, c->sock);
	c->closing = NULL;
	return true;
}

bool client_count_in(struct user *u)
{
	if (!user_take(u, USER_CLIENTS, 0, 1))
		return false;
	if (user_take(u, USER_FDS, 0, FDS_EACH)) {
		if (user_take(u, USER_MAPPINGS, 0, MAPPINGS_EACH))
			return true;
		user_give(u, USER_FDS, 0, FDS_EACH);
	}
	user_give(u, USER_CLIENTS, 0, 1);
	return false;
}

void client_count_out(struct client *c)
{
	if (!c->counted)
		return;
	c->counted = false;
	user_give(c->user, USER_CLIENTS, 0, 1);
	user_give(c->user, USER_FDS, 0, FDS_EACH);
	user_give(c->user, USER_MAPPINGS, 0, MAPPINGS_EACH);
}

void client_gone(struct client *c)
{
	rn_list_remove(&clients.all, &c->link);
	clients.n--;
	if (rn_link_linked(&c->dying))
		rn_list_remove(&clients.dying, &c->dying);
	client_count_out(c);
	rn_slist_push_front(&clients.dead, &c->dead);
}
