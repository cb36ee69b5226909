/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicd's control side in the client's own process: over the kernel's sockets without a daemon, or over rnicd's streams
 * (sockets/ks.h). librnic loads it as a shared library and talks to it over a socket pair. It has two threads, the
 * control thread and the one that runs the plane's turns. rnicrun loads it, too, in a process that serves the stream
 * sockets of programs (sockets/ks_sk.h): a socket belongs to many processes, and lives longer than any of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "border/bell.h"
#include "border/event.h"
#include "control/client.h"
#include "control/cm.h"
#include "control/conf_key.h"
#include "control/dev.h"
#include "control/loop.h"
#include "control/oob.h"
#include "control/sk.h"
#include "ipc/ipc_own.h"
#include "sockets/ks_sk.h"
#include "sockets/ks_ud.h"

#define EVENTS_MAX   256u
#define END_S        5u  /* seconds for closed sockets to send their bytes, if they make no progress */
#define END_MOST     12u /* ... if they make progress: this many times END_S */
#define END_S_MAX    1000000u
#define SHARE_OF_ONE 75u     /* percent that one user gets where there are several, as by rnicd's default */
#define REGIONS      264999u /* memory regions and windows of a device */

int rnic_embedded_start(struct ipc_own *own) __attribute__((visibility("default")));
int rnic_embedded_serve(int listener, void (*ready)(void)) __attribute__((visibility("default")));

/* ---- configuration ---- */

/* Stores one KEY=VALUE of RNIC_EMBEDDED_KEYS; the keys are those of a [port] section. False with a sentence in err. */
static bool key(struct rnicd_port_cfg *p, char *item, char *err)
{
	char why[CONF_WHY_MAX] = "", *value = strchr(item, '=');
	const struct conf_key *k = conf_keys_port;

	if (value == NULL) {
		snprintf(err, IPC_OWN_ERR, "RNIC_EMBEDDED_KEYS: '%s' is not KEY=VALUE", item);
		return false;
	}
	*value++ = '\0';
	while (k->name != NULL && strcmp(k->name, item) != 0)
		k++;
	if (k->name != NULL && k->deflt[0] != '\0' && conf_key_store(k, p, value, why))
		return true;
	snprintf(err, IPC_OWN_ERR, "RNIC_EMBEDDED_KEYS: %s %s", item,
		 why[0] != '\0' ? why : "is not a key of an embedded port");
	return false;
}

static bool configure(struct rnicd_port_cfg *port, char *err)
{
	const char *keys = getenv("RNIC_EMBEDDED_KEYS");
	char *copy = strdup(keys != NULL ? keys : ""), *rest = copy;
	static struct conf conf;
	bool good = copy != NULL;

	conf_key_defaults(conf_keys_rnicd, &conf);
	rnicd.cfg = conf.d;
	rnicd.own = true;
	rnicd.cfg.n_workers = 1;
	rnicd.cfg.log_level = RNICD_LOG_ERROR;
	rnicd.cfg.own_by_port = true;
	rnicd.cfg.user_share = 100;
	rnicd.cfg.clients = CLIENTS_MAX;
	rnicd.cfg.listeners = LOOK_LISTENERS;
	rnicd.cfg.regions = REGIONS;
	rnicd.cfg.groups = DEV_MAX_GROUPS;
	rnicd.cfg.udp_ports = DEV_MAX_UDP_PORTS;
	rnicd.cfg.xrc_domains = DEV_MAX_XRCDS;
	rnicd.cfg.client_memory = rnicd.cfg.object_memory = UINT64_C(1) << 62;
	rnicd.cfg.quota_memory = UINT64_C(1) << 62; /* the memory is the process's own, and is not copied */
	memset(port, 0, sizeof(*port));
	conf_key_defaults(conf_keys_port, port);
	port->qp_peers = RNICD_PEERS_ANY;
	for (char *item; good && (item = strsep(&rest, ";, ")) != NULL;)
		good = item[0] == '\0' || key(port, item, err);
	free(copy);
	return good;
}

/* ---- the control thread ---- */

