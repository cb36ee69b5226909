/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The callbacks run in DPDK's telemetry thread. While they read the control thread's objects they hold loop_lock(),
 * which stops the control thread. They ask the workers by command for values that belong to a worker (tele_ask.c).
 */
#include "control/tele.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_telemetry.h>

#include "border/news.h"
#include "control/addr_text.h"
#include "control/admin.h"
#include "control/client.h"
#include "control/cm.h"
#include "control/group.h"
#include "control/oob.h"
#include "control/loop.h"
#include "control/reload.h"
#include "control/tele_ask.h"
#include "control/tele_dgram.h"
#include "control/tele_page.h"
#include "control/tele_port.h"

const char *tele_path(void)
{
	static char path[512];

	struct stat st;

	snprintf(path, sizeof(path), "%s/dpdk_telemetry.v2", rte_eal_get_runtime_dir());
	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode) ? path : NULL;
}

#define U64(d, name, v)  rte_tel_data_add_dict_u64(d, name, (uint64_t)(v))
#define TEXT(d, name, v) rte_tel_data_add_dict_string(d, name, v)

/* ---- clients, QPs ---- */

static int on_clients(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct tele_page page = tele_page_of(params);
	int rc = tele_list_wanted(params) ? 0 : -ENOENT;

	(void)cmd;
	if (tele_list_wanted(params))
		rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	loop_lock();
	rn_list_each(const struct client, c, &clients.all, link) {
		if (tele_list_wanted(params)) {
			tele_add_line(d, &page, "%u pid %d uid %u qps %u mrs %u bytes %llu%s", c->id, (int)c->pid,
				      (unsigned)c->uid, c->qp.live, c->mr.live, (unsigned long long)c->memory,
				      c->state == CLIENT_DYING ? " dying" : "");
		} else if (tele_number(params) == c->id) {
			rte_tel_data_start_dict(d);
			U64(d, "pid", c->pid);
			U64(d, "uid", c->uid);
			U64(d, "state", c->state);
			U64(d, "pds", c->pd.live);
			U64(d, "mrs", c->mr.live);
			U64(d, "registered_bytes", c->memory);
			U64(d, "cqs", c->cq.live);
			U64(d, "qps", c->qp.live);
			U64(d, "srqs", c->srq.live);
			U64(d, "channels", c->chan.live);
			U64(d, "cm_ids", c->cm.live);
			U64(d, "queue_slots", c->slots);
			rc = 0;
		}
	}
	loop_unlock();
	return rc;
}

static void tell_qp(struct rte_tel_data *d, const struct client_qp *q)
{
	rte_tel_data_start_dict(d);
	U64(d, "qpn", q->qpn);
	U64(d, "client", q->c->id);
	TEXT(d, "device", rnicd.port[q->pd->dev]->cfg->name);
	U64(d, "worker", q->worker);
	TEXT(d, "state", qp_state_name(qp_get_state(q->qp)));
	U64(d, "vendor_err", qp_get_vendor_err(q->qp));
	U64(d, "flushed", qp_get_flushed(q->qp));
	U64(d, "access", q->at.access);
}

static int on_qps(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct tele_page page = tele_page_of(params);
	int rc = tele_list_wanted(params) ? 0 : -ENOENT;

	(void)cmd;
	if (tele_list_wanted(params))
		rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	loop_lock();
	rn_list_each(const struct client, c, &clients.all, link) {
		const struct client_qp *q;
		for (uint32_t h = 0; (q = table_next(&c->qp, &h)) != NULL;) {
			if (tele_list_wanted(params)) {
				tele_add_line(d, &page, "%u client %u device %s worker %u %s", q->qpn, c->id,
					      rnicd.port[q->pd->dev]->cfg->name, q->worker,
					      qp_state_name(qp_get_state(q->qp)));
			} else if (tele_number(params) == q->qpn) {
				tell_qp(d, q);
				rc = 0;
			}
		}
	}
	loop_unlock();
	return rc;
}

static int on_groups(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct tele_page page = tele_page_of(params);
	char addr[INET6_ADDRSTRLEN];

	(void)cmd;
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	loop_lock();
	rn_list_each(const struct group, g, group_list(), link) {
		if (g->joins == 0 && g->qps == 0)
			continue;
		addr_text(g->addr.b, addr, sizeof(addr));
		tele_add_line(d, &page, "%s device %s ids %u qps %u", addr, rnicd.port[g->dev]->cfg->name, g->joins,
			      g->qps);
	}
	loop_unlock();
	return 0;
}

