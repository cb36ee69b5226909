/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of settings, and each setting's check. */
#include "tp_opts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const mode_names[TP_MODE_COUNT] = {
	[TP_WRITE_BW] = "write_bw", [TP_READ_BW] = "read_bw",   [TP_SEND_BW] = "send_bw", [TP_WRITE_LAT] = "write_lat",
	[TP_READ_LAT] = "read_lat", [TP_SEND_LAT] = "send_lat", [TP_SOAK] = "soak",       [TP_IDLE] = "idle",
};

static const char *const qp_type_names[TP_QP_TYPES] = { "rc", "ud", "rd" };

const char *tp_qp_type_name(enum tp_qp_type type) { return qp_type_names[type]; }

const char *tp_mode_name(enum tp_mode mode) { return mode_names[mode]; }

bool tp_mode_is_latency(enum tp_mode mode)
{
	return mode == TP_WRITE_LAT || mode == TP_READ_LAT || mode == TP_SEND_LAT;
}

static bool find_mode(const char *name, enum tp_mode *mode)
{
	for (unsigned m = 0; m < TP_MODE_COUNT; m++) {
		if (strcmp(name, mode_names[m]) == 0) {
			*mode = (enum tp_mode)m;
			return true;
		}
	}
	return false;
}

static enum tp_verdict set_mode(struct tp_opts *o, const char *value, struct tp_err *err)
{
	enum tp_mode modes[TP_MODE_COUNT];
	char copy[256], *save = NULL;
	unsigned n = 0;

	if (strcmp(value, "all") == 0) {
		for (n = 0; n < TP_SOAK; n++)
			o->modes[n] = (enum tp_mode)n;
		o->n_modes = n;
		return TP_OK;
	}
	snprintf(copy, sizeof(copy), "%s", value);
	for (char *w = strtok_r(copy, ",", &save); w != NULL; w = strtok_r(NULL, ",", &save)) {
		if (n == TP_MODE_COUNT)
			return tp_fail(err, TP_BAD_OPTION, "too many modes in \"%s\": name each once", value);
		if (!find_mode(w, &modes[n++]))
			return tp_fail(err, TP_BAD_OPTION,
				       "unknown mode \"%s\": choose from write_bw, read_bw, send_bw, "
				       "write_lat, read_lat, send_lat, soak, idle, all",
				       w);
	}
	if (n == 0)
		return tp_fail(err, TP_BAD_OPTION, "no mode given: choose for example write_bw");
	memcpy(o->modes, modes, n * sizeof(modes[0]));
	o->n_modes = n;
	return TP_OK;
}

static enum tp_verdict set_sizes(struct tp_opts *o, const char *value, struct tp_err *err)
{
	uint64_t sizes[TP_MAX_LIST];
	unsigned n;

	if (!tp_parse_list(strcmp(value, "all") == 0 ? "8..8m" : value, TP_MAX_SIZE, sizes, &n))
		return tp_fail(
			err, TP_BAD_OPTION,
			"bad size \"%s\": write 1 to 1g bytes such as 64, 4k, 1m, lists of them, or a range such "
			"as 4k..1m that doubles, %d sizes at most",
			value, TP_MAX_SIZES);
	memcpy(o->sizes, sizes, n * sizeof(sizes[0]));
	o->n_sizes = n;
	return TP_OK;
}

static enum tp_verdict numbers(const char *value, const char *name, uint32_t max, uint32_t *list, unsigned *n,
			       struct tp_err *err)
{
	uint64_t all[TP_MAX_LIST];
	unsigned k;

	if (!tp_parse_list(value, max, all, &k))
		return tp_fail(err, TP_BAD_OPTION,
			       "bad %s \"%s\": write a number from 1 to %" PRIu32
			       ", a list such as 1,4,16, or a range such as 1..16 that doubles",
			       name, value, max);
	for (unsigned i = 0; i < k; i++)
		list[i] = (uint32_t)all[i];
	*n = k;
	return TP_OK;
}

static enum tp_verdict set_depth(struct tp_opts *o, const char *value, struct tp_err *err)
{
	enum tp_verdict v = numbers(value, "depth", TP_MAX_DEPTH, o->depths, &o->n_depths, err);

