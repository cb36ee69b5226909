/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/ipc.h"

struct pair {
	int a, b;
};

static int open_pair(void **state)
{
	static struct pair p;
	int s[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) != 0)
		return -1;
	p = (struct pair){ s[0], s[1] };
	*state = &p;
	return 0;
}

static int close_pair(void **state)
{
	struct pair *p = *state;

	close(p->a);
	close(p->b);
	return 0;
}

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int i = 0; i < 1024; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
}

static void a_message_arrives_whole(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_REG_MR, .len = IPC_MSG_LEN(reg_mr), .seq = 7 };
	struct ipc_msg r;

	m.reg_mr = (struct ipc_reg_mr){ .pd = 3, .iova = 0x123456789abcull, .npieces = 9 };
	memset(&r, 0xff, sizeof(r));
	assert_int_equal(ipc_send(p->a, &m, NULL, 0), 0);
	assert_int_equal(ipc_recv(p->b, &r, NULL, NULL), 0);
	assert_int_equal(r.type, IPC_REG_MR);
	assert_int_equal(r.len, IPC_MSG_LEN(reg_mr));
	assert_memory_equal(&r.reg_mr, &m.reg_mr, sizeof(m.reg_mr));
	for (size_t i = r.len; i < sizeof(r); i++) /* no bytes of an earlier message are left */
		assert_int_equal(((uint8_t *)&r)[i], 0);
}

static void descriptors_arrive_close_on_exec_and_in_order(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_HELLO, .len = IPC_MSG_LEN(hello) }, r;
	int fds[IPC_MAX_FDS], got[IPC_MAX_FDS];
	unsigned n = IPC_MAX_FDS;

	for (unsigned i = 0; i < IPC_MAX_FDS; i++)
		fds[i] = eventfd(100 + i, 0);
	assert_int_equal(ipc_send(p->a, &m, fds, IPC_MAX_FDS), 0);
	assert_int_equal(ipc_recv(p->b, &r, got, &n), 0);
	assert_int_equal(n, IPC_MAX_FDS);
	for (unsigned i = 0; i < n; i++) {
		uint64_t v;
		assert_true((fcntl(got[i], F_GETFD) & FD_CLOEXEC) != 0);
		assert_int_equal(read(got[i], &v, sizeof(v)), sizeof(v));
		assert_int_equal(v, 100 + i);
		close(got[i]);
		close(fds[i]);
	}
}

static void unwanted_descriptors_are_closed(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) }, r;
	int fds[3] = { p->a, p->a, p->b };
	unsigned before = open_fds(), n = 2;
	int got[2];

	assert_int_equal(ipc_send(p->a, &m, fds, 3), 0);
	assert_int_equal(ipc_recv(p->b, &r, got, &n), -EPROTO);
	assert_int_equal(n, 0);
	assert_int_equal(ipc_send(p->a, &m, fds, 1), 0);
	assert_int_equal(ipc_recv(p->b, &r, NULL, NULL), -EPROTO);
	assert_int_equal(open_fds(), before);
}

static void descriptors_without_room_for_them_leave_the_message(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_HELLO, .len = IPC_MSG_LEN(hello), .hello.version = 77 }, r;
	int fds[3] = { p->a, p->a, p->b };
	unsigned before = open_fds(), n = IPC_MAX_FDS;
	int got[IPC_MAX_FDS];
	struct rlimit old, few;

	assert_int_equal(ipc_send(p->a, &m, fds, 3), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	int next = dup(p->a); /* the lowest free descriptor */
	close(next);
	few = (struct rlimit){ .rlim_cur = (rlim_t)next + 1, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	int rc = ipc_recv(p->b, &r, got, &n);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(rc, -ENFILE);
	assert_int_equal(r.hello.version, 77);
	assert_int_equal(n, 0);
	assert_int_equal(open_fds(), before);
}

static void a_look_ahead_tells_of_descriptors_and_takes_nothing(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) }, r;
	int fd = p->a, got[1];
	unsigned n = 1;
	bool fds = true;

	assert_int_equal(ipc_peek(p->b, &fds), -EAGAIN);
	assert_int_equal(ipc_send(p->a, &m, NULL, 0), 0);
	assert_int_equal(ipc_send(p->a, &m, &fd, 1), 0);
	unsigned before = open_fds();
	assert_int_equal(ipc_peek(p->b, &fds), 0);
	assert_false(fds);
	assert_int_equal(ipc_recv(p->b, &r, NULL, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ipc_peek(p->b, &fds), 0);
		assert_true(fds);
	}
	assert_int_equal(open_fds(), before);
	assert_int_equal(ipc_recv(p->b, &r, got, &n), 0);
	assert_int_equal(n, 1);
	close(got[0]);
}

