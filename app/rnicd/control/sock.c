/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 128

static int lock_fd = -1;

static int fail(char *err, uint32_t len, const char *path, const char *what)
{
	snprintf(err, len, "socket %s: %s: %s", path, what, strerror(errno));
	return -1;
}

/* Makes the directory of the path if it is missing. False with a sentence in err: it cannot be made. */
static bool make_dir(const char *path, char *err, uint32_t len)
{
	char dir[256];
	const char *slash = strrchr(path, '/');

	if (slash == NULL || slash == path || (size_t)(slash - path) >= sizeof(dir))
		return true; /* bind() reports it */
	memcpy(dir, path, (size_t)(slash - path));
	dir[slash - path] = '\0';
	if (mkdir(dir, 0755) == 0 || errno == EEXIST)
		return true;
	snprintf(err, len, "the run directory %s of the socket cannot be made: %s", dir, strerror(errno));
	return false;
}

/*
 * A lock on a file beside the socket decides which daemon may have the socket's name. The lock ends with the daemon's
 * process, so of two daemons that start at the same time only one takes over a stale socket. Returns the descriptor of
 * the file; -1 with a sentence in err.
 */
static int take_lock(const char *path, char *err, uint32_t len)
{
	struct stat mine, there;
	char name[300];

	snprintf(name, sizeof(name), "%s.lock", path);
	for (;;) {
		int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return fail(err, len, name, "cannot be created");
		if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
			snprintf(err, len,
				 "another rnicd is running on socket %s: stop it, or give this one a socket of its own",
				 path);
			close(fd);
			return -1;
		}
		/* Another daemon, which was just ending, may have removed the file between open and lock. */
		if (fstat(fd, &mine) == 0 && stat(name, &there) == 0 && mine.st_ino == there.st_ino)
			return fd;
		close(fd);
	}
}

/* Removes a stale socket of this name. True: no file has the name any more. */
static bool clear_way(const char *path, char *err, uint32_t len)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return true;
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(err, len, "socket %s: a file of this name exists and is not a socket: move it away", path);
		return false;
	}
	if (unlink(path) != 0) {
		fail(err, len, path, "was left by a daemon that has ended, and cannot be removed");
		return false;
	}
	return true;
}

static void drop_lock(const char *path)
{
	char name[300];

	snprintf(name, sizeof(name), "%s.lock", path);
	unlink(name); /* removed while still locked */
	if (lock_fd >= 0)
		close(lock_fd);
	lock_fd = -1;
}

static int bind_and_listen(const char *path, uint32_t mode, char *err, uint32_t err_len)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	strcpy(un.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail(err, err_len, path, "cannot be made");
	mode_t old = umask(~mode & 0777);
	int rc = bind(fd, (struct sockaddr *)&un, sizeof(un));
	umask(old);
	if (rc != 0 || listen(fd, BACKLOG) != 0) {
		fail(err, err_len, path, "cannot be bound");
		close(fd);
		return -1;
	}
	return fd;
}

int sock_listen(const char *path, uint32_t mode, char *err, uint32_t err_len)
{
	int fd = -1;

	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
		snprintf(err, err_len, "socket %s: the path is too long", path);
		return -1;
	}
	if (!make_dir(path, err, err_len))
		return -1;
	lock_fd = take_lock(path, err, err_len);
	if (lock_fd < 0)
		return -1;
	if (clear_way(path, err, err_len))
		fd = bind_and_listen(path, mode, err, err_len);
	if (fd < 0)
		drop_lock(path);
	return fd;
}

void sock_unlink(const char *path)
{
	unlink(path);
	drop_lock(path);
}

void sock_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET"); /* sd_notify(3) */
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t n = path != NULL ? strlen(path) : 0;

	if (n < 2 || n >= sizeof(un.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(un.sun_path, path, n);
	if (path[0] == '@') /* abstract */
		un.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	ssize_t r = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&un,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	(void)r; /* a service manager that does not listen is ignored */
	close(fd);
}
