/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plane over the kernel's sockets whose turns the test runs itself; the test plays the control thread. cmocka.h is
 * included before.
 */
#ifndef KS_RIG_H
#define KS_RIG_H

#include "border/event.h"
#include "sockets/ks.h"

/* Gets the plane's events; NULL: nothing does. */
extern void (*ks_rig_take)(const struct event *ev);

/* Runs n turns. */
void turns(uint32_t n);
/* Has the plane carry out a command. */
void carry_out(struct cmd *c);

#define UNTIL(cond) \
	for (uint32_t round = 0; !(cond); round++) { \
		assert_true(round < KS_RIG_TURNS); \
		turns(1); \
	}
#define KS_RIG_TURNS 200000u /* far more than anything takes */

#endif