/* ---- connections ---- */

static void tell_conn(struct rte_tel_data *d, const struct tele_conn *t)
{
	uint64_t dropped = 0; /* received segments that TCP did not take */

	for (uint32_t i = TCPL_OK + 1; i < TCPL_VERDICT_COUNT; i++)
		dropped += t->look.stats.drops[i];
	rte_tel_data_start_dict(d);
	TEXT(d, "name", t->name);
	TEXT(d, "state", rc_state_name(t->look.state));
	TEXT(d, "tcp", tcpl_state_name(t->look.tcp.state));
	TEXT(d, "congestion", t->look.tcp.cc);
	U64(d, "worker", t->look.worker);
	U64(d, "mss", t->look.tcp.mss);
	U64(d, "cwnd", t->look.tcp.cwnd);
	U64(d, "ssthresh", t->look.tcp.ssthresh);
	U64(d, "in_flight", t->look.tcp.pipe);
	U64(d, "snd_wnd", t->look.tcp.snd_wnd);
	U64(d, "rcv_wnd", t->look.tcp.rcv_wnd);
	U64(d, "queued", t->look.tcp.queued);
	U64(d, "fpdus", t->look.tcp.chunks);
	U64(d, "fpdus_most", t->look.tcp.chunks_most);
	U64(d, "srtt_ns", t->look.tcp.srtt_ns);
	U64(d, "rttvar_ns", t->look.tcp.rttvar_ns);
	U64(d, "rto_ns", t->look.tcp.rto_ns);
	U64(d, "pace", t->look.tcp.pace);
	U64(d, "keepalive_ns", t->look.tcp.keep_idle_ns);
	U64(d, "bytes_in", t->look.stats.bytes_in);
	U64(d, "bytes_out", t->look.stats.bytes_out);
	U64(d, "segs_in", t->look.stats.segs_in);
	U64(d, "segs_out", t->look.stats.segs_out);
	U64(d, "retransmits", t->look.stats.rexmits);
	U64(d, "rtos", t->look.stats.rtos);
	U64(d, "tlps", t->look.stats.tlps);
	U64(d, "out_of_order", t->look.stats.ooo);
	U64(d, "out_of_order_dropped", t->look.stats.ooo_drops);
	U64(d, "duplicates", t->look.stats.dups);
	U64(d, "duplicate_acks", t->look.stats.dup_acks);
	U64(d, "idle_acks", t->look.stats.idle_acks);
	U64(d, "challenges", t->look.stats.challenges);
	U64(d, "dropped", dropped);
	U64(d, "crc", t->look.crc);
	U64(d, "markers_rx", t->look.rx_markers);
	U64(d, "markers_tx", t->look.tx_markers);
}

static int on_conns(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const bool list = tele_list_wanted(params);
	struct tele_page page = tele_page_of(params);
	const uint32_t number = list ? 0 : tele_number(params);
	uint32_t n = 0, rc = list ? 0 : 1;
	struct tele_conn *t = list || number != 0 ? tele_conns(number, page.skip, &n) : NULL;

	(void)cmd;
	if (t == NULL)
		return list || number != 0 ? -ENOMEM : -ENOENT;
	page.skip = 0; /* what the list has before this page has not been collected */
	if (list)
		rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (uint32_t i = 0; i < n; i++) {
		if (list) {
			tele_add_line(d, &page, "%u %s %s cwnd %u srtt %lluus retransmits %u", t[i].number, t[i].name,
				      tcpl_state_name(t[i].look.tcp.state), t[i].look.tcp.cwnd,
				      (unsigned long long)(t[i].look.tcp.srtt_ns / 1000), t[i].look.stats.rexmits);
		} else {
			tell_conn(d, &t[i]);
			rc = 0;
		}
	}
	free(t);
	return rc == 0 ? 0 : -ENOENT;
}

