/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/rn_base.h"
#include "show.h"

static void host(void)
{
	struct utsname u;

	if (uname(&u) == 0)
		printf("kernel %s %s, %s, %ld CPUs online\n", u.sysname, u.release, u.machine,
		       sysconf(_SC_NPROCESSORS_ONLN));
}

/* All values of each port: its settings and its counters. */
static int ports(struct daemon *d)
{
	const struct show s = { .json = true };
	json_t *all = show_collect(d, "ports");
	size_t i;
	json_t *one;
	int rc = all == NULL ? daemon_gone(d) : 0;

	json_array_foreach(all, i, one)
		rc |= show_objects(d, &s, "ports", json_string_value(json_object_get(one, "id")));
	json_decref(all);
	return rc;
}

int report_print(struct daemon *d, const char *version)
{
	static const char *const kinds[] = { "clients", "workers", "listeners", "conns" };
	const struct show s = { .all = false };

	printf("## Versions and host\n\nrnicctl %s\n", version);
	host();
	puts("\n## Daemon\n");
	int rc = show_status(d, &s);
	puts("\n## Ports\n");
	rc |= ports(d);
	for (size_t i = 0; i < RN_ARRAY_LEN(kinds); i++) {
		printf("\n## %s\n\n", kinds[i]);
		rc |= show_objects(d, &s, kinds[i], NULL);
	}
	puts("\n## Counters that are not zero\n");
	return rc | show_counters(d, &s);
}
