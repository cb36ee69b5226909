/* SPDX-License-Identifier: BSD-3-Clause */
/* What the source files of the fake daemon share. */
#ifndef FAKE_INT_H
#define FAKE_INT_H

#include <pthread.h>

#include "fake.h"

#define CLIENTS 8

/* A request whose answer comes later. */
struct fake_held {
	struct fake_client *c;
	struct ipc_msg m;
};

struct fake {
	pthread_t thread;
	pthread_mutex_t lock;
	int listener, stop[2];
	char dir[64], path[96];
	struct fake_client client[CLIENTS];
	unsigned nclients;
	uint32_t version;
	int refuse;
	uint16_t refuse_type; /* only a request of this type; 0: any */
	uint32_t refuse_after;
	bool blind;
	struct fake_held held[16];
	uint32_t n_held;
	char text[IPC_TEXT_MAX];
};

#define TAKE(array, out) \
	do { \
		(out) = 0; \
		for (uint32_t i_ = 1; i_ < RN_ARRAY_LEN(array) && (out) == 0; i_++) \
			if (!(array)[i_].used) \
				(out) = i_; \
	} while (0)
#define VALID(array, h) ((h) > 0 && (h) < RN_ARRAY_LEN(array) && (array)[h].used)

/* Each function answers a request: it returns 0, or the errno of the refusal. */
int fake_answer_handle(struct ipc_msg *m, uint32_t handle);
int fake_answer_empty(struct ipc_msg *m);
int fake_import(struct fake *f, struct fake_client *c, struct ipc_msg *m, const int *fds, unsigned nfds);
int fake_forget(struct fake_client *c, struct ipc_msg *m);
int fake_reg_mr(struct fake_client *c, struct ipc_msg *m);

/* True: the request is answered later. */
bool fake_hold(struct fake *f, struct fake_client *c, const struct ipc_msg *m);

#endif
