/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/eal_args.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "plane/rundir.h"

__attribute__((format(printf, 2, 3))) static void arg(struct eal_args *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->text[a->n], EAL_ARG_LEN, fmt, ap);
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
static void lcore_arg(struct eal_args *a)
{
	char any[EAL_ARG_LEN / 4], map[EAL_ARG_LEN];
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

void eal_args(struct eal_args *a)
{
	bool pci = false;

	arg(a, "rnicd");
	lcore_arg(a);
	if (rnicd.cfg.hugepages) {
		arg(a, "--in-memory");
	} else {
		/* EAL accepts --no-huge with legacy memory only, and refuses it together with --in-memory */
		arg(a, "--no-shconf");
		arg(a, "--no-huge");
		arg(a, "-m");
		arg(a, "%u", rnicd.cfg.memory_mb);
	}
	if (rnicd.cfg.file_prefix[0] != '\0')
		arg(a, "--file-prefix=%s", rnicd.cfg.file_prefix);
	else
		arg(a, "--file-prefix=" RUNDIR_PREFIX "%d", (int)getpid());
	if (rundir_fault() != NULL)
		arg(a, "--no-telemetry");
	/*
	 * DPDK may touch only those NICs of the machine that the configuration names: others may belong to another
	 * process
	 */
	for (uint32_t i = 0; i < rnicd.cfg.n_ports + rnicd.cfg.n_paths; i++) {
		if (rnicd.cfg.port[i].kind == RNICD_PORT_PCI) {
			arg(a, "--allow=%s", rnicd.cfg.port[i].args);
			pci = true;
		}
	}
	if (!pci)
		arg(a, "--no-pci");
	/* the tap driver logs an error for each offload that the kernel's tap lacks, although it works without */
	arg(a, "--log-level=pmd.net.tap:%s", rnicd.cfg.log_level >= RNICD_LOG_DEBUG ? "info" : "critical");
	/* the memif driver would log at every attempt that the server is not there yet; control/link.c says so once */
	arg(a, "--log-level=pmd.net.memif:%s", rnicd.cfg.log_level >= RNICD_LOG_DEBUG ? "info" : "critical");
	/* last, since EAL applies the first pattern that fits to a driver that is loaded later */
	arg(a, "--log-level=*:%s", rnicd.cfg.log_level >= RNICD_LOG_DEBUG ? "info" : "error");
}
