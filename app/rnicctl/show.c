/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counter.h"

#define COLUMNS_MAX 12u
#define CELL        64u /* characters */

/* A kind of object: its telemetry command, and the columns of its table. */
struct kind {
	const char *name, *command;
	enum counter_group group;
	bool text; /* telemetry has only a line of text for each object */
	const char *column[COLUMNS_MAX];
};

static const struct kind kinds[] = {
	{ "ports",
	  "/rnic/ports",
	  COUNTER_PORT,
	  false,
	  { "id", "address", "mtu", "out_of_order", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "tx_drops" } },
	{ "clients",
	  "/rnic/clients",
	  COUNTER_CLIENT,
	  false,
	  { "id", "pid", "uid", "qps", "cqs", "mrs", "registered_bytes", "cm_ids" } },
	{ "qps",
	  "/rnic/qps",
	  COUNTER_GROUPS,
	  false,
	  { "id", "client", "device", "worker", "state", "vendor_err", "flushed" } },
	{ "conns",
	  "/rnic/conns",
	  COUNTER_CONN,
	  false,
	  { "id", "name", "state", "tcp", "cwnd", "in_flight", "srtt_ns", "bytes_in", "bytes_out", "retransmits" } },
	{ "flows",
	  "/rnic/flows",
	  COUNTER_FLOW,
	  false,
	  { "id", "state", "from", "cwnd", "in_flight", "waiting", "srtt_ns", "packets_out", "again", "packets_in",
	    "twice" } },
	{ "workers", "/rnic/workers", COUNTER_WORKER, false, { "id", "turns", "sleeps" } },
	{ "listeners", "/rnic/listeners", COUNTER_GROUPS, true, { "id" } },
	{ "groups", "/rnic/groups", COUNTER_GROUPS, true, { "id" } },
	{ "records", "/rnic/records", COUNTER_GROUPS, true, { "id" } },
};

