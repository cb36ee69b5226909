/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP ports that queue pairs have for themselves; port_has_qp() shows them to the workers. Control thread. */
#ifndef UDP_PORT_H
#define UDP_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/user.h"

struct client;

/* Why the client's queue pair cannot have the device's port, and the errno; NULL: udp_port_take() gives it. */
const char *udp_port_refusal(const struct client *c, uint32_t dev, uint16_t udp_port, int *err);

/* False: no memory. The user is held until the port is given back. */
bool udp_port_take(struct user *u, uint32_t dev, uint16_t udp_port);
void udp_port_give(struct user *u, uint32_t dev, uint16_t udp_port);

#endif
