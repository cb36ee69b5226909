/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects that one process imports from another. This process exports the objects of `srv`, and its `cli` is the peer
 * over the wire. The importers are agents, processes that run this program's requests (share_agent.h).
 *
 * usage: share_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...] | --list; see cm_rig.h
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cm_rig.h"
#include "share_agent.h"

#define NOBODY           65534
#define ASK(g, ...)      ask((g), &(struct agent_msg){ __VA_ARGS__ }, NULL)
#define ASK_V(g, v, ...) ask((g), &(struct agent_msg){ __VA_ARGS__ }, (v))

/* The answer's errno, or -1 when the agent is gone. v gets the answer's numbers. */
static int ask(struct agent *g, struct agent_msg *m, uint64_t *v)
{
	if (!agent_ask(g, m)) {
		printf("# the agent is gone\n");
		return -1;
	}
	if (v != NULL)
		memcpy(v, m->a, sizeof(m->a));
	return (int)m->err;
}

static void fill(uint8_t *p, uint32_t n, unsigned salt)
{
	for (uint32_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 13 + (i >> 8) + salt);
}

/* The agent imports the context, the PD and a region. */
static bool imports(struct agent *g, int cmd_fd, uint32_t pd, uint32_t mr, uint32_t *lkey)
{
	uint64_t v[6], its[2];
	union ibv_gid gid;

	CHECK(ASK_V(g, v, .op = AGENT_DEVICE, .fd = cmd_fd) == 0);
	CHECK(ibv_query_gid(srv.verbs, 1, 0, &gid) == 0);
	memcpy(its, &gid, sizeof(its));
	CHECK(v[0] == its[0] && v[1] == its[1]); /* the device is the exporter's */
	CHECK(ASK(g, .op = AGENT_PD, .a = { pd }) == 0);
	CHECK(ASK_V(g, v, .op = AGENT_MR, .a = { mr }) == 0 && v[0] == BUF_LEN);
	*lkey = (uint32_t)v[1];
	return true;
}

/* Makes a QP of the agent in its PD and connects it to a new QP of e. */
static struct ibv_qp *join_agent(struct agent *g, struct end *e, struct end *agents)
{
	struct ibv_qp *qp = qp_new(e, IBV_QPT_RC);
	union ibv_gid mine, its;
	uint64_t v[6], words[2];

	if (qp == NULL || qp_init(qp) != 0 || ibv_query_gid(e->verbs, 1, 0, &mine) != 0 ||
	    ibv_query_gid(agents->verbs, 1, 0, &its) != 0 || ASK_V(g, v, .op = AGENT_QP) != 0)
		return NULL;
	memcpy(words, &mine, sizeof(words));
	if (ASK(g, .op = AGENT_CONNECT, .a = { qp->qp_num, words[0], words[1] }) != 0)
		return NULL;
	return qp_rtr(qp, &its, (uint32_t)v[0]) == 0 && qp_rts(qp, 14, 7) == 0 ? qp : NULL;
}

static bool status_is(struct agent *g, enum ibv_wc_status status)
{
	uint64_t v[6];

	CHECK(ASK_V(g, v, .op = AGENT_POLL) == 0);
	if (v[0] != (uint64_t)status)
		printf("# the agent's completion: %s\n", ibv_wc_status_str((enum ibv_wc_status)v[0]));
	return v[0] == (uint64_t)status;
}

static struct ibv_sge part_of_buf(uint32_t off, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)cli.buf + off, len, cli.mr->lkey };
}

/* Posts a work request of the client, to the memory at `there` with rkey; its completion must have this status. */
static bool work(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_sge sge, uint64_t there, uint32_t rkey,
		 enum ibv_wc_status status)
{
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op }, *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = there;
	wr.wr.rdma.rkey = rkey;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0 && poll_n(&cli, &wc, 1));
	if (wc.status != status)
		printf("# completion: %s\n", ibv_wc_status_str(wc.status));
	return wc.status == status;
}

