/* SPDX-License-Identifier: BSD-3-Clause */
#include "raw_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ipc/ipc_region.h"

#define PAGE          UINT64_C(4096)
#define EVENT_WAIT_MS 15000

void raw_must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
	exit(2);
}

uint32_t raw_random(void)
{
	static uint64_t x = UINT64_C(88172645463325252); /* xorshift64: the same garbage in every run */

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 16);
}

uint64_t raw_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int raw_dial(void)
{
	const char *path = getenv("RNICD_SOCKET");
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -1;
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path != NULL ? path : IPC_DEFAULT_SOCKET);
	if (connect(s, (struct sockaddr *)&un, sizeof(un)) == 0)
		return s;
	int e = errno;
	close(s);
	errno = e;
	return -1;
}

/* ---- requests ---- */

int raw_call(struct raw *r, struct ipc_msg *m, int fd)
{
	uint16_t type = m->type;
	unsigned none = 0;

	m->seq = ++r->seq;
	int rc = ipc_send(r->sock, m, &fd, fd >= 0);
	if (rc == 0)
		rc = ipc_recv(r->sock, m, NULL, &none);
	if (rc != 0)
		return -rc;
	if (m->type != type || m->seq != r->seq || m->status < 0)
		return EPROTO;
	if (m->status != 0)
		snprintf(r->text, sizeof(r->text), "%.*s", (int)sizeof(m->text) - 1, m->text);
	return m->status;
}

int raw_call_handle(struct raw *r, enum ipc_type type, uint32_t handle)
{
	struct ipc_msg m = { .type = (uint16_t)type, .len = IPC_MSG_LEN(handle), .handle = { .handle = handle } };

	return raw_call(r, &m, -1);
}

int raw_hello(struct raw *r, const int *fds, unsigned nfds)
{
	struct ipc_msg m = { .type = IPC_HELLO, .len = IPC_MSG_LEN(hello), .seq = ++r->seq };
	unsigned none = 0;

	m.hello.version = IPC_VERSION;
	m.hello.pid = (uint32_t)getpid();
	memcpy(m.hello.size, r->size, sizeof(m.hello.size));
	int rc = ipc_send(r->sock, &m, fds, nfds);
	if (rc == 0)
		rc = ipc_recv(r->sock, &m, NULL, &none);
	if (rc != 0)
		return -rc;
	if (m.status != 0) {
		snprintf(r->text, sizeof(r->text), "%.*s", (int)sizeof(m.text) - 1, m.text);
		return m.status;
	}
	r->devs = m.hello_ok.devs;
	r->workers = m.hello_ok.workers;
	return m.type == IPC_HELLO && r->workers > 0 && r->workers <= IPC_MAX_WORKERS ? 0 : EPROTO;
}

int raw_open(struct raw *r)
{
	int fds[3];

	*r = (struct raw){ .sock = raw_dial(),
			   .wake = -1,
			   .fd = { -1, -1, -1 },
			   .size = { RAW_QUEUES, RAW_ARENA, 0 },
			   .next = IPC_QUEUES_FREE_OFF };
	if (r->sock < 0)
		return errno;
	r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	raw_must(r->wake >= 0, "eventfd");
	raw_must(ipc_region_create(IPC_REGION_QUEUES, RAW_QUEUES, &r->fd[0]) == 0 &&
			 ipc_region_create(IPC_REGION_ARENA, RAW_ARENA, &r->fd[1]) == 0 &&
			 ipc_region_map(r->fd[0], RAW_QUEUES, &r->queues) == 0 &&
			 ipc_region_map(r->fd[1], RAW_ARENA, &r->arena) == 0,
		 "regions");
	r->ctrl = (struct ipc_ctrl *)(void *)r->queues;
	r->ctrl->magic = IPC_CTRL_MAGIC;
	fds[0] = r->wake;
	fds[1] = r->fd[0];
	fds[2] = r->fd[1];
	int rc = raw_hello(r, fds, 3);
	if (rc != 0)
		raw_close(r);
	return rc;
}

void raw_close(struct raw *r)
{
	if (r->sock >= 0)
		close(r->sock);
	if (r->wake >= 0)
		close(r->wake);
	for (unsigned i = 0; i < IPC_REGIONS; i++)
		if (r->fd[i] >= 0)
			close(r->fd[i]);
	if (r->queues != NULL)
		munmap(r->queues, RAW_QUEUES);
	if (r->arena != NULL)
		munmap(r->arena, RAW_ARENA);
	*r = (struct raw){ .sock = -1, .wake = -1, .fd = { -1, -1, -1 } };
}

