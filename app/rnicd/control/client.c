/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/cm.h"
#include "control/group.h"

#define CLIENTS_MAX 256u

struct client_totals client_totals;

static struct loop_fd listener = { .fd = -1 };
static struct rn_list clients; /* the newest first */
static struct rn_slist dying;  /* whose death began in this turn */
static struct rn_slist dead;   /* to be freed at the end of the turn */
static uint32_t n_clients, next_id;

const struct rn_list *client_list(void) { return &clients; }
uint32_t client_count(void) { return n_clients; }

/* ---- answers ---- */

void client_answer(struct client *c, struct ipc_msg *m, uint16_t len)
{
	m->type = c->req.type;
	m->seq = c->req.seq;
	m->len = len;
	m->rsv = 0;
	c->busy = false;
	if (c->state == CLIENT_DYING)
		return;
	/* One request at a time: a socket without room for its answer belongs to one that never reads. */
	int rc = ipc_send(c->src.fd, m, NULL, 0);
	if (rc == -EPIPE)
		client_die(c);
	else if (rc != 0)
		client_drop(c, "it does not read its answers");
	else if (c->deaf) {
		c->deaf = false;
		loop_events(&c->src, EPOLLIN);
	}
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

void client_error(struct client *c, int err, const char *fmt, ...)
{
	struct ipc_msg m = { .status = err };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m.text, sizeof(m.text), fmt, ap);
	va_end(ap);
	client_totals.bad_requests++;
	rnicd_log(RNICD_LOG_DEBUG, "client %u (pid %d), request %u: %s", c->id, (int)c->pid, c->req.type, m.text);
	client_answer(c, &m, (uint16_t)(IPC_MSG_HDR + strlen(m.text) + 1));
}

void client_hold(struct client *c) { c->under_way++; }
void client_unhold(struct client *c) { c->under_way--; }

bool client_back(struct client *c)
{
	client_unhold(c);
	if (c->state != CLIENT_DYING)
		return true;
	client_death_step(c);
	return false;
}

/* ---- requests ---- */

static void on_hello(struct client *c, const int *fds, uint32_t n) { client_hello(c, fds, n); }
static void on_create_channel(struct client *c, const int *fds, uint32_t n)
{
	(void)n;
	client_create_channel(c, fds[0]);
}

struct request {
	uint16_t len;
	uint8_t min_fds, max_fds;
	void (*run)(struct client *c);
	void (*run_fds)(struct client *c, const int *fds, uint32_t n);
};
#define R(member, fn) { .len = IPC_MSG_LEN(member), .run = (fn) }
#define FD(member, fn) { .len = IPC_MSG_LEN(member), .min_fds = 1, .max_fds = 1, .run_fds = (fn) }

