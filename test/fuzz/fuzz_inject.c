/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any text as a specification of failures: it is refused with a sentence and a place, or each of its rules can take
 * effect.
 */
#include <stdlib.h>
#include <string.h>

#include "inject/inject_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void rule_check(const struct inject_rule *r)
{
	check(r->at < INJECT_POINTS && (r->result != 0) != (r->event != 0));
	check((r->nth != 0) + (r->one_in != 0) + (r->after_ms != 0) == 1);
	check(r->result != INJECT_LATER || r->last_ms != 0);
	check(memchr(r->text, '\0', sizeof(r->text)) != NULL);
	check(r->at < INJECT_WC || r->ops != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *spec = malloc(size + 1);
	struct inject_rules rules;
	const char *rest = NULL;
	uint64_t n;

	check(spec != NULL);
	memcpy(spec, data, size);
	spec[size] = '\0';
	if (inject_parse(&rules, spec, &rest) != NULL) {
		check(rest >= spec && rest <= spec + strlen(spec));
		free(spec);
		return 0;
	}
	check(rules.n <= INJECT_MOST);
	for (uint32_t i = 0; i < rules.n; i++) {
		const struct inject_rule *r = &rules.r[i];
		const struct inject_what what = { .at = r->at, .qpn = r->qpn, .side = r->side };
		rule_check(r);
		(void)inject_hit(&rules, &what, r->result == INJECT_LATER, &n);
	}
	free(spec);
	return 0;
}
