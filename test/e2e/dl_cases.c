/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a program finds the libraries under rnicrun: by name (dlopen, dlsym, dlvsym), and by their symbols, as this
 * program is linked with the stock libibverbs and librdmacm. Prints "NAME LIBRARY" for each function: the library from
 * which it comes.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_cma.h>

/* Public functions that take none of librnic's objects and that the installed headers do not declare. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_path_rec_from_kern(void *dst, void *src);
void ibv_copy_path_rec_to_kern(void *dst, void *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);

static void where(const char *name, void *fn)
{
	Dl_info i;
	const char *slash = fn != NULL && dladdr(fn, &i) != 0 ? strrchr(i.dli_fname, '/') : NULL;

	printf("%s %s\n", name, slash != NULL ? slash + 1 : "nowhere");
}

static void by_name(const char *lib, const char *fn, const char *version)
{
	void *h = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
	char what[128];

	snprintf(what, sizeof(what), "%s:%s", lib, fn);
	where(what, h == NULL ? NULL : version != NULL ? dlvsym(h, fn, version) : dlsym(h, fn));
}

/* The device list of a program that has opened the library by name. */
static void devices(void)
{
	void *h = dlopen("libibverbs.so.1", RTLD_NOW);
	struct ibv_device **(*get)(int *) = (struct ibv_device * *(*)(int *))(uintptr_t)dlsym(h, "ibv_get_device_list");
	const char *(*name)(struct ibv_device *) =
		(const char *(*)(struct ibv_device *))(uintptr_t)dlsym(h, "ibv_get_device_name");
	int n = 0;
	struct ibv_device **list = get(&n);

	printf("devices %d %s\n", n, n > 0 ? name(list[0]) : "-");
}

#define LINKED(fn) where(#fn, (void *)(uintptr_t)fn)

int main(void)
{
	struct ib_uverbs_ah_attr kern = { .dlid = 77 };
	struct ibv_ah_attr ah = { .dlid = 1 };
	char buf[16];

	by_name("libibverbs.so.1", "ibv_get_device_list", "IBVERBS_1.1");
	by_name("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", "ibv_reg_mr_iova2", "IBVERBS_1.8");
	by_name("libibverbs.so", "ibv_open_device", NULL);
	by_name("librdmacm.so.1", "rdma_create_id", "RDMACM_1.0");
	by_name("librdmacm.so.1", "rdma_establish", NULL);
	by_name("libefa.so.1", "efadv_create_cq", "EFA_1.2");
	by_name("libm.so.6", "cos", NULL);
	LINKED(ibv_get_device_list);
	LINKED(rdma_create_event_channel);
	LINKED(ibv_get_sysfs_path);
	LINKED(ibv_read_sysfs_file);
	LINKED(ibv_copy_ah_attr_from_kern);
	LINKED(ibv_copy_path_rec_from_kern);
	LINKED(ibv_copy_path_rec_to_kern);
	LINKED(ibv_copy_qp_attr_from_kern);
	/* The stock functions work beside librnic's. */
	printf("sysfs %s\n", ibv_get_sysfs_path());
	printf("read %d\n", ibv_read_sysfs_file("/nowhere", "nothing", buf, sizeof(buf)));
	ibv_copy_ah_attr_from_kern(&ah, &kern);
	printf("copied %u\n", ah.dlid);
	devices();
	return 0;
}