static void take_event(const struct event *ev)
{
	switch (ev->type) {
	case EVENT_FX:
		if (ev->fx.type <= QP_FX_CLOSED)
			cm_fx(&ev->fx);
		else
			client_fx(&ev->fx);
		break;
	case EVENT_SIDR: cm_sidr_message(&ev->sidr); break;
	case EVENT_STREAM: sk_event(&ev->stream, ev->worker); break;
	/* These come from Ethernet ports only, which this process does not have. */
	case EVENT_NEIGH:
	case EVENT_QUERY:
	case EVENT_PATH: break;
	case EVENT_ANSWER: /* the event queue itself handles it */ break;
	}
}

static uint32_t collect_events(void) { return event_collect(EVENTS_MAX, take_event); }

static bool gives_up; /* under loop_lock: the start has failed, so the control thread ends */
static bool has_given_up(void) { return gives_up; }

static void *control_main(void *arg)
{
	static const struct loop_hooks hooks = { .until = has_given_up,
						 .collect = collect_events,
						 .turn_end = client_reap };

	loop_run(&hooks);
	return arg;
}

/* ---- end ---- */

/*
 * At the end of the process, RNIC_TOUCHED in the environment makes it print how many bytes of its connections it has
 * copied, and of how many it has computed CRCs. rnicd's counters have the bytes that rnicd copies; bytes that the
 * kernel copies are not counted.
 */
__attribute__((destructor)) static void tell_touched(void)
{
	const struct qp_stats *s = &ks.rc.qp.stats;

	if (getenv("RNIC_TOUCHED") != NULL)
		fprintf(stderr, "librnic: copied_tx %llu copied_rx %llu summed_tx %llu summed_rx %llu\n",
			(unsigned long long)s->copied_tx, (unsigned long long)s->copied_rx,
			(unsigned long long)s->summed_tx, (unsigned long long)s->summed_rx);
}

/* At the end of the process, RNIC_DROPPED in the environment makes it print what it has dropped, by cause. */
__attribute__((destructor)) static void tell_dropped(void)
{
	const struct qp_stats *s = &ks.rc.qp.stats;
	struct rnicd_port_stats sum = { .rx_packets = 0 };
	char line[512] = "";
	size_t at = 0;

	if (getenv("RNIC_DROPPED") == NULL)
		return;
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		const struct rnicd_port_stats *p = &rnicd.port[i]->stats[0];
		sum.rx_no_room += p->rx_no_room;
		sum.rx_moved_drops += p->rx_moved_drops;
		sum.tx_drops += p->tx_drops;
		sum.syn_evicted += p->syn_evicted;
		sum.rx_unanswered += p->rx_unanswered;
		sum.rx_no_flow += p->rx_no_flow;
		sum.gram_full += p->gram_full;
	}
	const struct {
		const char *name;
		uint64_t n;
	} drop[] = {
#define OF(from, name) { #name, (from)->name }
		OF(&sum, rx_no_room), OF(&sum, rx_moved_drops), OF(&sum, tx_drops), OF(&sum, syn_evicted),
		OF(&sum, rx_no_flow), OF(&sum, rx_unanswered),  OF(s, ud_crc),      OF(s, ud_bad),
		OF(s, ud_no_qp),      OF(s, ud_qkey),           OF(s, ud_no_recv),  OF(s, ud_incomplete),
		OF(s, ud_again),      OF(s, ud_refused),        OF(s, ud_full),     OF(&sum, gram_full),
#undef OF
	};
	for (uint32_t i = 0; i < RN_ARRAY_LEN(drop); i++)
		if (drop[i].n != 0)
			at += (size_t)snprintf(line + at, sizeof(line) - at, " %s %llu", drop[i].name,
					       (unsigned long long)drop[i].n);
	fprintf(stderr, "librnic: dropped:%s\n", at != 0 ? line : " nothing");
}

/* ---- start ---- */