/* Lists the listeners of one worker; all workers have the same ones. */
static int on_listeners(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct tele_page page = tele_page_of(params);
	struct look_listener l[LOOK_LISTENERS];
	uint32_t n;

	(void)cmd;
	if (!tele_listeners(l, &n))
		return -ENOMEM;
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (uint32_t i = 0; i < n; i++)
		tele_add_line(d, &page, "%s %u", rnicd.port[l[i].port]->cfg->name, l[i].lport);
	return 0;
}

/* ---- workers, counters ---- */

static int tell_worker(const char *number, const struct look_worker *looks, struct rte_tel_data *d)
{
	static const char *const stage[STAGES] = {
		[STAGE_COMMANDS] = "cycles_commands",   [STAGE_RECEIVE] = "cycles_receive",
		[STAGE_DOORBELLS] = "cycles_doorbells", [STAGE_TIMERS] = "cycles_timers",
		[STAGE_SEND] = "cycles_send",           [STAGE_EFFECTS] = "cycles_effects",
		[STAGE_PORTS] = "cycles_ports",         [STAGE_IDLE] = "cycles_idle",
	};
	char *end;
	unsigned long i = strtoul(number, &end, 10);

	if (*end != '\0' || i >= rnicd.n_workers)
		return -ENOENT;
	const struct look_worker *w = &looks[i];
	rte_tel_data_start_dict(d);
	U64(d, "turns", w->turns);
	U64(d, "sleeps", w->sleeps);
	U64(d, "flushed_most", w->flushed_most);
	U64(d, "locals_most", w->locals_most);
	U64(d, "rung_most", w->rung_most);
	U64(d, "cycles_per_second", rte_get_tsc_hz());
	for (uint32_t s = 0; w->has_cycles && s < STAGES; s++)
		U64(d, stage[s], w->cycles[s]);
	return 0;
}

static int on_workers(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct tele_page page = tele_page_of(params);
	struct look_worker looks[RNICD_MAX_WORKERS];

	(void)cmd;
	if (!tele_workers(looks))
		return -ENOMEM;
	if (!tele_list_wanted(params))
		return tell_worker(params, looks, d);
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		const struct look_worker *w = &looks[i];
		if (rnicd.cfg.pin)
			tele_add_line(d, &page, "%u cpu %u turns %llu sleeps %llu", i, rnicd.cfg.lcore[i],
				      (unsigned long long)w->turns, (unsigned long long)w->sleeps);
		else
			tele_add_line(d, &page, "%u floating turns %llu sleeps %llu", i, (unsigned long long)w->turns,
				      (unsigned long long)w->sleeps);
	}
	return 0;
}

/* Adds to each 64-bit counter of a structure the counter of another one. */
static void sum_words(uint64_t *to, const uint64_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] += from[i];
}

static void sum_workers(const struct look_worker *looks, struct look_worker *sum)
{
	*sum = (struct look_worker){ .turns = 0 };
	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		sum_words((uint64_t *)(void *)&sum->qp, (const uint64_t *)(const void *)&looks[w].qp, sizeof(sum->qp));
		sum_words((uint64_t *)(void *)&sum->rd, (const uint64_t *)(const void *)&looks[w].rd, sizeof(sum->rd));
		sum_words((uint64_t *)(void *)&sum->rd_drops, (const uint64_t *)(const void *)&looks[w].rd_drops,
			  sizeof(sum->rd_drops));
		sum->connections += looks[w].connections;
		sum->half_open += looks[w].half_open;
		sum->blocks_used += looks[w].blocks_used;
		sum->rd_peers += looks[w].rd_peers;
		sum->rd_folds += looks[w].rd_folds;
		sum->rd_pairs += looks[w].rd_pairs;
	}
}

