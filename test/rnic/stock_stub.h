/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STOCK_STUB_H
#define STOCK_STUB_H

#define STOCK_SAYS 7L

extern const char *stock_called; /* the last function called */
extern unsigned stock_frees;     /* device lists given back */

#endif
