/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of other processes that a client asks the daemon to map. */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "raw_client.h"

#define PAGE 4096u
#define LEN  (64u * PAGE)

static int import(struct raw *r, struct ipc_import a, int fd, uint32_t *region)
{
	struct ipc_msg m = { .type = IPC_IMPORT, .len = IPC_MSG_LEN(import), .import = a };
	int rc = raw_call(r, &m, fd);

	*region = m.handle.handle;
	return rc;
}

static int reg(struct raw *r, uint32_t pd, struct ipc_piece p, uint32_t access, struct ipc_reg_mr_ok *ok)
{
	uint64_t list = RAW_QUEUES - PAGE;
	struct ipc_msg m = { .type = IPC_REG_MR,
			     .len = IPC_MSG_LEN(reg_mr),
			     .reg_mr = { .pd = pd,
					 .access = access,
					 .iova = RAW_TO(0),
					 .len = p.len,
					 .pieces_off = list,
					 .npieces = 1 } };

	memcpy(r->queues + list, &p, sizeof(p));
	int rc = raw_call(r, &m, -1);
	*ok = m.reg_mr_ok;
	return rc;
}

static int memory(const char *name, int size)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	raw_must(fd >= 0 && ftruncate(fd, size) == 0, "memfd");
	return fd;
}

