/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "client_rig.h"

struct rig *R;

void up_with(const struct rig_cfg *cfg)
{
	R = rig_new(cfg);
	rig_connect(R, 0);
}

void up(void)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	up_with(&cfg);
}

struct rig_wr wr(uint8_t op, uint64_t id, const struct qp_sge *sge)
{
	return (struct rig_wr){ .wr_id = id,
				.op = op,
				.flags = QP_WF_SIGNALED,
				.sge = sge,
				.num_sge = sge != NULL,
				.raddr = RIG_IOVA(1) + (1u << 20),
				.rkey = B->rkey };
}

void expect(struct spsc_cons *c, uint64_t id, uint8_t status)
{
	struct qp_cqe e;

	if (!rig_poll(c, &e))
		fail_msg("no completion for %lu", (unsigned long)id);
	if (e.wr_id != id || e.status != status)
		fail_msg("completion %lu status %u, wanted %lu status %u", (unsigned long)e.wr_id, e.status,
			 (unsigned long)id, status);
}

void expect_none(struct spsc_cons *c)
{
	struct qp_cqe e;

	assert_false(rig_poll(c, &e));
}
