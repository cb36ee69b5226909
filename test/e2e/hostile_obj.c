/* SPDX-License-Identifier: BSD-3-Clause */
#include "hostile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "raw_client.h"

#define WRAPS(n) (~UINT64_C(0) - (n) + 1)

static const uint32_t no_handles[] = { 0, 2, 77, 65536, 0x7fffffff, 0xffffffff };
#define N_NO_HANDLES (sizeof(no_handles) / sizeof(no_handles[0]))

static int reg(struct raw *r, struct ipc_reg_mr q)
{
	struct ipc_msg m = { .type = IPC_REG_MR, .len = IPC_MSG_LEN(reg_mr), .reg_mr = q };

	return raw_call(r, &m, -1);
}

static int regions(struct raw *r, uint32_t pd)
{
	uint64_t at = raw_room(r, 4096);
	struct ipc_piece *p = (struct ipc_piece *)(void *)(r->queues + at);
	const struct ipc_reg_mr good = {
		.pd = pd, .access = 1, .iova = 4096, .len = 8192, .pieces_off = at, .npieces = 1
	};
	const struct ipc_piece whole = { .region = IPC_REGION_ARENA, .len = 8192 };
	struct ipc_reg_mr q;
	int bad = 0;

#define REFUSED(what, set_q, set_p) \
	do { \
		q = good; \
		p[0] = p[1] = whole; \
		set_q; \
		set_p; \
		int rc_ = reg(r, q); \
		EXPECT(rc_ == EINVAL || rc_ == ENOMEM, "memory region, %s: %d", what, rc_); \
	} while (0)
	REFUSED("length 0", q.len = 0, (void)0);
	REFUSED("no pieces", q.npieces = 0, (void)0);
	REFUSED("4 billion pieces", q.npieces = 0xffffffff, (void)0);
	REFUSED("a million pieces", q.npieces = 1000000, (void)0);
	REFUSED("list outside", q.pieces_off = RAW_QUEUES, (void)0);
	REFUSED("list half outside", q.pieces_off = RAW_QUEUES - 8, (void)0);
	REFUSED("list that wraps", q.pieces_off = WRAPS(16), (void)0);
	REFUSED("unknown rights", q.access = 64, (void)0);
	REFUSED("all rights and more", q.access = 0xffffffff, (void)0);
	REFUSED("range that wraps", q.iova = WRAPS(100), (void)0);
	REFUSED("longer than its pieces", q.len = 8193, (void)0);
	REFUSED("shorter than its pieces", q.len = 8191, (void)0);
	REFUSED("length that wraps", q.len = WRAPS(4096), p[0].len = WRAPS(4096));
	REFUSED("piece of the queue region", (void)0, p[0].region = IPC_REGION_QUEUES);
	REFUSED("piece of an absent region", (void)0, p[0].region = IPC_REGION_HUGE);
	REFUSED("piece of region 3", (void)0, p[0].region = 3);
	REFUSED("piece of region 2^32-1", (void)0, p[0].region = 0xffffffff);
	REFUSED("piece outside", (void)0, p[0].off = RAW_ARENA);
	REFUSED("piece half outside", (void)0, p[0].off = RAW_ARENA - 4096);
	REFUSED("piece that wraps", (void)0, p[0].off = WRAPS(4096));
	REFUSED("pieces whose sum wraps", q.npieces = 2, (p[0].len = WRAPS(4096), p[1].len = 8192 + 4096));
	REFUSED("empty piece", q.npieces = 2, p[1].len = 0);
	for (unsigned i = 0; i < N_NO_HANDLES; i++)
		REFUSED("PD of nobody", q.pd = no_handles[i] == pd ? 0 : no_handles[i], (void)0);
#undef REFUSED
	return bad;
}

