/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The devices of the daemon: one for each of its ports. Their ibv_device lives as long as the process, so that a
 * program may free the list and go on using a device it has opened.
 */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

#include <endian.h>
#include <stdio.h>

void rnic_dev_mark(struct ibv_context *c) { (void)c; }

static struct rnic_dev *dev_make(struct rnic_session *s, uint32_t index)
{
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev), .query_dev = { .dev = index } };
	struct rnic_dev *d;
	int rc = rnic_call(s, &m, IPC_MSG_LEN(dev_info), -1);

	if (rc != 0) {
		errno = rc;
		return NULL;
	}
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return NULL;
	d->index = index;
	d->info = m.dev_info;
	d->info.name[IPC_DEV_NAME_MAX - 1] = '\0';
	d->ibv._ops._dummy2 = rnic_dev_mark;
	d->ibv.node_type = d->info.efa ? IBV_NODE_UNSPECIFIED : d->info.roce ? IBV_NODE_CA : IBV_NODE_RNIC;
	d->ibv.transport_type = d->info.efa    ? IBV_TRANSPORT_UNSPECIFIED
				: d->info.roce ? IBV_TRANSPORT_IB
					       : IBV_TRANSPORT_IWARP;
	snprintf(d->ibv.name, sizeof(d->ibv.name), "%s", d->info.name);
	snprintf(d->ibv.dev_name, sizeof(d->ibv.dev_name), "uverbs-%s", d->info.name);
	snprintf(d->ibv.dev_path, sizeof(d->ibv.dev_path), "/sys/class/infiniband_verbs/" RNIC_DEV_PREFIX "%s",
		 d->info.name);
	snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "/sys/class/infiniband/%s", d->info.name);
	return d;
}

static bool devs_fill(struct rnic_session *s)
{
	struct rnic_dev **list = calloc(s->ndevs + 1, sizeof(struct rnic_dev *));

	if (list == NULL)
		return false;
	for (uint32_t i = 0; i < s->ndevs; i++) {
		list[i] = dev_make(s, i);
		if (list[i] == NULL) {
			while (i > 0)
				free(list[--i]);
			free(list);
			return false;
		}
	}
	s->devs = list;
	return true;
}

struct rnic_dev **rnic_devices(struct rnic_session *s, uint32_t *n)
{
	struct rnic_dev **list = NULL;

	pthread_mutex_lock(&s->dev_lock);
	if (s->devs != NULL || devs_fill(s)) {
		list = calloc(s->ndevs + 1, sizeof(struct rnic_dev *));
		if (list != NULL)
			memcpy(list, s->devs, s->ndevs * sizeof(struct rnic_dev *));
		*n = s->ndevs;
	}
	pthread_mutex_unlock(&s->dev_lock);
	return list;
}

/*
 * The list that a program gets: our devices, the stock library's, NULL, and behind that a pointer to the stock
 * library's own list, which ibv_free_device_list() frees with it. The list is the beginning of an allocated block,
 * since qperf passes it to free().
 */

static void free_stock(struct ibv_device **list)
{
	__typeof__(&ibv_free_device_list) stock = (__typeof__(&ibv_free_device_list))rnic_stock("ibv_free_device_list");

	if (list != NULL && stock != NULL)
		stock(list);
}

static struct ibv_device **list_make(struct rnic_dev **ours, uint32_t n, struct ibv_device **stock, uint32_t m)
{
	struct ibv_device **l = calloc(n + m + 2, sizeof(*l));

	if (l == NULL)
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		l[i] = &ours[i]->ibv;
	if (m > 0)
		memcpy(l + n, stock, m * sizeof(*l));
	l[n + m + 1] = (struct ibv_device *)(void *)stock;
	return l;
}

/* The errno that the manual page gives for no RDMA here, or no permission. */
static int list_errno(int err) { return err == ENODEV ? ENOSYS : err == EACCES ? EPERM : err; }

struct ibv_device **ibv_get_device_list(int *num)
{
	__typeof__(&ibv_get_device_list) next = (__typeof__(&ibv_get_device_list))rnic_stock("ibv_get_device_list");
	struct rnic_session *s = rnic_session_get();
	struct ibv_device **l = NULL;
	uint32_t n = 0;
	int m = 0;

	struct rnic_dev **ours = s != NULL ? rnic_devices(s, &n) : NULL;
	int err = errno;
	struct ibv_device **stock = next != NULL ? next(&m) : NULL;
	if (ours == NULL)
		n = 0;
	if (stock == NULL)
		m = 0;
	if (ours != NULL || m > 0)
		l = list_make(ours, n, stock, (uint32_t)m);
	else
		errno = list_errno(err); /* why our devices are missing: only RDMA hardware would add others */
	if (l == NULL)
		free_stock(stock);
	free(ours);
	if (num != NULL)
		*num = l != NULL ? (int)n + m : 0;
	return l;
}

void ibv_free_device_list(struct ibv_device **list)
{
	struct ibv_device **end = list;

	while (*end != NULL)
		end++;
	free_stock((struct ibv_device **)(void *)end[1]);
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

/* The index of a device in the kernel's RDMA netlink interface; our devices have none. */
int ibv_get_device_index(struct ibv_device *d)
{
	RNIC_PASS(ibv_get_device_index, rnic_our_dev(d), -1, d);
	return -1;
}

__be64 ibv_get_device_guid(struct ibv_device *ibdev)
{
	RNIC_PASS(ibv_get_device_guid, rnic_our_dev(ibdev), 0, ibdev);
	const uint8_t *mac = ((struct rnic_dev *)ibdev)->info.mac;
	/* Makes an EUI-64 of the MAC address (RFC 4291, appendix A). */
	const uint8_t eui[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5] };
	__be64 guid;

	memcpy(&guid, eui, sizeof(guid));
	return guid;
}
