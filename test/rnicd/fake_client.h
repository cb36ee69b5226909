/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of the control plane: a daemon, and clients that send it any messages. A call that cannot be carried out
 * fails the test (cmocka). One thread.
 */
#ifndef FAKE_CLIENT_H
#define FAKE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "ipc/ipc.h"

/* ---- programs ---- */

struct run {
	pid_t pid;
	int out; /* the program's stdout and stderr */
	char text[16384];
	size_t len;
};

void run_start(struct run *r, const char *const argv[]);
/* Reads until the text appears; false: the program has ended before. */
bool run_wait_for(struct run *r, const char *text);
/* Reads to the end; returns the exit status, or -signal. */
int run_end(struct run *r);

/* ---- a daemon ---- */

struct daemon {
	char dir[64];
	char conf[96];
	char sock[96];
	struct run run;
};

/*
 * Writes a configuration: [rnicd] with this text, then the ports a and b, wired to each other, 10.77.0.1 and 10.77.0.2.
 */
void daemon_config(struct daemon *d, const char *rnicd_section);
void daemon_start(struct daemon *d, const char *rnicd_section);
/* Sends SIGTERM; the daemon must end in order. */
void daemon_stop(struct daemon *d);
bool daemon_alive(const struct daemon *d);

/* ---- a client ---- */

#define FC_QUEUES (UINT64_C(16) << 20)
/* Objects have fixed places in the queue region, by number: 128 KiB each, behind the control block. */
#define FC_PLACE(n) ((UINT64_C(1) << 20) + (uint64_t)(n) * (128 << 10))
#define FC_ARENA    (UINT64_C(64) << 20)

struct fc {
	int sock;
	int wake;
	int fd[2]; /* sizes of the queue region and of the arena */
	uint8_t *queues, *arena;
	uint32_t seq;
};

/* Connects, and sends nothing. */
void fc_dial(struct fc *c, const struct daemon *d);
void fc_close(struct fc *c);
/* Connects, and exchanges HELLO. */
void fc_join(struct fc *c, const struct daemon *d);

/* Sends m and receives the answer into it. Returns the answer's status; -1 if the daemon has closed the connection. */
int fc_call(struct fc *c, struct ipc_msg *m, const int *fds, unsigned nfds);
/* The same for a type of message and one member; the text of the answer stays in m. */
#define FC_CALL(c, m, ty, member, ...) \
	(*(m) = (struct ipc_msg){ .type = (ty), .len = IPC_MSG_LEN(member), .member = { __VA_ARGS__ } }, \
	 fc_call(c, m, NULL, 0))

uint32_t fc_pd(struct fc *c);
/* Make objects at place n. */
uint32_t fc_cq(struct fc *c, uint32_t n, uint32_t chan);
uint32_t fc_qp(struct fc *c, uint32_t n, uint32_t pd, uint32_t cq, uint32_t *qpn);
uint32_t fc_chan(struct fc *c, uint32_t n, enum ipc_channel_kind kind, int *efd);
int fc_mr(struct fc *c, struct ipc_msg *m, uint32_t pd, const struct ipc_piece *p, uint32_t n);
uint32_t fc_id(struct fc *c, uint32_t chan);
/* Waits for the next event of a channel made by fc_chan(), and takes it. */
void fc_event(struct fc *c, uint32_t n, int efd, struct ipc_cm_event *ev);

struct ipc_addr fc_addr(uint8_t last_byte, uint16_t port); /* 10.77.0.x */

/* The request has failed: its result rc is err, and the answer m has this sentence. */
#define REFUSED(rc, err, sentence) \
	do { \
		assert_int_equal(rc, err); \
		assert_string_equal(m.text, sentence); \
	} while (0)

#endif
