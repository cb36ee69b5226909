/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicctl: shows and changes what a running rnicd does.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cause.h"
#include "counter.h"
#include "daemon.h"
#include "events.h"
#include "explain.h"
#include "exporter.h"
#include "injector.h"
#include "metrics.h"
#include "order.h"
#include "report.h"
#include "show.h"
#include "top.h"
#include "version/version.h"

#define DEFAULT_SOCKET "/run/rnicd/rnicd.sock"
#define WRONG_USAGE    2
#define INTERVAL_MAX   3600.0 /* s */

static void help(void)
{
	puts("NAME\n"
	     "  rnicctl - show and change what a running rnicd does\n"
	     "\n"
	     "SYNOPSIS\n"
	     "  rnicctl [OPTION ...] COMMAND [ARGUMENT]\n"
	     "\n"
	     "COMMANDS\n"
	     "  status             show the daemon, its ports, clients and connections in a few lines\n"
	     "  ports [NAME]       list the ports; with NAME show all values of one port\n"
	     "  clients [NUMBER]   list the client processes\n"
	     "  qps [QPN]          list the queue pairs\n"
	     "  conns [NUMBER]     list the connections and their TCP\n"
	     "  flows [DEVICE/ADDRESS[/N-M]]\n"
	     "                     list the flows of reliable datagrams, from worker N here to worker M of\n"
	     "                     another device\n"
	     "  workers [NUMBER]   list the workers; with NUMBER show cycles by stage (stage-cycles = yes)\n"
	     "  listeners          list the TCP ports on which programs listen\n"
	     "  groups             list the multicast groups\n"
	     "  records            list the incomplete messages of several datagrams, including Write-Records\n"
	     "  counters           show the counters of the iWARP stack that are not zero (--all: all), with\n"
	     "                     unit and meaning; --list: the meaning of every counter, without a daemon\n"
	     "  top                show rates of ports, workers and stack, updated each second, until Ctrl-C\n"
	     "  events             show connections, clients, ports and lines of the log as they change, until\n"
	     "                     Ctrl-C; --all: earlier events, too\n"
	     "  metrics            print the counters in Prometheus' text format; --listen: serve them by HTTP\n"
	     "  report             print versions, host, ports, clients, connections and counters for a bug\n"
	     "                     report; the report has the addresses of ports and peers, but no data of\n"
	     "                     programs\n"
	     "  set port NAME KEY=VALUE ...\n"
	     "                     change rate, loss, delay, jitter, reorder, reorder-gap, duplicate, corrupt,\n"
	     "                     resegment, limit, seed or capture of a port, as in its configuration, until\n"
	     "                     the next set or SIGHUP. KEY= sets the default; capture= ends the capture. a/1\n"
	     "                     is a path of port a\n"
	     "  set log-level LEVEL\n"
	     "                     set the log level: error, warning, info or debug\n"
	     "  drop-client NUMBER disconnect a client: its connections break, its memory is released\n"
	     "  inject CLIENT SPEC make calls and completions of a running program fail, as rnicrun --inject\n"
	     "                     SPEC does; SPEC replaces the present failures, none: no failures. CLIENT is\n"
	     "                     the number of a client, or pid=NUMBER for a program that runs iWARP itself\n"
	     "                     (--embedded, --design). The program must run under rnicrun --inject\n"
	     "  explain            say what limits the connections now, heaviest cause first\n"
	     "  explain CODE       say what the vendor_err of a failed completion means, such as 0x10202, and\n"
	     "                     what to do\n"
	     "\n"
	     "OPTIONS\n"
	     "  -s, --socket PATH     control socket of rnicd (default $RNICD_SOCKET, else\n"
	     "                        /run/rnicd/rnicd.sock, else the only daemon that runs here)\n"
	     "      --telemetry PATH  telemetry socket of rnicd, if it cannot be found by the control socket\n"
	     "  -j, --json            print JSON instead of tables (status, lists, objects, counters, events,\n"
	     "                        explain)\n"
	     "  -a, --all             counters: also show those that are zero; events: also show earlier events\n"
	     "      --list            counters: print the meaning of every counter\n"
	     "      --listen ADDRESS  metrics: answer GET /metrics on a loopback address and port\n"
	     "                        (127.0.0.1:9464) or on a Unix socket (a path), until Ctrl-C\n"
	     "  -i, --interval S      seconds between two readings: top and explain (default 1), events (0.1)\n"
	     "  -c, --count N         top: end after N views; events: end after N events\n"
	     "  -V, --version         print the version\n"
	     "  -h, --help            print this text\n"
	     "\n"
	     "PERMISSIONS\n"
	     "  rnicctl uses rnicd's telemetry socket: only root and rnicd's own user may open that socket.\n"
	     "  inject uses the control socket, or the program's own: only root and the program's user may\n"
	     "  inject failures.\n"
	     "\n"
	     "EXIT STATUS\n"
	     "  0; 1 if there is no daemon or no such object, or the daemon refuses a change; 2 for wrong usage.");
}

struct options {
	const char *control, *telemetry;
	bool named; /* by --socket or RNICD_SOCKET; else `control` is the default */
	struct show show;
	bool list;
	const char *listen; /* NULL: not given */
	double interval;    /* s; 0: not given */
	unsigned count;
};

static int usage(const char *what)
{
	fprintf(stderr, "rnicctl: %s: see rnicctl --help\n", what);
	return WRONG_USAGE;
}

