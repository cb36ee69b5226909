/* SPDX-License-Identifier: BSD-3-Clause */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/ipc_region.h"
#include "raw_client.h"

#define SLOTS        64u
#define QP_ERR_STATE 6u
#define REMOTE_LEN   65536u

static struct qp_wqe write_wqe(const struct raw_job *j, const struct where *w, uint32_t len)
{
	return (struct qp_wqe){ .wr_id = 7,
				.op = QP_WR_WRITE,
				.flags = QP_WF_SIGNALED,
				.num_sge = 1,
				.slots = 1,
				.raddr = w->to,
				.rkey = w->stag,
				.sge = { { RAW_TO(0), len, j->mr.stag } } };
}

static int join(struct raw_job *j, const struct where *w)
{
	int rc = raw_connect(j, w->address, w->port, SLOTS);

	if (rc != 0)
		printf("no connection: %d (%s)\n", rc, j->r.text);
	return rc;
}

static bool broken(const struct raw_job *j)
{
	return __atomic_load_n(&j->qp.shm->state, __ATOMIC_RELAXED) == QP_ERR_STATE;
}

/* Checks that the daemon still serves a well-behaved client, over the same wire. */
static int still_served(const struct where *w)
{
	struct raw_job j;
	struct qp_cqe e = { 0 };
	uint64_t end = raw_now_ms() + 15000;

	if (join(&j, w) != 0)
		return 1;
	struct qp_wqe wqe = write_wqe(&j, w, 4096);
	raw_must(raw_post(&j.qp, &wqe), "post");
	raw_ring_bell(&j.r, &j.qp);
	while (!raw_poll(&j.r, &j.cq, &e) && raw_now_ms() < end)
		usleep(100);
	raw_close(&j.r);
	if (e.wr_id == 7 && e.status == QP_WC_SUCCESS)
		return 0;
	printf("a well-behaved client is not served: wr_id %llu status %u\n", (unsigned long long)e.wr_id, e.status);
	return 1;
}

/* ---- a WQE that changes after the doorbell ---- */

struct flipper {
	struct raw_job *j;
	bool stop;
};

static void flip(uint8_t *slot)
{
	struct qp_wqe *w = (struct qp_wqe *)(void *)slot;

	switch (raw_random() % 9) {
	case 0: w->num_sge = (uint8_t)raw_random(); break;
	case 1: w->slots = (uint8_t)raw_random(); break;
	case 2: w->op = (uint8_t)raw_random(); break;
	case 3: w->flags = (uint8_t)raw_random(); break;
	case 4: w->inline_len = (uint16_t)raw_random(); break;
	case 5: w->sge[0].len = raw_random(); break;
	case 6: w->sge[0].addr = (uint64_t)raw_random() << 32 | raw_random(); break;
	case 7: w->sge[0].lkey = raw_random(); break;
	case 8: w->raddr = ~UINT64_C(0) - raw_random() % 64; break;
	}
}

static void *flipping(void *arg)
{
	struct flipper *f = arg;
	uint8_t *slots = f->j->r.queues + f->j->qp.sq_off + sizeof(struct spsc_hdr);

	while (!__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
		for (unsigned i = 0; i < 16; i++)
			flip(slots + raw_random() % SLOTS * QP_SLOT_SIZE);
		usleep(50);
	}
	return NULL;
}

int mode_wqe(const struct where *w)
{
	uint64_t end = raw_now_ms() + 3000;
	unsigned rounds = 0, errors = 0;

	while (raw_now_ms() < end) {
		struct raw_job j;
		struct flipper f = { .j = &j };
		struct qp_cqe e;
		uint64_t until;
		pthread_t t;

		if (join(&j, w) != 0)
			return 1;
		raw_must(pthread_create(&t, NULL, flipping, &f) == 0, "thread");
		for (until = raw_now_ms() + 300; raw_now_ms() < until && !broken(&j);) {
			struct qp_wqe wqe = write_wqe(&j, w, 64 + raw_random() % 8192);
			while (raw_post(&j.qp, &wqe))
				;
			raw_ring_bell(&j.r, &j.qp);
			while (raw_poll(&j.r, &j.cq, &e))
				errors += e.status != QP_WC_SUCCESS;
		}
		__atomic_store_n(&f.stop, true, __ATOMIC_RELAXED);
		pthread_join(t, NULL);
		raw_close(&j.r);
		rounds++;
	}
	printf("%u connections, %u bad completions\n", rounds, errors);
	return still_served(w);
}

