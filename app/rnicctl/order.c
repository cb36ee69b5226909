/* SPDX-License-Identifier: BSD-3-Clause */
#include "order.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ORDER_MAX   400u /* bytes */
#define COMMAND_MAX 32u
#define LOOK_NS     20000000L
#define LOOKS_MOST  250u /* five seconds */

/* Sends the order and returns the answer; repeats it while an earlier change is still under way in rnicd. */
static json_t *answer_to(struct daemon *d, const char *path, const char *order)
{
	const struct timespec nap = { .tv_nsec = LOOK_NS };
	json_t *answer = daemon_ask(d, path, order);

	for (uint32_t i = 0; i < LOOKS_MOST && json_integer_value(json_object_get(answer, "again")) == 1; i++) {
		json_decref(answer);
		nanosleep(&nap, NULL);
		answer = daemon_ask(d, path, order);
	}
	return answer;
}

int order_send(struct daemon *d, const char *command, char *const *word, int n)
{
	char order[ORDER_MAX] = "", path[COMMAND_MAX];
	size_t len = 0;
	int rc = 1;

	for (int i = 0; i < n; i++) {
		size_t more = strlen(word[i]) + 1;
		if (len + more >= sizeof(order)) {
			fprintf(stderr, "rnicctl: the order is longer than %u bytes: give it in two\n", ORDER_MAX - 1);
			return rc;
		}
		len += (size_t)snprintf(order + len, sizeof(order) - len, "%s%s", i > 0 ? " " : "", word[i]);
	}
	snprintf(path, sizeof(path), "/rnic/%s", command);
	for (char *p = path; *p != '\0'; p++)
		if (*p == '-')
			*p = '_'; /* names of DPDK's telemetry commands have no hyphens */
	json_t *answer = answer_to(d, path, order);
	if (daemon_lost(d))
		return daemon_gone(d);
	const char *say = json_string_value(json_object_get(answer, "say"));
	if (say == NULL) {
		fprintf(stderr, "rnicctl: this rnicd does not know the order '%s': it is older than rnicctl\n",
			command);
	} else if (json_integer_value(json_object_get(answer, "done")) == 1) {
		puts(say);
		rc = 0;
	} else {
		fprintf(stderr, "rnicctl: %s\n", say);
	}
	json_decref(answer);
	return rc;
}