static int on_counters(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct look_worker looks[RNICD_MAX_WORKERS], sum;

	(void)cmd;
	(void)params;
	if (!tele_workers(looks))
		return -ENOMEM;
	rte_tel_data_start_dict(d);
	sum_workers(looks, &sum);
#define T(name) U64(d, #name, sum.qp.name)
	T(fpdus_in), T(fpdus_out), T(wqes), T(cqes), T(rwqes), T(bytes_placed), T(bytes_streamed), T(copied_tx),
		T(copied_rx), T(summed_tx), T(summed_rx), T(staged), T(ooo_placed), T(ooo_held), T(ooo_drops),
		T(flushed), T(locals);
	T(terms_sent), T(terms_rcvd), T(crc_errors), T(framing_errors), T(ddp_errors), T(rdmap_errors),
		T(access_errors);
	T(bad_wqes), T(bad_rings), T(cq_overruns), T(no_block), T(no_rec), T(no_setup), T(no_stage), T(no_copy),
		T(neg_errors);
	T(rnr_waits), T(rnr_timeouts), T(rnr_drops), T(hold_drops);
	T(ud_in), T(ud_out), T(ud_crc), T(ud_bad), T(ud_no_qp), T(ud_qkey), T(ud_no_recv), T(ud_too_long),
		T(ud_incomplete), T(ud_again), T(ud_full), T(ud_refused), T(xrc_refused);
	T(nudges), T(setup_timeouts), T(close_timeouts), T(resets), T(tcp_timeouts), T(opened), T(closed);
#undef T
#define T(name) U64(d, "rd_" #name, sum.rd.name)
	T(segs_in), T(segs_out), T(packs_out), T(held), T(refused), T(no_pair), T(no_work), T(evicted), T(bad),
		T(rnr_ends);
#undef T
#define T(name) U64(d, "rd_" #name, sum.rd_drops.name)
	T(no_peer), T(unknown), T(strange), T(twice), T(far), T(no_room), T(idle), T(again), T(lost);
#undef T
	U64(d, "connections", sum.connections);
	U64(d, "half_open", sum.half_open);
	U64(d, "blocks_used", sum.blocks_used);
	U64(d, "rd_peers", sum.rd_peers);
	U64(d, "rd_folds", sum.rd_folds);
	U64(d, "rd_pairs", sum.rd_pairs);
	U64(d, "qp_port_connections", oob_totals.up);
	U64(d, "qp_port_held", oob_totals.held);
	U64(d, "qp_port_displaced", oob_totals.displaced);
	U64(d, "qp_port_expired", oob_totals.expired);
	U64(d, "qp_port_bad", oob_totals.bad);
	U64(d, "qp_port_unwanted", oob_totals.unwanted);
	U64(d, "qp_port_strangers", oob_totals.strangers);
	U64(d, "qp_port_gave_up", oob_totals.gave_up);
	U64(d, "clients", clients.n);
	U64(d, "clients_accepted", client_totals.accepted);
	U64(d, "clients_refused", client_totals.refused);
	U64(d, "clients_dropped", client_totals.dropped);
	U64(d, "helper_jobs", fds_totals.jobs);
	U64(d, "helper_jobs_lost", fds_totals.lost);
	U64(d, "helper_jobs_running", fds_totals.running);
	U64(d, "helper_jobs_waiting", fds_totals.waiting);
	U64(d, "cq_events", client_totals.cq_events);
	U64(d, "requests", client_totals.requests);
	U64(d, "bad_requests", client_totals.bad_requests);
	return 0;
}

/* ---- events ---- */

/* Replaces quotation marks, backslashes and control characters, which DPDK's JSON functions cannot escape. */
static void plain_text(char *text)
{
	for (; *text != '\0'; text++)
		if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
			*text = *text == '"' ? '\'' : ' ';
}

/* Not under loop_lock: news.c has a lock of its own. */
static int on_events(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct news n;
	char line[NEWS_TEXT + 80];

	(void)cmd;
	if (tele_list_wanted(params)) {
		const uint64_t next = news_next();
		rte_tel_data_start_dict(d);
		U64(d, "next", next);
		U64(d, "oldest", news_get(0, &n) ? n.number : next);
		return 0;
	}
	if (!news_get(strtoull(params, NULL, 10), &n))
		return -ENOENT;
	plain_text(n.text);
	snprintf(line, sizeof(line), "%llu %llu %s %s", (unsigned long long)n.number, (unsigned long long)n.when,
		 news_kind_text(n.kind), n.text);
	return rte_tel_data_string(d, line);
}

/* ---- orders ---- */

static int on_order(bool (*order)(const char *words, char *say), const char *params, struct rte_tel_data *d)
{
	char say[ADMIN_SAY_MAX] = "";

	loop_lock();
	bool done = order(params != NULL ? params : "", say), again = !done && reload_under_way();
	loop_unlock();
	rte_tel_data_start_dict(d);
	U64(d, "done", done);
	U64(d, "again", again);
	say[TELE_LINE] = '\0'; /* DPDK refuses longer strings */
	TEXT(d, "say", say);
	return 0;
}

