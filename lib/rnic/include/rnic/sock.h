/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Socket options that sockets of programs under rnicrun --sockets have beside the standard ones. A program that runs
 * without rnicrun gets ENOPROTOOPT, as for every option that the kernel does not know.
 *
 *	int wire = RNIC_WIRE_IWARP;
 *	setsockopt(fd, SOL_RNIC, RNIC_WIRE, &wire, sizeof(wire));
 *
 * For a UDP socket, the wire says how the socket sends; datagrams are received over both wires. With RNIC_WIRE_IWARP a
 * datagram is sent as one or more DDP segments with a CRC32C (doc/datagram-sockets.md) if the peer's rnicd accepts such
 * segments for the peer's UDP port, else as plain UDP. So any peer can be reached.
 *
 * For a TCP socket, the wire says what connect() asks for. With RNIC_WIRE_IWARP the connection becomes an iWARP
 * connection with a CRC32C over each byte (doc/stream-sockets.md) if the other end has an rnicd; with every other peer
 * the connection is plain TCP. An accepted socket has the wire of the connecting end. On a connected socket,
 * getsockopt() returns the wire that the connection has.
 *
 * RNIC_WIRE=iwarp or RNIC_WIRE=plain in the environment sets the wire of all sockets of a program. The keys
 * datagram-wire and stream-wire in rnicd's configuration set the wire of programs that do not choose one.
 */
#ifndef RNIC_SOCK_OPT_H
#define RNIC_SOCK_OPT_H

#define SOL_RNIC 0x524e /* the level of setsockopt() */

/*
 * An int. EINVAL: none of the values below; EOPNOTSUPP: RNIC_WIRE_IWARP for a socket that is neither UDP nor TCP;
 * EISCONN: a TCP socket that is connected or connecting. The wire applies to later sends or to a later connect(). A
 * program under rnicrun that exec() starts inherits the wire with the socket; one that system() or popen() starts
 * inherits the wire of a UDP socket that has an address of rnicd.
 */
#define RNIC_WIRE 1

enum {
	RNIC_WIRE_PORT = 0, /* as rnicd's configuration of the port says */
	RNIC_WIRE_PLAIN = 1,
	RNIC_WIRE_IWARP = 2,
};

#endif
