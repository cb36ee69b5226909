/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels, and the devices that ids use. */
#include "rnic/cm/cm.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rnic_session *s = rnic_session_get();
	struct rnic_cm_channel *ch;
	int rc;

	if (s == NULL)
		return NULL;
	ch = calloc(1, sizeof(*ch));
	if (ch == NULL)
		return NULL;
	pthread_mutex_init(&ch->removal_lock, NULL);
	rc = rnic_evq_open(&ch->q, s, IPC_CHANNEL_CM, 0);
	if (rc != 0) {
		free(ch);
		errno = rc;
		return NULL;
	}
	ch->ch.fd = ch->q.fd;
	rnic_made(RNIC_OBJ_CM_CHANNEL, ch);
	return &ch->ch;
}

/*
 * Whether the channel has ids that the daemon does not know. The daemon refuses to destroy a channel that has ids, but
 * does not count these.
 */
static bool ids_unmade(struct rnic_cm_channel *ch)
{
	struct rnic_session *s = ch->q.s;

	pthread_mutex_lock(&s->id_lock);
	const uint32_t n = rnic_dead(s) ? 0 : ch->unmade;
	pthread_mutex_unlock(&s->id_lock);
	if (n > 0)
		rnic_complain("rnic: the event channel is in use by %u objects", n);
	return n > 0;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (channel == NULL || ids_unmade(cm_channel(channel)) || rnic_evq_close(&cm_channel(channel)->q) != 0)
		return;
	rnic_gone(RNIC_OBJ_CM_CHANNEL, channel);
	free(channel);
}

/* ---- devices: opened once for all ids, kept open ---- */

struct rnic_cm_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd; /* for ids whose program gives no PD */
};

/* Closes the first n devices again. */
static void devs_close(struct rnic_cm_dev *devs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (devs[i].pd != NULL)
			(void)ibv_dealloc_pd(devs[i].pd);
		if (devs[i].ctx != NULL)
			(void)ibv_close_device(devs[i].ctx);
	}
	free(devs);
}

/* Opens a device for CM ids. 0 or an errno. */
static int devs_open(struct rnic_session *s, struct rnic_dev **list, uint32_t n)
{
	struct rnic_cm_dev *devs = calloc(n + 1, sizeof(*devs));

	if (devs == NULL)
		return ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		devs[i].ctx = rnic_open(s, list[i], -1);
		devs[i].pd = devs[i].ctx != NULL ? ibv_alloc_pd(devs[i].ctx) : NULL;
		rnic_gone(RNIC_OBJ_PD, devs[i].pd); /* the library's, so the program need not destroy it */
		if (devs[i].pd == NULL) {
			int err = errno;
			devs_close(devs, i + 1);
			return err;
		}
	}
	s->cm_devs = devs;
	return 0;
}

/* The session's devices, all open. On failure NULL and errno. */
static struct rnic_cm_dev *devs_get(struct rnic_session *s)
{
	const int cancel = rnic_cancel_off();
	int rc = 0;

	pthread_mutex_lock(&s->open_lock);
	if (s->cm_devs == NULL) {
		uint32_t n = 0;
		struct rnic_dev **list = rnic_devices(s, &n);
		rc = list != NULL ? devs_open(s, list, n) : errno;
		free(list);
	}
	pthread_mutex_unlock(&s->open_lock);
	rnic_cancel_back(cancel);
	if (rc != 0)
		errno = rc;
	return s->cm_devs;
}

int cm_device(struct rnic_cm_id *id, uint32_t dev)
{
	struct rnic_cm_dev *devs;

	if (id->id.verbs != NULL)
		return 0;
	devs = devs_get(id->s);
	if (devs == NULL)
		return errno;
	if (dev >= id->s->ndevs)
		return ENODEV;
	id->id.verbs = devs[dev].ctx;
	id->id.port_num = 1;
	if (id->id.pd == NULL)
		id->id.pd = devs[dev].pd;
	return 0;
}

struct ibv_context **rdma_get_devices(int *num)
{
	struct rnic_session *s = rnic_session_get();
	struct rnic_cm_dev *devs = s != NULL ? devs_get(s) : NULL;
	struct ibv_context **list;

	if (num != NULL)
		*num = 0;
	if (devs == NULL)
		return NULL;
	list = calloc(s->ndevs + 1, sizeof(struct ibv_context *));
	for (uint32_t i = 0; list != NULL && i < s->ndevs; i++)
		list[i] = devs[i].ctx;
	if (num != NULL && list != NULL)
		*num = (int)s->ndevs;
	return list;
}

void rdma_free_devices(struct ibv_context **list) { free(list); }
