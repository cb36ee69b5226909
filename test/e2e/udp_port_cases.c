/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram queue pairs with a UDP port of their own: all ends in one process, over two devices.
 *
 * usage: udp_port_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...] | --list
 */
#include "gram_end.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMON_PORT 4793u /* datagram-port */
#define PORT        7100u
#define LEN         100u
#define SLOT        512u
#define LONG        4000u /* bytes of a message of several segments */

/* Whether the device refuses a queue pair with this UDP port, with this errno. */
static bool refused(struct end *at, uint16_t port, int err)
{
	struct rnicdv_qp_attr dv = { .comp_mask = RNICDV_QP_ATTR_UDP_PORT, .type = RNICDV_QPT_UD, .udp_port = port };
	struct ibv_qp_init_attr_ex init = { .send_cq = at->cq,
					    .recv_cq = at->cq,
					    .qp_type = IBV_QPT_UD,
					    .pd = at->pd,
					    .cap = { 1, 1, 1, 1, 0 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD };

	errno = 0;
	CHECK(rnicdv_create_qp(at->verbs, &init, &dv) == NULL && errno == err);
	return true;
}

/* A queue pair in RTS with one receive. port 0: none of its own. */
static struct ibv_qp *make(struct end *at, uint16_t port)
{
	struct ibv_sge sge = { (uintptr_t)at->buf, SLOT, at->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	e = *at;
	gram_port = port;
	struct ibv_qp *qp = gram_qp(at->cq, RNICDV_QPT_UD, (struct ibv_qp_cap){ 4, 4, 1, 1, 0 }, 0);
	must(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
	return qp;
}

static bool say(struct end *from, struct ibv_qp *qp, const union ibv_gid *to, uint32_t qpn)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = *to, .hop_limit = 1 } };
	struct ibv_ah *ah = ibv_create_ah(from->pd, &attr);
	struct ibv_sge sge = { (uintptr_t)from->buf + SLOT, LEN, from->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = { ah, qpn, QKEY } },
			   *bad;

	CHECK(ah != NULL && ibv_post_send(qp, &wr, &bad) == 0);
	CHECK(ibv_destroy_ah(ah) == 0);
	return true;
}

/* The next receive that completes at the device must be a message from this queue pair. */
static bool heard(struct end *at, uint32_t from)
{
	struct ibv_wc wc = { .opcode = IBV_WC_SEND };

	while (wc.opcode == IBV_WC_SEND) {
		CHECK(poll_n(at, &wc, 1));
		CHECK(wc.status == IBV_WC_SUCCESS);
	}
	CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == 40 + LEN && wc.src_qp == from);
	return true;
}

static bool meet(struct end *from, uint16_t from_port, struct end *to, uint16_t to_port)
{
	struct ibv_qp *a = make(from, from_port), *b = make(to, to_port);
	union ibv_gid gid;

	CHECK(ibv_query_gid(to->verbs, 1, 0, &gid) == 0);
	CHECK(say(from, a, &gid, b->qp_num) && heard(to, a->qp_num));
	CHECK(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
	return true;
}

static bool queue_pairs_of_one_process_meet(void) { return meet(&srv, 0, &srv, 0) && meet(&srv, 0, &cli, 0); }

static bool queue_pairs_of_one_process_with_ports_meet(void)
{
	struct end *const ends[] = { &srv, &cli };

	for (int i = 0; i < 2; i++) {
		CHECK(meet(&srv, PORT, ends[i], 0));
		CHECK(meet(&srv, 0, ends[i], PORT));
		CHECK(meet(&srv, PORT, ends[i], PORT + 1));
	}
	return true;
}

static bool a_port_has_one_queue_pair_of_a_device(void)
{
	struct ibv_qp *at_srv = make(&srv, PORT), *at_cli = make(&cli, PORT);

	CHECK(refused(&srv, PORT, EADDRINUSE) && refused(&cli, PORT, EADDRINUSE));
	CHECK(refused(&srv, COMMON_PORT, EACCES));
	for (int i = 0; i < 3; i++) {
		CHECK(ibv_destroy_qp(at_srv) == 0);
		at_srv = make(&srv, PORT);
		CHECK(refused(&srv, PORT, EADDRINUSE));
	}
	CHECK(ibv_destroy_qp(at_srv) == 0 && ibv_destroy_qp(at_cli) == 0);
	return true;
}

/* Sends a message of several segments with this first byte over a queue pair with PORT, which is destroyed then. */
static bool tell_long(const union ibv_gid *to, uint32_t qpn, uint8_t first)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = *to, .hop_limit = 1 } };
	struct ibv_qp *qp = make(&cli, PORT);
	struct ibv_ah *ah = ibv_create_ah(cli.pd, &attr);
	struct ibv_sge sge = { (uintptr_t)cli.buf, LONG, cli.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = { ah, qpn, QKEY } },
			   *bad;
	struct ibv_wc wc;

	cli.buf[0] = first;
	CHECK(ah != NULL && ibv_post_send(qp, &wr, &bad) == 0);
	CHECK(poll_n(&cli, &wc, 1) && wc.status == IBV_WC_SUCCESS);
	CHECK(ibv_destroy_ah(ah) == 0 && ibv_destroy_qp(qp) == 0);
	return true;
}

