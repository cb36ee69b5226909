/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_rnicctl.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void find_rnicctl(char *path, size_t len)
{
	static const char *const beside[] = { "rnicctl", "../rnicctl/rnicctl" };
	char self[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	const char *folder = dirname(self);
	for (unsigned i = 0; n > 0 && i < sizeof(beside) / sizeof(beside[0]); i++) {
		struct stat st;

		snprintf(path, len, "%s/%s", folder, beside[i]);
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
			return;
	}
	snprintf(path, len, "rnicctl");
}

int tp_rnicctl(char *argv[], int out)
{
	char path[2 * PATH_MAX];
	posix_spawn_file_actions_t files;
	int status = 0, rc;
	pid_t pid;

	find_rnicctl(path, sizeof(path));
	argv[0] = path;
	posix_spawn_file_actions_init(&files); /* only results go to stdout */
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	else
		posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	rc = posix_spawnp(&pid, path, &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (rc != 0)
		return -rc;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
