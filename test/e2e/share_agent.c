/* SPDX-License-Identifier: BSD-3-Clause */
#include "share_agent.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm_rig.h"

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* ---- messages ---- */

static bool say(int sock, const struct agent_msg *m)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} u = { { 0 } };
	struct iovec iov = { (void *)(uintptr_t)m, sizeof(*m) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (m->fd > 0) {
		h.msg_control = &u;
		h.msg_controllen = sizeof(u);
		*CMSG_FIRSTHDR(&h) = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						       .cmsg_type = SCM_RIGHTS,
						       .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), &m->fd, sizeof(int));
	}
	return sendmsg(sock, &h, MSG_NOSIGNAL) == (ssize_t)sizeof(*m);
}

static bool hear(int sock, struct agent_msg *m)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} u = { { 0 } };
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u) };

	if (recvmsg(sock, &h, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*m))
		return false;
	m->fd = 0;
	if (CMSG_FIRSTHDR(&h) != NULL)
		memcpy(&m->fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(int));
	return true;
}

/* ---- the agent's side ---- */

static struct end me;
static struct ibv_qp *qp;
static struct ibv_mr *theirs;

static int ok(bool good) { return good ? 0 : errno; }

static void gid_words(struct ibv_context *c, uint64_t *words)
{
	union ibv_gid gid = { { 0 } };

	ibv_query_gid(c, 1, 0, &gid);
	memcpy(words, &gid, sizeof(gid));
}

static struct ibv_context *open_with(const uint64_t *words)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *c = NULL;

	for (int i = 0; c == NULL && i < n; i++) {
		uint64_t its[2];
		c = ibv_open_device(list[i]);
		gid_words(c, its);
		if (memcmp(its, words, sizeof(its)) != 0) {
			ibv_close_device(c);
			c = NULL;
		}
	}
	ibv_free_device_list(list);
	return c;
}

static int own(struct agent_msg *m)
{
	void *p;

	if (posix_memalign(&p, 4096, AGENT_BUF) != 0)
		return ENOMEM;
	me.buf = p;
	for (unsigned i = 0; i < AGENT_BUF; i++)
		me.buf[i] = (uint8_t)(i * 7 + 3);
	me.mr = ibv_reg_mr(me.pd, me.buf, AGENT_BUF, RIGHTS);
	if (me.mr == NULL)
		return errno;
	m->a[0] = (uintptr_t)me.buf;
	m->a[1] = me.mr->rkey;
	m->a[2] = me.mr->handle;
	return 0;
}

static int export(struct agent_msg *m)
{
	struct agent_msg r = { 0 };

	me.verbs = open_with(m->a);
	me.pd = me.verbs != NULL ? ibv_alloc_pd(me.verbs) : NULL;
	int rc = me.pd != NULL ? own(&r) : errno;
	if (rc != 0)
		return rc;
	m->a[0] = me.pd->handle;
	m->a[1] = me.mr->handle;
	m->a[2] = r.a[0];
	m->a[3] = r.a[1];
	m->fd = me.verbs->cmd_fd;
	return 0;
}

static int make_qp(struct agent_msg *m)
{
	if (me.cq == NULL)
		me.cq = ibv_create_cq(me.verbs, 64, NULL, NULL, 0);
	qp = me.cq != NULL ? qp_new(&me, IBV_QPT_RC) : NULL;
	if (qp == NULL)
		return errno;
	m->a[0] = qp->qp_num;
	return qp_init(qp);
}

static int post(const struct agent_msg *m)
{
	struct ibv_sge sge = { m->a[1], (uint32_t)m->a[2], (uint32_t)m->a[3] };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = (enum ibv_wr_opcode)m->a[0] }, *bad;

	wr.wr.rdma.remote_addr = m->a[4];
	wr.wr.rdma.rkey = (uint32_t)m->a[5];
	return ibv_post_send(qp, &wr, &bad);
}

