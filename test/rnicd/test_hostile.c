/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients that attack the daemon: it goes on serving the others. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "fake_client.h"
#include "ring/spsc.h"

#define FUZZ_MESSAGES 30000u

/* A fixed seed, so that every run is the same; RNIC_FUZZ_SEED sets another one for longer searches. */
static uint64_t fuzz_seed(void)
{
	const char *s = getenv("RNIC_FUZZ_SEED");

	return s != NULL ? strtoull(s, NULL, 0) : 1;
}

static struct daemon d;
static struct fc honest;

static int start(void **state)
{
	(void)state;
	daemon_start(&d, "user-share = 50\nworkers = 0,0\nquota-memory = 16M\nlog-level = error");
	fc_join(&honest, &d);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	fc_close(&honest);
	daemon_stop(&d);
	return 0;
}

/* After each case a well-behaved client is served. */
static int still_served(void **state)
{
	struct ipc_msg m;

	(void)state;
	assert_true(daemon_alive(&d));
	uint32_t pd = fc_pd(&honest);
	uint32_t cq = fc_cq(&honest, 0, 0), qp = fc_qp(&honest, 1, pd, cq, NULL);
	struct ipc_piece p = { .region = IPC_REGION_ARENA, .len = 1 << 20 };
	assert_int_equal(fc_mr(&honest, &m, pd, &p, 1), 0);
	assert_int_equal(FC_CALL(&honest, &m, IPC_DEREG_MR, handle, .handle = m.reg_mr_ok.handle), 0);
	assert_int_equal(FC_CALL(&honest, &m, IPC_DESTROY_QP, handle, .handle = qp), 0);
	assert_int_equal(FC_CALL(&honest, &m, IPC_DESTROY_CQ, handle, .handle = cq), 0);
	assert_int_equal(FC_CALL(&honest, &m, IPC_DEALLOC_PD, handle, .handle = pd), 0);
	return 0;
}

/* True: the daemon has closed the connection. */
static bool dropped(struct fc *c)
{
	struct pollfd p = { .fd = c->sock, .events = POLLRDHUP };

	return poll(&p, 1, 30000) == 1 && (p.revents & (POLLRDHUP | POLLHUP)) != 0;
}

static void noise(struct rn_rng *r, void *p, size_t len)
{
	uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		b[i] = (uint8_t)rn_rng_u32(r);
}

/* Fills the message with numbers, mostly small ones, which often name existing objects. */
static void mostly_small(struct rn_rng *r, struct ipc_msg *m)
{
	uint32_t *w = (uint32_t *)(void *)((char *)m + IPC_MSG_HDR);
	size_t n = rn_min_u32(m->len - IPC_MSG_HDR, 128) / 4;

	for (size_t i = 0; i < n; i++) {
		uint32_t k = rn_rng_below(r, 8);
		w[i] = k < 4    ? rn_rng_below(r, 5)
		       : k == 4 ? 1u << rn_rng_below(r, 32)
		       : k == 5 ? UINT32_MAX
		       : k == 6 ? 64
				: rn_rng_u32(r);
	}
}

