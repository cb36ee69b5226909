/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_SAY_H
#define ISO_SAY_H

/* The name of this process in messages: "rank 3 (extract)"; empty in the process that starts the others. */
extern char say_who[32];

/* From now on only the first process that fails, of this one and its children, prints why: they share a flag. */
void say_once(void);
/* Prints one sentence on stderr and ends the process with status 1. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Allocates memory; ends the process if there is none. */
void *allocate(unsigned long bytes);

#endif