	if (v == TP_OK)
		o->depth = o->depths[0];
	return v;
}

static enum tp_verdict set_qps(struct tp_opts *o, const char *value, struct tp_err *err)
{
	enum tp_verdict v = numbers(value, "number of queue pairs", TP_MAX_QPS, o->qps_list, &o->n_qps, err);

	if (v == TP_OK)
		o->qps = o->qps_list[0];
	return v;
}

static enum tp_verdict set_qp_type(struct tp_opts *o, const char *value, struct tp_err *err)
{
	for (unsigned t = 0; t < TP_QP_TYPES; t++) {
		if (strcmp(value, qp_type_names[t]) == 0) {
			o->qp_type = (enum tp_qp_type)t;
			return TP_OK;
		}
	}
	return tp_fail(err, TP_BAD_OPTION, "unknown type of queue pair \"%s\": choose from rc, ud, rd", value);
}

static enum tp_verdict set_loss(struct tp_opts *o, const char *value, struct tp_err *err)
{
	uint32_t losses[TP_MAX_LOSSES];
	char copy[256], *save = NULL;
	unsigned n = 0;

	snprintf(copy, sizeof(copy), "%s", value);
	for (char *w = strtok_r(copy, ",", &save); w != NULL; w = strtok_r(NULL, ",", &save))
		if (n == TP_MAX_LOSSES || !tp_parse_share(w, &losses[n++]))
			return tp_fail(err, TP_BAD_OPTION,
				       "bad loss \"%s\": write shares of frames such as 0,0.1%%,1%%, %d at most", value,
				       TP_MAX_LOSSES);
	if (n == 0)
		return tp_fail(err, TP_BAD_OPTION, "no loss given: write for example 1%%");
	memcpy(o->losses, losses, n * sizeof(losses[0]));
	o->n_losses = n;
	return TP_OK;
}

static enum tp_verdict number(const char *value, const char *name, uint64_t min, uint64_t max, uint64_t *out,
			      struct tp_err *err)
{
	uint64_t v;

	if (!tp_parse_size(value, max, &v) || v < min)
		return tp_fail(err, TP_BAD_OPTION, "bad %s \"%s\": write a number from %" PRIu64 " to %" PRIu64, name,
			       value, min, max);
	*out = v;
	return TP_OK;
}

static enum tp_verdict number32(const char *value, const char *name, uint32_t min, uint32_t max, uint32_t *out,
				struct tp_err *err)
{
	uint64_t v = 0;
	enum tp_verdict r = number(value, name, min, max, &v, err);

	if (r == TP_OK)
		*out = (uint32_t)v;
	return r;
}

static enum tp_verdict duration(const char *value, const char *name, uint64_t *out, struct tp_err *err)
{
	if (!tp_parse_time(value, out))
		return tp_fail(err, TP_BAD_OPTION, "bad %s \"%s\": write a time such as 2, 0.5, 200ms, 1m", name,
			       value);
	return TP_OK;
}

static enum tp_verdict set_bool(bool *b, const char *name, const char *value, struct tp_err *err)
{
	if (value == NULL || strcmp(value, "on") == 0)
		*b = true;
	else if (strcmp(value, "off") == 0)
		*b = false;
	else
		return tp_fail(err, TP_BAD_OPTION, "bad value \"%s\" for %s: say on or off", value, name);
	return TP_OK;
}

static enum tp_verdict set_text(char *dst, size_t len, const char *name, const char *value, struct tp_err *err)
{
	if (strlen(value) >= len)
		return tp_fail(err, TP_BAD_OPTION, "the %s is too long: %zu characters at most", name, len - 1);
	snprintf(dst, len, "%s", value);
	return TP_OK;
}

#define SETTER(fn, expr) \
	static enum tp_verdict fn(struct tp_opts *o, const char *value, struct tp_err *err) { return expr; }
#define SHOW_UINT(fn, field) \
	static void fn(const struct tp_opts *o, char *buf, size_t len) \
	{ \
		snprintf(buf, len, "%" PRIu64, (uint64_t)o->field); \
	}
#define SHOW_AUTO(fn, field) \
	static void fn(const struct tp_opts *o, char *buf, size_t len) \
	{ \
		if (o->field == 0) \
			snprintf(buf, len, "auto"); \
		else \
			snprintf(buf, len, "%" PRIu64, (uint64_t)o->field); \
	}
