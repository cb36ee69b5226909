/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long bursts: bytes that are streamed past the caches are all in memory before a completion tells of them or anything
 * reads them, and the last byte of a message is never visible before the rest.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "qp/qp_int.h"
#include "rig.h"

#define BIG   20000u /* bytes of a message of three segments */
#define BLANK 0xEE
#define SRC   (1u << 20)

static struct rig *R;
static struct rig_node *A, *B;

static int up(void **state)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.mtu = 9000;
	cfg.bulk = true;
	R = rig_new(&cfg);
	A = &R->n[0];
	B = &R->n[1];
	rig_connect(R, 0);
	for (uint32_t i = 0; i < 2 * SRC; i++)
		A->mem[i] = (uint8_t)(i * 7 + i / 253);
	memset(B->mem, BLANK, RIG_MEM);
	(void)state;
	return 0;
}

static int down(void **state)
{
	(void)state;
	rig_free(R);
	return 0;
}

static void post_write(uint32_t from, uint32_t to, uint32_t len)
{
	const struct qp_sge src = rig_sge(A, from, len);
	const struct rig_wr w = {
		.op = QP_WR_WRITE, .sge = &src, .num_sge = 1, .raddr = RIG_IOVA(1) + to, .rkey = B->rkey
	};

	assert_true(rig_post(A, 0, &w));
}

/* All posted messages arrive, and B's turn does not end. */
static void arrive(void)
{
	B->paused = true;
	rig_run(R, 200 * RN_NS_PER_US);
}

static void turn(void)
{
	B->paused = false;
	rig_settle(R);
}

static void the_end_comes_last(void **state)
{
	(void)state;
	post_write(100, 100, BIG);
	arrive();
	assert_memory_equal(B->mem + 100, A->mem + 100, BIG - 64);
	assert_int_equal(B->mem[100 + BIG - 1], BLANK);
	turn();
	assert_memory_equal(B->mem + 100, A->mem + 100, BIG);
	assert_int_equal(B->mem[99], BLANK);
	assert_int_equal(B->mem[100 + BIG], BLANK);
}

static void short_bursts_wait_for_nothing(void **state)
{
	(void)state;
	R->cfg.bulk = false;
	post_write(100, 100, BIG);
	arrive();
	assert_memory_equal(B->mem + 100, A->mem + 100, BIG);
	turn();
}

/* As applications do that poll memory: data, then a flag by another Write. */
static void a_flag_comes_after_the_data(void **state)
{
	(void)state;
	post_write(0, 0, BIG);
	post_write(64, 300000, 8);
	arrive();
	assert_int_equal(B->mem[300000], BLANK);
	assert_int_equal(B->mem[300007], BLANK);
	turn();
	assert_memory_equal(B->mem, A->mem, BIG);
	assert_memory_equal(B->mem + 300000, A->mem + 64, 8);
}

static void later_writes_win(void **state)
{
	(void)state;
	post_write(0, 0, BIG);
	post_write(SRC, BIG - 20, 8);            /* into the end, which is held back */
	post_write(SRC + 100, BIG - 5000, 9000); /* across the streamed bytes and the end */
	post_write(SRC + 64, BIG - 4, 4);
	turn();
	assert_memory_equal(B->mem, A->mem, BIG - 5000);
	assert_memory_equal(B->mem + BIG - 5000, A->mem + SRC + 100, 5000 - 4);
	assert_memory_equal(B->mem + BIG - 4, A->mem + SRC + 64, 4);
	assert_memory_equal(B->mem + BIG, A->mem + SRC + 5100, 4000);
}

/* A message that comes in several slices is not streamed. */
static void later_writes_win_in_pieces_too(void **state)
{
	(void)state;
	B->paused = true;
	post_write(0, 0, BIG);
	rig_run(R, RN_NS_PER_US); /* the first Write is under way */
	R->cfg.split = true;
	post_write(SRC, BIG - 3000, 3000);
	arrive();
	turn();
	assert_memory_equal(B->mem, A->mem, BIG - 3000);
	assert_memory_equal(B->mem + BIG - 3000, A->mem + SRC, 3000);
}

