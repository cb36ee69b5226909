/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which queue pairs receive what is sent to a multicast group: queue pairs on two devices of one daemon.
 *
 * usage: mcast_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...] | --list
 *
 * The groups are of the IP version of the devices.
 */
#include "cm_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define QKEY   0x1234u
#define MEMBER 8u /* receives of each member */
#define SLOT   256u

/* A group of IPv4, and one of IPv6. */
static union ibv_gid group_of_4(uint8_t n) { return (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 239, 9, 9, n } }; }
static union ibv_gid group_of_6(uint8_t n) { return (union ibv_gid){ .raw = { 0xff, 0x05, [14] = 9, n } }; }

static bool over_ipv6(void)
{
	union ibv_gid own;

	return ibv_query_gid(srv.verbs, 1, 0, &own) == 0 && (own.raw[10] != 0xff || own.raw[0] != 0);
}

static union ibv_gid group_of(uint8_t n) { return over_ipv6() ? group_of_6(n) : group_of_4(n); }

/* A datagram queue pair that can send and has MEMBER receives. */
static struct ibv_qp *member(struct end *e, bool deaf)
{
	struct ibv_qp_init_attr_ex init = { .send_cq = e->cq,
					    .recv_cq = e->cq,
					    .qp_type = IBV_QPT_UD,
					    .pd = e->pd,
					    .cap = { 16, 16, 1, 1, 0 },
					    .sq_sig_all = 1,
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
					    .create_flags = deaf ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0 };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET, .qkey = QKEY, .port_num = 1 };
	struct ibv_sge sge = { (uintptr_t)e->buf, SLOT, e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_qp *qp = ibv_create_qp_ex(e->verbs, &init);
	int rc = qp == NULL;

	if (rc == 0)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_INIT;
	if (rc == 0)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	for (a.qp_state = IBV_QPS_RTR; rc == 0 && a.qp_state <= IBV_QPS_RTS; a.qp_state++)
		rc = ibv_modify_qp(qp, &a, a.qp_state == IBV_QPS_RTS ? IBV_QP_STATE | IBV_QP_SQ_PSN : IBV_QP_STATE);
	for (uint32_t i = 0; rc == 0 && i < MEMBER; i++)
		rc = ibv_post_recv(qp, &wr, &bad);
	return rc == 0 ? qp : NULL;
}

/* Sends to the group, with the queue pair's number as immediate, and takes the completion. */
static bool say(struct end *e, struct ibv_qp *qp, const union ibv_gid *group, uint32_t qkey)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = *group, .hop_limit = 1 } };
	struct ibv_ah *ah = ibv_create_ah(e->pd, &attr);
	struct ibv_sge sge = { (uintptr_t)e->buf + SLOT, 32, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1000,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = qp->qp_num,
				  .wr.ud = { ah, 0xffffff, qkey } },
			   *bad;
	bool ok = ah != NULL && ibv_post_send(qp, &wr, &bad) == 0;

	return ok && ibv_destroy_ah(ah) == 0;
}

/* Each of these n queue pairs must receive one message, sent by `from`. Completions of Sends are ignored. */
static bool heard(struct end *e, struct ibv_qp *const *qp, int n, uint32_t from, const union ibv_gid *group)
{
	struct ibv_wc wc;
	uint32_t seen = 0;

	for (int got = 0; got < n;) {
		CHECK(poll_n(e, &wc, 1));
		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV)
			continue;
		got++;
		CHECK(wc.byte_len == 32 + 40 && wc.src_qp == from && wc.imm_data == from);
		CHECK(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM));
		CHECK(memcmp(e->buf + 24, group->raw, 16) == 0);
		for (int i = 0; i < n; i++)
			seen |= qp[i]->qp_num == wc.qp_num ? 1u << i : 0;
	}
	CHECK(seen == (1u << n) - 1);
	return true;
}

/* No receive completes within 100 ms. */
static bool deaf(struct end *e)
{
	struct ibv_wc wc;

	usleep(100000);
	while (ibv_poll_cq(e->cq, 1, &wc) > 0)
		CHECK(wc.opcode != IBV_WC_RECV);
	return true;
}

