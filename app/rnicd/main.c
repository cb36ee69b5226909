/* SPDX-License-Identifier: BSD-3-Clause */
/* rnicd: options, start, the control thread's loop, orderly shutdown. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "control/addr_text.h"
#include "control/client.h"
#include "control/cm.h"
#include "border/event.h"
#include "control/conf.h"
#include "control/dev.h"
#include "control/fds.h"
#include "control/group.h"
#include "control/huge.h"
#include "control/link.h"
#include "control/loop.h"
#include "control/numa_node.h"
#include "control/oob.h"
#include "control/reload.h"
#include "control/sigbus.h"
#include "control/sock.h"
#include "control/sk.h"
#include "control/tele.h"
#include "control/tele_port.h"
#include "control/unmap.h"
#include "control/why.h"
#include "plane/dataplane.h"
#include "version/version.h"

#define CONF_DEFAULT "/etc/rnicd/rnicd.conf"
#define EVENTS_MAX   256u              /* events handled in one turn of the loop; further events wait */
#define END_NS       (5 * RN_NS_PER_S) /* time for clients' connections to end in order */
#define ALARM_S      1                 /* seconds from SIGALRM to SIGALRM, which interrupts a write: client_ev.h */

static volatile sig_atomic_t stop_signal, reload_asked, state_asked;
static bool ends_with_terminal;
static uint64_t end_by; /* while stopping: time until which rnicd waits for clients and for the workers' answers */

static const char usage[] =
	"NAME\n"
	"  rnicd - software RDMA network adapter\n"
	"\n"
	"SYNOPSIS\n"
	"  rnicd [--config FILE] [--socket PATH] [--log-level LEVEL]\n"
	"  rnicd --check FILE\n"
	"\n"
	"DESCRIPTION\n"
	"  rnicd owns the Ethernet ports that its configuration names, and is an RDMA adapter (iWARP over TCP) on\n"
	"  each port. Programs use the adapter through the calls of libibverbs and librdmacm: rnicrun runs a\n"
	"  program over librnic, which shares queues and memory with rnicd.\n"
	"\n"
	"OPTIONS\n"
	"  -c, --config FILE      configuration (default " CONF_DEFAULT ")\n"
	"      --check FILE       read the configuration, name the line of each mistake, and end\n"
	"  -s, --socket PATH      control socket; overrides RNICD_SOCKET and the configuration\n"
	"  -l, --log-level LEVEL  error, warning, info or debug; overrides the configuration\n"
	"      --no-hugepages     use ordinary pages; overrides the configuration\n"
	"      --help-config      print every key of the configuration with its meaning and default\n"
	"      --help-causes      print the log's messages about failures, each with its cause and remedy\n"
	"  -V, --version          print the version\n"
	"  -h, --help             print this text\n"
	"\n"
	"SIGNALS\n"
	"  SIGTERM, SIGINT  disconnect clients, close connections, complete captures, and end\n"
	"  SIGHUP           read the configuration again: log level, rate, impairment and capture of ports\n"
	"                   change, other keys wait for a restart. If rnicd's terminal has hung up and no service\n"
	"                   manager has started rnicd, SIGHUP ends rnicd as SIGTERM does\n"
	"  SIGUSR1          log the state of the ports and the number of clients\n"
	"\n"
	"FILES\n"
	"  /run/rnicd/rnicd.sock  control socket, unless an option, RNICD_SOCKET or the configuration names\n"
	"                         another\n"
	"\n"
	"ENVIRONMENT\n"
	"  RNICD_SOCKET   control socket; overrides the configuration; clients use it too\n"
	"  NOTIFY_SOCKET  socket to which rnicd writes READY=1 and STOPPING=1 (systemd, Type=notify)\n"
	"\n"
	"EXIT STATUS\n"
	"  0 after an orderly shutdown; 1 if rnicd cannot start or the configuration is wrong;\n"
	"  2 for wrong options\n";

struct options {
	const char *config;
	const char *check;
	const char *level;
	const char *socket;
	bool no_hugepages;
};

