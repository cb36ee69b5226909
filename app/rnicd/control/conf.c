/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/conf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "control/conf_device.h"
#include "control/conf_ini.h"
#include "control/conf_key.h"
#include "control/conf_paths.h"

#define WORK_MAX_MB 512u

enum where { NOWHERE, IN_RNICD, IN_PORT, IN_UNKNOWN };

struct reader {
	const char *name;
	FILE *err;
	struct conf *c;
	unsigned mistakes;
	enum where where;
	unsigned rnicd_line;
	unsigned last_line; /* the file's last line: a missing section is reported there */
	unsigned rnicd_keys[CONF_MAX_KEYS];
	unsigned port_line[RNICD_MAX_PORTS];
	unsigned port_keys[RNICD_MAX_PORTS][CONF_MAX_KEYS];
	struct conf_paths paths[RNICD_MAX_PORTS];
};

static void mistake(struct reader *r, unsigned line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void mistake(struct reader *r, unsigned line, const char *fmt, ...)
{
	va_list ap;

	fprintf(r->err, "%s:%u: ", r->name, line);
	va_start(ap, fmt);
	vfprintf(r->err, fmt, ap);
	va_end(ap);
	fputc('\n', r->err);
	r->mistakes++;
}

/* The Levenshtein distance of two words. A large number if b has more than 31 letters. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[32], n = (unsigned)strlen(b);

	if (n >= RN_ARRAY_LEN(row))
		return 99;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; *a != '\0'; a++, i++) {
		unsigned diag = row[0];
		row[0] = i;
		for (unsigned j = 1; j <= n; j++) {
			unsigned cost = rn_min_u32(rn_min_u32(row[j], row[j - 1]) + 1, diag + (*a != b[j - 1]));
			diag = row[j];
			row[j] = cost;
		}
	}
	return row[n];
}

static void unknown_key(struct reader *r, unsigned line, const struct conf_key *table, const char *name)
{
	const struct conf_key *best = NULL;
	unsigned d, min = 3;

	for (const struct conf_key *k = table; k->name != NULL; k++) {
		d = distance(name, k->name);
		if (d < min) {
			min = d;
			best = k;
		}
	}
	const char *in = r->where == IN_RNICD ? "[rnicd]" : "[port]";
	if (best != NULL)
		mistake(r, line, "unknown key '%s' in a section %s; did you mean '%s'?", name, in, best->name);
	else
		mistake(r, line, "unknown key '%s' in a section %s", name, in);
}

static bool store_key(struct reader *r, const struct conf_key *k, const char *value, char *why)
{
	uint32_t last = r->c->d.n_ports - 1;

	if (r->where == IN_RNICD)
		return conf_key_store(k, r->c, value, why);
	return conf_paths_store(&r->paths[last], k, &r->c->d.port[last], value, why);
}

static void on_key(struct reader *r, unsigned line, const char *name, const char *value)
{
	const struct conf_key *table = r->where == IN_RNICD ? conf_keys_rnicd : conf_keys_port, *k = table;
	unsigned *lines = r->where == IN_RNICD ? r->rnicd_keys : r->port_keys[r->c->d.n_ports - 1];
	char why[CONF_WHY_MAX];

	while (k->name != NULL && strcmp(k->name, name) != 0)
		k++;
	if (k->name == NULL) {
		unknown_key(r, line, table, name);
	} else if (lines[k - table] != 0) {
		mistake(r, line, "'%s' was given already in line %u", name, lines[k - table]);
	} else {
		lines[k - table] = line;
		if (value[0] == '\0')
			mistake(r, line, "'%s' has no value", name);
		else if (!store_key(r, k, value, why))
			mistake(r, line, "'%s = %s' %s", name, value, why);
	}
}

static bool good_name(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	return s[0] != '\0' && strlen(s) < RNICD_NAME_MAX && s[strspn(s, letters)] == '\0';
}

static void on_port_section(struct reader *r, unsigned line, const char *name)
{
	struct rnicd_cfg *d = &r->c->d;

	r->where = IN_UNKNOWN;
	if (!good_name(name)) {
		mistake(r, line, "a port's name has 1 to 31 letters, digits, '-' or '_'");
		return;
	}
	for (uint32_t i = 0; i < d->n_ports; i++) {
		if (strcmp(d->port[i].name, name) == 0) {
			mistake(r, line, "section [port %s] was given already in line %u", name, r->port_line[i]);
			return;
		}
	}
	if (d->n_ports == RNICD_MAX_PORTS) {
		mistake(r, line, "more than %u ports", RNICD_MAX_PORTS);
		return;
	}
	r->where = IN_PORT;
	struct rnicd_port_cfg *p = &d->port[d->n_ports];
	conf_key_defaults(conf_keys_port, p);
	conf_paths_begin(&r->paths[d->n_ports]);
	strcpy(p->name, name);
	r->port_line[d->n_ports++] = line;
}

static void on_section(struct reader *r, unsigned line, const char *name)
{
	if (strcmp(name, "rnicd") == 0) {
		r->where = IN_RNICD;
		if (r->rnicd_line != 0) {
			mistake(r, line, "section [rnicd] was given already in line %u", r->rnicd_line);
			r->where = IN_UNKNOWN;
			return;
		}
		r->rnicd_line = line;
	} else if (strncmp(name, "port ", 5) == 0) {
		on_port_section(r, line, name + 5 + strspn(name + 5, " \t"));
	} else {
		mistake(r, line, "unknown section [%s]; there are [rnicd] and [port NAME]", name);
		r->where = IN_UNKNOWN;
	}
}

static void on_item(void *arg, unsigned line, enum conf_item item, const char *name, const char *value)
{
	struct reader *r = arg;

	r->last_line = line;
	switch (item) {
	case CONF_SECTION: on_section(r, line, name); break;
	case CONF_BAD: mistake(r, line, "%s", name); break;
	case CONF_KEY:
		if (r->where == NOWHERE)
			mistake(r, line, "'%s' stands before the first section", name);
		else if (r->where != IN_UNKNOWN) /* one mistake for an unknown section, not one for each of its lines */
			on_key(r, line, name, value);
		break;
	}
}

