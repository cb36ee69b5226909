/* SPDX-License-Identifier: BSD-3-Clause */
#include "top.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "show.h"

#define CLEAR "\033[H\033[2J"

/* The values of one reading. */
struct view {
	double at; /* s */
	json_t *ports, *workers, *stack;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void drop(struct view *v)
{
	json_decref(v->ports);
	json_decref(v->workers);
	json_decref(v->stack);
}

/* False: the daemon is gone. */
static bool look(struct daemon *d, struct view *v)
{
	v->at = now();
	v->ports = show_collect(d, "ports");
	v->workers = show_collect(d, "workers");
	v->stack = daemon_ask(d, "/rnic/counters", NULL);
	return v->ports != NULL && v->workers != NULL && v->stack != NULL;
}

static double number(const json_t *object, const char *name)
{
	return (double)json_integer_value(json_object_get(object, name));
}

/* The growth per second of an object's number between two readings. */
struct span {
	const json_t *before, *after;
	double seconds;
};

static double rate(const struct span *s, const char *name)
{
	return (number(s->after, name) - number(s->before, name)) / s->seconds;
}

static void print_ports(const struct view *a, const struct view *b)
{
	size_t i;
	json_t *port;

	printf("\n%-12s %12s %10s %12s %10s %10s\n", "port", "rx frames/s", "rx Gb/s", "tx frames/s", "tx Gb/s",
	       "drops/s");
	json_array_foreach(b->ports, i, port) {
		const struct span s = { json_array_get(a->ports, i), port, b->at - a->at };
		printf("%-12s %12.0f %10.3f %12.0f %10.3f %10.0f\n", json_string_value(json_object_get(port, "id")),
		       rate(&s, "rx_packets"), rate(&s, "rx_bytes") * 8e-9, rate(&s, "tx_packets"),
		       rate(&s, "tx_bytes") * 8e-9, rate(&s, "tx_drops") + rate(&s, "no_buffer"));
	}
}

/* Prints the percentage of a worker's time that a stage took; prints nothing if the worker does not count cycles. */
static void print_stages(const struct span *s)
{
	static const struct {
		const char *name, *text;
	} stage[] = { { "cycles_receive", "receive" },     { "cycles_send", "send" },
		      { "cycles_doorbells", "doorbells" }, { "cycles_timers", "timers" },
		      { "cycles_effects", "effects" },     { "cycles_ports", "ports" },
		      { "cycles_commands", "commands" },   { "cycles_idle", "idle" } };
	double total = 0;

	for (size_t i = 0; i < sizeof(stage) / sizeof(stage[0]); i++)
		total += rate(s, stage[i].name);
	for (size_t i = 0; total > 0 && i < sizeof(stage) / sizeof(stage[0]); i++)
		printf("  %s %.0f %%", stage[i].text, 100 * rate(s, stage[i].name) / total);
}

static void print_workers(const struct view *a, const struct view *b)
{
	size_t i;
	json_t *worker;

	printf("\n%-12s %12s %12s\n", "worker", "turns/s", "sleeps/s");
	json_array_foreach(b->workers, i, worker) {
		const struct span s = { json_array_get(a->workers, i), worker, b->at - a->at };
		printf("%-12s %12.0f %12.0f", json_string_value(json_object_get(worker, "id")), rate(&s, "turns"),
		       rate(&s, "sleeps"));
		print_stages(&s);
		putchar('\n');
	}
}

static void print_view(const struct daemon *d, const struct view *a, const struct view *b)
{
	static const char *const shown[] = { "wqes",       "rwqes",         "cqes",       "fpdus_in",
					     "fpdus_out",  "bytes_placed",  "ud_in",      "ud_out",
					     "crc_errors", "access_errors", "ooo_placed", "no_block" };
	const struct span s = { a->stack, b->stack, b->at - a->at };

	printf("rnicd %ld: %.0f clients, %.0f connections\n", daemon_pid(d), number(b->stack, "clients"),
	       number(b->stack, "connections"));
	print_ports(a, b);
	print_workers(a, b);
	printf("\n%-12s %16s %18s\n", "stack", "per second", "in all");
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		printf("%-12s %16.0f %18.0f\n", shown[i], rate(&s, shown[i]), number(b->stack, shown[i]));
	fflush(stdout);
}

int top_run(struct daemon *d, double interval, unsigned rounds)
{
	const struct timespec wait = { .tv_sec = (time_t)interval,
				       .tv_nsec = (long)((interval - (double)(time_t)interval) * 1e9) };
	const bool terminal = isatty(STDOUT_FILENO) == 1;
	struct view before, after;
	bool there = look(d, &before);

	for (unsigned i = 0; there && (rounds == 0 || i < rounds); i++) {
		nanosleep(&wait, NULL);
		there = look(d, &after);
		if (there) {
			fputs(terminal ? CLEAR : i > 0 ? "\n" : "", stdout);
			print_view(d, &before, &after);
		}
		drop(&before);
		before = after;
	}
	drop(&before);
	return there ? 0 : daemon_gone(d);
}
