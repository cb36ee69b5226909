/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads lines for the prompt, and notices signals meanwhile. Its handler writes to an eventfd, which stays readable
 * until it is read; so a signal that comes before the wait for a line ends that wait as well. One thread.
 */
#ifndef TP_INPUT_H
#define TP_INPUT_H

#include <stdbool.h>
#include <stddef.h>

enum tp_in { TP_IN_LINE, TP_IN_SIGNAL, TP_IN_END };

struct tp_input {
	int fd;     /* where lines come from */
	int signal; /* an eventfd; -1: none */
	size_t n;   /* bytes of buf in use */
	bool ended;
	char buf[1024];
};

/*
 * The next line, without its newline, in line[1024]. A longer line comes in parts, and the last line needs no newline.
 * A signal is reported before a line, and is taken.
 */
enum tp_in tp_input_line(struct tp_input *in, char *line);

/* Waits until `done`, an eventfd, has been written to: false; or a signal has come, which is taken: true. */
bool tp_input_signal(struct tp_input *in, int done);

#endif