static int on_set(const char *cmd, const char *params, struct rte_tel_data *d)
{
	(void)cmd;
	return on_order(admin_set, params, d);
}

static int on_drop_client(const char *cmd, const char *params, struct rte_tel_data *d)
{
	(void)cmd;
	return on_order(admin_drop_client, params, d);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_left = PTHREAD_COND_INITIALIZER;
static bool going;      /* under gate */
static uint32_t inside; /* callbacks that run now; under gate */

/* True: tele_leave() follows. */
static bool tele_enter(void)
{
	pthread_mutex_lock(&gate);
	const bool may = going;
	inside += may;
	pthread_mutex_unlock(&gate);
	return may;
}

static void tele_leave(void)
{
	pthread_mutex_lock(&gate);
	if (--inside == 0)
		pthread_cond_signal(&all_left);
	pthread_mutex_unlock(&gate);
}

/* DPDK cannot unregister a command, and its thread runs until rte_eal_cleanup(). So each callback does nothing unless
 * `going`. */
#define GUARDED(fn) \
	static int fn##_guarded(const char *cmd, const char *params, struct rte_tel_data *d) \
	{ \
		if (!tele_enter()) \
			return -ESHUTDOWN; \
		const int rc = fn(cmd, params, d); \
		tele_leave(); \
		return rc; \
	}
GUARDED(tele_ports)
GUARDED(on_clients)
GUARDED(on_qps)
GUARDED(on_groups)
GUARDED(on_conns)
GUARDED(on_listeners)
GUARDED(tele_tell_flows)
GUARDED(tele_tell_records)
GUARDED(on_counters)
GUARDED(on_workers)
GUARDED(on_events)
GUARDED(on_set)
GUARDED(on_drop_client)

bool tele_start(void)
{
	const bool all =
		rte_telemetry_register_cmd("/rnic/ports", tele_ports_guarded,
					   "Lists the ports. Parameter: name; then all of one") == 0 &&
		rte_telemetry_register_cmd("/rnic/clients", on_clients_guarded,
					   "Lists the clients. Parameter: number") == 0 &&
		rte_telemetry_register_cmd("/rnic/qps", on_qps_guarded, "Lists the queue pairs. Parameter: QPN") == 0 &&
		rte_telemetry_register_cmd("/rnic/groups", on_groups_guarded, "Lists the multicast groups") == 0 &&
		rte_telemetry_register_cmd("/rnic/conns", on_conns_guarded,
					   "Lists the connections. Parameter: number") == 0 &&
		rte_telemetry_register_cmd("/rnic/listeners", on_listeners_guarded,
					   "Lists the TCP ports on which programs listen") == 0 &&
		rte_telemetry_register_cmd("/rnic/flows", tele_tell_flows_guarded,
					   "Lists the flows of reliable datagrams. Parameter: DEVICE/ADDRESS") == 0 &&
		rte_telemetry_register_cmd("/rnic/records", tele_tell_records_guarded,
					   "Lists the messages of several datagrams that are incomplete") == 0 &&
		rte_telemetry_register_cmd(
			"/rnic/events", on_events_guarded,
			"Numbers of the oldest and the next event. Parameter: number; then that event") == 0 &&
		rte_telemetry_register_cmd("/rnic/set", on_set_guarded,
					   "Changes 'port NAME KEY=VALUE ...' or 'log-level LEVEL'") == 0 &&
		rte_telemetry_register_cmd("/rnic/drop_client", on_drop_client_guarded,
					   "Disconnects a client. Parameter: number") == 0 &&
		rte_telemetry_register_cmd("/rnic/counters", on_counters_guarded,
					   "Counters of the iWARP stack and of clients") == 0 &&
		rte_telemetry_register_cmd(
			"/rnic/workers", on_workers_guarded,
			"Lists the workers. Parameter: number; then its cycles, when it counts them") == 0;

	pthread_mutex_lock(&gate);
	going = all;
	pthread_mutex_unlock(&gate);
	return all;
}

void tele_stop(void)
{
	loop_lock();
	tele_ask_stop();
	loop_unlock();
	pthread_mutex_lock(&gate);
	going = false;
	while (inside > 0)
		pthread_cond_wait(&all_left, &gate);
	pthread_mutex_unlock(&gate);
}
