/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that a client asks rnicd to map. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "raw_client.h"

#define PAGE 4096u

/* $SHM_FILE: a page in a memory file system that this user may read, and that one of rnicd's groups may write. */
int mode_groups(void)
{
	int fd = open(getenv("SHM_FILE"), O_RDONLY | O_CLOEXEC), bad = 0;
	struct raw r;

	raw_must(fd >= 0 && raw_open(&r) == 0, "open");
	void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	raw_must(p != MAP_FAILED && open(getenv("SHM_FILE"), O_RDWR | O_CLOEXEC) < 0, "a file that may only be read");
	struct ipc_msg m = { .type = IPC_IMPORT,
			     .len = IPC_MSG_LEN(import),
			     .import = { .start = (uintptr_t)p, .end = (uintptr_t)p + PAGE, .len = PAGE } };
	int rc = raw_call(&r, &m, -1);
	EXPECT(rc == 0 || rc == ENXIO, "to read what may be read: %d (%s)", rc, r.text);
	printf("to read: %d\n", rc);
	m = (struct ipc_msg){ .type = IPC_IMPORT,
			      .len = IPC_MSG_LEN(import),
			      .import = {
				      .start = (uintptr_t)p, .end = (uintptr_t)p + PAGE, .len = PAGE, .writable = 1 } };
	int write = raw_call(&r, &m, -1);
	EXPECT(write == (rc == 0 ? EACCES : ENXIO), "to write what may only be read: %d (%s)", write, r.text);
	return bad;
}

/* ---- a lock that the attacker holds ---- */

static struct {
	int mem, go[2]; /* /proc/self/mem; a pipe */
	uint8_t *file;  /* a page of a file whose server does not answer */
} lock;

/* The two threads of the process whose memory map is locked; in memory that its child shares. 0: not yet begun. */
struct lock_threads {
	pid_t reader, writer;
};

/* The kernel holds the lock of the memory map for reading, for as long as it waits for the page of the file. */
static void *lock_reader(void *threads)
{
	struct lock_threads *t = threads;
	char c;

	__atomic_store_n(&t->reader, gettid(), __ATOMIC_RELEASE);
	ssize_t n = pread(lock.mem, &c, 1, (off_t)(uintptr_t)lock.file);
	(void)n;
	return NULL;
}

/* Waits for the lock for writing: all who come later, and only want to read, wait behind it. */
static void *lock_writer(void *threads)
{
	struct lock_threads *t = threads;
	char c;

	__atomic_store_n(&t->writer, gettid(), __ATOMIC_RELEASE);
	raw_must(read(lock.go[0], &c, 1) == 1, "wait for the reader");
	mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return NULL;
}

/*
 * Waits until this thread of the parent process has written its number, and is in one of these states of stat(5) in ten
 * readings: it may wait for a moment for something else.
 */
static void until_it_waits(const pid_t *thread, const char *states)
{
	char path[64], stat[512];
	uint32_t seen = 0;

	while (__atomic_load_n(thread, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)getppid(), (int)*thread);
	while (seen < 10) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, stat, sizeof(stat) - 1);
		raw_must(fd >= 0 && n > 0, "the state of a thread");
		close(fd);
		stat[n] = '\0';
		const char *state = strrchr(stat, ')'); /* ") S ..." */
		seen = state != NULL && strchr(states, state[2]) != NULL ? seen + 1 : 0;
		usleep(1000);
	}
}

/* Asks for the import of a page of the parent process, over its socket, as soon as the parent's map is locked. */
static void lock_asker(const struct lock_threads *t, const struct raw *r, const uint8_t *page)
{
	raw_must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "an end with the parent");
	until_it_waits(&t->reader, "SD");
	raw_must(write(lock.go[1], "", 1) == 1, "let the writer go");
	until_it_waits(&t->writer, "D");
	struct ipc_msg m = { .type = IPC_IMPORT,
			     .len = IPC_MSG_LEN(import),
			     .import = { .start = (uintptr_t)page, .end = (uintptr_t)page + PAGE, .len = PAGE } };
	raw_must(ipc_send(r->sock, &m, NULL, 0) == 0, "send");
	printf("asked\n");
	int rc = ipc_recv(r->sock, &m, NULL, NULL);
	printf("answered %d %d\n", rc, rc == 0 ? m.status : 0);
	pause();
}