static int cqs(struct raw *r)
{
	uint64_t at = raw_room(r, 1 << 20);
	const struct ipc_create_cq good = {
		.dev = 0, .shm_off = at, .ring_off = at + 4096, .ring_stride = 65536, .cqe = 64
	};
	struct ipc_msg m;
	int bad = 0;

#define REFUSED(what, set) \
	do { \
		m = (struct ipc_msg){ .type = IPC_CREATE_CQ, .len = IPC_MSG_LEN(create_cq), .create_cq = good }; \
		set; \
		int rc_ = raw_call(r, &m, -1); \
		EXPECT(rc_ == EINVAL || rc_ == ENOMEM, "completion queue, %s: %d", what, rc_); \
	} while (0)
	REFUSED("no such device", m.create_cq.dev = 99);
	REFUSED("device 2^32-1", m.create_cq.dev = 0xffffffff);
	REFUSED("0 entries", m.create_cq.cqe = 0);
	REFUSED("63 entries", m.create_cq.cqe = 63);
	REFUSED("65 entries", m.create_cq.cqe = 65);
	REFUSED("2^31 entries", m.create_cq.cqe = 0x80000000);
	REFUSED("2^32-1 entries", m.create_cq.cqe = 0xffffffff);
	REFUSED("ring outside", m.create_cq.ring_off = RAW_QUEUES);
	REFUSED("ring half outside", m.create_cq.ring_off = RAW_QUEUES - 256);
	REFUSED("ring that wraps", m.create_cq.ring_off = WRAPS(64));
	REFUSED("ring off its line", m.create_cq.ring_off++);
	REFUSED("control block outside", m.create_cq.shm_off = RAW_QUEUES);
	REFUSED("control block half outside", m.create_cq.shm_off = RAW_QUEUES - 64);
	REFUSED("control block that wraps", m.create_cq.shm_off = WRAPS(64));
	REFUSED("control block off its line", m.create_cq.shm_off += 8);
	REFUSED("channel of nobody", m.create_cq.channel = 77);
	REFUSED("asynchronous channel of nobody", m.create_cq.async = 77);
#undef REFUSED
	return bad;
}

