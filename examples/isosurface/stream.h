/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_STREAM_H
#define ISO_STREAM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The streams of units of one process: it connects its outgoing streams, and accepts its incoming ones. A unit has at
 * most `unit` bytes, the granularity of distribution. If a stream ends before its producer has finished it, the process
 * ends with one sentence.
 */
#define STREAMS      8  /* each way at most */
#define BUFFERS_MOST 64 /* of a stream */

struct hub_cfg {
	const char *addr[STREAMS]; /* of each process */
	uint16_t port;             /* process i listens at port + i */
	unsigned me, n_to, n_from, to[STREAMS];
	uint32_t unit, buffers; /* bytes; units that may be under way on each stream */
	bool polling;           /* polls instead of sleeping */
	unsigned patience;      /* s to wait until another process listens */
};

struct unit {
	const uint8_t *data; /* until unit_done() */
	uint32_t len;
	void *owner;
};

struct hub;

struct hub_ops {
	struct hub *(*open)(const struct hub_cfg *cfg);
	/* Memory for the next unit of stream i; waits until a buffer is free. */
	uint8_t *(*buffer)(struct hub *h, unsigned i);
	/* Sends that unit, of at least one byte. */
	void (*send)(struct hub *h, unsigned i, uint32_t len);
	/* Waits for the next unit of any stream. False: all streams are finished. */
	bool (*receive)(struct hub *h, struct unit *u);
	void (*done)(struct hub *h, struct unit *u);
	/* Finishes the outgoing streams, waits until all their units have been received, and frees the hub. */
	void (*close)(struct hub *h);
};

extern const struct hub_ops hub_verbs, hub_sockets;

/* The first message of a producer. The byte order of this message and of the units is that of the producer's CPU. */
struct hello {
	uint32_t magic, unit, buffers, from;
};

#define HELLO_MAGIC 0x49534f31u

struct hello hello_make(const struct hub_cfg *cfg);
/* False: not a producer of this program. A producer with other options ends the process. */
bool hello_fits(const struct hub_cfg *cfg, const struct hello *h);

#endif
