/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stub of the stock libibverbs, which only records the name of the function that was called. Every function returns
 * STOCK_SAYS, as a pointer or a number, for any arguments; the device list has one device.
 */
#include "stock_stub.h"

#include <stddef.h>

const char *stock_called;
unsigned stock_frees;
static char device[4096]; /* an ibv_device; only its name is looked at, which is empty */
static void *list[] = { device, NULL };

#define STUB(name) \
	void *name(void); \
	void *name(void) \
	{ \
		stock_called = #name; \
		return (void *)STOCK_SAYS; \
	}
#include "stock_names.inc"

void *ibv_get_device_list(int *num);
void *ibv_get_device_list(int *num)
{
	stock_called = "ibv_get_device_list";
	*num = 1;
	return list;
}

void ibv_free_device_list(void *l);
void ibv_free_device_list(void *l) { stock_frees += l == list; }
