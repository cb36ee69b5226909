/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks after the lines of the ports. Five times a second each port is asked: a change is logged in one line, clients
 * get IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE. A device that is gone, or a memif server that has hung up, is opened
 * again until it is there: first all workers leave the port (each answers a command), then the device is closed and
 * opened by the control thread, then the workers come back.
 */
#ifndef LINK_H
#define LINK_H

/* After the workers and the loop have started. */
void link_start(void);
void link_stop(void);

#endif