/* Reads the options. Returns the exit status; -1: rnicd is to start. */
static int options(int argc, char **argv, struct options *o)
{
	enum { CHECK = 256, HELP_CONFIG, HELP_CAUSES, NO_HUGEPAGES };
	static const struct option opts[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check", required_argument, NULL, CHECK },
		{ "socket", required_argument, NULL, 's' },
		{ "log-level", required_argument, NULL, 'l' },
		{ "help-config", no_argument, NULL, HELP_CONFIG },
		{ "help-causes", no_argument, NULL, HELP_CAUSES },
		{ "no-hugepages", no_argument, NULL, NO_HUGEPAGES },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	*o = (struct options){ .config = CONF_DEFAULT };
	while ((c = getopt_long(argc, argv, "c:s:l:Vh", opts, NULL)) != -1) {
		switch (c) {
		case 'c': o->config = optarg; break;
		case CHECK: o->check = optarg; break;
		case 's': o->socket = optarg; break;
		case 'l': o->level = optarg; break;
		case NO_HUGEPAGES: o->no_hugepages = true; break;
		case HELP_CONFIG: conf_help(stdout); return 0;
		case HELP_CAUSES: why_document(stdout); return 0;
		case 'V': printf("rnicd %s\n", version_text); return 0;
		case 'h': fputs(usage, stdout); return 0;
		default: fputs("Try rnicd --help.\n", stderr); return 2;
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "rnicd: unknown argument '%s'. Try rnicd --help.\n", argv[optind]);
	return 2;
}

/* Looks for a key that names a CPU which this process may not use. Returns the key's line in the file, and a sentence
 * in say; 0: there is no such key. */
static unsigned cpu_missing(const struct conf *c, char *say, size_t len)
{
	const struct rnicd_cfg *cfg = &c->d;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 0; /* more CPUs than cpu_set_t can hold: DPDK reports it */
	for (uint32_t i = 0; i <= cfg->n_workers; i++) {
		bool control = i == cfg->n_workers;
		uint32_t cpu = control ? cfg->control_cpu : cfg->lcore[i];
		if ((control ? cpu == UINT16_MAX : !cfg->pin) || (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &set)))
			continue;
		snprintf(say, len,
			 "%s names CPU %u, which is not one of the %d CPUs that this process may use (taskset -p "
			 "%d)",
			 control ? "control-cpu" : "workers", cpu, CPU_COUNT(&set), (int)getpid());
		return control ? c->control_cpu_line : c->workers_line;
	}
	return 0;
}

static int check(const char *path)
{
	static struct conf c;
	unsigned n = conf_load(path, &c, stderr);

	char say[512];

	if (n > 0)
		return 1;
	unsigned line = cpu_missing(&c, say, sizeof(say));
	if (line != 0) {
		fprintf(stderr, "%s:%u: %s\n", path, line, say);
		return 1;
	}
	printf("%s: no mistakes, %u port%s\n", path, c.d.n_ports, c.d.n_ports == 1 ? "" : "s");
	return 0;
}

/* Sets the log level by the option; NULL: the option is not given. False: there is no such level. */
static bool level_over(const char *name)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };

	for (uint32_t i = 0; name != NULL && i < RN_ARRAY_LEN(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			rnicd.cfg.log_level = i;
			return true;
		}
	}
	return name == NULL;
}

/* ---- signals ---- */

static void on_stop(int sig)
{
	stop_signal = sig;
	loop_poke();
}

/* The handlers only set flags; asked(), in the loop, does what they stand for. */
static void on_ask(int sig)
{
	if (sig == SIGHUP)
		reload_asked = 1;
	else if (sig == SIGUSR1)
		state_asked = 1;
	loop_poke();
}

/* Whether the process has a controlling terminal that has not hung up. */
static bool has_terminal(void)
{
	int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void on_alarm(int sig) { (void)sig; /* the signal only has to interrupt a system call */ }

static void set_of(sigset_t *s)
{
	sigemptyset(s);
	sigaddset(s, SIGTERM);
	sigaddset(s, SIGINT);
	sigaddset(s, SIGALRM);
	sigaddset(s, SIGHUP);
	sigaddset(s, SIGUSR1);
	sigaddset(s, SIGUSR2);
}

/* Blocks the signals. Called before other threads are made, which inherit this, so that only the control thread gets
 * signals. */
static void signals_block(void)
{
	sigset_t s;

	set_of(&s);
	pthread_sigmask(SIG_BLOCK, &s, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void signals_take(void)
{
	struct sigaction stop = { .sa_handler = on_stop }, alrm = { .sa_handler = on_alarm },
			 ask = { .sa_handler = on_ask }, hup;
	struct itimerval every = { .it_interval.tv_sec = ALARM_S, .it_value.tv_sec = ALARM_S };
	sigset_t s;

	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGALRM, &alrm, NULL);
	sigaction(SIGHUP, &ask, &hup);
	sigaction(SIGUSR1, &ask, NULL);
	sigaction(SIGUSR2, &ask, NULL);
	/* nohup makes programs ignore SIGHUP; service managers set one of these variables. */
	ends_with_terminal = hup.sa_handler != SIG_IGN && getenv("NOTIFY_SOCKET") == NULL &&
			     getenv("INVOCATION_ID") == NULL && has_terminal();
	setitimer(ITIMER_REAL, &every, NULL);
	set_of(&s);
	pthread_sigmask(SIG_UNBLOCK, &s, NULL);
}

/* Raises the limit of descriptors as far as allowed, because clients pass descriptors. */
static void descriptors_all(void)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur == most.rlim_max)
		return;
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
}