static int put_recv(const struct agent_msg *m)
{
	struct ibv_sge sge = { m->a[0], (uint32_t)m->a[1], (uint32_t)m->a[2] };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static int connect_to(const struct agent_msg *m)
{
	union ibv_gid gid;

	memcpy(&gid, m->a + 1, sizeof(gid));
	int rc = qp_rtr(qp, &gid, (uint32_t)m->a[0]);
	return rc != 0 ? rc : qp_rts(qp, 14, 7);
}

static bool undo(void)
{
	bool good = qp == NULL || ibv_destroy_qp(qp) == 0;

	good = (me.cq == NULL || ibv_destroy_cq(me.cq) == 0) && good;
	if (theirs != NULL)
		ibv_unimport_mr(theirs);
	good = (me.mr == NULL || ibv_dereg_mr(me.mr) == 0) && good;
	good = (me.pd == NULL || ibv_dealloc_pd(me.pd) == 0) && good;
	return (me.verbs == NULL || ibv_close_device(me.verbs) == 0) && good;
}

static int serve(struct agent_msg *m)
{
	struct ibv_wc wc;
	int rc;

	switch ((enum agent_op)m->op) {
	case AGENT_EXPORT: return export(m);
	case AGENT_DEVICE:
		me.verbs = ibv_import_device(m->fd);
		if (me.verbs != NULL)
			gid_words(me.verbs, m->a);
		rc = ok(me.verbs != NULL);
		m->fd = 0; /* the context owns the descriptor now */
		return rc;
	case AGENT_TOKEN: m->fd = me.verbs->cmd_fd; return 0;
	case AGENT_PD:
		me.pd = ibv_import_pd(me.verbs, (uint32_t)m->a[0]);
		return ok(me.pd != NULL && me.pd->handle == m->a[0] && me.pd->context == me.verbs);
	case AGENT_MR:
		theirs = ibv_import_mr(me.pd, (uint32_t)m->a[0]);
		if (theirs == NULL)
			return errno;
		m->a[0] = theirs->length;
		m->a[1] = theirs->lkey;
		return theirs->addr == NULL && theirs->rkey == theirs->lkey ? 0 : EPROTO;
	case AGENT_OWN: return own(m);
	case AGENT_QP: return make_qp(m);
	case AGENT_CONNECT: return connect_to(m);
	case AGENT_RECV: return put_recv(m);
	case AGENT_POST: return post(m);
	case AGENT_POLL:
		if (!poll_n(&me, &wc, 1))
			return ETIMEDOUT;
		m->a[0] = (uint64_t)wc.status;
		return 0;
	case AGENT_UNQP:
		rc = ibv_destroy_qp(qp);
		qp = NULL;
		return rc;
	case AGENT_DEREG:
		rc = ibv_dereg_mr(me.mr);
		me.mr = NULL;
		return rc;
	case AGENT_DEALLOC:
		rc = ibv_dealloc_pd(me.pd);
		if (rc == 0)
			me.pd = NULL;
		return rc;
	case AGENT_UNDO: m->a[0] = undo(); return 0;
	}
	return EINVAL;
}

int agent_main(int sock)
{
	struct agent_msg m;

	memset(&me, 0, sizeof(me));
	while (hear(sock, &m)) {
		m.err = (uint32_t)serve(&m);
		if (!say(sock, &m))
			return 1;
	}
	return 0;
}

/* ---- the other side ---- */

static bool child(struct agent *g, int *its)
{
	int s[2];

	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) != 0)
		return false;
	g->sock = s[0];
	*its = s[1];
	g->pid = fork();
	if (g->pid == 0)
		close(s[0]);
	else
		close(s[1]);
	return g->pid >= 0;
}

bool agent_start(struct agent *g, uid_t uid)
{
	char path[256] = "", fd[16];
	int its;

	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0 || !child(g, &its))
		return false;
	if (g->pid > 0)
		return true;
	snprintf(fd, sizeof(fd), "%d", dup(its)); /* without close-on-exec: open in the new program */
	if (uid == 0 || (setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0))
		execl(path, path, "--agent", fd, NULL);
	_exit(127);
}

bool agent_fork(struct agent *g)
{
	int its;

	if (!child(g, &its))
		return false;
	if (g->pid == 0)
		_exit(agent_main(its));
	return true;
}

bool agent_ask(struct agent *g, struct agent_msg *m) { return say(g->sock, m) && hear(g->sock, m); }

bool agent_end(struct agent *g)
{
	int status;

	close(g->sock);
	return waitpid(g->pid, &status, 0) == g->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void agent_kill(struct agent *g)
{
	kill(g->pid, SIGKILL);
	waitpid(g->pid, NULL, 0);
	close(g->sock);
}