/* All uses of a region by a QP in an imported PD: source, target of the peer, sink of a Read, receive. */
static bool region_serves(struct agent *g, struct ibv_qp *qp, uint32_t lkey)
{
	const uint64_t at = (uintptr_t)srv.buf, there = (uintptr_t)cli.buf;

	memset(cli.buf, 0, BUF_LEN);
	fill(srv.buf, BUF_LEN, 1);
	CHECK(ASK(g, .op = AGENT_POST, .a = { IBV_WR_RDMA_WRITE, at, 40000, lkey, there, cli.mr->rkey }) == 0);
	CHECK(status_is(g, IBV_WC_SUCCESS) && memcmp(srv.buf, cli.buf, 40000) == 0);
	fill(cli.buf, 9000, 2);
	CHECK(work(qp, IBV_WR_RDMA_WRITE, part_of_buf(0, 9000), at + 50000, srv.mr->rkey, IBV_WC_SUCCESS));
	CHECK(memcmp(srv.buf + 50000, cli.buf, 9000) == 0);
	fill(cli.buf, 5000, 3);
	CHECK(ASK(g, .op = AGENT_POST, .a = { IBV_WR_RDMA_READ, at + 100, 5000, lkey, there, cli.mr->rkey }) == 0);
	CHECK(status_is(g, IBV_WC_SUCCESS) && memcmp(srv.buf + 100, cli.buf, 5000) == 0);
	CHECK(work(qp, IBV_WR_RDMA_READ, part_of_buf(20000, 700), at + 100, srv.mr->rkey, IBV_WC_SUCCESS));
	CHECK(memcmp(cli.buf + 20000, srv.buf + 100, 700) == 0);
	CHECK(ASK(g, .op = AGENT_RECV, .a = { at + 30000, 2000, lkey }) == 0);
	fill(cli.buf, 2000, 4);
	CHECK(work(qp, IBV_WR_SEND, part_of_buf(0, 2000), 0, 0, IBV_WC_SUCCESS));
	CHECK(status_is(g, IBV_WC_SUCCESS) && memcmp(srv.buf + 30000, cli.buf, 2000) == 0);
	return true;
}

static bool gone(struct agent *g)
{
	uint64_t v[6];

	CHECK(ASK_V(g, v, .op = AGENT_UNDO) == 0 && v[0] == 1 && agent_end(g));
	return true;
}

/* ---- cases ---- */

static bool another_program_works_with_pd_and_region(void)
{
	struct agent g;
	struct ibv_qp *qp;
	uint32_t lkey;

	CHECK(srv.verbs->cmd_fd >= 0 && agent_start(&g, 0));
	CHECK(imports(&g, srv.verbs->cmd_fd, srv.pd->handle, srv.mr->handle, &lkey));
	CHECK(lkey == srv.mr->lkey && (qp = join_agent(&g, &cli, &srv)) != NULL);
	CHECK(region_serves(&g, qp, lkey));
	CHECK(gone(&g) && ibv_destroy_qp(qp) == 0);
	return true;
}

static bool a_fork_works_with_them(void)
{
	struct agent g;
	struct ibv_qp *qp;
	uint32_t lkey;

	CHECK(agent_fork(&g));
	CHECK(imports(&g, srv.verbs->cmd_fd, srv.pd->handle, srv.mr->handle, &lkey));
	CHECK((qp = join_agent(&g, &cli, &srv)) != NULL && region_serves(&g, qp, lkey));
	CHECK(gone(&g) && ibv_destroy_qp(qp) == 0);
	return true;
}

/*
 * An importer exports what it has imported. A third process imports the objects from the importer, and can use them
 * even if the importer has ended (goes).
 */
static bool what_was_imported_is_imported_from_there(void)
{
	for (int goes = 0; goes < 2; goes++) {
		struct agent_msg m = { .op = AGENT_TOKEN };
		struct agent between, g;
		struct ibv_qp *qp;
		uint32_t lkey;

		CHECK(agent_start(&between, 0) && agent_start(&g, 0));
		CHECK(imports(&between, srv.verbs->cmd_fd, srv.pd->handle, srv.mr->handle, &lkey));
		CHECK(ask(&between, &m, NULL) == 0 && m.fd > 0);
		CHECK(imports(&g, m.fd, srv.pd->handle, srv.mr->handle, &lkey) && lkey == srv.mr->lkey);
		close(m.fd);
		if (goes)
			agent_kill(&between);
		CHECK((qp = join_agent(&g, &cli, &srv)) != NULL && region_serves(&g, qp, lkey));
		CHECK(goes || gone(&between));
		CHECK(gone(&g) && ibv_destroy_qp(qp) == 0);
	}
	return true;
}

