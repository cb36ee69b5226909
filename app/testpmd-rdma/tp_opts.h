/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings. One table of settings serves the command line (--name VALUE) and the prompt (set name VALUE); a setting
 * is checked when it is set, combinations are checked once before a run.
 */
#ifndef TP_OPTS_H
#define TP_OPTS_H

#include "tp_err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tp_mode {
	TP_WRITE_BW,
	TP_READ_BW,
	TP_SEND_BW,
	TP_WRITE_LAT,
	TP_READ_LAT,
	TP_SEND_LAT,
	TP_SOAK,
	TP_IDLE,
	TP_MODE_COUNT
};

/*
 * What carries the operations. With unreliable datagrams (TP_QP_UD) a Write is a Write-Record, a Read a Read-Record,
 * and lost data stays lost; reliable datagrams (TP_QP_RD) behave like connections.
 */
enum tp_qp_type { TP_QP_RC, TP_QP_UD, TP_QP_RD, TP_QP_TYPES };

enum tp_format { TP_TEXT, TP_CSV, TP_JSON };

#define TP_MAX_LIST    64
#define TP_MAX_SIZES   TP_MAX_LIST
#define TP_MAX_SIZE    (UINT64_C(1) << 30)
#define TP_MAX_UD_SIZE (UINT64_C(1) << 20)
#define TP_MAX_DEPTH   16384u
#define TP_MAX_QPS     16384u
#define TP_MAX_BUFFERS (1u << 20)
#define TP_MAX_LOSSES  16
#define TP_NO_LOSS     UINT32_MAX        /* the port is left as it is */
#define TP_MAX_COMPUTE UINT64_C(1000000) /* ns: so that posting a whole depth takes seconds at most */
#define TP_PORT        18600

struct tp_opts {
	bool server, once, interactive, quiet, events, bidir, touch, no_verify, rnic_alloc;
	enum tp_format format;
	uint16_t port;
	int cpu;        /* -1: any CPU */
	int inline_max; /* bytes; -1: 64 if the device has it, else none */
	unsigned n_modes, n_sizes, n_losses, n_depths, n_qps;
	enum tp_mode modes[TP_MODE_COUNT];
	uint64_t sizes[TP_MAX_SIZES]; /* bytes */
	enum tp_qp_type qp_type;
	uint32_t losses[TP_MAX_LOSSES];                      /* frames of a million that the client's port loses */
	uint32_t depths[TP_MAX_LIST], qps_list[TP_MAX_LIST]; /* all that were asked for; depth and qps are the first */
	uint32_t depth, qps, batch, signal_every, buffers; /* depth, batch, signal_every: 0 = the mode's own default */
	uint64_t iters;                                    /* operations; 0: run for duration */
	uint64_t duration;                                 /* ns */
	uint64_t warmup_ops;                               /* operations */
	uint64_t warmup;                                   /* ns, used when warmup_ops is 0 */
	uint64_t compute;                                  /* ns that the client computes after each post */
	uint64_t timeout;                                  /* ns without any progress until a run is given up */
	uint64_t seed;
	uint64_t max_memory; /* server: bytes that one client may ask for */
	char host[256];      /* client: the server's name or address */
	char addr[64];       /* server: where to listen; client: the address to call from */
	char design[16];     /* for librnic's RNIC_DESIGN; empty: as the environment has it */
	char plot[256];      /* client: the SVG file that gnuplot draws; empty: none */
};

/* The parameters of one point of a sweep, with defaults and limits applied. The client sends them to the server, except
 * for compute. */
struct tp_point {
	enum tp_mode mode;
	enum tp_qp_type qp_type;
	uint32_t loss;   /* frames of a million, or TP_NO_LOSS; only the client has it */
	unsigned series; /* the same for runs of a sweep that differ only in size; only the client has it */
	bool bidir, verify, events;
	bool touch; /* the receiver reads what arrives */
	bool more;  /* another run of the same sweep follows */
	uint32_t qps, depth, batch, signal_every;
	uint32_t slots; /* buffers per queue pair and direction */
	uint64_t size, iters, duration, warmup_ops, warmup, timeout, seed;
	uint64_t compute; /* ns of computation after each post; only the side that posts has it: 0 on the server */
};

struct tp_setting {
	const char *name;
	int letter;        /* short option or 0 */
	const char *arg;   /* what the value is called, NULL for a switch */
	const char *group; /* the section of the help text */
	const char *help;
	bool cli_only; /* makes no sense at the prompt */
	enum tp_verdict (*set)(struct tp_opts *o, const char *value, struct tp_err *err);
	void (*show)(const struct tp_opts *o, char *buf, size_t len); /* NULL: not shown by show config */
};

extern const struct tp_setting tp_settings[];
extern const unsigned tp_n_settings;

void tp_opts_default(struct tp_opts *o);
/* Set one setting by name. For a switch, value may be NULL (on), "on" or "off". On error o is unchanged. */
enum tp_verdict tp_opts_set(struct tp_opts *o, const char *name, const char *value, struct tp_err *err);
/* Combinations that no run can honour. */
enum tp_verdict tp_opts_check(const struct tp_opts *o, struct tp_err *err);
/* The point for one mode and size; never fails after tp_opts_check. */
void tp_point_make(struct tp_point *p, const struct tp_opts *o, enum tp_mode mode, uint64_t size);
/* All runs that the options ask for: mode after mode, each with every loss, number of queue pairs, depth and size. */
unsigned tp_opts_points(const struct tp_opts *o);
/* Run number i; p->more says whether another one follows. */
void tp_opts_point(const struct tp_opts *o, unsigned i, struct tp_point *p);
/* Receives that the bandwidth modes keep posted on a queue pair; by credit, a sender is ahead by at most this
 * number. */
uint32_t tp_recv_depth(const struct tp_point *p);
/* Checks the rules between the numbers of a point, which may come from a peer. */
enum tp_verdict tp_point_check(const struct tp_point *p, struct tp_err *err);

const char *tp_mode_name(enum tp_mode mode);
const char *tp_qp_type_name(enum tp_qp_type type);
bool tp_mode_is_latency(enum tp_mode mode);

/* "64", "4k", "1m", "2g" (powers of 1024) to a number; false when it is anything else or above max. */
bool tp_parse_size(const char *s, uint64_t max, uint64_t *out);
/* "64,4k,1m..4m": numbers and ranges that double, from 1 to max. False when it is anything else, or too many. */
bool tp_parse_list(const char *s, uint64_t max, uint64_t list[TP_MAX_LIST], unsigned *n);
/* "1.5", "2s", "200ms", "50us" to ns; a bare number means seconds. */
bool tp_parse_time(const char *s, uint64_t *ns);
/* "1%", "0.05%", "0" to parts of a million; false when it is anything else or above 100 %. */
bool tp_parse_share(const char *s, uint32_t *ppm);
/* "64k" for 65536 and so on; exact values only, else plain digits. */
void tp_format_size(uint64_t bytes, char *buf, size_t len);

#endif