static void many_messages(void **state)
{
	const uint32_t len = 5001;

	(void)state;
	for (uint32_t i = 0; i < 60; i++)
		post_write(i * len, i * 8000 + i, len);
	turn();
	for (uint32_t i = 0; i < 60; i++) {
		assert_memory_equal(B->mem + i * 8000 + i, A->mem + i * len, len);
		assert_int_equal(B->mem[i * 8000 + i + len], BLANK);
	}
}

static void a_read_sees_what_was_written_before(void **state)
{
	const struct qp_sge sink = rig_sge(A, 3 * SRC, BIG);
	const struct rig_wr read = { .wr_id = 1,
				     .op = QP_WR_READ,
				     .flags = QP_WF_SIGNALED,
				     .sge = &sink,
				     .num_sge = 1,
				     .raddr = RIG_IOVA(1),
				     .rkey = B->rkey };

	(void)state;
	post_write(0, 0, BIG);
	assert_true(rig_post(A, 0, &read));
	assert_int_equal(rig_wait(R, &A->scq_client).status, QP_WC_SUCCESS);
	assert_memory_equal(A->mem + 3 * SRC, A->mem, BIG);
}

static void an_atomic_sees_what_was_written_before(void **state)
{
	const struct qp_sge sink = rig_sge(A, 3 * SRC, 8);
	const struct rig_wr add = { .wr_id = 1,
				    .op = QP_WR_FETCH_ADD,
				    .flags = QP_WF_SIGNALED,
				    .sge = &sink,
				    .num_sge = 1,
				    .raddr = RIG_IOVA(1) + BIG - 8,
				    .rkey = B->rkey,
				    .operand = 1 };
	uint64_t want, got;

	(void)state;
	post_write(0, 0, BIG);
	assert_true(rig_post(A, 0, &add));
	assert_int_equal(rig_wait(R, &A->scq_client).status, QP_WC_SUCCESS);
	assert_memory_equal(A->mem + 3 * SRC, A->mem + BIG - 8, 8);
	memcpy(&want, A->mem + BIG - 8, 8);
	memcpy(&got, B->mem + BIG - 8, 8);
	assert_true(got == want + 1);
}

/* A Send over several pieces of a receive, the last of which is short. */
static void a_send_is_whole_when_it_completes(void **state)
{
	const struct qp_sge src = rig_sge(A, 0, BIG);
	const struct qp_sge dst[3] = { rig_sge(B, 0, 7000), rig_sge(B, 100000, BIG - 7000 - 30),
				       rig_sge(B, 200000, 30) };
	const struct rig_wr w = { .op = QP_WR_SEND, .sge = &src, .num_sge = 1 };

	(void)state;
	assert_true(rig_post_recv(B, 0, 5, dst, 3));
	assert_true(rig_post(A, 0, &w));
	const struct qp_cqe e = rig_wait(R, &B->rcq_client);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.byte_len, BIG);
	assert_memory_equal(B->mem, A->mem, 7000);
	assert_memory_equal(B->mem + 100000, A->mem + 7000, BIG - 7000 - 30);
	assert_memory_equal(B->mem + 200000, A->mem + BIG - 30, 30);
	assert_int_equal(B->mem[200030], BLANK);
}

/* A Send of which every segment has been received; the receiver's turn has not ended. */
static void send_and_receive(void)
{
	const struct qp_sge src = rig_sge(A, 0, BIG), dst = rig_sge(B, 0, BIG);
	const struct rig_wr w = { .op = QP_WR_SEND, .sge = &src, .num_sge = 1 };

	assert_true(rig_post_recv(B, 0, 5, &dst, 1));
	assert_true(rig_post(A, 0, &w));
	arrive();
}

static void a_short_burst_completes_before_the_turn_ends(void **state)
{
	struct qp_cqe e;

	(void)state;
	R->cfg.bulk = false;
	send_and_receive();
	assert_false(rig_poll(&B->rcq_client, &e));
	qp_flush_received(&B->ctx.rc.qp);
	assert_true(rig_poll(&B->rcq_client, &e));
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_memory_equal(B->mem, A->mem, BIG);
	turn();
	assert_false(rig_poll(&B->rcq_client, &e));
}

