/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_malloc.h>
#include <rte_mbuf_dyn.h>
#include <rte_ring.h>

#include "plane/frame.h"
#include "plane/port.h"

/*
 * pcapng (draft-ietf-opsawg-pcapng): section header, one interface with nanosecond stamps, enhanced packet blocks with
 * the direction in epb_flags. Everything in host order; the reader finds that out from the byte-order magic.
 */
#define BLOCK_SHB        UINT32_C(0x0a0d0d0a)
#define BLOCK_IDB        UINT32_C(0x00000001)
#define BLOCK_EPB        UINT32_C(0x00000006)
#define BYTE_ORDER_MAGIC UINT32_C(0x1a2b3c4d)
#define LINK_ETHERNET    1u
#define OPT_END          0u
#define OPT_IF_NAME      2u
#define OPT_EPB_FLAGS    2u
#define OPT_IF_TSRESOL   9u

#define RING_FRAMES  1024u
#define BATCH        64u
#define IDLE_NS      (2 * RN_NS_PER_MS)
#define WRITE_BUFFER (256u * 1024)

struct capture {
	FILE *file;
	struct rte_ring *ring;
	struct rte_mempool *pool;
	struct rte_mempool *large; /* for the large segments of a host port; NULL: there are none */
	pthread_t thread;
	bool stop;      /* written by the control thread, relaxed: the writer looks at it each round */
	bool failed;    /* of the writer: writing has failed; logged once */
	uint64_t epoch; /* ns to add to the monotonic clock for wall time */
	uint64_t size;  /* bytes in the file */
	uint64_t half;  /* size in bytes at which the file becomes the older half */
	bool told;      /* of the writer: that the limit was reached was logged */
	char path[RNICD_PATH_MAX];
	char older[RNICD_PATH_MAX + 4];
	char name[RNICD_NAME_MAX];
};

/* In the private area of each mbuf of the capture's pool. */
struct stamp {
	uint64_t ns;
	uint32_t dir;
};

static struct stamp *stamp_of(struct rte_mbuf *m) { return rte_mbuf_to_priv(m); }

static void put(struct capture *c, const void *data, size_t len)
{
	c->size += len;
	if (!c->failed && fwrite(data, 1, len, c->file) != len) {
		c->failed = true;
		rnicd_log(RNICD_LOG_ERROR, "capture %s: %s; the rest is not recorded", c->path, strerror(errno));
	}
}

static void put_u32(struct capture *c, uint32_t v) { put(c, &v, sizeof(v)); }

static void put_option(struct capture *c, uint16_t code, const void *value, uint16_t len)
{
	static const uint8_t zero[3];
	uint16_t head[2] = { code, len };

	put(c, head, sizeof(head));
	put(c, value, len);
	put(c, zero, (4 - len % 4u) % 4u);
}

static void put_head(struct capture *c, const char *name)
{
	uint32_t shb[7] = { BLOCK_SHB,  sizeof(shb), BYTE_ORDER_MAGIC, 1 /* version 1.0 */,
			    UINT32_MAX, UINT32_MAX,  sizeof(shb) };
	put(c, shb, sizeof(shb));

	uint16_t name_len = (uint16_t)strlen(name);
	uint8_t nanoseconds = 9;
	uint32_t len = 16 + 4 + (name_len + 3u) / 4 * 4 + 8 + 4 + 4;
	uint32_t idb[4] = { BLOCK_IDB, len, LINK_ETHERNET, 0 /* no snapshot limit */ };
	put(c, idb, sizeof(idb));
	put_option(c, OPT_IF_NAME, name, name_len);
	put_option(c, OPT_IF_TSRESOL, &nanoseconds, 1);
	put_u32(c, OPT_END);
	put_u32(c, len);
}

static void put_frame(struct capture *c, struct rte_mbuf *m)
{
	static const uint8_t zero[3];
	uint32_t pad = (4 - m->pkt_len % 4) % 4;
	uint32_t len = 28 + m->pkt_len + pad + 8 + 4 + 4;
	uint64_t when = stamp_of(m)->ns + c->epoch;
	uint32_t epb[7] = { BLOCK_EPB, len, 0, (uint32_t)(when >> 32), (uint32_t)when, m->pkt_len, m->pkt_len };

	frame_finish(m);
	put(c, epb, sizeof(epb));
	put(c, rte_pktmbuf_mtod(m, void *), m->pkt_len);
	put(c, zero, pad);
	put_option(c, OPT_EPB_FLAGS, &stamp_of(m)->dir, 4);
	put_u32(c, OPT_END);
	put_u32(c, len);
}