/* ---- the loop's hooks ---- */

static void on_event(const struct event *ev)
{
	switch (ev->type) {
	case EVENT_FX:
		if (ev->fx.type <= QP_FX_CLOSED)
			cm_fx(&ev->fx);
		else
			client_fx(&ev->fx);
		break;
	case EVENT_SIDR: cm_sidr_message(&ev->sidr); break;
	case EVENT_NEIGH:
		cm_neigh(&ev->neigh);
		client_reach_neigh(&ev->neigh);
		why_neighbour(&ev->neigh);
		break;
	case EVENT_QUERY: group_net_query(&ev->query); break;
	case EVENT_STREAM: sk_event(&ev->stream, ev->worker); break;
	case EVENT_PATH: why_path(&ev->path); break;
	case EVENT_ANSWER: /* the event queue itself handles it */ break;
	}
}

static void say_state(void)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		struct rnicd_port_stats sum;

		tele_port_sum(rnicd.port[i], &sum);
		rnicd_log(RNICD_LOG_INFO, "port %s: link %s, %llu packets received, %llu sent",
			  rnicd.port[i]->cfg->name, port_link(rnicd.port[i]) == RNICD_LINK_UP ? "up" : "down",
			  (unsigned long long)sum.rx_packets, (unsigned long long)sum.tx_packets);
	}
	rnicd_log(RNICD_LOG_INFO, "%u clients", clients.n);
}

static void asked(void)
{
	if (state_asked) {
		state_asked = 0;
		say_state();
	}
	if (!reload_asked)
		return;
	reload_asked = 0;
	if (ends_with_terminal && !has_terminal())
		stop_signal = SIGHUP;
	else
		reload();
}

static uint32_t collect(void)
{
	client_check_memory();
	asked();
	return event_collect(EVENTS_MAX, on_event);
}

static bool stop_asked(void) { return stop_signal != 0; }

static bool all_gone(void) { return (clients.n == 0 && cmd_all_answered()) || rnicd_now() >= end_by; }

static void turn_end(void)
{
	client_reap();
	sk_reap();
}

static const struct loop_hooks serving = { .until = stop_asked, .collect = collect, .turn_end = turn_end };
static const struct loop_hooks ending = { .until = all_gone, .collect = collect, .turn_end = turn_end };

/* ---- life ---- */

static int cannot(const char *sentence)
{
	fprintf(stderr, "rnicd: cannot start: %s\n", sentence);
	return 1;
}

static void say_ready(const char *pages)
{
	const struct rnicd_cfg *cfg = &rnicd.cfg;

	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		const struct rnicd_port *p = rnicd.port[i];
		char addr[64];
		addr_text(p->cfg->ip.b, addr, sizeof(addr));
		printf("rnicd: port %s: %s/%u, mtu %u, %02x:%02x:%02x:%02x:%02x:%02x%s%s\n", p->cfg->name, addr,
		       pkt_addr_is_ip4(&p->cfg->ip) ? p->cfg->prefix_len - 96 : p->cfg->prefix_len, p->mtu, p->mac[0],
		       p->mac[1], p->mac[2], p->mac[3], p->mac[4], p->mac[5],
		       p->cfg->capture[0] != '\0' ? ", captured to " : "", p->cfg->capture);
	}
	if (tele_path() == NULL)
		rnicd_log(RNICD_LOG_WARNING, "no telemetry, so rnicctl will not find this daemon: %s",
			  rnicd_dataplane_no_telemetry());
	printf("rnicd: ready, %u port%s, %u worker%s, %s, socket %s, telemetry %s\n", rnicd.n_ports,
	       rnicd.n_ports == 1 ? "" : "s", rnicd.n_workers, rnicd.n_workers == 1 ? "" : "s", pages, cfg->socket,
	       tele_path() != NULL ? tele_path() : "none");
	fflush(stdout);
	sock_notify("READY=1");
}

