/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ks_rig.h"

void (*ks_rig_take)(const struct event *ev);

static void answered(struct cmd *c) { c->type = CMD_NOTHING; }

static void take(const struct event *ev)
{
	if (ks_rig_take != NULL)
		ks_rig_take(ev);
}

void turns(uint32_t n)
{
	while (n-- > 0) {
		assert_true(ks_poll());
		(void)event_collect(64, take);
	}
}

void carry_out(struct cmd *c)
{
	c->done = answered;
	cmd_send_all(c);
	while (c->type != CMD_NOTHING)
		turns(1);
}