/* Invalid ranges, files and handles must be refused. */
static int refusals(struct raw *r, uint32_t pd)
{
	const struct ipc_import good = { .len = LEN, .writable = 1 };
	int mem = memory("theirs", LEN), disk = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
	    ev = eventfd(0, EFD_CLOEXEC), sealed, rc;
	struct ipc_reg_mr_ok ok;
	uint32_t region;
	int bad = 0;

#define REFUSED(what, fd, err, ...) \
	do { \
		struct ipc_import q_ = good; \
		__VA_ARGS__; \
		rc = import(r, q_, fd, &region); \
		EXPECT(rc == (err), "import, %s: %d", what, rc); \
	} while (0)
	REFUSED("of nothing", mem, EINVAL, q_.len = 0);
	REFUSED("past its file", mem, EINVAL, q_.len = LEN + PAGE);
	REFUSED("beyond its file", mem, EINVAL, q_.off = LEN);
	REFUSED("around the end of numbers", mem, EINVAL, q_.off = UINT64_MAX - PAGE + 1);
	REFUSED("around the end of signed numbers", mem, EINVAL, q_.off = (UINT64_C(1) << 63) - PAGE);
	REFUSED("of all there is", mem, EINVAL, q_.len = UINT64_MAX);
	REFUSED("of half a page", mem, EINVAL, q_.off = 100; q_.len = PAGE);
	REFUSED("of a file on a disk", disk, EOPNOTSUPP, q_.len = PAGE);
	REFUSED("of an eventfd", ev, EOPNOTSUPP, q_.len = PAGE);
	sealed = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	raw_must(ftruncate(sealed, LEN) == 0 && fcntl(sealed, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0, "seal");
	REFUSED("against a seal", sealed, EACCES, (void)q_);
	for (uint64_t at = 0; at < 4; at++) {
		rc = import(r, (struct ipc_import){ .start = at << 40, .end = (at << 40) + PAGE, .len = PAGE }, -1,
			    &region);
		EXPECT(rc == ENOENT || rc == ENXIO, "import of a mapping that is not there: %d", rc);
	}
	/* Read-only memory must not become writable, and an import in use must not be forgotten. */
	rc = import(r, (struct ipc_import){ .len = LEN }, mem, &region);
	EXPECT(rc == 0, "a read-only import: %d", rc);
	struct ipc_piece p = { .region = region, .off = 0, .len = LEN };
	for (uint32_t access = 1; access < 8; access++) {
		rc = access == 4 ? EINVAL : reg(r, pd, p, access, &ok);
		EXPECT(rc == EINVAL, "access %u to what may only be read: %d", access, rc);
	}
	p.off = PAGE;
	rc = reg(r, pd, p, 4, &ok);
	EXPECT(rc == EINVAL, "a piece that ends outside its import: %d", rc);
	p.off = 0;
	rc = reg(r, pd, p, 4, &ok);
	EXPECT(rc == 0, "what may be read: %d", rc);
	rc = raw_call_handle(r, IPC_FORGET, region);
	EXPECT(rc == EBUSY, "forgetting what is in use: %d", rc);
	rc = raw_call_handle(r, IPC_DEREG_MR, ok.handle);
	EXPECT(rc == 0, "deregister: %d", rc);
	rc = raw_call_handle(r, IPC_FORGET, region);
	EXPECT(rc == 0, "forget: %d", rc);
	rc = raw_call_handle(r, IPC_FORGET, region);
	EXPECT(rc == EINVAL, "forgetting it again: %d", rc);
	rc = raw_call_handle(r, IPC_FORGET, IPC_REGION_ARENA);
	EXPECT(rc == EINVAL, "forgetting the arena: %d", rc);
	rc = reg(r, pd, p, 4, &ok);
	EXPECT(rc == EINVAL, "a piece of what was forgotten: %d", rc);
	close(mem);
	close(disk);
	close(ev);
	close(sealed);
	return bad;
}

static int too_many(struct raw *r)
{
	int mem = memory("many", LEN), bad = 0, rc = 0;
	uint32_t region[IPC_IMPORTS_MAX + 1], n;

	for (n = 0; n <= IPC_IMPORTS_MAX; n++) {
		rc = import(r, (struct ipc_import){ .off = n % 64 * PAGE, .len = PAGE, .writable = 1 }, mem,
			    &region[n]);
		if (rc != 0)
			break;
	}
	EXPECT(n == IPC_IMPORTS_MAX && rc == ENOMEM, "%u imports, then %d", n, rc);
	while (n-- > 0) {
		rc = raw_call_handle(r, IPC_FORGET, region[n]);
		EXPECT(rc == 0, "forget %u: %d", region[n], rc);
	}
	close(mem);
	return bad;
}

/*
 * Imports a file that is truncated before its registration, or before a Write whose source it is. The registration must
 * fail; the Write may end in any way. The daemon must live.
 */
static int cut_short(const struct where *w, bool before)
{
	struct raw_job j;
	struct ipc_reg_mr_ok ok;
	struct qp_cqe e;
	uint32_t region;
	int mem = memory("short", LEN), bad = 0, rc = raw_connect(&j, w->address, w->port, 64);

	EXPECT(rc == 0, "no connection: %d (%s)", rc, j.r.text);
	rc = import(&j.r, (struct ipc_import){ .len = LEN, .writable = 1 }, mem, &region);
	EXPECT(rc == 0, "import: %d", rc);
	if (before)
		raw_must(ftruncate(mem, PAGE) == 0, "cut");
	rc = reg(&j.r, j.pd, (struct ipc_piece){ .region = region, .len = LEN }, 7, &ok);
	EXPECT(rc == (before ? ENOMEM : 0), "memory region: %d", rc);
	if (!before) {
		struct qp_wqe q = { .wr_id = 7,
				    .op = QP_WR_WRITE,
				    .flags = QP_WF_SIGNALED,
				    .num_sge = 1,
				    .slots = 1,
				    .raddr = w->to,
				    .rkey = w->stag,
				    .sge = { { RAW_TO(0), 65536, ok.stag } } };
		raw_must(ftruncate(mem, 0) == 0, "cut");
		raw_must(raw_post(&j.qp, &q), "post");
		raw_ring_bell(&j.r, &j.qp);
		for (uint64_t end = raw_now_ms() + 1000; !raw_poll(&j.r, &j.cq, &e) && raw_now_ms() < end;)
			usleep(1000);
	}
	raw_close(&j.r);
	close(mem);
	return bad;
}

/* Imports the memory at an address of this process, without a descriptor. Returns 0 or the errno of the refusal. */
static int by_address(struct raw *r, const void *p, int writable)
{
	uint32_t region;
	int rc = import(
		r,
		(struct ipc_import){
			.start = (uintptr_t)p, .end = (uintptr_t)p + LEN, .len = LEN, .writable = (uint32_t)writable },
		-1, &region);

	return rc == 0 ? raw_call_handle(r, IPC_FORGET, region) : rc;
}

int mode_imports(const struct where *w)
{
	struct raw r;
	uint32_t pd = 0;
	int bad = 0, rc;

	raw_must(raw_open(&r) == 0 && raw_pd(&r, 1, &pd) == 0, "hello");
	bad += refusals(&r, pd) + too_many(&r);
	void *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	rc = by_address(&r, p, 1);
	EXPECT(rc == 0 || rc == ENXIO, "shared memory by its address: %d", rc);
	raw_close(&r);
	return bad + cut_short(w, true) + cut_short(w, false);
}

/* $SHM_FILE: a file of LEN bytes in a memory file system, which this user may read and not write. */
int mode_imports_as_user(const struct where *w)
{
	int fd = open(getenv("SHM_FILE"), O_RDONLY | O_CLOEXEC), bad = 0, rc;
	struct raw r;

	(void)w;
	raw_must(geteuid() != 0 && fd >= 0 && raw_open(&r) == 0, "a user other than root");
	void *own = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	void *file = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
	raw_must(own != MAP_FAILED && file != MAP_FAILED, "map");
	rc = by_address(&r, own, 1);
	printf("own memory: %d\n", rc);
	EXPECT(rc == 0 || rc == ENXIO, "own memory: %d", rc);
	if (rc == 0) {
		rc = by_address(&r, file, 0);
		EXPECT(rc == 0, "to read what may be read: %d", rc);
		rc = by_address(&r, file, 1);
		EXPECT(rc == EACCES, "to write what may only be read: %d", rc);
	}
	raw_close(&r);
	return bad;
}