/* ---- garbage in rings, indices, doorbells and the control block ---- */

static void scribble(uint8_t *p, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		p[i] = (uint8_t)raw_random();
}

static void scribble_word(uint8_t *p) { *(volatile uint32_t *)(void *)p = raw_random(); }

static void garbage(struct raw_job *j, unsigned kind)
{
	uint8_t *q = j->r.queues;

	switch (kind % 12) {
	case 0: scribble_word(q + j->qp.sq_off); break;                 /* the SQ's producer index */
	case 1: scribble_word(q + j->qp.sq_off + RN_CACHE_LINE); break; /* the SQ's consumer index */
	case 2: scribble_word(q + j->qp.rq_off); break;
	case 3: scribble(q + j->qp.sq_off + sizeof(struct spsc_hdr), SLOTS * QP_SLOT_SIZE); break;
	case 4: scribble(q + j->qp.rq_off + sizeof(struct spsc_hdr), SLOTS * QP_SLOT_SIZE); break;
	case 5: scribble(q + j->cq.ring_off, sizeof(struct spsc_hdr)); break;
	case 6: scribble(q + j->cq.shm_off, sizeof(struct qp_cq_shm)); break;
	case 7: scribble(q + j->qp.shm_off, sizeof(struct qp_shm)); break;
	case 8: scribble(q + j->cm.ring_off, sizeof(struct spsc_hdr)); break;
	case 9: memset(j->r.ctrl->doorbell, 0xff, sizeof(j->r.ctrl->doorbell)); break;
	case 10: scribble(q, sizeof(struct ipc_ctrl)); break;
	case 11: scribble(q + j->async.ring_off, sizeof(struct spsc_hdr)); break;
	}
}

int mode_rings(const struct where *w)
{
	for (unsigned round = 0; round < 48; round++) {
		struct raw_job j;
		uint64_t one = 1;

		if (join(&j, w) != 0)
			return 1;
		struct qp_wqe wqe = write_wqe(&j, w, 4096);
		for (unsigned i = 0; i < SLOTS; i++) {
			raw_post(&j.qp, &wqe);
			raw_post_recv(&j.qp, j.mr.stag, RAW_TO(8192), 4096);
		}
		for (unsigned i = 0; i < 30; i++) {
			if (i == 3 || round % 3 == 0)
				garbage(&j, round < 24 ? round : raw_random());
			__atomic_fetch_or(&j.r.ctrl->doorbell[0].bits[j.qp.db_bit / 64],
					  UINT64_C(1) << (j.qp.db_bit % 64), __ATOMIC_RELEASE);
			__atomic_fetch_or(&j.r.ctrl->doorbell[0].summary, 1, __ATOMIC_SEQ_CST);
			if (write(j.r.wake, &one, sizeof(one)) < 0)
				return 1;
			usleep(500);
		}
		raw_call_handle(&j.r, IPC_DESTROY_QP, j.qp.handle);
		raw_close(&j.r);
	}
	return still_served(w);
}

/* ---- a CQ that nobody polls ---- */

int mode_overrun(const struct where *w)
{
	struct raw_job j;
	struct qp_cqe e;
	struct ipc_async_event ev;
	struct pollfd p;
	unsigned got = 0, bad = 0;
	uint64_t end = raw_now_ms() + 10000;

	if (raw_connect(&j, w->address, w->port, 16) != 0)
		return 1;
	struct qp_wqe wqe = write_wqe(&j, w, 64);
	while (!broken(&j) && raw_now_ms() < end) {
		while (raw_post(&j.qp, &wqe))
			;
		raw_ring_bell(&j.r, &j.qp);
		usleep(1000);
	}
	EXPECT(broken(&j), "the queue pair works on after its completion queue has overrun");
	EXPECT(((struct qp_cq_shm *)(void *)(j.r.queues + j.cq.shm_off))->error == 1, "the CQ is not marked");
	p = (struct pollfd){ j.async.fd, POLLIN, 0 };
	EXPECT(poll(&p, 1, 5000) == 1 && spsc_cons_avail(&j.async.ring, 1) > 0, "no asynchronous event");
	if (spsc_cons_avail(&j.async.ring, 1) > 0) {
		spsc_cons_copy(&j.async.ring, 0, &ev, sizeof(ev));
		printf("asynchronous event %u\n", ev.type);
	}
	while (raw_poll(&j.r, &j.cq, &e) && got < 1000)
		got++;
	EXPECT(got == 16, "%u entries were in a ring of 16", got);
	raw_close(&j.r);
	return bad + still_served(w);
}

