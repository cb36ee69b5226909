/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RNICRUN_DOCTOR_H
#define RNICRUN_DOCTOR_H

/*
 * Checks what a client needs, a line for each finding on stdout. program: the program to check, or NULL. Returns 0 when
 * programs can run, else 1.
 */
int doctor(const char *lib, const char *sock, const char *program);

#endif
