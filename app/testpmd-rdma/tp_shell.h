/* SPDX-License-Identifier: BSD-3-Clause */
/* The interactive prompt. */
#ifndef TP_SHELL_H
#define TP_SHELL_H

#include "tp_opts.h"

#include <stdatomic.h>
#include <stdio.h>

/* Read commands from in until quit or its end. quit_signal: set by a signal handler, ends a run, then the prompt. */
int tp_shell(struct tp_opts *o, FILE *in, atomic_bool *quit_signal);

#endif