/* ---- death between doorbell and completion ---- */

static void die_now(const struct where *w, unsigned round)
{
	struct raw_job j;

	if (join(&j, w) != 0)
		_exit(1);
	struct qp_wqe wqe = write_wqe(&j, w, round % 2 ? REMOTE_LEN : 64);
	if (round % 3 == 0) {
		wqe.op = QP_WR_READ;
		wqe.sge[0].len = REMOTE_LEN;
	}
	while (raw_post(&j.qp, &wqe))
		;
	raw_ring_bell(&j.r, &j.qp);
	if (round % 4 == 1)
		usleep(raw_random() % 2000);
	kill(getpid(), SIGKILL);
}

int mode_die(const struct where *w)
{
	int bad = 0;

	for (unsigned round = 0; round < 60; round++) {
		int st = 0;
		fflush(stdout);
		pid_t p = fork();
		raw_must(p >= 0, "fork");
		if (p == 0)
			die_now(w, round);
		raw_must(waitpid(p, &st, 0) == p, "waitpid");
		EXPECT(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL, "round %u: the client ended with %x", round,
		       (unsigned)st);
		if (bad)
			break;
	}
	return bad + still_served(w);
}

/* ---- memory that belongs to another client ---- */

static uint8_t status_of(const struct where *w, struct qp_wqe wqe, bool own_key)
{
	struct raw_job j;
	struct qp_cqe e = { .status = 0xff };
	uint64_t end = raw_now_ms() + 10000;

	if (join(&j, w) != 0)
		return 0xfe;
	if (own_key)
		wqe.sge[0].lkey = j.mr.stag;
	raw_post(&j.qp, &wqe);
	raw_ring_bell(&j.r, &j.qp);
	while (!raw_poll(&j.r, &j.cq, &e) && raw_now_ms() < end)
		usleep(100);
	raw_close(&j.r);
	return e.status;
}

int mode_steal(const struct where *w)
{
	struct qp_wqe send = { .wr_id = 1,
			       .op = QP_WR_SEND,
			       .flags = QP_WF_SIGNALED,
			       .num_sge = 1,
			       .slots = 1,
			       .sge = { { w->to, 64, w->stag } } };
	struct qp_wqe read = { .wr_id = 1,
			       .op = QP_WR_READ,
			       .flags = QP_WF_SIGNALED,
			       .num_sge = 1,
			       .slots = 1,
			       .raddr = w->to,
			       .rkey = w->stag,
			       .sge = { { w->to, 64, w->stag } } };
	int bad = 0;
	uint8_t s;

	s = status_of(w, send, false);
	EXPECT(s == QP_WC_LOC_PROT_ERR, "sending from another client's region: status %u", s);
	s = status_of(w, read, false);
	EXPECT(s == QP_WC_LOC_PROT_ERR, "reading into another client's region: status %u", s);
	send.sge[0].addr = RAW_TO((1 << 20) - 8); /* in the client's own region, and beyond its end */
	s = status_of(w, send, true);
	EXPECT(s == QP_WC_LOC_PROT_ERR, "sending from beyond the region: status %u", s);
	send.sge[0] = (struct qp_sge){ ~UINT64_C(0) - 8, 64, 0 };
	s = status_of(w, send, true);
	EXPECT(s == QP_WC_LOC_PROT_ERR, "sending from an address that wraps: status %u", s);
	send.sge[0] = (struct qp_sge){ RAW_TO(0), 0xffffffff, 0 };
	s = status_of(w, send, true);
	EXPECT(s == QP_WC_LOC_PROT_ERR || s == QP_WC_LOC_LEN_ERR, "sending 4 GiB: status %u", s);
	for (unsigned i = 0; i < 20; i++) { /* keys cannot be guessed by counting */
		read = (struct qp_wqe){ .wr_id = 1,
					.op = QP_WR_READ,
					.flags = QP_WF_SIGNALED,
					.num_sge = 1,
					.slots = 1,
					.raddr = w->to,
					.rkey = i << 8 | (raw_random() & 0xff),
					.sge = { { RAW_TO(0), 64, 0 } } };
		if (read.rkey == w->stag)
			continue;
		EXPECT((s = status_of(w, read, true)) != QP_WC_SUCCESS, "a guessed STag %x was served", read.rkey);
	}
	return bad + still_served(w);
}

