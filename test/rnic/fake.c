/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/ipc_region.h"

int fake_answer_handle(struct ipc_msg *m, uint32_t handle)
{
	memset(&m->handle, 0, sizeof(m->handle));
	m->handle.handle = handle;
	m->len = IPC_MSG_LEN(handle);
	return 0;
}

int fake_answer_empty(struct ipc_msg *m)
{
	m->len = IPC_MSG_HDR;
	return 0;
}

static int hello(struct fake *f, struct fake_client *c, struct ipc_msg *m, const int *fds, unsigned nfds)
{
	unsigned k = 0;

	if (nfds < 3 || m->hello.version != IPC_VERSION)
		return EINVAL;
	c->wake = fds[k++];
	for (unsigned r = 0; r < IPC_REGIONS; r++) {
		c->fd[r] = -1;
		if (m->hello.size[r] == 0)
			continue;
		struct ipc_file file;
		if (k == nfds || !ipc_file_look(fds[k], &file) ||
		    ipc_region_check((enum ipc_region)r, &file, m->hello.size[r]) != 0)
			return EINVAL;
		c->fd[r] = fds[k++];
	}
	if (k != nfds || ipc_region_map(c->fd[IPC_REGION_QUEUES], IPC_QUEUES_SIZE, &c->queues) != 0)
		return EINVAL;
	if (((struct ipc_ctrl *)(void *)c->queues)->magic != IPC_CTRL_MAGIC)
		return EINVAL;
	m->hello_ok = (struct ipc_hello_ok){
		.version = f->version, .devs = FAKE_DEVS, .workers = FAKE_WORKERS, .can = fake_opens ? IPC_CAN_OPEN : 0
	};
	m->len = IPC_MSG_LEN(hello_ok);
	return 0;
}

bool fake_efa, fake_opens, fake_far_token;

static int query_dev(struct ipc_msg *m)
{
	uint32_t dev = m->query_dev.dev;
	struct ipc_dev_info *i = &m->dev_info;

	if (dev >= FAKE_DEVS)
		return EINVAL;
	memset(i, 0, sizeof(*i));
	snprintf(i->name, sizeof(i->name), "rnic%u", dev);
	memcpy(i->mac, (uint8_t[]){ 2, 0, 0, 0, 0, (uint8_t)dev }, 6);
	memcpy(i->ip, (uint8_t[]){ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, (uint8_t)(dev + 1) }, 16);
	i->up = 1;
	i->mtu = 1500;
	i->ud_max = 100000;
	i->ud_mtu = i->max_qp = i->max_cq = i->max_pd = 1024;
	i->max_mr = 1 << 20;
	i->max_cqe = 1 << 18;
	i->max_wr = 1 << 14;
	i->max_sge = QP_MAX_SGE;
	i->max_inline = QP_MAX_INLINE;
	i->max_rd_atomic = 32;
	i->max_mr_size = UINT64_C(1) << 36;
	i->rate_mbps = 10000;
	i->efa = i->roce = fake_efa && dev == 0;
	i->xrc = dev == 0;
	m->len = IPC_MSG_LEN(dev_info);
	return 0;
}

static struct spsc_place place(struct fake_client *c, uint64_t off, uint32_t slots, uint32_t size)
{
	return (struct spsc_place){ c->queues, IPC_QUEUES_SIZE, off, slots, size };
}

static int create_channel(struct fake_client *c, struct ipc_msg *m, const int *fds, unsigned nfds)
{
	uint32_t h, size = m->create_channel.kind == IPC_CHANNEL_CM ? IPC_EVENT_SLOT_CM : IPC_EVENT_SLOT_SMALL;
	struct spsc_place at = place(c, m->create_channel.ring_off, m->create_channel.ring_slots, size);

	TAKE(c->chan, h);
	if (nfds != 1 || h == 0 || spsc_prod_attach(&c->chan[h].ring, &at) != SPSC_OK)
		return EINVAL;
	c->chan[h].used = true;
	c->chan[h].fd = fds[0];
	return fake_answer_handle(m, h);
}

