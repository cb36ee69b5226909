/* SPDX-License-Identifier: BSD-3-Clause */
#include "explain.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "show.h"

#define LIMITS_MAX  64u
#define EACH_MAX    4u /* limits of one cause that are printed, the heaviest ones; the others are counted */
#define THREADS_MAX 256u
#define FPDUS_MIN   100.0 /* FPDUs between two readings; fewer give no reliable mean size */
#define MOVES_BYTES 1e4   /* bytes a second; a connection that carries less is idle */

/* One sentence about a limit. `weight` ranks the causes: roughly the percentage of the possible speed that each
 * costs. */
struct limit {
	double weight;
	const char *name; /* name of the cause, for the JSON output */
	uint32_t more;    /* number of lighter limits of the same cause */
	char text[320];
};

/* The CPU time of a thread of the daemon. */
struct thread_time {
	long tid;
	double ran, waited; /* s since its start */
};

struct sight {
	double at; /* s */
	json_t *ports, *conns, *stack;
	struct thread_time thread[THREADS_MAX];
	uint32_t threads;
	double stolen, ticks; /* ticks of all CPUs since the start: stolen by the host, and in all */
};

struct verdict {
	struct limit limit[LIMITS_MAX];
	uint32_t n;
	uint32_t moving; /* connections that carry data */
	double out, mss; /* out: bytes that all connections sent; mss: largest segment size of any of them */
};

/* The entry for a limit: a new one, or that of the lightest limit of its cause. NULL: EACH_MAX limits of its cause are
 * heavier. */
static struct limit *limit_place(struct verdict *v, double weight, const char *name)
{
	struct limit *lightest = NULL;
	uint32_t same = 0;

	for (uint32_t i = 0; i < v->n; i++)
		if (strcmp(v->limit[i].name, name) == 0) {
			same++;
			if (lightest == NULL || v->limit[i].weight < lightest->weight)
				lightest = &v->limit[i];
		}
	if (same < EACH_MAX)
		return v->n < LIMITS_MAX ? &v->limit[v->n++] : NULL;
	lightest->more++;
	return weight > lightest->weight ? lightest : NULL;
}

static void limit_add(struct verdict *v, double weight, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void limit_add(struct verdict *v, double weight, const char *name, const char *fmt, ...)
{
	va_list ap;
	struct limit *l = limit_place(v, weight, name);

	if (l == NULL)
		return;
	l->weight = weight < 100 ? weight : 100;
	l->name = name;
	va_start(ap, fmt);
	vsnprintf(l->text, sizeof(l->text), fmt, ap);
	va_end(ap);
}

/* ---- reading counters ---- */

/* Reads the scheduler's statistics of each thread of the daemon. There are none if the daemon runs on another machine
 * or in another container, or if the kernel hides its /proc files. */
static void threads_look(struct sight *s, long pid)
{
	char path[80];
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%ld/task", pid);
	DIR *dir = opendir(path);
	s->threads = 0;
	while (dir != NULL && s->threads < THREADS_MAX && (e = readdir(dir)) != NULL) {
		struct thread_time *t = &s->thread[s->threads];
		t->tid = strtol(e->d_name, NULL, 10);
		snprintf(path, sizeof(path), "/proc/%ld/task/%ld/schedstat", pid, t->tid);
		FILE *f = t->tid > 0 ? fopen(path, "re") : NULL;
		if (f == NULL)
			continue;
		if (fscanf(f, "%lf %lf", &t->ran, &t->waited) == 2) {
			t->ran /= 1e9;
			t->waited /= 1e9;
			s->threads++;
		}
		fclose(f);
	}
	if (dir != NULL)
		closedir(dir);
}

/* Reads the times of all CPUs from /proc/stat. The times are 0 if the kernel does not report them. */
static void steal_look(struct sight *s)
{
	FILE *f = fopen("/proc/stat", "re");
	double t[8] = { 0 }; /* user nice system idle iowait irq softirq steal */

	s->stolen = s->ticks = 0;
	if (f == NULL)
		return;
	if (fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) ==
	    8) {
		s->stolen = t[7];
		for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
			s->ticks += t[i];
	}
	fclose(f);
}