static uint16_t right_length(uint16_t type)
{
	static const uint16_t len[IPC_TYPES] = {
		[IPC_QUERY_DEV] = IPC_MSG_LEN(query_dev),
		[IPC_CREATE_CHANNEL] = IPC_MSG_LEN(create_channel),
		[IPC_ALLOC_PD] = IPC_MSG_LEN(alloc_pd),
		[IPC_REG_MR] = IPC_MSG_LEN(reg_mr),
		[IPC_CREATE_CQ] = IPC_MSG_LEN(create_cq),
		[IPC_CREATE_QP] = IPC_MSG_LEN(create_qp),
		[IPC_MODIFY_QP] = IPC_MSG_LEN(modify_qp),
		[IPC_CM_CREATE_ID] = IPC_MSG_LEN(cm_create_id),
		[IPC_CM_BIND] = IPC_MSG_LEN(cm_bind),
		[IPC_CM_RESOLVE_ADDR] = IPC_MSG_LEN(cm_resolve),
		[IPC_CM_RESOLVE_ROUTE] = IPC_MSG_LEN(cm_resolve),
		[IPC_CM_OPEN] = IPC_MSG_LEN(cm_open),
		[IPC_CM_LISTEN] = IPC_MSG_LEN(cm_listen),
		[IPC_CM_CONNECT] = IPC_MSG_LEN(cm_connect),
		[IPC_CM_ACCEPT] = IPC_MSG_LEN(cm_connect),
		[IPC_CM_REJECT] = IPC_MSG_LEN(cm_reject),
		[IPC_CM_MIGRATE] = IPC_MSG_LEN(cm_migrate),
		[IPC_CM_SOCKET] = IPC_MSG_LEN(cm_socket),
	};
	return type < IPC_TYPES && len[type] != 0 ? len[type] : IPC_MSG_LEN(handle);
}

/* Puts existing addresses into the message, so that connections are made. */
static void aim(struct rn_rng *r, struct ipc_msg *m)
{
	struct ipc_addr a = fc_addr((uint8_t)(1 + rn_rng_below(r, 2)), (uint16_t)(7000 + rn_rng_below(r, 3)));

	if (m->type == IPC_CM_BIND)
		m->cm_bind.addr = a;
	if (m->type == IPC_CM_RESOLVE_ADDR)
		m->cm_resolve.dst = a;
	if (m->type == IPC_CM_OPEN)
		m->cm_open.to.dst = a;
	if (m->type == IPC_CM_CONNECT || m->type == IPC_CM_ACCEPT)
		m->cm_connect.param.priv_len %= 600;
	if (m->type == IPC_CREATE_CQ || m->type == IPC_CREATE_QP) {
		uint64_t at = (UINT64_C(1) << 20) + rn_rng_below(r, 16) * 65536;
		m->create_cq.dev = rn_rng_below(r, 2);
		m->create_cq.cqe = 64;
		m->create_cq.wide = rn_rng_below(r, 2);
		m->create_cq.async = rn_rng_below(r, 4);
		m->create_cq.shm_off = at;
		m->create_cq.ring_off = at + 4096;
		m->create_cq.ring_stride = 8192;
		if (m->type == IPC_CREATE_QP)
			m->create_qp = (struct ipc_create_qp){ .pd = 1 + rn_rng_below(r, 3),
							       .send_cq = 1 + rn_rng_below(r, 3),
							       .recv_cq = 1 + rn_rng_below(r, 3),
							       .async = rn_rng_below(r, 4),
							       .shm_off = at,
							       .sq_off = at + 4096,
							       .rq_off = at + 16384,
							       .sq_slots = 64,
							       .rq_slots = 64 };
	}
}

static void fuzz_one(struct rn_rng *r, struct fc *c)
{
	struct ipc_msg m;
	int efd = -1;

	noise(r, &m, sizeof(m));
	m.type = (uint16_t)rn_rng_below(r, IPC_TYPES + 1);
	m.len = rn_rng_below(r, 10) == 0 ? (uint16_t)(IPC_MSG_HDR + rn_rng_below(r, sizeof(m) - IPC_MSG_HDR + 1))
					 : right_length(m.type);
	if (rn_rng_below(r, 4) != 0)
		mostly_small(r, &m);
	if (rn_rng_below(r, 4) != 0)
		aim(r, &m);
	if (m.type == IPC_CREATE_CHANNEL) {
		efd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		m.create_channel.ring_off = (UINT64_C(8) << 20) + rn_rng_below(r, 8) * 65536;
		m.create_channel.ring_slots = 16;
		m.create_channel.kind %= 4;
	}
	if (m.type == IPC_REG_MR && rn_rng_below(r, 2) == 0)
		m.reg_mr = (struct ipc_reg_mr){
			.pd = 1, .access = 7, .len = 8192, .npieces = 2, .pieces_off = UINT64_C(12) << 20
		};
	noise(r, c->queues + rn_rng_below(r, FC_QUEUES - 64), 64); /* also over rings, indices and lists */
	(void)fc_call(c, &m, &efd, efd >= 0 ? 1 : 0);
	if (efd >= 0)
		close(efd);
}

