/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics.h"

#include <stdio.h>

#include "counter.h"
#include "show.h"

/* The metric's name: "rnic_port_rx_packets_total". Counters, which only grow, end in _total. */
static void name_of(const struct counter *c, char *buf, size_t size)
{
	snprintf(buf, size, "rnic_%s_%s%s", counter_group_name(c->group), c->name, c->gauge ? "" : "_total");
}

static void head(FILE *out, const struct counter *c, const char *name)
{
	fprintf(out, "# HELP %s %s (%s)\n# TYPE %s %s\n", name, c->meaning, c->unit, name,
		c->gauge ? "gauge" : "counter");
}

static long long value(const json_t *object, const char *name)
{
	return (long long)json_integer_value(json_object_get(object, name));
}

/* Writes one metric: a sample of each object that has it. label: NULL for the stack, of which there is only one. */
static void metric(FILE *out, const struct counter *c, const json_t *objects, const char *label)
{
	char name[96];
	const json_t *one;
	size_t i;
	bool any = false;

	name_of(c, name, sizeof(name));
	json_array_foreach(objects, i, one) {
		if (json_object_get(one, c->name) == NULL)
			continue;
		if (!any)
			head(out, c, name);
		any = true;
		if (label != NULL)
			fprintf(out, "%s{%s=\"%s\"} %lld\n", name, label, json_string_value(json_object_get(one, "id")),
				value(one, c->name));
		else
			fprintf(out, "%s %lld\n", name, value(one, c->name));
	}
}

bool metrics_write(struct daemon *d, FILE *out)
{
	json_t *of[COUNTER_GROUPS] = {
		[COUNTER_PORT] = show_collect(d, "ports"), [COUNTER_WORKER] = show_collect(d, "workers")
	};
	static const char *const label[COUNTER_GROUPS] = { [COUNTER_PORT] = "port", [COUNTER_WORKER] = "worker" };
	json_t *stack = daemon_ask(d, "/rnic/counters", NULL);
	bool whole = stack != NULL && of[COUNTER_PORT] != NULL && of[COUNTER_WORKER] != NULL;

	of[COUNTER_STACK] = json_array();
	json_array_append_new(of[COUNTER_STACK], stack);
	for (uint32_t i = 0; whole && i < n_counters; i++)
		if (of[counters[i].group] != NULL)
			metric(out, &counters[i], of[counters[i].group], label[counters[i].group]);
	for (uint32_t g = 0; g < COUNTER_GROUPS; g++)
		json_decref(of[g]);
	return whole;
}

int metrics_print(struct daemon *d) { return metrics_write(d, stdout) ? 0 : daemon_gone(d); }
