/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_SAY_H
#define ISO_SAY_H

/* Who speaks: "rank 3 (extract)"; empty in the process that starts the others. */
extern char say_who[32];

/* From here on, only the first process that dies says why: it and its children have one word in common. */
void say_once(void);
/* One sentence on stderr; the process ends with status 1. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Memory, or the end of the process. */
void *allocate(unsigned long bytes);

#endif
