/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/conf_paths.h"

#include <stdio.h>
#include <string.h>

#include "control/conf_device.h"

#define LIST_MAX 2048u
#define NAME_END 3u /* bytes for "/N" and the final 0 behind a port's name */

void conf_paths_begin(struct conf_paths *ps)
{
	memset(ps, 0, sizeof(*ps));
	for (uint32_t i = 0; i < RNICD_PATHS; i++)
		conf_key_defaults(conf_keys_port, &ps->path[i]);
}

/* Finds the comma between the first device of a list and the next device. A device may have commas of its own. */
static char *device_end(char *s)
{
	static const char *const kinds[] = { "pair:", "memif:", "tap:", "af_packet:", "host:", "pcap:", "pci:" };

	for (char *c = strchr(s, ','); c != NULL; c = strchr(c + 1, ',')) {
		const char *next = c + 1 + strspn(c + 1, " \t");
		for (size_t k = 0; k < RN_ARRAY_LEN(kinds); k++)
			if (strncmp(next, kinds[k], strlen(kinds[k])) == 0)
				return c;
	}
	return NULL;
}

static char *value_end(char *s) { return strchr(s, ','); }

/* Takes the first element off a list, without the blanks around the element. */
static char *take(char **list, char *(*end_of)(char *))
{
	char *one = *list + strspn(*list, " \t"), *comma = end_of(one);

	*list = comma != NULL ? comma + 1 : NULL;
	if (comma != NULL)
		*comma = '\0';
	for (size_t n = strlen(one); n > 0 && (one[n - 1] == ' ' || one[n - 1] == '\t'); n--)
		one[n - 1] = '\0';
	return one;
}

/*
 * Splits the value into elements. k: the key that each element is a value of; NULL: each element is a device. Returns
 * the number of elements; 0 with half a sentence in why.
 */
static uint32_t list_in(struct conf_paths *ps, const struct conf_key *k, const char *value, char *why)
{
	char copy[LIST_MAX], *rest = copy;
	uint32_t n = 0;

	if (snprintf(copy, sizeof(copy), "%s", value) >= (int)sizeof(copy)) {
		snprintf(why, CONF_WHY_MAX, "is too long");
		return 0;
	}
	while (rest != NULL) {
		const char *one = take(&rest, k != NULL ? value_end : device_end);
		if (n == RNICD_PATHS) {
			snprintf(why, CONF_WHY_MAX, "is a list of more than %u", RNICD_PATHS);
			return 0;
		}
		if (k != NULL ? !conf_key_store(k, &ps->path[n], one, why) : !conf_device(&ps->path[n], one, why))
			return 0;
		n++;
	}
	return n;
}

bool conf_paths_store(struct conf_paths *ps, const struct conf_key *k, struct rnicd_port_cfg *port, const char *value,
		      char *why)
{
	if (strcmp(k->name, "paths") == 0) {
		ps->n = list_in(ps, NULL, value, why);
		port->kind = RNICD_PORT_PATHS;
		return ps->n != 0;
	}
	if (!k->each)
		return conf_key_store(k, port, value, why);
	if (strchr(value, ',') != NULL) {
		uint32_t n = list_in(ps, k, value, why);
		ps->values[k - conf_keys_port] = (uint8_t)n;
		return n != 0;
	}
	for (uint32_t i = 0; i < RNICD_PATHS; i++)
		(void)conf_key_store(k, &ps->path[i], value, why);
	return conf_key_store(k, port, value, why);
}

static bool seeds_are_listed(const struct conf_paths *ps)
{
	for (const struct conf_key *k = conf_keys_port; k->name != NULL; k++)
		if (strcmp(k->name, "seed") == 0)
			return ps->values[k - conf_keys_port] != 0;
	return false;
}

bool conf_paths_join(struct rnicd_cfg *d, uint32_t i, const struct conf_paths *ps, char *why)
{
	struct rnicd_port_cfg *port = &d->port[i];

	if (strlen(port->name) + NAME_END > sizeof(port->name)) {
		snprintf(why, CONF_WHY_MAX, "has a name that is too long for a port with paths: %zu letters at most",
			 sizeof(port->name) - NAME_END);
		return false;
	}
	if (d->n_paths + ps->n > RNICD_MAX_PATHS) {
		snprintf(why, CONF_WHY_MAX, "has one path too many: all ports together may have %u", RNICD_MAX_PATHS);
		return false;
	}
	memset(&port->impair, 0, sizeof(port->impair)); /* each path has an impairment of its own, the port has none */
	port->rate_bps = 0;
	for (uint32_t k = 0; k < ps->n; k++) {
		const struct rnicd_port_cfg *p = &ps->path[k];
		struct rnicd_port_cfg *to = &d->port[d->n_ports + d->n_paths++];
		memcpy(to, port, sizeof(*to));
		const size_t len = strlen(port->name);
		to->name[len] = '/';
		to->name[len + 1] = (char)('0' + k); /* one digit: RNICD_PATHS is less than ten */
		to->name[len + 2] = '\0';
		to->is_path = true;
		to->of = (uint8_t)i;
		to->kind = p->kind;
		memcpy(to->args, p->args, sizeof(to->args));
		memset(to->capture, 0, sizeof(to->capture));
		to->rate_bps = p->rate_bps;
		memcpy(&to->impair, &p->impair, sizeof(to->impair));
		if (!seeds_are_listed(ps)) /* so that the paths do not lose the same frames */
			to->impair.seed += k;
	}
	for (uint32_t k = 0; k < ps->n; k++) {
		if (ps->path[k].rate_bps == 0) { /* a port with an unlimited path is unlimited */
			port->rate_bps = 0;
			break;
		}
		port->rate_bps += ps->path[k].rate_bps;
	}
	return true;
}

/* Of the paths of port i that are wired to the port `name`, the n-th (from 0): its index in the table. n_ports +
 * n_paths: there is none. */
static uint32_t path_to(const struct rnicd_cfg *d, uint32_t i, const char *name, uint32_t n)
{
	const size_t len = strlen(name);
	uint32_t at = d->n_ports;

	for (; at < d->n_ports + d->n_paths; at++) {
		const struct rnicd_port_cfg *p = &d->port[at];
		/* args may already be the name of a path: NAME/3 */
		if (p->of == i && p->kind == RNICD_PORT_PAIR && strncmp(p->args, name, len) == 0 &&
		    (p->args[len] == '\0' || p->args[len] == '/') && n-- == 0)
			break;
	}
	return at;
}

bool conf_paths_wire(struct rnicd_cfg *d, uint32_t line, char *why)
{
	struct rnicd_port_cfg *p = &d->port[line];
	const char *own = d->port[p->of].name;
	uint32_t end = 0, before = 0, there;

	while (end < d->n_ports && strcmp(d->port[end].name, p->args) != 0)
		end++;
	if (end == d->n_ports) {
		snprintf(why, CONF_WHY_MAX, "leads to '%.40s', but there is no section [port %.40s]", p->args, p->args);
		return false;
	}
	while (path_to(d, p->of, p->args, before) != line)
		before++;
	there = path_to(d, end, own, before);
	if (end == p->of || there == d->n_ports + d->n_paths) {
		snprintf(why, CONF_WHY_MAX,
			 "leads to '%.40s', which has no path that leads back: give both as many as the other",
			 p->args);
		return false;
	}
	if (d->port[end].mtu != p->mtu) {
		snprintf(why, CONF_WHY_MAX, "leads to '%.40s', which has another MTU", p->args);
		return false;
	}
	memcpy(p->args, d->port[there].name, sizeof(d->port[there].name));
	return true;
}