static void requests_at_random(void **state)
{
	struct rn_rng r;
	struct fc c;
	uint32_t joins = 0;

	(void)state;
	rn_rng_seed(&r, fuzz_seed());
	for (uint32_t i = 0; i < FUZZ_MESSAGES; i++) {
		struct pollfd p = { .fd = joins > 0 ? c.sock : -1, .events = POLLRDHUP };
		if (joins == 0 || poll(&p, 1, 0) == 1 ||
		    /* the client connects again if the daemon has dropped it for breaking a queue, and now and then */
		    i % 3000 == 0) {
			if (joins > 0)
				fc_close(&c);
			fc_join(&c, &d);
			joins++;
		}
		fuzz_one(&r, &c);
	}
	fc_close(&c);
	assert_true(joins >= FUZZ_MESSAGES / 3000);
}

static void messages_that_are_none(void **state)
{
	struct rn_rng r;
	struct fc c;
	char junk[8192];

	(void)state;
	rn_rng_seed(&r, fuzz_seed());
	for (uint32_t i = 0; i < 300; i++) {
		size_t len = 1 + rn_rng_below(&r, sizeof(junk) - 1);
		noise(&r, junk, len);
		if (i % 2 == 0)
			fc_dial(&c, &d);
		else
			fc_join(&c, &d);
		assert_int_equal(send(c.sock, junk, len, MSG_NOSIGNAL), len);
		assert_true(dropped(&c));
		fc_close(&c);
	}
}

static void one_that_does_not_read_its_answers(void **state)
{
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) };
	struct fc c;
	int rc;

	(void)state;
	fc_join(&c, &d);
	fcntl(c.sock, F_SETFL, O_NONBLOCK);
	do {
		rc = ipc_send(c.sock, &m, NULL, 0);
		if (rc == -EAGAIN)
			poll(NULL, 0, 1);
	} while (rc == 0 || rc == -EAGAIN);
	assert_int_equal(rc, -EPIPE);
	fc_close(&c);
}

static void one_that_fills_its_eventfd(void **state)
{
	struct ipc_msg m = { .type = IPC_CREATE_CHANNEL,
			     .len = IPC_MSG_LEN(create_channel),
			     .create_channel = { .kind = IPC_CHANNEL_CM, .ring_off = FC_PLACE(10), .ring_slots = 16 } };
	struct ipc_cm_event ev;
	struct fc c;
	int efd = eventfd(0, EFD_CLOEXEC); /* a full eventfd blocks a thread that writes to it */
	uint64_t full = UINT64_MAX - 1;

	(void)state;
	fc_join(&c, &d);
	assert_int_equal(fc_call(&c, &m, &efd, 1), 0);
	uint32_t id = fc_id(&c, m.handle.handle);
	assert_int_equal(write(efd, &full, sizeof(full)), sizeof(full));
	assert_int_equal(FC_CALL(&c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = id, .dst = fc_addr(1, 1)), 0);
	still_served(NULL); /* the event waits, and the daemon goes on */
	assert_int_equal(read(efd, &full, sizeof(full)), sizeof(full));
	fc_event(&c, 10, efd, &ev); /* the event has come */
	assert_int_equal(ev.id, id);
	fc_close(&c);
	close(efd);
}

static void one_that_breaks_its_event_ring(void **state)
{
	struct ipc_msg m;
	struct fc c;
	int efd;

	(void)state;
	fc_join(&c, &d);
	uint32_t chan = fc_chan(&c, 10, IPC_CHANNEL_CM, &efd);
	struct spsc_hdr *ring = (struct spsc_hdr *)(void *)(c.queues + FC_PLACE(10));
	ring->cons = 12345; /* the consumer index claims that events were consumed which never existed */
	for (int i = 0; i < 40; i++) {
		int rc = FC_CALL(&c, &m, IPC_CM_CREATE_ID, cm_create_id, .channel = chan);
		if (rc != 0 ||
		    FC_CALL(&c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = m.handle.handle, .dst = fc_addr(1, 1)) != 0)
			break;
	}
	assert_true(dropped(&c));
	fc_close(&c);
	close(efd);
}

