/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram queue pairs, and the wire iwarp of datagram sockets (ks_gram.h), over the kernel's UDP sockets, in the
 * format that rnicd's workers use on Ethernet, at the same UDP port (datagram-port). Each process has one socket for
 * each device; the sockets of all processes of the user share the port (SO_REUSEPORT). The upper 8 bits of a QPN are
 * the index of the queue pair's process. A filter in the kernel chooses the socket by these bits if it can; a datagram
 * that arrives at the wrong process is passed to its owner (ks_pass.c). Datagrams between processes of one host are
 * passed in this way from the start: then a receiver without room delays its sender, where UDP would drop datagrams.
 *
 * A queue pair with a UDP port of its own (UDPL_QPN_PORTS) has a socket of its own, which no other process can bind
 * (ks_ud_own.c). Its number does not tell its process, so other processes of the host reach it by UDP only.
 *
 * A datagram may be longer than a packet (segments = 64k): the kernel cuts it into IP fragments, and reassembles
 * received ones.
 *
 * For the thread that holds ks.lock, unless marked otherwise.
 */
#ifndef KS_UD_H
#define KS_UD_H

#include "border/ud_view.h"
#include "sockets/ks.h"

#define KS_UD_BURST 32u /* datagrams of one system call */
/*
 * Octets of a buffer for one datagram: more than UDP carries. The distance between two buffers is no power of two, so
 * that the first lines of a burst's datagrams lie in different sets of a cache.
 */
#define KS_UD_ROOM (66u << 10)

/* A UDP payload as it was received. */
struct ks_gram {
	const uint8_t *p;
	uint32_t len;
	uint32_t port;            /* index of the device */
	struct pkt_addr from, to; /* to: the device's address, or a group's */
	uint16_t sport, dport;    /* UDP ports; not set if passed */
	uint8_t tos, hop_limit;
	bool passed; /* a queue pair or process of this user has passed the datagram to this process, its owner */
};

/* What has become of a datagram for another process (ks_pass.c). */
enum ks_passed {
	KS_PASSED,
	KS_PASS_KEPT, /* a copy waits until the process has room (ks_relay.c) */
	KS_PASS_FULL,
	KS_PASS_NOBODY, /* there is no such process */
};

/* Opens the devices' sockets. Called before the other functions. A device whose socket fails has no datagrams. */
void ks_ud_start(void);
void ks_ud_close(void);

/*
 * Opens a socket of the device, bound to this address and UDP port. reuse: SO_REUSEPORT or SO_REUSEADDR; 0: no other
 * socket may have both. -1 and errno.
 */
int ks_ud_socket(const struct pkt_addr *ip, uint32_t port, uint16_t udp_port, int reuse);

/*
 * The QP belongs to this device, and datagrams find it from now on. 0, or the errno of the socket that the QP's own UDP
 * port needs: then the QP is not added.
 */
int ks_ud_add(struct ud_qp *u, uint32_t port);
/*
 * Called before the QP is destroyed: datagrams do not find it any more. sends: first sends posted work, if there is
 * room.
 */
void ks_ud_end(struct ud_qp *u, bool sends);

/* Reads a socket, whose datagrams have the port, `to` and `dport` of *like. Returns the number of datagrams. */
uint32_t ks_ud_read(const struct ks_src *s, const struct ks_gram *like);
/*
 * This process is about to end: passes on what has come for other processes of the user, as far as they have room. What
 * comes later is lost.
 */
void ks_ud_last(void);
/* Handles the events that epoll reports for a device's socket, or for the socket of a queue pair's own UDP port. */
void ks_ud_event(struct ks_src *s, uint32_t events);
/* Handles one received datagram: finds its QP, group, connection manager or process. */
void ks_ud_take(const struct ks_gram *g);
/*
 * Whether a datagram that was passed on counts as handled; false: there is no such process. A datagram that a process
 * has no room for is counted, and lost.
 */
bool ks_ud_was_passed(const struct ks_gram *g, enum ks_passed v);
/* Gives a datagram to one QP. summed: the CRC has been checked, and is good. */
void ks_ud_deliver(struct qp *qp, const struct ks_gram *g, const struct udpl_hdr *h, bool summed);
/* The device's socket with this UDP port, which is datagram-port or a queue pair's own; NULL: there is none. */
struct ks_src *ks_ud_src(uint32_t port, uint16_t udp_port);
/* Ends incomplete messages whose time is over; returns their number. */
uint32_t ks_ud_timers(void);

/* ---- queue pairs with a UDP port of their own (ks_ud_own.c) ---- */

/* Keeps the port's socket, which epoll watches from now on. False: no memory, and the socket is the caller's. */
bool ks_ud_own_put(uint32_t port, uint16_t udp_port, int fd);
void ks_ud_own_close(uint32_t port, uint16_t udp_port);
/* NULL: none of this process. */
struct ks_src *ks_ud_own_src(uint32_t port, uint16_t udp_port);
/* The UDP port of a socket of kind KS_UD_OWN, and its device. */
uint16_t ks_ud_own_port(const struct ks_src *s, uint32_t *port);
/* In a child of fork(): closes its copies of the sockets. */
void ks_ud_own_close_all(void);

/* ---- sending (ks_ud_out.c) ---- */

/* Sends datagrams of QPs that have something to send; returns how many were made. */
uint32_t ks_ud_transmit(void);
/* Sends datagrams that the QP has posted, as far as there is room. */
void ks_ud_finish(struct qp *qp);
/* The device's socket with this UDP port takes datagrams again, or is gone. */
void ks_ud_writable(uint32_t port, uint16_t udp_port);
/* Sends a datagram that the control thread has made. */
void ks_ud_send(uint32_t port, const struct pkt_addr *to, const uint8_t *p, uint32_t len);
/* Whether a QP can send at once. */
bool ks_ud_more(void);
/*
 * Datagrams of sockets: whether n of them, UDPS_SEGS_MAX at most, may be put now; the buffer of the next one; puts the
 * `len` octets in it. They leave by the device's datagram-port, with the next ks_ud_flush() at the latest.
 */
bool ks_ud_room(uint32_t n);
uint8_t *ks_ud_next(void);
void ks_ud_put(uint32_t port, const struct ipc_gram_rec *rec, uint32_t len);
/* Sends what has been put, as far as there is room. False: some is left. */
bool ks_ud_flush(void);
bool ks_ud_waits(void); /* whether some is left */
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
void ks_group_change(struct cmd_group *c);
/* Reads a group's socket, which has input. Returns the number of datagrams. */
uint32_t ks_group_event(struct ks_src *s);
/* Gives a datagram to a group, parsed as *h, to the QPs in the group. */
void ks_group_take(const struct ks_gram *g, const struct udpl_hdr *h);
void ks_group_close(void);

/* ---- between processes (ks_pass.c) ---- */

/* Passes a datagram of this process to the process with this index. KS_PASS_FULL: the caller waits and tries again. */
enum ks_passed ks_pass_gram(uint32_t index, const struct ks_gram *g);
/* Passes a received datagram on to the process with this index, as soon as that has room. KS_PASS_FULL: it is lost. */
enum ks_passed ks_pass_on(uint32_t index, const struct ks_gram *g);
/* The same to the process that serves this port of RDMA_PS_UDP at the datagram's destination address. */
enum ks_passed ks_pass_request(uint16_t service, const struct ks_gram *g);
/* The same to the process that has UDP sockets with this port there. */
enum ks_passed ks_pass_to_sock(uint16_t port, const struct ks_gram *g);

#endif
