/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that take long to close, and more descriptors than the daemon may have. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raw_client.h"

#define LINGER_S 10000

/* A TCP connection of the kernel with bytes that its peer does not read: the last close() of it blocks for LINGER_S. */
static int lingering(void)
{
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
	    small = 4096;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct linger li = { 1, LINGER_S };
	static char bytes[65536];
	socklen_t len = sizeof(a);

	setsockopt(l, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	raw_must(bind(l, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(l, 1) == 0 &&
			 getsockname(l, (struct sockaddr *)&a, &len) == 0 &&
			 connect(s, (struct sockaddr *)&a, sizeof(a)) == 0 && accept4(l, NULL, NULL, SOCK_CLOEXEC) >= 0,
		 "a TCP connection on the loopback"); /* the peer's end stays open */
	close(l);
	fcntl(s, F_SETFL, O_NONBLOCK);
	while (write(s, bytes, sizeof(bytes)) > 0)
		;
	fcntl(s, F_SETFL, 0);
	setsockopt(s, SOL_SOCKET, SO_LINGER, &li, sizeof(li));
	return s;
}

static void ask_with(struct raw *r, int *fds, unsigned n)
{
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev), .seq = ++r->seq };

	raw_must(ipc_send(r->sock, &m, fds, n) == 0, "send");
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
}

#define PUT_OFF 16 /* requests that wait for a neighbour while rnicd serves other requests of the client */

/*
 * Asks for the address of a neighbour that does not exist, so often that until rnicd gives up the search, it reads no
 * other request of this client. So this process can close its own copies of the descriptors in the next requests before
 * rnicd does, and rnicd's close() is the last one.
 */
static void keep_busy(struct raw *r)
{
	const struct ipc_addr nobody = raw_addr("10.77.0.99", 0);

	for (int i = 0; i <= PUT_OFF; i++) {
		struct ipc_msg m = { .type = IPC_REACH, .len = IPC_MSG_LEN(reach), .seq = ++r->seq };
		memcpy(m.reach.ip, nobody.ip, sizeof(m.reach.ip));
		raw_must(ipc_send(r->sock, &m, NULL, 0) == 0, "send");
	}
}

int mode_lingering(void)
{
	struct ipc_msg m;
	struct raw r;
	int fds[IPC_MAX_FDS];

	raw_must(raw_open(&r) == 0, "open");
	for (int i = 0; i < IPC_MAX_FDS; i++)
		fds[i] = lingering();
	keep_busy(&r);
	ask_with(&r, fds, IPC_MAX_FDS);
	int rc = 0;
	for (int i = 0; i <= PUT_OFF && rc == 0; i++)
		rc = ipc_recv(r.sock, &m, NULL, NULL);
	printf("no neighbour: %d %d\n", rc, rc == 0 ? m.status : 0);
	rc = ipc_recv(r.sock, &m, NULL, NULL);
	printf("answered: %d %d\n", rc, rc == 0 ? m.status : 0);
	return 0;
}

/*
 * Closes the control socket while requests with descriptors lie unread in it. Then the kernel closes the descriptors.
 */
int mode_unread(void)
{
	struct raw r;

	raw_must(raw_open(&r) == 0, "open");
	int fds[4] = { lingering(), lingering(), lingering(), lingering() };
	keep_busy(&r);
	for (int i = 0; i < 4; i++)
		ask_with(&r, &fds[i], 1);
	raw_close(&r);
	printf("closed\n");
	pause(); /* this process holds the other ends of the connections */
	return 0;
}

/* Connects $N times, each time sends a request with a descriptor, and closes the connection. */
int mode_leaving(void)
{
	const int n = atoi(getenv("N"));
	struct raw r = { .wake = -1 };

	for (int i = 0; i < n; i++) {
		int fd = eventfd(0, EFD_CLOEXEC);
		r.sock = raw_dial();
		raw_must(r.sock >= 0, "connect");
		ask_with(&r, &fd, 1);
		close(r.sock);
	}
	printf("left\n");
	return 0;
}

