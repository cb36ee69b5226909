/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_loss.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Beside this program, as it is installed or built; else as PATH has it. */
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

enum tp_verdict tp_loss_set(const char *port, uint32_t ppm, struct tp_err *err)
{
	char path[2 * PATH_MAX], name[128], value[40];
	char *argv[] = { path, (char[]){ "set" }, (char[]){ "port" }, name, value, NULL };
	posix_spawn_file_actions_t quiet;
	int status = 0, rc;
	pid_t pid;

	find_rnicctl(path, sizeof(path));
	snprintf(name, sizeof(name), "%s", port);
	snprintf(value, sizeof(value), "loss=%g%%", ppm / 1e4);
	posix_spawn_file_actions_init(&quiet); /* the results alone go to stdout */
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	rc = posix_spawnp(&pid, path, &quiet, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&quiet);
	if (rc != 0)
		return tp_fail(err, TP_BAD_OPTION, "--loss needs rnicctl, and starting it failed: %s", strerror(rc));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return TP_OK;
	return tp_fail(
		err, TP_BAD_OPTION,
		"rnicctl could not set the loss of port %s: --loss is for devices of rnicd, and needs its user or "
		"root",
		port);
}