static int qps(struct raw *r, uint32_t pd, const struct raw_cq *cq, const struct raw_cq *other_dev)
{
	uint64_t at = raw_room(r, 1 << 20);
	const struct ipc_create_qp good = { .pd = pd,
					    .send_cq = cq->handle,
					    .recv_cq = cq->handle,
					    .shm_off = at,
					    .sq_off = at + 4096,
					    .rq_off = at + 65536,
					    .sq_slots = 64,
					    .rq_slots = 64,
					    .max_send_wr = 64,
					    .max_recv_wr = 64 };
	struct ipc_msg m;
	int bad = 0;

#define REFUSED(what, set) \
	do { \
		m = (struct ipc_msg){ .type = IPC_CREATE_QP, .len = IPC_MSG_LEN(create_qp), .create_qp = good }; \
		set; \
		int rc_ = raw_call(r, &m, -1); \
		EXPECT(rc_ == EINVAL || rc_ == ENOMEM, "queue pair, %s: %d", what, rc_); \
	} while (0)
	for (unsigned i = 0; i < N_NO_HANDLES; i++) {
		REFUSED("PD of nobody", m.create_qp.pd = no_handles[i] + (no_handles[i] == 2 ? 100 : 0));
		REFUSED("send CQ of nobody", m.create_qp.send_cq = no_handles[i] + (no_handles[i] == 2 ? 100 : 0));
		REFUSED("receive CQ of nobody", m.create_qp.recv_cq = no_handles[i] + (no_handles[i] == 2 ? 100 : 0));
	}
	REFUSED("CQ of another device", m.create_qp.send_cq = other_dev->handle);
	REFUSED("asynchronous channel of nobody", m.create_qp.async = 77);
	REFUSED("0 slots", m.create_qp.sq_slots = 0);
	REFUSED("63 slots", m.create_qp.rq_slots = 63);
	REFUSED("2^31 slots", m.create_qp.sq_slots = 0x80000000);
	REFUSED("2^32-1 slots", m.create_qp.rq_slots = 0xffffffff);
	REFUSED("SQ outside", m.create_qp.sq_off = RAW_QUEUES);
	REFUSED("RQ half outside", m.create_qp.rq_off = RAW_QUEUES - 4096);
	REFUSED("SQ that wraps", m.create_qp.sq_off = WRAPS(64));
	REFUSED("RQ off its line", m.create_qp.rq_off += 4);
	REFUSED("state block outside", m.create_qp.shm_off = RAW_QUEUES);
	REFUSED("state block that wraps", m.create_qp.shm_off = WRAPS(64));
	REFUSED("state block off its line", m.create_qp.shm_off += 1);
	REFUSED("no such part of XRC", m.create_qp.xrc = 3);
	REFUSED("no such part of XRC, 2^32-1", m.create_qp.xrc = 0xffffffff);
	REFUSED("an initiator of datagrams",
		(m.create_qp.xrc = IPC_XRC_INITIATOR, m.create_qp.datagram = IPC_UD_PLAIN));
#define WITH_MAPS(n, off) (m.create_qp.datagram = IPC_UD_LONG, m.create_qp.maps = (n), m.create_qp.maps_off = (off))
	REFUSED("maps of a connected one", m.create_qp.maps = 4);
	REFUSED("3 maps", WITH_MAPS(3, at + 131072));
	REFUSED("2^31 maps", WITH_MAPS(0x80000000, at + 131072));
	REFUSED("maps outside", WITH_MAPS(4, RAW_QUEUES));
	REFUSED("maps that wrap", WITH_MAPS(4, WRAPS(64)));
	REFUSED("maps off their line", WITH_MAPS(4, at + 131072 + 8));
	REFUSED("maps in the SQ", WITH_MAPS(4, good.sq_off));
	REFUSED("maps in the state block", WITH_MAPS(4, good.shm_off));
#undef WITH_MAPS
	REFUSED("a UDP port of a connected one", m.create_qp.udp_port = 7000);
	REFUSED("a UDP port of plain datagrams", (m.create_qp.datagram = IPC_UD_PLAIN, m.create_qp.udp_port = 7000));
	REFUSED("UDP port 65536", (m.create_qp.datagram = IPC_UD_LONG, m.create_qp.udp_port = 65536));
	for (unsigned i = 0; i < N_NO_HANDLES; i++)
		REFUSED("target of nobody's domain",
			(m.create_qp.xrc = IPC_XRC_TARGET, m.create_qp.xrcd = no_handles[i]));
#undef REFUSED
	return bad;
}

