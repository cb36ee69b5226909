/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicrun: runs a program that is linked with libibverbs and librdmacm over rnicd, by preloading librnic.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "companion.h"
#include "doctor.h"
#include "library.h"
#include "program.h"

#define DEFAULT_SOCKET "/run/rnicd/rnicd.sock"

static void help(void)
{
	puts("NAME\n"
	     "  rnicrun - run an RDMA program over the software RNIC\n\n"
	     "SYNOPSIS\n"
	     "  rnicrun [--socket PATH] [--huge] PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun --embedded PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun [--socket PATH | --with-daemon] --design WHERE PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun --with-daemon [--huge] PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun [--socket PATH | --with-daemon] --sockets PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun [--socket PATH] --doctor [PROGRAM]\n\n"
	     "DESCRIPTION\n"
	     "  The program needs no change and no other linking: librnic takes the place of libibverbs and librdmacm by\n"
	     "  LD_PRELOAD. The devices it sees are the ports of the rnicd behind the socket.\n\n"
	     "OPTIONS\n"
	     "  -s, --socket PATH  control socket of rnicd (default $RNICD_SOCKET, else " DEFAULT_SOCKET ")\n"
	     "      --huge         take big allocations (malloc and its family, from 128 KiB on) from hugepages that are\n"
	     "                     shared from the first: registering them moves nothing; without hugepages it says so once\n"
	     "      --embedded     use no rnicd: the devices are the host's own addresses (rnic-eth0, rnic-lo),\n"
	     "                     and the kernel's TCP carries iWARP. Needs no privilege and no set-up.\n"
	     "                     RNIC_EMBEDDED=auto in the environment does the same where no rnicd runs\n"
	     "      --design WHERE iWARP runs: offloaded: in rnicd (default); host: in the program, over rnicd's TCP,\n"
	     "                     with the same devices and wire; assisted: as host, but rnicd sums the CRCs;\n"
	     "                     embedded: as --embedded\n"
	     "      --with-daemon  start a private rnicd with two wired ports, 10.77.0.1 and 10.77.0.2, for the time that PROGRAM\n"
	     "                     runs: one command for tests. Processes that PROGRAM starts use the same rnicd\n"
	     "      --sockets      run a TCP program: its sockets that are bound to the address of one of rnicd's ports,\n"
	     "                     or connect to an address in a port's subnet, go through rnicd; all others through\n"
	     "                     the kernel. The peer may be anyone\n"
	     "      --inject SPEC  have calls and completions of PROGRAM fail, to test what it does then:\n"
	     "                     WHAT:N=RESULT, several with commas: reg_mr:2=ENOMEM,wc.write:10=RETRY_EXC_ERR.\n"
	     "                     Each failure is told in a line on stderr. See doc/testing.md\n"
	     "      --doctor       check the set-up: library, daemon, devices, memory, the program; say what to do\n"
	     "  -V, --version\n"
	     "  -h, --help\n\n"
	     "EXIT STATUS\n"
	     "  The program's; 127 when it cannot be started, 1 when the doctor found something, 2 for wrong options.");
}

/* Seen from the folder of this program: in a build, in an installation. */
static const char *const librnic[] = { "../../lib/rnic/librnic.so.0", "../" RNICRUN_LIBDIR "/librnic.so.0", NULL };
static const char *const librnicsock[] = { "../../lib/rnic/sock/librnicsock.so.0",
					   "../" RNICRUN_LIBDIR "/librnicsock.so.0", NULL };
static const char *const librnic_huge[] = { "librnic_huge.so.0", "../" RNICRUN_LIBDIR "/librnic_huge.so.0", NULL };

/* In front of what the user preloads already. */
static int preload(const char *lib)
{
	const char *old = getenv("LD_PRELOAD");
	char *both;

	if (old == NULL || *old == '\0')
		return setenv("LD_PRELOAD", lib, 1);
	if (asprintf(&both, "%s:%s", lib, old) < 0)
		return -1;
	int rc = setenv("LD_PRELOAD", both, 1);
	free(both);
	return rc;
}