/* False: the daemon is gone. */
static bool sight_take(struct daemon *d, struct sight *s)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	s->at = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
	threads_look(s, daemon_pid(d));
	steal_look(s);
	s->ports = show_collect(d, "ports");
	s->conns = show_collect(d, "conns");
	s->stack = daemon_ask(d, "/rnic/counters", NULL);
	return s->ports != NULL && s->conns != NULL && s->stack != NULL;
}

static void sight_drop(struct sight *s)
{
	json_decref(s->ports);
	json_decref(s->conns);
	json_decref(s->stack);
}

/* A number of an object, and its growth between the two readings. */
static double value_of(const json_t *o, const char *name)
{
	return (double)json_integer_value(json_object_get(o, name));
}
static double grown(const json_t *before, const json_t *after, const char *name)
{
	return value_of(after, name) - value_of(before, name);
}
/* The growth of a counter of 32 bits, which may have begun anew at 0 since the first reading. */
static double grown_32(const json_t *before, const json_t *after, const char *name)
{
	return (double)(uint32_t)(json_integer_value(json_object_get(after, name)) -
				  json_integer_value(json_object_get(before, name)));
}

static const char *string_of(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s != NULL ? s : "?";
}

/* The object with the same `key` in the first reading. */
static const json_t *same(const json_t *list, const json_t *one, const char *key)
{
	size_t i;
	json_t *o;

	json_array_foreach(list, i, o)
		if (strcmp(string_of(o, key), string_of(one, key)) == 0)
			return o;
	return NULL;
}

/* ---- causes ---- */

static void conn_limits(struct verdict *v, const json_t *before, const json_t *after, double seconds)
{
	const char *name = string_of(after, "name");
	const double out = grown(before, after, "bytes_out"), segs = grown_32(before, after, "segs_out");
	const double again = grown_32(before, after, "retransmits"), mss = value_of(after, "mss");
	const double flight = value_of(after, "in_flight"), rtt = value_of(after, "srtt_ns") / 1e3;
	const double fpdus = value_of(after, "fpdus"), most = value_of(after, "fpdus_most");

	v->out += out;
	v->mss = mss > v->mss ? mss : v->mss;
	if (out + grown(before, after, "bytes_in") < MOVES_BYTES * seconds)
		return;
	v->moving++;
	if (again > 0 && again > segs / 1000)
		limit_add(
			v, 1000 * again / segs, "retransmissions",
			"connection %s: %.1f %% of its TCP segments were sent again (%.0f of %.0f): the network or the "
			"receiver loses packets. Look at the drops of both ends and of the switches between",
			name, 100 * again / segs, again, segs);
	if (out < MOVES_BYTES * seconds)
		return;
	if (flight + 2 * mss > value_of(after, "snd_wnd"))
		limit_add(v, 35, "peer-window",
			  "connection %s: %.0f bytes are under way, and the peer's window is %.0f: the peer takes data "
			  "too slowly, or offers too little for the round-trip time of %.0f us",
			  name, flight, value_of(after, "snd_wnd"), rtt);
	else if (fpdus > 0.97 * most)
		limit_add(
			v, 35, "fpdus-under-way",
			"connection %s: %.0f FPDUs are under way, and a connection has room for %.0f: too few for the "
			"round-trip time of %.0f us. Use a larger MTU, or congestion = bbr, which has more room",
			name, fpdus, most, rtt);
}