static int create_cq(struct fake_client *c, struct ipc_msg *m)
{
	struct ipc_create_cq a = m->create_cq;
	uint32_t h;

	TAKE(c->cq, h);
	if (h == 0 || (a.channel != 0 && !VALID(c->chan, a.channel)) ||
	    !rn_in_range(a.shm_off, sizeof(struct qp_cq_shm), IPC_QUEUES_SIZE))
		return EINVAL;
	for (uint32_t w = 0; w < FAKE_WORKERS; w++) {
		struct spsc_place at = place(c, a.ring_off + w * a.ring_stride, a.cqe,
					     a.wide ? QP_CQE_WIDE : QP_CQE_SIZE);
		if (spsc_prod_attach(&c->cq[h].ring[w], &at) != SPSC_OK)
			return EINVAL;
	}
	c->cq[h].used = true;
	c->cq[h].wide = a.wide != 0;
	c->cq[h].channel = a.channel;
	c->cq[h].async = a.async;
	c->cq[h].cookie = a.cookie;
	c->cq[h].shm = (struct qp_cq_shm *)(void *)(c->queues + a.shm_off);
	return fake_answer_handle(m, h);
}

/* Does what qp_cq_change() does. */
static int resize_cq(struct fake_client *c, struct ipc_msg *m)
{
	struct ipc_resize_cq a = m->resize_cq;

	if (!VALID(c->cq, a.cq))
		return EINVAL;
	const uint32_t size = c->cq[a.cq].wide ? QP_CQE_WIDE : QP_CQE_SIZE;
	for (uint32_t w = 0; w < FAKE_WORKERS; w++) {
		struct spsc_place at = place(c, a.ring_off + w * a.ring_stride, a.cqe, size);
		struct spsc_prod to, from = c->cq[a.cq].ring[w];
		if (spsc_prod_attach(&to, &at) != SPSC_OK)
			return EINVAL;
		spsc_prod_refresh(&from);
		uint32_t left = from.own - from.seen;
		from.own = from.seen;
		for (uint32_t i = 0; i < left; i++)
			memcpy(spsc_prod_slot(&to, i), spsc_prod_slot(&from, i), size);
		spsc_prod_publish(&to, left);
		c->cq[a.cq].ring[w] = to;
	}
	return fake_answer_empty(m);
}

static int create_srq(struct fake_client *c, struct ipc_msg *m)
{
	struct ipc_create_srq a = m->create_srq;
	struct spsc_place at = place(c, a.ring_off, a.ring_slots, QP_SLOT_SIZE);
	uint32_t h;

	TAKE(c->srq, h);
	if (h == 0 || a.pd == 0 || a.wqe_slots == 0 || spsc_cons_attach(&c->srq[h].ring, &at) != SPSC_OK ||
	    a.xrcd > c->xrcds || (a.xrcd != 0 && !VALID(c->cq, a.cq)))
		return EINVAL;
	c->srq[h].used = true;
	c->srq[h].limit = a.limit;
	c->srq[h].wqe_slots = a.wqe_slots;
	c->srq[h].cookie = a.cookie;
	m->create_srq_ok = (struct ipc_create_srq_ok){ .handle = h, .number = a.xrcd != 0 ? FAKE_SRQN + h : 0 };
	m->len = IPC_MSG_LEN(create_srq_ok);
	return 0;
}

static int modify_srq(struct fake_client *c, struct ipc_msg *m)
{
	if (!VALID(c->srq, m->modify_srq.srq))
		return EINVAL;
	c->srq[m->modify_srq.srq].limit = m->modify_srq.limit;
	return fake_answer_empty(m);
}

static int query_srq(struct fake_client *c, struct ipc_msg *m)
{
	if (!VALID(c->srq, m->handle.handle))
		return EINVAL;
	m->query_srq_ok = (struct ipc_query_srq_ok){ .limit = c->srq[m->handle.handle].limit };
	m->len = IPC_MSG_LEN(query_srq_ok);
	return 0;
}

/* Answers a request that makes or opens the XRC target, which has no queues in the client's memory. */
static int target(struct fake_client *c, struct ipc_msg *m, uint32_t xrcd, uint32_t qpn)
{
	if (xrcd == 0 || xrcd > c->xrcds)
		return EINVAL;
	m->create_qp_ok = (struct ipc_create_qp_ok){ .handle = ++c->targets | IPC_QP_SHARED, .qpn = qpn };
	m->len = IPC_MSG_LEN(create_qp_ok);
	return 0;
}

