/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process of extended reliable connections, initiator, target or both, which runs commands from stdin. It has one
 * PD, one CQ and one region that peers may write and read; each receive is for SLOT bytes of this region.
 *
 * usage: xrc_end DEVICE
 * commands, and the NUMBERS of the answer; each command is answered with a line "ok [NUMBERS]" or "err ERRNO"
 *   gid			the device's GID: two words, hexadecimal
 *   mem			address and rkey of the region
 *   open FILE|- FLAGS		opens an XRC domain; FLAGS: c (O_CREAT), x (O_EXCL), n (neither)
 *   srq			makes a shared receive queue: its number
 *   recv SLOT...		posts receives
 *   target | ini		makes a queue pair in INIT: its number
 *   openqp NUMBER		opens a target that another process has made: its state
 *   join t|i NUMBER GID GID	brings the queue pair to RTS, with this peer
 *   send SRQN LENGTH SALT | imm ...	posts a Send
 *   write ADDRESS RKEY LENGTH SALT | read ADDRESS RKEY LENGTH
 *   poll			waits for a completion: status, opcode, wr_id, bytes, immediate
 *   empty			1 when there is no completion, otherwise 0
 *   check SLOT LENGTH SALT	1 when the slot has these bytes, otherwise 0
 *   event			waits for an asynchronous event: its type
 *   state t|i			the queue pair's state
 *   error t|i			moves the queue pair to ERR
 *   destroy t|i|srq|xrcd
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define SLOT  65536u
#define SLOTS 16u
#define WORDS 8

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_xrcd *xrcd, *opened[32]; /* xrcd: the last domain opened; opened: all of them */
static unsigned n_opened;
static struct ibv_srq *srq;
static struct ibv_qp *target, *ini;
static uint8_t *buf;

static int no(void)
{
	printf("err %d\n", errno);
	return 0;
}

static int done(int rc)
{
	if (rc == 0)
		printf("ok\n");
	else
		printf("err %d\n", rc);
	return 0;
}

static int number(uint64_t n)
{
	printf("ok %" PRIu64 "\n", n);
	return 0;
}

static uint8_t byte_of(uint32_t i, unsigned salt) { return (uint8_t)(i * 13 + (i >> 8) + salt); }

static struct ibv_qp *qp_of(const char *w) { return w[0] == 't' ? target : ini; }

/* ---- commands ---- */

static int open_domain(char **w)
{
	struct ibv_xrcd_init_attr a = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1 };

	if (strcmp(w[1], "-") != 0)
		a.fd = open(w[1], O_RDONLY);
	if (strchr(w[2], 'c') != NULL)
		a.oflags |= O_CREAT;
	if (strchr(w[2], 'x') != NULL)
		a.oflags |= O_EXCL;
	xrcd = ibv_open_xrcd(ctx, &a);
	int rc = xrcd != NULL ? 0 : errno;
	if (xrcd != NULL && n_opened < sizeof(opened) / sizeof(opened[0]))
		opened[n_opened++] = xrcd;
	if (a.fd >= 0)
		close(a.fd);
	return done(rc);
}

static int make_srq(char **w)
{
	struct ibv_srq_init_attr_ex a = { .attr = { .max_wr = SLOTS, .max_sge = 1 },
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						       IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					  .srq_type = IBV_SRQT_XRC,
					  .pd = pd,
					  .xrcd = xrcd,
					  .cq = cq };
	uint32_t num = 0;

	(void)w;
	srq = ibv_create_srq_ex(ctx, &a);
	if (srq == NULL)
		return no();
	return ibv_get_srq_num(srq, &num) == 0 ? number(num) : no();
}

static int post_recvs(char **w)
{
	for (int i = 1; w[i] != NULL; i++) {
		const uint32_t slot = (uint32_t)strtoul(w[i], NULL, 0);
		struct ibv_sge sge = { (uintptr_t)buf + slot * SLOT, SLOT, mr->lkey };
		struct ibv_recv_wr r = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;
		int rc = ibv_post_srq_recv(srq, &r, &bad);
		if (rc != 0)
			return done(rc);
	}
	return done(0);
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = qp == target ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
								 : 0 };

	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
}

