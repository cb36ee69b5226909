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
#include "control/why.h"

#define ACCEPT_PAUSE_NS (100 * RN_NS_PER_MS)
#define FDS_EACH        4u /* of a client: socket, /proc, wake, and one to spare */
#define MAPPINGS_EACH   8u /* of a client: its regions and the room of its imports, with what lies between them */
#define TELL_NS         (10 * RN_NS_PER_S) /* one line of the log in that time */

struct client_totals client_totals;

static struct loop_fd listener = { .fd = -1 };
static struct rn_list clients; /* the newest first */
static struct rn_slist dying;  /* whose death began in this turn */
static struct rn_slist dead;   /* to be freed at the end of the turn */
static uint32_t n_clients, next_id;

const struct rn_list *client_list(void) { return &clients; }
uint32_t client_count(void) { return n_clients; }

/* ---- answers ---- */

static void listen_again(struct client *c)
{
	if (c->deaf)
		loop_events(&c->src, EPOLLIN);
	c->deaf = false;
}

void client_answer(struct client *c, struct ipc_msg *m, uint16_t len) { client_answer_fds(c, m, len, NULL, 0); }

void client_answer_fds(struct client *c, struct ipc_msg *m, uint16_t len, const int *fds, uint32_t n)
{
	m->type = c->req.type;
	m->seq = c->req.seq;
	m->len = len;
	m->rsv = 0;
	c->busy = false;
	if (c->state == CLIENT_DYING)
		return;
	/* One request at a time: a socket without room for its answer belongs to one that never reads. */
	int rc = ipc_send(c->src.fd, m, fds, n);
	if (rc == -EPIPE)
		client_die(c);
	else if (rc != 0)
		client_drop(c, "it does not read its answers");
	else
		listen_again(c);
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

static void answer_error(struct client *c, struct ipc_msg *m)
{
	client_totals.bad_requests++;
	rnicd_log(RNICD_LOG_DEBUG, "client %u (pid %d), request %u: %s", c->id, (int)c->pid, c->req.type, m->text);
	client_answer(c, m, (uint16_t)(IPC_MSG_HDR + strlen(m->text) + 1));
}

void client_error(struct client *c, int err, const char *fmt, ...)
{
	struct ipc_msg m = { .status = err };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m.text, sizeof(m.text), fmt, ap);
	va_end(ap);
	answer_error(c, &m);
}

void client_over_quota(struct client *c, const char *fmt, ...)
{
	struct ipc_msg m = { .status = ENOMEM };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m.text, sizeof(m.text), fmt, ap);
	va_end(ap);
	why_quota(c->id, (int)c->pid, m.text);
	answer_error(c, &m);
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

struct request {
	uint16_t len;
	uint8_t min_fds, max_fds;
	void (*run)(struct client *c);
	void (*run_fds)(struct client *c, struct fds_given *g, uint32_t n); /* takes what it clears the fd of */
};
#define R(member, fn) \
	{ \
		.len = IPC_MSG_LEN(member), .run = (fn) \
	}
#define FD(member, fn) \
	{ \
		.len = IPC_MSG_LEN(member), .min_fds = 1, .max_fds = 1, .run_fds = (fn) \
	}

static void (*serve_sockets)(struct client *c);

void client_serve_sockets(void (*serve)(struct client *c)) { serve_sockets = serve; }

static void about_sockets(struct client *c) { serve_sockets(c); }

static const struct request requests[IPC_TYPES] = {
	[IPC_HELLO] = { .len = IPC_MSG_LEN(hello), .min_fds = 2, .max_fds = 1 + IPC_REGIONS, .run_fds = client_hello },
	[IPC_QUERY_DEV] = R(query_dev, client_query_dev),
	[IPC_CREATE_CHANNEL] = FD(create_channel, client_create_channel),
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
	[IPC_SOCK_JOIN] = { .len = IPC_MSG_HDR, .run = about_sockets },
	[IPC_SOCK_BIND] = R(sock_addr, about_sockets),
	[IPC_SOCK_LISTEN] = R(sock_listen, about_sockets),
	[IPC_SOCK_CONNECT] = R(sock_addr, about_sockets),
	[IPC_SOCK_ACCEPT] = R(sock_listen, about_sockets),
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

/* HELLO or SOCK_JOIN comes first, and once; a client for sockets has no memory that other requests could name. */
static const char *out_of_turn(const struct client *c)
{
	bool first = c->req.type == IPC_HELLO || c->req.type == IPC_SOCK_JOIN;
	bool sockets = c->req.type > IPC_SOCK_JOIN;

	if (first != (c->state == CLIENT_NEW))
		return first ? "HELLO was said already" : "the first request must be HELLO";
	if (!first && sockets != (c->state == CLIENT_SOCKETS))
		return "requests about sockets follow SOCK_JOIN, all others HELLO";
	return NULL;
}

static void dispatch(struct client *c, struct fds_given *g, uint32_t n)
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
	} else if (out_of_turn(c) != NULL) {
		client_error(c, EPROTO, "%s", out_of_turn(c));
	} else if (r->run_fds != NULL) {
		r->run_fds(c, g, n);
	} else {
		r->run(c);
	}
}