/* ---- pages that disappear ---- */

static int punch(int fd, uint64_t off, uint64_t len)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len);
}

int mode_holes(const struct where *w)
{
	int bad = 0;

	for (unsigned round = 0; round < 12; round++) {
		struct raw_job j;
		struct qp_cqe e;
		if (join(&j, w) != 0)
			return 1;
		for (unsigned i = 0; i < 40 && !broken(&j); i++) {
			struct qp_wqe wqe = write_wqe(&j, w, REMOTE_LEN);
			while (raw_post(&j.qp, &wqe))
				;
			raw_ring_bell(&j.r, &j.qp);
			if (round % 2 == 0)
				EXPECT(punch(j.r.fd[1], 0, RAW_ARENA) == 0, "punching the arena: errno %d", errno);
			else if (i % 8 == 7)
				EXPECT(punch(j.r.fd[0], IPC_QUEUES_FREE_OFF, RAW_QUEUES - IPC_QUEUES_FREE_OFF) == 0,
				       "punching the queues: errno %d", errno);
			EXPECT(ftruncate(j.r.fd[1], 4096) == -1, "the sealed arena was truncated");
			EXPECT(ftruncate(j.r.fd[0], 4096) == -1, "the sealed queues were truncated");
			while (raw_poll(&j.r, &j.cq, &e))
				;
			usleep(200);
		}
		madvise(j.r.arena, RAW_ARENA, MADV_REMOVE);
		raw_close(&j.r);
	}
	return bad + still_served(w);
}