/* Makes a stream socket of rnicd, as librnicsock does, and returns the program's descriptor of it. */
static int stream_socket(struct raw *r, uint64_t *sock)
{
	struct ipc_msg m = { .type = IPC_SOCK_BIND, .len = IPC_MSG_LEN(sock_addr), .seq = ++r->seq };
	unsigned n = 1;
	int fd = -1;

	m.sock_addr.addr = raw_addr(RAW_FROM, 0);
	raw_must(ipc_send(r->sock, &m, NULL, 0) == 0 && ipc_recv(r->sock, &m, &fd, &n) == 0, "bind");
	raw_must(m.status == 0 && n == 1, "a stream socket");
	*sock = m.sock_ok.sock;
	return fd;
}

/*
 * Sends descriptors to rnicd through the descriptors of stream sockets, whose other ends are rnicd's. Connects one of
 * these sockets to $PORT, so that rnicd makes its descriptor writable, and then closes both.
 */
int mode_inside(void)
{
	struct raw r = { .sock = raw_dial(), .wake = -1, .fd = { -1, -1, -1 } };
	struct ipc_msg m = { .type = IPC_SOCK_JOIN, .len = IPC_MSG_HDR, .seq = ++r.seq };
	int fds[IPC_MAX_FDS], fd[2], large = 1 << 16;
	unsigned n = IPC_MAX_FDS;
	uint64_t sock[2];

	raw_must(r.sock >= 0 && ipc_send(r.sock, &m, NULL, 0) == 0 && ipc_recv(r.sock, &m, fds, &n) == 0 &&
			 m.status == 0,
		 "join");
	for (int i = 0; i < 2; i++) {
		fd[i] = stream_socket(&r, &sock[i]);
		setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &large, sizeof(large));
		int evil = lingering();
		raw_must(ipc_send(fd[i], &m, &evil, 1) == 0, "send a descriptor");
		close(evil);
	}
	m = (struct ipc_msg){ .type = IPC_SOCK_CONNECT, .len = IPC_MSG_LEN(sock_addr) };
	m.sock_addr.addr = raw_addr("10.77.0.1", (uint16_t)atoi(getenv("PORT")));
	m.sock_addr.sock = sock[0];
	m.sock_addr.flags = IPC_SOCK_PLAIN;
	printf("sent\n");
	m.seq = ++r.seq;
	raw_must(ipc_send(r.sock, &m, NULL, 0) == 0, "connect");
	n = IPC_MAX_FDS;
	raw_must(ipc_recv(r.sock, &m, fds, &n) == 0, "the answer to connect");
	printf("connecting: %d\n", m.status);
	char c;
	ssize_t got = read(0, &c, 1);
	(void)got;
	close(fd[0]);
	close(fd[1]);
	printf("closed\n");
	pause(); /* this process holds the other ends of the connections */
	return 0;
}

/* ---- a file whose server does not answer ---- */

static int server = -1; /* /dev/fuse */

static void reply(uint64_t unique, int error, const void *d, size_t n)
{
	char b[512];
	const struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + n), .error = error, .unique = unique };

	memcpy(b, &h, sizeof(h));
	if (n > 0)
		memcpy(b + sizeof(h), d, n);
	if (write(server, b, sizeof(h) + n) < 0)
		perror("fuse");
}

/*
 * Answers the requests of FUSE. If it is silent, it answers only those that opening a file sends, and not FLUSH and
 * RELEASE, which closing it sends. Ends when the file system is unmounted.
 */
