/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram queue pairs over the kernel's UDP sockets, in the format that rnicd's workers use on Ethernet, at the same
 * UDP port (datagram-port). Each process has one socket for each device; the sockets of all processes of the user share
 * the port (SO_REUSEPORT). The upper 8 bits of a QPN are the index of the queue pair's process. A filter in the kernel
 * chooses the socket by these bits if it can; a datagram that arrives at the wrong process is passed to its owner
 * (ks_pass.c). Datagrams between processes of one host are passed in this way from the start: then a receiver without
 * room delays its sender, where UDP would drop datagrams.
 *
 * For the thread that holds ks.lock, unless marked otherwise.
 */
#ifndef KS_UD_H
#define KS_UD_H

#include "border/ud_view.h"
#include "sockets/ks.h"

#define KS_UD_BURST 32u               /* datagrams of one system call */
#define KS_UD_ROOM  (KS_MTU_MAX + 8u) /* octets of a buffer: longer than any datagram that fits a packet */

/* A UDP payload as it was received. */
struct ks_gram {
	const uint8_t *p;
	uint32_t len;
	uint32_t port;            /* index of the device */
	struct pkt_addr from, to; /* to: the device's address, or a group's */
	uint8_t tos, hop_limit;
	bool passed; /* another process has passed the datagram to this one, its owner */
};

/* Opens the devices' sockets. Called before the other functions. A device whose socket fails has no datagrams. */
void ks_ud_start(void);
void ks_ud_close(void);

/* A socket bound to this address and the device's datagram-port. reuse: SO_REUSEPORT or SO_REUSEADDR. -1 and errno. */
int ks_ud_socket(const struct pkt_addr *ip, uint32_t port, int reuse);

/* The QP belongs to this device, and datagrams find it from now on. */
void ks_ud_add(struct ud_qp *u, uint32_t port);
/*
 * Called before the QP is destroyed: datagrams do not find it any more. sends: first sends posted work, if there is
 * room.
 */
void ks_ud_end(struct ud_qp *u, bool sends);

/* Reads a device's or a group's socket, whose datagrams are addressed to `to`. Returns the number of datagrams. */
uint32_t ks_ud_read(const struct ks_src *s, uint32_t port, const struct pkt_addr *to);
/* Handles the events that epoll reports for a device's socket. */
void ks_ud_event(struct ks_src *s, uint32_t events);
/* Handles one received datagram: finds its QP, group, connection manager or process. */
void ks_ud_take(const struct ks_gram *g);
/* Gives a datagram to one QP. */
void ks_ud_deliver(struct qp *qp, const struct ks_gram *g, const struct udpl_hdr *h);
/* The device's socket; its fd is -1 if the device has none. */
const struct ks_src *ks_ud_src(uint32_t port);
/* Called when the device's socket takes no more: epoll shall report when it does. */
void ks_ud_blocked(uint32_t port);
/* Ends incomplete messages whose time is over; returns their number. */
uint32_t ks_ud_timers(void);

/* ---- sending (ks_ud_out.c) ---- */

/* Sends datagrams of QPs that have something to send; returns how many were made. */
uint32_t ks_ud_transmit(void);
/* Sends datagrams that the QP has posted, as far as there is room. */
void ks_ud_finish(struct qp *qp);
/* The device's socket takes datagrams again. */
void ks_ud_writable(uint32_t port);
/* Sends a datagram that the control thread has made. */
void ks_ud_send(uint32_t port, const struct pkt_addr *to, const uint8_t *p, uint32_t len);
/* Whether a QP can send at once. */
bool ks_ud_more(void);
/* When datagrams have work again; RN_NEVER: not before an event. */
uint64_t ks_ud_due(void);

/* Tells the carrier that the client has rung the QP's doorbell. */
static inline void ks_doorbell(struct qp *qp)
{
	if (qp_get_type(qp) == QP_UD)
		dgram_doorbell(&ks.dgram, qp);
	else
		rc_doorbell(&ks.rc, qp);
}

/* ---- groups (ks_group.c) ---- */

/* Carries out CMD_GROUP. */
void ks_group_change(const struct cmd_group *c);
/* Reads a group's socket, which has input. Returns the number of datagrams. */
uint32_t ks_group_event(struct ks_src *s);
/* Gives a datagram to a group, parsed as *h, to the QPs in the group. */
void ks_group_take(const struct ks_gram *g, const struct udpl_hdr *h);
void ks_group_close(void);

/* ---- between processes (ks_pass.c) ---- */

enum ks_passed { KS_PASSED, KS_PASS_FULL, KS_PASS_NOBODY };
/* Passes a datagram to the process with this index. */
enum ks_passed ks_pass_gram(uint32_t index, const struct ks_gram *g);
/* Passes a datagram to the process that serves this port of RDMA_PS_UDP at the datagram's destination address. */
enum ks_passed ks_pass_request(uint16_t service, const struct ks_gram *g);

#endif