static void doorbells_for_nothing(void **state)
{
	struct fc c;

	(void)state;
	fc_join(&c, &d);
	uint32_t cq = fc_cq(&c, 0, 0);
	fc_qp(&c, 1, fc_pd(&c), cq, NULL);
	for (int i = 0; i < 1000; i++) {
		memset(c.queues, 0xff, sizeof(struct ipc_ctrl)); /* sets every bit for every worker */
		uint64_t one = 1;
		assert_int_equal(write(c.wake, &one, sizeof(one)), sizeof(one));
	}
	memset(c.queues + (1 << 20), 0xff, 2 << 20); /* the queues are garbage, too */
	memset(c.queues, 0xff, sizeof(struct ipc_ctrl));
	still_served(NULL);
	fc_close(&c);
}

static void clients_without_end(void **state)
{
	static struct fc many[300];
	uint32_t refused = 0;

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(many); i++)
		fc_dial(&many[i], &d);
	/*
	 * A user may have 256 connections, half of all, one of which existed before. The oldest connections without
	 * HELLO are closed in favour of the newest.
	 */
	for (int tries = 0; tries < 1000 && refused < 300 - 255; tries++) {
		refused = 0;
		for (size_t i = 0; i < RN_ARRAY_LEN(many); i++) {
			struct pollfd p = { .fd = many[i].sock, .events = POLLRDHUP };
			refused += poll(&p, 1, 0) == 1;
		}
		poll(NULL, 0, 10);
	}
	/* connections of an earlier case may still be closing */
	assert_true(refused >= 300 - 255 && refused < 300);
	for (size_t i = 0; i < RN_ARRAY_LEN(many); i++)
		fc_close(&many[i]);
	/* Connections are possible again as soon as the daemon has seen the others close. */
	struct fc c;
	struct pollfd q = { .events = POLLRDHUP };
	for (int i = 0; i < 3000; i++) {
		fc_dial(&c, &d);
		q.fd = c.sock;
		if (poll(&q, 1, 10) == 0)
			break;
		fc_close(&c);
	}
	assert_int_equal(poll(&q, 1, 0), 0);
	fc_close(&c);
}

/* A region names the same page many times, and the client then removes the page from its file: the daemon must live. */
static void memory_that_there_is_not(void **state)
{
	struct ipc_msg m;
	struct fc c;
	struct ipc_piece p[64];

	(void)state;
	fc_join(&c, &d);
	uint32_t pd = fc_pd(&c);
	for (uint32_t i = 0; i < 64; i++) /* the same page many times */
		p[i] = (struct ipc_piece){ .region = IPC_REGION_ARENA, .off = 4096, .len = 4096 };
	assert_int_equal(fc_mr(&c, &m, pd, p, 64), 0);
	/* the client punches the page out of its file */
	fallocate(c.fd[1], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, FC_ARENA);
	assert_int_equal(FC_CALL(&c, &m, IPC_DEREG_MR, handle, .handle = m.reg_mr_ok.handle), 0);
	fc_close(&c);
}

static void killed_in_the_middle_of_everything(void **state)
{
	(void)state;
	for (int round = 0; round < 10; round++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct rn_rng r;
			struct fc c;
			rn_rng_seed(&r, fuzz_seed() + (uint64_t)round);
			fc_join(&c, &d);
			for (;;) {
				struct pollfd p = { .fd = c.sock, .events = POLLRDHUP };
				if (poll(&p, 1, 0) == 1)
					_exit(0);
				fuzz_one(&r, &c);
			}
		}
		poll(NULL, 0, 30);
		kill(pid, SIGKILL);
		int st;
		assert_int_equal(waitpid(pid, &st, 0), pid);
	}
}

