/* SPDX-License-Identifier: BSD-3-Clause */
/* The prompt's thread reads commands; a run has a thread of its own, so that stop and show work while it goes on. */
#include "tp_shell.h"
#include "tp_clock.h"
#include "tp_input.h"
#include "tp_prompt.h"
#include "tp_sweep.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct shell {
	struct tp_opts *o;     /* the settings that "set" changes */
	struct tp_opts of_run; /* the settings of the run */
	struct tp_results results;
	struct tp_progress progress;
	struct tp_report report;
	struct tp_input in;
	int done; /* an eventfd: the run is over */
	pthread_t thread;
	bool started; /* the thread exists and is not joined */
	atomic_bool running, stop;
	struct tp_sweep_sum sum;
};

static void *run_thread(void *arg)
{
	struct shell *sh = arg;
	struct tp_client_env env = { &sh->stop, &sh->progress };

	tp_report_begin(&sh->report, stdout, TP_TEXT, NULL);
	sh->sum = tp_sweep(&sh->of_run, &env, &(struct tp_sweep_to){ &sh->report, &sh->results, false });
	tp_report_end(&sh->report);
	atomic_store(&sh->running, false);
	eventfd_write(sh->done, 1);
	return NULL;
}

static void join(struct shell *sh)
{
	if (sh->started)
		pthread_join(sh->thread, NULL);
	sh->started = false;
}

/* A signal ends the run. */
static void wait_for_run(struct shell *sh)
{
	if (sh->started && tp_input_signal(&sh->in, sh->done))
		atomic_store(&sh->stop, true);
	join(sh);
}

static void start(struct shell *sh)
{
	struct tp_err err;

	if (atomic_load(&sh->running)) {
		puts("a run is going on: stop it first, or wait");
		return;
	}
	join(sh);
	if (sh->o->host[0] == '\0') {
		puts("no server named: \"set host ADDRESS\" first");
		return;
	}
	if (tp_opts_check(sh->o, &err) != TP_OK) {
		puts(err.text);
		return;
	}
	sh->of_run = *sh->o;
	eventfd_t before;
	eventfd_read(sh->done, &before);
	atomic_store(&sh->stop, false);
	atomic_store(&sh->running, true);
	sh->started = pthread_create(&sh->thread, NULL, run_thread, sh) == 0;
	if (!sh->started) {
		atomic_store(&sh->running, false);
		puts("cannot start a thread");
	}
}

static void stop(struct shell *sh)
{
	if (!atomic_load(&sh->running)) {
		puts("nothing is running");
		return;
	}
	atomic_store(&sh->stop, true);
	join(sh);
}

static void show_stats(struct shell *sh)
{
	struct tp_report rep;
	char line[160];

	pthread_mutex_lock(&sh->results.lock);
	tp_report_begin(&rep, stdout, TP_TEXT, NULL);
	for (unsigned i = 0; i < sh->results.n; i++)
		tp_report_row(&rep, &sh->results.list[i]);
	tp_report_end(&rep);
	if (tp_progress_format(&sh->progress, &sh->results.running, tp_now(), line, sizeof(line)))
		printf("running: %s\n", line);
	else if (sh->results.n == 0)
		puts("no results yet: start");
	pthread_mutex_unlock(&sh->results.lock);
}

static void show_config(const struct shell *sh)
{
	char value[1024];

	for (unsigned i = 0; i < tp_n_settings; i++) {
		if (tp_settings[i].show == NULL || tp_settings[i].cli_only)
			continue;
		value[0] = '\0';
		tp_settings[i].show(sh->o, value, sizeof(value));
		printf("  %-14s %s\n", tp_settings[i].name, value);
	}
}

static void set(struct shell *sh, const struct tp_command *cmd)
{
	struct tp_err err;

	for (unsigned i = 0; i < tp_n_settings; i++) {
		if (strcmp(tp_settings[i].name, cmd->key) == 0 && tp_settings[i].cli_only &&
		    strcmp(cmd->key, "sizes") != 0) {
			printf("%s belongs on the command line\n", cmd->key);
			return;
		}
	}
	if (tp_opts_set(sh->o, cmd->key, cmd->value[0] ? cmd->value : NULL, &err) != TP_OK)
		puts(err.text);
}

/* false: leave */
static bool execute(struct shell *sh, const struct tp_command *cmd)
{
	switch (cmd->verb) {
	case TP_CMD_EMPTY: break;
	case TP_CMD_SET: set(sh, cmd); break;
	case TP_CMD_START: start(sh); break;
	case TP_CMD_STOP: stop(sh); break;
	case TP_CMD_SHOW_STATS: show_stats(sh); break;
	case TP_CMD_SHOW_CONFIG: show_config(sh); break;
	case TP_CMD_CLEAR_STATS:
		pthread_mutex_lock(&sh->results.lock);
		sh->results.n = 0;
		pthread_mutex_unlock(&sh->results.lock);
		break;
	case TP_CMD_WAIT: wait_for_run(sh); break;
	case TP_CMD_HELP: fputs(tp_prompt_help, stdout); break;
	case TP_CMD_QUIT: return false;
	}
	return true;
}

int tp_shell(struct tp_opts *o, int in, int signals)
{
	static struct shell sh = { .results = { .lock = PTHREAD_MUTEX_INITIALIZER } };
	bool person = isatty(in), go_on = true;
	struct tp_command cmd;
	struct tp_err err;
	char line[1024];

	sh.o = o;
	sh.in = (struct tp_input){ .fd = in, .signal = signals };
	sh.done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	while (go_on) {
		if (person) {
			fputs("testpmd-rdma> ", stdout);
			fflush(stdout);
		}
		enum tp_in got = tp_input_line(&sh.in, line);
		if (got == TP_IN_SIGNAL && atomic_load(&sh.running)) {
			putchar('\n');
			stop(&sh);
			continue;
		}
		if (got != TP_IN_LINE) /* a signal without a run ends the prompt */
			break;
		if (tp_prompt_parse(line, &cmd, &err) != TP_OK)
			puts(err.text);
		else
			go_on = execute(&sh, &cmd);
		fflush(stdout);
	}
	atomic_store(&sh.stop, true);
	join(&sh);
	free(sh.results.list);
	close(sh.done);
	return sh.sum.failed + sh.sum.wrong > 0 ? 1 : 0;
}
