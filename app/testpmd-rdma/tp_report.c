/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_report.h"

#include <inttypes.h>
#include <string.h>

static double per(double a, double b) { return b > 0 ? a / b : 0; }

void tp_rates_make(struct tp_rates *r, const struct tp_result *res)
{
	const struct tp_figures *a = &res->mine, *b = &res->peer;
	double bytes_ns = per((double)a->bytes, (double)a->ns), ops_ns = per((double)a->ops, (double)a->ns);
	double size = (double)per((double)a->bytes, (double)a->ops);

	if (res->point.bidir) {
		bytes_ns += per((double)b->bytes, (double)b->ns);
		ops_ns += per((double)b->ops, (double)b->ns);
	}
	if (res->point.qp_type == TP_QP_UD && !tp_mode_is_latency(res->point.mode)) {
		/* The rate counts only what arrives. */
		bytes_ns *= per((double)(a->valid + b->valid), (double)(a->sent_bytes + b->sent_bytes));
		ops_ns *= per((double)(a->arrived + b->arrived), (double)(a->sent + b->sent));
	}
	r->gbytes = bytes_ns;
	r->gbits = bytes_ns * 8;
	r->mmsgs = ops_ns * 1e3;
	r->cpu_ns_per_msg = per((double)a->cpu_ns, (double)a->cpu_ops);
	r->peer_cpu_ns_per_msg = per((double)b->cpu_ns, (double)b->cpu_ops);
	r->cpu_s_per_gb = per(r->cpu_ns_per_msg, size);
	r->peer_cpu_s_per_gb = per(r->peer_cpu_ns_per_msg, size);
}

void tp_format_ns(uint64_t ns, char *buf, size_t len)
{
	if (ns < 1000)
		snprintf(buf, len, "%" PRIu64 "ns", ns);
	else if (ns < 1000000)
		snprintf(buf, len, "%.2fus", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, len, "%.2fms", (double)ns / 1e6);
	else
		snprintf(buf, len, "%.2fs", (double)ns / 1e9);
}

static void format_count(uint64_t n, char *buf, size_t len)
{
	if (n < 1000000)
		snprintf(buf, len, "%" PRIu64, n);
	else
		snprintf(buf, len, "%.2fM", (double)n / 1e6);
}

static const char *plain_verdict(const struct tp_result *res)
{
	if (res->mine.wrong + res->peer.wrong > 0)
		return "WRONG";
	return res->mine.checked + res->peer.checked > 0 ? "verified" : "-";
}

static const char *verdict(const struct tp_result *res, char *buf, size_t len)
{
	const struct tp_figures *a = &res->mine, *b = &res->peer;
	const char *said = plain_verdict(res);

	if (a->sent_bytes + b->sent_bytes == 0)
		snprintf(buf, len, "%s", said);
	else
		snprintf(buf, len, "%.4g%% %s",
			 100 * per((double)(a->valid + b->valid), (double)(a->sent_bytes + b->sent_bytes)), said);
	return buf;
}

/* Prints behind a figure the counted events that affect it. */
static void text_spoiled(struct tp_report *r, const struct tp_result *res)
{
	const struct tp_figures *a = &res->mine, *b = &res->peer;

	if (a->again + b->again > 0)
		fprintf(r->out, ", %" PRIu64 " segments sent again", a->again + b->again);
	if (a->dropped + b->dropped > 0)
		fprintf(r->out, ", %" PRIu64 " frames dropped", a->dropped + b->dropped);
	fputc('\n', r->out);
}

static void text_head(struct tp_report *r, const struct tp_point *p)
{
	fprintf(r->out,
		"%s%s%s: %" PRIu32 " queue pair%s, %" PRIu32 " outstanding, batches of %" PRIu32 ", 1 in %" PRIu32
		" signalled, %" PRIu32 " buffer%s%s%s\n",
		r->rows ? "\n" : "", tp_mode_name(p->mode), p->bidir ? " both ways" : "", p->qps,
		p->qps == 1 ? "" : "s", p->depth, p->batch, p->signal_every, p->slots, p->slots == 1 ? "" : "s",
		p->events ? ", events" : "", p->touch ? ", read by the receiver" : "");
	if (p->qp_type != TP_QP_RC)
		fprintf(r->out, "%s datagrams%s\n", p->qp_type == TP_QP_UD ? "unreliable" : "reliable",
			p->qp_type == TP_QP_UD ? "; in front of data: the share of bytes that arrived" : "");
	if (p->loss != TP_NO_LOSS)
		fprintf(r->out, "the client's port loses %g %% of its frames\n", p->loss / 1e4);
	if (tp_mode_is_latency(p->mode))
		fprintf(r->out, "%8s %9s %9s %9s %9s %9s %9s %9s %8s %12s %8s\n", "size", "ops", "min", "median", "p99",
			"p99.9", "max", "mean", "cpu/msg", "peer cpu/msg", "data");
	else
		fprintf(r->out, "%8s %9s %8s %8s %9s %9s %9s %9s %8s %12s %8s %8s\n", "size", "ops", "GB/s", "Gb/s",
			"Mmsg/s", "median", "p99", "p99.9", "cpu/msg", "peer cpu/msg", "cpu s/GB", "data");
}

