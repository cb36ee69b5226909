/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection whose receiver posts each receive only after the message for it has been sent. Runs until it is killed.
 *
 * usage: slow_receiver SERVER-ADDRESS CLIENT-ADDRESS
 */
#include "cm_rig.h"

#include <errno.h>
#include <unistd.h>

#define SLOW_US 1000

static bool slow_receiver(void)
{
	struct joined j;
	struct ibv_wc wc;

	CHECK(join(&j, 7910));
	for (uint64_t i = 0;; i++) {
		CHECK(post_send(&cli, j.cid, i, 64));
		usleep(SLOW_US);
		CHECK(post_recv(&srv, j.sid, i, 64) && poll_n(&srv, &wc, 1) && poll_n(&cli, &wc, 1));
	}
}

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = { CASE(slow_receiver) };

	return rig_main(argc, argv, cases, 1);
}