static void too_many_descriptors_are_closed(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) }, r;
	char ctl[CMSG_SPACE(20 * sizeof(int))] = { 0 };
	struct iovec iov = { &m, m.len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
	unsigned before = open_fds(), n = IPC_MAX_FDS;
	int got[IPC_MAX_FDS];

	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS,
			       .cmsg_len = CMSG_LEN(20 * sizeof(int)) };
	for (unsigned i = 0; i < 20; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &p->a, sizeof(int));
	assert_int_equal(sendmsg(p->a, &mh, 0), m.len);
	assert_int_equal(ipc_recv(p->b, &r, got, &n), -EPROTO);
	assert_int_equal(n, 0);
	assert_int_equal(open_fds(), before);
}

static void a_length_that_lies_is_malformed(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) }, r;
	char big[sizeof(m) + 8] = { 0 };

	assert_int_equal(send(p->a, &m, m.len - 1u, 0), m.len - 1);
	assert_int_equal(ipc_recv(p->b, &r, NULL, NULL), -EPROTO);
	assert_int_equal(send(p->a, &m, IPC_MSG_HDR - 1, 0), IPC_MSG_HDR - 1);
	assert_int_equal(ipc_recv(p->b, &r, NULL, NULL), -EPROTO);
	assert_int_equal(send(p->a, big, sizeof(big), 0), sizeof(big));
	assert_int_equal(ipc_recv(p->b, &r, NULL, NULL), -EPROTO);
}

static void a_length_out_of_range_is_not_sent(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_HDR - 1 }, r;

	assert_int_equal(ipc_send(p->a, &m, NULL, 0), -EINVAL);
	m.len = sizeof(m) + 1;
	assert_int_equal(ipc_send(p->a, &m, NULL, 0), -EINVAL);
	m.len = IPC_MSG_HDR;
	assert_int_equal(ipc_send(p->a, &m, NULL, IPC_MAX_FDS + 1), -EINVAL);
	assert_int_equal(ipc_recv(p->b, &r, NULL, NULL), -EAGAIN);
}

static void the_end_of_the_other_side_is_epipe(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) }, r;

	shutdown(p->a, SHUT_RDWR);
	assert_int_equal(ipc_recv(p->b, &r, NULL, NULL), -EPIPE);
	assert_int_equal(ipc_send(p->b, &m, NULL, 0), -EPIPE); /* an error, not SIGPIPE */
}

static void a_full_socket_says_eagain(void **state)
{
	struct pair *p = *state;
	struct ipc_msg m = { .type = IPC_CM_CONNECT, .len = IPC_MSG_LEN(cm_connect) };
	int rc, n = 0;

	while ((rc = ipc_send(p->a, &m, NULL, 0)) == 0 && n < 100000)
		n++;
	assert_int_equal(rc, -EAGAIN);
	assert_true(n > 0);
}

/*
 * A change of a message changes a line of this table. Such a change needs a new IPC_VERSION, unless no release has the
 * present version yet.
 */
