/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * isosurface - draws the surface on which a field in a volume has a certain value. Four filters in separate processes
 * pass on units of one size: read takes bricks out of the volume, extract finds triangles in them (marching
 * tetrahedra), rasterise finds the pixels that are in front, and merge makes a picture of them.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"
#include "say.h"

#define UNIT_LEAST 512u
#define UNIT_MOST  (16u << 20)
#define ALL_RANKS  RANKS /* of options.rank: this process starts all of them */

struct options {
	struct run run;
	double azimuth, elevation;
	bool level_given, field_given;
	unsigned rank;
};

static const char help[] =
	"NAME\n"
	"    isosurface - draw a surface in a volume, by filters in processes connected by RDMA streams\n"
	"\n"
	"SYNOPSIS\n"
	"    isosurface [OPTION...] ADDRESS...\n"
	"\n"
	"DESCRIPTION\n"
	"    Starts processes on this host for four filters: read takes bricks out of a volume, extract\n"
	"    finds the triangles of the surface in them, rasterise finds the pixels that are in front,\n"
	"    merge writes the picture, a PNG. Process i has the i-th ADDRESS, and begins again with the\n"
	"    first one behind the last. An ADDRESS is IPv4, of an RDMA device, or with --transport\n"
	"    sockets any of this host's.\n"
	"\n"
	"    With 8 processes there are two of each filter; with 7 one merge, with 6 also one read, with 5 also one\n"
	"    rasterise, with 4 one of each. With 3, the last one rasterises and merges; with 2, the first one\n"
	"    also reads and extracts. A single process does everything, and needs no ADDRESS.\n"
	"\n"
	"OPTIONS\n"
	"  What is drawn\n"
	"    -f, --field NAME         sphere, torus or link (two rings): computed, 0 at its surface (default link)\n"
	"    -i, --input FILE         read raw samples, x fastest, in place of a field; give --level too\n"
	"    -T, --type TYPE          of FILE's samples: u8, u16, u16be, f32 or f32be (default u8)\n"
	"    -d, --dims XxYxZ         samples along each axis; one number: of all three (default 128)\n"
	"    -l, --level VALUE        the value of the field at the surface (default 0)\n"
	"    -o, --output FILE        the picture (default isosurface.png)\n"
	"    -s, --size WxH           its pixels; one number: of both (default 512)\n"
	"    -a, --azimuth DEGREES    how far the volume is turned (default 30)\n"
	"    -e, --elevation DEGREES  how far from above it is seen (default 25)\n"
	"  How\n"
	"    -n, --processes N        1 to 8 (default 8)\n"
	"    -t, --transport KIND     verbs or sockets (default verbs)\n"
	"    -u, --unit BYTES         granularity of distribution: of a unit with its head, 512 to 16m, a multiple of\n"
	"                             64; k and m are binary (default 64k)\n"
	"    -b, --buffers N          units that may be under way on a stream, 1 to 64 (default 4)\n"
	"    -w, --wait HOW           events: a process without work sleeps; poll: it spins (default events)\n"
	"    -p, --port N             process i listens at port N + i (default 18640)\n"
	"    -r, --rank I             be process I alone: somebody starts the others, with these options\n"
	"    -P, --patience SECONDS   until a process that is to be reached must listen (default 30)\n"
	"  What is told\n"
	"    -c, --check              also make the picture in one process, and compare\n"
	"    -j, --json               print one line of JSON instead of sentences\n"
	"    -h, --help               this text\n"
	"\n"
	"EXIT STATUS\n"
	"    0 if the picture is written and, with --check, correct; 1 if something failed; 2 for wrong options.\n"
	"\n"
	"EXAMPLES\n"
	"    isosurface --unit 8k --check 10.77.0.1 10.77.0.2         over the ports of config/pair.conf\n"
	"    isosurface --transport sockets --unit 1m 127.0.0.1\n"
	"    isosurface -n 4 --rank 2 10.0.0.1 10.0.0.2               on the host 10.0.0.1, of two hosts\n";

