/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture of results, which gnuplot draws: bandwidth, latency or both, over what the runs differ in. */
#ifndef TP_PLOT_H
#define TP_PLOT_H

#include "tp_report.h"

/* gnuplot's script that draws n results into the SVG file at path. Pure formatting. */
void tp_plot_script(FILE *out, const char *path, const struct tp_about *about, const struct tp_result *list,
		    unsigned n);

/* --- those that run gnuplot (tp_gnuplot.c) --- */
/* Fails where there is no gnuplot: to be called before anything is measured. */
enum tp_verdict tp_plot_ready(struct tp_err *err);
enum tp_verdict tp_plot_draw(const char *path, const struct tp_about *about, const struct tp_result *list, unsigned n,
			     struct tp_err *err);

#endif
