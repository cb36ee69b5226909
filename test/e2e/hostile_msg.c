/* SPDX-License-Identifier: BSD-3-Clause */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/ipc_region.h"
#include "raw_client.h"

/* A well-behaved client can connect and use the daemon. */
static int open_works(void)
{
	struct raw r;
	uint32_t pd;
	int rc = raw_open(&r);

	if (rc == 0)
		rc = raw_pd(&r, 0, &pd);
	if (rc != 0)
		printf("a well-behaved client is refused: %d (%s)\n", rc, r.text);
	raw_close(&r);
	return rc != 0;
}

/*
 * Sends len bytes as one message with nfds descriptors. Returns the daemon's reaction: -1: it closed the socket; 0:
 * nothing; otherwise the answer's status.
 */
static int react(int sock, const void *data, size_t len, const int *fds, unsigned nfds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(64 * sizeof(int))];
	} ctl = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct pollfd p = { sock, POLLIN, 0 };
	struct ipc_msg m;
	unsigned none = 0;

	if (nfds > 0) {
		mh.msg_control = ctl.buf;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	if (sendmsg(sock, &mh, MSG_NOSIGNAL) < 0)
		return -1;
	if (poll(&p, 1, 5000) != 1)
		return 0;
	return ipc_recv(sock, &m, NULL, &none) == 0 ? m.status : -1;
}

int mode_messages(const struct where *w)
{
	uint8_t data[4096];
	struct ipc_msg m;
	int bad = 0, s, rc;
	struct raw r;

	(void)w;
	/* Before HELLO: noise of every length. */
	for (size_t len = 1; len < sizeof(data); len += len < 64 ? 1 : 97) {
		for (size_t i = 0; i < len; i++)
			data[i] = (uint8_t)raw_random();
		raw_must((s = raw_dial()) >= 0, "connect");
		rc = react(s, data, len, NULL, 0);
		EXPECT(rc != 0, "%zu bytes of noise: no reaction", len);
		close(s);
	}
	/* Each type as the first message, and with a length that is not its own. */
	for (unsigned type = 0; type < IPC_TYPES + 4; type++) {
		for (unsigned cut = 0; cut < 3; cut++) {
			raw_must((s = raw_dial()) >= 0, "connect");
			memset(&m, 0, sizeof(m));
			m.type = (uint16_t)type;
			m.len = (uint16_t)(cut == 0 ? IPC_MSG_HDR : cut == 1 ? IPC_MSG_HDR + 1 : sizeof(m));
			rc = react(s, &m, m.len, NULL, 0);
			EXPECT(rc == -1 || rc == EINVAL || rc == EPROTO, "type %u as first message: %d", type, rc);
			close(s);
		}
	}
	/* After HELLO: messages of random types and lengths, with random contents. */
	EXPECT((rc = raw_open(&r)) == 0, "%d", rc);
	for (unsigned i = 0; i < 3000 && bad == 0; i++) {
		for (size_t k = 0; k < sizeof(m); k++)
			((uint8_t *)&m)[k] = (uint8_t)(i % 2 ? raw_random() : raw_random() % 4);
		m.type = (uint16_t)(raw_random() % (IPC_TYPES + 2));
		m.len = (uint16_t)(IPC_MSG_HDR + raw_random() % (sizeof(m) - IPC_MSG_HDR));
		m.status = 0;
		if (raw_call(&r, &m, -1) != EPIPE)
			continue;
		raw_close(&r);
		bad += raw_open(&r) != 0;
	}
	raw_close(&r);
	/* The header's length is not the message's. */
	EXPECT((rc = raw_open(&r)) == 0, "%d", rc);
	m = (struct ipc_msg){ .type = IPC_ALLOC_PD, .len = IPC_MSG_LEN(alloc_pd) };
	rc = react(r.sock, &m, IPC_MSG_HDR, NULL, 0);
	EXPECT(rc == -1, "a truncated message: %d", rc);
	raw_close(&r);
	/* A client that sends nothing, and shuts down only its sending side. */
	raw_must((s = raw_dial()) >= 0, "connect");
	shutdown(s, SHUT_WR);
	usleep(20000);
	close(s);
	return bad + open_works();
}

/* ---- HELLO with descriptors of every kind ---- */

static int memfd(uint64_t size, unsigned flags, int seals)
{
	int f = memfd_create("hostile", MFD_CLOEXEC | flags);

	raw_must(f >= 0, "memfd");
	if (size > 0)
		raw_must(ftruncate(f, (off_t)size) == 0, "ftruncate");
	if (seals != 0)
		raw_must(fcntl(f, F_ADD_SEALS, seals) == 0, "seals");
	return f;
}