static const struct kind *kind_of(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

static int print_json(json_t *v)
{
	json_dumpf(v, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	putchar('\n');
	json_decref(v);
	return 0;
}

/* One value as text. */
static const char *text_of(const json_t *v, char buf[CELL])
{
	if (json_is_string(v))
		return json_string_value(v);
	if (!json_is_integer(v))
		return "-";
	snprintf(buf, CELL, "%lld", (long long)json_integer_value(v));
	return buf;
}

/* An object's line begins with its number or name. */
static void id_of(const char *line, char id[CELL]) { snprintf(id, CELL, "%.*s", (int)strcspn(line, " "), line); }

/*
 * Reads a whole list: an answer holds only a part of a long list. If the list changes between two answers, the same
 * object may be in both: it is kept once. Lists that are only text keep all their lines.
 */
static json_t *whole_list(struct daemon *d, const struct kind *k)
{
	json_t *lines = daemon_ask(d, k->command, NULL), *more = json_incref(lines), *seen = json_object(), *line;
	json_t *out = lines != NULL ? json_array() : NULL;
	char id[CELL];
	size_t i, asked = 0;

	while (json_array_size(more) > 0) { /* the size of NULL, and of a value that is not a list, is 0 */
		json_array_foreach(more, i, line) {
			id_of(json_string_value(line), id);
			if (k->text || json_object_get(seen, id) == NULL)
				json_array_append(out, line);
			json_object_set(seen, id, line);
		}
		asked += json_array_size(more);
		json_decref(more);
		snprintf(id, sizeof(id), "+%zu", asked);
		more = daemon_ask(d, k->command, id);
	}
	json_decref(more);
	json_decref(seen);
	json_decref(lines);
	return out;
}

json_t *show_collect(struct daemon *d, const char *name)
{
	const struct kind *k = kind_of(name);
	json_t *lines = whole_list(d, k), *out, *line;
	char id[CELL];
	size_t i;

	if (lines == NULL)
		return NULL;
	out = json_array();
	json_array_foreach(lines, i, line) {
		json_t *one;
		if (k->text) {
			json_array_append(out, line);
			continue;
		}
		id_of(json_string_value(line), id);
		one = daemon_ask(d, k->command, id);
		if (one == NULL) /* the object has ended between the two requests */
			continue;
		json_object_set_new(one, "id", json_string(id));
		json_array_append_new(out, one);
	}
	json_decref(lines);
	return out;
}

static void print_row(const struct kind *k, const json_t *one, const size_t width[])
{
	char buf[CELL];

	for (size_t c = 0; c < COLUMNS_MAX && k->column[c] != NULL; c++) {
		const char *s = one != NULL ? text_of(json_object_get(one, k->column[c]), buf) : k->column[c];
		printf("%s%*s", c > 0 ? "  " : "", (c == 0 ? -1 : 1) * (int)width[c], s);
	}
	putchar('\n');
}

static void print_table(const struct kind *k, json_t *list)
{
	size_t width[COLUMNS_MAX] = { 0 }, i;
	char buf[CELL];
	json_t *one;

	for (size_t c = 0; c < COLUMNS_MAX && k->column[c] != NULL; c++) {
		width[c] = strlen(k->column[c]);
		json_array_foreach(list, i, one) {
			size_t n = strlen(text_of(json_object_get(one, k->column[c]), buf));
			width[c] = n > width[c] ? n : width[c];
		}
	}
	print_row(k, NULL, width);
	json_array_foreach(list, i, one)
		print_row(k, one, width);
}

/* Prints a line for each number: name, value, unit and meaning. */
static void print_object(enum counter_group group, json_t *one, bool all)
{
	const char *name;
	json_t *v;
	char buf[CELL];

	json_object_foreach(one, name, v) {
		const struct counter *c = counter_find(group, name);
		if (!all && c != NULL && json_integer_value(v) == 0)
			continue;
		if (c != NULL)
			printf("%-22s %16s %-12s %s\n", name, text_of(v, buf), c->unit, c->meaning);
		else
			printf("%-22s %16s\n", name, text_of(v, buf));
	}
}

static int show_one(struct daemon *d, const struct show *s, const struct kind *k, const char *which)
{
	json_t *one = k->text ? NULL : daemon_ask(d, k->command, which);

	if (one == NULL && daemon_lost(d))
		return daemon_gone(d);
	if (one == NULL) {
		fprintf(stderr, "rnicctl: there is nothing named %s among the %s: see rnicctl %s\n", which, k->name,
			k->name);
		return 1;
	}
	if (s->json)
		return print_json(one);
	print_object(k->group, one, true);
	json_decref(one);
	return 0;
}

int show_objects(struct daemon *d, const struct show *s, const char *name, const char *which)
{
	const struct kind *k = kind_of(name);
	json_t *list, *line;
	size_t i;

	if (which != NULL)
		return show_one(d, s, k, which);
	list = show_collect(d, name);
	if (list == NULL)
		return daemon_gone(d);
	if (s->json)
		return print_json(list);
	if (k->text) {
		json_array_foreach(list, i, line)
			puts(json_string_value(line));
	} else {
		print_table(k, list);
	}
	json_decref(list);
	return 0;
}

int show_counters(struct daemon *d, const struct show *s)
{
	json_t *all = daemon_ask(d, "/rnic/counters", NULL);

	if (all == NULL)
		return daemon_gone(d);
	if (s->json)
		return print_json(all);
	print_object(COUNTER_STACK, all, s->all);
	json_decref(all);
	return 0;
}

int show_status(struct daemon *d, const struct show *s)
{
	json_t *ports = show_collect(d, "ports"), *all = daemon_ask(d, "/rnic/counters", NULL), *port;
	json_t *workers = daemon_ask(d, "/rnic/workers", NULL);
	size_t i;

	if (ports == NULL || all == NULL || workers == NULL) {
		json_decref(ports);
		json_decref(all);
		json_decref(workers);
		return daemon_gone(d);
	}
	if (s->json)
		return print_json(json_pack("{s:I, s:s, s:o, s:o, s:o}", "pid", (json_int_t)daemon_pid(d), "telemetry",
					    daemon_path(d), "workers", workers, "ports", ports, "counters", all));
	printf("rnicd runs as process %ld; its telemetry socket is %s\n", daemon_pid(d), daemon_path(d));
	printf("workers: %zu, clients: %lld, connections: %lld\n", json_array_size(workers),
	       (long long)json_integer_value(json_object_get(all, "clients")),
	       (long long)json_integer_value(json_object_get(all, "connections")));
	json_array_foreach(ports, i, port)
		printf("%s %s, address %s, MTU %lld: %lld frames received, %lld sent\n",
		       strchr(json_string_value(json_object_get(port, "name")), '/') != NULL ? "path" : "port",
		       json_string_value(json_object_get(port, "name")),
		       json_string_value(json_object_get(port, "address")),
		       (long long)json_integer_value(json_object_get(port, "mtu")),
		       (long long)json_integer_value(json_object_get(port, "rx_packets")),
		       (long long)json_integer_value(json_object_get(port, "tx_packets")));
	json_decref(ports);
	json_decref(all);
	json_decref(workers);
	return 0;
}