#define SHOW_BOOL(fn, field) \
	static void fn(const struct tp_opts *o, char *buf, size_t len) \
	{ \
		snprintf(buf, len, "%s", o->field ? "on" : "off"); \
	}
#define SHOW_TIME(fn, field) \
	static void fn(const struct tp_opts *o, char *buf, size_t len) \
	{ \
		snprintf(buf, len, "%gs", (double)o->field / 1e9); \
	}

SETTER(set_iters, number(value, "number of operations", 1, UINT64_C(1) << 40, &o->iters, err))
SETTER(set_batch, number32(value, "batch", 1, TP_MAX_DEPTH, &o->batch, err))
SETTER(set_signal, number32(value, "signal interval", 1, TP_MAX_DEPTH, &o->signal_every, err))
SETTER(set_buffers, number32(value, "number of buffers", 1, TP_MAX_BUFFERS, &o->buffers, err))
SETTER(set_seed, number(value, "seed", 0, UINT64_C(1) << 62, &o->seed, err))
SETTER(set_max_memory, number(value, "memory limit", 1 << 20, UINT64_C(1) << 40, &o->max_memory, err))
SETTER(set_timeout, duration(value, "timeout", &o->timeout, err))
SETTER(set_events, set_bool(&o->events, "events", value, err))
SETTER(set_touch, set_bool(&o->touch, "touch", value, err))
SETTER(set_bidir, set_bool(&o->bidir, "bidir", value, err))
SETTER(set_no_verify, set_bool(&o->no_verify, "no-verify", value, err))
SETTER(set_quiet, set_bool(&o->quiet, "quiet", value, err))
SETTER(set_server, set_bool(&o->server, "server", value, err))
SETTER(set_once, set_bool(&o->once, "once", value, err))
SETTER(set_interactive, set_bool(&o->interactive, "interactive", value, err))
SETTER(set_host, set_text(o->host, sizeof(o->host), "host name", value, err))
SETTER(set_design, set_text(o->design, sizeof(o->design), "design", value, err))
SETTER(set_plot, set_text(o->plot, sizeof(o->plot), "name of the file", value, err))
SETTER(set_addr, set_text(o->addr, sizeof(o->addr), "address", value, err))
SHOW_UINT(show_iters, iters)
SHOW_UINT(show_buffers, buffers)
SHOW_UINT(show_seed, seed)
SHOW_UINT(show_port, port)
SHOW_AUTO(show_batch, batch)
SHOW_AUTO(show_signal, signal_every)
SHOW_TIME(show_seconds, duration)
SHOW_TIME(show_timeout, timeout)
SHOW_BOOL(show_events, events)
SHOW_BOOL(show_touch, touch)
SHOW_BOOL(show_bidir, bidir)
SHOW_BOOL(show_no_verify, no_verify)

static enum tp_verdict set_seconds(struct tp_opts *o, const char *value, struct tp_err *err)
{
	uint64_t ns = 0;
	enum tp_verdict v = duration(value, "duration", &ns, err);

	if (v != TP_OK)
		return v;
	if (ns == 0)
		return tp_fail(err, TP_BAD_OPTION, "a run of 0 seconds measures nothing: give more, or use --iters");
	o->duration = ns;
	o->iters = 0; /* the later of --iters and --seconds counts */
	return TP_OK;
}

static enum tp_verdict set_compute(struct tp_opts *o, const char *value, struct tp_err *err)
{
	uint64_t ns = 0;

	if (!tp_parse_time(value, &ns) || ns > TP_MAX_COMPUTE)
		return tp_fail(err, TP_BAD_OPTION, "bad time to compute \"%s\": write a time up to 1ms, such as 20us",
			       value);
	o->compute = ns;
	return TP_OK;
}

static void show_compute(const struct tp_opts *o, char *buf, size_t len)
{
	snprintf(buf, len, "%gus", (double)o->compute / 1e3);
}

static enum tp_verdict set_warmup(struct tp_opts *o, const char *value, struct tp_err *err)
{
	uint64_t n = 0;

