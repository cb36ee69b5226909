/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of the keys, one for each kind of section. A table says how a value is checked and stored in the
 * structure.
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
	uint16_t off, size;                                    /* place and size of the field, bytes */
	uint64_t min, max;                                     /* of numbers, without unit prefix: bytes, ns */
	const char *const *words;                              /* CONF_WORD */
	bool (*own)(void *base, const char *value, char *why); /* CONF_OWN: base is the structure */
	bool each; /* for a port with several paths: one value for all paths, or a list with a value for each */
};

#define CONF_MAX_KEYS 64u

extern const struct conf_key conf_keys_rnicd[]; /* base: struct conf */
extern const struct conf_key conf_keys_port[];  /* base: struct rnicd_port_cfg */
/* The words of the key out-of-order, by enum rnicd_ahead; NULL-terminated. */
extern const char *const conf_ahead_words[];

/* Checks the value and stores it in the field of *base that k names. False, with half a sentence in why: not
 * allowed. */
bool conf_key_store(const struct conf_key *k, void *base, const char *value, char *why);
/* Sets every key that has a default. */
void conf_key_defaults(const struct conf_key *table, void *base);

#endif