/* The numbers of the messages of a queue pair's predecessor at the same port are remembered for a second. */
static bool the_next_queue_pair_of_a_port_is_heard_at_once(void)
{
	struct ibv_qp *to = make(&srv, 0);
	struct ibv_sge sge = { (uintptr_t)srv.buf, 40 + LONG, srv.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc;
	union ibv_gid gid;

	CHECK(ibv_query_gid(srv.verbs, 1, 0, &gid) == 0);
	for (uint8_t i = 0; i < 3; i++) {
		CHECK(ibv_post_recv(to, &wr, &bad) == 0);
		if (i == 0) { /* takes the receive that make() has posted */
			CHECK(say(&srv, to, &gid, to->qp_num) && heard(&srv, to->qp_num));
		}
		CHECK(tell_long(&gid, to->qp_num, (uint8_t)(i + 1)));
		CHECK(poll_n(&srv, &wc, 1) && wc.status == IBV_WC_SUCCESS && wc.byte_len == 40 + LONG);
		CHECK(srv.buf[40] == i + 1);
	}
	CHECK(ibv_destroy_qp(to) == 0);
	return true;
}

static bool a_child_does_not_keep_its_parents_port(void)
{
	struct ibv_qp *qp = make(&srv, PORT);
	int ready[2];
	char byte = 0;

	CHECK(pipe(ready) == 0);
	pid_t child = fork();
	if (child == 0)
		for (must(write(ready[1], &byte, 1) == 1, "write");;)
			pause();
	CHECK(child > 0 && read(ready[0], &byte, 1) == 1 && close(ready[0]) == 0 && close(ready[1]) == 0);
	CHECK(ibv_destroy_qp(qp) == 0);
	qp = make(&srv, PORT);
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	CHECK(ibv_destroy_qp(qp) == 0);
	return true;
}

static bool groups_are_heard_and_spoken_to(void)
{
	const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 9, 8, 1 } };
	struct ibv_qp *own = make(&srv, PORT), *common = make(&srv, 0);

	CHECK(ibv_attach_mcast(common, &group, 0) == 0);
	CHECK(say(&srv, own, &group, 0xffffff) && heard(&srv, own->qp_num));
	CHECK(ibv_detach_mcast(common, &group, 0) == 0 && ibv_attach_mcast(own, &group, 0) == 0);
	CHECK(say(&srv, common, &group, 0xffffff) && heard(&srv, common->qp_num));
	CHECK(ibv_destroy_qp(own) == 0 && ibv_destroy_qp(common) == 0);
	return true;
}

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = {
		CASE(queue_pairs_of_one_process_meet),       CASE(queue_pairs_of_one_process_with_ports_meet),
		CASE(a_port_has_one_queue_pair_of_a_device), CASE(a_child_does_not_keep_its_parents_port),
		CASE(groups_are_heard_and_spoken_to),        CASE(the_next_queue_pair_of_a_port_is_heard_at_once),
	};

	return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
