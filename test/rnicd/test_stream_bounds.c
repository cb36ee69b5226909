/* SPDX-License-Identifier: BSD-3-Clause */
/* What many listeners, and streams of others, leave to a stream, and what they cost a worker. */
#include <stdlib.h>

#include "listen_rig.h"

/* Puts a listener with the rig's backlog up at the TCP port `at`, whose number is `at` too. */
static void listen_at(uint16_t at)
{
	struct cmd c = { .type = CMD_STREAM_LISTEN,
			 .stream_listen = { .lport = at, .backlog = BACKLOG, .families = STREAM_IP4, .key = at } };

	command_stream(&w, &c);
	assert_int_equal(c.stream_listen.verdict[0], CONN_OK);
}

/* Each listener is below its own limit. The streams have the table of flows in common with queue pairs' connections. */
static void floods_of_many_listeners_leave_places_to_others(void **state)
{
	enum { LISTENERS = STREAMS / HALF + 1, MOST = STREAMS / 4 };
	struct ipc_stream *mem = calloc(1, IPC_STREAM_SIZE);

	(void)state;
	assert_non_null(mem);
	for (uint16_t i = 1; i <= LISTENERS; i++) {
		listen_at(LPORT + i);
		for (uint16_t from = 1; from <= HALF; from++) {
			segment_to(LPORT + i, from, ISS, 0, PKT_TCP_SYN);
			one_burst(1);
			rest_of_turn();
		}
	}
	assert_int_equal(w.streams.n_half, MOST);
	assert_int_equal(w.flows.used, MOST);
	assert_int_equal(free_streams(), STREAMS - MOST);
	assert_int_equal(w.streams.listener[1].n_half, 0); /* the oldest have made room */
	assert_int_equal(w.streams.listener[LISTENERS].n_half, HALF);
	syn(HALF + 1);
	one_burst(1);
	assert_non_null(stream_of(HALF + 1));
	open_to_nobody(mem, 10);
	rest_of_turn();
	free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(floods_of_many_listeners_leave_places_to_others, listen_setup,
						listen_teardown),
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("stream_bounds", tests, NULL, NULL);
}
