/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a pcap file of Ethernet frames (little-endian, microseconds) into static memory, for tests with golden files.
 */
#ifndef TEST_PCAP_FILE_H
#define TEST_PCAP_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PCAP_FILE_MAX   (1u << 20)
#define PCAP_FRAMES_MAX 4096u

struct pcap_file {
	uint8_t data[PCAP_FILE_MAX];
	uint32_t n;
	struct {
		const uint8_t *frame;
		uint32_t len;
	} rec[PCAP_FRAMES_MAX];
};

/* Returns the number of frames; 0 if the file has another format. */
static inline uint32_t pcap_file_load(struct pcap_file *f, const char *path)
{
	uint32_t magic, rec[4];

	f->n = 0;
	FILE *in = fopen(path, "rb");
	if (in == NULL)
		return 0;
	size_t size = fread(f->data, 1, sizeof(f->data), in);
	fclose(in);
	memcpy(&magic, f->data, sizeof(magic));
	if (size < 24 || size == sizeof(f->data) || magic != 0xa1b2c3d4u)
		return 0;
	for (size_t off = 24; off + 16 <= size && f->n < PCAP_FRAMES_MAX;) {
		memcpy(rec, f->data + off, sizeof(rec));
		off += 16;
		if (rec[2] > size - off)
			return 0;
		f->rec[f->n].frame = f->data + off;
		f->rec[f->n++].len = rec[2];
		off += rec[2];
	}
	return f->n;
}

#endif
