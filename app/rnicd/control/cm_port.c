/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The port numbers in use on each device and address family: TCP ports of listeners, bound ids and sockets, and apart
 * from these the ports of ids of RDMA_PS_UDP.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "control/cm.h"

/* The ephemeral ports. */
#define FIRST CM_PORT_FIRST
#define LAST  CM_PORT_LAST

#define FAMILIES 4u
#define TCP      (CM_IP4 | CM_IP6)
#define UDP      (CM_UDP4 | CM_UDP6)
#define HOLDS    64u /* ports that are chosen at most until one is free in this process, too */

_Static_assert(RNICD_MAX_PORTS <= 32, "a bit of devs_of() for each device");
_Static_assert(CM_UDP4 == CM_IP4 << 2 && CM_UDP6 == CM_IP6 << 2, "both_spaces() shifts by 2");

static uint64_t taken[FAMILIES][RNICD_MAX_PORTS][65536 / 64];

static bool is_taken(uint32_t dev, uint32_t families, uint16_t port)
{
	for (uint32_t f = 0; f < FAMILIES; f++)
		if ((families >> f & 1) != 0 && (taken[f][dev][port / 64] >> (port % 64) & 1) != 0)
			return true;
	return false;
}

uint8_t cm_family_of(uint32_t dev) { return pkt_addr_is_ip4(&rnicd.port[dev]->cfg->ip) ? CM_IP4 : CM_IP6; }

const char *cm_port_refusal(const struct client *c, uint32_t dev, uint16_t port)
{
	uint32_t first = dev == CM_NO_DEV ? 0 : dev, last = dev == CM_NO_DEV ? rnicd.n_ports : dev + 1;

	for (uint32_t d = first; port != 0 && d < last; d++)
		if (rnicd.port[d]->cfg->qp_port == port)
			return client_by_design(
				"it is qp-port, on which only rnicd itself connects queue pairs: choose another port, "
				"or move qp-port in rnicd's configuration, on all hosts",
				"it is qp-port, on which queue pairs connect without rdma_cm: choose another port, or "
				"move qp-port on all hosts (RNIC_EMBEDDED_KEYS=qp-port=PORT)",
				"it is qp-port: choose another port");
	return port == 0 || port >= CM_PORT_FREE || c->uid == 0 || c->uid == geteuid()
		       ? NULL
		       : "ports below 1024 are root's, as those of the system: choose another one";
}

uint16_t cm_port_own(uint32_t dev, bool elsewhere)
{
	static uint32_t at;

	if ((at == 0 || elsewhere) && getrandom(&at, sizeof(at), 0) != (ssize_t)sizeof(at))
		at = 1;
	for (uint32_t i = 1; i < CM_PORT_FREE; i++) {
		uint16_t p = (uint16_t)(1 + ++at % (CM_PORT_FREE - 1));
		if (!is_taken(dev, cm_family_of(dev), p))
			return p;
	}
	return 0;
}

/* The family of the device's address, in both port spaces. */
static uint32_t both_spaces(uint32_t dev) { return cm_family_of(dev) | (uint32_t)cm_family_of(dev) << 2; }

/* A bit for each device whose address is of these families. */
static uint32_t devs_of(uint32_t dev, uint32_t families)
{
	uint32_t first = dev == CM_NO_DEV ? 0 : dev, last = dev == CM_NO_DEV ? rnicd.n_ports : dev + 1, devs = 0;

	for (uint32_t d = first; d < last; d++)
		if ((families & both_spaces(d)) != 0)
			devs |= UINT32_C(1) << d;
	return devs;
}

/* A port counts once for each device that can use it. A port of rnicd itself (NULL) does not count. */
static void uncount(struct user *u, uint32_t devs)
{
	for (; u != NULL && devs != 0; devs &= devs - 1)
		user_give(u, USER_TCP_PORTS, (uint32_t)__builtin_ctz(devs), 1);
}

static bool count(struct user *u, uint32_t devs)
{
	for (uint32_t left = devs; u != NULL && left != 0; left &= left - 1) {
		if (user_take(u, USER_TCP_PORTS, (uint32_t)__builtin_ctz(left), 1))
			continue;
		uncount(u, devs & ~left);
		return false;
	}
	return true;
}

