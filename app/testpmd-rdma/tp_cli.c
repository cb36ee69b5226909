/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_cli.h"

#include <getopt.h>
#include <string.h>

#define MAX_SETTINGS 48
#define LONG_BASE    1000 /* getopt value of settings[i] is LONG_BASE + i */
#define OPT_HELP     (LONG_BASE - 1)
#define OPT_VERSION  (LONG_BASE - 2)
#define HELP_WIDTH   100
#define HELP_COLUMN  28

static void build_tables(struct option *longs, char *shorts, size_t shorts_len)
{
	size_t n = 0;
	unsigned i;

	shorts[n++] = ':'; /* so that getopt_long distinguishes a missing value from an unknown option */
	shorts[n++] = 'h';
	shorts[n++] = 'V';
	for (i = 0; i < tp_n_settings && n + 3 < shorts_len; i++) {
		const struct tp_setting *s = &tp_settings[i];

		longs[i] = (struct option){ s->name, s->arg ? required_argument : no_argument, NULL,
					    LONG_BASE + (int)i };
		if (s->letter != 0) {
			shorts[n++] = (char)s->letter;
			if (s->arg != NULL)
				shorts[n++] = ':';
		}
	}
	longs[i++] = (struct option){ "help", no_argument, NULL, OPT_HELP };
	longs[i++] = (struct option){ "version", no_argument, NULL, OPT_VERSION };
	longs[i] = (struct option){ NULL, 0, NULL, 0 };
	shorts[n] = '\0';
}

static const struct tp_setting *find_setting(int c)
{
	if (c >= LONG_BASE)
		return &tp_settings[c - LONG_BASE];
	for (unsigned i = 0; i < tp_n_settings; i++)
		if (tp_settings[i].letter == c)
			return &tp_settings[i];
	return NULL;
}

enum tp_cli tp_cli_parse(struct tp_opts *o, int argc, char **argv, struct tp_err *err)
{
	struct option longs[MAX_SETTINGS + 3];
	char shorts[2 * MAX_SETTINGS + 4];
	int c;

	_Static_assert(OPT_HELP > 255 && OPT_VERSION > 255, "long options do not collide with letters");
	if (tp_n_settings > MAX_SETTINGS) {
		tp_fail(err, TP_BAD_OPTION, "the table of settings outgrew the command line");
		return TP_CLI_BAD;
	}
	build_tables(longs, shorts, sizeof(shorts));
	optind = 0; /* glibc: start over, also after an earlier parse */
	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct tp_setting *s;

		if (c == 'h' || c == OPT_HELP)
			return TP_CLI_HELP;
		if (c == 'V' || c == OPT_VERSION)
			return TP_CLI_VERSION;
		if (c == ':') {
			tp_fail(err, TP_BAD_OPTION, "%s needs a value: see --help", argv[optind - 1]);
			return TP_CLI_BAD;
		}
		s = c == '?' ? NULL : find_setting(c);
		if (s == NULL) {
			tp_fail(err, TP_BAD_OPTION, "unknown option %s: see --help", argv[optind - 1]);
			return TP_CLI_BAD;
		}
		if (tp_opts_set(o, s->name, optarg, err) != TP_OK)
			return TP_CLI_BAD;
	}
	if (optind < argc && tp_opts_set(o, "host", argv[optind++], err) != TP_OK)
		return TP_CLI_BAD;
	if (optind < argc) {
		tp_fail(err, TP_BAD_OPTION, "\"%s\" is one argument too many: only HOST is expected", argv[optind]);
		return TP_CLI_BAD;
	}
	return tp_opts_check(o, err) == TP_OK ? TP_CLI_RUN : TP_CLI_BAD;
}

