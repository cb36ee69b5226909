/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_loss.h"
#include "tp_rnicctl.h"

#include <stdio.h>
#include <string.h>

enum tp_verdict tp_loss_set(const char *port, uint32_t ppm, struct tp_err *err)
{
	char name[128], value[40];
	char *argv[] = { NULL, (char[]){ "set" }, (char[]){ "port" }, name, value, NULL };

	snprintf(name, sizeof(name), "%s", port);
	snprintf(value, sizeof(value), "loss=%g%%", ppm / 1e4);
	const int rc = tp_rnicctl(argv, -1);
	if (rc == 0)
		return TP_OK;
	if (rc < 0)
		return tp_fail(err, TP_BAD_OPTION, "--loss needs rnicctl, and starting it failed: %s", strerror(-rc));
	return tp_fail(
		err, TP_BAD_OPTION,
		"rnicctl could not set the loss of port %s: --loss is for devices of rnicd, and needs its user or "
		"root",
		port);
}