uint64_t raw_room(struct raw *r, uint64_t bytes)
{
	uint64_t at = r->next;

	r->next += (bytes + PAGE - 1) & ~(PAGE - 1);
	errno = ENOSPC;
	raw_must(r->next <= RAW_QUEUES, "the queue region is too small for this test");
	return at;
}

/* ---- objects ---- */

int raw_pd(struct raw *r, uint32_t dev, uint32_t *pd)
{
	struct ipc_msg m = { .type = IPC_ALLOC_PD, .len = IPC_MSG_LEN(alloc_pd), .alloc_pd = { .dev = dev } };
	int rc = raw_call(r, &m, -1);

	*pd = m.handle.handle;
	return rc;
}

int raw_mr(struct raw *r, uint32_t pd, uint32_t access, uint64_t off, uint64_t len, struct raw_mr *mr)
{
	/* the daemon reads the list before it answers, so one place is enough for all calls */
	uint64_t list = RAW_QUEUES - PAGE;
	struct ipc_piece p = { .region = IPC_REGION_ARENA, .off = off, .len = len };
	struct ipc_msg m = { .type = IPC_REG_MR,
			     .len = IPC_MSG_LEN(reg_mr),
			     .reg_mr = { .pd = pd,
					 .access = access,
					 .iova = RAW_TO(off),
					 .len = len,
					 .pieces_off = list,
					 .npieces = 1 } };

	memcpy(r->queues + list, &p, sizeof(p));
	int rc = raw_call(r, &m, -1);
	*mr = (struct raw_mr){ m.reg_mr_ok.handle, m.reg_mr_ok.stag };
	return rc;
}

static struct spsc_place place(const struct raw *r, uint64_t off, uint32_t slots, uint32_t size)
{
	return (struct spsc_place){
		.region = r->queues, .region_size = RAW_QUEUES, .off = off, .nslots = slots, .slot_size = size
	};
}

int raw_cq(struct raw *r, uint32_t dev, uint32_t chan, uint32_t slots, struct raw_cq *cq)
{
	*cq = (struct raw_cq){ .slots = slots };
	cq->stride = (spsc_size(slots, QP_CQE_SIZE) + 63) & ~UINT64_C(63);
	cq->shm_off = raw_room(r, sizeof(struct qp_cq_shm) + cq->stride * r->workers);
	cq->ring_off = cq->shm_off + sizeof(struct qp_cq_shm);
	struct ipc_msg m = { .type = IPC_CREATE_CQ,
			     .len = IPC_MSG_LEN(create_cq),
			     .create_cq = { .dev = dev,
					    .channel = chan,
					    .cookie = 0xc0,
					    .shm_off = cq->shm_off,
					    .ring_off = cq->ring_off,
					    .ring_stride = cq->stride,
					    .cqe = slots,
					    .async = r->async } };
	int rc = raw_call(r, &m, -1);
	cq->handle = m.handle.handle;
	for (uint32_t w = 0; rc == 0 && w < r->workers; w++) {
		struct spsc_place at = place(r, cq->ring_off + w * cq->stride, slots, QP_CQE_SIZE);
		raw_must(spsc_cons_attach(&cq->ring[w], &at) == SPSC_OK, "CQ ring");
	}
	return rc;
}

