/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and describes segments in the words of test_script.c's scripts. */
#ifndef SCRIPT_SEG_H
#define SCRIPT_SEG_H

#include "tcp_lite/tcpl_int.h"

#define ISS 0xfffffe00u /* near the end of the range, so that sequence numbers wrap early */
#define IRS 0xffffff00u

struct script_seg {
	uint8_t flags;
	uint32_t seq, len, ack, wnd;
	bool has_ack, has_wnd;
	uint8_t opt[64];
	uint8_t optlen;
	struct tcpl_opts o;
};

/* Takes the line's next word; NULL: none. *p moves behind the word. */
char *script_word(char **p);
/* A time such as 5us, 10ms, 2s or 3d, in nanoseconds. */
uint64_t script_duration(const char *w);
/*
 * Parses a segment from the rest of a line; false: the line cannot be read. in: the segment is the peer's, so its
 * numbers count from IRS, and its ACK and SACK from ISS. last_ts: the value for which "ecr last" stands.
 */
bool script_seg_parse(struct script_seg *s, char *p, bool in, uint32_t last_ts);
/* Describes a segment that was sent in the words of the scripts. */
void script_describe(const struct tcpl_out *o, char *out, size_t n);
bool script_same_opts(const struct tcpl_opts *a, const struct tcpl_opts *want);

#endif