static uint32_t open_files(void)
{
	char path[64];
	uint32_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)d.run.pid);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

static uint32_t mapped_regions(void)
{
	char line[512];
	uint32_t n = 0;

	snprintf(line, sizeof(line), "/proc/%d/maps", (int)d.run.pid);
	FILE *f = fopen(line, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL)
		n += strstr(line, "/memfd:rnic-") != NULL;
	fclose(f);
	return n;
}

/* Waits until the numbers of open files and of mappings have not changed for half a second. */
static void settle(uint32_t *files, uint32_t *regions)
{
	for (int still = 0, looks = 0; still < 50 && looks < 3000; looks++) {
		uint32_t f = open_files(), r = mapped_regions();
		still = f == *files && r == *regions ? still + 1 : 0;
		*files = f;
		*regions = r;
		poll(NULL, 0, 10);
	}
}

/* Clients connect, allocate all that they can, and die: the daemon frees all of it. */
static void nothing_is_left_of_the_dead(void **state)
{
	uint32_t files = 0, regions = 0;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 20 * (round + 1); i++) {
			struct ipc_piece p = { .region = IPC_REGION_ARENA, .len = 1 << 20 };
			struct ipc_msg m;
			struct fc c;
			int efd;
			fc_join(&c, &d);
			uint32_t cm = fc_chan(&c, 10, IPC_CHANNEL_CM, &efd), pd = fc_pd(&c);
			fc_qp(&c, 1, pd, fc_cq(&c, 0, fc_chan(&c, 11, IPC_CHANNEL_COMP, &efd)), NULL);
			assert_int_equal(fc_mr(&c, &m, pd, &p, 1), 0);
			assert_int_equal(FC_CALL(&c, &m, IPC_CM_LISTEN, cm_listen, .id = fc_id(&c, cm)), 0);
			fc_close(&c);
		}
		/*
		 * The first round counts the daemon's files and mappings when the well-behaved client is its only
		 * client and all helper threads have been started.
		 */
		if (round == 0) {
			settle(&files, &regions);
			continue;
		}
		for (int wait = 0; wait < 3000 && (open_files() > files || mapped_regions() > regions); wait++)
			poll(NULL, 0, 10);
		assert_in_range(open_files(), 0, files);
		assert_in_range(mapped_regions(), 0, regions);
	}
}

/* ---- queues that overlap ---- */

/* The places of one queue pair in the queue region. */
struct places {
	uint64_t shm, sq, rq;
};

static int make_qp(struct fc *c, struct places p, uint32_t pd, uint32_t cq, uint32_t *qp)
{
	struct ipc_msg m;
	int rc = FC_CALL(c, &m, IPC_CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq, .shm_off = p.shm,
			 .sq_off = p.sq, .rq_off = p.rq, .sq_slots = 64, .rq_slots = 64);

	*qp = m.create_qp_ok.handle;
	return rc;
}