int raw_qp(struct raw *r, uint32_t pd, uint32_t cq, uint32_t slots, struct raw_qp *qp)
{
	uint64_t ring = (spsc_size(slots, QP_SLOT_SIZE) + 63) & ~UINT64_C(63);

	*qp = (struct raw_qp){ .sq_slots = slots, .rq_slots = slots };
	qp->shm_off = raw_room(r, sizeof(struct qp_shm) + 2 * ring);
	qp->sq_off = qp->shm_off + sizeof(struct qp_shm);
	qp->rq_off = qp->sq_off + ring;
	qp->shm = (struct qp_shm *)(void *)(r->queues + qp->shm_off);
	struct ipc_msg m = { .type = IPC_CREATE_QP,
			     .len = IPC_MSG_LEN(create_qp),
			     .create_qp = { .pd = pd,
					    .send_cq = cq,
					    .recv_cq = cq,
					    .sig_all = 1,
					    .cookie = 0x99,
					    .shm_off = qp->shm_off,
					    .sq_off = qp->sq_off,
					    .rq_off = qp->rq_off,
					    .sq_slots = slots,
					    .rq_slots = slots,
					    .max_send_wr = slots,
					    .max_recv_wr = slots,
					    .async = r->async } };
	int rc = raw_call(r, &m, -1);
	if (rc != 0)
		return rc;
	qp->handle = m.create_qp_ok.handle;
	qp->qpn = m.create_qp_ok.qpn;
	qp->db_bit = m.create_qp_ok.db_bit;
	struct spsc_place sq = place(r, qp->sq_off, slots, QP_SLOT_SIZE),
			  rq = place(r, qp->rq_off, slots, QP_SLOT_SIZE);
	raw_must(spsc_prod_attach(&qp->sq, &sq) == SPSC_OK && spsc_prod_attach(&qp->rq, &rq) == SPSC_OK, "QP rings");
	return 0;
}

int raw_chan(struct raw *r, enum ipc_channel_kind kind, uint32_t dev, uint32_t slots, struct raw_chan *ch)
{
	uint32_t size = kind == IPC_CHANNEL_CM ? IPC_EVENT_SLOT_CM : IPC_EVENT_SLOT_SMALL;

	*ch = (struct raw_chan){ .slots = slots, .fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK) };
	ch->ring_off = raw_room(r, spsc_size(slots, size));
	struct ipc_msg m = { .type = IPC_CREATE_CHANNEL,
			     .len = IPC_MSG_LEN(create_channel),
			     .create_channel = {
				     .kind = kind, .dev = dev, .ring_off = ch->ring_off, .ring_slots = slots } };
	int rc = raw_call(r, &m, ch->fd);
	if (rc != 0) {
		close(ch->fd);
		return rc;
	}
	ch->handle = m.handle.handle;
	struct spsc_place at = place(r, ch->ring_off, slots, size);
	raw_must(spsc_cons_attach(&ch->ring, &at) == SPSC_OK, "event ring");
	return 0;
}

int raw_cm_id(struct raw *r, const struct raw_chan *ch, uint32_t *id)
{
	struct ipc_msg m = { .type = IPC_CM_CREATE_ID,
			     .len = IPC_MSG_LEN(cm_create_id),
			     .cm_create_id = { .channel = ch->handle } };
	int rc = raw_call(r, &m, -1);

	if (rc == 0)
		*id = m.handle.handle;
	return rc;
}

/* ---- queues ---- */

bool raw_event(struct raw_chan *ch, struct ipc_cm_event *ev, int ms)
{
	struct pollfd p = { ch->fd, POLLIN, 0 };
	uint64_t token;

	if (poll(&p, 1, ms) != 1 || read(ch->fd, &token, sizeof(token)) != sizeof(token) ||
	    spsc_cons_avail(&ch->ring, 1) == 0)
		return false;
	spsc_cons_copy(&ch->ring, 0, ev, sizeof(*ev));
	spsc_cons_release(&ch->ring, 1);
	return true;
}

bool raw_poll(struct raw *r, struct raw_cq *cq, struct qp_cqe *e)
{
	for (uint32_t w = 0; w < r->workers; w++) {
		if (spsc_cons_avail(&cq->ring[w], 1) == 0)
			continue;
		spsc_cons_copy(&cq->ring[w], 0, e, sizeof(*e));
		spsc_cons_release(&cq->ring[w], 1);
		return true;
	}
	return false;
}

void raw_ring_bell(struct raw *r, struct raw_qp *qp)
{
	struct ipc_doorbell *db =
		&r->ctrl->doorbell[__atomic_load_n(&qp->shm->worker, __ATOMIC_RELAXED) % IPC_MAX_WORKERS];
	uint64_t one = 1;

	__atomic_fetch_or(&db->bits[qp->db_bit / 64], UINT64_C(1) << (qp->db_bit % 64), __ATOMIC_RELEASE);
	__atomic_fetch_or(&db->summary, UINT64_C(1) << (qp->db_bit / 64 % 64), __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&db->need_wakeup, __ATOMIC_SEQ_CST) != 0 && write(r->wake, &one, sizeof(one)) < 0)
		return; /* a write fails when the counter is full; a full counter wakes the worker too */
}

