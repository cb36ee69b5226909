/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of RDMA Write-Records; each end is a process of its own. Record m is written to piece m of the target's
 * memory, and each byte is a function of m and of its place; m is also the immediate.
 *
 * usage: ud_record ADDRESS target COUNT MAX [MAPS]
 *		prints its QPN, address and STag; checks each range that a completion reports; ends after COUNT records.
 *		MAPS: number of record maps of its queue pair: the ranges come from the map; bytes between stay 0
 *        ud_record ADDRESS member COUNT MAX GROUP TAG
 *		is a target in the group; writers address its memory from 0 on with the STag TAG. For a line of its
 *		stdin, it binds the tag to the second record's memory and prints "bound"
 *        ud_record ADDRESS writer TO QPN WHERE STAG MAX LEN...
 *		writes records of these lengths in turn, one for each line of its stdin, until stdin ends
 *        ud_record ADDRESS store COUNT MAX
 *		prints the same as a target; its memory holds the records, which readers read until its stdin ends
 *        ud_record ADDRESS reader TO QPN WHERE STAG MAX LEN...
 *		reads records as a writer writes them, and checks each range that a completion reports; the bytes
 *		between stay 0
 */
#include "gram_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_US   20000000 /* longer is a hang */
#define ANSWER_US     5000000  /* after this time an answer is lost, or late */
#define SINKS         16u
#define TARGET_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* Never 0, because the target's memory is filled with 0. */
static uint8_t byte_of(uint32_t m, uint32_t i) { return (uint8_t)((m * 31 + i * 7 + (i >> 8) * 13) | 1); }

static struct ibv_qp *make_qp(struct ibv_cq *cq)
{
	return gram_qp(cq, RNICDV_QPT_UD, (struct ibv_qp_cap){ 4, 4, 1, 1, 0 },
		       IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ);
}

static void check(const uint8_t *p, uint32_t m, uint64_t off, uint32_t len)
{
	for (uint64_t i = off; i < off + len; i++) {
		if (p[i] == byte_of(m, (uint32_t)i))
			continue;
		printf("# record %u: byte %lu is told as valid and wrong\n", m, (unsigned long)i);
		exit(1);
	}
}

static union ibv_gid gid_of(const char *address)
{
	union ibv_gid g = { .raw = { [10] = 0xff, 0xff } };

	must(inet_pton(AF_INET, address, g.raw + 12) == 1, address);
	return g;
}

/* Joins a group: argv is GROUP TAG. First tries bindings that must be refused. */
static void enter(struct ibv_qp *qp, char **argv, struct ibv_mr *mr)
{
	const union ibv_gid group = gid_of(argv[0]), host = gid_of("10.77.0.1");
	const uint32_t tag = (uint32_t)atoi(argv[1]);
	struct ibv_mr *read_only = ibv_reg_mr(e.pd, mr->addr, mr->length, IBV_ACCESS_REMOTE_READ);

	must(read_only != NULL, "ibv_reg_mr");
	must(ibv_attach_mcast(qp, &group, 0) == 0, "ibv_attach_mcast");
	must(rnicdv_group_bind(qp, &group, tag, NULL, NULL, 0) == EINVAL, "a tag that leads nowhere is taken away");
	must(rnicdv_group_bind(qp, &host, tag, mr, mr->addr, mr->length) == EINVAL, "a host's address is a group");
	must(rnicdv_group_bind(qp, &group, tag, read_only, mr->addr, mr->length) == EINVAL, "memory without the right");
	must(rnicdv_group_bind(qp, &group, tag, mr, mr->addr, mr->length + 1) == EINVAL, "more than the memory");
	for (uint32_t i = 0; i < 16; i++)
		must(rnicdv_group_bind(qp, &group, tag + i, mr, mr->addr, 8) == 0, "rnicdv_group_bind");
	must(rnicdv_group_bind(qp, &group, tag + 16, mr, mr->addr, 8) == ENOMEM, "a tag too many");
	must(rnicdv_group_bind(qp, &group, tag, mr, mr->addr, mr->length) == 0, "rnicdv_group_bind");
	must(rnicdv_group_bind(qp, &group, tag + 1, NULL, NULL, 0) == 0, "rnicdv_group_bind");
	must(ibv_dereg_mr(read_only) == 0, "ibv_dereg_mr");
	printf("target %u 0 %u\n", 0xffffff, tag);
}

static bool line_came(void)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && getchar() == '\n';
}

/* argv: as for enter(). */
static void bind_second(struct ibv_qp *qp, char **argv, struct ibv_mr *mr, uint32_t max)
{
	const union ibv_gid group = gid_of(argv[0]);

	must(rnicdv_group_bind(qp, &group, (uint32_t)atoi(argv[1]), mr, (uint8_t *)mr->addr + max, max) == 0,
	     "rnicdv_group_bind");
	printf("bound\n");
	fflush(stdout);
}

