/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * minirun - starts the ranks of a program that is built against minimpi, on this machine, and tells them of each other.
 * When a rank fails, the others are ended, and minirun's status is 1.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 64
#define CARD  (2 * 4 + RANKS * 4) /* bytes of a rank's card: struct card in mini_net.c */

static struct rank {
	pid_t pid;
	int fd;
	size_t got;
	int ended; /* has reported that it no longer needs the others */
} ranks[RANKS];

static unsigned char cards[RANKS][CARD];
static int size, hold;

static void end_all(void)
{
	for (int i = 0; i < size; i++)
		if (ranks[i].pid > 0)
			kill(ranks[i].pid, SIGKILL);
}

static void die(const char *what)
{
	fprintf(stderr, "minirun: %s%s%s\n", what, errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
	end_all();
	exit(1);
}

static void number(const char *name, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	setenv(name, text, 1);
}

static void start(int i, char **argv)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
		die("making a socket");
	fflush(NULL);
	ranks[i].fd = fds[0];
	ranks[i].pid = fork();
	if (ranks[i].pid < 0)
		die("starting a rank");
	if (ranks[i].pid == 0) {
		const int fd = dup(fds[1]); /* without close-on-exec */

		number("MINIMPI_RANK", i);
		number("MINIMPI_FD", fd);
		execvp(argv[0], argv);
		fprintf(stderr, "minirun: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	close(fds[1]);
}

static void tell_all(const void *what, size_t len)
{
	for (int i = 0; i < size; i++)
		if (send(ranks[i].fd, what, len, MSG_NOSIGNAL) != (ssize_t)len)
			die("telling a rank of the others");
}

/*
 * Reads from a rank: first its card, then a byte when it ends. *which: 0 card, 1 end. Returns whether that has come in
 * full.
 */
static int hear(struct rank *r, int i, int *which)
{
	char end;
	ssize_t n;

	*which = r->got == CARD;
	n = *which ? read(r->fd, &end, 1) : read(r->fd, cards[i] + r->got, CARD - r->got);
	errno = 0;
	if (n <= 0)
		die("a rank has failed; the others are ended");
	if (*which) {
		r->ended = 1;
		return 1;
	}
	r->got += (size_t)n;
	return r->got == CARD;
}

static void serve(void)
{
	int count[2] = { 0, 0 }, which;
	struct pollfd p[RANKS];

	while (count[1] < size) {
		for (int i = 0; i < size; i++)
			p[i] = (struct pollfd){ ranks[i].ended ? -1 : ranks[i].fd, POLLIN, 0 };
		if (poll(p, (nfds_t)size, -1) < 0)
			die("waiting for the ranks");
		for (int i = 0; i < size; i++) {
			if (p[i].revents == 0)
				continue;
			const int came = hear(&ranks[i], i, &which);
			count[which] += came;
			if (which == 0 && came && count[0] == size)
				tell_all(cards, (size_t)size * CARD);
		}
	}
	if (hold) { /* all ranks have ended their work, and still have their connections */
		puts("minirun: held");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	tell_all("e", 1);
}

static int usage(int status)
{
	fputs("usage: minirun -n RANKS [-c rc|ud|hybrid|rd] [-a ADDRESS[,ADDRESS]] [-x MAX-RC] [-k] PROGRAM "
	      "[ARGUMENT...]\n"
	      "  -n RANKS    1 to 64\n"
	      "  -c CHANNEL  how bytes travel (default hybrid)\n"
	      "  -a LIST     addresses of RDMA devices, which the ranks use in turn (default 10.77.0.1,10.77.0.2)\n"
	      "  -x MAX-RC   connections that a rank has at most with hybrid (default 4)\n"
	      "  -k          keep the ranks at their end, print \"held\", and release them when standard input ends\n",
	      status == 0 ? stdout : stderr);
	return status;
}

int main(int argc, char **argv)
{
	const char *channel = "hybrid", *addresses = "10.77.0.1,10.77.0.2";
	int c, max_rc = 4, status, failed = 0;

	while ((c = getopt(argc, argv, "+hkn:c:a:x:")) != -1) {
		if (c == 'n')
			size = atoi(optarg);
		else if (c == 'c')
			channel = optarg;
		else if (c == 'a')
			addresses = optarg;
		else if (c == 'x')
			max_rc = atoi(optarg);
		else if (c == 'k')
			hold = 1;
		else
			return usage(c == 'h' ? 0 : 2);
	}
	if (size < 1 || size > RANKS || optind == argc)
		return usage(2);
	setenv("MINIMPI_CHANNEL", channel, 1);
	setenv("MINIMPI_ADDRESSES", addresses, 1);
	number("MINIMPI_SIZE", size);
	number("MINIMPI_MAX_RC", max_rc);
	number("MINIMPI_JOB", (long)getpid());
	for (int i = 0; i < size; i++)
		start(i, argv + optind);
	serve();
	for (int i = 0; i < size; i++)
		if (waitpid(ranks[i].pid, &status, 0) != ranks[i].pid || status != 0)
			failed = 1;
	return failed;
}