/* All in one process: the import is a second name for the same objects. */
static bool the_exporter_itself_imports(void)
{
	struct ibv_context *c = ibv_import_device(dup(srv.verbs->cmd_fd));
	struct ibv_pd *pd = c != NULL ? ibv_import_pd(c, srv.pd->handle) : NULL;
	struct ibv_mr *mr = pd != NULL ? ibv_import_mr(pd, srv.mr->handle) : NULL, *own;

	CHECK(mr != NULL && mr->lkey == srv.mr->lkey && mr->rkey == srv.mr->rkey && mr->pd == pd && mr->addr == NULL);
	CHECK(c->device == srv.verbs->device && c->cmd_fd != srv.verbs->cmd_fd && c->async_fd != srv.verbs->async_fd);
	CHECK((own = ibv_reg_mr(pd, cli.buf, 4096, IBV_ACCESS_LOCAL_WRITE)) != NULL && ibv_dereg_mr(own) == 0);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0 && errno == EINVAL);
	errno = 0;
	CHECK(ibv_import_dm(c, 1) == NULL && errno == EOPNOTSUPP);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	CHECK(ibv_close_device(c) == 0);
	return true;
}

/* One agent exports and the other imports; this process is only the peer. */
static bool trio(struct agent *a, struct agent *b, uint64_t exported[6], uint32_t *lkey, struct ibv_qp **qp)
{
	uint64_t words[2];
	union ibv_gid gid;

	CHECK(agent_start(a, 0) && agent_start(b, 0) && ibv_query_gid(srv.verbs, 1, 0, &gid) == 0);
	memcpy(words, &gid, sizeof(words));
	struct agent_msg m = { .op = AGENT_EXPORT, .a = { words[0], words[1] } };
	CHECK(ask(a, &m, exported) == 0 && m.fd > 0);
	CHECK(imports(b, m.fd, (uint32_t)exported[0], (uint32_t)exported[1], lkey));
	close(m.fd);
	CHECK((*qp = join_agent(b, &cli, &srv)) != NULL);
	return true;
}

static bool regions_outlive_their_process(void)
{
	struct agent a, b;
	struct ibv_qp *qp;
	uint64_t e[6];
	uint32_t lkey;

	CHECK(trio(&a, &b, e, &lkey, &qp));
	agent_kill(&a);
	usleep(200000); /* the daemon has seen the death, and its effects have happened */
	for (unsigned round = 0; round < 20; round++) {
		memset(cli.buf, 0, BUF_LEN);
		CHECK(ASK(&b, .op = AGENT_POST,
			  .a = { IBV_WR_RDMA_WRITE, e[2], AGENT_BUF, lkey, (uintptr_t)cli.buf, cli.mr->rkey }) == 0);
		CHECK(status_is(&b, IBV_WC_SUCCESS));
		for (unsigned i = 0; i < AGENT_BUF; i++)
			CHECK(cli.buf[i] == (uint8_t)(i * 7 + 3));
	}
	CHECK(work(qp, IBV_WR_RDMA_WRITE, part_of_buf(0, 4096), e[2], (uint32_t)e[3], IBV_WC_SUCCESS));
	CHECK(gone(&b) && ibv_destroy_qp(qp) == 0);
	return true;
}

/* The exporter and the importer are killed one after the other, in the middle of their work. */
static bool exporter_and_importer_are_killed(void)
{
	for (int first = 0; first < 2; first++) {
		struct agent a, b;
		struct ibv_qp *qp;
		uint64_t e[6];
		uint32_t lkey;

		CHECK(trio(&a, &b, e, &lkey, &qp));
		for (int i = 0; i < 8; i++)
			CHECK(ASK(&b, .op = AGENT_POST,
				  .a = { IBV_WR_RDMA_WRITE, e[2], AGENT_BUF, lkey, (uintptr_t)cli.buf,
					 cli.mr->rkey }) == 0);
		agent_kill(first == 0 ? &a : &b);
		agent_kill(first == 0 ? &b : &a);
		CHECK(ibv_destroy_qp(qp) == 0);
	}
	return true;
}