/* Checks the ranges of record m's map, each as check() does. Returns the valid bytes. */
static uint32_t check_map(struct ibv_qp *qp, const struct rnicdv_record *r, const uint8_t *p, uint32_t m)
{
	struct rnicdv_map map;
	uint32_t valid = 0;

	must(gram_maps != 0 && rnicdv_read_map(qp, &map) == 0, "rnicdv_read_map");
	must(map.addr == r->addr && map.valid == r->length && map.valid < map.length, "the map is of another record");
	for (uint32_t off = 0, i = 0; off < map.length; off += map.unit, i++) {
		const uint32_t len = map.length - off < map.unit ? map.length - off : map.unit;

		if ((map.segment[i / 64] >> i % 64 & 1) != 0) {
			check(p, m, off, len);
			valid += len;
			continue;
		}
		for (uint32_t k = off; k < off + len; k++)
			must(p[k] == 0, "a byte that is not told as valid has been written");
	}
	must(valid == map.valid, "the map's sum");
	return valid;
}

/* argv: as for enter(), or NULL. */
static int target(uint32_t count, uint32_t max, char **argv)
{
	struct ibv_cq_init_attr_ex ca = {
		.cqe = 4096, .wc_flags = IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_BYTE_LEN
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(e.verbs, &ca);
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_mr *mr;
	uint8_t *at = gram_memory((size_t)count * max, TARGET_ACCESS, &mr);
	uint32_t records = 0, whole = 0;
	unsigned long valid = 0;
	struct rnicdv_record r;

	must(cq != NULL, "ibv_create_cq_ex");
	struct ibv_qp *qp = make_qp(ibv_cq_ex_to_cq(cq));
	if (argv != NULL)
		enter(qp, argv, mr);
	else
		printf("target %u %lu %u\n", qp->qp_num, (unsigned long)(uintptr_t)at, mr->rkey);
	fflush(stdout);
	while (records < count) {
		if (ibv_start_poll(cq, &none) != 0) {
			if (argv != NULL && line_came())
				bind_second(qp, argv, mr, max);
			sched_yield();
			continue;
		}
		must(cq->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(cq) == IBV_WC_DRIVER1, "completion");
		must(rnicdv_wc_read_record(cq, &r) == 0, "rnicdv_wc_read_record");
		const uint32_t m = ntohl(ibv_wc_read_imm_data(cq));
		must(m < count && (ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM) != 0, "immediate");
		must(ibv_wc_read_byte_len(cq) == r.length, "length");
		ibv_end_poll(cq);
		const uint64_t off = r.addr - (uintptr_t)at - (uint64_t)m * max;
		must(off + r.length <= max, "place");
		if ((r.flags & RNICDV_WC_RECORD_MAP) != 0)
			must(check_map(qp, &r, at + (size_t)m * max, m) == r.length, "valid bytes");
		else
			check(at + (size_t)m * max, m, off, r.length);
		must(gram_maps == 0 || (r.flags & RNICDV_WC_RECORD_MORE) == 0, "more than one completion of a record");
		valid += r.length;
		whole += (r.flags & RNICDV_WC_RECORD_WHOLE) != 0;
		if ((r.flags & RNICDV_WC_RECORD_MORE) == 0) {
			records++;
			printf("record %u\n", m);
			fflush(stdout);
		}
	}
	struct rnicdv_map none_left;
	must(rnicdv_read_map(qp, &none_left) == ENOENT, "a map without completion");
	printf("told %u whole %u valid %lu\n", records, whole, valid);
	return ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0 ? 0 : 1;
}

static struct ibv_ah *way_to(const char *address)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.dgid = gid_of(address) };
	struct ibv_ah *ah = ibv_create_ah(e.pd, &attr);
	must(ah != NULL, "ibv_create_ah");
	return ah;
}

/* argv: TO QPN WHERE STAG MAX LEN... */
static int writer(char **argv, uint32_t n_lens)
{
	const uint32_t qpn = (uint32_t)atoi(argv[1]), max = (uint32_t)atoi(argv[4]);
	const uint32_t rkey = (uint32_t)strtoul(argv[3], NULL, 10);
	const uint64_t where = strtoull(argv[2], NULL, 10);
	struct ibv_qp *qp = make_qp(e.cq);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_ah *ah = way_to(argv[0]);
	struct ibv_mr *mr;
	uint8_t *p = gram_memory(max, IBV_ACCESS_LOCAL_WRITE, &mr);
	char line[16];
	struct ibv_wc wc;
	uint32_t m;

	for (m = 0; fgets(line, sizeof(line), stdin) != NULL; m++) {
		const uint32_t len = (uint32_t)atoi(argv[5 + m % n_lens]);

		for (uint32_t i = 0; i < len; i++)
			p[i] = byte_of(m, i);
		ibv_wr_start(ex);
		ex->wr_id = m;
		ibv_wr_rdma_write_imm(ex, rkey, where + (uint64_t)m * max, htonl(m));
		ibv_wr_set_ud_addr(ex, ah, qpn, QKEY);
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)p, len);
		must(ibv_wr_complete(ex) == 0, "ibv_wr_complete");
		while (ibv_poll_cq(e.cq, 1, &wc) == 0)
			sched_yield();
		must(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE, ibv_wc_status_str(wc.status));
	}
	printf("written %u\n", m);
	return ibv_destroy_qp(qp) == 0 && ibv_destroy_ah(ah) == 0 && ibv_dereg_mr(mr) == 0 ? 0 : 1;
}

