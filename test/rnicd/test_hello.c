/* SPDX-License-Identifier: BSD-3-Clause */
/* The first request of a client, and other first messages, which are refused. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_client.h"
#include "wqe/qp_wqe.h"

static struct daemon d;

static int start(void **state)
{
	(void)state;
	daemon_start(&d, "");
	return 0;
}

static int stop(void **state)
{
	(void)state;
	daemon_stop(&d);
	return 0;
}

static int hello(struct fc *k, struct ipc_msg *m, const int *fds, unsigned n)
{
	m->type = IPC_HELLO;
	m->len = IPC_MSG_LEN(hello);
	return fc_call(k, m, fds, n);
}

/* Older and newer clients, whose HELLO may be shorter or longer. */
static void a_librnic_of_another_version(void **state)
{
	static const uint32_t versions[] = { IPC_VERSION - 1, IPC_VERSION + 1, 0, UINT32_MAX };
	struct fc k;

	(void)state;
	fc_dial(&k, &d);
	int fds[3] = { k.wake, k.fd[0], k.fd[1] };
	for (unsigned i = 0; i < RN_ARRAY_LEN(versions); i++) {
		for (int more = -8; more <= 8; more += 8) {
			struct ipc_msg m = { .type = IPC_HELLO,
					     .len = (uint16_t)(IPC_MSG_LEN(hello) + more),
					     .hello = { .version = versions[i], .size = { FC_QUEUES, FC_ARENA, 0 } } };
			char want[IPC_TEXT_MAX];
			snprintf(want, sizeof(want),
				 "librnic speaks version %u of the control protocol, this rnicd version "
				 "%u: install both from one release and restart rnicd",
				 versions[i], IPC_VERSION);
			REFUSED(fc_call(&k, &m, fds, more < 0 ? 2 : 3), EPROTO, want);
		}
	}
	fc_close(&k);
}

static void hello_is_checked(void **state)
{
	struct fc k;
	int plain = memfd_create("plain", MFD_CLOEXEC), pipes[2];

	(void)state;
	fc_dial(&k, &d);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(ftruncate(plain, FC_ARENA), 0);
	int good[3] = { k.wake, k.fd[0], k.fd[1] }, more[4] = { k.wake, k.fd[0], k.fd[1], k.fd[1] };
	int no_wake[3] = { pipes[1], k.fd[0], k.fd[1] }, unsealed[3] = { k.wake, k.fd[0], plain };
	struct ipc_msg m = { .hello = { .version = IPC_VERSION, .size = { FC_QUEUES, FC_ARENA, 0 } } };
	REFUSED(hello(&k, &m, no_wake, 3), EINVAL, "the wake descriptor is not an eventfd");
	m = (struct ipc_msg){ .hello = { .version = IPC_VERSION, .size = { FC_QUEUES, FC_ARENA, 0 } } };
	REFUSED(hello(&k, &m, unsealed, 3), EINVAL, "the arena is not sealed against shrinking");
	m = (struct ipc_msg){ .hello = { .version = IPC_VERSION, .size = { FC_QUEUES, FC_ARENA, 0 } } };
	REFUSED(hello(&k, &m, good, 2), EINVAL, "HELLO names more regions than it has descriptors");
	m = (struct ipc_msg){ .hello = { .version = IPC_VERSION, .size = { FC_QUEUES, FC_ARENA, 0 } } };
	REFUSED(hello(&k, &m, more, 4), EINVAL, "HELLO has more descriptors than it names regions");
	m = (struct ipc_msg){ .hello = { .version = IPC_VERSION, .size = { FC_QUEUES * 2, FC_ARENA, 0 } } };
	REFUSED(hello(&k, &m, good, 3), EINVAL, "the queue region has another size than HELLO says");
	m = (struct ipc_msg){ .hello = { .version = IPC_VERSION, .size = { UINT64_MAX, FC_ARENA, 0 } } };
	REFUSED(hello(&k, &m, good, 3), EINVAL, "the queue region has a size that is not allowed");
	m = (struct ipc_msg){ .hello = { .version = IPC_VERSION, .size = { FC_QUEUES, 0, FC_ARENA } } };
	REFUSED(hello(&k, &m, good, 3), EINVAL, "the hugepage arena is not a memfd of its kind");
	m = (struct ipc_msg){ .hello = { .version = IPC_VERSION, .size = { FC_QUEUES, FC_ARENA, 0 } } };
	REFUSED(hello(&k, &m, good, 1), EINVAL,
		"request 1 has 48 bytes and 1 descriptors: it must have 48 bytes and 2 to 4 descriptors");
	REFUSED(FC_CALL(&k, &m, IPC_ALLOC_PD, alloc_pd, .dev = 0), EPROTO, "the first request must be HELLO");
	m = (struct ipc_msg){ .hello = { .version = IPC_VERSION, .size = { FC_QUEUES, FC_ARENA, 0 } } };
	assert_int_equal(hello(&k, &m, good, 3), 0); /* the refused messages have not spoilt the connection */
	m = (struct ipc_msg){ .hello = { .version = IPC_VERSION, .size = { FC_QUEUES, FC_ARENA, 0 } } };
	REFUSED(hello(&k, &m, good, 3), EPROTO, "HELLO was sent already");
	fc_close(&k);
	close(plain);
	close(pipes[0]);
	close(pipes[1]);
}

static void a_queue_region_without_control_block(void **state)
{
	struct fc k;
	int small = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	fc_dial(&k, &d);
	assert_int_equal(ftruncate(small, 4096), 0);
	assert_int_equal(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	int fds[2] = { k.wake, small };
	struct ipc_msg m = { .hello = { .version = IPC_VERSION, .size = { 4096, 0, 0 } } };
	REFUSED(hello(&k, &m, fds, 2), EINVAL, "the queue region has no room for the control block");
	fc_close(&k);
	close(small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_librnic_of_another_version),
		cmocka_unit_test(hello_is_checked),
		cmocka_unit_test(a_queue_region_without_control_block),
	};

	return cmocka_run_group_tests_name("hello", tests, start, stop);
}