/* Makes a thread with all signals blocked, so that the program's own threads handle them. Returns an errno. */
static int thread(pthread_t *t, void *(*main)(void *))
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	int rc = pthread_create(t, NULL, main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

/*
 * Makes both threads. The control thread waits for loop_lock until the other one is made. Returns an errno: then no
 * thread is left, and librnic may unload the library.
 */
static int threads(void)
{
	pthread_t control, progress;

	loop_lock();
	int rc = thread(&control, control_main);
	const bool waits = rc == 0;
	if (waits)
		rc = thread(&progress, ks_main);
	gives_up = rc != 0;
	loop_unlock();
	if (rc == 0) {
		pthread_detach(control);
		pthread_detach(progress);
	} else if (waits) {
		pthread_join(control, NULL);
	}
	return rc;
}

/* Lock order: a thread that holds loop_lock may wait for the holder of ks.lock, never the reverse. */
static void fork_prepare(void)
{
	loop_lock();
	pthread_mutex_lock(&ks.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&ks.lock);
	loop_unlock();
}

static void fork_child(void)
{
	fork_parent();
	ks_close_all();
	rn_list_each(struct client, c, &clients.all, link)
		close(c->src.fd);
}

static void no_sockets(struct client *c)
{
	client_error(c, EOPNOTSUPP, "an embedded device does not support TCP programs: run them without rnicrun");
}

static int start(struct ipc_own *own)
{
	struct rnicd_port_cfg like;

	if (!configure(&like, own->err))
		return EINVAL;
	ks.net = own->design == IPC_OWN_EMBEDDED ? &ks_net_kernel : &ks_net_host;
	ks.assisted = own->design == IPC_OWN_ASSISTED;
	rnicd.designs = own->design == IPC_OWN_EMBEDDED ? 1u << IPC_DESIGN_EMBEDDED
							: 1u << IPC_DESIGN_HOST | 1u << IPC_DESIGN_ASSISTED;
	rnicd.taker = &ks_taker;
	if (!ks.net->ports(&like, own->err, sizeof(own->err)))
		return ENODEV;
	if (!ks_start(own->err, sizeof(own->err)))
		return ENOMEM;
	fds_own_start();
	if (!loop_start() || !dev_start() || !client_start(-1)) {
		snprintf(own->err, sizeof(own->err), "no memory or file descriptors");
		return ENOMEM;
	}
	client_serve_sockets(no_sockets);
	cm_port_share(ks_hold, ks_hold_end);
	if (own->design == IPC_OWN_EMBEDDED)
		cm_port_share_udp(ks_pass_serve, ks_pass_serve_end);
	oob_start();
	const int rc = threads();
	if (rc != 0)
		snprintf(own->err, sizeof(own->err), "no thread can be made: %s", strerror(rc));
	return rc;
}

/* The library cannot be started again after this: librnic loads it anew. */
static void undo(void)
{
	dev_stop();
	loop_stop();
	ks_stop();
}

/* Starts the library, or finds it running. 0 or an errno with a sentence in own->err. */
static int running(struct ipc_own *own)
{
	static bool runs;
	static enum ipc_own_design design;

	if (runs && own->design == design)
		return 0;
	if (runs) {
		snprintf(own->err, sizeof(own->err), "the process has devices of another design already");
		return EBUSY;
	}
	int rc = start(own);
	if (rc != 0)
		undo();
	runs = rc == 0;
	design = own->design;
	return rc;
}

int rnic_embedded_start(struct ipc_own *own)
{
	int pair[2];

	if (own->version != IPC_VERSION) {
		snprintf(own->err, sizeof(own->err),
			 "librnic and librnic_embedded are from different releases: install "
			 "both from the same one");
		return EPROTO;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		int err = errno;
		snprintf(own->err, sizeof(own->err), "no socket can be made: %s", strerror(err));
		return err;
	}
	int rc = running(own);
	if (rc != 0) {
		close(pair[0]);
		close(pair[1]);
		return rc;
	}
	fcntl(pair[1], F_SETFL, O_NONBLOCK);
	loop_lock();
	user_start(); /* the program may have changed its limits meanwhile */
	client_adopt(pair[1]);
	loop_unlock();
	own->sock = pair[0];
	own->turn = ks_poll;
	own->fork_prepare = fork_prepare;
	own->fork_parent = fork_parent;
	own->fork_child = fork_child;
	return 0;
}

/* ---- the process that serves sockets ---- */

static volatile sig_atomic_t stop_asked, now_asked;
static uint64_t began_to_end;

static void on_term(int sig)
{
	stop_asked = sig;
	loop_poke();
}

/* Bytes that closed sockets have not sent are lost. */
static void on_int(int sig)
{
	now_asked = sig;
	on_term(sig);
}

/* RNIC_SOCKETS_END in the environment: seconds in place of END_S. */
static uint64_t end_ns(void)
{
	const char *s = getenv("RNIC_SOCKETS_END");
	const unsigned long n = s != NULL ? strtoul(s, NULL, 10) : 0;

	return rn_min_u64(n != 0 ? n : END_S, END_S_MAX) * RN_NS_PER_S;
}

static bool shall_stop(void) { return stop_asked != 0; }

/* Sockets that a process in the background has open get end_ns(). */
static bool sockets_ended(void)
{
	const uint64_t now = rnicd_now();

	if (now_asked != 0 || now >= began_to_end + END_MOST * end_ns())
		return true;
	pthread_mutex_lock(&ks.lock);
	const bool left = ks_sk_any_left(), waits = ks_ud_waits();
	pthread_mutex_unlock(&ks.lock);
	if (!sk_any())
		return !waits;
	return now >= began_to_end + end_ns() && !left;
}

static void serve_turn_end(void)
{
	sk_tell_closed();
	client_reap();
	sk_reap();
}

/* This process has no TCP and UDP of its own: only the kernel's sockets can become its sockets. */
static void kernels_only(struct client *c)
{
	switch ((int)c->req.type) {
	case IPC_SOCK_BIND:
	case IPC_SOCK_CONNECT:
	case IPC_SOCK_GRAM: client_error(c, EOPNOTSUPP, "without rnicd, only the kernel's sockets are there"); break;
	case IPC_SOCK_TAKE: sk_take(c); break;
	case IPC_SOCK_CLOSED: sk_await_closed(c); break;
	case IPC_SOCK_OPTION: sk_option(c); break;
	default: sk_request(c); break;
	}
}

/* Root's program may change its user, so the process beside it serves all users (app/rnicrun/companion.c). */
static bool serves_all_users(void) { return geteuid() == 0; }

static bool serve_start(int listen_fd, char err[IPC_OWN_ERR])
{
	struct rnicd_port_cfg like;
	struct rlimit files;

	snprintf(err, IPC_OWN_ERR, "no memory or file descriptors");
	fds_pass_kernels();
	if (!serves_all_users())
		fds_own_start();
	else if (!fds_start())
		return false;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (!configure(&like, err))
		return false;
	if (serves_all_users())
		rnicd.cfg.user_share = SHARE_OF_ONE;
	ks.net = &ks_net_kernel;
	ks.serves = true;
	rnicd.designs = 1u << IPC_DESIGN_EMBEDDED;
	rnicd.taker = &ks_taker;
	if (!ks.net->ports(&like, err, IPC_OWN_ERR) || !ks_start(err, IPC_OWN_ERR))
		return false;
	user_start();
	client_serve_only_sockets(kernels_only);
	snprintf(err, IPC_OWN_ERR, "no memory or file descriptors");
	return loop_start() && dev_start() && client_start(listen_fd);
}

static void serve_until_stopped(void (*ready)(void))
{
	static const struct loop_hooks serving = { .until = shall_stop,
						   .collect = collect_events,
						   .turn_end = serve_turn_end };
	static const struct loop_hooks ending = { .until = sockets_ended,
						  .collect = collect_events,
						  .turn_end = serve_turn_end };
	const struct sigaction stop = { .sa_handler = on_term }, at_once = { .sa_handler = on_int };

	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGINT, &at_once, NULL); /* rnicrun's, never a terminal's: this process has a group of its own */
	signal(SIGPIPE, SIG_IGN);
	ready();
	loop_run(&serving);
	loop_lock();
	client_stop();
	loop_unlock();
	pthread_mutex_lock(&ks.lock);
	ks_sk_end_soon(end_ns());
	pthread_mutex_unlock(&ks.lock);
	bell_ring(0);
	began_to_end = rnicd_now();
	loop_run(&ending);
	pthread_mutex_lock(&ks.lock);
	ks_ud_last();
	pthread_mutex_unlock(&ks.lock);
}

int rnic_embedded_serve(int listener, void (*ready)(void))
{
	char err[IPC_OWN_ERR] = "";
	pthread_t progress;

	if (!serve_start(listener, err) || thread(&progress, ks_main) != 0) {
		fprintf(stderr, "cannot serve sockets: %s\n", err);
		return 1;
	}
	serve_until_stopped(ready);
	tell_dropped(); /* the process ends by _exit() */
	return 0;
}
