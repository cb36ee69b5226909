/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_about.h"
#include "tp_cli.h"
#include "tp_plot.h"
#include "tp_server.h"
#include "tp_shell.h"
#include "tp_sweep.h"
#include "version/version.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EXIT_GOOD = 0, EXIT_RUN = 1, EXIT_USAGE = 2 };

static atomic_bool stop_wanted;
static int stop_event = -1; /* eventfd by which the prompt learns of the stop */

static void on_signal(int sig)
{
	/* The first signal ends the run; the second one ends the program at once. */
	signal(sig, SIG_DFL);
	atomic_store(&stop_wanted, true);
	eventfd_write(stop_event, 1);
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal }; /* no SA_RESTART: poll returns */

	stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static enum tp_verdict pin(int cpu, struct tp_err *err)
{
	cpu_set_t set;

	if (cpu < 0)
		return TP_OK;
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu % CPU_SETSIZE, &set);
	if (cpu < CPU_SETSIZE && sched_setaffinity(0, sizeof(set), &set) == 0)
		return TP_OK;
	return tp_fail(err, TP_BAD_OPTION,
		       "cannot run on CPU %d: \"nproc\" and \"taskset -p $$\" show the allowed CPUs", cpu);
}

static int client(const struct tp_opts *o)
{
	static struct tp_progress progress;
	struct tp_client_env env = { &stop_wanted, &progress };
	struct tp_sweep_sum sum;
	struct tp_report rep;
	struct tp_about about;
	struct tp_results keep = { .lock = PTHREAD_MUTEX_INITIALIZER };
	const bool plot = o->plot[0] != '\0';
	enum tp_verdict drawn = TP_OK;
	struct tp_err err;

	if (plot && tp_plot_ready(&err) != TP_OK) {
		fprintf(stderr, "testpmd-rdma: %s\n", err.text);
		return EXIT_USAGE;
	}
	tp_about_fill(&about);
	tp_report_begin(&rep, stdout, o->format, &about);
	sum = tp_sweep(o, &env, &(struct tp_sweep_to){ &rep, plot ? &keep : NULL, !o->quiet && isatty(STDERR_FILENO) });
	tp_report_end(&rep);
	if (plot && keep.n > 0)
		drawn = tp_plot_draw(o->plot, &about, keep.list, keep.n, &err);
	if (drawn != TP_OK)
		fprintf(stderr, "testpmd-rdma: %s\n", err.text);
	free(keep.list);
	return sum.failed + sum.wrong > 0 || rep.rows == 0 || drawn != TP_OK ? EXIT_RUN : EXIT_GOOD;
}

int main(int argc, char **argv)
{
	struct tp_opts o;
	struct tp_err err;
	enum tp_verdict v;

	tp_opts_default(&o);
	switch (tp_cli_parse(&o, argc, argv, &err)) {
	case TP_CLI_HELP: tp_cli_help(stdout); return EXIT_GOOD;
	case TP_CLI_VERSION: printf("testpmd-rdma %s\n", version_text); return EXIT_GOOD;
	case TP_CLI_BAD: fprintf(stderr, "testpmd-rdma: %s\n", err.text); return EXIT_USAGE;
	case TP_CLI_RUN: break;
	}
	if (o.design[0] != '\0' && setenv("RNIC_DESIGN", o.design, 1) != 0) {
		fputs("testpmd-rdma: no memory\n", stderr);
		return EXIT_USAGE;
	}
	v = pin(o.cpu, &err);
	if (v != TP_OK) {
		fprintf(stderr, "testpmd-rdma: %s\n", err.text);
		return EXIT_USAGE;
	}
	catch_signals();
	if (o.interactive)
		return tp_shell(&o, STDIN_FILENO, stop_event);
	if (!o.server)
		return client(&o);
	v = tp_server(&o, &stop_wanted, &err);
	if (v != TP_OK)
		fprintf(stderr, "testpmd-rdma: %s\n", err.text);
	return v == TP_OK ? EXIT_GOOD : EXIT_RUN;
}