static void end_in_order(void)
{
	sock_notify("STOPPING=1");
	rnicd_log(RNICD_LOG_INFO, "ending on signal %d, %u clients", (int)stop_signal, clients.n);
	sock_unlink(rnicd.cfg.socket);
	loop_lock();
	client_stop();
	loop_unlock();
	end_by = rnicd_now() + END_NS;
	loop_run(&ending);
	if (clients.n > 0)
		rnicd_log(RNICD_LOG_WARNING, "%u clients' memory was still in use", clients.n);
}

/* Runs rnicd while the data plane is up, until it is to end; returns the exit status. */
static int serve(int listen_fd, const char *pages)
{
	user_start();
	client_serve_sockets(sk_request);
	if (!loop_start() || !dev_start() || !client_start(listen_fd) || !tele_start()) {
		sock_unlink(rnicd.cfg.socket);
		return cannot("no memory or descriptors");
	}
	oob_start();
	group_net_start();
	link_start();
	why_start();
	signals_take();
	say_ready(pages);
	loop_run(&serving);
	end_in_order();
	link_stop();
	why_stop();
	tele_stop();
	return 0;
}

/*
 * Other programs may have taken hugepages that were free at the start before EAL has allocated them. EAL can start only
 * once in a process, so with `hugepages = auto` rnicd executes itself again without hugepages. Returns if that fails.
 */
static void begin_anew(int argc, char **argv, const cpu_set_t *cpus)
{
	char **again = calloc((size_t)argc + 2, sizeof(*again));
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (again == NULL || n < 0) {
		free(again);
		return;
	}
	self[n] = '\0';
	memcpy(again, argv, (size_t)argc * sizeof(*again));
	again[argc] = (char[]){ "--no-hugepages" };
	sched_setaffinity(0, sizeof(*cpus), cpus); /* EAL has restricted the CPUs */
	close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	execv(self, again);
	free(again);
}

int main(int argc, char **argv)
{
	static struct conf conf;
	cpu_set_t cpus;
	char say[512];
	struct options o;
	int rc = options(argc, argv, &o);

	if (rc >= 0)
		return rc;
	sched_getaffinity(0, sizeof(cpus), &cpus);
	if (o.check != NULL)
		return check(o.check);
	if (conf_load(o.config, &conf, stderr) > 0)
		return 1;
	if (o.no_hugepages)
		conf.hugepages = CONF_HUGE_NO;
	const char *sock = o.socket != NULL ? o.socket : getenv("RNICD_SOCKET");
	reload_begin(o.config, &conf, o.level != NULL);
	if (sock != NULL && sock[0] != '\0' && !conf_socket(&conf, sock, say)) {
		fprintf(stderr, "rnicd: the socket '%s' %s\n", sock, say);
		return 1;
	}
	memcpy(&rnicd.cfg, &conf.d, sizeof(rnicd.cfg)); /* copied as bytes, since reload.c compares bytes */
	if (!level_over(o.level)) {
		fprintf(stderr, "rnicd: --log-level must be error, warning, info or debug\n");
		return 2;
	}
	if (cpu_missing(&conf, say, sizeof(say)) != 0 || !huge_decide(&conf, say, sizeof(say)))
		return cannot(say);
	rnicd.cfg.hugepages = conf.d.hugepages;
	char pages[512], err[512] = "";
	strcpy(pages, say);
	if (!fds_start()) {
		snprintf(err, sizeof(err), "its helper processes cannot be made: %s", strerror(errno));
		return cannot(err);
	}
	int fd = sock_listen(rnicd.cfg.socket, rnicd.cfg.socket_mode, err, sizeof(err));
	if (fd < 0)
		return cannot(err);
	signals_block();
	descriptors_all();
	if (!sigbus_start() || !unmap_start()) {
		sock_unlink(rnicd.cfg.socket);
		return cannot("no memory");
	}
	if (!rnicd_dataplane_start(err, sizeof(err))) {
		sock_unlink(rnicd.cfg.socket);
		if (conf.hugepages == CONF_HUGE_AUTO && conf.d.hugepages) {
			fprintf(stderr, "rnicd: cannot start with hugepages: %s; trying ordinary pages\n", err);
			begin_anew(argc, argv, &cpus);
		}
		return cannot(err);
	}
	numa_node_check_workers();
	rc = serve(fd, pages);
	rnicd_dataplane_stop();
	rnicd_dataplane_exit();
	fds_stop();
	unmap_stop();
	loop_stop();
	dev_stop();
	return rc;
}