static void print_wrapped(FILE *out, const char *text, size_t column)
{
	size_t at = column;

	while (*text != '\0') {
		size_t n = strcspn(text, " ");

		if (at > column && at + 1 + n > HELP_WIDTH) {
			fprintf(out, "\n%*s", (int)column, "");
			at = column;
		} else if (at > column) {
			fputc(' ', out);
			at++;
		}
		fwrite(text, 1, n, out);
		at += n;
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void print_option(FILE *out, char letter, const char *name, const char *arg, const char *help)
{
	char left[64];
	int n;

	n = letter ? snprintf(left, sizeof(left), "  -%c, --%s", letter, name)
		   : snprintf(left, sizeof(left), "      --%s", name);
	if (arg != NULL)
		n += snprintf(left + n, sizeof(left) - (size_t)n, " %s", arg);
	fputs(left, out);
	if (n + 2 > HELP_COLUMN) {
		fputc('\n', out);
		n = 0;
	}
	fprintf(out, "%*s", HELP_COLUMN - n, "");
	print_wrapped(out, help, HELP_COLUMN);
}

void tp_cli_help(FILE *out)
{
	const char *group = "";

	fputs("NAME\n"
	      "  testpmd-rdma - traffic generator, latency meter and soak test for RDMA devices\n\n"
	      "SYNOPSIS\n"
	      "  testpmd-rdma -s [-a ADDR] [-p PORT]\n"
	      "  testpmd-rdma [options] HOST\n"
	      "  testpmd-rdma -i [options] [HOST]\n\n"
	      "DESCRIPTION\n"
	      "  One side is the server, which needs no parameters and serves any number of clients, one after\n"
	      "  another or side by side. The client connects to the server over RDMA and tells the server what to\n"
	      "  do. The client runs each mode with each given size, number of queue pairs, depth and loss, and\n"
	      "  prints one line for each run. Data has a pattern that depends on the run and on the position, and\n"
	      "  both sides compare the data after the run; soak compares every message during the run.\n"
	      "  Any RDMA device with rdma_cm connections will do; --qp-type ud and rd need the software RNIC.\n"
	      "  Over ud lost data stays lost: only bytes that completions report as valid are compared and counted.\n",
	      out);
	for (unsigned i = 0; i < tp_n_settings; i++) {
		const struct tp_setting *s = &tp_settings[i];

		if (strcmp(group, s->group) != 0)
			fprintf(out, "\n%s\n", s->group);
		group = s->group;
		print_option(out, (char)s->letter, s->name, s->arg, s->help);
	}
	print_option(out, 'h', "help", NULL, "print this text");
	print_option(out, 'V', "version", NULL, "print the version");
	fputs("\nFIGURES\n"
	      "  GB/s is 10^9 payload bytes a second, Gb/s 10^9 bits, Mmsg/s 10^6 messages. Latency is half a round\n"
	      "  trip in write_lat and send_lat, the whole operation in read_lat, and the time from post to\n"
	      "  completion under load in bandwidth modes. CPU is the thread's CPU time, on either side: ns per\n"
	      "  message and s per 10^9 bytes. A note behind a figure shows retransmitted TCP segments and dropped\n"
	      "  frames, which affect the figure: they are counted on the ports of both ends if rnicctl may ask\n"
	      "  rnicd. With ud, latency is that of messages that arrive, and a column shows the share of the bytes\n"
	      "  that arrived.\n"
	      "\nEXIT STATUS\n"
	      "  0 all runs were done and every comparison matched, 1 a run failed or data was wrong, 2 bad usage\n"
	      "\nEXAMPLES\n"
	      "  testpmd-rdma -s -a 10.0.0.2\n"
	      "  testpmd-rdma -m write_bw,read_bw --size 4k..1m 10.0.0.2\n"
	      "  testpmd-rdma -m write_lat --size 8,64 --iters 100000 --json 10.0.0.2\n"
	      "  testpmd-rdma -m write_bw,send_bw --qp-type ud --size 1k..1m --loss 0,0.1%,1% 10.0.0.2\n"
	      "  testpmd-rdma --size 64 --qps 1..64 --depth 16,128 --plot rate.svg 10.0.0.2\n"
	      "  testpmd-rdma -m soak --bidir --qps 8 --seconds 10m 10.0.0.2\n",
	      out);
}
