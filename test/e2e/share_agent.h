/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that makes verbs calls on request: it exports or imports a context and uses its objects. It answers one
 * request at a time; requests and answers may carry a descriptor.
 */
#ifndef SHARE_AGENT_H
#define SHARE_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum agent_op {
	AGENT_EXPORT,  /* a: GID of the device, 2 words. v: PD, MR, address of AGENT_BUF bytes, rkey. fd: cmd_fd */
	AGENT_DEVICE,  /* imports the context of fd, a cmd_fd. v: GID of its device, 2 words */
	AGENT_TOKEN,   /* fd: cmd_fd of the imported context */
	AGENT_PD,      /* imports a PD. a: handle */
	AGENT_MR,      /* imports an MR. a: handle. v: length, lkey */
	AGENT_OWN,     /* registers the agent's own memory in the PD. v: address, rkey, handle */
	AGENT_QP,      /* makes a QP in the PD. v: its number */
	AGENT_CONNECT, /* connects the QP. a: number of the peer's QP, the peer's GID in 2 words */
	AGENT_RECV,    /* posts a receive. a: address, length, lkey */
	AGENT_POST,    /* posts a request. a: opcode, address, length, lkey, remote address, rkey */
	AGENT_POLL,    /* v: status of the next completion */
	AGENT_UNQP,    /* destroys the QP */
	AGENT_DEREG,   /* deregisters the agent's own region */
	AGENT_DEALLOC, /* deallocates the PD as its owner; err: what ibv_dealloc_pd() returned */
	AGENT_UNDO,    /* unimports or destroys all that is left. v: 1 when every call succeeded */
};

struct agent_msg {
	uint32_t op, err; /* err: only in an answer, 0 or errno */
	uint64_t a[6];
	int fd; /* 0: no descriptor */
};

#define AGENT_BUF 65536u

struct agent {
	pid_t pid;
	int sock;
};

/* Serves requests on descriptor `sock` until the other end is closed; returns the exit status. */
int agent_main(int sock);

/* Starts a new process of this program (whose main() must call agent_main() for "--agent FD"); uid 0: the same user. */
bool agent_start(struct agent *g, uid_t uid);
/* Forks an agent from this process, without exec. */
bool agent_fork(struct agent *g);
/* Sends a request and waits for the answer. False: the agent is gone. */
bool agent_ask(struct agent *g, struct agent_msg *m);
/* Ends the agent. True: it ended in order. */
bool agent_end(struct agent *g);
void agent_kill(struct agent *g);

#endif
