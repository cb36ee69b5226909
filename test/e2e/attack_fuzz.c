/* SPDX-License-Identifier: BSD-3-Clause */
/* Random requests with descriptors of every kind, from two clients at the same time. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/io_uring.h>
#include <linux/memfd.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_client.h"

#define KINDS   26u
#define LIFE    100u /* requests of a client; then a new client begins */
#define FILE_AT "/dev/shm"

static int kind[KINDS]; /* -1: the kernel has no such descriptor, or this user may not open it */

static int memory(unsigned flags, uint64_t size, int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd >= 0 && (ftruncate(fd, (off_t)size) != 0 || (seals != 0 && fcntl(fd, F_ADD_SEALS, seals) != 0))) {
		close(fd);
		return -1;
	}
	return fd;
}

static int ring(void)
{
	struct io_uring_params p = { .flags = 0 };

	return (int)syscall(SYS_io_uring_setup, 4, &p);
}

static int passing(void) /* a socket whose receive queue holds descriptors, the socket's own among them */
{
	int s[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) != 0)
		return -1;
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) };
	raw_must(ipc_send(s[0], &m, (int[]){ s[1], s[0] }, 2) == 0, "a socket in itself");
	close(s[0]);
	return s[1];
}

static void make_kinds(int fuse) /* fuse: a file of FUSE */
{
	const uint64_t queues = RAW_QUEUES;
	int pipes[2] = { -1, -1 };
	sigset_t none;

	sigemptyset(&none);
	raw_must(pipe2(pipes, O_CLOEXEC) == 0, "pipe");
	const int made[KINDS] = {
		eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		eventfd(UINT32_MAX, EFD_CLOEXEC | EFD_SEMAPHORE), /* blocking */
		memory(0, queues, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
		memory(0, queues, F_SEAL_SHRINK | F_SEAL_SEAL),
		memory(0, queues, 0),
		memory(0, queues, F_SEAL_WRITE),
		memory(0, 0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
		memory(MFD_HUGETLB, UINT64_C(2) << 20, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
		open(FILE_AT, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600),
		open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		open(FILE_AT, O_PATH | O_CLOEXEC),
		open("/dev/zero", O_RDWR | O_CLOEXEC),
		open("/proc/self/mem", O_RDWR | O_CLOEXEC),
		open("/dev/fuse", O_RDWR | O_CLOEXEC),
		socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
		socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0),
		passing(),
		pipes[0],
		pipes[1],
		epoll_create1(EPOLL_CLOEXEC),
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
		signalfd(-1, &none, SFD_CLOEXEC),
		(int)syscall(SYS_pidfd_open, getpid(), 0),
		ring(),
		(int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY),
		fuse,
	};
	memcpy(kind, made, sizeof(kind));
}

static uint16_t right_length(uint16_t type)
{
	static const uint16_t len[IPC_TYPES] = {
		[IPC_QUERY_DEV] = IPC_MSG_LEN(query_dev),
		[IPC_CREATE_CHANNEL] = IPC_MSG_LEN(create_channel),
		[IPC_ALLOC_PD] = IPC_MSG_LEN(alloc_pd),
		[IPC_REG_MR] = IPC_MSG_LEN(reg_mr),
		[IPC_CREATE_CQ] = IPC_MSG_LEN(create_cq),
		[IPC_RESIZE_CQ] = IPC_MSG_LEN(resize_cq),
		[IPC_CREATE_QP] = IPC_MSG_LEN(create_qp),
		[IPC_MODIFY_QP] = IPC_MSG_LEN(modify_qp),
		[IPC_OPEN_XRCD] = IPC_MSG_LEN(open_xrcd),
		[IPC_OPEN_QP] = IPC_MSG_LEN(open_qp),
		[IPC_CREATE_SRQ] = IPC_MSG_LEN(create_srq),
		[IPC_MODIFY_SRQ] = IPC_MSG_LEN(modify_srq),
		[IPC_CM_CREATE_ID] = IPC_MSG_LEN(cm_create_id),
		[IPC_CM_BIND] = IPC_MSG_LEN(cm_bind),
		[IPC_CM_RESOLVE_ADDR] = IPC_MSG_LEN(cm_resolve),
		[IPC_CM_RESOLVE_ROUTE] = IPC_MSG_LEN(cm_resolve),
		[IPC_CM_OPEN] = IPC_MSG_LEN(cm_open),
		[IPC_CM_LISTEN] = IPC_MSG_LEN(cm_listen),
		[IPC_CM_CONNECT] = IPC_MSG_LEN(cm_connect),
		[IPC_CM_ACCEPT] = IPC_MSG_LEN(cm_connect),
		[IPC_CM_REJECT] = IPC_MSG_LEN(cm_reject),
		[IPC_CM_MIGRATE] = IPC_MSG_LEN(cm_migrate),
		[IPC_IMPORT] = IPC_MSG_LEN(import),
	};

	return len[type] != 0 ? len[type] : IPC_MSG_LEN(handle);
}

/* Fills a request with random words, most of them small: small numbers are valid handles and counts. */
static void fill(struct ipc_msg *m)
{
	uint32_t *w = (uint32_t *)(void *)((char *)m + IPC_MSG_HDR);

	for (uint32_t i = 0; i < (m->len - IPC_MSG_HDR) / 4u && i < 32; i++) {
		const uint32_t k = raw_random() % 8;
		w[i] = k < 4    ? raw_random() % 5
		       : k == 4 ? 1u << raw_random() % 32
		       : k == 5 ? UINT32_MAX
		       : k == 6 ? 64
				: 4096;
	}
	if (m->type == IPC_IMPORT && raw_random() % 2 == 0)
		m->import = (struct ipc_import){ .len = 4096, .writable = raw_random() % 2 };
	if (m->type == IPC_CREATE_CHANNEL && raw_random() % 2 == 0)
		m->create_channel =
			(struct ipc_create_channel){ .kind = raw_random() % 3,
						     .ring_off = IPC_QUEUES_FREE_OFF + 65536 * (raw_random() % 64),
						     .ring_slots = 16 };
}

static uint32_t choose(int *fds)
{
	const uint32_t k = raw_random() % 8, want = k < 3 ? 0 : k < 6 ? 1 : raw_random() % (IPC_MAX_FDS + 1);
	uint32_t n = 0;

	for (uint32_t i = 0; i < want; i++) {
		int fd = kind[raw_random() % KINDS];
		if (fd >= 0)
			fds[n++] = fd;
	}
	return n;
}

/* Opens a client, in most cases with random sizes or descriptors in its HELLO. False: the daemon has refused it. */
static bool begin(struct raw *r)
{
	int fds[IPC_MAX_FDS];

	if (raw_random() % 4 != 0)
		return raw_open(r) == 0;
	*r = (struct raw){ .sock = raw_dial(), .wake = -1, .fd = { -1, -1, -1 } };
	for (uint32_t i = 0; i < IPC_REGIONS; i++)
		r->size[i] = raw_random() % 2 == 0 ? RAW_QUEUES : raw_random() % 3 * 4096;
	const uint32_t n = choose(fds);
	return r->sock >= 0 && raw_hello(r, fds, n) == 0;
}

static uint32_t fuzz(uint32_t n)
{
	uint32_t answered = 0;
	struct raw r;

	for (uint32_t i = 0; i < n; i++) {
		int rc = begin(&r) ? 0 : EPIPE;
		for (uint32_t k = 0; k < LIFE && i < n && rc != -EPIPE && rc != EPIPE; k++, i++) {
			struct ipc_msg m = { .type = (uint16_t)(2 + raw_random() % (IPC_TYPES - 2)), .seq = ++r.seq };
			int fds[IPC_MAX_FDS];
			unsigned none = 0;
			m.len = right_length(m.type);
			fill(&m);
			const uint32_t nfds = choose(fds);
			rc = ipc_send(r.sock, &m, fds, nfds);
			/* these may wait for neighbours that do not exist: the client ends before it has an answer */
			if (m.type == IPC_REACH || m.type == IPC_CM_JOIN)
				break;
			if (rc == 0)
				rc = ipc_recv(r.sock, &m, NULL, &none);
			answered += rc == 0;
		}
		raw_close(&r);
	}
	return answered;
}

/* $SEED: of the random numbers. $N: requests of each of the two clients. Begins as root and becomes user 65534. */
int mode_fuzz(void)
{
	const uint32_t n = (uint32_t)atoi(getenv("N"));
	int bad = 0, status, fuse = attack_fuse_file(false);

	raw_must(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0, "become another user");
	make_kinds(fuse);
	pid_t other = fork();
	raw_must(other >= 0, "fork");
	for (int i = atoi(getenv("SEED")) * 2 + (other == 0); i > 0; i--)
		raw_random();
	const uint32_t answered = fuzz(n);
	if (other == 0)
		_exit(answered == 0);
	EXPECT(waitpid(other, &status, 0) == other && status == 0, "the other client: %d", status);
	EXPECT(answered > n / 4, "%u of %u requests were answered", answered, n);
	printf("%u requests answered\n", answered);
	return bad;
}