/*
 * The exporter deregisters its region. It can deallocate its PD only after the importer has destroyed its QP. Later
 * uses of the region and of the PD must be refused.
 */
static bool a_pd_goes_when_nothing_is_in_it(void)
{
	struct agent a, b;
	struct ibv_qp *qp;
	uint64_t e[6];
	uint32_t lkey;

	CHECK(trio(&a, &b, e, &lkey, &qp));
	CHECK(ASK(&a, .op = AGENT_DEREG) == 0);
	CHECK(ASK(&b, .op = AGENT_POST,
		  .a = { IBV_WR_RDMA_WRITE, e[2], 100, lkey, (uintptr_t)cli.buf, cli.mr->rkey }) == 0);
	CHECK(status_is(&b, IBV_WC_LOC_PROT_ERR));
	CHECK(ASK(&b, .op = AGENT_MR, .a = { e[1] }) == EINVAL);
	CHECK(ASK(&a, .op = AGENT_DEALLOC) == EBUSY); /* the importer's QP is still in the PD */
	CHECK(ASK(&b, .op = AGENT_UNQP) == 0 && ASK(&a, .op = AGENT_DEALLOC) == 0);
	CHECK(ASK(&b, .op = AGENT_QP) == EINVAL && ASK(&b, .op = AGENT_OWN) == EINVAL);
	CHECK(ASK(&b, .op = AGENT_PD, .a = { e[0] }) == EINVAL);
	agent_kill(&b);
	CHECK(gone(&a) && ibv_destroy_qp(qp) == 0);
	return true;
}

/* Connects two QPs of this process: `exporters` in the PD that others import, and `qp`, the peer. */
static bool join_ends(struct ibv_qp **qp, struct ibv_qp **exporters)
{
	union ibv_gid cg, sg;

	CHECK((*qp = qp_new(&cli, IBV_QPT_RC)) != NULL && (*exporters = qp_new(&srv, IBV_QPT_RC)) != NULL);
	CHECK(ibv_query_gid(cli.verbs, 1, 0, &cg) == 0 && ibv_query_gid(srv.verbs, 1, 0, &sg) == 0);
	CHECK(qp_init(*qp) == 0 && qp_init(*exporters) == 0);
	CHECK(qp_rtr(*qp, &sg, (*exporters)->qp_num) == 0 && qp_rts(*qp, 14, 7) == 0);
	CHECK(qp_rtr(*exporters, &cg, (*qp)->qp_num) == 0 && qp_rts(*exporters, 14, 7) == 0);
	return true;
}

static int post_from(struct ibv_qp *qp, uint64_t addr, uint32_t lkey, uint32_t len)
{
	struct ibv_sge sge = { addr, len, lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)cli.buf;
	wr.wr.rdma.rkey = cli.mr->rkey;
	return ibv_post_send(qp, &wr, &bad);
}

/* The exporter's QP writes memory that the agent has registered to the peer. */
static bool sends(struct ibv_qp *qp, uint64_t addr, uint32_t lkey)
{
	struct ibv_wc wc;

	memset(cli.buf, 0, BUF_LEN);
	CHECK(post_from(qp, addr, lkey, AGENT_BUF) == 0 && poll_n(&srv, &wc, 1) && wc.status == IBV_WC_SUCCESS);
	for (unsigned i = 0; i < AGENT_BUF; i++)
		CHECK(cli.buf[i] == (uint8_t)(i * 7 + 3));
	return true;
}

/* The agent imports the exporter's PD and registers memory of its own in it. v begins with address, key and handle. */
static bool registers_its_own(struct agent *g, uint64_t v[6])
{
	uint32_t lkey;

	CHECK(imports(g, srv.verbs->cmd_fd, srv.pd->handle, srv.mr->handle, &lkey));
	return ASK_V(g, v, .op = AGENT_OWN) == 0;
}