static int is_design(const char *name)
{
	static const char *const names[] = { "offloaded", "assisted", "host", "embedded" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return 1;
	fprintf(stderr, "rnicrun: --design is offloaded, assisted, host or embedded, not %s: see rnicrun --help\n",
		name);
	return 0;
}

/* The program takes the place of this one, unless it has a daemon of its own. */
static int run(char **program, int companion)
{
	const char *obstacle = program_obstacle(program[0]);

	if (obstacle != NULL)
		fprintf(stderr, "rnicrun: %s: %s\n", program[0], obstacle);
	if (companion)
		return companion_run(program);
	execvp(program[0], program);
	fprintf(stderr, "rnicrun: %s: %s\n", program[0], strerror(errno));
	return 127;
}

/* NULL leaves the variable as it is. */
static int tell(const char *variable, const char *value) { return value != NULL ? setenv(variable, value, 1) : 0; }

int main(int argc, char **argv)
{
	static const struct option options[] = { { "socket", required_argument, NULL, 's' },
						 { "huge", no_argument, NULL, 'u' },
						 { "embedded", no_argument, NULL, 'e' },
						 { "design", required_argument, NULL, 'D' },
						 { "with-daemon", no_argument, NULL, 'w' },
						 { "sockets", no_argument, NULL, 'S' },
						 { "doctor", no_argument, NULL, 'd' },
						 { "inject", required_argument, NULL, 'i' },
						 { "version", no_argument, NULL, 'V' },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	const char *sock = getenv("RNICD_SOCKET"), *design = NULL, *inject = NULL;
	int check = 0, huge = 0, sockets = 0, companion = 0, embedded = 0, given = 0, o;

	while ((o = getopt_long(argc, argv, "+s:Vh", options, NULL)) != -1) {
		switch (o) {
		case 's':
			sock = optarg;
			given = 1;
			break;
		case 'u': huge = 1; break;
		case 'S': sockets = 1; break;
		case 'e': embedded = 1; break;
		case 'D': design = optarg; break;
		case 'w': companion = 1; break;
		case 'd': check = 1; break;
		case 'i': inject = optarg; break;
		case 'V': puts("rnicrun " RNICRUN_VERSION); return 0;
		case 'h': help(); return 0;
		default: fputs("rnicrun: see rnicrun --help\n", stderr); return 2;
		}
	}
	if (sockets && check) {
		fputs("rnicrun: --doctor checks RDMA programs: leave --sockets out, see rnicrun --help\n", stderr);
		return 2;
	}
	if (companion && (check || given)) {
		fputs("rnicrun: --with-daemon goes with neither --doctor nor --socket: see rnicrun --help\n", stderr);
		return 2;
	}
	if (embedded && (check || given || companion || sockets)) {
		fputs("rnicrun: --embedded has no daemon: leave out --doctor, --socket, --with-daemon and --sockets\n",
		      stderr);
		return 2;
	}
	if (inject != NULL && (check || sockets)) {
		fputs("rnicrun: --inject fails calls of an RDMA program: leave out --doctor and --sockets\n", stderr);
		return 2;
	}
	if (design != NULL && !is_design(design))
		return 2;
	if (design != NULL && (check || sockets || embedded)) {
		fputs("rnicrun: --design is of an RDMA program: leave out --doctor, --sockets and --embedded\n",
		      stderr);
		return 2;
	}
	if (sock == NULL || *sock == '\0')
		sock = DEFAULT_SOCKET;
	if (!check && optind == argc) {
		fputs("rnicrun: which program? See rnicrun --help\n", stderr);
		return 2;
	}
	const char *lib = sockets ? library_find("librnicsock", librnicsock, RNICRUN_SOCK_INSTALLED)
				  : library_find("librnic", librnic, RNICRUN_INSTALLED);
	const char *lib_huge = huge ? library_find("librnic_huge", librnic_huge, RNICRUN_HUGE_INSTALLED) : NULL;
	if (lib == NULL || (huge && lib_huge == NULL))
		return 127;
	if (tell("RNICD_SOCKET", sock) != 0 || tell("RNIC_EMBEDDED", embedded ? "yes" : NULL) != 0 ||
	    tell("RNIC_DESIGN", design) != 0 || tell("RNIC_INJECT", inject) != 0 || (huge && preload(lib_huge) != 0) ||
	    (!check && preload(lib) != 0)) {
		perror("rnicrun");
		return 127;
	}
	if (check)
		return doctor(lib, sock, argv[optind]);
	return run(argv + optind, companion);
}
