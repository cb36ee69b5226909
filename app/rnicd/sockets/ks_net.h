/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP below the connections of this plane: the kernel's (design embedded), or rnicd's streams (designs host and
 * assisted, lib/rnic/sock). Both are byte streams with descriptors that epoll can watch; a call that would block fails
 * with EAGAIN. For the thread that holds ks.lock.
 */
#ifndef KS_NET_H
#define KS_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "border/flow_owner.h"
#include "border/rnicd.h"

struct ks_src;
struct sock;

/* An address and a port as the kernel has them. */
union ks_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};
/* Fills *s; returns its length. dev: index of the device, whose interface is the scope of a link-local address. */
socklen_t ks_sockaddr(union ks_sockaddr *s, uint32_t dev, const struct pkt_addr *ip, uint16_t port);
/* The address and port in *s; all zero: *s is neither IPv4 nor IPv6. */
struct pkt_addr ks_sockaddr_ip(const union ks_sockaddr *s, uint16_t *port);
/* The first device with this address; UINT32_MAX: none has it. */
uint32_t ks_dev_of(const struct pkt_addr *ip);
/* Sets the scope of the socket's own or peer's address *a, if the address is link-local. */
void ks_scope(int fd, bool peer, struct ipc_addr *a);
/*
 * Whether the device has the address. scope: the index of the interface that a link-local address belongs to, since
 * several interfaces may have the same link-local address.
 */
bool ks_has_addr(uint32_t dev, const struct pkt_addr *ip, uint32_t scope);
/*
 * A non-blocking, close-on-exec socket of the address's family. It can be bound to an IPv6 address while the kernel
 * still checks that no other host has this address (RFC 4862, 5.4). On failure -1 and errno.
 */
int ks_socket(const struct pkt_addr *ip, int type);

/* Options of a listener. */
struct ks_listening {
	uint32_t backlog;
	bool shared; /* other processes of the user listen at the same port: each gets some of the connections */
	uint8_t tos; /* TOS of the packets of its connections */
};

/* s->fd is the descriptor; functions that may fail set errno. */
struct ks_net {
	/* Makes the host's devices (rnicd.port), configured as in `like` otherwise. False with a sentence in err. */
	bool (*ports)(const struct rnicd_port_cfg *like, char *err, uint32_t err_len);
	/*
	 * Makes a socket that is bound to the local address and port of the connection. a->lport 0: any port that is
	 * free; lport() tells it.
	 */
	bool (*open)(struct ks_src *s, const struct conn_addr *a);
	uint16_t (*lport)(const struct ks_src *s);
	/* keepalive and tos may be NULL: then rnicd's port's configuration decides. 0 ns: no keepalive probes. */
	void (*keepalive)(const struct ks_src *s, uint64_t ns);
	void (*tos)(const struct ks_src *s, uint8_t tos);
	/* Begins to connect. True: the connect is under way. */
	bool (*connect)(const struct ks_src *s, const struct conn_addr *a);
	/* 0: the socket is connected; EINPROGRESS: it is not connected yet; else the errno of the failure. */
	int (*connected)(const struct ks_src *s);
	/* Listens on *s, if it has a socket of open(), or else on a new socket. On failure *s has no socket. */
	bool (*listen)(struct ks_src *s, const struct conn_addr *at, const struct ks_listening *how);
	/* Accepts one connection of listener l. EMFILE or ENFILE: there is no descriptor; a connection was closed. */
	bool (*accept)(const struct ks_src *l, struct ks_src *s);
	/*
	 * Duplicates fd, a descriptor of the program, into *s, for the same socket. 0, or an errno with a sentence in
	 * err.
	 */
	int (*take)(int fd, struct ks_src *s, char *err, uint32_t err_len);
	/* Called when a connection begins on such a socket: the program does not use the socket any more. */
	void (*begin)(const struct ks_src *s);
	/* Reads the addresses of both ends of a connection: all of *a except a->port. */
	bool (*ends)(const struct ks_src *s, struct conn_addr *a);
	/* Payload bytes of a full segment; 0: not known. */
	uint32_t (*mss)(const struct ks_src *s);
	ssize_t (*recv)(const struct ks_src *s, void *to, size_t len);
	/*
	 * NULL if received bytes must be copied. Else the bytes can be used where they lie, in up to two pieces: look()
	 * returns the number of bytes, took() consumes the first n bytes. *summed: the bytes are whole FPDUs with good
	 * CRCs.
	 */
	uint32_t (*look)(const struct ks_src *s, struct iovec iov[2], bool *summed);
	void (*took)(const struct ks_src *s, uint32_t n);
	ssize_t (*send)(const struct ks_src *s, const struct iovec *iov, uint32_t n);
	uint32_t (*unacked)(const struct ks_src *s); /* bytes sent that the peer's TCP has not acknowledged */
	/* At least how long the peer's TCP has not answered, in ns. NULL: rnicd's TCP gives up a silent peer itself. */
	uint64_t (*unanswered)(const struct ks_src *s);
	void (*finish)(const struct ks_src *s); /* sends a FIN */
	void (*reset)(const struct ks_src *s);
	void (*close)(struct ks_src *s);
	/*
	 * Whether there are bytes to read; NULL if only a read shows this. Used for connections that each turn polls:
	 * between polled(s, true) and polled(s, false), arriving bytes need not make the descriptor readable.
	 */
	bool (*readable)(const struct ks_src *s);
	void (*polled)(const struct ks_src *s, bool polled);
	/*
	 * Both are NULL without rnicd. Called in design assisted. fpdus_out: FPDUs begin `ahead` bytes after the last
	 * byte that was sent, and their CRC fields are not filled in. fpdus_in: the next byte to be read begins an FPDU
	 * and has this offset in Full Operation. True: rnicd checks CRCs. False: rnicd does not yet, and the caller
	 * calls again at a later FPDU, as bytes may have come before rnicd has read this. step: bytes from marker to
	 * marker; 0: none.
	 */
	void (*fpdus_out)(const struct ks_src *s, uint32_t ahead, uint32_t step);
	bool (*fpdus_in)(const struct ks_src *s, uint32_t offset, uint32_t step);
};

extern const struct ks_net ks_net_kernel; /* ks_kernel.c */
extern const struct ks_net ks_net_host;   /* ks_host.c; rnicd computes the CRCs of assisted connections */

#endif