static int store(uint32_t count, uint32_t max)
{
	struct ibv_mr *mr;
	uint8_t *at = gram_memory((size_t)count * max, IBV_ACCESS_REMOTE_READ, &mr);
	struct ibv_qp *qp = make_qp(e.cq);

	for (uint32_t m = 0; m < count; m++)
		for (uint32_t i = 0; i < max; i++)
			at[(size_t)m * max + i] = byte_of(m, i);
	printf("target %u %lu %u\n", qp->qp_num, (unsigned long)(uintptr_t)at, mr->rkey);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 ? 0 : 1;
}

/* What a reader has received. */
struct heard {
	uint8_t *at; /* SINKS pieces of memory, used in turn, because an answer may come late */
	uint32_t max, whole, lost;
	unsigned long valid;
};

static void check_hole(const uint8_t *p, uint64_t off, uint64_t end)
{
	for (; off < end; off++)
		must(p[off] == 0, "a byte that is not told as valid has been written");
}

/* Waits for the request's completion and for the ranges of the answer to record m, which is requested to `sink`. */
static void take_answer(struct heard *h, uint32_t m, const uint8_t *sink)
{
	bool asked = false, told = false;
	uint64_t end = 0; /* of the latest range */
	struct ibv_wc wc;

	while (!asked || !told) {
		if (rnicdv_poll_cq(e.cq, 1, &wc, asked ? ANSWER_US : PATIENCE_US) == 0) {
			must(asked, "the request has not completed");
			h->lost++;
			return;
		}
		must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		if (wc.opcode == IBV_WC_RDMA_READ) {
			asked = true;
			continue;
		}
		must(wc.opcode == IBV_WC_DRIVER1, "opcode");
		const uint64_t off = wc.wr_id - (uintptr_t)h->at;
		const uint32_t back = (m - (uint32_t)(off / h->max)) % SINKS; /* 0: the record requested last */
		check(h->at + off / h->max * h->max, m - back, off % h->max, wc.byte_len);
		h->valid += wc.byte_len;
		h->whole += (wc.wc_flags & RNICDV_WC_RECORD_WHOLE) != 0;
		if (back != 0)
			continue;
		check_hole(sink, end, off % h->max);
		end = off % h->max + wc.byte_len;
		if ((wc.wc_flags & RNICDV_WC_RECORD_MORE) == 0) {
			check_hole(sink, end, h->max);
			told = true;
		}
	}
}

/* argv: as for writer(). */
static int reader(char **argv, uint32_t n_lens)
{
	const uint32_t qpn = (uint32_t)atoi(argv[1]), rkey = (uint32_t)strtoul(argv[3], NULL, 10);
	const uint64_t where = strtoull(argv[2], NULL, 10);
	struct heard h = { .max = (uint32_t)atoi(argv[4]) };
	struct ibv_qp *qp = make_qp(e.cq);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_ah *ah = way_to(argv[0]);
	struct ibv_mr *mr;
	char line[16];
	uint32_t m;

	h.at = gram_memory((size_t)SINKS * h.max, TARGET_ACCESS, &mr);
	for (m = 0; fgets(line, sizeof(line), stdin) != NULL; m++) {
		uint8_t *sink = h.at + (size_t)(m % SINKS) * h.max;

		memset(sink, 0, h.max);
		ibv_wr_start(ex);
		ex->wr_id = m;
		ibv_wr_rdma_read(ex, rkey, where + (uint64_t)m * h.max);
		ibv_wr_set_ud_addr(ex, ah, qpn, QKEY);
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)sink, (uint32_t)atoi(argv[5 + m % n_lens]));
		must(ibv_wr_complete(ex) == 0, "ibv_wr_complete");
		take_answer(&h, m, sink);
	}
	printf("read %u whole %u lost %u valid %lu\n", m, h.whole, h.lost, h.valid);
	return ibv_destroy_qp(qp) == 0 && ibv_destroy_ah(ah) == 0 && ibv_dereg_mr(mr) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr, "usage: ud_record ADDRESS target COUNT MAX [MAPS]\n"
				"       ud_record ADDRESS store COUNT MAX\n"
				"       ud_record ADDRESS member COUNT MAX GROUP TAG\n"
				"       ud_record ADDRESS writer|reader TO QPN WHERE STAG MAX LEN...\n");
		return 2;
	}
	end_open(&e, argv[1]);
	if (strcmp(argv[2], "target") == 0 && argc == 6)
		gram_maps = (uint32_t)atoi(argv[5]);
	if (strcmp(argv[2], "target") == 0)
		return target((uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), NULL);
	if (strcmp(argv[2], "member") == 0 && argc == 7)
		return target((uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), argv + 5);
	if (strcmp(argv[2], "store") == 0)
		return store((uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
	if (argc <= 8)
		return 2;
	return (strcmp(argv[2], "reader") == 0 ? reader : writer)(argv + 3, (uint32_t)(argc - 8));
}