/*
 * $MOUNT: as for attack_fuse_file(). Asks for an import while nobody can take the lock of this process' memory map,
 * which looking for the file of a mapping needs. A child process asks: a page fault of this process would wait too.
 */
int mode_locked(void)
{
	int fuse = attack_fuse_file(true), fd = memfd_create("import", MFD_CLOEXEC);
	pthread_t thread;
	struct raw r;

	if (fuse < 0)
		return 0;
	raw_must(fd >= 0 && ftruncate(fd, PAGE) == 0 && pipe2(lock.go, O_CLOEXEC) == 0, "memfd");
	uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct lock_threads *t = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	lock.file = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fuse, 0);
	raw_must(page != MAP_FAILED && t != MAP_FAILED && lock.file != MAP_FAILED, "memory");
	raw_must(setgid(65534) == 0 && setuid(65534) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0 && raw_open(&r) == 0,
		 "another user's client");
	pid_t child = fork();
	raw_must(child >= 0, "fork");
	if (child == 0)
		lock_asker(t, &r, page);
	lock.mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	raw_must(lock.mem >= 0 && pthread_create(&thread, NULL, lock_writer, t) == 0, "a thread");
	while (__atomic_load_n(&t->writer, __ATOMIC_ACQUIRE) == 0) /* the start of a thread may need the lock */
		usleep(1000);
	raw_must(pthread_create(&thread, NULL, lock_reader, t) == 0, "a thread");
	pause();
	return 0;
}

/*
 * Leaves as many mappings in rnicd as possible: imports get ever new addresses, because a large import occupies the
 * addresses below while small ones are made above it. Then imports in $N clients until each is refused; stays until
 * stdin ends.
 */
int mode_mappings(void)
{
	const uint64_t slot = UINT64_C(2) << 20;
	static struct raw r[64];
	uint32_t clients = (uint32_t)atoi(getenv("N")), made = 0;
	int bad = 0, rc = 0, fd = memfd_create("import", MFD_CLOEXEC);

	raw_must(fd >= 0 && ftruncate(fd, (off_t)(slot << 14)) == 0, "memfd");
	for (uint32_t i = 0; i < clients; i++)
		raw_must(raw_open(&r[i]) == 0, "open");
	for (uint32_t below = 1; below < 1 << 13; below += 250) {
		uint32_t handle[256], n = 0;
		for (; n < 250; n++) {
			struct ipc_msg m = { .type = IPC_IMPORT,
					     .len = IPC_MSG_LEN(import),
					     .import = { .len = n == 0 ? below * slot : PAGE } };
			rc = raw_call(&r[0], &m, fd);
			if (rc != 0)
				break;
			handle[n] = m.handle.handle;
		}
		EXPECT(rc == 0 || rc == ENOMEM, "an import: %d (%s)", rc, r[0].text);
		while (n > 0)
			raw_call_handle(&r[0], IPC_FORGET, handle[--n]);
	}
	for (uint32_t i = 0; i < clients; i++) {
		do {
			struct ipc_msg m = { .type = IPC_IMPORT,
					     .len = IPC_MSG_LEN(import),
					     .import = { .len = PAGE } };
			rc = raw_call(&r[i], &m, fd);
			made += rc == 0;
		} while (rc == 0);
		EXPECT(rc == ENOMEM, "an import too many: %d (%s)", rc, r[i].text);
	}
	printf("%u imports\n", made);
	char c;
	ssize_t n = read(0, &c, 1);
	(void)n;
	return bad;
}