static void serve(bool silent)
{
	static char b[1 << 17];
	ssize_t n;

	while ((n = read(server, b, sizeof(b))) > 0) {
		const struct fuse_in_header *h = (const void *)b;
		struct fuse_attr at = { .ino = h->nodeid,
					.mode = h->nodeid == 1 ? S_IFDIR | 0755 : S_IFREG | 0666,
					.nlink = 1,
					.size = 4096 };
		if (h->opcode == FUSE_INIT) {
			const struct fuse_init_out o = {
				.major = 7, .minor = 31, .max_write = 65536, .max_readahead = 65536
			};
			reply(h->unique, 0, &o, sizeof(o));
		} else if (h->opcode == FUSE_LOOKUP) {
			at.ino = 2;
			at.mode = S_IFREG | 0666;
			const struct fuse_entry_out o = {
				.nodeid = 2, .attr = at, .entry_valid = 10000, .attr_valid = 10000
			};
			reply(h->unique, 0, &o, sizeof(o));
		} else if (h->opcode == FUSE_GETATTR) {
			const struct fuse_attr_out o = { .attr = at, .attr_valid = 10000 };
			reply(h->unique, 0, &o, sizeof(o));
		} else if (h->opcode == FUSE_OPEN || h->opcode == FUSE_OPENDIR) {
			const struct fuse_open_out o = { .fh = 1 };
			reply(h->unique, 0, &o, sizeof(o));
		} else if (!silent) {
			if (h->opcode != FUSE_FORGET && h->opcode != FUSE_BATCH_FORGET)
				reply(h->unique, h->opcode == FUSE_RELEASE ? 0 : -ENOSYS, NULL, 0);
		} else if (h->opcode == FUSE_FLUSH) {
			printf("held\n");
		}
	}
}

int attack_fuse_file(bool silent)
{
	const char *at = getenv("MOUNT");
	char options[64], file[256];

	server = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", server);
	if (server < 0 || mount("attack", at, "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
		printf("cannot mount: %s\n", strerror(errno));
		close(server);
		return -1;
	}
	pid_t pid = fork();
	if (pid == 0) {
		/* the parent, which will be user 65534, may not send a signal to root when it ends */
		raw_must(setuid(65534) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "end with the parent");
		serve(silent);
		_exit(0);
	}
	close(server);
	snprintf(file, sizeof(file), "%s/file", at);
	int fd = open(file, O_RDWR | O_CLOEXEC);
	raw_must(fd >= 0, "a file of FUSE");
	return fd;
}

int mode_fuse(void)
{
	int fd = attack_fuse_file(true);
	struct raw r;

	if (fd < 0)
		return 0;
	raw_must(setgid(65534) == 0 && setuid(65534) == 0 && raw_open(&r) == 0, "another user's client");
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev), .seq = ++r.seq };
	raw_must(ipc_send(r.sock, &m, &fd, 1) == 0, "send");
	printf("sent\n");
	int rc = ipc_recv(r.sock, &m, NULL, NULL);
	printf("answered %d %d\n", rc, rc == 0 ? m.status : 0);
	return 0;
}

/* ---- all the descriptors that rnicd can have ---- */

/* Makes event channels in $N clients until rnicd has no descriptor left; stays until stdin ends. */
int mode_channels(void)
{
	static struct raw r[64];
	static struct raw_chan ch;
	uint32_t clients = (uint32_t)atoi(getenv("N")), made = 0;
	int bad = 0, rc = 0;

	for (uint32_t i = 0; i < clients; i++) /* the clients connect first, before descriptors run out */
		raw_must(raw_open(&r[i]) == 0, "open");
	for (uint32_t i = 0; i < clients; i++) {
		int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK);
		for (;;) {
			const uint64_t at = raw_room(&r[i], spsc_size(16, IPC_EVENT_SLOT_SMALL));
			struct ipc_msg m = { .type = IPC_CREATE_CHANNEL,
					     .len = IPC_MSG_LEN(create_channel),
					     .create_channel = {
						     .kind = IPC_CHANNEL_COMP, .ring_off = at, .ring_slots = 16 } };
			rc = raw_call(&r[i], &m, fd);
			if (rc != 0)
				break;
			made++;
		}
		close(fd);
		EXPECT(rc == ENFILE, "a channel too many: %d (%s)", rc, r[i].text);
		/* The client must stay connected: rnicd tells it the error, and the client goes on. */
		rc = raw_chan(&r[i], IPC_CHANNEL_COMP, 0, 16, &ch);
		EXPECT(rc != EPIPE, "the client has lost its connection");
	}
	printf("%u channels\n", made);
	char c;
	ssize_t n = read(0, &c, 1);
	(void)n;
	return bad;
}