/*
 * A region that an importer registers belongs to the PD: the QPs of the exporter and of another importer use the
 * region, and both may import it.
 */
static bool regions_of_an_importer_serve_all(void)
{
	struct agent g, other;
	struct ibv_qp *qp, *exporters, *others;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint64_t v[6];
	uint32_t lkey;

	CHECK(agent_start(&g, 0) && agent_start(&other, 0) && join_ends(&qp, &exporters));
	CHECK(registers_its_own(&g, v));
	CHECK(sends(exporters, v[0], (uint32_t)v[1]));
	CHECK(work(qp, IBV_WR_RDMA_READ, part_of_buf(0, 5000), v[0] + 40, (uint32_t)v[1], IBV_WC_SUCCESS));
	CHECK(cli.buf[100] == (uint8_t)(140 * 7 + 3));
	CHECK((mr = ibv_import_mr(srv.pd, (uint32_t)v[2])) != NULL);
	CHECK(mr->lkey == (uint32_t)v[1] && mr->length == AGENT_BUF && mr->handle == (uint32_t)v[2] &&
	      ibv_dereg_mr(mr) == 0);

	CHECK(imports(&other, srv.verbs->cmd_fd, srv.pd->handle, (uint32_t)v[2], &lkey) && lkey == (uint32_t)v[1]);
	CHECK((others = join_agent(&other, &cli, &srv)) != NULL);
	CHECK(work(others, IBV_WR_RDMA_READ, part_of_buf(0, 5000), v[0], lkey, IBV_WC_SUCCESS) &&
	      cli.buf[100] == (uint8_t)(100 * 7 + 3));

	CHECK(ASK(&g, .op = AGENT_DEREG) == 0 && ibv_import_mr(srv.pd, (uint32_t)v[2]) == NULL && errno == EINVAL);
	CHECK(work(others, IBV_WR_RDMA_READ, part_of_buf(0, 5000), v[0], lkey, IBV_WC_REM_ACCESS_ERR));
	CHECK(post_from(exporters, v[0], lkey, 100) == 0 && poll_n(&srv, &wc, 1) && wc.status == IBV_WC_LOC_PROT_ERR);
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(exporters) == 0 && ibv_destroy_qp(others) == 0);
	CHECK(gone(&g) && gone(&other));
	async_sweep(srv.verbs);
	async_sweep(cli.verbs);
	return true;
}

static bool regions_outlive_their_importer(void)
{
	struct ibv_qp *qp, *exporters;
	struct agent g;
	uint64_t v[6];

	CHECK(agent_start(&g, 0) && join_ends(&qp, &exporters));
	CHECK(registers_its_own(&g, v));
	agent_kill(&g);
	usleep(200000); /* the daemon has seen the death, and its effects have happened */
	for (unsigned round = 0; round < 20; round++)
		CHECK(sends(exporters, v[0], (uint32_t)v[1]));
	CHECK(work(qp, IBV_WR_RDMA_WRITE, part_of_buf(0, 4096), v[0], (uint32_t)v[1], IBV_WC_SUCCESS));
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(exporters) == 0);
	return true;
}

/* The importer ends, in order or killed, while a connection of the exporter sends the importer's memory by Writes. */
static bool importers_go_while_others_send_their_memory(void)
{
	struct ibv_wc wc[16];

	for (int how = 0; how < 6; how++) {
		struct ibv_qp *qp, *exporters;
		struct agent g;
		uint64_t v[6];

		CHECK(agent_start(&g, 0) && join_ends(&qp, &exporters));
		CHECK(registers_its_own(&g, v) && sends(exporters, v[0], (uint32_t)v[1]));
		for (int i = 0; i < 16; i++)
			CHECK(post_from(exporters, v[0], (uint32_t)v[1], AGENT_BUF) == 0);
		if (how % 2 == 0)
			agent_kill(&g);
		else
			CHECK(gone(&g));
		CHECK(poll_n(&srv, wc, 16)); /* each Write completes, with success or with an error */
		CHECK(how % 2 != 0 || wc[15].status == IBV_WC_SUCCESS);
		CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(exporters) == 0);
	}
	async_sweep(srv.verbs);
	async_sweep(cli.verbs);
	return true;
}

