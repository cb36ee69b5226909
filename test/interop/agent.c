/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent in the guest: each TCP connection to PORT brings one line, a shell command. The command's output goes back,
 * then "[exit N]". When the host closes its end, the command's input ends; 3 s later the command and everything that it
 * has started are killed.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve(int s)
{
	char line[4096];
	size_t n = 0;
	int in[2], status = 0;

	while (n + 1 < sizeof(line) && read(s, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	if (pipe(in) != 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		dup2(in[0], 0);
		dup2(s, 1);
		dup2(s, 2);
		close(in[0]);
		close(in[1]);
		close(s);
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	for (int left = -1; waitpid(pid, &status, WNOHANG) == 0;) {
		struct pollfd p = { .fd = s, .events = POLLRDHUP };
		if (left < 0 && poll(&p, 1, 20) > 0) {
			close(in[1]);
			left = 150;
		} else if (left >= 0) {
			usleep(20000);
			if (left-- == 0)
				kill(-pid, SIGKILL);
		}
	}
	dprintf(s, "\n[exit %d]\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

int main(int argc, char **argv)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argc > 1 ? argv[1] : "9")) };
	int one = 1, l = socket(AF_INET, SOCK_STREAM, 0);

	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(l, (struct sockaddr *)&sa, sizeof(sa)) != 0 || listen(l, 16) != 0)
		return 1;
	printf("agent ready\n");
	fflush(stdout);
	for (;;) {
		int s = accept(l, NULL, NULL);
		if (s < 0)
			continue;
		if (fork() == 0) {
			close(l);
			signal(SIGCHLD, SIG_DFL);
			serve(s);
			_exit(0);
		}
		close(s);
	}
}
