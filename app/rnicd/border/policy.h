/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of a port's connections and datagrams that follow from its configuration. Pure functions; any thread. */
#ifndef POLICY_H
#define POLICY_H

#include "border/rnicd.h"
#include "iwarp/mpa_neg.h"

/* What a port's connections negotiate. */
struct mpa_policy conn_policy(const struct rnicd_port *port);

/* Octets of the Ethernet header, and its VLAN tag if any, of frames that leave the port. */
uint32_t port_l2_len(const struct rnicd_port *port);
/* Octets of the IP header in the port's packets. */
uint32_t port_ip_len(const struct rnicd_port *port);

/* The largest message that a device sends in one datagram, one of verbs' MTUs, in bytes; 0: it has no datagrams. */
uint32_t ud_mtu(const struct rnicd_port *port);
/* Octets of the largest segment that fits a packet of the device, with all headers; 0: it has no datagrams. */
uint32_t ud_unit(const struct rnicd_port *port);
/*
 * Octets of each segment that the device's queue pairs send to one receiver, as the key `segments` says. Segments to a
 * group have ud_unit() octets. 0: the device has no datagrams.
 */
uint32_t ud_segment(const struct rnicd_port *port);
/* Bytes of the largest message of several datagrams; 0: the device has no datagrams. */
uint32_t ud_max(const struct rnicd_port *port);

#endif