static int create_qp(struct fake_client *c, struct ipc_msg *m)
{
	struct ipc_create_qp a = m->create_qp;
	struct spsc_place sq = place(c, a.sq_off, a.sq_slots, QP_SLOT_SIZE);
	struct spsc_place rq = place(c, a.rq_off, a.rq_slots, QP_SLOT_SIZE);
	uint32_t h;

	if (a.xrc == IPC_XRC_TARGET)
		return target(c, m, a.xrcd, FAKE_TARGET_QPN);
	TAKE(c->qp, h);
	if (h == 0 || !VALID(c->cq, a.send_cq) || !VALID(c->cq, a.recv_cq) || a.pd == 0 ||
	    !rn_in_range(a.shm_off, sizeof(struct qp_shm), IPC_QUEUES_SIZE) || a.shm_off % RN_CACHE_LINE != 0 ||
	    spsc_cons_attach(&c->qp[h].sq, &sq) != SPSC_OK)
		return EINVAL;
	if (a.srq != 0 ? !VALID(c->srq, a.srq) || a.rq_slots != 0 : spsc_cons_attach(&c->qp[h].rq, &rq) != SPSC_OK)
		return EINVAL;
	c->qp[h].used = true;
	c->qp[h].send_cq = a.send_cq;
	c->qp[h].recv_cq = a.recv_cq;
	c->qp[h].cookie = a.cookie;
	c->qp[h].made = a;
	c->qp[h].bit = 60 + h; /* from 60 on, so that two words of doorbells are in use */
	c->qp[h].shm = (struct qp_shm *)(void *)(c->queues + a.shm_off);
	c->qp[h].shm->state = 1;
	c->qp[h].shm->worker = 1;
	m->create_qp_ok = (struct ipc_create_qp_ok){ .handle = h, .qpn = 0x100 + h, .db_bit = c->qp[h].bit };
	m->len = IPC_MSG_LEN(create_qp_ok);
	return 0;
}

static int modify_qp(struct fake_client *c, struct ipc_msg *m)
{
	if (!VALID(c->qp, m->modify_qp.qp))
		return EINVAL;
	if ((m->modify_qp.mask & IPC_QP_ATTR_STATE) != 0)
		c->qp[m->modify_qp.qp].shm->state = m->modify_qp.state;
	return fake_answer_empty(m);
}

static int query_qp(struct fake_client *c, struct ipc_msg *m)
{
	if ((m->handle.handle & IPC_QP_SHARED) != 0) {
		m->query_qp_ok = (struct ipc_query_qp_ok){ .state = QP_S_RTS };
		m->len = IPC_MSG_LEN(query_qp_ok);
		return 0;
	}
	if (!VALID(c->qp, m->handle.handle))
		return EINVAL;
	m->query_qp_ok = (struct ipc_query_qp_ok){ .state = c->qp[m->handle.handle].shm->state, .ird = 4, .ord = 5 };
	m->len = IPC_MSG_LEN(query_qp_ok);
	return 0;
}

static int destroy(struct fake_client *c, struct ipc_msg *m)
{
	uint32_t h = m->handle.handle;

	switch (m->type) {
	case IPC_DESTROY_CHANNEL:
		if (!VALID(c->chan, h))
			return EINVAL;
		close(c->chan[h].fd);
		c->chan[h].used = false;
		break;
	case IPC_DEREG_MR:
		if (h == 0 || h >= FAKE_MAX || !c->mr[h].used)
			return EINVAL;
		free(c->mr[h].pieces);
		c->mr[h].used = false;
		break;
	case IPC_DESTROY_CQ:
		if (!VALID(c->cq, h))
			return EINVAL;
		c->cq[h].used = false;
		break;
	case IPC_DESTROY_QP:
		if ((h & IPC_QP_SHARED) != 0)
			break;
		if (!VALID(c->qp, h))
			return EINVAL;
		c->qp[h].used = false;
		break;
	case IPC_DESTROY_SRQ:
		if (!VALID(c->srq, h))
			return EINVAL;
		c->srq[h].used = false;
		break;
	case IPC_CM_DESTROY_ID:
		if (!VALID(c->id, h))
			return EINVAL;
		c->id[h].used = false;
		break;
	case IPC_DEALLOC_MW:
		if (h <= FAKE_MAX)
			return EINVAL;
		break;
	default:
		if (h == 0 || h > c->pds)
			return EINVAL;
	}
	return fake_answer_empty(m);
}

