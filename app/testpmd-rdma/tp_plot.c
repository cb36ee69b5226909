/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_plot.h"

#include <string.h>

#define WIDTH  760
#define HEIGHT 420

/* The parameters in which runs may differ. The x axis is the first parameter in this list in which they do. */
enum axis { AXIS_SIZE, AXIS_QPS, AXIS_DEPTH, AXIS_LOSS, AXES };

static const char *const axis_label[AXES] = {
	[AXIS_SIZE] = "message size in bytes",
	[AXIS_QPS] = "queue pairs",
	[AXIS_DEPTH] = "operations outstanding on each queue pair",
	[AXIS_LOSS] = "frames lost, %",
};
static const char *const axis_word[AXES] = {
	[AXIS_SIZE] = "B", [AXIS_QPS] = "queue pairs", [AXIS_DEPTH] = "outstanding", [AXIS_LOSS] = "% lost"
};

static double value_at(const struct tp_point *p, enum axis a)
{
	switch (a) {
	case AXIS_SIZE: return (double)p->size;
	case AXIS_QPS: return p->qps;
	case AXIS_DEPTH: return p->depth;
	case AXIS_LOSS: return p->loss == TP_NO_LOSS ? 0 : p->loss / 1e4;
	case AXES: break;
	}
	return 0;
}

/* Whether two runs of the same mode and size differ in the parameter. A default depth follows from the size, and does
 * not count. */
static bool differs(const struct tp_result *list, unsigned n, enum axis a)
{
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < i; k++)
			if (list[i].point.mode == list[k].point.mode &&
			    (a == AXIS_SIZE || list[i].point.size == list[k].point.size) &&
			    value_at(&list[i].point, a) != value_at(&list[k].point, a))
				return true;
	return false;
}

static enum axis choose_x(const struct tp_result *list, unsigned n)
{
	for (unsigned a = 0; a < AXES; a++)
		if (differs(list, n, (enum axis)a))
			return (enum axis)a;
	return AXIS_SIZE;
}

/* Results on one line: they have the same mode, and differ along the x axis alone. */
static bool same_line(const struct tp_point *p, const struct tp_point *q, enum axis x)
{
	if (x == AXIS_SIZE)
		return p->series == q->series;
	if (p->mode != q->mode)
		return false;
	for (unsigned a = 0; a < AXES; a++)
		if ((enum axis)a != x && value_at(p, (enum axis)a) != value_at(q, (enum axis)a))
			return false;
	return true;
}

static bool first_of_line(const struct tp_result *list, unsigned i, enum axis x)
{
	for (unsigned k = 0; k < i; k++)
		if (same_line(&list[k].point, &list[i].point, x))
			return false;
	return true;
}

/* Writes a string in gnuplot's single quotes, in which only the quote itself is escaped. */
static void quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			fputc('\'', out);
		fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
	}
	fputc('\'', out);
}

static void title_of(FILE *out, const struct tp_result *list, unsigned n, unsigned i, enum axis x)
{
	fprintf(out, " title '%s", tp_mode_name(list[i].point.mode));
	for (unsigned a = 0; a < AXES; a++)
		if ((enum axis)a != x && differs(list, n, (enum axis)a))
			fprintf(out, ", %g %s", value_at(&list[i].point, (enum axis)a), axis_word[a]);
	fputc('\'', out);
}

static double shown(const struct tp_result *res, bool latency)
{
	struct tp_rates r;

	if (latency)
		return (double)res->mine.lat.p50 / 1e3;
	tp_rates_make(&r, res);
	return r.gbytes;
}

/* One chart: of the latency modes, or of the others. */
static void chart(FILE *out, const struct tp_result *list, unsigned n, enum axis x, bool latency)
{
	const char *sep = "plot ";

	for (unsigned i = 0; i < n; i++) {
		if (tp_mode_is_latency(list[i].point.mode) != latency || !first_of_line(list, i, x))
			continue;
		fprintf(out, "$line%u << EOD\n", i);
		for (unsigned k = i; k < n; k++)
			if (same_line(&list[i].point, &list[k].point, x))
				fprintf(out, "%.10g %.6g\n", value_at(&list[k].point, x), shown(&list[k], latency));
		fputs("EOD\n", out);
	}
	fprintf(out, "set ylabel '%s'\nset yrange [0:*]\n", latency ? "median latency, us" : "GB/s");
	for (unsigned i = 0; i < n; i++) {
		if (tp_mode_is_latency(list[i].point.mode) != latency || !first_of_line(list, i, x))
			continue;
		fprintf(out, "%s$line%u using 1:2 with linespoints lw 2 pt 7 ps 0.6", sep, i);
		title_of(out, list, n, i, x);
		sep = ", ";
	}
	fputc('\n', out);
}

void tp_plot_script(FILE *out, const char *path, const struct tp_about *about, const struct tp_result *list, unsigned n)
{
	const enum axis x = choose_x(list, n);
	bool kind[2] = { false, false };
	char head[600];

	for (unsigned i = 0; i < n; i++)
		kind[tp_mode_is_latency(list[i].point.mode)] = true;
	snprintf(head, sizeof(head), "testpmd-rdma %s, %s on %s, %s", about->version, n > 0 ? list[0].device : "",
		 about->host, about->date);
	fprintf(out, "set terminal svg size %d,%d font 'sans,13' background '#ffffff' noenhanced\nset output ", WIDTH,
		HEIGHT * (kind[0] + kind[1]));
	quoted(out, path);
	fprintf(out, "\nset multiplot layout %d,1 title ", kind[0] + kind[1]);
	quoted(out, head);
	fprintf(out, "\nset grid\nset key outside right top\nset xlabel '%s'\n%s", axis_label[x],
		x == AXIS_LOSS ? "" : "set logscale x 2\n");
	for (unsigned latency = 0; latency < 2; latency++)
		if (kind[latency])
			chart(out, list, n, x, latency != 0);
	fputs("unset multiplot\n", out);
}