static int make_qp(char **w)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = xrcd };
	const bool is_target = strcmp(w[0], "target") == 0;
	struct ibv_qp *qp;

	if (!is_target)
		a = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_SEND,
						  .send_cq = cq,
						  .cap = { .max_send_wr = 64, .max_send_sge = 1 },
						  .sq_sig_all = 1,
						  .comp_mask = IBV_QP_INIT_ATTR_PD,
						  .pd = pd };
	qp = ibv_create_qp_ex(ctx, &a);
	if (qp == NULL)
		return no();
	*(is_target ? &target : &ini) = qp;
	int rc = to_init(qp);
	return rc != 0 ? done(rc) : number(qp->qp_num);
}

static int open_target(char **w)
{
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
				      .qp_num = (uint32_t)strtoul(w[1], NULL, 0),
				      .xrcd = xrcd,
				      .qp_type = IBV_QPT_XRC_RECV };

	target = ibv_open_qp(ctx, &a);
	return target != NULL ? number(target->state) : no();
}

static int join(char **w)
{
	struct ibv_qp *qp = qp_of(w[1]);
	const uint64_t gid[2] = { strtoull(w[3], NULL, 16), strtoull(w[4], NULL, 16) };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .dest_qp_num = (uint32_t)strtoul(w[2], NULL, 0),
				 .path_mtu = IBV_MTU_1024,
				 .max_dest_rd_atomic = 4,
				 .ah_attr = { .is_global = 1, .port_num = 1 } };
	int rc;

	memcpy(&a.ah_attr.grh.dgid, gid, sizeof(gid));
	rc = ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4
	};
	if (rc == 0)
		rc = ibv_modify_qp(qp, &a,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
	return done(rc);
}

/* Sends or writes from the last slot; a Read writes into the last slot. */
static int post(struct ibv_send_wr *s, uint32_t len, const char *salt)
{
	uint8_t *from = buf + (SLOTS - 1) * SLOT;
	struct ibv_sge sge = { (uintptr_t)from, len, mr->lkey };
	struct ibv_send_wr *bad;

	for (uint32_t i = 0; salt != NULL && i < len; i++)
		from[i] = byte_of(i, (unsigned)strtoul(salt, NULL, 0));
	s->sg_list = &sge;
	s->num_sge = 1;
	return done(ibv_post_send(ini, s, &bad));
}

static int send_one(char **w)
{
	struct ibv_send_wr s = { .opcode = w[0][0] == 'i' ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, .imm_data = 77 };

	s.qp_type.xrc.remote_srqn = (uint32_t)strtoul(w[1], NULL, 0);
	return post(&s, (uint32_t)strtoul(w[2], NULL, 0), w[3]);
}

static int access_one(char **w)
{
	struct ibv_send_wr s = { .opcode = w[0][0] == 'w' ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ };

	s.wr.rdma.remote_addr = strtoull(w[1], NULL, 0);
	s.wr.rdma.rkey = (uint32_t)strtoul(w[2], NULL, 0);
	return post(&s, (uint32_t)strtoul(w[3], NULL, 0), w[4]);
}

static int poll_one(char **w)
{
	struct ibv_wc wc;
	int n;

	(void)w;
	do {
		n = ibv_poll_cq(cq, 1, &wc);
		if (n == 0)
			usleep(100);
	} while (n == 0);
	if (n < 0)
		return no();
	printf("ok %d %d %" PRIu64 " %u %u\n", wc.status, wc.opcode, wc.wr_id, wc.byte_len,
	       (wc.wc_flags & IBV_WC_WITH_IMM) != 0 ? wc.imm_data : 0);
	return 0;
}

static int is_empty(char **w)
{
	struct ibv_wc wc;

	(void)w;
	return number(ibv_poll_cq(cq, 1, &wc) == 0);
}

