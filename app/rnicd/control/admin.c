/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/admin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "control/client.h"
#include "control/conf_key.h"
#include "control/loop.h"
#include "control/reload.h"

#define ORDER_MAX 900u /* bytes; DPDK's telemetry takes less than 1,024 */

static bool no(char *say, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool no(char *say, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(say, ADMIN_SAY_MAX, fmt, ap);
	va_end(ap);
	return false;
}

static const struct conf_key *key_named(const struct conf_key *table, const char *name)
{
	for (; table->name != NULL; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

/* Stores a key of the port in *p. An empty value stands for the key's default; an empty `capture`, which has no
 * default, ends the capture. */
static bool store(const struct conf_key *k, struct rnicd_port_cfg *p, const char *value, char *say)
{
	char why[CONF_WHY_MAX];

	if (value[0] == '\0' && strcmp(k->name, "capture") == 0) {
		memset(p->capture, 0, sizeof(p->capture)); /* reload.c compares the structure byte by byte */
		return true;
	}
	if (value[0] == '\0')
		value = k->deflt;
	if (!conf_key_store(k, p, value, why))
		return no(say, "'%s=%s' %s", k->name, value, why);
	return true;
}

static bool folder_is_there(const char *file, char *say)
{
	char dir[RNICD_PATH_MAX];
	struct stat st;

	if (file[0] == '\0')
		return true;
	snprintf(dir, sizeof(dir), "%.*s/", (int)(strrchr(file, '/') - file), file);
	if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
		return no(say, "the folder %s of the capture is not there: make it first", dir);
	return true;
}

static bool set_port(char *words, char *say)
{
	char *rest, *name = strtok_r(words, " ", &rest), *word;
	struct rnicd_port_cfg to;
	uint32_t i = 0;

	while (name != NULL && i < rnicd_lines() && strcmp(rnicd.cfg.port[i].name, name) != 0)
		i++;
	if (name == NULL || i == rnicd_lines())
		return no(say, "there is no port %s", name != NULL ? name : "without a name");
	memcpy(&to, &rnicd.cfg.port[i], sizeof(to));
	word = strtok_r(NULL, " ", &rest);
	if (word == NULL)
		return no(say, "what is to change at port %s? Give KEY=VALUE, such as loss=1%%", name);
	for (; word != NULL; word = strtok_r(NULL, " ", &rest)) {
		char *value = strchr(word, '=');
		if (value == NULL)
			return no(say, "'%s' does not have the form KEY=VALUE", word);
		*value++ = '\0';
		const struct conf_key *k = key_named(conf_keys_port, word);
		if (k == NULL)
			return no(say, "a port has no key '%s': see rnicd --help-config", word);
		if (!store(k, &to, value, say))
			return false;
	}
	return folder_is_there(to.capture, say) && reload_port(i, &to, say, ADMIN_SAY_MAX);
}

static bool set_log_level(const char *level, char *say)
{
	const struct conf_key *k = key_named(conf_keys_rnicd, "log-level");

	for (uint32_t i = 0; k->words[i] != NULL; i++) {
		if (strcmp(k->words[i], level) == 0) {
			rnicd.cfg.log_level = i;
			snprintf(say, ADMIN_SAY_MAX, "the log level is %s", level);
			return true;
		}
	}
	return no(say, "a log level is one of %s", k->help);
}

bool admin_set(const char *order, char *say)
{
	char words[ORDER_MAX], *rest, *what;

	if (snprintf(words, sizeof(words), "%s", order) >= (int)sizeof(words))
		return no(say, "the order is longer than %u bytes", ORDER_MAX - 1);
	what = strtok_r(words, " ", &rest);
	if (what != NULL && strcmp(what, "port") == 0)
		return set_port(rest, say);
	if (what != NULL && strcmp(what, "log-level") == 0)
		return set_log_level(rest, say);
	return no(say, "set changes 'port NAME KEY=VALUE ...' or 'log-level LEVEL'");
}

bool admin_drop_client(const char *number, char *say)
{
	char *end;
	unsigned long id = strtoul(number, &end, 10);

	rn_list_each(struct client, c, &clients.all, link) {
		if (*end != '\0' || end == number || c->id != id || c->state == CLIENT_DYING)
			continue;
		if (c->hosts != NULL)
			return no(say,
				  "client %u is no process but an XRC domain, and ends with the last process of it",
				  c->id);
		snprintf(say, ADMIN_SAY_MAX, "client %u (pid %d) is dropped", c->id, (int)c->pid);
		client_drop(c, "its administrator asked for it");
		loop_poke();
		return true;
	}
	return no(say, "there is no client %s: rnicctl clients lists them", number);
}
