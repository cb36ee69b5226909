/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_FILTER_H
#define ISO_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"
#include "raster.h"
#include "stream.h"
#include "volume.h"

/* What is to be done, the same in all processes. */
struct job {
	struct source src;
	struct view view;
	float level;
	uint32_t unit; /* bytes of a unit, its head included */
	struct plan plan;
};

/* At the beginning of each unit, in the order of the CPU's bytes (struct hello). */
enum unit_kind { UNIT_START = 1, UNIT_BRICK, UNIT_TRIANGLES, UNIT_FRAGMENTS, UNIT_END };

struct unit_head {
	uint32_t kind, len; /* what follows it, bytes */
};

/* What filters have done, with the END of their streams: those of all processes come together in the last one. */
struct tally {
	uint64_t cells, triangles, fragments, units,
		bytes; /* units and their bytes that went from process to process */
	double cpu;    /* s, from START on */
};

struct filter;

struct outlet {              /* to one instance of the next filter */
	struct filter *next; /* in this process, or by: */
	const struct hub_ops *ops;
	struct hub *hub;
	unsigned stream;
	uint8_t *buf; /* the unit that is being filled */
	uint32_t fill;
};

struct filter {
	enum filter_kind kind;
	unsigned instance;
	const struct job *job;
	struct outlet out[INSTANCES];
	unsigned n_out, turn; /* whose outlet is filled: units go to each in turn */
	unsigned inputs;      /* that have not ended */
	bool started, leads;  /* leads: it is the last one of its process, and counts the process's CPU */
	struct canvas canvas; /* of rasterise and merge */
	struct tally tally;
	double began, cpu_began, ended; /* s */
};

/* The memory of a filter of this place; `inputs`: how many filters hand on to it. */
void filter_make(struct filter *f, const struct job *job, enum filter_kind kind, unsigned instance, unsigned inputs);
void filter_free(struct filter *f);
/* One unit of an input's. What breaks the rules ends the process. */
void filter_take(struct filter *f, const uint8_t *unit, uint32_t len);
/* Reads its part of the volume: layers of bricks. Then filter_read hands on all of it. */
void filter_load(const struct filter *f, struct volume *vol);
void filter_read(struct filter *f, const struct volume *vol);

#endif