/* XRC domains, their queues and their targets. */
static int domains(struct raw *r, uint32_t pd, const struct raw_cq *cq, const struct raw_cq *other_dev)
{
	const uint64_t at = raw_room(r, 1 << 16);
	struct ipc_msg m = { .type = IPC_OPEN_XRCD,
			     .len = IPC_MSG_LEN(open_xrcd),
			     .open_xrcd = { .flags = IPC_XRCD_CREATE } };
	int bad = 0;

	EXPECT(raw_call(r, &m, -1) == 0, "a domain");
	const uint32_t xrcd = m.handle.handle;
	const struct ipc_create_srq good = {
		.pd = pd, .wqe_slots = 1, .ring_off = at, .ring_slots = 64, .xrcd = xrcd, .cq = cq->handle
	};
#define REFUSED(what, kind, member, set) \
	do { \
		m = (struct ipc_msg){ .type = (kind), .len = IPC_MSG_LEN(member) }; \
		set; \
		int rc_ = raw_call(r, &m, -1); \
		EXPECT(rc_ == EINVAL || rc_ == EAGAIN, "%s: %d", what, rc_); \
	} while (0)
	REFUSED("a domain of no device", IPC_OPEN_XRCD, open_xrcd, m.open_xrcd.dev = 99);
	REFUSED("a domain that is not made", IPC_OPEN_XRCD, open_xrcd, m.open_xrcd.dev = 0);
	REFUSED("a queue without CQ", IPC_CREATE_SRQ, create_srq, (m.create_srq = good, m.create_srq.cq = 0));
	REFUSED("a queue with another device's CQ", IPC_CREATE_SRQ, create_srq,
		(m.create_srq = good, m.create_srq.cq = other_dev->handle));
	REFUSED("a CQ without domain", IPC_CREATE_SRQ, create_srq, (m.create_srq = good, m.create_srq.xrcd = 0));
	for (unsigned i = 0; i < N_NO_HANDLES; i++) {
		const uint32_t no = no_handles[i] == xrcd ? 77 : no_handles[i];
		REFUSED("a queue of nobody's domain", IPC_CREATE_SRQ, create_srq,
			(m.create_srq = good, m.create_srq.xrcd = no != 0 ? no : 77));
		REFUSED("a target of nobody's domain", IPC_OPEN_QP, open_qp, m.open_qp.xrcd = no);
		REFUSED("a target that is none", IPC_OPEN_QP, open_qp, (m.open_qp.xrcd = xrcd, m.open_qp.qpn = no));
		REFUSED("the end of nobody's domain", IPC_CLOSE_XRCD, handle, m.handle.handle = no);
		REFUSED("the end of nobody's target", IPC_DESTROY_QP, handle, m.handle.handle = no | IPC_QP_SHARED);
		REFUSED("a question about nobody's target", IPC_QUERY_QP, handle, m.handle.handle = no | IPC_QP_SHARED);
		REFUSED("a change of nobody's target", IPC_MODIFY_QP, modify_qp, m.modify_qp.qp = no | IPC_QP_SHARED);
	}
#undef REFUSED
	EXPECT(raw_call_handle(r, IPC_CLOSE_XRCD, xrcd) == 0, "its end");
	return bad;
}

static int channels(struct raw *r)
{
	uint64_t at = raw_room(r, 1 << 20);
	const struct ipc_create_channel good = { .kind = IPC_CHANNEL_COMP, .ring_off = at, .ring_slots = 16 };
	int fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK), bad = 0;
	struct ipc_msg m;

	raw_must(fd >= 0, "eventfd");
#define REFUSED(what, set) \
	do { \
		m = (struct ipc_msg){ .type = IPC_CREATE_CHANNEL, \
				      .len = IPC_MSG_LEN(create_channel), \
				      .create_channel = good }; \
		set; \
		int rc_ = raw_call(r, &m, fd); \
		EXPECT(rc_ == EINVAL || rc_ == ENOMEM, "channel, %s: %d", what, rc_); \
	} while (0)
	REFUSED("kind 4", m.create_channel.kind = IPC_CHANNEL_ORDERS + 1);
	REFUSED("kind 2^32-1", m.create_channel.kind = 0xffffffff);
	REFUSED("no such device", (m.create_channel.kind = IPC_CHANNEL_ASYNC, m.create_channel.dev = 99));
	REFUSED("0 slots", m.create_channel.ring_slots = 0);
	REFUSED("15 slots", m.create_channel.ring_slots = 15);
	REFUSED("2^31 slots", m.create_channel.ring_slots = 0x80000000);
	REFUSED("ring outside", m.create_channel.ring_off = RAW_QUEUES);
	REFUSED("ring half outside", m.create_channel.ring_off = RAW_QUEUES - 128);
	REFUSED("ring that wraps", m.create_channel.ring_off = WRAPS(64));
	REFUSED("ring off its line", m.create_channel.ring_off += 2);
#undef REFUSED
	close(fd);
	return bad;
}

