/* SPDX-License-Identifier: BSD-3-Clause */
#include "script_seg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"

char *script_word(char **p)
{
	while (**p == ' ' || **p == '\t')
		(*p)++;
	char *w = *p;
	while (**p && **p != ' ' && **p != '\t')
		(*p)++;
	if (**p)
		*(*p)++ = 0;
	return *w ? w : NULL;
}

uint64_t script_duration(const char *w)
{
	char *end;
	double v = strtod(w, &end);

	if (strcmp(end, "us") == 0)
		return (uint64_t)(v * 1e3 + 0.5);
	if (strcmp(end, "ms") == 0)
		return (uint64_t)(v * 1e6 + 0.5);
	if (strcmp(end, "d") == 0)
		return (uint64_t)(v * 86400e9 + 0.5);
	return (uint64_t)(v * 1e9 + 0.5);
}

static uint8_t flags_of(const char *w)
{
	uint8_t f = 0;

	for (; *w; w++)
		f |= (uint8_t)(*w == 'S'   ? TCPL_SYN
			       : *w == 'F' ? TCPL_FIN
			       : *w == 'R' ? TCPL_RST
			       : *w == 'P' ? TCPL_PSH
			       : *w == 'U' ? TCPL_URG
			       : *w == '.' ? TCPL_ACK
					   : 0);
	return f;
}

static void add(struct script_seg *s, const void *p, uint32_t n)
{
	if (s->optlen + n > sizeof(s->opt))
		return;
	memcpy(s->opt + s->optlen, p, n);
	s->optlen = (uint8_t)(s->optlen + n);
}

static void add32(struct script_seg *s, uint32_t v)
{
	uint8_t b[4];

	rn_store_be32(b, v);
	add(s, b, 4);
}

static void add_sack(struct script_seg *s, char *p, uint32_t base)
{
	uint32_t n = 0, ab[8];
	char *w;

	while ((w = script_word(&p)) != NULL && n < 8 && sscanf(w, "%u:%u", &ab[n], &ab[n + 1]) == 2)
		n += 2;
	add32(s, 0x01010500u | (2 + 4 * n));
	for (uint32_t i = 0; i < n; i++)
		add32(s, base + ab[i]);
}

static bool add_opt(struct script_seg *s, char *p, uint32_t sack_base, uint32_t last_ts)
{
	char *w = script_word(&p);
	uint8_t b[4] = { 1, 1, 4, 2 };

	if (!w)
		return true;
	if (strcmp(w, "mss") == 0) {
		add32(s, 0x02040000u | (uint32_t)atoi(script_word(&p)));
	} else if (strcmp(w, "wscale") == 0) {
		add32(s, 0x01030300u | (uint32_t)atoi(script_word(&p)));
	} else if (strcmp(w, "sackOK") == 0) {
		add(s, b, 4);
	} else if (strcmp(w, "TS") == 0) {
		uint32_t val = (uint32_t)strtoul(script_word(&p), NULL, 0);
		script_word(&p);
		char *e = script_word(&p);
		add32(s, 0x0101080a);
		add32(s, val);
		add32(s, e && strcmp(e, "last") != 0 ? (uint32_t)strtoul(e, NULL, 0) : last_ts);
	} else if (strcmp(w, "sack") == 0) {
		add_sack(s, p, sack_base);
	} else if (strcmp(w, "raw") == 0) {
		unsigned v;
		for (char *h = script_word(&p); h && sscanf(h, "%2x", &v) == 1; h += 2)
			add(s, &(uint8_t){ (uint8_t)v }, 1);
	} else {
		return false;
	}
	return true;
}

bool script_seg_parse(struct script_seg *s, char *p, bool in, uint32_t last_ts)
{
	char *open = strchr(p, '<'), *w = script_word(&p);
	uint32_t from, to;
	uint32_t own = in ? IRS : ISS, other = in ? ISS : IRS;

	*s = (struct script_seg){ 0 };
	if (!w)
		return false;
	s->flags = flags_of(w);
	w = script_word(&p);
	if (!w || sscanf(w, "%u:%u(%u)", &from, &to, &s->len) != 3)
		return false;
	s->seq = own + from;
	if (to - from != s->len + 0u)
		return false;
	while (p != open && (w = script_word(&p)) != NULL && w[0] != '<') {
		char *v = script_word(&p);
		if (!v)
			return false;
		if (strcmp(w, "ack") == 0) {
			s->has_ack = true;
			s->ack = other + (uint32_t)strtoul(v, NULL, 0);
		} else if (strcmp(w, "win") == 0) {
			s->has_wnd = true;
			s->wnd = (uint32_t)strtoul(v, NULL, 0);
		} else {
			return false;
		}
		while (*p == ' ')
			p++;
	}
	if (!open)
		return true;
	char *save = NULL, *close = strchr(open, '>');
	if (!close)
		return false;
	*close = 0;
	for (char *o = strtok_r(open + 1, ",", &save); o; o = strtok_r(NULL, ",", &save))
		if (!add_opt(s, o, other, last_ts))
			return false;
	tcpl_opt_parse(s->opt, s->optlen, &s->o);
	return true;
}

void script_describe(const struct tcpl_out *o, char *out, size_t n)
{
	struct tcpl_opts t;
	int k;

	tcpl_opt_parse(o->opt, o->optlen, &t);
	k = snprintf(out, n, "%s%s%s%s%s %u:%u(%u) ack %u win %u <", o->flags & TCPL_SYN ? "S" : "",
		     o->flags & TCPL_FIN ? "F" : "", o->flags & TCPL_RST ? "R" : "", o->flags & TCPL_PSH ? "P" : "",
		     o->flags & TCPL_ACK ? "." : "", o->seq - ISS, o->seq + o->len - ISS, o->len,
		     o->flags & TCPL_ACK ? o->ack - IRS : 0, o->wnd);
	if (t.has_mss)
		k += snprintf(out + k, n - (size_t)k, "mss %u,", t.mss);
	if (t.sack_ok)
		k += snprintf(out + k, n - (size_t)k, "sackOK,");
	if (t.has_ts)
		k += snprintf(out + k, n - (size_t)k, "TS %u ecr %u,", t.tsval, t.tsecr);
	if (t.has_wscale)
		k += snprintf(out + k, n - (size_t)k, "wscale %u,", t.wscale);
	if (t.exid != 0)
		k += snprintf(out + k, n - (size_t)k, "ExID %x %u,", t.exid, t.exid_role);
	for (uint32_t i = 0; i < t.n_sack; i++)
		k += snprintf(out + k, n - (size_t)k, " %u:%u", t.sack[i].seq - IRS, t.sack[i].end - IRS);
	snprintf(out + k, n - (size_t)k, ">");
}

bool script_same_opts(const struct tcpl_opts *a, const struct tcpl_opts *want)
{
	if (a->has_mss != want->has_mss || a->mss != want->mss || a->has_wscale != want->has_wscale ||
	    a->wscale != want->wscale || a->sack_ok != want->sack_ok || a->n_sack != want->n_sack ||
	    a->exid != want->exid || a->exid_role != want->exid_role)
		return false;
	if (want->has_ts && (!a->has_ts || (want->tsecr != 0 && a->tsecr != want->tsecr)))
		return false;
	return memcmp(a->sack, want->sack, a->n_sack * sizeof(a->sack[0])) == 0;
}
