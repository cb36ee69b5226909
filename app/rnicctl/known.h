/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of counters that users know from other devices, each with the counter that says the same here. */
#ifndef KNOWN_H
#define KNOWN_H

/* Writes the table to stdout, the last section of doc/counters.md. */
void known_document(void);

#endif
