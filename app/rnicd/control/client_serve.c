/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads requests from a client's socket, finds each in the table of requests, and lets helpers receive messages with
 * descriptors. */
#include <errno.h>
#include <sys/epoll.h>

#include "control/client.h"
#include "control/cm.h"
#include "control/group.h"

struct request {
	uint16_t len;
	uint8_t min_fds, max_fds;
	void (*run)(struct client *c); /* carries out a request without descriptors */
	void (*run_fds)(struct client *c, struct fds_given *g, uint32_t n); /* carries out a request with descriptors */
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
static bool only_sockets; /* requests about anything else are refused */

void client_serve_sockets(void (*serve)(struct client *c)) { serve_sockets = serve; }

void client_serve_only_sockets(void (*serve)(struct client *c))
{
	serve_sockets = serve;
	only_sockets = true;
}

static void about_sockets(struct client *c) { serve_sockets(c); }

static void about_a_descriptor(struct client *c, struct fds_given *g, uint32_t n)
{
	(void)n;
	c->shown = g[0].cookie;
	c->shown_fd = g[0].fd;
	serve_sockets(c);
}

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
	[IPC_CREATE_QP] = R(create_qp, client_create_any_qp),
	[IPC_MODIFY_QP] = R(modify_qp, client_modify_qp),
	[IPC_QUERY_QP] = R(handle, client_query_qp),
	[IPC_DESTROY_QP] = R(handle, client_destroy_any_qp),
	[IPC_REACH] = R(reach, client_reach),
	[IPC_ATTACH] = R(attach, client_attach),
	[IPC_DETACH] = R(attach, client_detach),
	[IPC_GROUP_BIND] = R(group_bind, client_group_bind),
	[IPC_CM_JOIN] = R(cm_join, cm_join),
	[IPC_CM_SOCKET] = R(cm_socket, cm_socket),
	[IPC_CM_LEAVE] = R(cm_join, cm_leave),
	[IPC_CM_CREATE_ID] = R(cm_create_id, cm_create_id),
	[IPC_CM_DESTROY_ID] = R(handle, cm_destroy_id),
	[IPC_CM_BIND] = R(cm_bind, cm_bind),
	[IPC_CM_RESOLVE_ADDR] = R(cm_resolve, cm_resolve_addr),
	[IPC_CM_OPEN] = R(cm_open, cm_open),
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
	[IPC_OPEN_XRCD] = { .len = IPC_MSG_LEN(open_xrcd), .max_fds = 1, .run_fds = client_open_xrcd },
	[IPC_CLOSE_XRCD] = R(handle, client_close_xrcd),
	[IPC_OPEN_QP] = R(open_qp, client_open_qp),
	[IPC_INJECT] = R(inject, client_inject),
	[IPC_SOCK_JOIN] = { .len = IPC_MSG_HDR, .run = about_sockets },
	[IPC_SOCK_BIND] = R(sock_addr, about_sockets),
	[IPC_SOCK_LISTEN] = R(sock_listen, about_sockets),
	[IPC_SOCK_CONNECT] = R(sock_addr, about_sockets),
	[IPC_SOCK_ACCEPT] = R(sock_listen, about_sockets),
	[IPC_SOCK_GRAM] = R(sock_gram, about_sockets),
	[IPC_SOCK_PEER] = R(sock_gram, about_sockets),
	[IPC_SOCK_FIND] = { .len = IPC_MSG_HDR, .min_fds = 1, .max_fds = 1, .run_fds = about_a_descriptor },
	[IPC_SOCK_TAKE] = FD(sock_take, about_a_descriptor),
	[IPC_SOCK_CLOSED] = R(sock_addr, about_sockets),
	[IPC_SOCK_OPTION] = R(sock_option, about_sockets),
	[IPC_SOCK_LIST] = R(sock_list, about_sockets),
	[IPC_TOKEN] = FD(handle, client_token),
	[IPC_TOKEN_DEV] = FD(handle, client_token_dev),
	[IPC_TOKEN_PD] = FD(handle, client_token_pd),
	[IPC_TOKEN_MR] = FD(handle, client_token_mr),
};

