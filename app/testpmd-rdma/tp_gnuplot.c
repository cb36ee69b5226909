/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts gnuplot with `in` as its input, which is closed here; -1: none. Returns gnuplot's exit status, or -errno. */
static int run_gnuplot(char *option, int in)
{
	char *argv[] = { (char[]){ "gnuplot" }, option, NULL };
	posix_spawn_file_actions_t files;
	int status = 0;
	pid_t pid;

	posix_spawn_file_actions_init(&files);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	const int rc = posix_spawnp(&pid, argv[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (in >= 0)
		close(in);
	if (rc != 0)
		return -rc;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

enum tp_verdict tp_plot_ready(struct tp_err *err)
{
	const int rc = run_gnuplot((char[]){ "--version" }, -1);

	if (rc == 0)
		return TP_OK;
	return tp_fail(
		err, TP_BAD_OPTION,
		"--plot needs the program gnuplot, and %s: install it (apt-get install gnuplot-nox), or leave --plot "
		"out",
		rc < 0 ? strerror(-rc) : "the installed one fails");
}

enum tp_verdict tp_plot_draw(const char *path, const struct tp_about *about, const struct tp_result *list, unsigned n,
			     struct tp_err *err)
{
	FILE *script = tmpfile();
	int rc = -errno;

	if (script != NULL) {
		tp_plot_script(script, path, about, list, n);
		rewind(script);
		fflush(script);
		rc = run_gnuplot(NULL, dup(fileno(script)));
		fclose(script);
	}
	return rc == 0 ? TP_OK
		       : tp_fail(err, TP_BAD_OPTION, "gnuplot could not draw %s: see its output, or name another file",
				 path);
}
