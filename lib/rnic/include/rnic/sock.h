/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Socket options that sockets of programs under rnicrun --sockets have beside the standard ones. A program that runs
 * without rnicrun gets ENOPROTOOPT, as for every option that the kernel does not know.
 *
 *	int wire = RNIC_WIRE_IWARP;
 *	setsockopt(fd, SOL_RNIC, RNIC_WIRE, &wire, sizeof(wire));
 *
 * The wire says how a UDP socket sends. What it receives may come by either. With RNIC_WIRE_IWARP a datagram goes as
 * one or more DDP segments with a CRC32C (doc/datagram-sockets.md) where the peer's rnicd takes that for the peer's UDP
 * port, and as plain UDP to all others; so any peer can be reached.
 *
 * Of a TCP socket it says how connect() asks for the connection. With RNIC_WIRE_IWARP an rnicd at the other end makes
 * it an iWARP connection with a CRC32C over each byte (doc/stream-sockets.md); with every other peer it is plain TCP.
 * Who accepts has the connecting end's wire. Of a connection getsockopt() tells the one that it has.
 *
 * RNIC_WIRE=iwarp or plain in the environment sets it for all sockets of a program, datagram-wire and stream-wire in
 * rnicd's configuration for the programs that say nothing.
 */
#ifndef RNIC_SOCK_OPT_H
#define RNIC_SOCK_OPT_H

#define SOL_RNIC 0x524e /* the level of setsockopt() */

/*
 * An int. EINVAL: none of the values below; EOPNOTSUPP: RNIC_WIRE_IWARP for a socket that is neither UDP's nor TCP's;
 * EISCONN: a TCP socket that has connected, or has begun to. Counts for what is sent, or connected, afterwards, also by
 * a program that exec() starts with the socket and under rnicrun; system() and popen() pass it for UDP sockets that have
 * an address of rnicd.
 */
#define RNIC_WIRE 1

enum {
	RNIC_WIRE_PORT = 0, /* as rnicd's configuration of the port says */
	RNIC_WIRE_PLAIN = 1,
	RNIC_WIRE_IWARP = 2,
};

#endif
