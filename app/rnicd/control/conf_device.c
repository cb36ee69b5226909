/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/conf_device.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "border/devargs.h"

static bool no_device(char *why, const char *text)
{
	snprintf(why, CONF_WHY_MAX, "%s", text);
	return false;
}

/* Checks an interface name as the kernel does: 1 to 15 bytes, neither "." nor "..", without '/' and ':'
 * (dev_valid_name). */
static bool interface(const char *name, char *why)
{
	size_t n = strlen(name);

	if (n >= RNICD_IF_NAME_MAX) {
		snprintf(why, CONF_WHY_MAX, "names an interface with %zu letters: the kernel's names have at most %u",
			 n, RNICD_IF_NAME_MAX - 1);
		return false;
	}
	if (n == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strpbrk(name, "/:") != NULL)
		return no_device(why,
				 "does not name an interface as the kernel has them: letters, digits, '-' and '_'");
	return true;
}

/* Checks arguments that name an interface: "iface=NAME,..." or the bare name. */
static bool with_interface(const char *args, char *why)
{
	char name[RNICD_ARGS_MAX];

	if (strchr(args, '=') == NULL)
		return interface(args, why);
	if (!devargs_get(args, "iface", name, sizeof(name)))
		return no_device(why, "needs the interface: iface=NAME");
	return interface(name, why);
}

static bool is_number(const char *s, uint64_t max)
{
	char unused[CONF_WHY_MAX];
	uint64_t v;

	return conf_uint(s, 0, max, &v, unused);
}

/*
 * DPDK's driver trusts offsets that the other end writes, and crashes if a client disconnects before its greeting. So
 * the socket must be a file, and only processes that may write to this file can connect. An abstract socket would be
 * open to every user.
 */
static bool memif_socket(struct rnicd_port_cfg *p, char *why)
{
	static const char file[] = ",socket-abstract=no";
	char v[RNICD_ARGS_MAX];
	size_t len = strlen(p->args);

	if (!devargs_get(p->args, "socket-abstract", v, sizeof(v))) {
		if (len + sizeof(file) > sizeof(p->args))
			return no_device(why, "is too long");
		memcpy(p->args + len, file, sizeof(file));
	} else if (strcmp(v, "no") != 0) {
		return no_device(why, "has a socket that every local user can connect to, and DPDK's driver trusts its "
				      "peer: set socket-abstract=no, and a socket in a folder of your own");
	}
	if (!devargs_get(p->args, "socket", v, sizeof(v)))
		return true;
	if (v[0] != '/')
		return no_device(why, "has a socket that is not an absolute path");
	if (strlen(v) > 107) /* sun_path, unix(7) */
		return no_device(why, "has a socket whose path is longer than 107 characters");
	return true;
}

static bool memif(struct rnicd_port_cfg *p, const char *args, char *why)
{
	static const char *const known[] = { "role", "id",     "socket",    "socket-abstract", "bsize",     "rsize",
					     "mac",  "secret", "zero-copy", "owner-uid",       "owner-gid", NULL };
	char v[RNICD_ARGS_MAX];

	/*
	 * With zero-copy, DPDK's driver shows all of rnicd's packet memory to the other end, and assumes that every
	 * buffer lies in the first part of this memory. Frames that refer to a client's memory break the assumption.
	 */
	if (devargs_get(args, "zero-copy", v, sizeof(v)) && strcmp(v, "no") != 0)
		return no_device(why, "has zero-copy, which rnicd does not support: DPDK's driver would show the other "
				      "end all of rnicd's packet memory. Leave zero-copy out");

	if (devargs_unknown(args, known, v, sizeof(v))) {
		snprintf(why, CONF_WHY_MAX,
			 "has an unknown argument '%.40s'; memif takes role, id, socket, socket-abstract, "
			 "bsize, rsize, mac and secret",
			 v);
		return false;
	}
	if (devargs_get(args, "role", v, sizeof(v)) && strcmp(v, "server") != 0 && strcmp(v, "client") != 0)
		return no_device(why, "has a role other than server or client");
	if (devargs_get(args, "id", v, sizeof(v)) && !is_number(v, UINT32_MAX))
		return no_device(why, "has an id that is no number");
	if (devargs_get(args, "bsize", v, sizeof(v)) && !is_number(v, UINT16_MAX))
		return no_device(why, "has a bsize that is not from 0 to 65535 bytes");
	if (devargs_get(args, "rsize", v, sizeof(v)) && !is_number(v, 14))
		return no_device(why,
				 "has an rsize that is not from 0 to 14 (the ring has 2 to the power of it slots)");
	return memif_socket(p, why);
}

