/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start and stop of the data plane: EAL, ports, workers.
 */
#include <errno.h>
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
#include "plane/eal_args.h"
#include "plane/intr_thread.h"
#include "plane/port.h"
#include "plane/rundir.h"
#include "plane/frame.h"
#include "plane/worker_int.h"

#define STOP_POLL_US 200u

struct rnicd_worker *worker_at[RNICD_MAX_WORKERS];

/* ---- EAL ---- */

static bool start_eal(char *err, uint32_t err_len)
{
	static struct eal_args a; /* EAL keeps pointers to its arguments */

	eal_args(&a);
	/* exit handlers run last one first: EAL's own, that takes its socket away, before this */
	rundir_remove_at_exit();
	if (rte_eal_init(a.n, a.v) >= 0) {
		rundir_is(rte_eal_get_runtime_dir());
		if (frame_init())
			return true;
		snprintf(err, err_len, "DPDK has no flag of packets left for the daemon: %s", rte_strerror(rte_errno));
		return false;
	}
	snprintf(err, err_len, "DPDK cannot start: %s%s", rte_strerror(rte_errno),
		 rnicd.cfg.hugepages ? " (are there free hugepages? the configuration can do without)" : "");
	return false;
}

const char *rnicd_dataplane_no_telemetry(void)
{
	const char *why = rundir_fault();

	return why != NULL ? why : "DPDK did not start it";
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

/* Timers of the worker expire at their time, not some 50 us later (timer slack). */
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
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		conn_tcp_init(rnicd.port[i]);
		stream_tcp_init(i, conn_tcp_cfg(i, 0));
	}
	if (start_workers(err, err_len))
		return true;
	rnicd_dataplane_stop();
	return false;
}

void rnicd_dataplane_exit(void)
{
	intr_thread_end();
	rte_eal_cleanup();
}

/* rte_eal_wait_lcore() spins, perhaps on the CPU that the worker needs: it is called after the worker has ended. */
static void wait_for_end(unsigned int lcore)
{
	while (rte_eal_get_lcore_state(lcore) == RUNNING)
		usleep(STOP_POLL_US);
	rte_eal_wait_lcore(lcore);
}

void rnicd_dataplane_stop(void)
{
	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		__atomic_store_n(&worker_at[i]->sh.stop, 1, __ATOMIC_RELAXED);
		bell_ring(i);
	}
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		wait_for_end(worker_at[i]->lcore);
	/* frames of any pool may be anywhere: all frames are freed before the pools */
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
