/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that rnicd is asked to map. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "raw_client.h"

#define PAGE 4096u

/* $SHM_FILE: a page in a memory file system that this user may read, and that a group of rnicd's may write. */
int mode_groups(void)
{
	int fd = open(getenv("SHM_FILE"), O_RDONLY | O_CLOEXEC), bad = 0;
	struct raw r;

	raw_must(fd >= 0 && raw_open(&r) == 0, "open");
	void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	raw_must(p != MAP_FAILED && open(getenv("SHM_FILE"), O_RDWR | O_CLOEXEC) < 0, "a file that may only be read");
	struct ipc_msg m = { .type = IPC_IMPORT, .len = IPC_MSG_LEN(import),
			     .import = { .start = (uintptr_t)p, .end = (uintptr_t)p + PAGE, .len = PAGE } };
	int rc = raw_call(&r, &m, -1);
	EXPECT(rc == 0 || rc == ENXIO, "to read what may be read: %d (%s)", rc, r.text);
	printf("to read: %d\n", rc);
	m = (struct ipc_msg){ .type = IPC_IMPORT, .len = IPC_MSG_LEN(import),
			      .import = { .start = (uintptr_t)p, .end = (uintptr_t)p + PAGE, .len = PAGE, .writable = 1 } };
	int write = raw_call(&r, &m, -1);
	EXPECT(write == (rc == 0 ? EACCES : ENXIO), "to write what may only be read: %d (%s)", write, r.text);
	return bad;
}
