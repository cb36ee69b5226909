/* SPDX-License-Identifier: BSD-3-Clause */
#include "volume.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "say.h"

const char *const sample_names[SAMPLES] = { "u8", "u16", "u16be", "f32", "f32be" };
const char *const field_names[FIELDS] = { "sphere", "torus", "link" };
static const uint32_t sample_size[SAMPLES] = { 1, 2, 2, 4, 4 };

/* Distance to a torus with its axis along z. */
static float torus(float x, float y, float z, float ring, float tube)
{
	float q = sqrtf(x * x + y * y) - ring;

	return sqrtf(q * q + z * z) - tube;
}

float field_value(enum field f, const uint32_t dims[3], const float p[3])
{
	uint32_t least = dims[0] < dims[1] ? dims[0] : dims[1];
	float x = p[0] - (float)(dims[0] - 1) / 2, y = p[1] - (float)(dims[1] - 1) / 2;
	float z = p[2] - (float)(dims[2] - 1) / 2, half, a, b;

	least = least < dims[2] ? least : dims[2];
	half = (float)(least - 1) / 2;
	switch (f) {
	case FIELD_TORUS: return torus(x, y, z, half * 0.6371f, half * 0.2713f);
	case FIELD_LINK: /* two rings, each through the other */
		a = torus(x + half * 0.2503f, y, z, half * 0.5011f, half * 0.1817f);
		b = torus(x - half * 0.2503f, z, y, half * 0.5011f, half * 0.1817f);
		return a < b ? a : b;
	case FIELD_SPHERE:
	case FIELDS: break;
	}
	return sqrtf(x * x + y * y + z * z) - half * 0.8131f;
}

static void make(struct volume *vol, enum field f)
{
	float *v = vol->v;

	for (uint32_t z = vol->z0; z < vol->z0 + vol->nz; z++)
		for (uint32_t y = 0; y < vol->dims[1]; y++)
			for (uint32_t x = 0; x < vol->dims[0]; x++)
				*v++ = field_value(f, vol->dims, (float[3]){ (float)x, (float)y, (float)z });
}

static float sample_value(const uint8_t *raw, enum sample type)
{
	uint16_t half;
	uint32_t word;
	float value;

	switch (type) {
	case SAMPLE_U16:
	case SAMPLE_U16BE: memcpy(&half, raw, 2); return type == SAMPLE_U16 ? le16toh(half) : be16toh(half);
	case SAMPLE_F32:
	case SAMPLE_F32BE:
		memcpy(&word, raw, 4);
		word = type == SAMPLE_F32 ? le32toh(word) : be32toh(word);
		memcpy(&value, &word, 4);
		return value;
	case SAMPLE_U8:
	case SAMPLES: break;
	}
	return raw[0];
}

static void fetch(struct volume *vol, const struct source *src)
{
	uint64_t row = (uint64_t)src->dims[0] * sample_size[src->type], layer = row * src->dims[1];
	uint64_t whole = layer * src->dims[2];
	int fd = open(src->path, O_RDONLY | O_CLOEXEC);
	uint8_t *raw = allocate(layer);
	float *v = vol->v;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		die("%s: %s", src->path, strerror(errno));
	if ((uint64_t)st.st_size != whole)
		die("%s has %llu bytes, and %ux%ux%u samples of type %s are %llu: give its own --dims and --type",
		    src->path, (unsigned long long)st.st_size, src->dims[0], src->dims[1], src->dims[2],
		    sample_names[src->type], (unsigned long long)whole);
	for (uint32_t z = vol->z0; z < vol->z0 + vol->nz; z++) {
		for (uint64_t got = 0; got < layer;) {
			ssize_t n = pread(fd, raw + got, layer - got, (off_t)(z * layer + got));

			if (n <= 0)
				die("%s: %s", src->path, n < 0 ? strerror(errno) : "it is shorter than before");
			got += (uint64_t)n;
		}
		for (uint64_t i = 0; i < layer; i += sample_size[src->type])
			*v++ = sample_value(raw + i, src->type);
	}
	free(raw);
	close(fd);
}

void volume_load(struct volume *vol, const struct source *src, uint32_t z0, uint32_t nz)
{
	memcpy(vol->dims, src->dims, sizeof(vol->dims));
	vol->z0 = z0;
	vol->nz = nz;
	vol->v = allocate(sizeof(float) * src->dims[0] * src->dims[1] * nz);
	if (src->path != NULL)
		fetch(vol, src);
	else
		make(vol, src->field);
}

void volume_free(struct volume *vol)
{
	free(vol->v);
	vol->v = NULL;
}

void volume_brick(const struct volume *vol, const struct brick *b, float *out)
{
	for (uint32_t z = 0; z < b->n[2]; z++) {
		for (uint32_t y = 0; y < b->n[1]; y++) {
			size_t row = (size_t)(b->at[2] - vol->z0 + z) * vol->dims[1] + b->at[1] + y;

			memcpy(out, vol->v + row * vol->dims[0] + b->at[0], b->n[0] * sizeof(*out));
			out += b->n[0];
		}
	}
}
