/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicrun: runs a program that is linked with libibverbs and librdmacm over rnicd, by preloading librnic.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "companion.h"
#include "doctor.h"
#include "ipc/ipc_stream.h"
#include "library.h"
#include "program.h"
#include "ss.h"
#include "version/version.h"

#define DEFAULT_SOCKET "/run/rnicd/rnicd.sock"

static void help(void)
{
	puts("NAME\n"
	     "  rnicrun - run an RDMA program over the software RNIC\n"
	     "\n"
	     "SYNOPSIS\n"
	     "  rnicrun [--socket PATH] [--huge] PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun --embedded PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun [--socket PATH | --with-daemon] --design WHERE PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun --with-daemon [--huge] PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun [--socket PATH | --with-daemon | --embedded] --sockets PROGRAM [ARGUMENT ...]\n"
	     "  rnicrun [--socket PATH] --ss [PID ...]\n"
	     "  rnicrun [--socket PATH] --doctor [PROGRAM]\n"
	     "\n"
	     "DESCRIPTION\n"
	     "  rnicrun runs PROGRAM unmodified, with librnic in the place of libibverbs and librdmacm\n"
	     "  (LD_PRELOAD). The devices of PROGRAM are the ports of the rnicd that owns the control socket.\n"
	     "\n"
	     "OPTIONS\n"
	     "  -s, --socket PATH  control socket of rnicd (default $RNICD_SOCKET, else " DEFAULT_SOCKET ")\n"
	     "      --huge         allocate blocks of 128 KiB and more (malloc and its family) from shared\n"
	     "                     hugepages, so that the registration of these blocks replaces no pages\n"
	     "      --embedded     run iWARP in PROGRAM over the kernel's TCP, without rnicd. The devices are\n"
	     "                     the host's own addresses (rnic-eth0, rnic-lo). No privilege and no set-up is\n"
	     "                     needed. RNIC_EMBEDDED=auto in the environment does the same if no rnicd runs\n"
	     "      --design WHERE place where iWARP runs: offloaded: in rnicd (default); host: in PROGRAM, over\n"
	     "                     rnicd's TCP, with the same devices and wire; assisted: as host, but rnicd\n"
	     "                     computes the CRCs; embedded: as --embedded\n"
	     "      --with-daemon  start a private rnicd with two wired ports, 10.77.0.1 and 10.77.0.2, while\n"
	     "                     PROGRAM runs: one command for tests. Processes that PROGRAM starts use the\n"
	     "                     same rnicd\n"
	     "      --sockets      run a TCP or UDP program. A socket that is bound to the address of one of\n"
	     "                     rnicd's ports, or connects or sends to an address in a port's subnet, goes\n"
	     "                     through rnicd; all other sockets go through the kernel. The peer may be any\n"
	     "                     TCP or UDP program. With --design host or assisted PROGRAM may switch a\n"
	     "                     connection to iWARP (rnic/esock.h). With RNIC_WIRE=iwarp in the environment,\n"
	     "                     UDP sockets send and TCP sockets connect by iWARP to peers that accept iWARP\n"
	     "                     (doc/datagram-sockets.md, doc/stream-sockets.md). With --embedded all sockets\n"
	     "                     are the kernel's, and those of wire iwarp run iWARP over the kernel's TCP and\n"
	     "                     UDP; both ends of a TCP connection need rnicrun --embedded --sockets and\n"
	     "                     RNIC_WIRE=iwarp, and UDP goes plain to peers that do not accept iWARP\n"
	     "      --ss           list the TCP and UDP sockets of rnicd, as ss -tuanp lists the kernel's\n"
	     "                     sockets; with PID, list only the sockets that one of these processes has\n"
	     "                     open. Columns:\n"
	     "                     Recv-Q  received bytes that the program has not read;\n"
	     "                             of a listener: connections that wait for accept\n"
	     "                     Send-Q  sent bytes that the peer has not acknowledged;\n"
	     "                             of a listener: its backlog\n"
	     "                     Wire    plain or iwarp; for UDP the wire of the last datagram, - if there was none\n"
	     "                     Users see their own sockets; root and rnicd's own user see all sockets.\n"
	     "                     Sockets that are only bound are not listed. ss itself lists the kernel's\n"
	     "                     sockets of --embedded programs, and its part of sockets at all addresses\n"
	     "      --inject SPEC  make calls and completions of PROGRAM fail, to test how PROGRAM handles\n"
	     "                     failures. SPEC is WHAT:N=RESULT, several with commas, or none:\n"
	     "                     reg_mr:2=ENOMEM,wc.write:10=RETRY_EXC_ERR,connect:1=REJECTED,async:100=PORT_ERR.\n"
	     "                     With either, rnicctl inject can set other failures while PROGRAM runs. Each\n"
	     "                     failure prints a line on stderr. See doc/testing.md\n"
	     "      --sanitize[=ib][,SEED]\n"
	     "                     report on stderr errors of PROGRAM that another device may not tolerate, such\n"
	     "                     as a buffer that is changed while it is sent; with =ib, also report what only\n"
	     "                     InfiniBand forbids. With SEED, a number, completions come late and in\n"
	     "                     batches, and bytes of a peer's Writes become visible in any order, as the\n"
	     "                     specification allows. If there are findings, PROGRAM exits with status 66\n"
	     "                     instead of 0. See doc/testing.md\n"
	     "      --doctor       check library, daemon, devices, memory and PROGRAM, and say what to do\n"
	     "  -V, --version      print the version\n"
	     "  -h, --help         print this text\n"
	     "\n"
	     "EXIT STATUS\n"
	     "  The status of PROGRAM; 66 instead of 0 if --sanitize has findings; 127 if PROGRAM cannot be\n"
	     "  started; 1 if --doctor found a problem or --ss cannot list; 2 for wrong options.");
}

