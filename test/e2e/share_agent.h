/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that does verbs on request: it exports or imports a context and works with what it has. One request at a
 * time, each answered; requests and answers may carry a descriptor.
 */
#ifndef SHARE_AGENT_H
#define SHARE_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum agent_op {
	AGENT_EXPORT,  /* a: GID of the device, 2 words. v: PD, MR, address of AGENT_BUF bytes, rkey. fd: cmd_fd */
	AGENT_DEVICE,  /* fd: cmd_fd; imports the context. v: bytes of its device's GID, 2 words */
	AGENT_TOKEN,   /* fd: cmd_fd of the context that it has imported */
	AGENT_PD,      /* a: handle. Imports it */
	AGENT_MR,      /* a: handle. Imports it. v: length, lkey */
	AGENT_OWN,     /* registers memory of its own in the PD. v: address, rkey, handle */
	AGENT_QP,      /* v: number of a QP in the PD */
	AGENT_CONNECT, /* a: peer's QP number, its GID, 2 words */
	AGENT_RECV,    /* a: address, length, lkey */
	AGENT_POST,    /* a: opcode, address, length, lkey, remote address, rkey */
	AGENT_POLL,    /* v: status of the next completion */
	AGENT_UNQP,    /* destroys the QP */
	AGENT_DEREG,   /* its own region */
	AGENT_DEALLOC, /* the PD, as its owner; err: what ibv_dealloc_pd() returned */
	AGENT_UNDO,    /* gives back, or ends, all that is left. v: 1 when everything went */
};

struct agent_msg {
	uint32_t op, err; /* err, of an answer: 0 or errno */
	uint64_t a[6];
	int fd; /* 0: none */
};

#define AGENT_BUF 65536u

struct agent {
	pid_t pid;
	int sock;
};

/* Serves on descriptor `sock` until the other end is closed; the exit status. */
int agent_main(int sock);

/* A new process of this program (argv[0] is to call agent_main() for "--agent FD"); uid 0: as it is. */
bool agent_start(struct agent *g, uid_t uid);
/* One that is a fork of this process without exec. */
bool agent_fork(struct agent *g);
/* Asks and waits for the answer. False: the agent is gone. */
bool agent_ask(struct agent *g, struct agent_msg *m);
/* Ends it; true: it was in order. */
bool agent_end(struct agent *g);
void agent_kill(struct agent *g);

#endif
