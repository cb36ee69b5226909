/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws results with gnuplot: bandwidth, latency or both, over the parameter in which the runs differ. */
#ifndef TP_PLOT_H
#define TP_PLOT_H

#include "tp_report.h"

/* gnuplot's script that draws n results into the SVG file at path. Pure formatting. */
void tp_plot_script(FILE *out, const char *path, const struct tp_about *about, const struct tp_result *list,
		    unsigned n);

/* --- functions that run gnuplot (tp_gnuplot.c) --- */
/* Fails if there is no gnuplot; called before anything is measured. */
enum tp_verdict tp_plot_ready(struct tp_err *err);
enum tp_verdict tp_plot_draw(const char *path, const struct tp_about *about, const struct tp_result *list, unsigned n,
			     struct tp_err *err);

#endif
