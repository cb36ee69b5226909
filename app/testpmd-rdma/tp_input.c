/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_input.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Waits for a signal, which is taken: true; or for fd. */
static bool wait_for(struct tp_input *in, int fd)
{
	struct pollfd p[2] = { { in->signal, POLLIN, 0 }, { fd, POLLIN, 0 } };
	uint64_t times;

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	return (p[0].revents & POLLIN) != 0 && read(in->signal, &times, sizeof(times)) == sizeof(times);
}

/* The line that ends behind len bytes, and `skip` more that are not its own. */
static enum tp_in take(struct tp_input *in, char *line, size_t len, size_t skip)
{
	memcpy(line, in->buf, len);
	line[len] = '\0';
	in->n -= len + skip;
	memmove(in->buf, in->buf + len + skip, in->n);
	return TP_IN_LINE;
}

enum tp_in tp_input_line(struct tp_input *in, char *line)
{
	for (;;) {
		const char *end = memchr(in->buf, '\n', in->n);
		if (end != NULL)
			return take(in, line, (size_t)(end - in->buf), 1);
		if (in->n == sizeof(in->buf) - 1 || (in->ended && in->n > 0))
			return take(in, line, in->n, 0);
		if (in->ended)
			return TP_IN_END;
		if (wait_for(in, in->fd))
			return TP_IN_SIGNAL;
		ssize_t n = read(in->fd, in->buf + in->n, sizeof(in->buf) - 1 - in->n);
		if (n > 0)
			in->n += (size_t)n;
		else
			in->ended = n == 0 || (errno != EINTR && errno != EAGAIN);
	}
}

bool tp_input_signal(struct tp_input *in, int done) { return wait_for(in, done); }
