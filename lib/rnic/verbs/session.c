/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's connection to rnicd (session). The first verbs call makes it; it ends with the daemon, and a child of
 * fork() does not inherit it.
 */
#include "rnic/verbs/fail.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rnic/rnic.h>

#include "ipc/ipc_region.h"
#include "rnic/map.h"

#define FEW_CPUS 2

static pthread_mutex_t make_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rnic_session *current; /* under make_lock */
static struct rnic_session *older;   /* earlier sessions, linked by their `older`; under make_lock */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* ---- making a session ---- */

/* quiet: prints nothing when no daemon runs. */
static int dial(bool quiet)
{
	const char *path = getenv("RNICD_SOCKET");
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int sock;

	if (path == NULL || path[0] == '\0')
		path = IPC_DEFAULT_SOCKET;
	if (strlen(path) >= sizeof(un.sun_path)) {
		rnic_complain("rnic: RNICD_SOCKET is longer than the %zu bytes a socket's path may have",
			      sizeof(un.sun_path) - 1);
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(un.sun_path, path, strlen(path));
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -1;
	if (connect(sock, (struct sockaddr *)&un, sizeof(un)) == 0)
		return sock;
	if (errno == EACCES || errno == EPERM) {
		rnic_complain("rnic: no permission to use rnicd's socket %s: ask for the right to write to it", path);
		errno = EACCES;
	} else {
		if (!quiet)
			rnic_complain(
				"rnic: rnicd is not running at %s: start it, set RNICD_SOCKET, or run the program "
				"without a daemon (rnicrun --embedded)",
				path);
		errno = ENODEV;
	}
	close(sock);
	return -1;
}

/*
 * The values of RNIC_DESIGN say where iWARP runs. Offloaded: in rnicd. Assisted: in this process, with CRC and TCP in
 * rnicd. Host: in this process, over rnicd's TCP. Embedded: in this process, over the kernel's TCP. DESIGN_AUTO
 * (RNIC_EMBEDDED=auto): offloaded if an rnicd runs, else embedded.
 */
enum design { DESIGN_OFFLOADED, DESIGN_ASSISTED, DESIGN_HOST, DESIGN_EMBEDDED, DESIGN_AUTO };

/* RNIC_EMBEDDED: "auto" applies if no daemon runs; any other value except "no" and "0" means always. */
static enum design embedded_wanted(void)
{
	const char *e = getenv("RNIC_EMBEDDED");

	if (e == NULL || e[0] == '\0' || strcmp(e, "no") == 0 || strcmp(e, "0") == 0)
		return DESIGN_OFFLOADED;
	return strcmp(e, "auto") == 0 ? DESIGN_AUTO : DESIGN_EMBEDDED;
}

/* RNIC_DESIGN takes precedence over RNIC_EMBEDDED. False: it names no known design. */
static bool design_wanted(enum design *d)
{
	static const char *const names[] = { "offloaded", "assisted", "host", "embedded" };
	const char *e = getenv("RNIC_DESIGN");

	*d = embedded_wanted();
	if (e == NULL || e[0] == '\0')
		return true;
	for (unsigned i = 0; i < RN_ARRAY_LEN(names); i++) {
		*d = (enum design)i;
		if (strcmp(e, names[i]) == 0)
			return true;
	}
	rnic_complain("rnic: RNIC_DESIGN=%s is not a design: set it to offloaded, assisted, host or embedded", e);
	return false;
}

static enum ipc_own_design own_design(enum design d)
{
	if (d == DESIGN_ASSISTED)
		return IPC_OWN_ASSISTED;
	return d == DESIGN_HOST ? IPC_OWN_HOST : IPC_OWN_EMBEDDED;
}

/* Connects s->sock, and sets s->own if the daemon's part runs in this process. 0 or an errno. */
static int connect_to_daemon(struct rnic_session *s)
{
	enum design d;

	if (!design_wanted(&d))
		return EINVAL;
	if (d == DESIGN_OFFLOADED || d == DESIGN_AUTO) {
		s->sock = dial(d == DESIGN_AUTO);
		if (s->sock >= 0) {
			s->design = IPC_DESIGN_OFFLOADED;
			return 0;
		}
		if (d == DESIGN_OFFLOADED || errno != ENODEV)
			return errno;
		rnic_complain("rnic: rnicd is not running: the kernel's sockets are used instead (RNIC_EMBEDDED=auto)");
	}
	s->design = d == DESIGN_ASSISTED ? IPC_DESIGN_ASSISTED
		    : d == DESIGN_HOST   ? IPC_DESIGN_HOST
					 : IPC_DESIGN_EMBEDDED;
	int rc = rnic_own_start(&s->own, own_design(d));
	if (rc == 0)
		s->sock = s->own.sock;
	return rc;
}

static bool huge_wanted(void)
{
	const char *huge = getenv("RNIC_HUGE");

	return huge == NULL || huge[0] != '0';
}

static int no_region(int err, uint64_t size)
{
	if (err == EFBIG)
		rnic_complain(
			"rnic: this process may not have a file of %llu MiB, which librnic shares with rnicd: raise its "
			"limit (ulimit -f unlimited)",
			(unsigned long long)(size >> 20));
	else
		rnic_complain("rnic: no %llu MiB of shared addresses: %s; see whether ulimit -v is unlimited",
			      (unsigned long long)(size >> 20), strerror(err));
	return err;
}

static int regions_make(struct rnic_session *s, uint64_t size[IPC_REGIONS])
{
	static const uint64_t full[IPC_REGIONS] = { IPC_QUEUES_SIZE, IPC_ARENA_SIZE, IPC_HUGE_SIZE };

	for (unsigned r = 0; r < IPC_REGIONS; r++) {
		if (r != IPC_REGION_QUEUES && s->own.turn != NULL)
			continue;
		if (r == IPC_REGION_HUGE && (!huge_wanted() || rnic_huge_free() == 0))
			continue;
		int rc = ipc_region_create((enum ipc_region)r, full[r], &s->fd[r]);
		if (rc == 0)
			size[r] = full[r];
		else if (r != IPC_REGION_HUGE)
			return no_region(-rc, full[r]);
	}
	int rc = ipc_region_map(s->fd[IPC_REGION_QUEUES], IPC_QUEUES_SIZE, &s->queues);
	if (rc != 0)
		return no_region(-rc, IPC_QUEUES_SIZE);
	s->ctrl = (struct ipc_ctrl *)(void *)s->queues;
	s->ctrl->magic = IPC_CTRL_MAGIC;
	return 0;
}

static int hello(struct rnic_session *s, const uint64_t size[IPC_REGIONS])
{
	struct ipc_msg m = { .type = IPC_HELLO, .len = IPC_MSG_LEN(hello), .seq = ++s->seq };
	int fds[1 + IPC_REGIONS];
	unsigned n = 0;
	unsigned none = 0;

	m.hello.version = IPC_VERSION;
	m.hello.pid = (uint32_t)getpid();
	memcpy(m.hello.size, size, sizeof(m.hello.size));
	fds[n++] = s->wake_fd;
	for (unsigned r = 0; r < IPC_REGIONS; r++) {
		if (s->fd[r] >= 0)
			fds[n++] = s->fd[r];
	}
	int rc = ipc_send(s->sock, &m, fds, n);
	if (rc == 0)
		rc = ipc_recv(s->sock, &m, NULL, &none);
	if (rc != 0)
		return -rc;
	if (m.type != IPC_HELLO || m.seq != s->seq)
		return EPROTO;
	if (m.status != 0) {
		m.text[IPC_TEXT_MAX - 1] = '\0';
		rnic_complain("rnic: rnicd refuses this client: %s", m.text);
		return m.status > 0 ? m.status : EPROTO;
	}
	if (m.len != IPC_MSG_LEN(hello_ok) || m.hello_ok.version != IPC_VERSION) {
		rnic_complain("rnic: librnic speaks version %d of the control protocol, rnicd version %u: "
			      "install both from one release and restart rnicd",
			      IPC_VERSION, m.hello_ok.version);
		return EPROTO;
	}
	if (m.hello_ok.workers == 0 || m.hello_ok.workers > IPC_MAX_WORKERS)
		return EPROTO;
	s->ndevs = m.hello_ok.devs;
	s->workers = m.hello_ok.workers;
	s->can = m.hello_ok.can;
	return 0;
}

static void session_free(struct rnic_session *s)
{
	rnic_mem_destroy(s->mem);
	if (s->queues != NULL)
		rnic_unmap(s->queues, IPC_QUEUES_SIZE);
	for (unsigned r = 0; r < IPC_REGIONS; r++) {
		if (s->fd[r] >= 0)
			close(s->fd[r]);
	}
	if (s->sock >= 0)
		close(s->sock);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	free(s->shm);
	free(s);
}

static bool few_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) <= FEW_CPUS;
}