static bool hex(const char **s, unsigned digits)
{
	for (; digits > 0; digits--)
		if (!isxdigit((unsigned char)*(*s)++))
			return false;
	return true;
}

/* Checks [DDDD:]BB:DD.F, then the driver's own arguments, and stores them with the domain DDDD, as DPDK names
 * devices. */
static bool pci(struct rnicd_port_cfg *p, const char *args, char *why)
{
	const char *s = args, *bus = strchr(args, ':');
	bool domain = bus != NULL && strchr(bus + 1, ':') != NULL && strchr(bus + 1, ':') < args + strcspn(args, ",");

	if ((domain && (!hex(&s, 4) || *s++ != ':')) || !hex(&s, 2) || *s++ != ':' || !hex(&s, 2) || *s++ != '.' ||
	    *s < '0' || *s > '7' || (s[1] != '\0' && s[1] != ','))
		return no_device(why, "must be a PCI address such as pci:0000:3b:00.0 (lspci -D shows them)");
	snprintf(p->args, sizeof(p->args), "%s%s", domain ? "" : "0000:", args);
	return true;
}

bool conf_device(struct rnicd_port_cfg *p, const char *v, char *why)
{
	static const char *const name[RNICD_PORT_PATHS] = { "pair:", "memif:", "tap:", "af_packet:",
							    "host:", "pcap:",  "pci:" };
	unsigned k = 0;

	while (k < RNICD_PORT_PATHS && strncmp(v, name[k], strlen(name[k])) != 0)
		k++;
	if (k == RNICD_PORT_PATHS)
		return no_device(why, "must begin with pair:, memif:, tap:, af_packet:, host:, pcap: or pci:");
	const char *args = v + strlen(name[k]);
	if (*args == '\0' || strlen(args) + sizeof("0000:") > sizeof(p->args) || strpbrk(args, " \t") != NULL)
		return no_device(why, "must name the device behind the colon, without blanks");
	p->kind = (enum rnicd_port_kind)k;
	strcpy(p->args, args);
	switch (p->kind) {
	case RNICD_PORT_MEMIF: return memif(p, args, why);
	case RNICD_PORT_TAP:
	case RNICD_PORT_AF_PACKET: return with_interface(args, why);
	case RNICD_PORT_HOST: return interface(args, why);
	case RNICD_PORT_PCI: return pci(p, args, why);
	case RNICD_PORT_PAIR:
	case RNICD_PORT_PCAP:
	case RNICD_PORT_PATHS:
	case RNICD_PORT_KINDS: break;
	}
	return true;
}

/* The identity of a device: its interface or PCI address; for a memif its socket, id and role. */
static void identity(const struct rnicd_port_cfg *p, char id[3][RNICD_ARGS_MAX])
{
	memset(id, 0, 3 * RNICD_ARGS_MAX);
	if (p->kind == RNICD_PORT_MEMIF) {
		devargs_get(p->args, "socket", id[0], RNICD_ARGS_MAX);
		if (!devargs_get(p->args, "id", id[1], RNICD_ARGS_MAX))
			strcpy(id[1], "0");
		if (!devargs_get(p->args, "role", id[2], RNICD_ARGS_MAX))
			strcpy(id[2], "client");
	} else if (strchr(p->args, '=') == NULL || !devargs_get(p->args, "iface", id[0], RNICD_ARGS_MAX)) {
		snprintf(id[0], RNICD_ARGS_MAX, "%.*s", (int)strcspn(p->args, ","), p->args);
	}
}

bool conf_device_same(const struct rnicd_port_cfg *a, const struct rnicd_port_cfg *b)
{
	char x[3][RNICD_ARGS_MAX], y[3][RNICD_ARGS_MAX];

	if (a->kind != b->kind || a->kind == RNICD_PORT_PAIR || a->kind == RNICD_PORT_PCAP ||
	    a->kind == RNICD_PORT_PATHS)
		return false;
	identity(a, x);
	identity(b, y);
	return strcmp(x[0], y[0]) == 0 && strcmp(x[1], y[1]) == 0 && strcmp(x[2], y[2]) == 0;
}