/* Relative to the folder of this program: in a build, in an installation. */
static const char *const librnic[] = { "../../lib/rnic/librnic.so.0", "../" RNICRUN_LIBDIR "/librnic.so.0", NULL };
static const char *const librnicsock[] = { "../../lib/rnic/sock/librnicsock.so.0",
					   "../" RNICRUN_LIBDIR "/librnicsock.so.0", NULL };
static const char *const librnic_embedded[] = { "../rnicd/librnic_embedded.so.0",
						"../" RNICRUN_LIBDIR "/librnic_embedded.so.0", NULL };
static const char *const librnic_huge[] = { "librnic_huge.so.0", "../" RNICRUN_LIBDIR "/librnic_huge.so.0", NULL };

/* Puts the library in front of libraries that the user preloads already. */
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
	fprintf(stderr, "rnicrun: --design must be offloaded, assisted, host or embedded, not %s: see rnicrun --help\n",
		name);
	return 0;
}

/* Executes the program in place of rnicrun; with --with-daemon, rnicrun stays and runs a daemon beside the program. */
static int run(char **program, int companion, const char *library)
{
	const char *obstacle = program_obstacle(program[0]);

	if (obstacle != NULL)
		fprintf(stderr, "rnicrun: %s: %s\n", program[0], obstacle);
	if (companion)
		return companion_run(program, library);
	execvp(program[0], program);
	fprintf(stderr, "rnicrun: %s: %s\n", program[0], strerror(errno));
	return 127;
}

/* Sets an environment variable; the value NULL leaves the variable as it is. */
static int tell(const char *variable, const char *value) { return value != NULL ? setenv(variable, value, 1) : 0; }

struct options {
	const char *sock, *design, *inject, *sanitize; /* NULL: not given */
	int check, huge, sockets, companion, embedded, list;
};

/* Checks for options that cannot be combined: a sentence for the user, or NULL. */
static const char *conflict(const struct options *o, int sock_given)
{
	if (o->list && o->embedded)
		return "--ss asks rnicd, and the sockets of --embedded are the kernel's: list them with ss -tuanp";
	if (o->list && (o->check || o->companion || o->sockets || o->huge || o->design != NULL || o->inject != NULL ||
			o->sanitize != NULL))
		return "--ss lists sockets and runs no program: only --socket can be combined with it";
	if (o->sockets && o->check)
		return "--doctor checks RDMA programs: leave --sockets out, see rnicrun --help";
	if (o->companion && (o->check || sock_given))
		return "--with-daemon cannot be combined with --doctor or --socket: see rnicrun --help";
	if (o->embedded && (o->check || sock_given || o->companion))
		return "--embedded has no daemon: leave out --doctor, --socket and --with-daemon";
	if (o->inject != NULL && (o->check || o->sockets))
		return "--inject fails calls of an RDMA program: leave out --doctor and --sockets";
	if (o->sanitize != NULL && (o->check || o->sockets))
		return "--sanitize watches the calls of an RDMA program: leave out --doctor and --sockets";
	if (o->design != NULL && (o->check || o->embedded))
		return "--design says where iWARP runs: leave out --doctor and --embedded";
	if (o->sockets && o->design != NULL && strcmp(o->design, "host") != 0 && strcmp(o->design, "assisted") != 0)
		return "--sockets allows --design host and assisted, for programs that switch a connection to iWARP "
		       "(rnic/esock.h)";
	return NULL;
}