static int cm(struct fake_client *c, struct ipc_msg *m)
{
	uint32_t h;

	switch (m->type) {
	case IPC_CM_CREATE_ID:
		TAKE(c->id, h);
		if (h == 0 || !VALID(c->chan, m->cm_create_id.channel))
			return EINVAL;
		c->id[h].used = true;
		c->id[h].channel = m->cm_create_id.channel;
		return fake_answer_handle(m, h);
	case IPC_CM_BIND:
		if (!VALID(c->id, m->cm_bind.id))
			return EINVAL;
		if (m->cm_bind.addr.port == 0)
			m->cm_bind.addr.port = 54321;
		m->cm_bind_ok = (struct ipc_cm_bind_ok){ .addr = m->cm_bind.addr };
		m->cm_bind_ok.dev = m->cm_bind_ok.addr.ip[15] != 0 ? 0 : UINT32_MAX;
		m->len = IPC_MSG_LEN(cm_bind_ok);
		return 0;
	case IPC_CM_MIGRATE:
		if (!VALID(c->id, m->cm_migrate.id) || !VALID(c->chan, m->cm_migrate.channel))
			return EINVAL;
		c->id[m->cm_migrate.id].channel = m->cm_migrate.channel;
		return fake_answer_empty(m);
	default: /* all other requests of the connection manager begin with the handle of an id */
		return VALID(c->id, m->handle.handle) ? fake_answer_empty(m) : EINVAL;
	}
}

/* No device reaches port 9, and the route is known to port 5000 alone. */
static int cm_open(struct fake_client *c, struct ipc_msg *m)
{
	const struct ipc_cm_open a = m->cm_open;
	uint32_t h;

	TAKE(c->id, h);
	if (!fake_opens || h == 0 || !VALID(c->chan, a.channel))
		return EINVAL;
	c->id[h].used = true;
	c->id[h].channel = a.channel;
	m->cm_open_ok = (struct ipc_cm_open_ok){ .handle = h,
						 .status = a.to.dst.port == 9 ? -ENODEV : 0,
						 .dev = 1,
						 .routed = a.to.dst.port == 5000,
						 .local = a.to.src,
						 .remote = a.to.dst };
	memcpy(m->cm_open_ok.local.ip, (uint8_t[]){ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 2 }, 16);
	m->len = IPC_MSG_LEN(cm_open_ok);
	return 0;
}

/* Only one group exists at a time. */
static int attach(struct fake_client *c, struct ipc_msg *m)
{
	static const uint8_t none[16];
	struct fake_qp *q = VALID(c->qp, m->attach.qp) ? &c->qp[m->attach.qp] : NULL;

	if (q == NULL || (m->type == IPC_DETACH && memcmp(q->group, m->attach.group, sizeof(q->group)) != 0))
		return EINVAL;
	memcpy(q->group, m->type == IPC_ATTACH ? m->attach.group : none, sizeof(q->group));
	return fake_answer_empty(m);
}