static void text_row(struct tp_report *r, const struct tp_result *res)
{
	const struct tp_quantiles *q = &res->mine.lat;
	char size[24], ops[24], t[6][24], cpu[24], peer[24], data[40];
	struct tp_rates rate;

	if (r->rows == 0 || r->mode != res->point.mode || r->loss != res->point.loss || r->series != res->point.series)
		text_head(r, &res->point);
	tp_rates_make(&rate, res);
	tp_format_size(res->point.size, size, sizeof(size));
	format_count(res->mine.ops + (res->point.bidir ? res->peer.ops : 0), ops, sizeof(ops));
	tp_format_ns(q->min, t[0], sizeof(t[0]));
	tp_format_ns(q->p50, t[1], sizeof(t[1]));
	tp_format_ns(q->p99, t[2], sizeof(t[2]));
	tp_format_ns(q->p999, t[3], sizeof(t[3]));
	tp_format_ns(q->max, t[4], sizeof(t[4]));
	tp_format_ns(q->mean, t[5], sizeof(t[5]));
	tp_format_ns((uint64_t)rate.cpu_ns_per_msg, cpu, sizeof(cpu));
	tp_format_ns((uint64_t)rate.peer_cpu_ns_per_msg, peer, sizeof(peer));
	if (tp_mode_is_latency(res->point.mode))
		fprintf(r->out, "%8s %9s %9s %9s %9s %9s %9s %9s %8s %12s %8s", size, ops, t[0], t[1], t[2], t[3], t[4],
			t[5], cpu, peer, verdict(res, data, sizeof(data)));
	else
		fprintf(r->out, "%8s %9s %8.3f %8.2f %9.4f %9s %9s %9s %8s %12s %8.3f %8s", size, ops, rate.gbytes,
			rate.gbits, rate.mmsgs, t[1], t[2], t[3], cpu, peer, rate.cpu_s_per_gb + rate.peer_cpu_s_per_gb,
			verdict(res, data, sizeof(data)));
	text_spoiled(r, res);
}

/* The columns of CSV and the members of a JSON result: one list for both. */
struct field {
	const char *name;
	enum { F_TEXT, F_UINT, F_REAL, F_BOOL, F_UNKNOWN } kind;
	union {
		const char *s;
		uint64_t u;
		double d;
	} v;
};

#define MAX_FIELDS 48

static unsigned fields(struct field *f, const struct tp_result *res)
{
	const struct tp_point *p = &res->point;
	const struct tp_figures *a = &res->mine, *b = &res->peer;
	struct tp_rates r;
	unsigned n = 0;

	tp_rates_make(&r, res);
#define TEXT(nm, x)      (f[n++] = (struct field){ nm, F_TEXT, { .s = (x) } })
#define UINT(nm, x)      (f[n++] = (struct field){ nm, F_UINT, { .u = (x) } })
#define REAL(nm, x)      (f[n++] = (struct field){ nm, F_REAL, { .d = (x) } })
#define BOOL(nm, x)      (f[n++] = (struct field){ nm, F_BOOL, { .u = (x) } })
#define KNOWN(nm, is, x) (f[n++] = (struct field){ nm, (is) ? F_UINT : F_UNKNOWN, { .u = (x) } })
	TEXT("mode", tp_mode_name(p->mode));
	UINT("size", p->size);
	UINT("qps", p->qps);
	UINT("depth", p->depth);
	UINT("batch", p->batch);
	UINT("signal_every", p->signal_every);
	UINT("buffers", p->slots);
	BOOL("bidir", p->bidir);
	BOOL("events", p->events);
	UINT("ops", a->ops + (p->bidir ? b->ops : 0));
	UINT("bytes", a->bytes + (p->bidir ? b->bytes : 0));
	UINT("ns", a->ns);
	REAL("gbytes_per_s", r.gbytes);
	REAL("gbits_per_s", r.gbits);
	REAL("mmsgs_per_s", r.mmsgs);
	UINT("lat_samples", a->lat.count);
	UINT("lat_min_ns", a->lat.min);
	UINT("lat_p50_ns", a->lat.p50);
	UINT("lat_p99_ns", a->lat.p99);
	UINT("lat_p999_ns", a->lat.p999);
	UINT("lat_max_ns", a->lat.max);
	UINT("lat_mean_ns", a->lat.mean);
	REAL("cpu_ns_per_msg", r.cpu_ns_per_msg);
	REAL("peer_cpu_ns_per_msg", r.peer_cpu_ns_per_msg);
	REAL("cpu_s_per_gb", r.cpu_s_per_gb);
	REAL("peer_cpu_s_per_gb", r.peer_cpu_s_per_gb);
	UINT("connect_ns", res->connect_ns);
	UINT("close_ns", res->close_ns);
	UINT("checked_bytes", a->checked + b->checked);
	UINT("wrong", a->wrong + b->wrong);
	UINT("overtaken", a->overtaken + b->overtaken);
	UINT("seed", p->seed);
	BOOL("touch", p->touch);
	UINT("compute_ns", p->compute);
	TEXT("qp_type", tp_qp_type_name(p->qp_type));
	REAL("loss_percent", p->loss != TP_NO_LOSS ? p->loss / 1e4 : 0);
	UINT("sent", a->sent + b->sent);
	UINT("sent_bytes", a->sent_bytes + b->sent_bytes);
	UINT("arrived", a->arrived + b->arrived);
	UINT("partial", a->partial + b->partial);
	UINT("valid_bytes", a->valid + b->valid);
	TEXT("device", res->device);
	UINT("active_mtu", res->active_mtu);
	KNOWN("mtu", res->counts.known, res->counts.mtu);
	TEXT("crc", res->counts.crc);
	KNOWN("retransmits", a->counted && b->counted && p->qp_type != TP_QP_RD, a->again + b->again);
	KNOWN("drops", a->counted && b->counted, a->dropped + b->dropped);
#undef KNOWN
#undef TEXT
#undef UINT
#undef REAL
#undef BOOL
	return n;
}