static const struct request requests[IPC_TYPES] = {
	[IPC_HELLO] = { .len = IPC_MSG_LEN(hello), .min_fds = 2, .max_fds = 1 + IPC_REGIONS, .run_fds = on_hello },
	[IPC_QUERY_DEV] = R(query_dev, client_query_dev),
	[IPC_CREATE_CHANNEL] = FD(create_channel, on_create_channel),
	[IPC_DESTROY_CHANNEL] = R(handle, client_destroy_channel),
	[IPC_ALLOC_PD] = R(alloc_pd, client_alloc_pd),
	[IPC_DEALLOC_PD] = R(handle, client_dealloc_pd),
	[IPC_REG_MR] = R(reg_mr, client_reg_mr),
	[IPC_DEREG_MR] = R(handle, client_dereg_mr),
	[IPC_CREATE_CQ] = R(create_cq, client_create_cq),
	[IPC_DESTROY_CQ] = R(handle, client_destroy_cq),
	[IPC_CREATE_QP] = R(create_qp, client_create_qp),
	[IPC_MODIFY_QP] = R(modify_qp, client_modify_qp),
	[IPC_QUERY_QP] = R(handle, client_query_qp),
	[IPC_DESTROY_QP] = R(handle, client_destroy_qp),
	[IPC_REACH] = R(reach, client_reach),
	[IPC_ATTACH] = R(attach, client_attach),
	[IPC_DETACH] = R(attach, client_detach),
	[IPC_CM_JOIN] = R(cm_join, cm_join),
	[IPC_CM_LEAVE] = R(cm_join, cm_leave),
	[IPC_CM_CREATE_ID] = R(cm_create_id, cm_create_id),
	[IPC_CM_DESTROY_ID] = R(handle, cm_destroy_id),
	[IPC_CM_BIND] = R(cm_bind, cm_bind),
	[IPC_CM_RESOLVE_ADDR] = R(cm_resolve, cm_resolve_addr),
	[IPC_CM_RESOLVE_ROUTE] = R(cm_resolve, cm_resolve_route),
	[IPC_CM_LISTEN] = R(cm_listen, cm_listen),
	[IPC_CM_CONNECT] = R(cm_connect, cm_connect),
	[IPC_CM_ACCEPT] = R(cm_connect, cm_accept),
	[IPC_CM_REJECT] = R(cm_reject, cm_reject),
	[IPC_CM_DISCONNECT] = R(handle, cm_disconnect),
	[IPC_CM_MIGRATE] = R(cm_migrate, cm_migrate),
	[IPC_RESIZE_CQ] = R(resize_cq, client_resize_cq),
	[IPC_CREATE_SRQ] = R(create_srq, client_create_srq),
	[IPC_MODIFY_SRQ] = R(modify_srq, client_modify_srq),
	[IPC_QUERY_SRQ] = R(handle, client_query_srq),
	[IPC_DESTROY_SRQ] = R(handle, client_destroy_srq),
	[IPC_IMPORT] = { .len = IPC_MSG_LEN(import), .max_fds = 1, .run_fds = client_import },
	[IPC_FORGET] = R(handle, client_forget),
	[IPC_ALLOC_MW] = R(alloc_mw, client_alloc_mw),
	[IPC_DEALLOC_MW] = R(handle, client_dealloc_mw),
	[IPC_TOKEN] = FD(handle, client_token),
	[IPC_TOKEN_DEV] = FD(handle, client_token_dev),
	[IPC_TOKEN_PD] = FD(handle, client_token_pd),
	[IPC_TOKEN_MR] = FD(handle, client_token_mr),
};

/* Before its length is looked at: the HELLO of another version may have another one. */
static bool other_version(const struct client *c)
{
	return c->req.type == IPC_HELLO && c->state == CLIENT_NEW &&
	       c->req.len >= IPC_MSG_HDR + sizeof(c->req.hello.version) && c->req.hello.version != IPC_VERSION;
}

/* True: the descriptors were handed on. */
static bool dispatch(struct client *c, const int *fds, uint32_t n)
{
	const struct request *r = c->req.type < IPC_TYPES ? &requests[c->req.type] : NULL;

	if (other_version(c)) {
		client_error(c, EPROTO,
			     "librnic speaks version %u of the control protocol, this rnicd version %u: install both "
			     "from one release and restart rnicd",
			     c->req.hello.version, IPC_VERSION);
	} else if (r == NULL || r->len == 0) {
		client_error(c, EINVAL, "request %u is not known to this rnicd", c->req.type);
	} else if (c->req.len != r->len || n < r->min_fds || n > r->max_fds) {
		client_error(
			c, EINVAL,
			"request %u with %u bytes and %u descriptors: %u bytes and %u to %u descriptors belong to it",
			c->req.type, c->req.len, n, r->len, r->min_fds, r->max_fds);
	} else if ((c->req.type == IPC_HELLO) != (c->state == CLIENT_NEW)) {
		client_error(c, EPROTO,
			     c->state == CLIENT_NEW ? "the first request must be HELLO" : "HELLO was said already");
	} else if (r->run_fds != NULL) {
		r->run_fds(c, fds, n);
		return true;
	} else {
		r->run(c);
	}
	return false;
}

