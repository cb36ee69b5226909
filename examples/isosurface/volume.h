/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_VOLUME_H
#define ISO_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A volume: samples of a field on a lattice, x fastest. Lengths are in cells, the distance between two samples. A
 * computed field is the signed distance to a surface, negative inside; its surfaces are closed and lie inside the
 * volume.
 */
enum sample { SAMPLE_U8, SAMPLE_U16, SAMPLE_U16BE, SAMPLE_F32, SAMPLE_F32BE, SAMPLES };
enum field { FIELD_SPHERE, FIELD_TORUS, FIELD_LINK, FIELDS };

#define DIM_MOST 4096u /* samples along an axis */

struct source {
	const char *path; /* of a file of raw samples; NULL: the field is computed */
	enum sample type;
	enum field field;
	uint32_t dims[3]; /* samples along x, y, z */
};

struct volume { /* some layers of the volume */
	uint32_t dims[3];
	uint32_t z0, nz;
	float *v;
};

/* A piece of the volume: its first sample, and its number of samples along each axis. In a unit the samples follow. */
struct brick {
	uint32_t at[3], n[3];
};

extern const char *const sample_names[SAMPLES], *const field_names[FIELDS];

float field_value(enum field f, const uint32_t dims[3], const float p[3]);
/* Reads or computes nz layers from z0 on. A file that cannot be used ends the process. */
void volume_load(struct volume *vol, const struct source *src, uint32_t z0, uint32_t nz);
void volume_free(struct volume *vol);
/* The samples of a brick, x fastest. */
void volume_brick(const struct volume *vol, const struct brick *b, float *out);

#endif