/* Makes all locks of a session free, also those that a thread held which does not exist in this process. */
static void locks_init(struct rnic_session *s)
{
	s->asked = (struct rn_list){ .first = NULL };
	s->reading = false;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->sock_lock, NULL);
	pthread_mutex_init(&s->id_lock, NULL);
	pthread_mutex_init(&s->ids_lock, NULL);
	pthread_mutex_init(&s->dev_lock, NULL);
	pthread_mutex_init(&s->open_lock, NULL);
}

static struct rnic_session *session_make(void)
{
	struct rnic_session *s = calloc(1, sizeof(*s));
	uint64_t size[IPC_REGIONS] = { 0 };
	int rc = ENOMEM;

	if (s == NULL)
		return NULL;
	locks_init(s);
	s->sock = s->wake_fd = -1;
	for (unsigned r = 0; r < IPC_REGIONS; r++)
		s->fd[r] = -1;
	rc = rnic_fail_away() ? ENODEV : connect_to_daemon(s);
	if (rc != 0)
		goto fail;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0) {
		rc = errno;
		goto fail;
	}
	s->yield = few_cpus();
	rc = regions_make(s, size);
	if (rc == 0)
		rc = hello(s, size);
	if (rc != 0)
		goto fail;
	rc = ENOMEM;
	s->shm = rnic_shm_create(s->queues, IPC_QUEUES_FREE_OFF, IPC_QUEUES_SIZE);
	s->mem = s->own.turn != NULL ? rnic_mem_create_own(s)
				     : rnic_mem_create(s, s->fd[IPC_REGION_ARENA], s->fd[IPC_REGION_HUGE]);
	if (s->shm == NULL || s->mem == NULL)
		goto fail;
	rc = rnic_watch_start(s);
	if (rc != 0)
		goto fail;
	return s;