static int hello(const int *fds, unsigned nfds, uint64_t q, uint64_t a, uint64_t h)
{
	struct ipc_msg m = { .type = IPC_HELLO,
			     .len = IPC_MSG_LEN(hello),
			     .hello = { .version = IPC_VERSION, .size = { q, a, h } } };
	int s = raw_dial(), rc;

	raw_must(s >= 0, "connect");
	rc = react(s, &m, m.len, fds, nfds);
	close(s);
	return rc;
}

#define GOOD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Descriptors for HELLO: the kinds that HELLO asks for, and others. */
struct kinds {
	int wake, q, a;
	int null, dir, sock, pipe_fd[2];
};

static struct kinds kinds_open(void)
{
	struct kinds k = { .wake = eventfd(0, EFD_NONBLOCK),
			   .q = memfd(RAW_QUEUES, MFD_ALLOW_SEALING, GOOD_SEALS),
			   .a = memfd(RAW_ARENA, MFD_ALLOW_SEALING, GOOD_SEALS),
			   .null = open("/dev/null", O_RDWR),
			   .dir = open("/", O_RDONLY),
			   .sock = raw_dial() };

	raw_must(k.wake >= 0 && k.null >= 0 && k.dir >= 0 && pipe(k.pipe_fd) == 0 && k.sock >= 0, "descriptors");
	return k;
}

static int regions_of_wrong_kinds(const struct kinds *k)
{
	int loose = memfd(RAW_QUEUES, MFD_ALLOW_SEALING, 0), half = memfd(RAW_QUEUES, MFD_ALLOW_SEALING, F_SEAL_SHRINK);
	int stone = memfd(RAW_QUEUES, MFD_ALLOW_SEALING, GOOD_SEALS | F_SEAL_WRITE);
	int tiny = memfd(4096, MFD_ALLOW_SEALING, GOOD_SEALS), empty = memfd(0, MFD_ALLOW_SEALING, GOOD_SEALS);
	int bad = 0, rc, reads;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", k->q);
	raw_must((reads = open(path, O_RDONLY)) >= 0, "read-only");
	const struct {
		const char *what;
		int fd;
		uint64_t size;
	} wrong[] = {
		{ "a pipe", k->pipe_fd[0], RAW_QUEUES },
		{ "/dev/null", k->null, RAW_QUEUES },
		{ "a directory", k->dir, RAW_QUEUES },
		{ "an eventfd", k->wake, RAW_QUEUES },
		{ "a socket to the daemon", k->sock, RAW_QUEUES },
		{ "an unsealed memfd", loose, RAW_QUEUES },
		{ "a memfd whose seals can grow", half, RAW_QUEUES },
		{ "a memfd sealed against writing", stone, RAW_QUEUES },
		{ "a memfd of one page", tiny, RAW_QUEUES },
		{ "a memfd smaller than the control block", tiny, 4096 },
		{ "an empty memfd", empty, RAW_QUEUES },
		{ "a size of a broken page", k->q, RAW_QUEUES - 1 },
		{ "a size that is too large", k->q, RAW_QUEUES * 2 },
		{ "a size beyond the limit", k->q, UINT64_C(1) << 60 },
		{ "a size that wraps", k->q, ~UINT64_C(0) - 4095 },
		{ "a read-only memfd", reads, RAW_QUEUES },
	};
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int fds[3] = { k->wake, wrong[i].fd, k->a };
		rc = hello(fds, 3, wrong[i].size, RAW_ARENA, 0);
		EXPECT(rc > 0 || rc == -1, "%s as queue region: %d", wrong[i].what, rc);
		int as_arena[3] = { k->wake, k->q, wrong[i].fd };
		if (wrong[i].fd == k->q || wrong[i].size == 4096)
			continue;
		rc = hello(as_arena, 3, RAW_QUEUES, wrong[i].size, 0);
		EXPECT(rc > 0 || rc == -1, "%s as arena: %d", wrong[i].what, rc);
	}
	return bad;
}

static int wrong_numbers_and_places(const struct kinds *k)
{
	int many[16] = { k->wake }, bad = 0, rc;

	for (unsigned i = 1; i < 16; i++)
		many[i] = k->q;
	for (unsigned n = 0; n <= 16; n++) {
		if (n == 3)
			continue;
		rc = hello(many, n, RAW_QUEUES, RAW_ARENA, 0);
		EXPECT(rc > 0 || rc == -1, "%u descriptors for two regions: %d", n, rc);
	}
	int as_huge[4] = { k->wake, k->q, k->a, k->a };
	rc = hello(as_huge, 4, RAW_QUEUES, RAW_ARENA, RAW_ARENA);
	EXPECT(rc > 0, "ordinary pages as hugepages: %d", rc);
	int no_wake[3] = { k->pipe_fd[1], k->q, k->a };
	rc = hello(no_wake, 3, RAW_QUEUES, RAW_ARENA, 0);
	EXPECT(rc > 0, "a pipe as wake descriptor: %d", rc);
	int no_queues[2] = { k->wake, k->a };
	rc = hello(no_queues, 2, 0, RAW_ARENA, 0);
	EXPECT(rc > 0, "no queue region: %d", rc);
	return bad;
}

