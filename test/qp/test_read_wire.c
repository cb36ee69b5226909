/* SPDX-License-Identifier: BSD-3-Clause */
/* A raw peer reads memory of the device: the lengths of a Read Request (RFC 5040, 4.4) up to the largest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "raw.h"

#define WIDE   (UINT64_C(5) << 30) /* bytes of a region that holds the longest Read */
#define ENOUGH 20000u              /* bytes of an answer's first segments, at least five */

static uint32_t reg_wide(void *at)
{
	const struct qp_piece piece = { at, WIDE };
	const struct qp_mr_attr a = {
		.pd = RIG_PD, .rights = QP_ACC_REMOTE_READ, .len = WIDE, .pieces = &piece, .npieces = 1
	};
	uint32_t stag = 0;

	assert_int_equal(qp_mr_reg(&dev()->dev, &a, &stag), QP_MR_OK);
	return stag;
}

/* The answer's first segments are checked; 4 GiB of them would take minutes. */
static void the_longest_reads_are_answered_in_full_segments(void **state)
{
	static const uint32_t len[] = { UINT32_MAX, UINT32_MAX - 13, UINT32_MAX - 14, 0x80000000 };
	static uint8_t payload[66000];
	void *wide = mmap(NULL, WIDE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	assert_ptr_not_equal(wide, MAP_FAILED);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(len); i++) {
		struct ddp_hdr h;
		uint32_t n, full = 0;
		uint64_t to = 0x1000;

		open_bench(0, NULL);
		raw_up();
		send_write(0, 0, 0, true); /* after the first FPDU the device may send */
		rig_settle(B.r);
		send_read(1, reg_wide(wide), WIDE - len[i], len[i]);
		while (raw()->rx_len - B.rx_at < ENOUGH && rig_step(B.r))
			;
		for (uint32_t k = 0; k < 5; k++, to += n) {
			assert_true(next_fpdu(&h, payload, &n));
			assert_true(h.opcode == RDMAP_READ_RESP && h.to == to && !h.last);
			full = k == 0 ? n : full;
			assert_int_equal(n, full);
		}
		assert_true(full > 1000);
		close_bench();
	}
	munmap(wide, WIDE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_reads_are_answered_in_full_segments),
	};

	return cmocka_run_group_tests_name("qp_read_wire", tests, NULL, NULL);
}
