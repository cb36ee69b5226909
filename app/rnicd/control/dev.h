/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA devices: one for each port, with its STag table and limits. Control thread. */
#ifndef DEV_H
#define DEV_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/ipc.h"
#include "qp/qp_dev.h"

/* Limits that a device reports. */
#define DEV_MAX_PD  4096u
#define DEV_MAX_MR  16777214u /* regions and windows of a device at most: an STag's index has 24 bits, and 0 is none */
#define DEV_MAX_CQE 262144u
#define DEV_MAX_WR  16384u
#define DEV_MAX_SLOTS \
	(DEV_MAX_WR * 16u) /* slots of a send or receive ring: QP_WQE_MAX_SLOTS for each request, a
					      * power of two */
#define DEV_MAX_MR_SIZE   (UINT64_C(1) << 36)
#define DEV_MAX_UDP_PORTS 4096u /* UDP ports that belong to one queue pair each */
#define DEV_MAX_GROUPS    64u   /* multicast groups; an IGMP report of all of them fits a packet of the smallest MTU */
#define DEV_GROUP_QPS     256u  /* QPs in a group */
#define DEV_MAX_XRCDS     4096u /* open XRC domains on all devices; a domain counts once for each open */

/* Called before clients connect. False: no memory. */
bool dev_start(void);
void dev_stop(void);

struct qp_dev *dev_get(uint32_t index);
/*
 * Called before an STag is taken: makes the next STag hard to guess. With a seed in the configuration it follows from
 * the seed.
 */
struct qp_dev *dev_stirred(uint32_t index);
/* Random bits from the system; with a seed in the configuration, pseudorandom bits that follow from the seed. */
uint64_t dev_random(void);
void dev_info(uint32_t index, struct ipc_dev_info *info);

/* Whether queue pairs may have this design (enum ipc_design; any value that a client sends). */
bool dev_has_design(uint32_t design);

/* The device with this address; UINT32_MAX: none. */
uint32_t dev_by_addr(const uint8_t ip[16]);
/* A link-local address (RFC 4291, 2.5.6): the same one may be at several interfaces. */
static inline bool dev_is_local(const uint8_t ip[16]) { return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80; }
/* The device on a link-local address's interface; UINT32_MAX: none, or the address names no interface. */
uint32_t dev_by_scope(const struct ipc_addr *a);
/*
 * The device from which dst is reached. If a device has the address dst: this device, or the other end of its wire (the
 * key own-address). Else the first one whose subnet contains dst; else the first one with a gateway of the same address
 * family; for a multicast group else the first one of its address family. UINT32_MAX: none.
 */
uint32_t dev_by_route(const uint8_t dst[16]);
/* Whether the device reaches dst: it is on the device's subnet, is a group of the device's address family, or can be
 * reached by the device's gateway. */
bool dev_reaches(uint32_t index, const uint8_t dst[16]);

#endif
