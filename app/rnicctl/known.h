/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of counters of other devices, each with the counter of rnicd that counts the same. */
#ifndef KNOWN_H
#define KNOWN_H

/* Writes the table to stdout, the last section of doc/counters.md. */
void known_document(void);

#endif