bool raw_post(struct raw_qp *qp, const struct qp_wqe *w)
{
	if (spsc_prod_free(&qp->sq, 1) == 0)
		return false;
	spsc_prod_copy(&qp->sq, 0, w, sizeof(*w));
	spsc_prod_publish(&qp->sq, 1);
	return true;
}

bool raw_post_recv(struct raw_qp *qp, uint32_t lkey, uint64_t to, uint32_t len)
{
	struct qp_rwqe w = { .wr_id = 1, .num_sge = 1, .slots = 1, .sge = { { to, len, lkey } } };

	if (spsc_prod_free(&qp->rq, 1) == 0)
		return false;
	spsc_prod_copy(&qp->rq, 0, &w, sizeof(w));
	spsc_prod_publish(&qp->rq, 1);
	return true;
}

/* ---- a connection ---- */

struct ipc_addr raw_addr(const char *address, uint16_t port)
{
	struct ipc_addr a = { .port = port };

	a.ip[10] = a.ip[11] = 0xff;
	errno = EINVAL;
	raw_must(inet_pton(AF_INET, address, a.ip + 12) == 1, address);
	return a;
}

/* Waits for one event; returns 0 when it is the wanted one, otherwise its status or EPROTO. */
static int await(struct raw_job *j, uint32_t type)
{
	struct ipc_cm_event ev;

	if (!raw_event(&j->cm, &ev, EVENT_WAIT_MS))
		return ETIMEDOUT;
	if (ev.type == type)
		return 0;
	return ev.status != 0 ? ev.status : EPROTO;
}

enum { EV_ADDR_RESOLVED = 0, EV_ROUTE_RESOLVED = 2, EV_ESTABLISHED = 9 }; /* rdma_cm_event_type */

int raw_join(struct raw_job *j, const char *address, uint16_t port)
{
	struct raw *r = &j->r;
	int rc = raw_cm_id(r, &j->cm, &j->id);

	if (rc != 0)
		return rc;
	struct ipc_msg m = { .type = IPC_CM_RESOLVE_ADDR,
			     .len = IPC_MSG_LEN(cm_resolve),
			     .cm_resolve = { .id = j->id,
					     .timeout_ms = 2000,
					     .has_src = 1,
					     .src = raw_addr(RAW_FROM, 0),
					     .dst = raw_addr(address, port) } };
	if ((rc = raw_call(r, &m, -1)) != 0 || (rc = await(j, EV_ADDR_RESOLVED)) != 0)
		return rc;
	m = (struct ipc_msg){ .type = IPC_CM_RESOLVE_ROUTE,
			      .len = IPC_MSG_LEN(cm_resolve),
			      .cm_resolve = { .id = j->id, .timeout_ms = 2000 } };
	if ((rc = raw_call(r, &m, -1)) != 0 || (rc = await(j, EV_ROUTE_RESOLVED)) != 0)
		return rc;
	m = (struct ipc_msg){ .type = IPC_CM_CONNECT,
			      .len = IPC_MSG_LEN(cm_connect),
			      .cm_connect = { .id = j->id, .qp = j->qp.handle, .param = { .ird = 4, .ord = 4 } } };
	if ((rc = raw_call(r, &m, -1)) != 0)
		return rc;
	return await(j, EV_ESTABLISHED);
}

int raw_connect(struct raw_job *j, const char *address, uint16_t port, uint32_t slots)
{
	struct raw *r = &j->r;
	int rc;

	*j = (struct raw_job){ .dev = RAW_DEV };
	if ((rc = raw_open(r)) != 0 || (rc = raw_pd(r, j->dev, &j->pd)) != 0 ||
	    (rc = raw_mr(r, j->pd, 7, 0, 1 << 20, &j->mr)) != 0 ||
	    (rc = raw_chan(r, IPC_CHANNEL_ASYNC, j->dev, 16, &j->async)) != 0)
		return rc;
	r->async = j->async.handle;
	if ((rc = raw_cq(r, j->dev, 0, slots, &j->cq)) != 0 ||
	    (rc = raw_qp(r, j->pd, j->cq.handle, slots, &j->qp)) != 0 ||
	    (rc = raw_chan(r, IPC_CHANNEL_CM, 0, 16, &j->cm)) != 0)
		return rc;
	return raw_join(j, address, port);
}