/* Requests that name an object by its handle: each invalid handle must be refused. */
static int handles(struct raw *r)
{
	static const enum ipc_type by_handle[] = { IPC_DESTROY_CHANNEL, IPC_DEALLOC_PD,   IPC_DEREG_MR,
						   IPC_DESTROY_CQ,      IPC_QUERY_QP,     IPC_DESTROY_QP,
						   IPC_CM_DESTROY_ID,   IPC_CM_DISCONNECT };
	static const struct {
		enum ipc_type type;
		uint16_t len;
	} others[] = {
		{ IPC_MODIFY_QP, IPC_MSG_LEN(modify_qp) },
		{ IPC_CM_CREATE_ID, IPC_MSG_LEN(cm_create_id) },
		{ IPC_CM_BIND, IPC_MSG_LEN(cm_bind) },
		{ IPC_CM_OPEN, IPC_MSG_LEN(cm_open) },
		{ IPC_CM_RESOLVE_ADDR, IPC_MSG_LEN(cm_resolve) },
		{ IPC_CM_RESOLVE_ROUTE, IPC_MSG_LEN(cm_resolve) },
		{ IPC_CM_LISTEN, IPC_MSG_LEN(cm_listen) },
		{ IPC_CM_CONNECT, IPC_MSG_LEN(cm_connect) },
		{ IPC_CM_ACCEPT, IPC_MSG_LEN(cm_connect) },
		{ IPC_CM_REJECT, IPC_MSG_LEN(cm_reject) },
		{ IPC_CM_MIGRATE, IPC_MSG_LEN(cm_migrate) },
	};
	int bad = 0, rc;

	for (unsigned h = 0; h < N_NO_HANDLES; h++) {
		uint32_t no = no_handles[h] == 2 ? 200 : no_handles[h];
		for (unsigned i = 0; i < sizeof(by_handle) / sizeof(by_handle[0]); i++) {
			rc = raw_call_handle(r, by_handle[i], no);
			EXPECT(rc == EINVAL, "request %d of handle %u: %d", by_handle[i], no, rc);
		}
		for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
			struct ipc_msg m = { .type = (uint16_t)others[i].type, .len = others[i].len };
			m.handle.handle = no; /* in all of them the handle is the first word */
			rc = raw_call(r, &m, -1);
			EXPECT(rc == EINVAL, "request %d of handle %u: %d", others[i].type, no, rc);
		}
	}
	return bad;
}