	if (tp_parse_size(value, UINT64_C(1) << 40, &n) && strchr("0123456789kKgG", value[strlen(value) - 1]) != NULL) {
		o->warmup_ops = n;
		o->warmup = 0;
		return TP_OK;
	}
	if (!tp_parse_time(value, &n))
		return tp_fail(err, TP_BAD_OPTION,
			       "bad warm-up \"%s\": write a number of operations (1000) or a time (200ms)", value);
	o->warmup_ops = 0;
	o->warmup = n;
	return TP_OK;
}

static enum tp_verdict set_inline(struct tp_opts *o, const char *value, struct tp_err *err)
{
	uint64_t n = 0;
	enum tp_verdict v;

	if (strcmp(value, "auto") == 0) {
		o->inline_max = -1;
		return TP_OK;
	}
	v = number(value, "inline limit", 0, 65536, &n, err);
	if (v == TP_OK)
		o->inline_max = (int)n;
	return v;
}

static enum tp_verdict set_alloc(struct tp_opts *o, const char *value, struct tp_err *err)
{
	if (strcmp(value, "malloc") != 0 && strcmp(value, "rnic") != 0)
		return tp_fail(err, TP_BAD_OPTION, "unknown allocator \"%s\": choose malloc or rnic", value);
	o->rnic_alloc = strcmp(value, "rnic") == 0;
	return TP_OK;
}

static enum tp_verdict set_cpu(struct tp_opts *o, const char *value, struct tp_err *err)
{
	uint64_t n = 0;
	enum tp_verdict v = number(value, "cpu", 0, 4095, &n, err);

	if (v == TP_OK)
		o->cpu = (int)n;
	return v;
}

static enum tp_verdict set_port(struct tp_opts *o, const char *value, struct tp_err *err)
{
	uint64_t n = 0;
	enum tp_verdict v = number(value, "port", 1, 65535, &n, err);

	if (v == TP_OK)
		o->port = (uint16_t)n;
	return v;
}

static enum tp_verdict set_csv(struct tp_opts *o, const char *value, struct tp_err *err)
{
	(void)value;
	(void)err;
	o->format = TP_CSV;
	return TP_OK;
}

static enum tp_verdict set_json(struct tp_opts *o, const char *value, struct tp_err *err)
{
	(void)value;
	(void)err;
	o->format = TP_JSON;
	return TP_OK;
}

static void show_mode(const struct tp_opts *o, char *buf, size_t len)
{
	size_t n = 0;

	for (unsigned i = 0; i < o->n_modes && n < len; i++)
		n += (size_t)snprintf(buf + n, len - n, "%s%s", i ? "," : "", mode_names[o->modes[i]]);
}

static void show_sizes(const struct tp_opts *o, char *buf, size_t len)
{
	size_t n = 0;
	char one[24];

	for (unsigned i = 0; i < o->n_sizes && n < len; i++) {
		tp_format_size(o->sizes[i], one, sizeof(one));
		n += (size_t)snprintf(buf + n, len - n, "%s%s", i ? "," : "", one);
	}
}

static void show_numbers(const uint32_t *list, unsigned count, char *buf, size_t len)
{
	size_t n = 0;

	for (unsigned i = 0; i < count && n < len; i++)
		n += (size_t)snprintf(buf + n, len - n, "%s%" PRIu32, i ? "," : "", list[i]);
}

static void show_depth(const struct tp_opts *o, char *buf, size_t len)
{
	snprintf(buf, len, "auto");
	show_numbers(o->depths, o->n_depths, buf, len);
}

static void show_qps(const struct tp_opts *o, char *buf, size_t len)
{
	snprintf(buf, len, "%" PRIu32, o->qps);
	show_numbers(o->qps_list, o->n_qps, buf, len);
}

static void show_qp_type(const struct tp_opts *o, char *buf, size_t len)
{
	snprintf(buf, len, "%s", qp_type_names[o->qp_type]);
}

static void show_loss(const struct tp_opts *o, char *buf, size_t len)
{
	size_t n = (size_t)snprintf(buf, len, "%s", o->n_losses == 0 ? "(the port's own)" : "");

	for (unsigned i = 0; i < o->n_losses && n < len; i++)
		n += (size_t)snprintf(buf + n, len - n, "%s%g%%", i ? "," : "", o->losses[i] / 1e4);
}