/* ---- checks of the configuration as a whole ---- */

static unsigned line_of(const struct reader *r, uint32_t port, const char *key)
{
	for (const struct conf_key *k = conf_keys_port; k->name != NULL; k++)
		if (strcmp(k->name, key) == 0 && r->port_keys[port][k - conf_keys_port] != 0)
			return r->port_keys[port][k - conf_keys_port];
	return r->port_line[port];
}

static unsigned rnicd_line_of(const struct reader *r, const char *key)
{
	const struct conf_key *k = conf_keys_rnicd;

	while (k->name != NULL && strcmp(k->name, key) != 0)
		k++;
	return r->rnicd_keys[k - conf_keys_rnicd];
}

static void check_pair(struct reader *r, uint32_t i)
{
	const struct rnicd_cfg *d = &r->c->d;
	const struct rnicd_port_cfg *p = &d->port[i], *q = NULL;
	unsigned line = line_of(r, i, "device");

	for (uint32_t j = 0; j < d->n_ports; j++)
		if (strcmp(d->port[j].name, p->args) == 0)
			q = &d->port[j];
	if (q == NULL)
		mistake(r, line, "port '%s' is paired with '%s', but there is no section [port %s]", p->name, p->args,
			p->args);
	else if (q == p)
		mistake(r, line, "port '%s' is paired with itself", p->name);
	else if (q->kind != RNICD_PORT_PAIR || strcmp(q->args, p->name) != 0)
		mistake(r, line, "port '%s' is paired with '%s', but that one is not paired with it", p->name, p->args);
	else if (q->mtu != p->mtu && q > p)
		mistake(r, line_of(r, (uint32_t)(q - d->port), "mtu"),
			"ports '%s' and '%s' are one wire but have different MTUs", p->name, q->name);
}

/* Whether port i, or a path of it, is wired to the port `name`. Two such ports may be in one subnet, because each can
 * only reach the other. */
static bool leads_to(const struct reader *r, uint32_t i, const char *name)
{
	const struct rnicd_port_cfg *p = &r->c->d.port[i];
	const struct conf_paths *ps = &r->paths[i];

	for (uint32_t k = 0; k < ps->n; k++)
		if (ps->path[k].kind == RNICD_PORT_PAIR && strcmp(ps->path[k].args, name) == 0)
			return true;
	return p->kind == RNICD_PORT_PAIR && strcmp(p->args, name) == 0;
}

/* A destination address must determine the port. So the subnets of two ports may not overlap partly. If both ports have
 * the same subnet, programs choose one by binding an address. */
static void check_subnets(struct reader *r, uint32_t i, uint32_t j)
{
	const struct rnicd_port_cfg *p = &r->c->d.port[i], *q = &r->c->d.port[j];
	unsigned line = line_of(r, i, "address");

	if (!pkt_addr_same_net(&p->ip, &q->ip, rn_min_u32(p->prefix_len, q->prefix_len)) || leads_to(r, i, q->name) ||
	    leads_to(r, j, p->name))
		return;
	if (p->prefix_len != q->prefix_len)
		mistake(r, line, "the subnets of ports '%s' and '%s' overlap: which of them has a destination in both?",
			q->name, p->name);
	else
		fprintf(r->err,
			"%s:%u: note: ports '%s' and '%s' are in one subnet: programs that bind no address use '%s'\n",
			r->name, line, q->name, p->name, q->name);
}