static int serve(struct fake *f, struct fake_client *c, struct ipc_msg *m, const int *fds, unsigned nfds)
{
	switch ((enum ipc_type)m->type) {
	case IPC_HELLO: return hello(f, c, m, fds, nfds);
	case IPC_QUERY_DEV: return query_dev(m);
	case IPC_CREATE_CHANNEL: return create_channel(c, m, fds, nfds);
	case IPC_ALLOC_PD: return fake_answer_handle(m, ++c->pds);
	case IPC_REG_MR: return fake_reg_mr(c, m);
	case IPC_ALLOC_MW: /* STags above those of regions */ return fake_answer_handle(m, FAKE_MAX + m->alloc_mw.type);
	case IPC_CREATE_CQ: return create_cq(c, m);
	case IPC_RESIZE_CQ: return resize_cq(c, m);
	case IPC_CREATE_SRQ: return create_srq(c, m);
	case IPC_MODIFY_SRQ: return modify_srq(c, m);
	case IPC_QUERY_SRQ: return query_srq(c, m);
	case IPC_REACH: /* 192.0.2.99 does not answer */
		return m->reach.ip[15] == 99 ? EHOSTUNREACH : fake_answer_empty(m);
	case IPC_GROUP_BIND: return EINVAL;
	case IPC_ATTACH:
	case IPC_DETACH: return attach(c, m);
	case IPC_CREATE_QP: return create_qp(c, m);
	case IPC_MODIFY_QP: return modify_qp(c, m);
	case IPC_QUERY_QP: return query_qp(c, m);
	case IPC_DESTROY_CHANNEL:
	case IPC_DEALLOC_PD:
	case IPC_DEREG_MR:
	case IPC_DESTROY_CQ:
	case IPC_DESTROY_QP:
	case IPC_DESTROY_SRQ:
	case IPC_DEALLOC_MW:
	case IPC_CM_DESTROY_ID: return destroy(c, m);
	case IPC_CM_CREATE_ID:
	case IPC_CM_BIND:
	case IPC_CM_RESOLVE_ADDR:
	case IPC_CM_RESOLVE_ROUTE:
	case IPC_CM_LISTEN:
	case IPC_CM_CONNECT:
	case IPC_CM_ACCEPT:
	case IPC_CM_REJECT:
	case IPC_CM_DISCONNECT:
	case IPC_CM_MIGRATE:
	case IPC_CM_JOIN:
	case IPC_CM_LEAVE: return cm(c, m);
	case IPC_CM_OPEN: return cm_open(c, m);
	case IPC_IMPORT: return fake_import(f, c, m, fds, nfds);
	case IPC_FORGET: return fake_forget(c, m);
	case IPC_TOKEN: close(fds[0]); return VALID(c->chan, m->handle.handle) ? fake_answer_empty(m) : EINVAL;
	case IPC_TOKEN_DEV: close(fds[0]); return fake_far_token ? fake_answer_handle(m, FAKE_DEVS) : EINVAL;
	case IPC_TOKEN_PD:
	case IPC_TOKEN_MR: close(fds[0]); return EINVAL;
	case IPC_CM_SOCKET: return EOPNOTSUPP; /* as rnicd */
	case IPC_OPEN_XRCD:
		c->xrcd_file = nfds == 1;
		if (nfds == 1)
			close(fds[0]);
		return fake_answer_handle(m, ++c->xrcds);
	case IPC_CLOSE_XRCD:
		return m->handle.handle == 0 || m->handle.handle > c->xrcds ? EINVAL : fake_answer_empty(m);
	case IPC_OPEN_QP: return target(c, m, m->open_qp.xrcd, m->open_qp.qpn);
	/* requests that other clients make, requests of librnicsock, and types that do not exist */
	case IPC_INJECT ... IPC_SOCK_LIST:
	case IPC_SOCK_OPTION:
	case IPC_TYPES: break;
	}
	return EINVAL;
}

static bool turn(struct fake *f, struct fake_client *c)
{
	struct ipc_msg m;
	int fds[IPC_MAX_FDS];
	unsigned nfds = IPC_MAX_FDS;
	int rc = ipc_recv(c->sock, &m, fds, &nfds);

	if (rc != 0)
		return false;
	pthread_mutex_lock(&f->lock);
	c->last = m;
	c->requests++;
	if (fake_hold(f, c, &m)) {
		pthread_mutex_unlock(&f->lock);
		return true;
	}
	bool counts = f->refuse != 0 && (f->refuse_type == 0 || f->refuse_type == m.type);
	bool refused = counts && f->refuse_after == 0;
	f->refuse_after -= counts && !refused;
	rc = refused ? f->refuse : serve(f, c, &m, fds, nfds);
	if (rc != 0) {
		m.status = rc;
		memcpy(m.text, f->text, sizeof(m.text));
		m.len = IPC_MSG_LEN(text);
	}
	if (refused)
		f->refuse = 0;
	if (f->refuse == 0)
		f->text[0] = '\0';
	pthread_mutex_unlock(&f->lock);
	return ipc_send(c->sock, &m, NULL, 0) == 0;
}