static void a_long_burst_completes_when_the_turn_ends(void **state)
{
	struct qp_cqe e;

	(void)state;
	send_and_receive();
	qp_flush_received(&B->ctx.rc.qp);
	assert_false(rig_poll(&B->rcq_client, &e));
	assert_int_equal(B->mem[BIG - 1], BLANK);
	turn();
	assert_true(rig_poll(&B->rcq_client, &e));
	assert_memory_equal(B->mem, A->mem, BIG);
}

static uint8_t *page, *end; /* the first page of the target, which a store unprotects; the last byte of the message */
static size_t page_len;
static volatile sig_atomic_t early; /* what the last byte was when the first page was stored to; -1: nothing was */

static void first_store(int sig)
{
	(void)sig;
	early = *end;
	if (mprotect(page, page_len, PROT_READ | PROT_WRITE) != 0)
		abort();
}

/*
 * A store to the beginning of the message is caught, and shows whether the last byte is there already. The addresses
 * are those of rn_copy() that copies the last block first: the target lies 16 bytes behind the source modulo 4096.
 */
static void a_short_burst_stores_the_end_last(void **state)
{
	const struct sigaction catch = { .sa_handler = first_store };
	struct sigaction before;

	(void)state;
	page_len = (size_t)sysconf(_SC_PAGESIZE);
	page = (uint8_t *)(((uintptr_t)B->mem + page_len - 1) & ~(uintptr_t)(page_len - 1));
	uint8_t *src = (uint8_t *)(((uintptr_t)A->mem + page_len - 1) & ~(uintptr_t)(page_len - 1));
	qp_burst(&B->ctx.rc.qp, 1);
	for (uint32_t n = 100; n <= 16000; n = n < 4000 ? n + 600 : n + 4096) {
		const struct rn_iov payload = { src, n };
		const struct qp_access a = { .pd = RIG_PD,
					     .stag = B->rkey,
					     .to = RIG_IOVA(1) + (uint32_t)(page - B->mem) + 16,
					     .len = n,
					     .rights = QP_ACC_REMOTE_WRITE,
					     .last = true };
		memset(page, BLANK, 5 * 4096);
		end = page + 16 + n - 1;
		src[n - 1] = 0x11;
		early = -1;
		assert_int_equal(sigaction(SIGSEGV, &catch, &before), 0);
		assert_int_equal(mprotect(page, page_len, PROT_READ), 0);
		assert_int_equal(qp_place(&B->ctx.rc.qp, &B->dev, &a, &payload, 1), QP_MR_OK);
		assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
		assert_int_equal(early, BLANK);
		assert_memory_equal(page + 16, src, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_end_comes_last, up, down),
		cmocka_unit_test_setup_teardown(short_bursts_wait_for_nothing, up, down),
		cmocka_unit_test_setup_teardown(a_short_burst_stores_the_end_last, up, down),
		cmocka_unit_test_setup_teardown(a_flag_comes_after_the_data, up, down),
		cmocka_unit_test_setup_teardown(later_writes_win, up, down),
		cmocka_unit_test_setup_teardown(later_writes_win_in_pieces_too, up, down),
		cmocka_unit_test_setup_teardown(many_messages, up, down),
		cmocka_unit_test_setup_teardown(a_read_sees_what_was_written_before, up, down),
		cmocka_unit_test_setup_teardown(an_atomic_sees_what_was_written_before, up, down),
		cmocka_unit_test_setup_teardown(a_send_is_whole_when_it_completes, up, down),
		cmocka_unit_test_setup_teardown(a_short_burst_completes_before_the_turn_ends, up, down),
		cmocka_unit_test_setup_teardown(a_long_burst_completes_when_the_turn_ends, up, down),
	};

	return cmocka_run_group_tests_name("qp_place", tests, NULL, NULL);
}