static int check(char **w)
{
	const uint8_t *at = buf + strtoul(w[1], NULL, 0) * SLOT;
	const uint32_t len = (uint32_t)strtoul(w[2], NULL, 0);
	uint32_t i = 0;

	while (i < len && at[i] == byte_of(i, (unsigned)strtoul(w[3], NULL, 0)))
		i++;
	return number(i == len);
}

static int event(char **w)
{
	struct ibv_async_event e;

	(void)w;
	if (ibv_get_async_event(ctx, &e) != 0)
		return no();
	ibv_ack_async_event(&e);
	return number((uint64_t)e.event_type);
}

static int state(char **w)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	int rc = ibv_query_qp(qp_of(w[1]), &a, IBV_QP_STATE, &init);

	return rc != 0 ? done(rc) : number((uint64_t)a.qp_state);
}

static int error(char **w)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	return done(ibv_modify_qp(qp_of(w[1]), &a, IBV_QP_STATE));
}

static int destroy(char **w)
{
	if (strcmp(w[1], "srq") == 0)
		return done(ibv_destroy_srq(srq));
	if (strcmp(w[1], "xrcd") == 0)
		return done(ibv_close_xrcd(xrcd));
	return done(ibv_destroy_qp(qp_of(w[1])));
}

static int gid(char **w)
{
	uint64_t words[2];
	union ibv_gid g;

	(void)w;
	if (ibv_query_gid(ctx, 1, 0, &g) != 0)
		return no();
	memcpy(words, &g, sizeof(words));
	printf("ok %" PRIx64 " %" PRIx64 "\n", words[0], words[1]);
	return 0;
}

static int mem(char **w)
{
	(void)w;
	printf("ok %" PRIu64 " %u\n", (uint64_t)(uintptr_t)buf, mr->rkey);
	return 0;
}

static const struct command {
	const char *name;
	int args; /* least number of arguments */
	int (*run)(char **w);
} commands[] = {
	{ "gid", 0, gid },         { "mem", 0, mem },        { "open", 2, open_domain }, { "srq", 0, make_srq },
	{ "recv", 0, post_recvs }, { "target", 0, make_qp }, { "ini", 0, make_qp },      { "openqp", 1, open_target },
	{ "join", 4, join },       { "send", 3, send_one },  { "imm", 3, send_one },     { "write", 4, access_one },
	{ "read", 3, access_one }, { "poll", 0, poll_one },  { "empty", 0, is_empty },   { "check", 3, check },
	{ "event", 0, event },     { "state", 1, state },    { "error", 1, error },      { "destroy", 1, destroy },
};

static int obey(char *line)
{
	char *w[SLOTS + WORDS] = { NULL };
	int n = 0;

	for (char *p = strtok(line, " \n"); p != NULL && n < (int)(sizeof(w) / sizeof(w[0])) - 1;
	     p = strtok(NULL, " \n"))
		w[n++] = p;
	for (size_t i = 0; n > 0 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(w[0], commands[i].name) == 0 && n > commands[i].args)
			return commands[i].run(w);
	return done(ENOSYS);
}

static bool begin(const char *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list != NULL && list[i] != NULL && ctx == NULL; i++)
		if (strcmp(ibv_get_device_name(list[i]), device) == 0)
			ctx = ibv_open_device(list[i]);
	if (list != NULL)
		ibv_free_device_list(list);
	pd = ctx != NULL ? ibv_alloc_pd(ctx) : NULL;
	cq = pd != NULL ? ibv_create_cq(ctx, 256, NULL, NULL, 0) : NULL;
	if (cq == NULL || posix_memalign((void **)&buf, 4096, SLOTS * SLOT) != 0)
		return false;
	memset(buf, 0, SLOTS * SLOT);
	mr = ibv_reg_mr(pd, buf, SLOTS * SLOT,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	return mr != NULL;
}

int main(int argc, char **argv)
{
	char line[256];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 2 || !begin(argv[1])) {
		perror("xrc_end");
		return 1;
	}
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin) != NULL)
		obey(line);
	return 0;
}