/* Allocates all free hugepages, until this process ends. */
static void take_hugepages(void)
{
	void *p;

	do {
		p = mmap(NULL, IPC_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	} while (p != MAP_FAILED && memset(p, 1, 1) != NULL);
}

/*
 * Registers hugepages, then gives them back to the kernel while the daemon has them mapped, and allocates them itself:
 * the daemon's next access ends in SIGBUS, and the daemon drops this client.
 */
int mode_huge_holes(const struct where *w)
{
	uint64_t len = 2 * IPC_HUGE_PAGE, list;
	struct raw_job j = { .dev = 1 };
	struct raw *r = &j.r;
	int fds[4], bad = 0, rc;
	bool dropped = false;

	*r = (struct raw){ .sock = raw_dial(),
			   .wake = eventfd(0, EFD_NONBLOCK),
			   .fd = { -1, -1, -1 },
			   .size = { RAW_QUEUES, RAW_ARENA, len },
			   .next = IPC_QUEUES_FREE_OFF };
	raw_must(r->sock >= 0 && ipc_region_create(IPC_REGION_QUEUES, RAW_QUEUES, &r->fd[0]) == 0 &&
			 ipc_region_create(IPC_REGION_ARENA, RAW_ARENA, &r->fd[1]) == 0,
		 "regions");
	raw_must(ipc_region_create(IPC_REGION_HUGE, len, &r->fd[2]) == 0, "a region of hugepages");
	raw_must(ipc_region_map(r->fd[0], RAW_QUEUES, &r->queues) == 0 &&
			 ipc_region_map(r->fd[1], RAW_ARENA, &r->arena) == 0,
		 "map");
	r->ctrl = (struct ipc_ctrl *)(void *)r->queues;
	r->ctrl->magic = IPC_CTRL_MAGIC;
	fds[0] = r->wake;
	memcpy(fds + 1, r->fd, sizeof(r->fd));
	raw_must(raw_hello(r, fds, 4) == 0 && raw_pd(r, 1, &j.pd) == 0, "hello with hugepages");
	list = raw_room(r, 4096);
	*(struct ipc_piece *)(void *)(r->queues + list) = (struct ipc_piece){ .region = IPC_REGION_HUGE, .len = len };
	struct ipc_msg m = {
		.type = IPC_REG_MR,
		.len = IPC_MSG_LEN(reg_mr),
		.reg_mr = { .pd = j.pd, .access = 7, .iova = RAW_TO(0), .len = len, .pieces_off = list, .npieces = 1 }
	};
	rc = raw_call(r, &m, -1);
	raw_must(rc == 0, "registering hugepages");
	j.mr.stag = m.reg_mr_ok.stag;
	rc = raw_cq(r, 1, 0, SLOTS, &j.cq) | raw_qp(r, j.pd, j.cq.handle, SLOTS, &j.qp) |
	     raw_chan(r, IPC_CHANNEL_CM, 0, 16, &j.cm);
	raw_must(rc == 0, "objects");
	rc = raw_join(&j, w->address, w->port);
	EXPECT(rc == 0, "no connection: %d", rc);
	/* Another process may free a hugepage before the daemon's access, which then succeeds: hence the rounds. */
	for (unsigned i = 0; i < 20 && rc == 0 && !dropped; i++) {
		struct qp_wqe wqe = write_wqe(&j, w, REMOTE_LEN);
		EXPECT(punch(r->fd[2], 0, len) == 0, "punching: errno %d", errno);
		take_hugepages();
		raw_post(&j.qp, &wqe);
		raw_ring_bell(r, &j.qp);
		dropped = poll(&(struct pollfd){ .fd = r->sock }, 1, 1000) == 1; /* POLLHUP: the daemon has closed it */
	}
	EXPECT(dropped, "the daemon has not dropped this client");
	raw_close(r);
	return bad;
}

/* ---- full eventfds, and event rings that nobody empties ---- */

int mode_eventfd(const struct where *w)
{
	uint64_t full = UINT64_MAX - 1;
	struct raw_job j;
	int bad = 0;

	/*
	 * A blocking eventfd that is full from the start, and an event ring of one slot: the events of all ids wait in
	 * the daemon.
	 */
	if (raw_open(&j.r) != 0)
		return 1;
	struct raw *r = &j.r;
	int fd = eventfd(0, 0);
	raw_must(fd >= 0 && write(fd, &full, sizeof(full)) == sizeof(full), "eventfd");
	uint64_t ring = raw_room(r, spsc_size(1, IPC_EVENT_SLOT_CM));
	struct ipc_msg m = { .type = IPC_CREATE_CHANNEL,
			     .len = IPC_MSG_LEN(create_channel),
			     .create_channel = { .kind = IPC_CHANNEL_CM, .ring_off = ring, .ring_slots = 1 } };
	int rc = raw_call(r, &m, fd);
	EXPECT(rc == 0, "channel: %d %s", rc, r->text);
	uint32_t chan = m.handle.handle;
	for (unsigned i = 0; i < 2000 && rc == 0; i++) {
		m = (struct ipc_msg){ .type = IPC_CM_CREATE_ID,
				      .len = IPC_MSG_LEN(cm_create_id),
				      .cm_create_id = { .channel = chan } };
		rc = raw_call(r, &m, -1);
		if (rc != 0)
			break;
		m = (struct ipc_msg){ .type = IPC_CM_RESOLVE_ADDR,
				      .len = IPC_MSG_LEN(cm_resolve),
				      .cm_resolve = { .id = m.handle.handle,
						      .timeout_ms = 1000,
						      .dst = raw_addr(w->address, w->port) } };
		rc = raw_call(r, &m, -1);
	}
	EXPECT(rc == 0 || rc == ENOMEM, "ids: %d %s", rc, r->text);
	/* The wake eventfd is full too. */
	EXPECT(write(r->wake, &full, sizeof(full)) == sizeof(full) || errno == EAGAIN, "wake: errno %d", errno);
	usleep(200000);
	raw_close(r);
	close(fd);
	return bad + still_served(w);
}