/* ---- ports that other programs share: devices in a client's process ---- */

/* Of cm_port_share(); NULL: no other program has the addresses. */
static uint16_t (*hold_port)(uint32_t devs);
static void (*release_port)(uint32_t devs, uint16_t port);

void cm_port_share(uint16_t (*hold)(uint32_t devs), void (*release)(uint32_t devs, uint16_t port))
{
	hold_port = hold;
	release_port = release;
}

/* Of cm_port_share_udp(); NULL: no other process has the ports of RDMA_PS_UDP. */
static bool (*take_udp)(const struct pkt_addr *ip, uint16_t port);
static void (*give_udp)(const struct pkt_addr *ip, uint16_t port);

void cm_port_share_udp(bool (*take)(const struct pkt_addr *ip, uint16_t port),
		       void (*give)(const struct pkt_addr *ip, uint16_t port))
{
	take_udp = take;
	give_udp = give;
}

#define ADDRESSES (RNICD_MAX_PORTS > 2 ? RNICD_MAX_PORTS : 2)

/*
 * The addresses at which an id of RDMA_PS_UDP has its port: its device's, or the unspecified address of each of its
 * families. Returns their number: 0 for a TCP port.
 */
static uint32_t own_addresses(uint32_t dev, uint32_t families, struct pkt_addr a[ADDRESSES])
{
	uint32_t n = 0;

	if (dev != CM_NO_DEV && (families & UDP & both_spaces(dev)) != 0)
		a[n++] = rnicd.port[dev]->cfg->ip;
	if (dev == CM_NO_DEV && (families & CM_UDP4) != 0)
		a[n++] = pkt_addr_ip4(0);
	if (dev == CM_NO_DEV && (families & CM_UDP6) != 0)
		a[n++] = (struct pkt_addr){ .b = { 0 } };
	return n;
}

/* The addresses at which another process may have the same port, and would get some of the id's requests. */
static uint32_t other_addresses(uint32_t dev, uint32_t families, struct pkt_addr a[ADDRESSES])
{
	uint32_t n = 0;

	if (dev != CM_NO_DEV)
		return own_addresses(CM_NO_DEV, families & both_spaces(dev), a);
	for (uint32_t d = 0; d < rnicd.n_ports; d++)
		n += own_addresses(d, families, &a[n]);
	return n;
}

static void give_all(const struct pkt_addr *a, uint32_t n, uint16_t port)
{
	while (n-- > 0)
		give_udp(&a[n], port);
}

/* False: errno; nothing is taken. */
static bool take_all(const struct pkt_addr *a, uint32_t n, uint16_t port)
{
	for (uint32_t i = 0; i < n; i++) {
		if (take_udp(&a[i], port))
			continue;
		const int err = errno;
		give_all(a, i, port);
		errno = err;
		return false;
	}
	return true;
}

/* ---- reserving and releasing ---- */

bool cm_port_take(struct user *u, uint32_t dev, uint32_t families, uint16_t port)
{
	uint32_t first = dev == CM_NO_DEV ? 0 : dev, last = dev == CM_NO_DEV ? rnicd.n_ports : dev + 1;
	struct pkt_addr a[ADDRESSES];

	errno = EADDRINUSE;
	for (uint32_t d = first; d < last; d++)
		if (is_taken(d, families, port))
			return false;
	if (take_udp != NULL && !take_all(a, own_addresses(dev, families, a), port))
		return false;
	if (!count(u, devs_of(dev, families))) {
		if (give_udp != NULL)
			give_all(a, own_addresses(dev, families, a), port);
		errno = EDQUOT;
		return false;
	}
	for (uint32_t d = first; d < last; d++)
		for (uint32_t f = 0; f < FAMILIES; f++)
			if ((families >> f & 1) != 0)
				taken[f][d][port / 64] |= UINT64_C(1) << (port % 64);
	return true;
}