/* the capture contains what clients sent: not readable for others */
static FILE *open_file(const struct capture *c)
{
	int fd = open(c->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (f != NULL)
		setvbuf(f, NULL, _IOFBF, WRITE_BUFFER);
	else if (fd >= 0)
		close(fd);
	return f;
}

/* A full file takes the place of the older half, and a new file begins. Both files are whole captures. */
static void turn_over(struct capture *c)
{
	if (c->failed || c->size < c->half)
		return;
	if (!c->told)
		rnicd_log(RNICD_LOG_WARNING,
			  "capture %s: capture-size is reached: from now on the oldest frames go; the older half "
			  "is in %s",
			  c->path, c->older);
	c->told = true;
	FILE *full = c->file;
	if (fclose(full) == 0 && rename(c->path, c->older) == 0 && (c->file = open_file(c)) != NULL) {
		c->size = 0;
		put_head(c, c->name);
		return;
	}
	c->file = NULL;
	c->failed = true;
	rnicd_log(RNICD_LOG_ERROR, "capture %s: %s; the rest is not recorded", c->path, strerror(errno));
}

static uint32_t drain(struct capture *c)
{
	struct rte_mbuf *m[BATCH];
	uint32_t n = rte_ring_sc_dequeue_burst(c->ring, (void **)m, BATCH, NULL);

	for (uint32_t i = 0; i < n; i++) {
		put_frame(c, m[i]);
		turn_over(c);
	}
	rte_pktmbuf_free_bulk(m, n);
	return n;
}

static void *writer(void *arg)
{
	struct capture *c = arg;
	const struct timespec idle = { .tv_nsec = IDLE_NS };

	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		if (drain(c) != 0)
			continue;
		if (!c->failed)
			fflush(c->file); /* so that a reader of the file sees everything while the writer waits */
		nanosleep(&idle, NULL);
	}
	while (drain(c) != 0)
		;
	return NULL;
}

static void release(struct capture *c)
{
	if (c->file != NULL && fclose(c->file) != 0 && !c->failed)
		rnicd_log(RNICD_LOG_ERROR, "capture %s: %s", c->path, strerror(errno));
	rte_ring_free(c->ring);
	rte_mempool_free(c->pool);
	rte_mempool_free(c->large);
	rte_free(c);
}

static bool make_large(struct capture *c, const struct rnicd_port *port)
{
	bool host = port->host != NULL;
	char name[RTE_MEMPOOL_NAMESIZE];

	for (uint32_t i = 0; i < port->n_paths; i++)
		host |= port->path[i]->cfg->kind == RNICD_PORT_HOST;
	if (!host)
		return true;
	snprintf(name, sizeof(name), "cap_large_%u", port->index);
	c->large = rte_pktmbuf_pool_create(name, 2 * BATCH, 0, sizeof(struct stamp), UINT16_MAX, port->socket);
	return c->large != NULL;
}

struct capture *capture_start(const struct rnicd_port *port, char *err, uint32_t err_len)
{
	char name[RNICD_NAME_MAX + 16];
	struct timespec wall;
	struct capture *c = rte_zmalloc("capture", sizeof(*c), RN_CACHE_LINE);

	if (c == NULL)
		goto no_memory;
	snprintf(c->path, sizeof(c->path), "%s", port->cfg->capture);
	snprintf(c->older, sizeof(c->older), "%s.1", c->path);
	snprintf(c->name, sizeof(c->name), "%s", port->cfg->name);
	c->half = port->cfg->capture_size / 2;
	snprintf(name, sizeof(name), "cap_ring_%u", port->index);
	c->ring = rte_ring_create(name, RING_FRAMES, port->socket, RING_F_SC_DEQ);
	snprintf(name, sizeof(name), "cap_pool_%u", port->index);
	c->pool = rte_pktmbuf_pool_create(name, RING_FRAMES + 2 * BATCH, 0, sizeof(struct stamp),
					  rte_pktmbuf_data_room_size(port->pool), port->socket);
	if (c->ring == NULL || c->pool == NULL || !make_large(c, port))
		goto no_memory;

	c->file = open_file(c);
	if (c->file == NULL) {
		snprintf(err, err_len, "port %s: capture file %s: %s", port->cfg->name, c->path, strerror(errno));
		release(c);
		return NULL;
	}
	clock_gettime(CLOCK_REALTIME, &wall);
	c->epoch = (uint64_t)wall.tv_sec * RN_NS_PER_S + (uint64_t)wall.tv_nsec - rnicd_now();
	put_head(c, c->name);
	if (pthread_create(&c->thread, NULL, writer, c) != 0)
		goto no_memory;
	return c;

no_memory:
	snprintf(err, err_len, "port %s: no memory for the capture (raise the daemon's memory)", port->cfg->name);
	if (c != NULL)
		release(c);
	return NULL;
}

void capture_stop(struct capture *c)
{
	if (c == NULL)
		return;
	__atomic_store_n(&c->stop, true, __ATOMIC_RELAXED);
	pthread_join(c->thread, NULL);
	release(c);
}

bool capture_frame(struct capture *c, const struct rte_mbuf *m, enum capture_direction dir)
{
	const bool fits = c->large == NULL || m->pkt_len + RTE_PKTMBUF_HEADROOM <= rte_pktmbuf_data_room_size(c->pool);
	struct rte_mbuf *copy = frame_copy(fits ? c->pool : c->large, m);

	if (copy == NULL)
		return false;
	*stamp_of(copy) = (struct stamp){ .ns = rnicd_now(), .dir = dir };
	if (rte_ring_enqueue(c->ring, copy) == 0)
		return true;
	rte_pktmbuf_free(copy);
	return false;
}
