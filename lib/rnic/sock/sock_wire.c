/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire by which a UDP socket sends and a TCP socket connects (rnic/sock.h). A program may choose the wire while its
 * socket is still the kernel's. Until the socket is rnicd's, the wire is noted here, under the inode number of the
 * kernel's socket.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rnic/sock.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define SEATS 1024u /* entries */
#define WAYS  8u    /* entries that the wire of one socket may be in */

_Static_assert(RNIC_WIRE_PORT == (int)IPC_GRAM_AS_PORT && RNIC_WIRE_PLAIN == (int)IPC_GRAM_PLAIN &&
		       RNIC_WIRE_IWARP == (int)IPC_GRAM_IWARP,
	       "the option is what records say");

/*
 * An entry: inode number of a socket << 8 | wire + 1; 0: free. An entry is one word, so no lock is needed. A socket's
 * entry is one of WAYS. If all of these are taken, the next one in turn is replaced, since its socket may be gone.
 */
static uint64_t seat[SEATS];
static uint32_t turn;

static uint64_t number_of(int fd) { return sock_file_number(fd) << 8; }

static uint64_t *seat_of(uint64_t number, uint32_t way) { return &seat[((number >> 8) / WAYS * WAYS + way) % SEATS]; }

static void wire_keep(uint64_t number, int wire)
{
	uint32_t way = WAYS;

	for (uint32_t i = WAYS; i-- > 0;) {
		uint64_t there = __atomic_load_n(seat_of(number, i), __ATOMIC_RELAXED);
		if (there >> 8 == number >> 8) {
			way = i;
			break;
		}
		if (there == 0)
			way = i;
	}
	if (way == WAYS)
		way = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % WAYS;
	__atomic_store_n(seat_of(number, way), number | (uint64_t)(wire + 1), __ATOMIC_RELAXED);
}

void sock_wire_note(int below, int wire) { wire_keep(number_of(below), wire); }

uint8_t sock_wire_usual(void)
{
	static bool said;
	const char *v = getenv("RNIC_WIRE");

	if (v == NULL || *v == '\0')
		return RNIC_WIRE_PORT;
	if (strcmp(v, "iwarp") == 0)
		return RNIC_WIRE_IWARP;
	if (strcmp(v, "plain") != 0 && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		fprintf(stderr, "librnicsock: RNIC_WIRE must be plain or iwarp, not %s: sockets stay plain\n", v);
	return RNIC_WIRE_PLAIN;
}

uint8_t sock_wire_of(int below)
{
	const uint64_t number = number_of(below);

	for (uint32_t i = 0; number != 0 && i < WAYS; i++) {
		uint64_t there = __atomic_load_n(seat_of(number, i), __ATOMIC_RELAXED);
		if (there >> 8 == number >> 8 && there != 0)
			return (uint8_t)((uint8_t)there - 1);
	}
	return sock_wire_usual();
}

/* ---- exec ---- */

#define CARRIED "RNIC_SOCK_WIRES" /* its value: NUMBER:WIRE,NUMBER:WIRE, */

bool sock_wires_is(const char *variable) { return strncmp(variable, CARRIED "=", sizeof(CARRIED)) == 0; }

static size_t say_one(char *to, size_t room, size_t len, uint64_t number, uint32_t wire)
{
	if (len == 0)
		len = (size_t)snprintf(to, room, CARRIED "=");
	return len + (size_t)snprintf(len < room ? to + len : NULL, len < room ? room - len : 0, "%llu:%u,",
				      (unsigned long long)number, wire);
}

size_t sock_wires_say(char *to, size_t room)
{
	const uint8_t usual = sock_wire_usual();
	size_t len = 0;

	for (uint32_t i = 0; i < SEATS; i++) {
		uint64_t there = __atomic_load_n(&seat[i], __ATOMIC_RELAXED);
		if (there != 0)
			len = say_one(to, room, len, there >> 8, (uint32_t)(there & 0xff) - 1);
	}
	for (int fd = 0; fd < SOCK_FDS; fd++) {
		const struct sock *s = __atomic_load_n(&sock_tab[fd], __ATOMIC_ACQUIRE);
		if (s != NULL && (s->kind == SOCK_BOUND || s->kind == SOCK_LISTENS) && s->wire != usual)
			len = say_one(to, room, len, sock_file_number(fd), s->wire);
	}
	return len;
}

void sock_wires_learn(void)
{
	const char *p = getenv(CARRIED);
	unsigned long long number;
	unsigned wire;

	for (int n = 0; p != NULL && sscanf(p, "%llu:%u,%n", &number, &wire, &n) == 2 && n > 0; p += n, n = 0)
		if (wire <= RNIC_WIRE_IWARP)
			wire_keep(number << 8, (int)wire);
	unsetenv(CARRIED);
}

/* ---- the option ---- */

/* Whether a socket of the kernel's can have a wire. */
static bool has_wire(int fd)
{
	int speaks = sock_option(fd, SO_PROTOCOL);

	return speaks == IPPROTO_TCP || speaks == IPPROTO_UDP;
}

static int wire_refuse(int err)
{
	errno = err;
	return -1;
}

int sock_wire_set(int fd, int name, const void *from, socklen_t len)
{
	struct sock *s = sock_get(fd);
	const bool gram = s != NULL && s->kind == SOCK_IS_GRAM, some = s != NULL || has_wire(fd);
	const uint64_t number = number_of(gram ? s->below : fd);
	int wire = -1, err = 0;

	if (number == 0)
		err = ENOTSOCK;
	else if (name != RNIC_WIRE)
		err = ENOPROTOOPT;
	else if (len < sizeof(wire))
		err = EINVAL;
	else
		memcpy(&wire, from, sizeof(wire));
	if (err == 0 && (wire < RNIC_WIRE_PORT || wire > RNIC_WIRE_IWARP))
		err = EINVAL;
	if (err == 0 && !some && wire == RNIC_WIRE_IWARP)
		err = EOPNOTSUPP;
	if (err == 0 && s != NULL && s->kind == SOCK_IS_STREAM)
		err = EISCONN;
	if (err == 0 && some && (s == NULL || gram))
		wire_keep(number, wire);
	if (err == 0 && s != NULL) {
		s->wire = (uint8_t)wire;
		sock_keep(s);
	}
	if (s != NULL)
		sock_put(s);
	return err != 0 ? wire_refuse(err) : 0;
}

/* The wire of a socket. A connection has the wire that both ends have agreed on. */
static int wire_that_is(const struct sock *s)
{
	if (s->kind != SOCK_IS_STREAM)
		return s->wire;
	/* relaxed: rnicd sets the bit before the connection can be used, and never clears it */
	return (__atomic_load_n(&s->mem->state, __ATOMIC_RELAXED) & IPC_STREAM_IWARP) != 0 ? RNIC_WIRE_IWARP
											   : RNIC_WIRE_PLAIN;
}

int sock_wire_get(int fd, int name, void *to, socklen_t *len)
{
	struct sock *s = sock_get(fd);
	int wire = s != NULL ? wire_that_is(s) : has_wire(fd) ? sock_wire_of(fd) : RNIC_WIRE_PLAIN;

	if (s != NULL)
		sock_put(s);
	if (name != RNIC_WIRE)
		return wire_refuse(ENOPROTOOPT);
	if (*len > sizeof(wire))
		*len = sizeof(wire);
	memcpy(to, &wire, *len);
	return 0;
}
