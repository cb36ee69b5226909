/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a little-endian Ethernet pcap file and puts its TCP/IPv4 octets in order, for tests that use captures. */
#ifndef IW_PCAP_H
#define IW_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iw_pcap {
	uint8_t *data; /* the whole file, from malloc() */
	size_t size, off;
};

/* One TCP segment; body points into the memory of the file. */
struct iw_seg {
	uint32_t src, dst; /* IPv4 */
	uint16_t sport, dport;
	uint32_t seq;
	uint8_t flags;
	uint8_t *body;
	uint32_t len;
};
#define IW_TCP_FIN 0x01
#define IW_TCP_SYN 0x02

/* False: there is no such capture, or the file is cut off. */
bool iw_pcap_open(struct iw_pcap *p, const char *path);
/* The next TCP segment; other packets are passed over. False: the end of the capture. */
bool iw_pcap_next(struct iw_pcap *p, struct iw_seg *s);
void iw_pcap_close(struct iw_pcap *p);

/* One direction of one connection. Segments ahead of the stream are held; repeated octets are cut off. */
struct iw_flow {
	uint32_t src, dst;
	uint16_t sport, dport;
	uint32_t next;
	uint32_t n_held;
	struct iw_seg held[256];
};

void iw_flow_start(struct iw_flow *f, const struct iw_seg *syn);
bool iw_flow_owns(const struct iw_flow *f, const struct iw_seg *s);
/* False: too many segments are held, and this one is lost. */
bool iw_flow_add(struct iw_flow *f, const struct iw_seg *s);
/* True: *s is the next piece of the stream, in order and without repeats. */
bool iw_flow_pull(struct iw_flow *f, struct iw_seg *s);

#endif
