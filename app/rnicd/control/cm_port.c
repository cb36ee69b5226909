/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP port numbers of each device: those of listeners and of ids that are bound to one. */
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "control/cm.h"

/* RFC 6335, section 6: the dynamic ports; from 32768 on as Linux has it. */
#define FIRST 32768u
#define LAST  60999u

static uint64_t taken[RNICD_MAX_PORTS][65536 / 64];

static bool is_taken(uint32_t dev, uint16_t port) { return (taken[dev][port / 64] >> (port % 64) & 1) != 0; }

const char *cm_port_refusal(const struct client *c, uint32_t dev, uint16_t port)
{
	uint32_t first = dev == CM_NO_DEV ? 0 : dev, last = dev == CM_NO_DEV ? rnicd.n_ports : dev + 1;

	for (uint32_t d = first; port != 0 && d < last; d++)
		if (rnicd.port[d]->cfg->qp_port == port)
			return "it is qp-port, on which only rnicd itself connects queue pairs: choose another port, or move "
			       "qp-port in rnicd's configuration, on all hosts";
	return port == 0 || port >= CM_PORT_FREE || c->uid == 0 || c->uid == geteuid()
		       ? NULL
		       : "ports below 1024 are root's, as those of the system: choose another one";
}

uint16_t cm_port_own(uint32_t dev)
{
	static uint32_t at;

	if (at == 0 && getrandom(&at, sizeof(at), 0) != (ssize_t)sizeof(at))
		at = 1;
	for (uint32_t i = 1; i < CM_PORT_FREE; i++) {
		uint16_t p = (uint16_t)(1 + ++at % (CM_PORT_FREE - 1));
		if (!is_taken(dev, p))
			return p;
	}
	return 0;
}

bool cm_port_take(uint32_t dev, uint16_t port)
{
	uint32_t first = dev == CM_NO_DEV ? 0 : dev, last = dev == CM_NO_DEV ? rnicd.n_ports : dev + 1;

	for (uint32_t d = first; d < last; d++)
		if (is_taken(d, port))
			return false;
	for (uint32_t d = first; d < last; d++)
		taken[d][port / 64] |= UINT64_C(1) << (port % 64);
	return true;
}

void cm_port_narrow(uint32_t dev, uint16_t port)
{
	for (uint32_t d = 0; d < rnicd.n_ports; d++)
		if (d != dev)
			cm_port_give(d, port);
}

void cm_port_give(uint32_t dev, uint16_t port)
{
	uint32_t first = dev == CM_NO_DEV ? 0 : dev, last = dev == CM_NO_DEV ? rnicd.n_ports : dev + 1;

	for (uint32_t d = first; d < last; d++)
		taken[d][port / 64] &= ~(UINT64_C(1) << (port % 64));
}

/* Starts where nobody can guess (RFC 6056), then counts. */
static uint16_t step(void)
{
	static uint32_t at;

	if (at == 0 && getrandom(&at, sizeof(at), 0) != (ssize_t)sizeof(at))
		at = 1;
	at++;
	return (uint16_t)(FIRST + at % (LAST - FIRST + 1));
}

uint16_t cm_port_next(uint32_t dev)
{
	for (uint32_t i = FIRST; i <= LAST; i++) {
		uint16_t p = step();
		if (!is_taken(dev, p))
			return p;
	}
	return 0;
}

uint16_t cm_port_any(uint32_t dev)
{
	for (uint32_t i = FIRST; i <= LAST; i++) {
		uint16_t p = step();
		if (cm_port_take(dev, p))
			return p;
	}
	return 0;
}
