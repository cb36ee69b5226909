/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plane of datagram sockets over the kernel's (ks_gram.h) on loopback, for tests that run its turns themselves: the
 * programs' sockets, and a peer with the protocol of doc/datagram-sockets.md. cmocka.h is included before.
 */
#ifndef KS_GRAM_RIG_H
#define KS_GRAM_RIG_H

#include "ks_rig.h"
#include "sockets/ks_gram.h"

#define LOOPBACK  0x7f000001u /* address of device 0; device 1 has the next one, and the peer the one after it */
#define DEVS      2u
#define PEER      (LOOPBACK + DEVS)
#define PEER_PORT 4000u /* UDP port of the peer's socket, which exists in the peer's datagrams only */
#define NONCE     UINT64_C(0x1234)

/* For cmocka's groups of tests. */
int ks_gram_begin(void **state);

/* ---- programs ---- */

union ks_sockaddr address(uint32_t ip, uint16_t port);
/* A UDP socket of the kernel's at this address, and its port. reuse: SO_REUSEPORT. */
int kernels(uint32_t ip, uint16_t *port, bool reuse);
/* Hands the kernel's socket over. */
struct gram *gram_of(int fd);
void gram_over(struct gram *g);
void send_to(struct gram *g, uint32_t ip, uint16_t port, uint32_t len);
/* Waits for the socket's next datagram, and checks its octets, which are those of send_to(). */
struct ipc_gram_rec receive(struct gram *g);
/* Sends from a to b, whose port it is, until a datagram goes by iWARP. Those before b's side has answered go plain. */
void until_iwarp(struct gram *a, struct gram *b, uint16_t port);
void wait_error(const struct gram *g, uint32_t err);

/* ---- the peer ---- */

extern int peer; /* the kernel's socket that has the peer's datagram-port */

void peer_says(const uint8_t *p, size_t len);
void peer_says_message(const struct udps_msg *m);
void peer_asks(uint16_t port);
/* What the peer hears next. */
struct udps_msg peer_hears(void);
/* A datagram with octets as those of send_to(); returns its length. */
uint32_t peer_build(uint8_t *buf, uint16_t port, uint32_t qkey, uint32_t len);
void peer_sends(uint16_t port, uint32_t qkey);

#endif