static void on_message(struct client *c)
{
	int fds[IPC_MAX_FDS];
	unsigned n = IPC_MAX_FDS;
	int rc = ipc_recv(c->src.fd, &c->req, fds, &n);

	if (rc == -EAGAIN)
		return;
	if (rc == -EPROTO) {
		client_drop(c, "it sent a malformed message");
		return;
	}
	if (rc != 0) {
		client_die(c);
		return;
	}
	client_totals.requests++;
	c->busy = true;
	if (!dispatch(c, fds, n)) {
		for (unsigned i = 0; i < n; i++)
			close(fds[i]);
	}
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct client *c = rn_container_of(f, struct client, src);

	if ((events & EPOLLIN) != 0 && !c->busy) {
		on_message(c);
	} else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
		client_die(c);
	} else {
		c->deaf = true;
		loop_events(f, 0); /* EPOLLHUP still comes */
	}
}

/* ---- life and death ---- */

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
	rnicd_log(RNICD_LOG_DEBUG, "client %u (pid %d) is gone", c->id, (int)c->pid);
	client_totals.died++;
	c->state = CLIENT_DYING;
	c->step = 0;
	int fd = c->src.fd;
	loop_del(&c->src);
	close(fd);
	rn_slist_push_front(&dying, &c->dead);
}

void client_reap(void)
{
	struct client *c;

	while ((c = rn_slist_pop(&dying, struct client, dead)) != NULL) {
		c->begun = true;
		client_death_step(c);
	}
	while ((c = rn_slist_pop(&dead, struct client, dead)) != NULL)
		free(c);
}

void client_gone(struct client *c)
{
	rn_list_remove(&clients, &c->link);
	n_clients--;
	rn_slist_push_front(&dead, &c->dead);
}

/* Of those that have not said HELLO the one that has had the longest time for it; the list begins with the newest. */
static struct client *oldest_silent(void)
{
	struct client *silent = NULL;

	rn_list_each(struct client, c, &clients, link)
		if (c->state == CLIENT_NEW)
			silent = c;
	return silent;
}

static void on_accept(struct loop_fd *f, uint32_t events)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	(void)events;
	int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return; /* it has gone again, or we are out of descriptors and it waits */
	struct client *silent = n_clients < CLIENTS_MAX ? NULL : oldest_silent();
	if (silent != NULL)
		client_drop(silent, "others wait for its place and it has not said HELLO");
	/* It goes at the end of the turn; who is here with nothing but a socket costs nothing else. */
	struct client *c = n_clients < CLIENTS_MAX || silent != NULL ? calloc(1, sizeof(*c)) : NULL;
	if (c == NULL || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) {
		client_totals.refused++;
		rnicd_log(RNICD_LOG_WARNING, "a client is refused: %u are connected", n_clients);
		free(c);
		close(fd);
		return;
	}
	c->id = ++next_id;
	c->pid = cred.pid;
	c->uid = cred.uid;
	c->proc = client_proc_open(cred.pid, cred.uid, cred.gid);
	c->wake_fd = -1;
	c->src = (struct loop_fd){ .fd = -1, .ready = on_ready };
	if (!loop_add(&c->src, fd, EPOLLIN)) {
		client_totals.refused++;
		client_imports_free(c);
		free(c);
		close(fd);
		return;
	}
	rn_list_push_front(&clients, &c->link);
	n_clients++;
	client_totals.accepted++;
}

bool client_start(int listen_fd)
{
	listener.ready = on_accept;
	return loop_add(&listener, listen_fd, EPOLLIN);
}

void client_stop(void)
{
	int fd = listener.fd;

	if (fd >= 0) {
		loop_del(&listener);
		close(fd);
	}
	rn_list_each(struct client, c, &clients, link)
		client_die(c);
}
