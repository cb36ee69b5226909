/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event queues: the daemon's control thread writes an entry into the ring and then a token into the eventfd. This side
 * reads the token first, so that the descriptor blocks, polls and returns EAGAIN as a real device's does, and the entry
 * after it. While the daemon lives there are never more tokens than entries: rnic_evq_drop() removes a token with each
 * entry.
 */
#include "rnic/common.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#define SLOTS_SMALL 1024u
#define SLOTS_CM    256u

static void token_put(struct rnic_evq *q)
{
	const int cancel = rnic_cancel_off();
	uint64_t one = 1;
	ssize_t n = write(q->fd, &one, sizeof(one));
	rnic_cancel_back(cancel);
	(void)n; /* fails only when the eventfd's counter is full, and then there are tokens enough */
}

/* Takes a token if there is one, whether or not the program has set O_NONBLOCK. Cancellation is off. */
static bool token_take(struct rnic_evq *q)
{
	uint64_t v;
	struct iovec iov = { .iov_base = &v, .iov_len = sizeof(v) };
	struct pollfd p = { .fd = q->fd, .events = POLLIN };

	if (preadv2(q->fd, &iov, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof(v))
		return true;
	if (errno != EOPNOTSUPP)
		return false;
	return poll(&p, 1, 0) == 1 && read(q->fd, &v, sizeof(v)) == (ssize_t)sizeof(v);
}

/* ---- entries; the caller holds the queue's lock ---- */

static bool keep(struct rnic_evq *q, const void *slot)
{
	struct rnic_ev *e = malloc(sizeof(*e) + q->slot_size);

	if (e == NULL)
		return false;
	memcpy(e->slot, slot, q->slot_size);
	rn_list_push_back(&q->kept, &e->link);
	return true;
}

static bool entry_take(struct rnic_evq *q, void *slot)
{
	struct rnic_ev *e = rn_list_pop(&q->kept, struct rnic_ev, link);

	if (e != NULL) {
		memcpy(slot, e->slot, q->slot_size);
		free(e);
		return true;
	}
	if (rnic_dead(q->s) || spsc_cons_avail(&q->ring, 1) == 0)
		return false;
	memcpy(slot, spsc_cons_slot(&q->ring, 0), q->slot_size);
	spsc_cons_release(&q->ring, 1);
	return true;
}

int rnic_evq_get(struct rnic_evq *q, void *slot, void (*seen)(const void *slot, void *arg), void *arg)
{
	if (q->s->forked) { /* the tokens are the parent's */
		errno = EIO;
		return -1;
	}
	for (;;) {
		uint64_t v;
		if (read(q->fd, &v, sizeof(v)) != (ssize_t)sizeof(v))
			return -1;
		pthread_mutex_lock(&q->lock);
		bool got = entry_take(q, slot);
		if (got)
			seen(slot, arg);
		pthread_mutex_unlock(&q->lock);
		if (got)
			return 0;
		if (rnic_dead(q->s)) {
			token_put(q); /* for the next waiting thread */
			errno = EIO;
			return -1;
		}
		/* rnic_evq_drop() removed this token's entry after the token was read: wait for another token. */
	}
}

bool rnic_evq_drop(struct rnic_evq *q, bool (*match)(const void *slot, void *arg), void *arg,
		   bool (*take)(const void *slot, void *to), void *to)
{
	const int cancel = rnic_cancel_off();
	bool all = true;

	pthread_mutex_lock(&q->lock);
	if (!rnic_dead(q->s)) {
		uint32_t n = 0;
		while (spsc_cons_avail(&q->ring, n + 1) > n && keep(q, spsc_cons_slot(&q->ring, n)))
			n++;
		spsc_cons_release(&q->ring, n);
	}
	rn_list_each(struct rnic_ev, e, &q->kept, link) {
		if (!match(e->slot, arg))
			continue;
		all = take == NULL || take(e->slot, to);
		if (!all)
			break;
		rn_list_remove(&q->kept, &e->link);
		if (!rnic_dead(q->s)) /* a child of fork() shares the eventfd with its parent, whose tokens they are */
			token_take(q);
		free(e);
	}
	pthread_mutex_unlock(&q->lock);
	rnic_cancel_back(cancel);
	return all;
}

bool rnic_evq_put(struct rnic_evq *q, const void *slot)
{
	pthread_mutex_lock(&q->lock);
	bool kept = keep(q, slot);
	pthread_mutex_unlock(&q->lock);
	if (kept && !q->s->forked)
		token_put(q);
	return kept;
}

void rnic_evq_dead(struct rnic_evq *q)
{
	if (q->kind == IPC_CHANNEL_ASYNC) {
		union {
			struct ipc_async_event ev;
			uint8_t slot[IPC_EVENT_SLOT_SMALL];
		} u = { .ev = { .type = IBV_EVENT_DEVICE_FATAL } };
		rnic_evq_put(q, u.slot);
	}
	token_put(q);
}

/* ---- life ---- */

static void link_in(struct rnic_evq *q)
{
	pthread_mutex_lock(&q->s->lock);
	rn_list_push_front(&q->s->evqs, &q->link);
	bool dead = rnic_dead(q->s);
	pthread_mutex_unlock(&q->s->lock);
	if (dead)
		rnic_evq_dead(q);
}

static void link_out(struct rnic_evq *q)
{
	pthread_mutex_lock(&q->s->lock);
	rn_list_remove(&q->s->evqs, &q->link);
	pthread_mutex_unlock(&q->s->lock);
}

int rnic_evq_open(struct rnic_evq *q, struct rnic_session *s, enum ipc_channel_kind kind, uint32_t dev)
{
	const bool large = kind == IPC_CHANNEL_CM || kind == IPC_CHANNEL_ORDERS;
	uint32_t slots = large ? SLOTS_CM : SLOTS_SMALL;
	int rc;

	*q = (struct rnic_evq){ .s = s, .kind = kind };
	q->slot_size = large ? IPC_EVENT_SLOT_CM : IPC_EVENT_SLOT_SMALL;
	q->ring_size = spsc_size(slots, q->slot_size);
	pthread_mutex_init(&q->lock, NULL);
	q->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (q->fd < 0)
		return errno;
	q->ring_off = rnic_shm_alloc(s->shm, q->ring_size);
	if (q->ring_off == 0) {
		rc = ENOMEM;
		goto fail;
	}
	struct spsc_place at = { .region = s->queues,
				 .region_size = IPC_QUEUES_SIZE,
				 .off = q->ring_off,
				 .nslots = slots,
				 .slot_size = q->slot_size };
	struct ipc_msg m = { .type = IPC_CREATE_CHANNEL, .len = IPC_MSG_LEN(create_channel) };
	m.create_channel.kind = kind;
	m.create_channel.dev = dev;
	m.create_channel.ring_off = q->ring_off;
	m.create_channel.ring_slots = slots;
	rc = spsc_cons_attach(&q->ring, &at) == SPSC_OK ? rnic_call(s, &m, IPC_MSG_LEN(handle), q->fd) : EINVAL;
	if (rc != 0)
		goto fail;
	q->handle = m.handle.handle;
	link_in(q);
	return 0;
fail:
	rnic_shm_free(s->shm, q->ring_off, q->ring_size);
	close(q->fd);
	return rc;
}

int rnic_evq_close(struct rnic_evq *q)
{
	int rc = rnic_call_handle(q->s, IPC_DESTROY_CHANNEL, q->handle);

	if (rc != 0 && !rnic_dead(q->s))
		return rc;
	link_out(q);
	rn_list_each(struct rnic_ev, e, &q->kept, link)
		free(e);
	if (!rnic_dead(q->s))
		rnic_shm_free(q->s->shm, q->ring_off, q->ring_size);
	close(q->fd);
	return 0;
}