static const struct option longs[] = {
	{ "field", required_argument, NULL, 'f' },
	{ "input", required_argument, NULL, 'i' },
	{ "type", required_argument, NULL, 'T' },
	{ "dims", required_argument, NULL, 'd' },
	{ "level", required_argument, NULL, 'l' },
	{ "output", required_argument, NULL, 'o' },
	{ "size", required_argument, NULL, 's' },
	{ "azimuth", required_argument, NULL, 'a' },
	{ "elevation", required_argument, NULL, 'e' },
	{ "processes", required_argument, NULL, 'n' },
	{ "transport", required_argument, NULL, 't' },
	{ "unit", required_argument, NULL, 'u' },
	{ "buffers", required_argument, NULL, 'b' },
	{ "wait", required_argument, NULL, 'w' },
	{ "port", required_argument, NULL, 'p' },
	{ "rank", required_argument, NULL, 'r' },
	{ "patience", required_argument, NULL, 'P' },
	{ "check", no_argument, NULL, 'c' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static _Noreturn void __attribute__((format(printf, 1, 2))) refuse(const char *fmt, ...)
{
	va_list ap;

	fputs("isosurface: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(" (isosurface --help)\n", stderr);
	exit(2);
}

static unsigned number(const char *text, const char *what, unsigned low, unsigned high)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno == 0 && end != text && (*end == 'k' || *end == 'm') && v <= high)
		v <<= *end++ == 'k' ? 10 : 20;
	if (errno != 0 || end == text || *end != 0 || text[0] == '-' || v < low || v > high)
		refuse("--%s %s: a number of %u to %u is needed", what, text, low, high);
	return (unsigned)v;
}

static double real(const char *text, const char *what)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end != 0 || !isfinite(v))
		refuse("--%s %s: a number is needed", what, text);
	return v;
}

/* AxB[xC]; one number stands for all. */
static void sides(const char *text, const char *what, uint32_t *to, unsigned n, unsigned most)
{
	char copy[64], *rest = copy, *word;
	unsigned got = 0;

	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, "x")) != NULL && got < n)
		to[got++] = number(word, what, 2, most);
	if (word != NULL || (got != n && got != 1))
		refuse("--%s %s: %s is needed, or one number", what, text, n == 3 ? "XxYxZ" : "WxH");
	for (unsigned i = got; i < n; i++)
		to[i] = to[0];
}

static unsigned one_of(const char *text, const char *what, const char *const *names, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	refuse("--%s %s: there is no such one", what, text);
}

static void take_drawn(struct options *o, int c)
{
	struct job *j = &o->run.job;
	uint32_t size[2];

	switch (c) {
	case 'f':
		j->src.field = one_of(optarg, "field", field_names, FIELDS);
		o->field_given = true;
		break;
	case 'i': j->src.path = optarg; break;
	case 'T': j->src.type = one_of(optarg, "type", sample_names, SAMPLES); break;
	case 'd': sides(optarg, "dims", j->src.dims, 3, DIM_MOST); break;
	case 'l':
		j->level = (float)real(optarg, "level");
		o->level_given = true;
		break;
	case 'o': o->run.output = optarg; break;
	case 's':
		sides(optarg, "size", size, 2, PICTURE_MOST);
		j->view.width = size[0];
		j->view.height = size[1];
		break;
	case 'a': o->azimuth = real(optarg, "azimuth"); break;
	case 'e': o->elevation = real(optarg, "elevation"); break;
	default: exit(2); /* getopt_long has said why */
	}
}

