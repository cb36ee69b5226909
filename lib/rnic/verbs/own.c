/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's part inside this process: finds its library next to this one, loads it and starts it. */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "rnic/verbs/objects.h"

static void *library; /* under the session's make_lock */
static pid_t started; /* the process in which the library was started; 0: none */

/* Folders of the library relative to this one: in an installation, in a build. */
static const char *const beside[] = { "", "../../app/rnicd/" };

static void *load(void)
{
	char self[PATH_MAX], path[2 * PATH_MAX];
	Dl_info info;
	void *lib = NULL;

	if (dladdr((void *)(uintptr_t)rnic_stock, &info) == 0 || strlen(info.dli_fname) >= sizeof(self))
		return NULL;
	strcpy(self, info.dli_fname);
	const char *folder = dirname(self);
	for (unsigned i = 0; i < RN_ARRAY_LEN(beside) && lib == NULL; i++) {
		snprintf(path, sizeof(path), "%s/%s" IPC_OWN_LIBRARY, folder, beside[i]);
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return lib;
}

/*
 * A session that has ended, or could not be made for want of descriptors, leaves the library running, which then serves
 * the next session. A child of fork() inherits the library without its threads and with state that may be half changed.
 * So in the child the library is unloaded together with its state, and loaded anew; so it is after a start that has
 * failed.
 */
int rnic_own_start(struct ipc_own *own, enum ipc_own_design design)
{
	const bool runs = library != NULL && started == getpid();

	if (library != NULL && !runs)
		dlclose(library);
	if (!runs)
		library = load();
	ipc_own_start_fn start = library != NULL ? (ipc_own_start_fn)(uintptr_t)dlsym(library, IPC_OWN_START)
						 : (ipc_own_start_fn)NULL;
	if (start == NULL) {
		const char *why = dlerror();
		rnic_complain("rnic: " IPC_OWN_LIBRARY " cannot be loaded: %s; install it beside librnic",
			      why != NULL ? why : "it is of another release");
		return ENODEV;
	}
	*own = (struct ipc_own){ .version = IPC_VERSION, .design = design, .sock = -1 };
	int rc = start(own);
	if (rc != 0) {
		own->turn = NULL;
		rnic_complain("rnic: no device: %s", own->err);
		return rc;
	}
	started = getpid();
	return 0;
}
