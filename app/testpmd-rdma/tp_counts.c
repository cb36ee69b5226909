/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_counts.h"
#include "tp_rnicctl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_MAX 16384 /* bytes; rnicctl's output for a port is a third of it, and a pipe holds it all */

void tp_counts_line(struct tp_counts *c, const char *line)
{
	char name[40], text[8];
	uint64_t v = 0;

	if (sscanf(line, "%39s %7s", name, text) != 2)
		return;
	if (strcmp(name, "crc") == 0)
		memcpy(c->crc, text, sizeof(c->crc));
	if (sscanf(line, "%*s %" SCNu64, &v) != 1)
		return;
	if (strcmp(name, "mtu") == 0)
		c->mtu = (uint32_t)v;
	else if (strcmp(name, "tx_again") == 0)
		c->again += v;
	else if (strcmp(name, "tx_drops") == 0 || strcmp(name, "no_buffer") == 0 || strcmp(name, "impair_lost") == 0)
		c->dropped += v;
}

void tp_counts_look(const char *device, struct tp_counts *c)
{
	char name[128], out[OUTPUT_MAX], *save = NULL;
	char *argv[] = { NULL, (char[]){ "ports" }, name, NULL };
	int fd[2];

	memset(c, 0, sizeof(*c));
	snprintf(name, sizeof(name), "%s", device);
	if (pipe2(fd, O_CLOEXEC) != 0)
		return;
	c->known = tp_rnicctl(argv, fd[1]) == 0;
	close(fd[1]);
	const ssize_t n = read(fd[0], out, sizeof(out) - 1);
	close(fd[0]);
	if (!c->known || n <= 0) {
		c->known = false;
		return;
	}
	out[n] = '\0';
	for (char *line = strtok_r(out, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
		tp_counts_line(c, line);
}
