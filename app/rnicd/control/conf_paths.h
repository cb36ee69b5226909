/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports with several paths. The key `paths` names a device for each path. A key of the section that describes the line
 * (conf_key.each) has one value for all paths, or a list with a value for each. The paths become lines of their own,
 * behind the ports in the table: they share the port's address and other settings, and are called PORT/0, PORT/1 and so
 * on.
 */
#ifndef CONF_PATHS_H
#define CONF_PATHS_H

#include "control/conf_key.h"

/* The paths of one port while the file is read. */
struct conf_paths {
	struct rnicd_port_cfg path[RNICD_PATHS];
	uint32_t n;
	uint8_t values[CONF_MAX_KEYS]; /* number of elements of a key that was given as a list, else 0 */
};

void conf_paths_begin(struct conf_paths *ps);

/* As conf_key_store(), for a key of a port's section; a value or list for paths goes to *ps. */
bool conf_paths_store(struct conf_paths *ps, const struct conf_key *k, struct rnicd_port_cfg *port, const char *value,
		      char *why);

/* The section of port i is complete: enters its paths into d. False with half a sentence in why. */
bool conf_paths_join(struct rnicd_cfg *d, uint32_t i, const struct conf_paths *ps, char *why);

/* All paths are in d: finds the other end of a path of kind PAIR, whose index is `line`. False with half a sentence in
 * why. */
bool conf_paths_wire(struct rnicd_cfg *d, uint32_t line, char *why);

#endif