static void no_two_queues_lie_in_the_same_bytes(void **state)
{
	const uint64_t at = FC_PLACE(20), ring = spsc_size(64, 64);
	const struct places good = { at, at + 4096, at + 4096 + ring };
	const struct places bad[] = {
		{ at, at, at + 2 * ring },                           /* a queue in the state of its own queue pair */
		{ at, at + 4096, at + 4096 },                        /* both queues in the same place */
		{ at, at + 4096, at + 4096 + ring - 64 },            /* the last slot of one queue in the other queue */
		{ at, at + 4096, FC_PLACE(0) + 4096 },               /* in the completion queue's ring */
		{ at, FC_PLACE(0), at + 4096 },                      /* in the shared state of the completion queue */
		{ at, at + 4096, FC_PLACE(3) },                      /* in an event queue */
		{ at, at + 4096, sizeof(struct ipc_ctrl) - ring },   /* in the doorbells */
		{ at, FC_PLACE(4), at + 4096 },                      /* in a shared receive queue */
		{ FC_PLACE(1) + 4096, at + 4096, at + 4096 + ring }, /* in the queue of another queue pair */
	};
	struct ipc_msg m;
	struct fc c;
	uint32_t qp;
	int efd;

	(void)state;
	fc_join(&c, &d);
	uint32_t pd = fc_pd(&c), cq = fc_cq(&c, 0, 0);
	fc_qp(&c, 1, pd, cq, NULL);
	fc_chan(&c, 3, IPC_CHANNEL_COMP, &efd);
	assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_SRQ, create_srq, .pd = pd, .wqe_slots = 1, .ring_off = FC_PLACE(4),
				 .ring_slots = 64),
			 0);
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++)
		assert_int_equal(make_qp(&c, bad[i], pd, cq, &qp), EINVAL);
	/* Neither a refused request nor a destroyed queue pair has left the places occupied. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(make_qp(&c, good, pd, cq, &qp), 0);
		assert_int_equal(make_qp(&c, good, pd, cq, &(uint32_t){ 0 }), EINVAL);
		assert_int_equal(FC_CALL(&c, &m, IPC_DESTROY_QP, handle, .handle = qp), 0);
	}
	close(efd);
	fc_close(&c);
}

static void no_two_rings_of_completions_lie_in_the_same_bytes(void **state)
{
	const uint64_t one = spsc_size(64, 32), two = spsc_size(128, 32), at = FC_PLACE(20);
	struct ipc_msg m;
	struct fc c;

	(void)state;
	fc_join(&c, &d);
#define CQ(off, stride) \
	FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .shm_off = at, .ring_off = off, .ring_stride = stride, .cqe = 64)
#define LARGER(off, stride) \
	FC_CALL(&c, &m, IPC_RESIZE_CQ, resize_cq, .cq = cq, .cqe = 128, .ring_off = off, .ring_stride = stride)
	assert_int_equal(CQ(at + 4096, 0), EINVAL); /* the rings of two workers in one place */
	assert_int_equal(CQ(at + 4096, one - 64), EINVAL);
	assert_int_equal(CQ(at, one), EINVAL); /* in the queue's own word for arming */
	assert_int_equal(CQ(at + 4096, one), 0);
	uint32_t cq = m.handle.handle;
	assert_int_equal(LARGER(at + 4096 + one, two), EINVAL); /* overlaps the present rings */
	assert_int_equal(LARGER(at + 16384, 64), EINVAL);
	assert_int_equal(LARGER(at + 16384, two), 0);
	assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .shm_off = FC_PLACE(21), .ring_off = at + 16384,
				 .ring_stride = one, .cqe = 64),
			 EINVAL);
	assert_int_equal(FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .shm_off = FC_PLACE(21), .ring_off = at + 4096,
				 .ring_stride = one, .cqe = 64),
			 0); /* at the place of the former, smaller rings */
#define WIDE(stride) \
	FC_CALL(&c, &m, IPC_CREATE_CQ, create_cq, .shm_off = FC_PLACE(22), .ring_off = FC_PLACE(22) + 4096, \
		.ring_stride = stride, .cqe = 64, .wide = 1)
	assert_int_equal(WIDE(one), EINVAL); /* entries of 64 bytes need more room */
	assert_int_equal(WIDE(spsc_size(64, 64)), 0);
	fc_close(&c);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, NULL, still_served)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(requests_at_random),
		CASE(messages_that_are_none),
		CASE(one_that_does_not_read_its_answers),
		CASE(one_that_fills_its_eventfd),
		CASE(one_that_breaks_its_event_ring),
		CASE(doorbells_for_nothing),
		CASE(no_two_queues_lie_in_the_same_bytes),
		CASE(no_two_rings_of_completions_lie_in_the_same_bytes),
		CASE(clients_without_end),
		CASE(memory_that_there_is_not),
		CASE(killed_in_the_middle_of_everything),
		CASE(nothing_is_left_of_the_dead),
	};
	return cmocka_run_group_tests_name("hostile", tests, start, stop);
}
