/* SPDX-License-Identifier: BSD-3-Clause */
/* The share of listeners that a user may have. An id counts once for each device at which it listens. */
#include <errno.h>

#include "control/cm.h"

/* The number of devices at which the id listens. */
static uint32_t devs(const struct cm_id *id)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < rnicd.n_ports; d++)
		n += (id->dev == CM_NO_DEV || id->dev == d) && (id->families & cm_family_of(d)) != 0;
	return n;
}

bool cm_listen_count(struct client *c, const struct cm_id *id)
{
	if (user_take(c->user, USER_LISTENERS, 0, devs(id)))
		return true;
	client_error(c, ENOMEM,
		     "the user of this client has as many listeners as a user may: %u (listeners, user-share)",
		     (uint32_t)user_share(USER_LISTENERS));
	return false;
}

void cm_listen_uncount(const struct cm_id *id) { user_give(id->c->user, USER_LISTENERS, 0, devs(id)); }
