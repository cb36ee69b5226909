/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/huge.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define SYSFS "/sys/kernel/mm/hugepages"

static uint64_t read_number(const char *root, const char *size, const char *file)
{
	unsigned long long n = 0;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s/%s", root, size, file);
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fscanf(f, "%llu", &n) != 1)
		n = 0;
	fclose(f);
	return n;
}

uint64_t huge_free_mb(const char *root)
{
	uint64_t mb = 0;
	struct dirent *e;
	DIR *d = opendir(root);

	if (d == NULL)
		return 0;
	while ((e = readdir(d)) != NULL) {
		unsigned long kb;
		if (sscanf(e->d_name, "hugepages-%lukB", &kb) == 1)
			mb += read_number(root, e->d_name, "free_hugepages") * kb / 1024;
	}
	closedir(d);
	return mb;
}

bool huge_decide(struct conf *c, char *say, uint32_t say_len)
{
	uint64_t have = c->hugepages == CONF_HUGE_NO ? 0 : huge_free_mb(SYSFS);
	const uint32_t work = c->d.work_mb * c->d.n_workers;

	if (have > 0 && have < c->d.memory_mb && have >= c->d.memory_mb - work) {
		c->d.memory_mb -= work; /* rather hugepages than working memory for all connections */
		c->d.work_mb = 0;
	}
	const uint32_t want = c->d.memory_mb;
	c->d.hugepages = have >= want;
	switch (c->hugepages) {
	case CONF_HUGE_NO:
		c->d.hugepages = false;
		snprintf(say, say_len, "ordinary pages (hugepages = no)");
		return true;
	case CONF_HUGE_AUTO:
		if (c->d.hugepages)
			snprintf(say, say_len, "hugepages");
		else
			snprintf(say, say_len, "ordinary pages (%llu MiB of hugepages are free, %u are wanted)",
				 (unsigned long long)have, want);
		return true;
	case CONF_HUGE_YES:
		snprintf(say, say_len, "hugepages");
		if (!c->d.hugepages)
			snprintf(say, say_len,
				 "%s hugepages: run `echo %u > /proc/sys/vm/nr_hugepages`, or set hugepages = no",
				 have == 0 ? "no" : "not enough", rn_max_u32(512, want / 2));
		return c->d.hugepages;
	}
	return false;
}