static void csv_row(struct tp_report *r, const struct tp_result *res)
{
	struct field f[MAX_FIELDS];
	unsigned n = fields(f, res);

	for (unsigned i = 0; r->rows == 0 && i < n; i++)
		fprintf(r->out, "%s%s", f[i].name, i + 1 < n ? "," : "\n");
	for (unsigned i = 0; i < n; i++) {
		if (f[i].kind == F_TEXT)
			fputs(f[i].v.s, r->out);
		else if (f[i].kind == F_REAL)
			fprintf(r->out, "%.6g", f[i].v.d);
		else if (f[i].kind != F_UNKNOWN)
			fprintf(r->out, "%" PRIu64, f[i].v.u);
		fputc(i + 1 < n ? ',' : '\n', r->out);
	}
}

static void json_row(struct tp_report *r, const struct tp_result *res)
{
	struct field f[MAX_FIELDS];
	unsigned n = fields(f, res);

	fprintf(r->out, "%s\n    {", r->rows ? "," : "");
	for (unsigned i = 0; i < n; i++) {
		fprintf(r->out, "%s\"%s\": ", i ? ", " : " ", f[i].name);
		if (f[i].kind == F_TEXT)
			fprintf(r->out, "\"%s\"", f[i].v.s);
		else if (f[i].kind == F_REAL)
			fprintf(r->out, "%.6g", f[i].v.d);
		else if (f[i].kind == F_BOOL)
			fputs(f[i].v.u ? "true" : "false", r->out);
		else if (f[i].kind == F_UNKNOWN)
			fputs("null", r->out);
		else
			fprintf(r->out, "%" PRIu64, f[i].v.u);
	}
	fputs(" }", r->out);
}

static void json_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
	}
	fputc('"', out);
}

static void json_member(FILE *out, const char *name, const char *text)
{
	fprintf(out, "  \"%s\": ", name);
	json_text(out, text);
	fputs(",\n", out);
}

void tp_report_begin(struct tp_report *r, FILE *out, enum tp_format format, const struct tp_about *about)
{
	memset(r, 0, sizeof(*r));
	r->out = out;
	r->format = format;
	if (format != TP_JSON)
		return;
	fprintf(out, "{\n  \"schema\": %d,\n", TP_REPORT_SCHEMA);
	json_member(out, "program", "testpmd-rdma");
	json_member(out, "version", about->version);
	json_member(out, "commit", about->commit);
	json_member(out, "date", about->date);
	json_member(out, "host", about->host);
	json_member(out, "cpu", about->cpu);
	fputs("  \"results\": [", out);
}

void tp_report_row(struct tp_report *r, const struct tp_result *res)
{
	switch (r->format) {
	case TP_TEXT: text_row(r, res); break;
	case TP_CSV: csv_row(r, res); break;
	case TP_JSON: json_row(r, res); break;
	}
	r->rows++;
	r->mode = res->point.mode;
	r->loss = res->point.loss;
	r->series = res->point.series;
	fflush(r->out);
}

void tp_report_fail(struct tp_report *r, const char *error) { snprintf(r->error, sizeof(r->error), "%s", error); }

void tp_report_end(struct tp_report *r)
{
	if (r->format == TP_JSON) {
		fputs("\n  ],\n  \"error\": ", r->out);
		if (r->error[0] != '\0')
			json_text(r->out, r->error);
		else
			fputs("null", r->out);
		fputs("\n}\n", r->out);
	}
	fflush(r->out);
}
