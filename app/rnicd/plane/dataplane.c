/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start and stop of the data plane: EAL, ports, workers.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "base/rn_rng.h"
#include "plane/dataplane.h"
#include "plane/port.h"
#include "plane/rundir.h"
#include "plane/worker_int.h"

#define ARGS_MAX          24u
#define ARG_LEN           512u

struct rnicd_worker *worker_at[RNICD_MAX_WORKERS];

/* ---- EAL ---- */

struct args {
	int n;
	char text[ARGS_MAX][ARG_LEN];
	char *v[ARGS_MAX + 1];
};

__attribute__((format(printf, 2, 3))) static void arg(struct args *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->text[a->n], ARG_LEN, fmt, ap);
	va_end(ap);
	a->v[a->n] = a->text[a->n];
	a->v[++a->n] = NULL;
}

/* The CPUs this process may run on, as "(0,1,5)". */
static void allowed_cpus(char *out, size_t len)
{
	cpu_set_t set;
	size_t at = 0;

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = 0; cpu < CPU_SETSIZE && at + 8 < len; cpu++) {
		if (CPU_ISSET(cpu, &set))
			at += (size_t)snprintf(out + at, len - at, "%c%d", at == 0 ? '(' : ',', cpu);
	}
	snprintf(out + at, len - at, ")");
}

/* DPDK lcore 0 is the control thread, worker w is lcore w + 1, wherever they run. */
static void lcore_arg(struct args *a)
{
	char any[ARG_LEN / 4], map[ARG_LEN];
	size_t at;

	allowed_cpus(any, sizeof(any));
	if (rnicd.cfg.control_cpu != UINT16_MAX)
		at = (size_t)snprintf(map, sizeof(map), "0@%u", rnicd.cfg.control_cpu);
	else
		at = (size_t)snprintf(map, sizeof(map), "0@%s", any);
	for (uint32_t i = 0; i < rnicd.cfg.n_workers && at < sizeof(map); i++) {
		if (rnicd.cfg.pin)
			at += (size_t)snprintf(map + at, sizeof(map) - at, ",%u@%u", i + 1, rnicd.cfg.lcore[i]);
		else
			at += (size_t)snprintf(map + at, sizeof(map) - at, ",%u@%s", i + 1, any);
	}
	arg(a, "--lcores=%s", map);
	arg(a, "--main-lcore=0");
}

static bool start_eal(char *err, uint32_t err_len)
{
	static struct args a; /* EAL keeps pointers to its arguments */
	bool pci = false;

	arg(&a, "rnicd");
	lcore_arg(&a);
	if (rnicd.cfg.hugepages) {
		arg(&a, "--in-memory");
	} else {
		/* EAL takes no-huge for legacy memory and will not have it with in-memory */
		arg(&a, "--no-shconf");
		arg(&a, "--no-huge");
		arg(&a, "-m");
		arg(&a, "%u", rnicd.cfg.memory_mb);
	}
	if (rnicd.cfg.file_prefix[0] != '\0')
		arg(&a, "--file-prefix=%s", rnicd.cfg.file_prefix);
	else
		arg(&a, "--file-prefix=" RUNDIR_PREFIX "%d", (int)getpid());
	for (uint32_t i = 0; i < rnicd.cfg.n_ports; i++)
		pci |= rnicd.cfg.port[i].kind == RNICD_PORT_PCI;
	if (!pci)
		arg(&a, "--no-pci");
	/* it says "error" for each ability that the kernel's tap lacks and it can do without */
	arg(&a, "--log-level=pmd.net.tap:%s", rnicd.cfg.log_level >= RNICD_LOG_DEBUG ? "info" : "critical");
	/* nor must it say every time that a server is not there yet: control/link.c says so once */
	arg(&a, "--log-level=pmd.net.memif:%s", rnicd.cfg.log_level >= RNICD_LOG_DEBUG ? "info" : "critical");
	/* of the patterns that fit a driver loaded later EAL takes the first one given */
	arg(&a, "--log-level=*:%s", rnicd.cfg.log_level >= RNICD_LOG_DEBUG ? "info" : "error");
	rundir_remove_at_exit(); /* exit handlers run last one first: EAL's own, that takes its socket away, before this */
	if (rte_eal_init(a.n, a.v) >= 0) {
		rundir_is(rte_eal_get_runtime_dir());
		return true;
	}
	snprintf(err, err_len, "DPDK cannot start: %s%s", rte_strerror(rte_errno),
		 rnicd.cfg.hugepages ? " (are there free hugepages? the configuration can do without)" : "");
	return false;
}

/* ---- start and stop ---- */

static bool make_secrets(char *err, uint32_t err_len)
{
	if (rnicd.cfg.seed != 0) {
		struct rn_rng rng;
		rn_rng_seed(&rng, rnicd.cfg.seed);
		for (size_t i = 0; i < RN_ARRAY_LEN(rnicd.secret); i++)
			rnicd.secret[i] = rn_rng_u64(&rng);
		return true;
	}
	if (getrandom(rnicd.secret, sizeof(rnicd.secret), 0) == (ssize_t)sizeof(rnicd.secret))
		return true;
	snprintf(err, err_len, "the system has no random numbers: %s", strerror(errno));
	return false;
}

/* The worker wakes when it asked to, not some 50 us later. */
static int worker_thread(void *w)
{
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	return worker_main(w);
}

static bool start_workers(char *err, uint32_t err_len)
{
	for (uint32_t i = 0; i < rnicd.cfg.n_workers; i++) {
		worker_at[i] = worker_create(i, err, err_len);
		if (worker_at[i] == NULL)
			return false;
		rnicd.n_workers = i + 1;
	}
	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		struct rnicd_worker *w = worker_at[i];
		int rc = rte_eal_remote_launch(worker_thread, w, w->lcore);
		if (rc != 0) {
			snprintf(err, err_len, "worker %u cannot be started: %s", i, strerror(-rc));
			return false;
		}
	}
	return true;
}

bool rnicd_dataplane_start(char *err, uint32_t err_len)
{
	static bool eal;

	if (!make_secrets(err, err_len))
		return false;
	if (!eal && !start_eal(err, err_len))
		return false;
	eal = true;
	if (!event_start(rnicd.cfg.n_workers, err, err_len))
		return false;
	if (!port_start_all(err, err_len)) {
		event_stop();
		return false;
	}
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		conn_tcp_init(rnicd.port[i]);
	if (start_workers(err, err_len))
		return true;
	rnicd_dataplane_stop();
	return false;
}

void rnicd_dataplane_exit(void) { rte_eal_cleanup(); }

void rnicd_dataplane_stop(void)
{
	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		__atomic_store_n(&worker_at[i]->sh.stop, 1, __ATOMIC_RELAXED);
		bell_ring(i);
	}
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		rte_eal_wait_lcore(worker_at[i]->lcore);
	/* frames of any pool may be anywhere: first all frames go, then the pools */
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		worker_drain(worker_at[i]);
	port_close_all();
	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		worker_destroy(worker_at[i]);
		worker_at[i] = NULL;
	}
	rnicd.n_workers = 0;
	port_free_all();
	event_stop();
}