static void show_warmup(const struct tp_opts *o, char *buf, size_t len)
{
	if (o->warmup_ops > 0 || o->warmup == 0)
		snprintf(buf, len, "%" PRIu64 " operations", o->warmup_ops);
	else
		snprintf(buf, len, "%gs", (double)o->warmup / 1e9);
}

static void show_inline(const struct tp_opts *o, char *buf, size_t len)
{
	if (o->inline_max < 0)
		snprintf(buf, len, "auto");
	else
		snprintf(buf, len, "%d", o->inline_max);
}

static void show_alloc(const struct tp_opts *o, char *buf, size_t len)
{
	snprintf(buf, len, "%s", o->rnic_alloc ? "rnic" : "malloc");
}

static void show_host(const struct tp_opts *o, char *buf, size_t len)
{
	snprintf(buf, len, "%s", o->host[0] ? o->host : "(none)");
}

static void show_addr(const struct tp_opts *o, char *buf, size_t len)
{
	snprintf(buf, len, "%s", o->addr[0] ? o->addr : "(any)");
}

static const char G_WHO[] = "Server and client";
static const char G_WHAT[] = "What is measured";
static const char G_HOW[] = "How the work is posted";
static const char G_OUT[] = "Output and limits";

const struct tp_setting tp_settings[] = {
	{ "server", 's', NULL, G_WHO,
	  "be the server: wait for clients and carry out their runs, until SIGINT or SIGTERM", true, set_server, NULL },
	{ "addr", 'a', "ADDR", G_WHO,
	  "server: listen on this address (default: all addresses); client: connect from this address, which "
	  "also selects the device",
	  false, set_addr, show_addr },
	{ "port", 'p', "PORT", G_WHO, "port on which the server listens (default 18600)", false, set_port, show_port },
	{ "host", 0, "HOST", G_WHO, "the server to connect to, the same as the argument HOST", false, set_host,
	  show_host },
	{ "design", 0, "DESIGN", G_WHO,
	  "place where iWARP runs, on devices of the software RNIC (sets RNIC_DESIGN): in rnicd (offloaded); in this "
	  "program over rnicd's TCP (host; assisted: rnicd computes the CRCs); in this program over the "
	  "kernel's TCP (embedded)",
	  true, set_design, NULL },
	{ "once", 0, NULL, G_WHO, "server: end after the first client's runs, with their exit status", true, set_once,
	  NULL },
	{ "interactive", 'i', NULL, G_WHO, "open a prompt: set, start, stop, show; type help there", true,
	  set_interactive, NULL },
	{ "mode", 'm', "MODE[,..]", G_WHAT,
	  "write_bw (default), read_bw, send_bw, write_lat, read_lat, send_lat, soak, idle (connections that "
	  "carry nothing); all = every mode but soak and idle",
	  false, set_mode, show_mode },
	{ "size", 'S', "SIZE[,..]", G_WHAT,
	  "message sizes: 64, 4k, 1m, a range that doubles (4k..1m), or all = 8..8m "
	  "(default 64k; latency modes 8)",
	  false, set_sizes, show_sizes },
	{ "sizes", 0, "SIZE[,..]", G_WHAT, "the same as --size", true, set_sizes, NULL },
	{ "iters", 'n', "N", G_WHAT, "measure N operations at each size", false, set_iters, show_iters },
	{ "seconds", 't', "TIME", G_WHAT, "measure for this long at each size (default 1): 2, 0.5, 200ms, 10m", false,
	  set_seconds, show_seconds },
	{ "warmup", 'w', "N|TIME", G_WHAT,
	  "run this before measuring: a number of operations (1000) or a time (default 100ms); no figure "
	  "contains the warm-up",
	  false, set_warmup, show_warmup },
	{ "bidir", 'b', NULL, G_WHAT,
	  "both sides post at once (bandwidth modes and soak); rates are the sums of both directions", false, set_bidir,
	  show_bidir },
	{ "qp-type", 0, "rc|ud|rd", G_WHAT,
	  "type of the queue pairs: connections (rc, default), or the software RNIC's unreliable (ud) or "
	  "reliable datagrams (rd). With ud a Write is a Write-Record and a Read is a Read-Record, of up to 1m, "
	  "and rates count the data that arrives",
	  false, set_qp_type, show_qp_type },
	{ "loss", 0, "SHARE[,..]", G_WHAT,
	  "run everything with the client's port losing these shares of the frames that it sends: 0,0.1%,1%. "
	  "rnicctl sets the loss, which needs rnicd's user or root; afterwards the port's loss is 0",
	  false, set_loss, show_loss },
	{ "depth", 'd', "N[,..]", G_HOW,
	  "operations outstanding per queue pair: 16, or a list or a range as with --size (default 128, at most "
	  "64 MiB of data; latency modes 1)",
	  false, set_depth, show_depth },
	{ "qps", 'q', "N[,..]", G_HOW,
	  "number of queue pairs: 4, 1,4,16, 1..64 (default 1); with rc each queue pair has its own connection", false,
	  set_qps, show_qps },
	{ "batch", 0, "N", G_HOW, "work requests linked into one post (default 16, at most half the depth)", false,
	  set_batch, show_batch },
	{ "signal-every", 0, "N", G_HOW, "ask for a completion of every Nth operation (default: the batch)", false,
	  set_signal, show_signal },
	{ "inline", 0, "N", G_HOW, "send up to N bytes inline; 0 = never (default auto: up to 64 bytes)", false,
	  set_inline, show_inline },
	{ "buffers", 0, "N", G_HOW,
	  "rotate over N buffers per queue pair and direction, to leave the CPU's caches "
	  "(default 1)",
	  false, set_buffers, show_buffers },
	{ "events", 'e', NULL, G_HOW, "sleep on the completion channel instead of polling", false, set_events,
	  show_events },
	{ "touch", 0, NULL, G_HOW, "the receiver reads every byte of each message, as an application would (send_bw)",
	  false, set_touch, show_touch },
	{ "compute", 0, "TIME", G_HOW,
	  "the client computes for this time after each post, and does not poll meanwhile: at most 1ms "
	  "(bandwidth modes; default 0)",
	  false, set_compute, show_compute },
	{ "alloc", 0, "malloc|rnic", G_HOW,
	  "where buffers come from: ordinary memory (default), or rnic_alloc() if the library has this function", false,
	  set_alloc, show_alloc },
	{ "cpu", 'c', "N", G_HOW, "run on this CPU only", true, set_cpu, NULL },
	{ "csv", 0, NULL, G_OUT, "print comma-separated values with a header line", true, set_csv, NULL },
	{ "json", 0, NULL, G_OUT, "print one JSON document", true, set_json, NULL },
	{ "plot", 0, "FILE.svg", G_OUT,
	  "draw the results with gnuplot after all runs: over the sizes, queue pairs, depths or losses, with a line "
	  "for each value of the others",
	  true, set_plot, NULL },
	{ "quiet", 0, NULL, G_OUT, "print no progress line", true, set_quiet, NULL },
	{ "no-verify", 0, NULL, G_OUT, "do not compare the buffers after a run (soak always compares every message)",
	  false, set_no_verify, show_no_verify },
	{ "seed", 0, "N", G_OUT, "seed of the data patterns and of soak's choices (default 1)", false, set_seed,
	  show_seed },
	{ "timeout", 0, "TIME", G_OUT, "give up after this long without progress (default 10s)", false, set_timeout,
	  show_timeout },
	{ "max-memory", 0, "SIZE", G_OUT, "limit of the memory for the buffers of a run on this side (default 4g)",
	  true, set_max_memory, NULL },
};

const unsigned tp_n_settings = sizeof(tp_settings) / sizeof(tp_settings[0]);

enum tp_verdict tp_opts_set(struct tp_opts *o, const char *name, const char *value, struct tp_err *err)
{
	for (unsigned i = 0; i < tp_n_settings; i++) {
		const struct tp_setting *s = &tp_settings[i];

		if (strcmp(s->name, name) != 0)
			continue;
		if (s->arg != NULL && (value == NULL || value[0] == '\0'))
			return tp_fail(err, TP_BAD_OPTION, "%s needs a value: %s", name, s->arg);
		return s->set(o, value, err);
	}
	return tp_fail(err, TP_BAD_OPTION, "there is no setting \"%s\": \"help\" lists them", name);
}
