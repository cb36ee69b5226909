/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_about.h"
#include "version/version.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

/* The CPU model from /proc/cpuinfo, "model name : ..."; Arm has no such line. */
static void cpu_model(char *to, size_t len)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];

	to[0] = '\0';
	while (f != NULL && to[0] == '\0' && fgets(line, sizeof(line), f) != NULL) {
		const char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || colon == NULL)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(to, len, "%s", colon + 1 + strspn(colon + 1, " "));
	}
	if (f != NULL)
		fclose(f);
}

void tp_about_fill(struct tp_about *a)
{
	const time_t now = time(NULL);
	struct tm utc;

	memset(a, 0, sizeof(*a));
	snprintf(a->version, sizeof(a->version), "%s", version_text);
	const char *commit = strstr(version_text, "(commit ");
	if (commit != NULL && sscanf(commit, "(commit %31[^)]", a->commit) != 1)
		a->commit[0] = '\0';
	gmtime_r(&now, &utc);
	strftime(a->date, sizeof(a->date), "%Y-%m-%dT%H:%M:%SZ", &utc);
	if (gethostname(a->host, sizeof(a->host)) != 0)
		a->host[0] = '\0';
	a->host[sizeof(a->host) - 1] = '\0';
	cpu_model(a->cpu, sizeof(a->cpu));
}
