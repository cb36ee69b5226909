/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes later than the answer to a request: events, and answers that are given after those to later requests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_int.h"

void fake_event(struct fake_client *c, uint32_t chan, const void *slot, uint32_t size)
{
	struct spsc_prod *r = &c->chan[chan].ring;
	uint64_t one = 1;

	if (spsc_prod_free(r, 1) == 0)
		abort();
	memcpy(spsc_prod_slot(r, 0), slot, size);
	spsc_prod_publish(r, 1);
	if (write(c->chan[chan].fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

void fake_cm(struct fake_client *c, const struct ipc_cm_event *ev)
{
	uint32_t about = ev->type == 4 ? ev->listen_id : ev->id; /* RDMA_CM_EVENT_CONNECT_REQUEST */

	if (ev->type == 4) {
		c->id[ev->id].used = true;
		c->id[ev->id].channel = c->id[ev->listen_id].channel;
	}
	fake_event(c, c->id[about].channel, ev, sizeof(*ev));
}

bool fake_hold(struct fake *f, struct fake_client *c, const struct ipc_msg *m)
{
	if (m->type != IPC_REACH || m->reach.ip[15] != 98)
		return false;
	if (f->n_held == RN_ARRAY_LEN(f->held))
		abort();
	f->held[f->n_held].c = c;
	f->held[f->n_held++].m = *m;
	return true;
}

uint32_t fake_held(struct fake *f)
{
	pthread_mutex_lock(&f->lock);
	const uint32_t n = f->n_held;
	pthread_mutex_unlock(&f->lock);
	return n;
}

void fake_held_answer(struct fake *f, int status)
{
	pthread_mutex_lock(&f->lock);
	while (f->n_held > 0) {
		struct fake_held *h = &f->held[--f->n_held];
		h->m.status = status;
		h->m.len = IPC_MSG_HDR;
		if (ipc_send(h->c->sock, &h->m, NULL, 0) != 0)
			abort();
	}
	pthread_mutex_unlock(&f->lock);
}
