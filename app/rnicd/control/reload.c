/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/reload.h"

#include <string.h>

#include "border/cmd.h"
#include "border/port_admin.h"

#define NAME_ROOM 4096u /* bytes of a path, PATH_MAX */

/* A port that changes: first the workers take the new rate and impairment, and stop using the old capture; then the
 * control thread ends the old capture and begins the new one. */
static struct change {
	struct cmd cmd;
	struct rnicd_port *port;
	struct impair *im[RNICD_MAX_WORKERS]; /* the new impairment of each worker; in the answer the old one */
	struct capture *ended;                /* the old capture; NULL: none */
	bool begins;                          /* the new configuration has a capture that is to begin */
} changes[RNICD_MAX_LINES];
static uint32_t under_way;

static char path[NAME_ROOM];
static struct conf now; /* the contents of the file at the start */
static bool level_is_given;

void reload_begin(const char *p, const struct conf *was, bool level_given)
{
	strncpy(path, p, sizeof(path) - 1);
	memcpy(&now, was, sizeof(now));
	level_is_given = level_given;
}

static void workers_changed(struct cmd *cmd)
{
	struct change *c = rn_container_of(cmd, struct change, cmd);
	char err[256];

	under_way--;
	port_impair_end(c->im);
	port_capture_end(c->ended);
	if (!c->begins)
		return;
	struct capture *made = port_capture_begin(c->port, err, sizeof(err));
	if (made == NULL)
		rnicd_log(RNICD_LOG_ERROR, "reload: %s", err);
	/* release: pairs with port_capture() */
	__atomic_store_n(&c->port->capture, made, __ATOMIC_RELEASE);
}

/* memcmp() works because padding is equal too: conf_load() zeroes each structure as a whole, and copies are made byte
 * by byte. */
static bool same_bytes(const void *a, const void *b, size_t len) { return memcmp(a, b, len) == 0; }

static bool port_change(uint32_t i, const struct rnicd_port_cfg *to)
{
	struct rnicd_port_cfg *cfg = &rnicd.cfg.port[i];
	struct change *c = &changes[i];
	bool line = !same_bytes(&cfg->impair, &to->impair, sizeof(to->impair)) || cfg->rate_bps != to->rate_bps;
	bool capture = strcmp(cfg->capture, to->capture) != 0;

	if (!line && !capture)
		return false;
	*c = (struct change){ .port = rnicd.port[i], .cmd = { .type = CMD_PORT_CHANGE, .done = workers_changed } };
	c->cmd.change = (struct cmd_port_change){ .port = c->port, .im = c->im };
	if (!port_impair_make(c->port, &to->impair, c->im)) {
		rnicd_log(RNICD_LOG_ERROR, "reload: port %s: no memory for %u frames under way: lower 'limit'",
			  cfg->name, to->impair.limit);
		return false;
	}
	memcpy(&cfg->impair, &to->impair, sizeof(cfg->impair));
	cfg->rate_bps = to->rate_bps;
	if (capture) {
		memcpy(cfg->capture, to->capture, sizeof(cfg->capture));
		c->ended = __atomic_exchange_n(&c->port->capture, NULL, __ATOMIC_RELAXED);
		c->begins = cfg->capture[0] != '\0';
	}
	under_way++;
	cmd_send_all(&c->cmd);
	rnicd_log(RNICD_LOG_INFO, "reload: port %s: %s%s%s", cfg->name, line ? "rate and impairment" : "",
		  line && capture ? ", " : "",
		  !capture    ? ""
		  : c->begins ? "capture"
			      : "no capture");
	return true;
}

bool reload_under_way(void) { return under_way > 0; }

/* Whether two ports are equal, except for the keys that can change at run time. */
static bool same_port(const struct rnicd_port_cfg *a, const struct rnicd_port_cfg *b)
{
	struct rnicd_port_cfg x;

	memcpy(&x, b, sizeof(x));
	memcpy(&x.impair, &a->impair, sizeof(x.impair));
	x.rate_bps = a->rate_bps;
	memcpy(x.capture, a->capture, sizeof(x.capture));
	return same_bytes(a, &x, sizeof(x));
}