static void the_messages_are_those_of_this_version(void **state)
{
#define LEN(member) #member, sizeof(((struct ipc_msg *)0)->member)
	static const struct {
		const char *what;
		size_t is, was;
	} layout[] = {
		{ "version", IPC_VERSION, 8 },
		{ "types", IPC_TYPES, 63 },
		{ "header", IPC_MSG_HDR, 16 },
		{ LEN(hello), 32 },
		{ LEN(hello_ok), 16 },
		{ LEN(query_dev), 4 },
		{ LEN(dev_info), 144 },
		{ LEN(create_channel), 24 },
		{ LEN(handle), 8 },
		{ LEN(alloc_pd), 8 },
		{ LEN(reg_mr), 40 },
		{ LEN(reg_mr_ok), 8 },
		{ LEN(token_mr_ok), 16 },
		{ LEN(import), 40 },
		{ LEN(alloc_mw), 8 },
		{ LEN(create_cq), 56 },
		{ LEN(resize_cq), 24 },
		{ LEN(create_srq), 48 },
		{ LEN(create_srq_ok), 8 },
		{ LEN(open_xrcd), 8 },
		{ LEN(open_qp), 24 },
		{ LEN(modify_srq), 8 },
		{ LEN(query_srq_ok), 8 },
		{ LEN(create_qp), 136 },
		{ LEN(create_qp_ok), 16 },
		{ LEN(modify_qp), 56 },
		{ LEN(query_qp_ok), 16 },
		{ LEN(reach), 24 },
		{ LEN(cm_create_id), 8 },
		{ LEN(cm_bind), 32 },
		{ LEN(cm_bind_ok), 32 },
		{ LEN(cm_resolve), 64 },
		{ LEN(cm_open), 72 },
		{ LEN(cm_open_ok), 64 },
		{ LEN(cm_socket), 16 },
		{ LEN(cm_socket_ok), 56 },
		{ LEN(cm_listen), 16 },
		{ LEN(cm_connect), 532 },
		{ LEN(cm_reject), 520 },
		{ LEN(cm_migrate), 8 },
		{ LEN(attach), 24 },
		{ LEN(group_bind), 48 },
		{ LEN(inject), 908 },
		{ LEN(cm_join), 32 },
		{ LEN(sock_join_ok), 1040 },
		{ LEN(sock_addr), 40 },
		{ LEN(sock_listen), 16 },
		{ LEN(sock_take), 32 },
		{ LEN(sock_option), 24 },
		{ LEN(sock_ok), 64 },
		{ LEN(sock_gram), 64 },
		{ LEN(sock_found), 72 },
		{ LEN(sock_list), 8 },
		{ LEN(sock_list_ok), 1016 },
		{ "kept of a socket", sizeof(struct ipc_sock_kept), 80 },
		{ "gram", sizeof(struct ipc_gram), 320 },
		{ "stream", sizeof(struct ipc_stream), 384 },
		{ "control block", sizeof(struct ipc_ctrl), 10304 },
		{ "piece", sizeof(struct ipc_piece), 24 },
		{ "event of a CM id", sizeof(struct ipc_cm_event), 604 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(layout) / sizeof(layout[0]); i++) {
		if (layout[i].is != layout[i].was)
			fail_msg(
				"%s: %zu, not %zu as in version %d: raise it, if a release has it, and change this line",
				layout[i].what, layout[i].is, layout[i].was, IPC_VERSION);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_message_arrives_whole, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(descriptors_arrive_close_on_exec_and_in_order, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(unwanted_descriptors_are_closed, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(descriptors_without_room_for_them_leave_the_message, open_pair,
						close_pair),
		cmocka_unit_test_setup_teardown(a_look_ahead_tells_of_descriptors_and_takes_nothing, open_pair,
						close_pair),
		cmocka_unit_test_setup_teardown(too_many_descriptors_are_closed, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(a_length_that_lies_is_malformed, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(a_length_out_of_range_is_not_sent, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(the_end_of_the_other_side_is_epipe, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(a_full_socket_says_eagain, open_pair, close_pair),
		cmocka_unit_test(the_messages_are_those_of_this_version),
	};
	return cmocka_run_group_tests_name("ipc", tests, NULL, NULL);
}