/* Whether this is a HELLO of another version; checked before the length, which may be another one in that version. */
static bool other_version(const struct client *c)
{
	return c->req.type == IPC_HELLO && c->state == CLIENT_NEW &&
	       c->req.len >= IPC_MSG_HDR + sizeof(c->req.hello.version) && c->req.hello.version != IPC_VERSION;
}

/*
 * Why the client may not send this request now; NULL: it may. HELLO or SOCK_JOIN comes first, and once. INJECT and
 * SOCK_LIST are only for processes that have sent neither (rnicctl, rnicrun --ss). After SOCK_JOIN only requests about
 * sockets are possible, since such a client has no memory that other requests could name.
 */
static const char *out_of_turn(const struct client *c)
{
	bool first = c->req.type == IPC_HELLO || c->req.type == IPC_SOCK_JOIN || c->req.type == IPC_INJECT ||
		     c->req.type == IPC_SOCK_LIST;
	bool sockets = (c->req.type > IPC_SOCK_JOIN && c->req.type <= IPC_SOCK_LIST) || c->req.type == IPC_SOCK_OPTION;

	if (first != (c->state == CLIENT_NEW))
		return first ? "HELLO was sent already" : "the first request must be HELLO";
	if (!first && sockets != (c->state == CLIENT_SOCKETS))
		return "requests about sockets follow SOCK_JOIN, all others HELLO";
	return NULL;
}

static bool is_about_sockets(const struct request *r)
{
	return r->run == about_sockets || r->run_fds == about_a_descriptor;
}

static void dispatch(struct client *c, struct fds_given *g, uint32_t n)
{
	const struct request *r = c->req.type < IPC_TYPES ? &requests[c->req.type] : NULL;

	if (only_sockets && r != NULL && !is_about_sockets(r)) {
		client_error(
			c, EOPNOTSUPP,
			"the process beside rnicrun --embedded --sockets has sockets only: run an RDMA program with "
			"rnicrun --embedded alone");
	} else if (other_version(c)) {
		client_error(c, EPROTO,
			     "librnic speaks version %u of the control protocol, this rnicd version %u: install both "
			     "from one release and restart rnicd",
			     c->req.hello.version, IPC_VERSION);
	} else if (r == NULL || r->len == 0) {
		client_error(c, EINVAL, "request %u is not known to this rnicd", c->req.type);
	} else if (c->req.len != r->len || n < r->min_fds || n > r->max_fds) {
		client_error(
			c, EINVAL,
			"request %u has %u bytes and %u descriptors: it must have %u bytes and %u to %u descriptors",
			c->req.type, c->req.len, n, r->len, r->min_fds, r->max_fds);
	} else if (out_of_turn(c) != NULL) {
		client_error(c, EPROTO, "%s", out_of_turn(c));
	} else if (r->run_fds != NULL) {
		r->run_fds(c, g, n);
	} else {
		r->run(c);
	}
}

/* Handles a message of the client. rc: 0, or why the message could not be received. */
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

/* The result of a helper: a message with its descriptors, or the opened file that the request under way needs. */
void client_on_fds(uint64_t key, struct fds_result *r)
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
		c->busy = false; /* the helper has ended, and the message is lost */
		client_listen_again(c);
	} else if (c != NULL) {
		c->req = r->m;
		on_message(c, r->status, r->given, r->n);
	}
	fds_close_given(r);
}

/* Receives the next message of the client; a helper receives it if it has descriptors (fds.h). */
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
	c->busy = false; /* no memory: the message is still in the socket, and the loop tries again */
}

void client_on_ready(struct loop_fd *f, uint32_t events)
{
	struct client *c = rn_container_of(f, struct client, src);

	if ((events & EPOLLIN) != 0 && !c->busy) {
		take_message(c);
	} else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
		client_die(c);
	} else {
		c->deaf = true;
		loop_events(f, 0); /* without EPOLLIN; EPOLLHUP is still reported */
	}
}
