/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of a port's connections and datagrams that follow from its configuration. Pure functions; any thread. */
#ifndef POLICY_H
#define POLICY_H

#include "border/rnicd.h"
#include "iwarp/mpa_neg.h"

/* What a port's connections negotiate. */
struct mpa_policy conn_policy(const struct rnicd_port *port);

/* Bytes of IP header in the port's packets. */
/* Octets of the Ethernet header, and its tag, of frames that leave the port. */
uint32_t port_l2_len(const struct rnicd_port *port);
uint32_t port_ip_len(const struct rnicd_port *port);

/* The largest message that a device sends in a datagram, one of verbs' MTUs, in bytes; 0: it has no datagrams. */
uint32_t ud_mtu(const struct rnicd_port *port);
/* Octets of a segment that fits a packet of the device, with all headers; 0: it has no datagrams. */
uint32_t ud_unit(const struct rnicd_port *port);
/* Octets of each segment that its queue pairs send (segments); what goes to a group fits a packet. 0: as above. */
uint32_t ud_segment(const struct rnicd_port *port);
/* Bytes of such a message at most. */
uint32_t ud_max(const struct rnicd_port *port);

#endif