static void check_capture(struct reader *r, uint32_t i)
{
	const struct rnicd_port_cfg *p = &r->c->d.port[i];
	int len = (int)(strrchr(p->capture, '/') - p->capture);
	char dir[RNICD_PATH_MAX];
	struct stat st;

	snprintf(dir, sizeof(dir), "%.*s", len > 0 ? len : 1, p->capture);
	if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
		mistake(r, line_of(r, i, "capture"), "the folder %s of the capture is not there: make it first", dir);
	else if (stat(p->capture, &st) == 0 && S_ISDIR(st.st_mode))
		mistake(r, line_of(r, i, "capture"), "%s is a folder: name a file in it for the capture", p->capture);
}

static void check_port(struct reader *r, uint32_t i)
{
	const struct rnicd_cfg *d = &r->c->d;
	const struct rnicd_port_cfg *p = &d->port[i];
	bool v4 = pkt_addr_is_ip4(&p->ip);

	for (const struct conf_key *k = conf_keys_port; k->name != NULL; k++)
		if (k->deflt[0] == '\0' && r->port_keys[i][k - conf_keys_port] == 0 &&
		    !(k == conf_keys_port && p->kind == RNICD_PORT_PATHS))
			mistake(r, r->port_line[i], "port '%s' has no '%s'", p->name, k->name);
	for (uint32_t j = 0; j < i; j++) {
		if (r->port_keys[j][1] != 0 && r->port_keys[i][1] != 0 && pkt_addr_eq(&d->port[j].ip, &p->ip))
			mistake(r, line_of(r, i, "address"), "ports '%s' and '%s' have the same address",
				d->port[j].name, p->name);
		if (d->port[j].mac_set && p->mac_set && memcmp(d->port[j].mac, p->mac, PKT_MAC_LEN) == 0)
			mistake(r, line_of(r, i, "mac"), "ports '%s' and '%s' have the same MAC address",
				d->port[j].name, p->name);
		if (r->port_keys[j][1] != 0 && r->port_keys[i][1] != 0 && !pkt_addr_eq(&d->port[j].ip, &p->ip))
			check_subnets(r, i, j);
		if (r->port_keys[j][0] != 0 && r->port_keys[i][0] != 0 && conf_device_same(&d->port[j], p))
			mistake(r, line_of(r, i, "device"), "ports '%s' and '%s' are one device", d->port[j].name,
				p->name);
		if (p->capture[0] != '\0' && strcmp(d->port[j].capture, p->capture) == 0)
			mistake(r, line_of(r, i, "capture"), "ports '%s' and '%s' are captured to the same file",
				d->port[j].name, p->name);
	}
	if (!v4 && p->prefix_len != 0)
		mistake(r, line_of(r, i, "address"), "ports have no IPv6 yet: give port '%s' an IPv4 address", p->name);
	if (p->gateway_set && !pkt_addr_same_net(&p->gateway, &p->ip, p->prefix_len))
		mistake(r, line_of(r, i, "gateway"), "the gateway is not in the subnet of the port's address");
	if (p->mtu > RNICD_MTU_WIRE && p->kind != RNICD_PORT_PAIR)
		mistake(r, line_of(r, i, "mtu"), "an MTU above %u is for pair ports: give port '%s' a smaller one",
			RNICD_MTU_WIRE, p->name);
	if (p->capture[0] != '\0')
		check_capture(r, i);
	if (p->kind == RNICD_PORT_PAIR && p->args[0] != '\0')
		check_pair(r, i);
}

/* Checks the lists of port i, and enters its paths into the table, behind all ports. */
static void check_paths(struct reader *r, uint32_t i)
{
	const struct conf_paths *ps = &r->paths[i];
	struct rnicd_cfg *d = &r->c->d;
	unsigned line = line_of(r, i, "paths");
	char why[CONF_WHY_MAX];

	for (const struct conf_key *k = conf_keys_port; k->name != NULL; k++) {
		uint32_t n = ps->values[k - conf_keys_port];
		if (n != 0 && n != ps->n)
			mistake(r, line_of(r, i, k->name), "'%s' has %u values, but port '%s' has %u path%s", k->name,
				n, d->port[i].name, ps->n == 0 ? 1 : ps->n, ps->n > 1 ? "s" : "");
	}
	if (d->port[i].kind != RNICD_PORT_PATHS || ps->n == 0)
		return;
	if (r->port_keys[i][0] != 0)
		mistake(r, line, "port '%s' has a 'device' and 'paths': give it one of the two", d->port[i].name);
	else if (!conf_paths_join(d, i, ps, why))
		mistake(r, line, "port '%s' %s", d->port[i].name, why);
}

