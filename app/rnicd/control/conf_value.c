/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/conf_value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static bool conf_value_say(char *why, const char *text)
{
	snprintf(why, CONF_WHY_MAX, "%s", text);
	return false;
}

bool conf_uint(const char *s, uint64_t min, uint64_t max, uint64_t *v, char *why)
{
	int base = s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10;
	char *end;

	errno = 0;
	unsigned long long n = strtoull(s, &end, base);
	if (!isdigit((unsigned char)s[0]) || *end != '\0' || errno != 0 || n < min || n > max) {
		snprintf(why, CONF_WHY_MAX, "must be a whole number from %llu to %llu", (unsigned long long)min,
			 (unsigned long long)max);
		return false;
	}
	*v = n;
	return true;
}

/*
 * Parses a decimal number with up to nine decimal places and one of the units: value * factor, exactly. False: not such
 * a number, or too large.
 */
static bool with_unit(const char *s, const struct unit *u, uint64_t *v)
{
	unsigned __int128 n = 0, part = 0, scale = 1; /* the number is n + part / scale */
	unsigned digits = 0, places = 0;

	for (; isdigit((unsigned char)*s); s++, digits++)
		n = n * 10 + (unsigned)(*s - '0');
	if (digits == 0 || digits > 18)
		return false;
	if (*s == '.') {
		for (s++; isdigit((unsigned char)*s); s++, places++) {
			part = part * 10 + (unsigned)(*s - '0');
			scale *= 10;
		}
		if (places == 0 || places > 9)
			return false;
	}
	while (*s == ' ')
		s++;
	for (; u->name != NULL; u++) {
		if (strcasecmp(s, u->name) != 0)
			continue;
		n = n * u->factor + part * u->factor / scale; /* less than 10^18 * 2^40: no overflow */
		*v = (uint64_t)n;
		return n <= UINT64_MAX;
	}
	return false;
}

/* Prints the number in the largest unit that divides it, for messages. */
static const char *conf_value_show(uint64_t v, const struct unit *u, char *buf, size_t len)
{
	const struct unit *best = NULL;

	for (; u->name != NULL; u++)
		if (v != 0 && v % u->factor == 0 && (best == NULL || u->factor > best->factor))
			best = u;
	if (best == NULL)
		snprintf(buf, len, "%llu", (unsigned long long)v);
	else
		snprintf(buf, len, "%llu%s", (unsigned long long)(v / best->factor), best->name);
	return buf;
}

static bool in_units(const char *s, const struct unit *u, const char *what, const uint64_t lim[2], uint64_t *v,
		     char *why)
{
	char lo[32], hi[32];
	uint64_t n;

	if (with_unit(s, u, &n) && n >= lim[0] && n <= lim[1]) {
		*v = n;
		return true;
	}
	snprintf(why, CONF_WHY_MAX, "must be %s from %s to %s", what, conf_value_show(lim[0], u, lo, sizeof(lo)),
		 conf_value_show(lim[1], u, hi, sizeof(hi)));
	return false;
}

bool conf_bytes(const char *s, uint64_t min, uint64_t max, uint64_t *v, char *why)
{
	static const struct unit units[] = { { "", 1 },
					     { "K", UINT64_C(1) << 10 },
					     { "M", UINT64_C(1) << 20 },
					     { "G", UINT64_C(1) << 30 },
					     { "T", UINT64_C(1) << 40 },
					     { NULL, 0 } };

	return in_units(s, units, "bytes (K, M, G, T)", (uint64_t[]){ min, max }, v, why);
}

bool conf_rate(const char *s, uint64_t min, uint64_t max, uint64_t *v, char *why)
{
	static const struct unit units[] = {
		{ "", 1 }, { "k", 1000 }, { "M", 1000000 }, { "G", 1000000000 }, { NULL, 0 }
	};

	return in_units(s, units, "bits per second (k, M, G)", (uint64_t[]){ min, max }, v, why);
}

bool conf_time(const char *s, uint64_t min, uint64_t max, uint64_t *v, char *why)
{
	static const struct unit units[] = {
		{ "ns", 1 }, { "us", RN_NS_PER_US }, { "ms", RN_NS_PER_MS }, { "s", RN_NS_PER_S }, { NULL, 0 }
	};

	if (strcmp(s, "0") == 0 && min == 0) {
		*v = 0;
		return true;
	}
	return in_units(s, units, "a time (ns, us, ms, s)", (uint64_t[]){ min, max }, v, why);
}