bool reload_port(uint32_t i, const struct rnicd_port_cfg *to, char *say, size_t len)
{
	const char *name = rnicd.cfg.port[i].name;

	if (reload_under_way()) {
		snprintf(say, len, "the change before is still under way: ask again");
		return false;
	}
	const struct rnicd_port_cfg *was = &rnicd.cfg.port[i];
	if (to->kind == RNICD_PORT_PATHS &&
	    (to->rate_bps != was->rate_bps || !same_bytes(&to->impair, &was->impair, sizeof(to->impair)))) {
		snprintf(say, len, "port %s has several paths: name one of them, %s/0 for the first", name, name);
		return false;
	}
	if (to->is_path && to->capture[0] != '\0') {
		snprintf(say, len, "%s is a path: capture its port, which shows the frames of all paths", name);
		return false;
	}
	if (!same_port(&rnicd.cfg.port[i], to)) {
		snprintf(
			say, len,
			"of port %s only rate, loss and the like, and capture can change while rnicd runs: the rest takes "
			"a restart",
			name);
		return false;
	}
	bool any = port_change(i, to);
	snprintf(say, len, any ? "port %s is changed" : "port %s stays as it is", name);
	return true;
}

static bool same_daemon(const struct conf *a, const struct conf *b)
{
	static struct conf x;

	memcpy(&x, b, sizeof(x));
	memcpy(x.d.port, a->d.port, sizeof(x.d.port));
	x.d.n_ports = a->d.n_ports;
	x.d.n_paths = a->d.n_paths;
	x.d.log_level = a->d.log_level;
	x.d.memory_mb = a->d.memory_mb; /* these three may be computed from other keys, which may change */
	x.d.fixed_mb = a->d.fixed_mb;
	x.d.work_mb = a->d.work_mb;
	x.workers_line = a->workers_line;
	x.control_cpu_line = a->control_cpu_line;
	return same_bytes(a, &x, sizeof(x));
}

static bool same_ports(const struct conf *a, const struct conf *b)
{
	if (a->d.n_ports != b->d.n_ports || a->d.n_paths != b->d.n_paths)
		return false;
	for (uint32_t i = 0; i < a->d.n_ports + a->d.n_paths; i++)
		if (strcmp(a->d.port[i].name, b->d.port[i].name) != 0)
			return false;
	return true;
}

void reload(void)
{
	static struct conf to;
	bool any = false;

	if (reload_under_way()) {
		rnicd_log(RNICD_LOG_WARNING, "reload: the one before is still under way: ask again");
		return;
	}
	if (conf_load(path, &to, stderr) > 0) {
		rnicd_log(RNICD_LOG_WARNING, "reload: %s has mistakes: nothing is changed", path);
		return;
	}
	if (!same_ports(&now, &to)) {
		rnicd_log(RNICD_LOG_WARNING,
			  "reload: other ports or paths, or in another order, take a restart: nothing is changed");
		return;
	}
	if (!same_daemon(&now, &to))
		rnicd_log(RNICD_LOG_WARNING,
			  "reload: of [rnicd] only log-level can change: the rest waits for a restart");
	for (uint32_t i = 0; i < to.d.n_ports + to.d.n_paths; i++) {
		if (!same_port(&now.d.port[i], &to.d.port[i]))
			rnicd_log(RNICD_LOG_WARNING,
				  "reload: port %s: only rate, loss and the like, and capture can change: the "
				  "rest waits for a restart",
				  to.d.port[i].name);
		any |= port_change(i, &to.d.port[i]);
	}
	if (!level_is_given && rnicd.cfg.log_level != to.d.log_level) {
		rnicd.cfg.log_level = to.d.log_level;
		any = true;
	}
	rnicd_log(RNICD_LOG_INFO, any ? "reload: done" : "reload: nothing to change");
}
