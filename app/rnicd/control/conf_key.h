/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of the two kinds of section as tables, and how a value gets from a line into the structure.
 */
#ifndef CONF_KEY_H
#define CONF_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "control/conf.h"
#include "control/conf_value.h"

enum conf_type { CONF_UINT, CONF_BYTES, CONF_TIME, CONF_PROB, CONF_BOOL, CONF_WORD, CONF_OWN };

struct conf_key {
	const char *name;
	const char *deflt; /* the default as in the file, "": the key must be given, "-": no default */
	const char *help;
	enum conf_type type;
	uint16_t off, size;                                    /* of the field, bytes */
	uint64_t min, max;                                     /* of numbers, in base units */
	const char *const *words;                              /* CONF_WORD */
	bool (*own)(void *base, const char *value, char *why); /* CONF_OWN: base is the structure */
	bool each; /* of a port with several paths: one value for all of them, or a list (conf_paths.h) */
};

#define CONF_MAX_KEYS 64u

extern const struct conf_key conf_keys_rnicd[]; /* base: struct conf */
extern const struct conf_key conf_keys_port[];  /* base: struct rnicd_port_cfg */
/* The words of the key out-of-order, by enum rnicd_ahead; NULL ends them. */
extern const char *const conf_ahead_words[];

/* Stores value in *base as k says. False, with half a sentence in why: the value is not allowed. */
bool conf_key_store(const struct conf_key *k, void *base, const char *value, char *why);
/* Sets every key that has a default. */
void conf_key_defaults(const struct conf_key *table, void *base);

#endif
