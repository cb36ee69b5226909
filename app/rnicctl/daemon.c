/* SPDX-License-Identifier: BSD-3-Clause */
#include "daemon.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "dpdk_telemetry.v2"
#define ANSWER_MAX  (1u << 20) /* bytes; DPDK sends 16 KiB at most */
#define PATIENCE_S  15         /* seconds without an answer after which the daemon is considered lost */
#define QUEUE_S     1          /* seconds after which a daemon that accepts no connection is considered lost */
#define PATH_BYTES  512

struct daemon {
	int fd;
	long pid;
	bool lost;
	char path[PATH_BYTES];
	char answer[ANSWER_MAX];
};

/* Returns -1 and errno if no process listens at `path`, or if the daemon hangs and its queue of connections is full. */
static int connect_to(const char *path)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S }, in_queue = { .tv_sec = QUEUE_S };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(sa.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &in_queue, sizeof(in_queue)) != 0 ||
	    connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
		int e = errno;
		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

/* Replaces control characters, which could change what a terminal shows, in all strings of an answer by `?`. */
static void make_printable(json_t *v)
{
	const char *key;
	json_t *one;
	size_t i;

	json_array_foreach(v, i, one)
		make_printable(one);
	json_object_foreach(v, key, one)
		make_printable(one);
	if (!json_is_string(v))
		return;
	char *text = strdup(json_string_value(v));
	for (char *c = text; c != NULL && *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	if (text != NULL && strcmp(text, json_string_value(v)) != 0)
		json_string_set(v, text);
	free(text);
}

static json_t *receive(struct daemon *d)
{
	ssize_t n = recv(d->fd, d->answer, sizeof(d->answer), 0);
	json_t *answer = n > 0 ? json_loadb(d->answer, (size_t)n, 0, NULL) : NULL;

	d->lost = answer == NULL;
	make_printable(answer);
	return answer;
}

/* A search for the daemon with process number `pid`, or for any daemon (pid 0): the first one found, and how many. */
struct search {
	long pid;
	struct daemon *found;
	unsigned count;
	bool denied;
};

/* The process that listens at the other end; pid 0: not known. */
static struct ucred peer_of(int fd)
{
	struct ucred who = { .pid = 0, .uid = (uid_t)-1 };
	socklen_t len = sizeof(who);

	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
	return who;
}

/*
 * Whether a process that a search has found may be the daemon. Anyone can make a folder in /tmp/dpdk, so a process that
 * is not the wanted one (pid 0: none is wanted) must be root's or of the same user as this one.
 */
static bool trusted(int fd, long pid)
{
	const struct ucred who = peer_of(fd);

	return pid != 0 ? who.pid == pid : who.uid == 0 || who.uid == geteuid();
}

/*
 * Returns NULL and errno if no process listens at this path, if the socket is no telemetry socket, or, in a search, if
 * the process that listens is not trusted(). That process may hang, so its greeting is not waited for.
 */
static struct daemon *attach(const char *path, const struct search *s)
{
	struct daemon *d = malloc(sizeof(*d));
	json_t *greeting;

	if (d == NULL)
		return NULL;
	d->lost = false;
	snprintf(d->path, sizeof(d->path), "%s", path);
	d->fd = connect_to(path);
	if (d->fd < 0) {
		free(d);
		return NULL;
	}
	if (s != NULL && !trusted(d->fd, s->pid)) {
		daemon_close(d);
		errno = ESRCH;
		return NULL;
	}
	greeting = receive(d);
	d->pid = (long)json_integer_value(json_object_get(greeting, "pid"));
	json_decref(greeting);
	if (d->pid == 0) {
		daemon_close(d);
		errno = EPROTO;
		return NULL;
	}
	return d;
}

/* The number of the process that listens at a unix socket; 0: no process listens. */
static long listener_pid(const char *path)
{
	int fd = connect_to(path);

	if (fd < 0)
		return 0;
	long pid = peer_of(fd).pid;
	close(fd);
	return pid;
}

static void look_at(struct search *s, const char *path)
{
	struct daemon *d = attach(path, s);
	json_t *ports;

	if (d == NULL) {
		s->denied |= errno == EACCES;
		return;
	}
	if (s->found != NULL && s->found->pid == d->pid) { /* two of the folders are the same */
		daemon_close(d);
		return;
	}
	ports = daemon_ask(d, "/rnic/ports", NULL);
	if (ports == NULL || s->found != NULL) { /* another DPDK program, or the second rnicd */
		s->count += ports != NULL;
		daemon_close(d);
	} else {
		s->count++;
		s->found = d;
	}
	json_decref(ports);
}

/* Every DPDK process of a user has a folder in `dir`. */
static void look_in(struct search *s, const char *dir)
{
	char path[PATH_BYTES];
	struct dirent *e;
	DIR *folder = opendir(dir);

	if (folder == NULL) {
		s->denied |= errno == EACCES;
		return;
	}
	while ((e = readdir(folder)) != NULL)
		if (e->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%s/%s/" SOCKET_NAME, dir, e->d_name) < (int)sizeof(path))
			look_at(s, path);
	closedir(folder);
}

/*
 * The folder of the wanted rnicd is named after its process number. Other daemons are not asked: one of them may hang.
 * All folders are searched only if no folder has this name: the configuration may set another name (file-prefix), and
 * inside its own container a process has another number.
 */
static bool look_by_name(struct search *s, const char *dir)
{
	char path[PATH_BYTES];

	if (s->pid != 0 && snprintf(path, sizeof(path), "%s/rnicd%ld/" SOCKET_NAME, dir, s->pid) < (int)sizeof(path))
		look_at(s, path);
	return s->found != NULL;
}

/*
 * Searches the folders in which EAL may make its own: /var/run/dpdk (root), the runtime directory (systemd), the folder
 * of the control socket, $XDG_RUNTIME_DIR and /tmp (ordinary users).
 */
static void look_everywhere(struct search *s, const char *control)
{
	const char *slash = strrchr(control, '/');
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char beside[PATH_BYTES] = "", own[PATH_BYTES] = "";
	const char *const dirs[] = { "/var/run/dpdk", "/run/rnicd/dpdk", beside, own, "/tmp/dpdk" };
	const unsigned count = sizeof(dirs) / sizeof(dirs[0]);

	if (slash != NULL)
		snprintf(beside, sizeof(beside), "%.*s/dpdk", (int)(slash - control), control);
	if (runtime != NULL)
		snprintf(own, sizeof(own), "%s/dpdk", runtime);
	for (unsigned i = 0; i < count; i++)
		if (dirs[i][0] != '\0' && look_by_name(s, dirs[i]))
			return;
	for (unsigned i = 0; i < count; i++)
		if (dirs[i][0] != '\0')
			look_in(s, dirs[i]);
}

static struct daemon *open_named(const char *path)
{
	struct daemon *d = attach(path, NULL);

	if (d == NULL)
		fprintf(stderr, "rnicctl: no rnicd answers at the telemetry socket %s: %s\n", path, strerror(errno));
	return d;
}

struct daemon *daemon_open(const char *telemetry, const char *control, bool any)
{
	struct search s = { .pid = 0 };

	if (telemetry != NULL)
		return open_named(telemetry);
	s.pid = listener_pid(control);
	if (s.pid != 0 || any)
		look_everywhere(&s, control);
	if (s.found != NULL && s.count == 1)
		return s.found;
	if (s.found != NULL)
		daemon_close(s.found);
	if (s.count > 1)
		fprintf(stderr, "rnicctl: %u daemons run here: name one by its control socket (--socket PATH)\n",
			s.count);
	else if (s.denied)
		fputs("rnicctl: the telemetry socket may not be read: run rnicctl as the user that rnicd runs as\n",
		      stderr);
	else if (s.pid != 0)
		fprintf(stderr, "rnicctl: rnicd (process %ld) has no telemetry socket: its start-up messages say why\n",
			s.pid);
	else
		fprintf(stderr, "rnicctl: no rnicd answers at %s: start it, or name its socket with --socket PATH\n",
			control);
	return NULL;
}

void daemon_close(struct daemon *d)
{
	close(d->fd);
	free(d);
}

long daemon_pid(const struct daemon *d) { return d->pid; }
const char *daemon_path(const struct daemon *d) { return d->path; }
bool daemon_lost(const struct daemon *d) { return d->lost; }

int daemon_gone(const struct daemon *d)
{
	fprintf(stderr, "rnicctl: rnicd (process %ld) does not answer any more\n", d->pid);
	return 1;
}

json_t *daemon_ask(struct daemon *d, const char *command, const char *parameter)
{
	char line[PATH_BYTES];
	int n = snprintf(line, sizeof(line), "%s%s%s", command, parameter != NULL ? "," : "",
			 parameter != NULL ? parameter : "");
	json_t *answer, *value;

	if (d->lost || n >= (int)sizeof(line))
		return NULL;
	if (send(d->fd, line, (size_t)n, MSG_NOSIGNAL) != n) {
		d->lost = true;
		return NULL;
	}
	answer = receive(d);
	value = json_object_get(answer, command);
	if (json_is_null(value))
		value = NULL;
	json_incref(value);
	json_decref(answer);
	return value;
}