static void check_path(struct reader *r, uint32_t at)
{
	struct rnicd_cfg *d = &r->c->d;
	const struct rnicd_port_cfg *p = &d->port[at];
	unsigned line = line_of(r, p->of, "paths");
	char why[CONF_WHY_MAX];

	if (p->kind == RNICD_PORT_PAIR && !conf_paths_wire(d, at, why))
		mistake(r, line, "path '%s' %s", p->name, why);
	for (uint32_t j = 0; j < at; j++)
		if (conf_device_same(&d->port[j], p))
			mistake(r, line, "'%s' and '%s' are one device", d->port[j].name, p->name);
}

static void check_whole(struct reader *r)
{
	const struct rnicd_cfg *d = &r->c->d;

	if (d->n_ports == 0)
		mistake(r, r->last_line > 0 ? r->last_line : 1,
			"there is no [port NAME] section: the daemon would own no device");
	for (uint32_t i = 0; i < d->n_ports; i++)
		check_port(r, i);
	for (uint32_t i = 0; i < d->n_ports; i++)
		check_paths(r, i);
	for (uint32_t i = 0; i < d->n_paths; i++)
		check_path(r, d->n_ports + i);
}

/* MiB that frames waiting to be captured, each worker's rings and small buffers, and the connections (2 KiB each)
 * need. */
static uint32_t fixed_memory(const struct rnicd_cfg *d)
{
	uint32_t captures = 0;

	for (uint32_t i = 0; i < d->n_ports; i++)
		if (d->port[i].capture[0] != '\0')
			captures += d->port[i].mtu > RNICD_MTU_WIRE ? 80 : 16;
	return 16 + captures + d->n_workers * (12 + d->flows / 512);
}

/*
 * MiB with which all connections of a worker can be active at once: a block of working memory takes 25 KiB at most, a
 * record of an FPDU in flight 1.3 KiB. Ordinary pages that are never used cost nothing.
 */
static uint32_t work_memory(const struct rnicd_cfg *d) { return rn_min_u32(WORK_MAX_MB, d->flows / 34); }

/* `memory = auto`: the fixed part, and the buffers and working memory that full speed needs. */
static void fit_memory(struct rnicd_cfg *d)
{
	d->work_mb = work_memory(d);
	d->memory_mb = rn_max_u32(256, d->fixed_mb + 32 + 64 * d->n_ports + 56 * d->n_workers) +
		       d->work_mb * d->n_workers;
}

unsigned conf_read(FILE *f, const char *name, struct conf *c, FILE *err)
{
	struct reader *r = calloc(1, sizeof(*r));

	memset(c, 0, sizeof(*c));
	if (r == NULL) {
		fprintf(err, "%s: out of memory\n", name);
		return 1;
	}
	*r = (struct reader){ .name = name, .err = err, .c = c };
	conf_key_defaults(conf_keys_rnicd, c);
	conf_ini_read(f, on_item, r);
	if (ferror(f))
		mistake(r, r->last_line + 1, "cannot be read: %s", strerror(errno));
	check_whole(r);
	c->d.fixed_mb = fixed_memory(&c->d);
	if (c->d.memory_mb == 0)
		fit_memory(&c->d);
	c->workers_line = rnicd_line_of(r, "workers");
	c->control_cpu_line = rnicd_line_of(r, "control-cpu");
	unsigned n = r->mistakes;
	free(r);
	return n;
}

unsigned conf_load(const char *path, struct conf *c, FILE *err)
{
	FILE *f = fopen(path, "re");

	if (f == NULL) {
		fprintf(err, "%s: cannot be opened: %s\n", path, strerror(errno));
		return 1;
	}
	unsigned n = conf_read(f, path, c, err);
	fclose(f);
	return n;
}

bool conf_socket(struct conf *c, const char *path, char *why)
{
	const struct conf_key *k = conf_keys_rnicd;

	while (k->name != NULL && strcmp(k->name, "socket") != 0)
		k++;
	return conf_key_store(k, c, path, why);
}

static void help_table(FILE *out, const struct conf_key *table)
{
	for (const struct conf_key *k = table; k->name != NULL; k++) {
		fprintf(out, "  %-18s%s", k->name, k->help);
		if (k->deflt[0] == '\0')
			fputs(" (must be given)", out);
		else if (strcmp(k->deflt, "-") != 0)
			fprintf(out, " (default %s)", k->deflt);
		fputc('\n', out);
	}
}

void conf_help(FILE *out)
{
	fputs("[rnicd]\n", out);
	help_table(out, conf_keys_rnicd);
	fputs("\n[port NAME]  one section for each RDMA device; NAME is the device's name\n", out);
	help_table(out, conf_keys_port);
}
