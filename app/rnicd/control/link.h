/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the link of each port five times a second, except of pair ports. A change is logged in one line, and
 * clients get IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE. If a device is gone, or a memif server has closed the
 * connection, the device is opened again as soon as possible: first all workers leave the port (each answers a
 * command), then the control thread closes and opens the device, then the workers return.
 */
#ifndef LINK_H
#define LINK_H

/* After the workers and the loop have started. */
void link_start(void);
void link_stop(void);

#endif
