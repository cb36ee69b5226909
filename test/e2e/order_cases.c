/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program that polls its memory sees of RDMA Writes, in many rounds: of two Writes to one place the later one
 * wins, no word is older than what stands behind it in the message, and a flag comes after its data. Both ends in one
 * process, over two devices of one daemon.
 *
 * usage: order_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...]	prints "ok NAME" or "not ok NAME" for each case
 *        order_cases --list
 */
#include "cm_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 1000u
#define WORDS  (BUF_LEN / 8 - PART - 8) /* of a message */
#define PART   2048u                    /* of a message that begins with a flag */
#define FLAG   WORDS                    /* in a cache line of its own behind the data */
#define LONE   (BUF_LEN / 8 - 8)        /* a flag that is a message of its own */

static uint64_t *mine[3]; /* two messages to write, and one to read back into */
static struct ibv_mr *mr;

static bool begin(struct joined *j, uint16_t port)
{
	uint64_t *all = aligned_alloc(4096, 3 * BUF_LEN);

	CHECK(all != NULL);
	for (unsigned i = 0; i < 3; i++)
		mine[i] = all + i * BUF_LEN / 8;
	for (unsigned i = 0; i < 3 * BUF_LEN / 8; i++)
		all[i] = 0;
	for (unsigned i = 0; i < BUF_LEN / 8; i++)
		((uint64_t *)(void *)srv.buf)[i] = 0;
	CHECK((mr = ibv_reg_mr(cli.pd, all, 3 * BUF_LEN, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	return join(j, port);
}

static bool end(struct joined *j)
{
	CHECK(part(j));
	CHECK(ibv_dereg_mr(mr) == 0);
	free(mine[0]);
	return true;
}

/* `words` words of mine[from] to the server's word `at`, or from there. */
struct request {
	enum ibv_wr_opcode op;
	unsigned from, words, at;
};

/* All at once, so that all are under way while a segment is missing. */
static bool post(struct joined *j, const struct request *r, unsigned n)
{
	struct ibv_sge g[3];
	struct ibv_send_wr wr[3] = { 0 }, *bad;

	for (unsigned i = 0; i < n; i++) {
		g[i] = (struct ibv_sge){ (uintptr_t)mine[r[i].from], r[i].words * 8, mr->lkey };
		wr[i] = (struct ibv_send_wr){ .next = i + 1 < n ? &wr[i + 1] : NULL,
					      .sg_list = &g[i],
					      .num_sge = 1,
					      .opcode = r[i].op,
					      .send_flags = IBV_SEND_SIGNALED };
		wr[i].wr.rdma.remote_addr = (uintptr_t)srv.buf + r[i].at * 8ull;
		wr[i].wr.rdma.rkey = srv.mr->rkey;
	}
	CHECK(ibv_post_send(j->cid->qp, wr, &bad) == 0);
	return true;
}

/* The word as the RNIC has written it; what is read after this is not older. */
static uint64_t look(unsigned at) { return __atomic_load_n((uint64_t *)(void *)srv.buf + at, __ATOMIC_ACQUIRE); }

/* After the server's word `at`, no word of the data may show an older version. */
static bool none_is_older(unsigned at)
{
	const uint64_t v = look(at);

	for (unsigned i = 0; i < WORDS; i++)
		if (look(i) < v) {
			printf("# word %u is %llu, after word %u was %llu\n", i, (unsigned long long)look(i), at,
			       (unsigned long long)v);
			return false;
		}
	return true;
}

/* Looks at the server's memory until there are n completions: at the word `at`, then at the one that comes before. */
static bool watch(unsigned n, unsigned at, unsigned before)
{
	const time_t limit = time(NULL) + WAIT_MS / 1000;
	struct ibv_wc wc;

	while (n > 0) {
		int k = ibv_poll_cq(cli.cq, 1, &wc);
		CHECK(k >= 0 && (k == 0 || wc.status == IBV_WC_SUCCESS) && time(NULL) < limit);
		n -= (unsigned)k;
		CHECK(none_is_older(at) && none_is_older(before));
	}
	return true;
}

static void version(unsigned which, uint64_t v)
{
	for (unsigned i = 0; i < WORDS; i++)
		mine[which][i] = v;
}

static bool the_later_write_wins(void)
{
	static const struct request all[] = { { IBV_WR_RDMA_WRITE, 0, WORDS, 0 },
					      { IBV_WR_RDMA_WRITE, 1, WORDS, 0 },
					      { IBV_WR_RDMA_READ, 2, WORDS, 0 } };
	struct joined j;

	CHECK(begin(&j, 7960));
	for (uint64_t v = 2; v <= 2 * ROUNDS; v += 2) {
		version(0, v);
		version(1, v + 1);
		CHECK(post(&j, all, 3) && watch(3, WORDS - 1, WORDS - 1));
		for (unsigned i = 0; i < WORDS; i++)
			if (mine[2][i] != v + 1) {
				printf("# version %llu: word %u that was read back is %llu\n",
				       (unsigned long long)v + 1, i, (unsigned long long)mine[2][i]);
				return false;
			}
	}
	return end(&j);
}

static bool a_flag_comes_after_its_data(void)
{
	static const struct request all[] = { { IBV_WR_RDMA_WRITE, 0, WORDS, 0 },
					      { IBV_WR_RDMA_WRITE, 0, PART, FLAG },
					      { IBV_WR_RDMA_WRITE, 0, 1, LONE } };

	struct joined j;

	CHECK(begin(&j, 7961));
	for (uint64_t v = 1; v <= ROUNDS; v++) {
		version(0, v);
		CHECK(post(&j, all, 3) && watch(3, LONE, FLAG));
		while (look(LONE) != v) /* the acknowledgement that completes a Write may come before the bytes show */
			CHECK(none_is_older(LONE));
	}
	return end(&j);
}

static const struct rig_case cases[] = {
	CASE(the_later_write_wins),
	CASE(a_flag_comes_after_its_data),
};

int main(int argc, char **argv) { return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0])); }
