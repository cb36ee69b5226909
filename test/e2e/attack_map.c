/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that a client asks rnicd to map. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
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
