/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels and the devices that ids come to stand on. */
#include "rnic/cm.h"

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
	rc = rnic_evq_open(&ch->q, s, IPC_CHANNEL_CM, 0);
	if (rc != 0) {
		free(ch);
		errno = rc;
		return NULL;
	}
	ch->ch.fd = ch->q.fd;
	return &ch->ch;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (channel != NULL && rnic_evq_close(&cm_channel(channel)->q) == 0)
		free(channel);
}

/* ---- devices: opened once for all ids, kept open ---- */

struct cm_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd; /* for ids whose program brings none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rnic_session *of;
static struct cm_dev *devs;
static uint32_t ndevs;

/* Under the lock. 0 or an errno. */
static int devs_open(struct rnic_session *s)
{
	struct rnic_dev **list;
	uint32_t n = 0;
	int rc = 0;

	if (of == s)
		return 0;
	list = rnic_devices(s, &n);
	if (list == NULL)
		return errno;
	devs = calloc(n + 1, sizeof(*devs));
	if (devs == NULL)
		rc = ENOMEM;
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		devs[i].ctx = rnic_open(s, list[i]);
		devs[i].pd = devs[i].ctx != NULL ? ibv_alloc_pd(devs[i].ctx) : NULL;
		if (devs[i].pd == NULL)
			rc = errno;
	}
	free(list);
	if (rc == 0) {
		ndevs = n;
		of = s;
	}
	return rc;
}

int cm_device(struct rnic_cm_id *id, uint32_t dev)
{
	int rc;

	if (id->id.verbs != NULL)
		return 0;
	pthread_mutex_lock(&lock);
	rc = devs_open(id->s);
	if (rc == 0 && dev >= ndevs)
		rc = ENODEV;
	if (rc == 0) {
		id->id.verbs = devs[dev].ctx;
		id->id.port_num = 1;
		if (id->id.pd == NULL)
			id->id.pd = devs[dev].pd;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

struct ibv_context **rdma_get_devices(int *num)
{
	struct rnic_session *s = rnic_session_get();
	struct ibv_context **list = NULL;
	int rc = s != NULL ? 0 : errno;

	if (num != NULL)
		*num = 0;
	if (rc != 0)
		return NULL;
	pthread_mutex_lock(&lock);
	rc = devs_open(s);
	if (rc == 0) {
		list = calloc(ndevs + 1, sizeof(struct ibv_context *));
		for (uint32_t i = 0; list != NULL && i < ndevs; i++)
			list[i] = devs[i].ctx;
		if (num != NULL && list != NULL)
			*num = (int)ndevs;
	}
	pthread_mutex_unlock(&lock);
	if (rc != 0)
		errno = rc;
	return list;
}

void rdma_free_devices(struct ibv_context **list) { free(list); }