/* An object in use must stay, and private data that is too long must be refused. */
static int in_use(struct raw *r, uint32_t pd, struct raw_cq *cq)
{
	struct raw_chan chan, cm;
	struct raw_cq on_chan;
	struct raw_qp qp;
	struct raw_mr mr;
	int bad = 0, rc;

	rc = raw_qp(r, pd, cq->handle, 16, &qp) | raw_mr(r, pd, 7, 0, 4096, &mr) |
	     raw_chan(r, IPC_CHANNEL_COMP, 0, 16, &chan) | raw_cq(r, 0, chan.handle, 16, &on_chan) |
	     raw_chan(r, IPC_CHANNEL_CM, 0, 16, &cm);
	EXPECT(rc == 0, "%d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DEALLOC_PD, pd)) == EBUSY, "PD in use: %d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DESTROY_CQ, cq->handle)) == EBUSY, "CQ in use: %d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DESTROY_CHANNEL, chan.handle)) == EBUSY, "channel in use: %d", rc);
	struct ipc_msg m = { .type = IPC_CM_CREATE_ID,
			     .len = IPC_MSG_LEN(cm_create_id),
			     .cm_create_id = { .channel = chan.handle } };
	EXPECT((rc = raw_call(r, &m, -1)) == EINVAL, "id on a completion channel: %d", rc);
	m = (struct ipc_msg){ .type = IPC_CM_CREATE_ID,
			      .len = IPC_MSG_LEN(cm_create_id),
			      .cm_create_id = { .channel = cm.handle } };
	EXPECT((rc = raw_call(r, &m, -1)) == 0, "id: %d", rc);
	uint32_t id = m.handle.handle;
	EXPECT((rc = raw_call_handle(r, IPC_DESTROY_CHANNEL, cm.handle)) == EBUSY, "CM channel in use: %d", rc);
	m = (struct ipc_msg){ .type = IPC_CM_CONNECT,
			      .len = IPC_MSG_LEN(cm_connect),
			      .cm_connect = { .id = id, .qp = qp.handle, .param = { .priv_len = 513 } } };
	EXPECT((rc = raw_call(r, &m, -1)) == EINVAL, "private data of 513 bytes: %d", rc);
	m.len = IPC_MSG_LEN(cm_connect);
	m.type = IPC_CM_CONNECT;
	m.cm_connect = (struct ipc_cm_connect){ .id = id, .qp = qp.handle, .param = { .priv_len = 0xffff } };
	EXPECT((rc = raw_call(r, &m, -1)) == EINVAL, "private data of 65535 bytes: %d", rc);
	m = (struct ipc_msg){ .type = IPC_CM_REJECT,
			      .len = IPC_MSG_LEN(cm_reject),
			      .cm_reject = { .id = id, .priv_len = 0xffff } };
	EXPECT((rc = raw_call(r, &m, -1)) == EINVAL, "reject with 65535 bytes: %d", rc);
	for (uint32_t state = 0; state < 40; state++) {
		m = (struct ipc_msg){ .type = IPC_MODIFY_QP,
				      .len = IPC_MSG_LEN(modify_qp),
				      .modify_qp = { .qp = qp.handle,
						     .mask = raw_random(),
						     .state = state * 37,
						     .access = raw_random(),
						     .ird = raw_random(),
						     .ord = raw_random() } };
		rc = raw_call(r, &m, -1);
		EXPECT(rc == 0 || rc == EINVAL, "modify: %d", rc);
	}
	/* Now in the order that works; the second use of each handle must be refused. */
	EXPECT((rc = raw_call_handle(r, IPC_CM_DESTROY_ID, id)) == 0, "%d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_CM_DESTROY_ID, id)) == EINVAL, "id twice: %d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DESTROY_QP, qp.handle)) == 0, "%d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DESTROY_QP, qp.handle)) == EINVAL, "QP twice: %d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DEREG_MR, mr.handle)) == 0, "%d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DEREG_MR, mr.handle)) == EINVAL, "MR twice: %d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DESTROY_CQ, on_chan.handle)) == 0, "%d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DESTROY_CQ, cq->handle)) == 0, "%d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DESTROY_CHANNEL, chan.handle)) == 0, "%d", rc);
	EXPECT((rc = raw_call_handle(r, IPC_DEALLOC_PD, pd)) == 0, "%d", rc);
	return bad;
}

int mode_objects(const struct where *w)
{
	struct raw_cq cq, other;
	struct raw r;
	uint32_t pd;
	int bad = 0, rc = raw_open(&r);

	(void)w;
	EXPECT(rc == 0, "%d", rc);
	EXPECT((rc = raw_pd(&r, 99, &pd)) == ENODEV || rc == EINVAL, "PD on device 99: %d", rc);
	rc = raw_pd(&r, 0, &pd) | raw_cq(&r, 0, 0, 64, &cq) | raw_cq(&r, 1, 0, 64, &other);
	EXPECT(rc == 0, "%d", rc);
	bad += regions(&r, pd);
	bad += cqs(&r);
	bad += qps(&r, pd, &cq, &other);
	bad += domains(&r, pd, &cq, &other);
	bad += channels(&r);
	bad += handles(&r);
	bad += in_use(&r, pd, &cq);
	raw_close(&r);
	return bad;
}

/* ---- more than a client's share ---- */

