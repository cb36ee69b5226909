/* SPDX-License-Identifier: BSD-3-Clause */
/* The interactive prompt. */
#ifndef TP_SHELL_H
#define TP_SHELL_H

#include "tp_opts.h"

/*
 * Reads commands from the descriptor `in` until quit or its end. signals: an eventfd that a signal handler writes to; a
 * signal ends the run, or the prompt if there is no run.
 */
int tp_shell(struct tp_opts *o, int in, int signals);

#endif