/* Parses a text that is one number. */
static bool number_of(const char *text, int base, unsigned long max, unsigned long *value)
{
	char *end;

	errno = 0;
	*value = strtoul(text, &end, base);
	return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && *value <= max;
}

static bool interval_of(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && *end == '\0' && *value > 0 && *value <= INTERVAL_MAX;
}

static int explain_code(const char *code)
{
	unsigned long v;

	if (!number_of(code, 0, UINT32_MAX, &v))
		return usage("explain needs the number in vendor_err, such as 0x10202");
	return cause_explain((uint32_t)v);
}

static const char *const plain[] = { "status", "counters",  "metrics", "top",     "events", "explain",
				     "report", "listeners", "groups",  "records", NULL };
static const char *const named[] = { "ports", "clients", "qps", "conns", "flows", "workers", NULL };

static const char *const orders[] = { "set", "drop-client", NULL };

static bool among(const char *const *list, const char *word)
{
	for (; *list != NULL; list++)
		if (strcmp(*list, word) == 0)
			return true;
	return false;
}

static double interval_or(const struct options *o, double preset) { return o->interval > 0 ? o->interval : preset; }

/* Runs a command that needs the daemon. */
static int ask(struct daemon *d, const struct options *o, char *const *word, int n)
{
	const char *command = word[0], *which = n > 1 ? word[1] : NULL;

	if (among(orders, command))
		return order_send(d, command, word + 1, n - 1);
	if (strcmp(command, "status") == 0)
		return show_status(d, &o->show);
	if (strcmp(command, "counters") == 0)
		return show_counters(d, &o->show);
	if (strcmp(command, "report") == 0)
		return report_print(d, version_text);
	if (strcmp(command, "metrics") == 0)
		return metrics_print(d);
	if (strcmp(command, "top") == 0)
		return top_run(d, interval_or(o, 1), o->count);
	if (strcmp(command, "explain") == 0)
		return explain_now(d, interval_or(o, 1), o->show.json);
	if (strcmp(command, "events") == 0)
		return events_follow(d, &(struct events_how){ .json = o->show.json,
							      .all = o->show.all,
							      .interval = interval_or(o, 0.1),
							      .count = o->count });
	return show_objects(d, &o->show, command, which);
}

static int serve_metrics(const struct options *o, const char *command)
{
	const struct exporter e = { o->telemetry, o->control, !o->named };

	return strcmp(command, "metrics") == 0 ? exporter_run(&e, o->listen)
					       : usage("--listen can only be used with metrics");
}

static int run(const struct options *o, char *const *word, int n)
{
	if (n == 0)
		return usage("a command is missing");
	if (strcmp(word[0], "inject") == 0)
		return n == 3 ? injector_send(o->control, word[1], word[2])
			      : usage("inject needs a client and a specification");
	bool order = among(orders, word[0]);
	if (order && n < 2)
		return usage("set and drop-client need arguments");
	if (n == 2 && strcmp(word[0], "explain") == 0)
		return explain_code(word[1]);
	if ((n > 2 && !order) || (n == 2 && among(plain, word[0])))
		return usage("too many arguments");
	if (!order && !among(plain, word[0]) && !among(named, word[0])) {
		fprintf(stderr, "rnicctl: there is no command %s: see rnicctl --help\n", word[0]);
		return WRONG_USAGE;
	}
	if (o->list && strcmp(word[0], "counters") != 0)
		return usage("--list can only be used with counters");
	if (o->list) {
		counter_document();
		return 0;
	}
	if (o->listen != NULL)
		return serve_metrics(o, word[0]);
	struct daemon *d = daemon_open(o->telemetry, o->control, !o->named);
	if (d == NULL)
		return 1;
	int rc = ask(d, o, word, n);
	daemon_close(d);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "socket", required_argument, NULL, 's' },
						 { "telemetry", required_argument, NULL, 't' },
						 { "json", no_argument, NULL, 'j' },
						 { "all", no_argument, NULL, 'a' },
						 { "list", no_argument, NULL, 'l' },
						 { "interval", required_argument, NULL, 'i' },
						 { "listen", required_argument, NULL, 'L' },
						 { "count", required_argument, NULL, 'c' },
						 { "version", no_argument, NULL, 'V' },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	struct options o = { .control = getenv("RNICD_SOCKET") };
	unsigned long count;
	int c;

	while ((c = getopt_long(argc, argv, "s:jai:c:Vh", options, NULL)) != -1) {
		switch (c) {
		case 's': o.control = optarg; break;
		case 't': o.telemetry = optarg; break;
		case 'j': o.show.json = true; break;
		case 'a': o.show.all = true; break;
		case 'l': o.list = true; break;
		case 'L': o.listen = optarg; break;
		case 'i':
			if (!interval_of(optarg, &o.interval))
				return usage("--interval needs seconds, such as 0.5");
			break;
		case 'c':
			if (!number_of(optarg, 10, UINT32_MAX, &count) || count == 0)
				return usage("--count needs a number of at least 1");
			o.count = (unsigned)count;
			break;
		case 'V': printf("rnicctl %s\n", version_text); return 0;
		case 'h': help(); return 0;
		default: return usage("wrong option");
		}
	}
	o.named = o.control != NULL && *o.control != '\0';
	if (!o.named)
		o.control = DEFAULT_SOCKET;
	return run(&o, argv + optind, argc - optind);
}
