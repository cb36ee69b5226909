/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP ports that belong to one queue pair each; workers see them by port_has_qp(). Control thread. */
#ifndef UDP_PORT_H
#define UDP_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/user.h"

struct client;

/* Why a queue pair of the client cannot have this port of the device, and the errno in *err; NULL: it can. */
const char *udp_port_refusal(const struct client *c, uint32_t dev, uint16_t udp_port, int *err);

/* Takes the port. False: no memory. The caller keeps a reference to the user until it gives the port back. */
bool udp_port_take(struct user *u, uint32_t dev, uint16_t udp_port);
void udp_port_give(struct user *u, uint32_t dev, uint16_t udp_port);

#endif
