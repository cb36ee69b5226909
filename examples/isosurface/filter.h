/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_FILTER_H
#define ISO_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"
#include "raster.h"
#include "stream.h"
#include "volume.h"

/* The parameters of a run, the same in all processes. */
struct job {
	struct source src;
	struct view view;
	float level;
	uint32_t unit; /* bytes of a unit, its head included */
	struct plan plan;
};

/* The head of each unit, in the CPU's byte order (struct hello). */
enum unit_kind { UNIT_START = 1, UNIT_BRICK, UNIT_TRIANGLES, UNIT_FRAGMENTS, UNIT_END };

struct unit_head {
	uint32_t kind, len; /* len: bytes that follow the head */
};

/* Counts of the filters' work. They are sent with the END of each stream, so the last process has the sums of all. */
struct tally {
	uint64_t cells, triangles, fragments, units,
		bytes; /* units and their bytes that went from process to process */
	double cpu;    /* s, from START on */
};

struct filter;

struct outlet {              /* the output to one instance of the next filter */
	struct filter *next; /* in this process; NULL: the next filter is reached by a stream: */
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
	unsigned n_out, turn; /* the outlet that is being filled: the outlets take turns */
	unsigned inputs;      /* inputs that have not ended */
	bool started, leads;  /* leads: the last filter of its process, which counts the process's CPU time */
	struct canvas canvas; /* of rasterise and merge */
	struct tally tally;
	double began, cpu_began, ended; /* s */
};

/* Allocates the memory of a filter; `inputs`: the number of filters that send to it. */
void filter_make(struct filter *f, const struct job *job, enum filter_kind kind, unsigned instance, unsigned inputs);
void filter_free(struct filter *f);
/* Handles a unit from an input. A unit that breaks the rules ends the process. */
void filter_take(struct filter *f, const uint8_t *unit, uint32_t len);
/* Reads this instance's part of the volume: layers of bricks. Then filter_read sends all of it on. */
void filter_load(const struct filter *f, struct volume *vol);
void filter_read(struct filter *f, const struct volume *vol);

#endif