static void *run(void *arg)
{
	struct fake *f = arg;

	for (;;) {
		struct pollfd p[CLIENTS + 2] = { { .fd = f->stop[0], .events = POLLIN },
						 { .fd = f->listener, .events = POLLIN } };
		for (unsigned i = 0; i < f->nclients; i++)
			p[i + 2] = (struct pollfd){ .fd = f->client[i].sock, .events = POLLIN };
		poll(p, f->nclients + 2, -1);
		if (p[0].revents != 0)
			return NULL;
		for (unsigned i = 0; i < f->nclients; i++) {
			if (p[i + 2].revents != 0 && f->client[i].sock >= 0 && !turn(f, &f->client[i])) {
				close(f->client[i].sock);
				f->client[i].sock = -1;
			}
		}
		if (p[1].revents != 0 && f->nclients < CLIENTS) {
			struct fake_client *c = &f->client[f->nclients];
			c->mr = calloc(FAKE_MAX, sizeof(*c->mr));
			c->sock = accept(f->listener, NULL, NULL);
			f->nclients++;
		}
	}
}

struct fake *fake_start(void)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	strcpy(f->dir, "/tmp/rnic-test-XXXXXX");
	if (mkdtemp(f->dir) == NULL)
		abort();
	snprintf(f->path, sizeof(f->path), "%s/sock", f->dir);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", f->path);
	f->version = IPC_VERSION;
	pthread_mutex_init(&f->lock, NULL);
	f->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (f->listener < 0 || bind(f->listener, (struct sockaddr *)&un, sizeof(un)) != 0 ||
	    listen(f->listener, CLIENTS) != 0 || pipe(f->stop) != 0 || pthread_create(&f->thread, NULL, run, f) != 0)
		abort();
	setenv("RNICD_SOCKET", f->path, 1);
	return f;
}

void fake_stop(struct fake *f)
{
	if (write(f->stop[1], "x", 1) != 1)
		abort();
	pthread_join(f->thread, NULL);
	for (unsigned i = 0; i < f->nclients; i++) {
		struct fake_client *c = &f->client[i];
		if (c->sock >= 0)
			close(c->sock);
		for (uint32_t h = 1; h < FAKE_MAX; h++) {
			if (c->mr[h].used)
				free(c->mr[h].pieces);
		}
		free(c->mr);
		for (unsigned r = 0; r < IPC_REGIONS && c->queues != NULL; r++) {
			if (c->fd[r] >= 0)
				close(c->fd[r]);
		}
		if (c->queues != NULL) {
			munmap(c->queues, IPC_QUEUES_SIZE);
			close(c->wake);
		}
	}
	close(f->listener);
	close(f->stop[0]);
	close(f->stop[1]);
	unlink(f->path);
	rmdir(f->dir);
	free(f);
}

struct fake_client *fake_client(struct fake *f, unsigned n) { return &f->client[n]; }

void fake_blind(struct fake *f, bool blind) { f->blind = blind; }

void fake_pause(struct fake *f, bool pause)
{
	if (pause)
		pthread_mutex_lock(&f->lock);
	else
		pthread_mutex_unlock(&f->lock);
}

void fake_version(struct fake *f, uint32_t version) { f->version = version; }

void fake_cqe(struct fake_client *c, uint32_t cq, unsigned worker, const struct qp_cqe *e)
{
	static const uint8_t none[16];

	fake_cqe_from(c, cq, worker, e, none);
}

void fake_cqe_from(struct fake_client *c, uint32_t cq, unsigned worker, const struct qp_cqe *e, const uint8_t from[16])
{
	struct spsc_prod *r = &c->cq[cq].ring[worker];

	if (spsc_prod_free(r, 1) == 0)
		abort();
	memcpy(spsc_prod_slot(r, 0), e, sizeof(*e));
	if (c->cq[cq].wide)
		memcpy(((struct qp_cqe_wide *)spsc_prod_slot(r, 0))->from, from, 16);
	spsc_prod_publish(r, 1);
}
