/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A malicious client of rnicd.
 *
 * usage: hostile MODE [ADDRESS PORT STAG TO]
 * ADDRESS PORT: where a well-behaved program accepts connections; STAG TO: a region of 64 KiB there that may be
 * written. $RNICD_SOCKET names the daemon. Exit status 0: the daemon kept to its rules.
 */
#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODE(m) \
	{ \
#m, mode_##m \
	}
static const struct {
	const char *name;
	int (*run)(const struct where *);
} modes[] = {
	MODE(wqe),     MODE(rings),           MODE(overrun), MODE(die),      MODE(steal),
	MODE(holes),   MODE(huge_holes),      MODE(eventfd), MODE(messages), MODE(fds),
	MODE(deaf),    MODE(sockets),         MODE(objects), MODE(quota),    MODE(never_accepts),
	MODE(imports), MODE(imports_as_user),
};

int main(int argc, char **argv)
{
	struct where w = { .address = "10.77.0.1", .port = 7100 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 6) {
		w.address = argv[2];
		w.port = (uint16_t)strtoul(argv[3], NULL, 0);
		w.stag = (uint32_t)strtoul(argv[4], NULL, 0);
		w.to = strtoull(argv[5], NULL, 0);
	}
	for (size_t i = 0; argc >= 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) == 0) {
			int bad = modes[i].run(&w);
			printf("done %s\n", modes[i].name);
			return bad != 0;
		}
	}
	fprintf(stderr, "usage: hostile MODE [ADDRESS PORT STAG TO]\nmodes:");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		fprintf(stderr, " %s", modes[i].name);
	fprintf(stderr, "\n");
	return 2;
}