bool conf_prob(const char *s, uint64_t *v, char *why)
{
	static const struct unit units[] = { { "%", UINT64_C(10000000) }, { "", UINT64_C(1000000000) }, { NULL, 0 } };
	uint64_t n; /* of 10^9 */

	if (strchr(s, '%') == NULL && with_unit(s, units, &n) && n >= UINT64_C(1000000000)) {
		snprintf(why, CONF_WHY_MAX, "would be 100%%: was %s%% meant? Write 100%% for all", s);
		return false;
	}
	if (!with_unit(s, units, &n) || n > UINT64_C(1000000000))
		return conf_value_say(why, "must be a probability from 0% to 100%");
	n = (n << 32) / UINT64_C(1000000000);
	*v = n > UINT32_MAX ? UINT32_MAX : n;
	return true;
}

bool conf_bool(const char *s, uint64_t *v, char *why)
{
	static const char *const t[] = { "yes", "on", "true", "1" }, *const f[] = { "no", "off", "false", "0" };

	for (size_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		if (strcasecmp(s, t[i]) == 0 || strcasecmp(s, f[i]) == 0) {
			*v = strcasecmp(s, t[i]) == 0;
			return true;
		}
	}
	return conf_value_say(why, "must be yes or no");
}

bool conf_word(const char *s, const char *const *words, uint64_t *v, char *why)
{
	size_t n = 0;

	for (uint64_t i = 0; words[i] != NULL; i++) {
		if (strcasecmp(s, words[i]) == 0) {
			*v = i;
			return true;
		}
	}
	n = (size_t)snprintf(why, CONF_WHY_MAX, "must be ");
	for (uint64_t i = 0; words[i] != NULL && n < CONF_WHY_MAX; i++)
		n += (size_t)snprintf(why + n, CONF_WHY_MAX - n, "%s%s",
				      i == 0                 ? ""
				      : words[i + 1] == NULL ? " or "
							     : ", ",
				      words[i]);
	return false;
}

bool conf_mac(const char *s, uint8_t mac[PKT_MAC_LEN], char *why)
{
	uint8_t m[PKT_MAC_LEN], any = 0;

	for (unsigned i = 0; i < PKT_MAC_LEN; i++, s += 3) {
		if (!isxdigit((unsigned char)s[0]) || !isxdigit((unsigned char)s[1]) ||
		    s[2] != (i == PKT_MAC_LEN - 1 ? '\0' : ':'))
			return conf_value_say(why, "must be a MAC address such as 02:00:00:00:00:01");
		char two[3] = { s[0], s[1], '\0' };
		m[i] = (uint8_t)strtoul(two, NULL, 16);
		any |= m[i];
	}
	if ((m[0] & 1) != 0 || any == 0)
		return conf_value_say(why, "must be the MAC address of one station, neither multicast nor zero");
	memcpy(mac, m, PKT_MAC_LEN);
	return true;
}

bool conf_addr(const char *s, struct pkt_addr *a, char *why)
{
	static const uint8_t any6[16];
	struct in_addr v4;
	uint8_t v6[16];

	if (inet_pton(AF_INET, s, &v4) == 1) {
		uint32_t ip = ntohl(v4.s_addr);
		if (ip >> 24 == 0 || ip >> 24 == 127 || ip >> 28 >= 0xe)
			return conf_value_say(why,
					      "must be a unicast address, not a loopback, multicast or reserved one");
		*a = pkt_addr_ip4(ip);
		return true;
	}
	if (inet_pton(AF_INET6, s, v6) != 1)
		return conf_value_say(why, "must be an IPv4 or IPv6 address");
	if (v6[0] == 0xff || memcmp(v6, any6, 15) == 0)
		return conf_value_say(why, "must be a unicast address, not a loopback, multicast or reserved one");
	memcpy(a->b, v6, 16);
	if (pkt_addr_is_ip4(a))
		return conf_value_say(why, "must be written as an IPv4 address");
	return true;
}

bool conf_addr_prefix(const char *s, struct pkt_addr *a, uint32_t *bits, char *why)
{
	const char *slash = strchr(s, '/');
	char addr[INET6_ADDRSTRLEN];
	struct pkt_addr tmp;
	uint64_t n;

	if (slash == NULL || (size_t)(slash - s) >= sizeof(addr))
		return conf_value_say(why, "must be ADDRESS/BITS, such as 10.0.0.1/24");
	memcpy(addr, s, (size_t)(slash - s));
	addr[slash - s] = '\0';
	if (!conf_addr(addr, &tmp, why))
		return false;
	uint32_t shift = pkt_addr_is_ip4(&tmp) ? 96 : 0;
	if (!conf_uint(slash + 1, 1, 128 - shift, &n, why)) {
		snprintf(why, CONF_WHY_MAX, "has a prefix length that is not from 1 to %u", 128 - shift);
		return false;
	}
	*a = tmp;
	*bits = (uint32_t)n + shift;
	return true;
}