static void port_limits(struct verdict *v, const json_t *before, const json_t *after, double seconds)
{
	const char *name = string_of(after, "name");
	const double sent = grown(before, after, "tx_bytes") * 8 / seconds, rate = value_of(after, "rate_bps");
	const double lost = grown(before, after, "impair_lost") + grown(before, after, "impair_corrupt");
	const double sends = grown(before, after, "tx_packets");
	const double none = grown(before, after, "no_buffer") + grown(before, after, "tx_drops");
	const double copied = grown(before, after, "tx_copied"), data = grown(before, after, "tx_data");
	const double silent = grown(before, after, "arp_failed");

	if (strcmp(string_of(after, "link"), "down") == 0)
		limit_add(v, 100, "link",
			  "port %s: its link is down: %.0f frames were dropped since the last look. Look at the cable, "
			  "the interface, or the peer of the memif; rnicd's log says which",
			  name, none);
	if (silent > 0)
		limit_add(v, 99, "arp",
			  "port %s: %.0f neighbours did not answer ARP: rnicd's log has their addresses. Look for a "
			  "wrong address, a wrong VLAN, or a link that is down at the other end",
			  name, silent);
	if (rate > 0 && sent > 0.9 * rate)
		limit_add(v, 95, "rate",
			  "port %s: it sends %.3f Gb/s, and its rate is set to %.3f Gb/s. Raise rate, or unset it",
			  name, sent / 1e9, rate / 1e9);
	if (lost > 0)
		limit_add(
			v, 1 + 1000 * lost / (sends + lost), "impairment",
			"port %s: it lost or corrupted %.0f frames as it is configured to. Unset its loss and corrupt",
			name, lost);
	if (none > 0 && silent == 0 && strcmp(string_of(after, "link"), "down") != 0)
		limit_add(v, 60, "buffers",
			  "port %s: %.0f frames were lost for want of packet memory or of room in the transmit queue. "
			  "Raise memory in [rnicd]",
			  name, none);
	if (strcmp(string_of(after, "capture"), "on") == 0 && sends > 0)
		limit_add(v, 20, "capture",
			  "port %s: a capture is on, which copies each of its %.0f frames a second. End it: "
			  "rnicctl set port %s capture=",
			  name, sends / seconds, name);
	if (copied > data / 10)
		limit_add(v, 10 * copied / data, "by-copy",
			  "port %s: the bytes of %.0f of its %.0f data segments were copied once more than on a wire "
			  "that takes references, because %s",
			  name, copied, data, string_of(after, "copies_because"));
}

static void stack_limits(struct verdict *v, const json_t *before, const json_t *after)
{
	const double messages = grown(before, after, "rwqes"), waits = grown(before, after, "rnr_waits");
	const double events = grown(before, after, "cq_events"), cqes = grown(before, after, "cqes");
	const double fpdus = grown(before, after, "fpdus_out");
	const double memory = grown(before, after, "no_block") + grown(before, after, "no_rec");

	if (fpdus > FPDUS_MIN && v->out / fpdus < v->mss / 4)
		limit_add(v, 40 * (1 - v->out / fpdus / v->mss), "small-messages",
			  "the %.0f FPDUs that were sent have %.0f bytes on average, headers included, and %.0f would "
			  "fit: messages are small, and the cost of each is the limit. Send larger ones, or post "
			  "several at a time",
			  fpdus, v->out / fpdus, v->mss);
	if (waits > 0)
		limit_add(v, 100 * waits / (messages > waits ? messages : waits), "receiver-not-ready",
			  "%.0f of %.0f messages waited because no receive was posted. Post more receives ahead, and "
			  "post them again sooner",
			  waits, messages);
	if (events > 0 && events > cqes / 20)
		limit_add(v, 30 * events / (cqes > events ? cqes : events), "events",
			  "programs were woken %.0f times for %.0f completions: they sleep on events, and each waking "
			  "takes microseconds. Poll the completion queue where speed counts",
			  events, cqes);
	if (memory > 0)
		limit_add(v, 60, "memory",
			  "connections waited %.0f times because working memory or FPDU records had run out. Raise "
			  "memory in [rnicd]",
			  memory);
}

