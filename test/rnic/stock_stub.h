/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STOCK_STUB_H
#define STOCK_STUB_H

#define STOCK_SAYS 7L

extern const char *stock_called; /* name of the last function that was called */
extern unsigned stock_frees;     /* number of device lists that were freed */

#endif