/* A message is here, or the reason why there is none. */
static void on_message(struct client *c, int rc, struct fds_given *g, uint32_t n)
{
	if (rc == -EPROTO) {
		client_drop(c, "it sent a malformed message");
		return;
	}
	if (rc == -EPIPE) {
		client_die(c);
		return;
	}
	client_totals.requests++;
	if (rc == 0)
		dispatch(c, g, n);
	else if (rc == -EIO)
		client_error(c, EIO,
			     "a descriptor of the request held up rnicd's helper for too long: pass no other kind "
			     "of descriptor than the request asks for");
	else
		client_error(c, ENFILE,
			     "the system or rnicd has no more descriptors: close some, or raise rnicd's limit "
			     "(ulimit -n)");
}

/* What a helper brings: a message with its descriptors, or what the request under way has asked for. */
static void on_fds(uint64_t key, struct fds_result *r)
{
	struct owner *o = owner_get(OWNER_FDS, key);
	struct client *c = o != NULL ? rn_container_of(o, struct client, asked) : NULL;

	if (c != NULL)
		owner_del(&c->asked);
	if (c != NULL && c->opening != NULL) {
		void (*then)(struct client *, struct fds_result *) = c->opening;
		c->opening = NULL;
		then(c, r);
	} else if (c != NULL && r->status == -EAGAIN) {
		c->busy = false; /* the message has gone with a helper that ended */
		listen_again(c);
	} else if (c != NULL) {
		c->req = r->m;
		on_message(c, r->status, r->given, r->n);
	}
	for (uint32_t i = 0; i < r->n; i++)
		if (r->given[i].fd >= 0)
			close(r->given[i].fd); /* an eventfd or memory: at once */
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

/* A message with descriptors is not touched here: a helper takes it (fds.h). */
static void take_message(struct client *c)
{
	bool fds = false;
	int rc = ipc_peek(c->src.fd, &fds);

	if (rc == -EAGAIN)
		return;
	if (rc == 0 && !fds)
		rc = ipc_recv(c->src.fd, &c->req, NULL, NULL);
	c->busy = true;
	if (rc != 0 || !fds) {
		on_message(c, rc, NULL, 0);
		return;
	}
	owner_put(&c->asked, OWNER_FDS, owner_new());
	if (fds_receive(c->asked.key, c->uid, c->src.fd))
		return;
	owner_del(&c->asked);
	c->busy = false; /* no memory: it is still there, and the loop comes back to it */
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct client *c = rn_container_of(f, struct client, src);

	if ((events & EPOLLIN) != 0 && !c->busy) {
		take_message(c);
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
	fds_cancel(c->asked.key);
	owner_del(&c->asked);
	fds_close(c->closing, c->uid, fd);
	c->closing = NULL;
	rn_slist_push_front(&dying, &c->dead);
}

void client_reap(void)
{
	struct client *c;

	while ((c = rn_slist_pop(&dying, struct client, dead)) != NULL) {
		c->begun = true;
		client_death_step(c);
	}
	while ((c = rn_slist_pop(&dead, struct client, dead)) != NULL) {
		user_put(c->user);
		free(c);
	}
}

/* Of those that have not said HELLO the one that has had the longest time for it; u: of this user, NULL: of any. */
static struct client *oldest_silent(const struct user *u)
{
	struct client *silent = NULL;

	rn_list_each(struct client, c, &clients, link) /* the newest comes first */
		if (c->state == CLIENT_NEW && (u == NULL || c->user == u))
			silent = c;
	return silent;
}

static bool count_in(struct user *u)
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

static void count_out(struct client *c)
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
	rn_list_remove(&clients, &c->link);
	n_clients--;
	count_out(c);
	rn_slist_push_front(&dead, &c->dead);
}

/*
 * Who is here with nothing but a socket makes room: a process of the same user, or when all places are taken of any.
 * It goes at the end of the turn and costs nothing else.
 */
static bool find_place(struct user *u)
{
	struct client *silent = NULL;

	if (n_clients < CLIENTS_MAX && count_in(u))
		return true;
	silent = oldest_silent(u);
	if (silent == NULL && n_clients >= CLIENTS_MAX)
		silent = oldest_silent(NULL);
	if (silent == NULL)
		return false;
	client_drop(silent, "others wait for its place and it has not said HELLO");
	count_out(silent);
	return count_in(u);
}

/* It may have sent something already: a helper closes it. */
static void turn_away(int fd, uid_t uid, const char *why)
{
	struct fds_job *closing = fds_closing();

	client_totals.refused++;
	rnicd_log(RNICD_LOG_WARNING, "a client of uid %u is refused: %s, %u are connected", (unsigned)uid, why,
		  n_clients);
	if (closing != NULL)
		fds_close(closing, uid, fd);
	else
		close(fd);
}

/* The client with its own numbers; NULL: no memory. */
static struct client *client_new(const struct ucred *cred, struct user *u)
{
	struct client *c = calloc(1, sizeof(*c));
	struct fds_job *closing = fds_closing();

	if (c == NULL || closing == NULL) {
		free(c);
		free(closing);
		return NULL;
	}
	c->id = ++next_id;
	c->pid = cred->pid;
	c->uid = cred->uid;
	c->user = u;
	c->counted = true;
	c->proc = client_proc_open(cred->pid, cred->uid, cred->gid);
	c->wake_fd = -1;
	c->closing = closing;
	c->src = (struct loop_fd){ .fd = -1, .ready = on_ready };
	return c;
}

static struct loop_timer accept_again;

static void go_on_accepting(struct loop_timer *t)
{
	(void)t;
	loop_events(&listener, EPOLLIN);
}

/* Without a descriptor for the next client: it waits, and the loop does not turn for it alone. */
static void pause_accepting(void)
{
	static uint64_t told;
	uint64_t now = rnicd_now();

	if (told == 0 || now - told > TELL_NS) {
		rnicd_log(RNICD_LOG_WARNING, "a client waits: rnicd or the system has no more descriptors (%s)",
			  strerror(errno));
		told = now;
	}
	loop_events(&listener, 0);
	accept_again.due = go_on_accepting;
	loop_timer_arm(&accept_again, now + ACCEPT_PAUSE_NS);
}

void client_adopt(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	struct user *u = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 ? user_get(cred.uid) : NULL;
	if (u == NULL || !find_place(u)) {
		turn_away(fd, u != NULL ? cred.uid : (uid_t)-1, u != NULL ? "its user has no more place" : "no memory");
		if (u != NULL)
			user_put(u);
		return;
	}
	struct client *c = client_new(&cred, u);
	if (c == NULL || !loop_add(&c->src, fd, EPOLLIN)) {
		turn_away(fd, cred.uid, "no memory");
		struct client nobody = { .user = u, .counted = true };
		count_out(c != NULL ? c : &nobody);
		if (c != NULL) {
			client_imports_free(c);
			free(c->closing);
		}
		free(c);
		user_put(u);
		return;
	}
	rn_list_push_front(&clients, &c->link);
	n_clients++;
	client_totals.accepted++;
}

static void on_accept(struct loop_fd *f, uint32_t events)
{
	(void)events;
	int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		client_adopt(fd);
	else if (errno == EMFILE || errno == ENFILE)
		pause_accepting(); /* else it has gone again, or it waits */
}

bool client_start(int listen_fd)
{
	listener.ready = on_accept;
	return fds_serve(on_fds) && (listen_fd < 0 || loop_add(&listener, listen_fd, EPOLLIN));
}

void client_stop(void)
{
	int fd = listener.fd;

	loop_timer_disarm(&accept_again);
	if (fd >= 0) {
		loop_del(&listener);
		close(fd);
	}
	rn_list_each(struct client, c, &clients, link)
		client_die(c);
}
