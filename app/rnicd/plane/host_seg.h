/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames with a virtio-net header, as packet sockets carry them (packet(7), PACKET_VNET_HDR): what the header of a
 * received frame says of the checksum, and TCP segments that follow one another as one large segment, which the kernel
 * cuts again if necessary.
 *
 * Pure: no memory of its own, no state but the caller's.
 */
#ifndef RNICD_HOST_SEG_H
#define RNICD_HOST_SEG_H

#include <linux/virtio_net.h>

#include "base/rn_base.h"

/* What a received header says. */
enum host_sum {
	HOST_SUM_UNKNOWN, /* the checksum must be computed */
	HOST_SUM_VALID,   /* the kernel or a NIC has found the checksum good */
	HOST_SUM_TCP,     /* the sender has left the checksum to a NIC: the bytes never left this machine's memory */
	HOST_SUM_UDP,
	HOST_BAD /* the header does not fit the frame */
};

/* first: bytes of the frame in one piece; at least its headers are. */
enum host_sum host_sum_of(const struct virtio_net_hdr *h, const uint8_t *frame, uint32_t first);

/* Bytes that one joined segment has at most from its IP header on. */
#define HOST_SEG_MAX 65535u
#define HOST_HDR_MAX 128u

/* A TCP segment that may be part of a joined one. */
struct host_seg {
	const uint8_t *frame;
	uint32_t l3, l4, hdr; /* offsets; hdr: bytes in front of the payload */
	uint32_t payload;
	uint32_t seq;
	bool push;
};

/* The segment of an untagged frame without IP options, of len bytes, that carries data and no flags but ACK and PSH. */
bool host_seg_of(const uint8_t *frame, uint32_t first, uint32_t len, struct host_seg *s);

/* Segments joined so far: the first one, and sums over all. */
struct host_join {
	struct host_seg head;
	uint32_t n, payload;
	bool push, full; /* full: no other segment may follow, since the last one was shorter */
};

static inline void host_join_begin(struct host_join *j, const struct host_seg *s)
{
	*j = (struct host_join){ .head = *s, .n = 1, .payload = s->payload, .push = s->push };
}

/* True: s has been joined. */
bool host_join_add(struct host_join *j, const struct host_seg *s);

/*
 * The headers of the joined segment, head.hdr bytes (at most HOST_HDR_MAX), and its virtio-net header. The TCP checksum
 * is that of the pseudo header only.
 */
void host_join_head(const struct host_join *j, uint8_t *hdr, struct virtio_net_hdr *h);

/* The virtio-net header for a frame whose TCP or UDP checksum is deferred; all zero for any other frame. */
void host_defer(const uint8_t *frame, uint32_t first, struct virtio_net_hdr *h);

#endif