static int a_second_hello_and_another_version(const struct kinds *k)
{
	int good[3] = { k->wake, k->q, k->a }, bad = 0, rc, s;
	struct raw r;

	EXPECT((rc = raw_open(&r)) == 0, "%d", rc);
	rc = raw_hello(&r, good, 3);
	EXPECT(rc == EPROTO, "a second HELLO: %d", rc);
	raw_close(&r);
	struct ipc_msg m = { .type = IPC_HELLO,
			     .len = IPC_MSG_LEN(hello),
			     .hello = { .version = 99, .size = { RAW_QUEUES, RAW_ARENA, 0 } } };
	s = raw_dial();
	rc = react(s, &m, m.len, good, 3);
	EXPECT(rc == EPROTO, "version 99: %d", rc);
	close(s);
	return bad;
}

static int descriptors_that_no_message_asks_for(const struct kinds *k)
{
	const int no_event[] = { k->pipe_fd[0], k->pipe_fd[1], k->null, k->dir, k->q, k->sock };
	struct ipc_msg m = { .type = IPC_ALLOC_PD, .len = IPC_MSG_LEN(alloc_pd) };
	int many[8] = { k->wake, k->q, k->q, k->q, k->q, k->q, k->q, k->q }, bad = 0, rc;
	struct raw r;

	EXPECT((rc = raw_open(&r)) == 0, "%d", rc);
	for (unsigned n = 1; n <= 8; n++) {
		rc = react(r.sock, &m, m.len, many, n);
		EXPECT(rc == EINVAL || rc == -1, "%u descriptors with ALLOC_PD: %d", n, rc);
	}
	m = (struct ipc_msg){ .type = IPC_CREATE_CHANNEL,
			      .len = IPC_MSG_LEN(create_channel),
			      .create_channel = { .ring_off = 8192, .ring_slots = 16 } };
	for (unsigned i = 0; i < sizeof(no_event) / sizeof(no_event[0]); i++) {
		rc = react(r.sock, &m, m.len, &no_event[i], 1);
		EXPECT(rc == EINVAL, "descriptor %u as a channel's eventfd: %d", i, rc);
	}
	raw_close(&r);
	return bad;
}

int mode_fds(const struct where *w)
{
	const struct kinds k = kinds_open();

	(void)w;
	return regions_of_wrong_kinds(&k) + wrong_numbers_and_places(&k) + a_second_hello_and_another_version(&k) +
	       descriptors_that_no_message_asks_for(&k) + open_works();
}

/* ---- a client that sends and never reads ---- */

int mode_deaf(const struct where *w)
{
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) };
	uint64_t end = raw_now_ms() + 10000;
	struct raw r;
	int bad = 0, small = 4096, rc = raw_open(&r);
	unsigned sent = 0;
	bool hung_up = false;

	(void)w;
	EXPECT(rc == 0, "%d", rc);
	setsockopt(r.sock, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	while (raw_now_ms() < end && !hung_up) {
		if (send(r.sock, &m, m.len, MSG_DONTWAIT | MSG_NOSIGNAL) == m.len) {
			sent++;
			continue;
		}
		hung_up = errno == EPIPE || errno == ECONNRESET;
		usleep(1000);
	}
	printf("%u requests sent, none of the answers read, %s\n", sent,
	       hung_up ? "the daemon hung up" : "still connected");
	EXPECT(hung_up, "a client that never reads its answers is kept");
	raw_close(&r);
	return bad + open_works();
}

/* ---- thousands of sockets ---- */

int mode_sockets(const struct where *w)
{
	struct rlimit lim = { 8192, 8192 };
	int *s = malloc(5000 * sizeof(*s)), bad = 0;
	unsigned n = 0;

	(void)w;
	setrlimit(RLIMIT_NOFILE, &lim);
	raw_must(s != NULL, "memory");
	for (unsigned i = 0; i < 5000; i++) {
		int fd = raw_dial();
		if (fd >= 0)
			s[n++] = fd;
		else if (errno == EMFILE)
			break;
	}
	printf("%u connections taken\n", n);
	bad = open_works(); /* while all these are connected */
	for (unsigned i = 0; i < n; i++)
		close(s[i]);
	free(s);
	for (unsigned i = 0; i < 50 && open_works() != 0; i++) /* the daemon may still be closing these connections */
		usleep(100000);
	return bad + open_works();
}
