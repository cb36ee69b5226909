/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as a table, as CSV or as JSON. Pure formatting: the caller gives the stream and keeps the order. */
#ifndef TP_REPORT_H
#define TP_REPORT_H

#include "tp_counts.h"
#include "tp_msg.h"

#include <stdio.h>

struct tp_result {
	struct tp_point point;
	struct tp_figures mine, peer;  /* this side's, the server's */
	uint64_t connect_ns, close_ns; /* for all the connections of the run */
	char device[64];               /* the client's RDMA device; empty until it is known */
	uint32_t active_mtu;           /* bytes, as its port tells; 0: not known */
	struct tp_counts counts;       /* the client's port, as rnicctl has shown it */
};

/* Derived figures; rates are the sum of both directions. */
struct tp_rates {
	double gbytes, gbits, mmsgs; /* 10^9 bytes/s, 10^9 bits/s, 10^6 messages/s */
	double cpu_ns_per_msg, cpu_s_per_gb, peer_cpu_ns_per_msg, peer_cpu_s_per_gb;
};

void tp_rates_make(struct tp_rates *r, const struct tp_result *res);

/* Call begin once, row for each result in order, end once. *row: the first row prints its table head. */
struct tp_report {
	FILE *out;
	enum tp_format format;
	unsigned rows;
	enum tp_mode mode; /* of the last row */
	uint32_t loss;     /* likewise */
	unsigned series;   /* likewise */
	char error[512];   /* why the last run failed, or which data was wrong; empty: no error */
};

/* Facts about the measurement, as arbitrary strings; an empty string: not known. */
struct tp_about {
	char version[64];
	char commit[32]; /* that it was built from */
	char date[32];   /* ISO 8601, UTC */
	char host[256];
	char cpu[128]; /* its model */
};

#define TP_REPORT_SCHEMA 1 /* increased when a name in the JSON document is removed or changes its meaning */

/* about: of TP_JSON; else it may be NULL. */
void tp_report_begin(struct tp_report *r, FILE *out, enum tp_format format, const struct tp_about *about);
void tp_report_row(struct tp_report *r, const struct tp_result *res);
/* For tp_report_end(): a run has failed, or its data was wrong. */
void tp_report_fail(struct tp_report *r, const char *error);
void tp_report_end(struct tp_report *r);

/* A duration for a person: "850ns", "2.35us", "1.20ms", "3.1s". */
void tp_format_ns(uint64_t ns, char *buf, size_t len);

#endif
