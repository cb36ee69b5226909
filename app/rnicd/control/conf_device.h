/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The key "device": kind and arguments of a device, checked as far as possible without opening the device. Arguments
 * that the driver would refuse later, or misunderstand, are refused here, so that the message names the file's line.
 */
#ifndef CONF_DEVICE_H
#define CONF_DEVICE_H

#include "control/conf_value.h"
#include "border/rnicd.h"

/* Stores kind and arguments of "KIND:ARGUMENTS" in *p; false with half a sentence in why (CONF_WHY_MAX bytes). */
bool conf_device(struct rnicd_port_cfg *p, const char *v, char *why);

/* Whether two ports name one device that can be opened once only. */
bool conf_device_same(const struct rnicd_port_cfg *a, const struct rnicd_port_cfg *b);

#endif
