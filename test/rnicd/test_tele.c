/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of telemetry while a question is being answered. The test plays DPDK and the other parts of rnicd. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_telemetry.h>

#include "border/news.h"
#include "control/admin.h"
#include "control/client.h"
#include "control/fds.h"
#include "control/group.h"
#include "control/oob.h"
#include "control/reload.h"
#include "control/tele.h"
#include "control/tele_ask.h"
#include "control/tele_dgram.h"
#include "control/tele_page.h"
#include "control/tele_port.h"

#define EARLY_MS 300 /* time in which a tele_stop() that does not wait would have returned */

/* ---- what the file under test uses ---- */

struct clients clients;
struct client_totals client_totals;
struct fds_totals fds_totals;
struct oob_totals oob_totals;

/* The command that lists the ports, as DPDK has it. */
static telemetry_cb ports;
static bool full; /* DPDK has no room for the command that lists the workers */
int rte_telemetry_register_cmd(const char *cmd, telemetry_cb fn, const char *help)
{
	(void)help;
	if (strcmp(cmd, "/rnic/ports") == 0)
		ports = fn;
	return full && strcmp(cmd, "/rnic/workers") == 0 ? -ENOMEM : 0;
}
const char *rte_eal_get_runtime_dir(void) { return "/nowhere"; }
uint64_t rte_get_tsc_hz(void) { return 1; }
int rte_tel_data_start_array(struct rte_tel_data *d, enum rte_tel_value_type type)
{
	(void)d;
	(void)type;
	return 0;
}
int rte_tel_data_start_dict(struct rte_tel_data *d)
{
	(void)d;
	return 0;
}
int rte_tel_data_string(struct rte_tel_data *d, const char *s)
{
	(void)d;
	(void)s;
	return 0;
}
int rte_tel_data_add_dict_string(struct rte_tel_data *d, const char *name, const char *v)
{
	(void)d;
	(void)name;
	(void)v;
	return 0;
}

int rte_tel_data_add_dict_u64(struct rte_tel_data *d, const char *name, uint64_t v)
{
	(void)d;
	(void)name;
	(void)v;
	return 0;
}

void loop_lock(void) {}
void loop_unlock(void) {}
bool admin_set(const char *order, char *say)
{
	(void)order;
	(void)say;
	return false;
}
bool admin_drop_client(const char *number, char *say)
{
	(void)number;
	(void)say;
	return false;
}
bool reload_under_way(void) { return false; }
const struct rn_list *group_list(void)
{
	static const struct rn_list none;

	return &none;
}
struct tele_page tele_page_of(const char *params)
{
	(void)params;
	return (struct tele_page){ .skip = 0 };
}
void tele_add_line(struct rte_tel_data *d, struct tele_page *page, const char *fmt, ...)
{
	(void)d;
	(void)page;
	(void)fmt;
}
void tele_ask_stop(void) {}
struct tele_conn *tele_conns(uint32_t number, uint32_t skip, uint32_t *n)
{
	(void)number;
	(void)skip;
	*n = 0;
	return NULL;
}
bool tele_workers(struct look_worker out[RNICD_MAX_WORKERS])
{
	(void)out;
	return false;
}
bool tele_listeners(struct look_listener out[LOOK_LISTENERS], uint32_t *n)
{
	(void)out;
	*n = 0;
	return false;
}
int tele_tell_flows(const char *cmd, const char *params, struct rte_tel_data *d)
{
	(void)cmd;
	(void)params;
	(void)d;
	return 0;
}
int tele_tell_records(const char *cmd, const char *params, struct rte_tel_data *d)
{
	(void)cmd;
	(void)params;
	(void)d;
	return 0;
}

/* The list of the ports: an answer that takes as long as the test likes. */
static sem_t begun, may_end;
static bool ended;
int tele_ports(const char *cmd, const char *params, struct rte_tel_data *d)
{
	(void)cmd;
	(void)params;
	(void)d;
	sem_post(&begun);
	while (sem_wait(&may_end) != 0)
		;
	__atomic_store_n(&ended, true, __ATOMIC_RELEASE);
	return 0;
}

/* ---- tests ---- */

static void *asks(void *arg)
{
	(void)ports("/rnic/ports", NULL, arg);
	return NULL;
}

static sem_t stopped;
static void *stops(void *arg)
{
	bool *seen = arg; /* whether the answer had ended when tele_stop() returned */

	tele_stop();
	*seen = __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
	sem_post(&stopped);
	return NULL;
}

/* DPDK keeps the commands that it has taken, and rnicd ends. */
static void no_question_is_answered_after_a_start_that_failed(void **state)
{
	(void)state;
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 1);
	full = true;
	assert_false(tele_start());
	full = false;
	assert_int_equal(ports("/rnic/ports", NULL, NULL), -ESHUTDOWN);
}

/* After tele_stop() the daemon frees its ports, which an answer reads. */
static void the_end_waits_for_the_answer_under_way(void **state)
{
	pthread_t question, end;
	struct timespec until;
	bool seen = false;

	(void)state;
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 0);
	sem_init(&stopped, 0, 0);
	assert_true(tele_start());
	assert_int_equal(pthread_create(&question, NULL, asks, NULL), 0);
	while (sem_wait(&begun) != 0)
		;
	assert_int_equal(pthread_create(&end, NULL, stops, &seen), 0);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += EARLY_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	const bool early = sem_timedwait(&stopped, &until) == 0;
	sem_post(&may_end);
	pthread_join(question, NULL);
	pthread_join(end, NULL);
	assert_false(early);
	assert_true(seen);
	assert_int_equal(ports("/rnic/ports", NULL, NULL), -ESHUTDOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_question_is_answered_after_a_start_that_failed),
		cmocka_unit_test(the_end_waits_for_the_answer_under_way),
	};

	return cmocka_run_group_tests_name("tele", tests, NULL, NULL);
}
