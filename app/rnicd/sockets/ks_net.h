/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP below the connections of this plane: the kernel's (design embedded), or rnicd's streams (designs host and
 * assisted, lib/rnic/sock). Both are byte streams with descriptors that epoll can watch; a call that would block fails
 * with EAGAIN. For the holder of ks.lock.
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
/* Returns the length. dev: index of the device, whose interface is the scope of a link-local address. */
socklen_t ks_sockaddr(union ks_sockaddr *s, uint32_t dev, const struct pkt_addr *ip, uint16_t port);
/* All zero: of another family. */
struct pkt_addr ks_sockaddr_ip(const union ks_sockaddr *s, uint16_t *port);
/* Whether the device has the address. scope: the interface of a link-local address, which several interfaces may
 * have. */
bool ks_has_addr(uint32_t dev, const struct pkt_addr *ip, uint32_t scope);
/*
 * A socket of the address's family, which no exec inherits and no call waits for. An IPv6 address that the kernel still
 * asks the network about (RFC 4862, 5.4) can be bound already. -1 and errno.
 */
int ks_socket(const struct pkt_addr *ip, int type);

/* Options of a listener. */
struct ks_listening {
	uint32_t backlog;
	bool shared; /* shared with the other processes of the user: each gets some of the connections */
	uint8_t tos; /* of the packets of its connections */
};

/* s->fd is the descriptor; functions that may fail set errno. */
struct ks_net {
	/* The host's devices (rnicd.port), which are otherwise as `like` says. False with a sentence in err. */
	bool (*ports)(const struct rnicd_port_cfg *like, char *err, uint32_t err_len);
	/* A socket bound to the connection's own end. */
	bool (*open)(struct ks_src *s, const struct conn_addr *a);
	/* Both may be NULL: rnicd uses its port's configuration. 0 ns: no keepalive probes. */
	void (*keepalive)(const struct ks_src *s, uint64_t ns);
	void (*tos)(const struct ks_src *s, uint8_t tos);
	/* True: it is under way. */
	bool (*connect)(const struct ks_src *s, const struct conn_addr *a);
	/* 0: connected, EINPROGRESS: not yet; else the errno of the failure. */
	int (*connected)(const struct ks_src *s);
	bool (*listen)(struct ks_src *s, const struct conn_addr *at, const struct ks_listening *how);
	/* One connection of a listener's. */
	bool (*accept)(const struct ks_src *l, struct ks_src *s);
	/*
	 * *s gets a descriptor of its own of the socket that a descriptor of the program's is of. 0 or an errno with a
	 * sentence in err.
	 */
	int (*take)(int fd, struct ks_src *s, char *err, uint32_t err_len);
	/* A connection begins on the socket: the program does not use it any more. */
	void (*begin)(const struct ks_src *s);
	/* Both ends of a connection: all of *a but the port. */
	bool (*ends)(const struct ks_src *s, struct conn_addr *a);
	/* Payload bytes of a full segment; 0: not known. */
	uint32_t (*mss)(const struct ks_src *s);
	ssize_t (*recv)(const struct ks_src *s, void *to, size_t len);
	/*
	 * NULL if received bytes have to be copied. Else they are used where they lie, in up to two pieces: look()
	 * returns their number, took() consumes the first n. *summed: they are whole FPDUs with good CRCs.
	 */
	uint32_t (*look)(const struct ks_src *s, struct iovec iov[2], bool *summed);
	void (*took)(const struct ks_src *s, uint32_t n);
	ssize_t (*send)(const struct ks_src *s, const struct iovec *iov, uint32_t n);
	bool (*arrived)(const struct ks_src *s); /* the peer's TCP has all that was sent */
	void (*finish)(const struct ks_src *s);  /* sends a FIN */
	void (*reset)(const struct ks_src *s);
	void (*close)(struct ks_src *s);
	/*
	 * Whether there is something to read; NULL if only a read shows it. Used for connections that each turn polls:
	 * their descriptors need not be notified between polled(s, true) and polled(s, false).
	 */
	bool (*readable)(const struct ks_src *s);
	void (*polled)(const struct ks_src *s, bool polled);
	/*
	 * Both are NULL without rnicd. Called in design assisted: FPDUs begin `ahead` bytes behind what has been sent,
	 * and their CRC fields are not filled in; the next byte to be read begins an FPDU and has this offset in Full
	 * Operation. False: to be said again at a later FPDU, since bytes had come before it was heard.
	 */
	void (*fpdus_out)(const struct ks_src *s, uint32_t ahead, uint32_t step);
	bool (*fpdus_in)(const struct ks_src *s, uint32_t offset, uint32_t step);
};

extern const struct ks_net ks_net_kernel; /* ks_kernel.c */
extern const struct ks_net ks_net_host;   /* ks_host.c; rnicd computes the CRCs of assisted connections */

#endif