static void take_option(struct options *o, int c)
{
	static const char *const transports[] = { "verbs", "sockets" }, *const waits[] = { "events", "poll" };
	struct run *r = &o->run;

	switch (c) {
	case 'n': plan_make(&r->job.plan, number(optarg, "processes", 1, RANKS)); break;
	case 't': r->ops = one_of(optarg, "transport", transports, 2) == 0 ? &hub_verbs : &hub_sockets; break;
	case 'u': r->job.unit = number(optarg, "unit", UNIT_LEAST, UNIT_MOST); break;
	case 'b': r->hub.buffers = number(optarg, "buffers", 1, BUFFERS_MOST); break;
	case 'w': r->hub.polling = one_of(optarg, "wait", waits, 2) == 1; break;
	case 'p': r->hub.port = (uint16_t)number(optarg, "port", 1, UINT16_MAX - RANKS); break;
	case 'r': o->rank = number(optarg, "rank", 0, RANKS - 1); break;
	case 'P': r->hub.patience = number(optarg, "patience", 0, 86400); break;
	case 'c': r->check = true; break;
	case 'j': r->json = true; break;
	case 'h': fputs(help, stdout); exit(0);
	default: take_drawn(o, c); break;
	}
}

static void settle(struct options *o, char **addr, unsigned n)
{
	struct run *r = &o->run;

	if (n == 0 && r->job.plan.n > 1)
		refuse("the address of an RDMA device is needed");
	if (o->rank != ALL_RANKS && o->rank >= r->job.plan.n)
		refuse("--rank %u: there are %u processes, and the first one is 0", o->rank, r->job.plan.n);
	if (r->job.unit % 64 != 0)
		refuse("--unit %u: a multiple of 64 is needed", r->job.unit);
	if (r->job.src.path != NULL && !o->level_given)
		refuse("--input %s: which value has the surface? Give --level", r->job.src.path);
	if (r->job.src.path != NULL && o->field_given)
		refuse("--field and --input: only one of them can be drawn");
	for (unsigned i = 0; i < r->job.plan.n && n > 0; i++)
		r->hub.addr[i] = addr[i % n];
	r->hub.unit = r->job.unit;
	view_make(&r->job.view, r->job.src.dims, o->azimuth, o->elevation);
}

/* A process of each rank. When one fails, the others are ended. */
static int start_all(struct run *r)
{
	pid_t pid[RANKS], me = getpid();
	unsigned n = r->job.plan.n;
	int status = 0, s;

	say_once();
	for (unsigned i = 0; i < n; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			die("a process cannot be started: %s", strerror(errno));
		if (pid[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != me)
				_exit(1);
			r->hub.me = i;
			exit(run_rank(r));
		}
	}
	for (unsigned left = n; left > 0; left--) {
		pid_t p = wait(&s);

		for (unsigned i = 0; i < n; i++)
			if (pid[i] == p)
				pid[i] = 0;
		if (s == 0)
			continue;
		if (WIFSIGNALED(s) && status == 0)
			fprintf(stderr, "isosurface: a process was ended by signal %d\n", WTERMSIG(s));
		status = 1;
		for (unsigned i = 0; i < n; i++)
			if (pid[i] > 0)
				kill(pid[i], SIGKILL);
	}
	return status;
}

int main(int argc, char **argv)
{
	struct options o = { .run = { .ops = &hub_verbs,
				      .job = { .src = { .field = FIELD_LINK, .dims = { 128, 128, 128 } },
					       .view = { .width = 512, .height = 512 },
					       .unit = 65536 },
				      .hub = { .port = 18640, .buffers = 4, .patience = 30 },
				      .output = "isosurface.png" },
			     .azimuth = 30,
			     .elevation = 25,
			     .rank = ALL_RANKS };
	int c;

	plan_make(&o.run.job.plan, RANKS);
	while ((c = getopt_long(argc, argv, "f:i:T:d:l:o:s:a:e:n:t:u:b:w:p:r:P:cjh", longs, NULL)) != -1)
		take_option(&o, c);
	settle(&o, argv + optind, (unsigned)(argc - optind));
	if (o.rank == ALL_RANKS && o.run.job.plan.n > 1)
		return start_all(&o.run);
	o.run.hub.me = o.rank == ALL_RANKS ? 0 : o.rank;
	return run_rank(&o.run);
}
