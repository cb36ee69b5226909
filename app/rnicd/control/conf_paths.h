/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports with several paths. `paths` names a device for each. What the section says of the line (conf_key.each) goes to
 * all of them, or is a list with a value for each. The paths become lines behind the ports: they have their port's
 * address and all else, and are called PORT/0, PORT/1 and so on.
 */
#ifndef CONF_PATHS_H
#define CONF_PATHS_H

#include "control/conf_key.h"

/* Of one port, while the file is read. */
struct conf_paths {
	struct rnicd_port_cfg path[RNICD_PATHS];
	uint32_t n;
	uint8_t values[CONF_MAX_KEYS]; /* of a key that was given as a list, else 0 */
};

void conf_paths_begin(struct conf_paths *ps);

/* As conf_key_store, of a key of a port's section. */
bool conf_paths_store(struct conf_paths *ps, const struct conf_key *k, struct rnicd_port_cfg *port, const char *value,
		      char *why);

/* Port number i has its whole section: its paths get their places in d. False with half a sentence in why. */
bool conf_paths_join(struct rnicd_cfg *d, uint32_t i, const struct conf_paths *ps, char *why);

/* All ports have joined: line is a path of kind PAIR, which finds its other end. False with half a sentence in why. */
bool conf_paths_wire(struct rnicd_cfg *d, uint32_t line, char *why);

#endif