int mode_quota(const struct where *w)
{
	uint32_t pd, h, memory = 0, mrs = 0, qp_count = 0, cq_count = 0;
	struct raw_cq cq, extra;
	struct raw_mr mr;
	struct raw_qp qp;
	struct raw r;
	int bad = 0, rc = raw_open(&r);

	(void)w;
	EXPECT(rc == 0, "%d", rc);
	rc = raw_pd(&r, 0, &pd) | raw_cq(&r, 0, 0, 64, &cq);
	EXPECT(rc == 0, "%d", rc);
	cq_count = 1;
	/* Regions of 1 MiB until the memory quota is used up, then small ones until the limit of regions. */
	uint32_t *list = calloc(100000, sizeof(*list));
	raw_must(list != NULL, "memory");
	while ((rc = raw_mr(&r, pd, 1, (uint64_t)(memory % 256) << 20, 1 << 20, &mr)) == 0 && memory < 4096)
		list[memory++] = mr.handle;
	printf("memory %u MiB, then errno %d: %s\n", memory, rc, r.text);
	for (uint32_t i = 0; i < memory; i++)
		EXPECT((rc = raw_call_handle(&r, IPC_DEREG_MR, list[i])) == 0, "deregister: %d", rc);
	while ((rc = raw_mr(&r, pd, 1, 0, 64, &mr)) == 0 && mrs < 99999)
		list[mrs++] = mr.handle;
	printf("regions %u, then errno %d: %s\n", mrs, rc, r.text);
	for (uint32_t i = 0; i < mrs; i += 2)
		EXPECT((rc = raw_call_handle(&r, IPC_DEREG_MR, list[i])) == 0, "deregister: %d", rc);
	free(list);
	while ((rc = raw_qp(&r, pd, cq.handle, 16, &qp)) == 0 && qp_count < 5000)
		qp_count++;
	printf("queue pairs %u, then errno %d: %s\n", qp_count, rc, r.text);
	while ((rc = raw_cq(&r, 0, 0, 16, &extra)) == 0 && cq_count < 5000)
		cq_count++;
	printf("completion queues %u, then errno %d: %s\n", cq_count, rc, r.text);
	rc = raw_qp(&r, pd, cq.handle, 65536, &qp);
	EXPECT(rc == ENOMEM || rc == EINVAL, "a queue pair of 65536 slots: %d", rc);
	uint32_t pds = 0;
	while ((rc = raw_pd(&r, 0, &h)) == 0 && pds < 1000000)
		pds++;
	printf("protection domains %u, then errno %d: %s\n", pds, rc, r.text);
	uint32_t chans = 0;
	struct raw_chan ch;
	while ((rc = raw_chan(&r, IPC_CHANNEL_COMP, 0, 1, &ch)) == 0 && chans < 500) {
		close(ch.fd); /* the daemon keeps its own descriptor */
		chans++;
	}
	printf("channels %u, then errno %d\n", chans, rc);
	raw_close(&r);
	return bad;
}

/* ---- a listener that never answers ---- */

int mode_never_accepts(const struct where *w)
{
	struct raw_chan cm;
	struct ipc_cm_event ev;
	struct raw r;
	unsigned asked = 0;
	int bad = 0, rc = raw_open(&r);

	(void)w;
	rc = rc | raw_chan(&r, IPC_CHANNEL_CM, 0, 4, &cm);
	struct ipc_msg m = { .type = IPC_CM_CREATE_ID,
			     .len = IPC_MSG_LEN(cm_create_id),
			     .cm_create_id = { .channel = cm.handle } };
	rc = rc | raw_call(&r, &m, -1);
	uint32_t id = m.handle.handle;
	m = (struct ipc_msg){ .type = IPC_CM_BIND,
			      .len = IPC_MSG_LEN(cm_bind),
			      .cm_bind = { .id = id, .addr = raw_addr(RAW_FROM, 7300) } };
	rc = rc | raw_call(&r, &m, -1);
	m = (struct ipc_msg){ .type = IPC_CM_LISTEN,
			      .len = IPC_MSG_LEN(cm_listen),
			      .cm_listen = { .id = id, .backlog = 0xffffffff } };
	rc = rc | raw_call(&r, &m, -1);
	EXPECT(rc == 0, "listening: %d %s", rc, r.text);
	printf("listening\n");
	for (uint64_t end = raw_now_ms() + 6000; raw_now_ms() < end;)
		asked += raw_event(&cm, &ev, 100) && ev.type == 4; /* RDMA_CM_EVENT_CONNECT_REQUEST */
	printf("%u requests, none answered\n", asked);
	raw_close(&r);
	return bad;
}