void cm_port_give(struct user *u, uint32_t dev, uint32_t families, uint16_t port)
{
	uint32_t first = dev == CM_NO_DEV ? 0 : dev, last = dev == CM_NO_DEV ? rnicd.n_ports : dev + 1;
	struct pkt_addr a[ADDRESSES];

	if (release_port != NULL && (families & TCP) != 0)
		release_port(devs_of(dev, families), port);
	if (give_udp != NULL)
		give_all(a, own_addresses(dev, families, a), port);
	uncount(u, devs_of(dev, families));
	for (uint32_t d = first; d < last; d++)
		for (uint32_t f = 0; f < FAMILIES; f++)
			if ((families >> f & 1) != 0)
				taken[f][d][port / 64] &= ~(UINT64_C(1) << (port % 64));
}

void cm_port_narrow(struct user *u, uint32_t dev, uint32_t families, uint16_t port)
{
	struct pkt_addr a[ADDRESSES];

	/* the id has a route now, and can serve no port any more */
	if (give_udp != NULL)
		give_all(a, own_addresses(CM_NO_DEV, families, a), port);
	for (uint32_t d = 0; d < rnicd.n_ports; d++)
		cm_port_give(u, d, d != dev ? families : families & ~both_spaces(dev), port);
}

/* ---- choosing ---- */

#define PORTS (LAST - FIRST + 1)

static bool is_coprime(uint32_t a, uint32_t b)
{
	while (b != 0) {
		const uint32_t rest = a % b;
		a = b;
		b = rest;
	}
	return a == 1;
}

/*
 * Visits each port once in PORTS steps. Start and stride are random (RFC 6056). The connections of another process
 * occupy ports that lie that process's stride apart, so this process does not meet many of them one after the other.
 */
static uint16_t step(void)
{
	static uint32_t at, stride;

	if (stride == 0) {
		uint32_t seed[2] = { 1, 1 };
		ssize_t n = getrandom(seed, sizeof(seed), 0);
		(void)n; /* without random bytes the sequence is always the same */
		at = seed[0] % PORTS;
		for (stride = seed[1] % PORTS; !is_coprime(stride, PORTS); stride++)
			;
	}
	at = (at + stride) % PORTS;
	return (uint16_t)(FIRST + at);
}

uint16_t cm_port_next(uint32_t dev, uint32_t families)
{
	for (uint32_t i = FIRST; i <= LAST; i++) {
		uint16_t p = step();
		if (!is_taken(dev, families, p))
			return p;
	}
	return 0;
}

/* Reserves a port that hold_port() chooses. The ids of this process may have ports that are not held. */
static uint16_t held_port(struct user *u, uint32_t dev, uint32_t families)
{
	const uint32_t devs = devs_of(dev, families);
	uint16_t p;

	for (uint32_t i = 0; i < HOLDS && (p = hold_port(devs)) != 0; i++) {
		if (cm_port_take(u, dev, families, p))
			return p;
		const int why = errno;
		release_port(devs, p);
		errno = why;
		if (why != EADDRINUSE)
			return 0;
	}
	return 0;
}

/*
 * Whether no other process has the port where it would get some of the id's requests. One after the other, as several
 * devices may have one address.
 */
static bool is_free_beside(uint32_t dev, uint32_t families, uint16_t port)
{
	struct pkt_addr a[ADDRESSES];
	const uint32_t n = take_udp != NULL ? other_addresses(dev, families, a) : 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!take_udp(&a[i], port))
			return false;
		give_udp(&a[i], port);
	}
	return true;
}

uint16_t cm_port_any(struct user *u, uint32_t dev, uint32_t families)
{
	if (hold_port != NULL && (families & TCP) != 0 && devs_of(dev, families) != 0) {
		uint16_t p = held_port(u, dev, families);
		if (p != 0 || errno == EADDRINUSE || errno == EDQUOT)
			return p;
	}
	for (uint32_t i = FIRST; i <= LAST; i++) {
		uint16_t p = step();
		if (is_free_beside(dev, families, p) && cm_port_take(u, dev, families, p))
			return p;
		if (errno != EADDRINUSE)
			return 0;
	}
	return 0;
}