/* A thread that runs much and also waits for its CPU shares the CPU with another program. */
static void cpu_limits(struct verdict *v, const struct sight *a, const struct sight *b)
{
	for (uint32_t i = 0; i < b->threads; i++)
		for (uint32_t k = 0; k < a->threads; k++) {
			const double ran = b->thread[i].ran - a->thread[k].ran;
			const double waited = b->thread[i].waited - a->thread[k].waited;
			if (a->thread[k].tid != b->thread[i].tid || ran + waited < 0.3 * (b->at - a->at) ||
			    waited < 0.05 * (ran + waited))
				continue;
			limit_add(v, 100 * waited / (ran + waited), "cpu-shared",
				  "thread %ld of rnicd waited for its CPU %.0f %% of the time: another program runs "
				  "there. Give rnicd CPUs of its own (workers)",
				  b->thread[i].tid, 100 * waited / (ran + waited));
		}
}

/* The host of a virtual machine gives it less time than its CPUs could use. */
static void steal_limit(struct verdict *v, const struct sight *a, const struct sight *b)
{
	const double share = b->ticks > a->ticks ? 100 * (b->stolen - a->stolen) / (b->ticks - a->ticks) : 0;

	if (share > 5)
		limit_add(v, share, "cpu-stolen",
			  "the host of this virtual machine took %.0f %% of the time of its CPUs (steal in top). "
			  "Give the machine CPUs of its own",
			  share);
}

/* ---- output ---- */

static int heavier(const void *a, const void *b)
{
	const double x = ((const struct limit *)a)->weight, y = ((const struct limit *)b)->weight;

	return (x < y) - (x > y);
}

/* If limit[at] is the last one of its cause: the number of limits of this cause that are not printed; else 0. */
static uint32_t untold(const struct verdict *v, uint32_t at)
{
	uint32_t more = 0;

	for (uint32_t i = 0; i < v->n; i++)
		if (strcmp(v->limit[i].name, v->limit[at].name) == 0) {
			if (i > at)
				return 0;
			more += v->limit[i].more;
		}
	return more;
}

static void limits_json(const struct verdict *v)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < v->n; i++) {
		json_t *o = json_object();
		json_object_set_new(o, "weight", json_real(v->limit[i].weight));
		json_object_set_new(o, "cause", json_string(v->limit[i].name));
		json_object_set_new(o, "text", json_string(v->limit[i].text));
		json_object_set_new(o, "more", json_integer(untold(v, i)));
		json_array_append_new(list, o);
	}
	json_dumpf(list, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(4));
	putchar('\n');
	json_decref(list);
}

static void limits_text(const struct verdict *v)
{
	if (v->moving == 0)
		puts("No connection carries data now.");
	for (uint32_t i = 0; i < v->n; i++) {
		const uint32_t more = untold(v, i);
		printf("%u. %s.\n", i + 1, v->limit[i].text);
		if (more > 0)
			printf("   The same is true of %u others.\n", more);
	}
	if (v->n == 0 && v->moving > 0)
		printf("%u connections carry data, and the counters show nothing that limits them.\n", v->moving);
}

static void judge(struct verdict *v, const struct sight *a, const struct sight *b)
{
	const double seconds = b->at - a->at;
	const json_t *before;
	size_t i;
	json_t *o;

	json_array_foreach(b->conns, i, o) {
		before = same(a->conns, o, "id"); /* a later connection may have the same name */
		if (before != NULL)
			conn_limits(v, before, o, seconds);
	}
	json_array_foreach(b->ports, i, o) {
		before = same(a->ports, o, "name");
		if (before != NULL)
			port_limits(v, before, o, seconds);
	}
	stack_limits(v, a->stack, b->stack);
	cpu_limits(v, a, b);
	steal_limit(v, a, b);
	qsort(v->limit, v->n, sizeof(v->limit[0]), heavier);
}

int explain_now(struct daemon *d, double seconds, bool json)
{
	const struct timespec wait = { .tv_sec = (time_t)seconds,
				       .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
	struct sight before, after = { .ports = NULL };
	struct verdict v = { .n = 0 };
	bool there = sight_take(d, &before);

	if (there) {
		nanosleep(&wait, NULL);
		there = sight_take(d, &after);
	}
	if (there) {
		judge(&v, &before, &after);
		(json ? limits_json : limits_text)(&v);
	}
	sight_drop(&before);
	sight_drop(&after);
	return there ? 0 : daemon_gone(d);
}