static bool all_in_a_group_hear_and_who_leaves_does_not(void)
{
	const union ibv_gid g = group_of(1), other = group_of(2);
	struct ibv_qp *at_srv[3] = { member(&srv, false), member(&srv, false), member(&srv, false) };
	struct ibv_qp *at_cli[2] = { member(&cli, false), member(&cli, false) };

	CHECK(at_srv[0] && at_srv[1] && at_srv[2] && at_cli[0] && at_cli[1]);
	for (int i = 0; i < 2; i++) {
		CHECK(ibv_attach_mcast(at_srv[i], &g, 0) == 0 && ibv_attach_mcast(at_cli[i], &g, 0) == 0);
		CHECK(ibv_attach_mcast(at_srv[i], &g, 0) == 0); /* attached twice, it still gets one copy */
	}
	CHECK(ibv_attach_mcast(at_srv[2], &other, 0) == 0);
	/* A sender that is a member receives its own message. */
	CHECK(say(&srv, at_srv[0], &g, QKEY));
	CHECK(heard(&srv, at_srv, 2, at_srv[0]->qp_num, &g) && heard(&cli, at_cli, 2, at_srv[0]->qp_num, &g));
	CHECK(deaf(&srv) && deaf(&cli));
	/* A queue pair that is no member may send. */
	CHECK(say(&srv, at_srv[2], &g, QKEY));
	CHECK(heard(&srv, at_srv, 2, at_srv[2]->qp_num, &g) && heard(&cli, at_cli, 2, at_srv[2]->qp_num, &g));
	CHECK(say(&srv, at_srv[0], &g, QKEY + 1)); /* another Q_Key: no member receives it */
	CHECK(deaf(&srv) && deaf(&cli));
	CHECK(ibv_detach_mcast(at_cli[1], &g, 0) == 0 && ibv_detach_mcast(at_cli[1], &g, 0) == EINVAL);
	CHECK(ibv_detach_mcast(at_srv[0], &g, 0) == 0);
	CHECK(say(&srv, at_srv[0], &g, QKEY));
	CHECK(heard(&srv, &at_srv[1], 1, at_srv[0]->qp_num, &g) && heard(&cli, at_cli, 1, at_srv[0]->qp_num, &g));
	/* A queue pair that is destroyed leaves its groups. */
	CHECK(ibv_destroy_qp(at_srv[1]) == 0 && ibv_destroy_qp(at_cli[0]) == 0);
	CHECK(say(&srv, at_srv[0], &g, QKEY));
	CHECK(deaf(&srv) && deaf(&cli));
	CHECK(ibv_destroy_qp(at_srv[0]) == 0 && ibv_destroy_qp(at_srv[2]) == 0 && ibv_destroy_qp(at_cli[1]) == 0);
	return true;
}

static bool who_does_not_want_to_hear_itself(void)
{
	const union ibv_gid g = group_of(3);
	struct ibv_qp *one = member(&srv, true), *two = member(&srv, true);

	CHECK(one != NULL && two != NULL);
	CHECK(ibv_attach_mcast(one, &g, 0) == 0 && ibv_attach_mcast(two, &g, 0) == 0);
	CHECK(say(&srv, one, &g, QKEY));
	CHECK(heard(&srv, &two, 1, one->qp_num, &g) && deaf(&srv));
	CHECK(ibv_destroy_qp(one) == 0 && ibv_destroy_qp(two) == 0);
	return true;
}

static bool there_are_limits(void)
{
	struct ibv_qp *qp[3] = { member(&srv, false), member(&srv, false), member(&srv, false) };
	uint8_t n = 0;

	CHECK(qp[0] && qp[1] && qp[2]);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 16; k++) {
			const union ibv_gid g = group_of(++n);
			CHECK(ibv_attach_mcast(qp[i], &g, 0) == 0);
		}
		const union ibv_gid more = group_of((uint8_t)(n + 1));
		CHECK(ibv_attach_mcast(qp[i], &more, 0) == ENOMEM);
	}
	const union ibv_gid more = group_of((uint8_t)(n + 1)), there = group_of(1);
	CHECK(ibv_attach_mcast(qp[2], &more, 0) == ENOMEM); /* this client's share of the device's groups is used up */
	CHECK(ibv_attach_mcast(qp[2], &there, 0) == 0);
	CHECK(ibv_detach_mcast(qp[0], &there, 0) == 0 && ibv_detach_mcast(qp[2], &there, 0) == 0);
	CHECK(ibv_attach_mcast(qp[2], &more, 0) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(ibv_destroy_qp(qp[i]) == 0);
	return true;
}

/* An embedded program needs a descriptor for the first member of a group; a program over rnicd needs none for groups. */
static bool a_group_is_entered_when_there_is_a_descriptor_again(void)
{
	const union ibv_gid g = group_of(4);
	const int expected = getenv("RNIC_EMBEDDED") != NULL ? EMFILE : 0;
	struct ibv_qp *one = member(&srv, false), *two = member(&srv, false);
	struct rlimit before, none;
	int unused = dup(STDERR_FILENO), rc[2]; /* all numbers below this one are in use */

	CHECK(one != NULL && two != NULL && unused >= 0 && close(unused) == 0);
	CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = (struct rlimit){ .rlim_cur = (rlim_t)unused, .rlim_max = before.rlim_max };
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	rc[0] = ibv_attach_mcast(one, &g, 0);
	rc[1] = ibv_attach_mcast(two, &g, 0);
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
	CHECK(rc[0] == expected && rc[1] == expected);
	CHECK(ibv_detach_mcast(two, &g, 0) == (expected == 0 ? 0 : EINVAL));
	CHECK(ibv_destroy_qp(two) == 0);
	CHECK(ibv_attach_mcast(one, &g, 0) == 0);
	CHECK(say(&srv, one, &g, QKEY) && heard(&srv, &one, 1, one->qp_num, &g));
	CHECK(ibv_destroy_qp(one) == 0);
	return true;
}

static bool a_group_is_of_the_devices_ip_version(void)
{
	const union ibv_gid g = over_ipv6() ? group_of_4(5) : group_of_6(5);
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = g, .hop_limit = 1 } };
	struct ibv_qp *qp = member(&srv, false);

	CHECK(qp != NULL);
	CHECK(ibv_attach_mcast(qp, &g, 0) == EOPNOTSUPP);
	CHECK(ibv_create_ah(srv.pd, &attr) == NULL && errno == EOPNOTSUPP);
	CHECK(ibv_destroy_qp(qp) == 0);
	return true;
}

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = {
		CASE(all_in_a_group_hear_and_who_leaves_does_not),
		CASE(who_does_not_want_to_hear_itself),
		CASE(there_are_limits),
		CASE(a_group_is_entered_when_there_is_a_descriptor_again),
		CASE(a_group_is_of_the_devices_ip_version),
	};

	return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