fail:
	session_free(s);
	errno = rc;
	return NULL;
}

/* ---- fork ---- */

static int fork_cancel; /* whether the thread that forks may be cancelled; under make_lock */

static void fork_prepare(void)
{
	const int cancel = rnic_cancel_off();
	struct rnic_mem *m;

	pthread_mutex_lock(&make_lock);
	fork_cancel = cancel;
	rnic_qps_fork_prepare(); /* before the memory's lock: holders of the list's lock allocate memory */
	m = rnic_mem_last();
	if (m != NULL)
		rnic_mem_fork_prepare(m);
	if (current == NULL)
		return;
	pthread_mutex_lock(&current->lock);
	if (current->own.turn != NULL)
		current->own.fork_prepare();
}

static void fork_parent(void)
{
	struct rnic_mem *m = rnic_mem_last();

	if (current != NULL && current->own.turn != NULL)
		current->own.fork_parent();
	if (current != NULL)
		pthread_mutex_unlock(&current->lock);
	if (m != NULL)
		rnic_mem_fork_parent(m);
	rnic_qps_fork_parent();
	const int cancel = fork_cancel;
	pthread_mutex_unlock(&make_lock);
	rnic_cancel_back(cancel);
}

/*
 * The connection to rnicd and the queues stay the parent's. A child that still uses the parent's objects must not
 * affect them: its verbs calls fail, and it posts work requests to pages of its own. The first call in the child that
 * opens a device makes a new session.
 */
static void fork_child(void)
{
	struct rnic_session *s = current;
	struct rnic_mem *m = rnic_mem_last();

	/* Before anything is written: until this call the heap, which contains *s, may be shared with the parent. */
	if (m != NULL)
		rnic_mem_fork_child(m);
	rnic_forks++;
	if (s != NULL) {
		__atomic_store_n(&s->dead, 1, __ATOMIC_RELAXED);
		rnic_map(s->queues, IPC_QUEUES_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		close(s->sock);
		s->sock = -1;
		if (s->own.turn != NULL)
			s->own.fork_child();
		s->own.turn = NULL;
		rnic_mem_retire(s->mem);
		s->older = older;
		older = s;
		current = NULL;
	}
	for (s = older; s != NULL; s = s->older) {
		locks_init(s);
		s->forked = true;
		rnic_mem_inherited(s->mem);
	}
	rnic_qps_fork_child();
	pthread_mutex_init(&make_lock, NULL);
	rnic_cancel_back(fork_cancel);
}

static void fork_hooks(void) { pthread_atfork(fork_prepare, fork_parent, fork_child); }

struct rnic_session *rnic_session_get(void)
{
	const int cancel = rnic_cancel_off();
	struct rnic_session *s;

	pthread_once(&fork_once, fork_hooks);
	pthread_mutex_lock(&make_lock);
	if (current != NULL)
		rnic_watch_look(current);
	if (current != NULL && rnic_dead(current)) {
		rnic_mem_retire(current->mem);
		current->older = older;
		older = current;
		current = NULL;
	}
	if (current == NULL) {
		current = session_make();
		if (current != NULL)
			rnic_mem_publish(current->mem);
		if (current != NULL && rn_unlikely(rnic_injecting))
			rnic_fail_begin(current);
	}
	s = current;
	pthread_mutex_unlock(&make_lock);
	rnic_cancel_back(cancel);
	return s;
}

/* ---- the program's own blocks of arena memory ---- */

void *rnic_alloc(size_t size)
{
	struct rnic_session *s = rnic_session_get();

	return s != NULL ? rnic_mem_alloc(s->mem, size) : NULL;
}

/* The block may be of an older session, whose daemon is gone. */
void rnic_free(void *p)
{
	bool freed = false;

	if (p == NULL)
		return;
	pthread_mutex_lock(&make_lock);
	struct rnic_session *last = current, *before = older;
	pthread_mutex_unlock(&make_lock);
	if (last != NULL)
		freed = rnic_mem_free(last->mem, p);
	for (struct rnic_session *s = before; s != NULL && !freed; s = s->older)
		freed = rnic_mem_free(s->mem, p);
}
