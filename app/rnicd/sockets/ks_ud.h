/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram queue pairs over the kernel's UDP sockets: what rnicd's workers send and receive on Ethernet, in the same
 * format, at the same port (datagram-port). Each device has one socket, which all processes of the user share
 * (SO_REUSEPORT). The upper 8 bits of a queue pair's number are the index of its process: a filter in the kernel picks
 * the socket by them if it can, and a datagram that arrives at the wrong process is passed to its owner (ks_pass.c).
 * Datagrams between processes of one host are passed in this way from the start: a receiver without room then delays
 * its sender, where UDP would drop.
 *
 * For the holder of ks.lock unless marked otherwise.
 */
#ifndef KS_UD_H
#define KS_UD_H

#include "border/ud_view.h"
#include "sockets/ks.h"

#define KS_UD_BURST 32u               /* datagrams of one system call */
#define KS_UD_ROOM  (KS_MTU_MAX + 8u) /* octets of one: longer than any that fits a packet */

/* A UDP payload as it was received. */
struct ks_gram {
	const uint8_t *p;
	uint32_t len;
	uint32_t port;            /* index of the device */
	struct pkt_addr from, to; /* to: the device's address, or a group's */
	uint8_t tos, hop_limit;
	bool passed; /* passed by another process to this one, its owner */
};

/* Called before the other functions: a device without a socket has no datagrams. */
void ks_ud_start(void);
void ks_ud_close(void);

/* A socket at the device's datagram-port and this address; reuse: SO_REUSEPORT or SO_REUSEADDR. -1 and errno. */
int ks_ud_socket(const struct pkt_addr *ip, uint32_t port, int reuse);

void ks_ud_add(struct ud_qp *u, uint32_t port);
/* Called before the QP is destroyed: sends what has been posted, as far as there is room. */
void ks_ud_end(struct ud_qp *u, bool sends);

/* A device's or a group's socket. Returns the number of datagrams. */
uint32_t ks_ud_read(const struct ks_src *s, uint32_t port, const struct pkt_addr *to);
/* epoll tells of a device's socket. */
void ks_ud_event(struct ks_src *s, uint32_t events);
/* Handles one datagram for any QP. */
void ks_ud_take(const struct ks_gram *g);
/* To one QP. */
void ks_ud_deliver(struct qp *qp, const struct ks_gram *g, const struct udpl_hdr *h);
/* The device's socket; -1 in it: none. */
const struct ks_src *ks_ud_src(uint32_t port);
/* The socket takes no more: epoll reports when it does. */
void ks_ud_blocked(uint32_t port);
uint32_t ks_ud_timers(void);

/* ---- sending (ks_ud_out.c) ---- */

uint32_t ks_ud_transmit(void);
/* Sends what the QP has posted, as far as there is room. */
void ks_ud_finish(struct qp *qp);
void ks_ud_writable(uint32_t port);
/* A datagram that the control thread has made. */
void ks_ud_send(uint32_t port, const struct pkt_addr *to, const uint8_t *p, uint32_t len);
/* Whether something can be sent at once; and when there is work again. */
bool ks_ud_more(void);
uint64_t ks_ud_due(void);

/* The QP has something to do. */
static inline void ks_doorbell(struct qp *qp)
{
	if (qp_get_type(qp) == QP_UD)
		dgram_doorbell(&ks.dgram, qp);
	else
		rc_doorbell(&ks.rc, qp);
}

/* ---- groups (ks_group.c) ---- */

/* CMD_GROUP, carried out. */
void ks_group_change(const struct cmd_group *c);
/* Its socket has input. Returns the number of datagrams. */
uint32_t ks_group_event(struct ks_src *s);
/* A datagram to the group, parsed. */
void ks_group_take(const struct ks_gram *g, const struct udpl_hdr *h);
void ks_group_close(void);

/* ---- between processes (ks_pass.c) ---- */

enum ks_passed { KS_PASSED, KS_PASS_FULL, KS_PASS_NOBODY };
/* To the process with this index. */
enum ks_passed ks_pass_gram(uint32_t index, const struct ks_gram *g);
/* To the process that serves the port of RDMA_PS_UDP at the datagram's address. */
enum ks_passed ks_pass_request(uint16_t service, const struct ks_gram *g);

#endif
