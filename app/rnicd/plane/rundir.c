/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "border/rnicd.h"

#define TELEMETRY "dpdk_telemetry" /* EAL's name for its socket begins so */

#define LONGEST 60u /* of 107 bytes; behind it come this process's name and the socket's */

static char own[RNICD_PATH_MAX];

/*
 * Whether a process serves the socket. A process number does not tell: another PID namespace may share the directory.
 */
static bool answers(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	bool yes = true;

	if (strlen(path) >= sizeof(un.sun_path))
		return true;
	strcpy(un.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return true;
	yes = connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0 || errno != ECONNREFUSED;
	close(fd);
	return yes;
}

static void clean_one(const char *path)
{
	char file[RNICD_PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(path);

	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, TELEMETRY, strlen(TELEMETRY)) != 0 ||
		    snprintf(file, sizeof(file), "%s/%s", path, e->d_name) >= (int)sizeof(file))
			continue;
		if (!answers(file))
			unlink(file);
	}
	closedir(d);
	rmdir(path); /* fails when another file is in it, or a socket is served */
}

static bool process_is_gone(const char *name)
{
	char *end;
	long pid;

	if (strncmp(name, RUNDIR_PREFIX, strlen(RUNDIR_PREFIX)) != 0)
		return false;
	pid = strtol(name + strlen(RUNDIR_PREFIX), &end, 10);
	return pid > 0 && pid <= INT32_MAX && *end == '\0' && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

void rundir_clean(const char *dir)
{
	char path[RNICD_PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(dir);

	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL) {
		if (process_is_gone(e->d_name) &&
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < (int)sizeof(path))
			clean_one(path);
	}
	closedir(d);
}

static void remove_own(void)
{
	if (own[0] != '\0')
		rmdir(own);
}

void rundir_remove_at_exit(void) { atexit(remove_own); }

/* As EAL chooses it (DPDK's Linux guide, "running without root"). */
static const char *parent_of_all(void)
{
	const char *dir = getenv("RUNTIME_DIRECTORY");

	if (dir != NULL)
		return dir;
	if (getuid() == 0)
		return "/var/run";
	dir = getenv("XDG_RUNTIME_DIR");
	return dir != NULL ? dir : "/tmp";
}

const char *rundir_fault(void)
{
	static char fault[2 * RNICD_PATH_MAX];
	const char *dir = parent_of_all();
	char path[RNICD_PATH_MAX];

	snprintf(path, sizeof(path), "%s/dpdk", dir);
	if (strlen(path) > LONGEST) {
		snprintf(fault, sizeof(fault),
			 "DPDK's run directory %s has a path too long for sockets in it (RUNTIME_DIRECTORY names "
			 "another place)",
			 path);
		return fault;
	}
	if (access(path, W_OK | X_OK) == 0 || (errno == ENOENT && access(dir, W_OK | X_OK) == 0))
		return NULL;
	snprintf(fault, sizeof(fault),
		 "DPDK cannot make its run directory in %s: %s (RUNTIME_DIRECTORY names another place)", path,
		 strerror(errno));
	return fault;
}

void rundir_is(const char *path)
{
	char parent[RNICD_PATH_MAX];

	snprintf(own, sizeof(own), "%s", path);
	snprintf(parent, sizeof(parent), "%s", path);
	char *slash = strrchr(parent, '/');
	if (slash == NULL || slash == parent)
		return;
	*slash = '\0';
	rundir_clean(parent);
}