static bool refused(int fd, int err)
{
	errno = 0;
	CHECK(ibv_import_device(fd) == NULL);
	if (errno != err)
		printf("# errno %d, not %d\n", errno, err);
	CHECK(errno == err);
	return true;
}

static bool descriptors_that_are_no_context(void)
{
	int any = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), mem = memfd_create("any", MFD_CLOEXEC), p[2];
	struct ibv_context *c = ibv_open_device(srv.verbs->device);

	CHECK(any >= 0 && mem >= 0 && pipe(p) == 0 && c != NULL);
	int token = dup(c->cmd_fd), null = open("/dev/null", O_RDWR);
	CHECK(refused(-1, EBADF) && refused(100000, EBADF) && refused(mem, EINVAL) && refused(p[0], EINVAL));
	CHECK(refused(any, EINVAL) && refused(srv.verbs->async_fd, EINVAL) && refused(null, EINVAL));
	CHECK(ibv_close_device(c) == 0 && refused(token, EINVAL)); /* the token's context is closed */
	CHECK(ibv_import_pd(srv.verbs, 4711) == NULL && errno == EINVAL);
	CHECK(ibv_import_pd(cli.verbs, srv.pd->handle) == NULL && errno == EINVAL); /* a PD of another device */
	CHECK(ibv_import_mr(srv.pd, 4711) == NULL && errno == EINVAL);
	close(any);
	close(mem);
	close(p[0]);
	close(p[1]);
	close(token);
	close(null);
	return true;
}

static bool another_user_may_not(void)
{
	const char *sock = getenv("RNICD_SOCKET");
	char dir[256];
	struct agent g;

	if (geteuid() != 0) {
		printf("# SKIP not root: there is no other user to be\n");
		return true;
	}
	CHECK(sock != NULL && (size_t)snprintf(dir, sizeof(dir), "%s", sock) < sizeof(dir));
	CHECK(chmod(dirname(dir), 0711) == 0 && agent_start(&g, NOBODY)); /* the directory was made for this test */
	CHECK(ASK(&g, .op = AGENT_DEVICE, .fd = srv.verbs->cmd_fd) == EPERM);
	CHECK(agent_end(&g));
	return true;
}

static bool importers_come_and_go(void)
{
	unsigned fds = open_fds();

	for (int i = 0; i < 40; i++) {
		struct ibv_context *c = ibv_import_device(dup(srv.verbs->cmd_fd));
		struct ibv_pd *pd = c != NULL ? ibv_import_pd(c, srv.pd->handle) : NULL;
		CHECK(pd != NULL && ibv_dealloc_pd(pd) == 0 && ibv_close_device(c) == 0);
	}
	CHECK(open_fds() == fds);
	for (int i = 0; i < 3; i++) {
		struct agent g;
		uint32_t lkey;
		CHECK(agent_start(&g, 0));
		CHECK(imports(&g, srv.verbs->cmd_fd, srv.pd->handle, srv.mr->handle, &lkey));
		if (i == 1)
			agent_kill(&g);
		else if (i == 0)
			CHECK(agent_end(&g));
		else
			CHECK(gone(&g));
	}
	return true;
}

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = {
		CASE(another_program_works_with_pd_and_region),
		CASE(a_fork_works_with_them),
		CASE(what_was_imported_is_imported_from_there),
		CASE(the_exporter_itself_imports),
		CASE(regions_outlive_their_process),
		CASE(exporter_and_importer_are_killed),
		CASE(a_pd_goes_when_nothing_is_in_it),
		CASE(regions_of_an_importer_serve_all),
		CASE(regions_outlive_their_importer),
		CASE(importers_go_while_others_send_their_memory),
		CASE(descriptors_that_are_no_context),
		CASE(another_user_may_not),
		CASE(importers_come_and_go),
	};

	if (argc == 3 && strcmp(argv[1], "--agent") == 0)
		return agent_main(atoi(argv[2]));
	return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