/* Returns -1 to continue; else the exit status. */
static int read_options(int argc, char **argv, struct options *to)
{
	static const struct option options[] = { { "socket", required_argument, NULL, 's' },
						 { "huge", no_argument, NULL, 'u' },
						 { "embedded", no_argument, NULL, 'e' },
						 { "design", required_argument, NULL, 'D' },
						 { "with-daemon", no_argument, NULL, 'w' },
						 { "sockets", no_argument, NULL, 'S' },
						 { "doctor", no_argument, NULL, 'd' },
						 { "inject", required_argument, NULL, 'i' },
						 { "sanitize", optional_argument, NULL, 'z' },
						 { "version", no_argument, NULL, 'V' },
						 { "help", no_argument, NULL, 'h' },
						 { "ss", no_argument, NULL, 'l' },
						 { NULL, 0, NULL, 0 } };
	int o;

	while ((o = getopt_long(argc, argv, "+s:Vh", options, NULL)) != -1) {
		switch (o) {
		case 's': to->sock = optarg; break;
		case 'u': to->huge = 1; break;
		case 'S': to->sockets = 1; break;
		case 'e': to->embedded = 1; break;
		case 'l': to->list = 1; break;
		case 'D': to->design = optarg; break;
		case 'w': to->companion = 1; break;
		case 'd': to->check = 1; break;
		case 'i': to->inject = optarg; break;
		case 'z': to->sanitize = optarg != NULL ? optarg : "iwarp"; break;
		case 'V': printf("rnicrun %s\n", version_text); return 0;
		case 'h': help(); return 0;
		default: fputs("rnicrun: see rnicrun --help\n", stderr); return 2;
		}
	}
	if (to->design != NULL && !is_design(to->design))
		return 2;
	const char *wrong = conflict(to, to->sock != NULL);
	if (wrong == NULL && !to->check && !to->list && optind == argc)
		wrong = "the program is missing: see rnicrun --help";
	if (wrong != NULL)
		fprintf(stderr, "rnicrun: %s\n", wrong);
	return wrong != NULL ? 2 : -1;
}

static bool has_value(const char *variable, const char *value)
{
	const char *now = getenv(variable);

	return now != NULL && strcmp(now, value) == 0;
}

/*
 * Tells librnic where iWARP runs. The options take precedence over what the environment says of it. An option that
 * names an rnicd leaves RNIC_EMBEDDED=auto in the environment: librnic uses that rnicd if it runs.
 */
static int tell_design(const struct options *o, bool names_rnicd)
{
	if (o->design != NULL) /* for librnic, RNIC_DESIGN takes precedence over RNIC_EMBEDDED */
		return setenv("RNIC_DESIGN", o->design, 1);
	if ((o->embedded || o->check || (names_rnicd && has_value("RNIC_DESIGN", "embedded"))) &&
	    unsetenv("RNIC_DESIGN") != 0)
		return -1;
	if (o->embedded)
		return setenv("RNIC_EMBEDDED", "yes", 1);
	return names_rnicd && !has_value("RNIC_EMBEDDED", "auto") ? unsetenv("RNIC_EMBEDDED") : 0;
}

int main(int argc, char **argv)
{
	struct options o = { .sock = NULL };
	const int end = read_options(argc, argv, &o);

	if (end >= 0)
		return end;
	const bool names_rnicd = o.sock != NULL || o.companion || o.check;
	if (o.sock == NULL)
		o.sock = getenv("RNICD_SOCKET");
	if (o.sock == NULL || *o.sock == '\0')
		o.sock = DEFAULT_SOCKET;
	if (o.list)
		return ss_print(o.sock, argv + optind);
	const char *lib = o.sockets ? library_find("librnicsock", librnicsock, RNICRUN_SOCK_INSTALLED)
				    : library_find("librnic", librnic, RNICRUN_INSTALLED);
	/* a program that switches a socket to iWARP needs both librnicsock and librnic */
	const char *lib_below = o.sockets && o.design != NULL ? library_find("librnic", librnic, RNICRUN_INSTALLED)
							      : lib;
	const char *lib_huge = o.huge ? library_find("librnic_huge", librnic_huge, RNICRUN_HUGE_INSTALLED) : NULL;
	/* rnicrun itself loads this one, in a process beside the program */
	const char *lib_serves = o.embedded && o.sockets ? library_find("librnic_embedded", librnic_embedded,
									RNICRUN_EMBEDDED_INSTALLED)
							 : NULL;
	if (lib == NULL || lib_below == NULL || (o.huge && lib_huge == NULL) ||
	    (o.embedded && o.sockets && lib_serves == NULL))
		return 127;
	if (tell("RNICD_SOCKET", o.sock) != 0 || tell_design(&o, names_rnicd) != 0 ||
	    tell(IPC_SOCK_KERNELS_ENV, lib_serves != NULL ? "yes" : NULL) != 0 ||
	    (lib_serves == NULL && unsetenv(IPC_SOCK_KERNELS_ENV) != 0) || tell("RNIC_INJECT", o.inject) != 0 ||
	    tell("RNIC_SANITIZE", o.sanitize) != 0 || (o.huge && preload(lib_huge) != 0) ||
	    (lib_below != lib && preload(lib_below) != 0) || (!o.check && preload(lib) != 0)) {
		perror("rnicrun");
		return 127;
	}
	if (o.check)
		return doctor(lib, o.sock, argv[optind]);
	return run(argv + optind, o.companion || lib_serves != NULL, lib_serves);
}
