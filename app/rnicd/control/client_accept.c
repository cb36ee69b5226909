/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening socket: accepts or refuses clients, and disconnects all of them at the end of rnicd. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "border/news.h"
#include "control/client.h"

#define ACCEPT_PAUSE_NS (100 * RN_NS_PER_MS)
#define TELL_NS         (10 * RN_NS_PER_S) /* at most one line of the log in this time */

static struct loop_fd listener = { .fd = -1 };
static uint32_t next_id;

/*
 * The client that has been connected longest without sending HELLO; u: of this user only, NULL: of any user. If the
 * client is busy, a helper receives its HELLO.
 */
static struct client *oldest_silent(const struct user *u)
{
	struct client *silent = NULL;

	rn_list_each(struct client, c, &clients.all, link) /* the newest comes first */
		if (c->state == CLIENT_NEW && !c->busy && (u == NULL || c->user == u))
			silent = c;
	return silent;
}

/*
 * Takes a place for another client of the user; false: there is none. To make room, drops a client that has not sent
 * HELLO and so has nothing but its socket: one of the same user, or of any user if all places are taken and this user
 * has not used up its share.
 */
static bool find_place(struct user *u)
{
	struct client *silent = NULL;

	if (clients.n < rnicd.cfg.clients && client_count_in(u))
		return true;
	silent = oldest_silent(u);
	if (silent == NULL && clients.n >= rnicd.cfg.clients)
		silent = oldest_silent(NULL);
	if (silent == NULL)
		return false;
	client_count_out(silent);
	if (!client_count_in(u)) { /* the user's own limit: the other user's client would be dropped in vain */
		silent->counted = client_count_in(silent->user);
		return false;
	}
	client_drop(silent, "others wait for its place and it has not sent HELLO");
	return true;
}

/* Refuses a client. A helper closes the socket, because descriptors that lie unread in it are closed with it, and that
 * may block. */
static void turn_away(int fd, uid_t uid, const char *why)
{
	struct fds_job *closing = fds_closing();

	client_totals.refused++;
	rnicd_log(RNICD_LOG_WARNING, "a client of uid %u is refused: %s, %u are connected", (unsigned)uid, why,
		  clients.n);
	if (closing != NULL)
		fds_close(closing, uid, fd);
	else
		close(fd);
}

/* Makes a client with a new id, process and user; it is in no list and has no socket yet. NULL: no memory. */
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
	c->spans.user = u;
	c->counted = true;
	c->proc = (struct client_proc){ .dir = -1 };
	if (cred->pid != 0)
		c->proc = client_proc_open(cred->pid, cred->uid, cred->gid);
	c->wake_fd = -1;
	c->closing = closing;
	c->src = (struct loop_fd){ .fd = -1, .ready = client_on_ready };
	return c;
}

struct client *client_host(struct user *u, uid_t uid)
{
	const struct ucred nobody = { .uid = uid };

	if (clients.n >= rnicd.cfg.clients || !client_count_in(u))
		return NULL;
	struct client *c = client_new(&nobody, user_hold(u));
	if (c == NULL || !client_host_join(c)) {
		if (c != NULL)
			free(c->closing);
		free(c);
		client_count_out(&(struct client){ .user = u, .counted = true });
		user_put(u);
		return NULL;
	}
	rn_list_push_front(&clients.all, &c->link);
	clients.n++;
	return c;
}

static struct loop_timer accept_again;

static void go_on_accepting(struct loop_timer *t)
{
	(void)t;
	loop_events(&listener, EPOLLIN);
}

/* rnicd has no descriptor for the next client: the client waits, and the loop does not poll the listening socket for
 * ACCEPT_PAUSE_NS. */
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
		turn_away(fd, u != NULL ? cred.uid : (uid_t)-1,
			  u != NULL ? "its user has as many clients or descriptors as a user may" : "no memory");
		if (u != NULL)
			user_put(u);
		return;
	}
	struct client *c = client_new(&cred, u);
	if (c == NULL || !loop_add(&c->src, fd, EPOLLIN)) {
		turn_away(fd, cred.uid, "no memory");
		struct client nobody = { .user = u, .counted = true };
		client_count_out(c != NULL ? c : &nobody);
		if (c != NULL) {
			client_imports_free(c);
			free(c->closing);
		}
		free(c);
		user_put(u);
		return;
	}
	rn_list_push_front(&clients.all, &c->link);
	clients.n++;
	client_totals.accepted++;
	news_add(NEWS_CLIENT, "client %u (pid %d, uid %u) is here", c->id, (int)c->pid, (unsigned)c->uid);
}

static void on_accept(struct loop_fd *f, uint32_t events)
{
	(void)events;
	int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		client_adopt(fd);
	else if (errno == EMFILE || errno == ENFILE)
		pause_accepting(); /* after any other error the next turn tries again, if a client still waits */
}

bool client_start(int listen_fd)
{
	listener.ready = on_accept;
	return fds_serve(client_on_fds) && (listen_fd < 0 || loop_add(&listener, listen_fd, EPOLLIN));
}

void client_stop(void)
{
	int fd = listener.fd;

	clients.stopping = true;
	loop_timer_disarm(&accept_again);
	if (fd >= 0) {
		loop_del(&listener);
		close(fd);
	}
	rn_list_each(struct client, c, &clients.all, link)
		client_die(c);
}
