/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: the end of a direction, and of a connection. */
#include "rnic/rsock/rsock.h"

static bool one_free(const struct rsock *rs) { return rs->state != RSOCK_OPEN || rs->sq_free > 0; }
static bool drained(const struct rsock *rs) { return rs->broken || rs->sq_free == rs->sq_size; }
static bool open_or_over(const struct rsock *rs) { return rs->state >= RSOCK_OPEN; }

/* Sends a CONTROL message once the send queue has room for it. */
static void say(struct rsock *rs, enum rsock_control what, int ms)
{
	if (rsock_wait_quietly(rs, one_free, ms) == 0 && rs->state == RSOCK_OPEN)
		rsock_msg_post(rs, RSOCK_CONTROL, what);
}

static void end(struct rsock *rs, int ms)
{
	if (rs->state == RSOCK_OPEN)
		say(rs, RSOCK_DISCONNECT, ms);
	/* Both sides may have ended before everything was acknowledged. */
	if (rs->state == RSOCK_OPEN || rs->state == RSOCK_GONE)
		rsock_wait_quietly(rs, drained, ms);
	rsock_over(rs, 0);
	rdma_disconnect(rs->id);
}

void rsock_shut_all(struct rsock *rs, int ms)
{
	rs->rx_shut = rs->tx_shut = true;
	if (rs->state == RSOCK_ACCEPTING)
		rsock_wait_quietly(rs, open_or_over, ms);
	if (rs->id->qp != NULL)
		end(rs, ms);
	rsock_kick(rs);
}

int rshutdown(int fd, int how)
{
	struct rsock *rs = rsock_get(fd);
	int rc = 0;

	if (rs == NULL)
		return -1;
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return rsock_done(rs, EINVAL);
	pthread_mutex_lock(&rs->lock);
	if (rs->state == RSOCK_ACCEPTING)
		rsock_wait_quietly(rs, open_or_over, RSOCK_CLOSE_MS);
	if (rs->state != RSOCK_OPEN && rs->state != RSOCK_GONE)
		rc = ENOTCONN;
	bool wr = how != SHUT_RD && !rs->tx_shut;
	if (rc == 0) {
		rs->rx_shut |= how != SHUT_WR;
		rs->tx_shut |= how != SHUT_RD;
	}
	if (rc == 0 && rs->id->qp != NULL && rs->tx_shut && (rs->rx_shut || rs->rx_end))
		end(rs, RSOCK_CLOSE_MS);
	else if (rc == 0 && wr)
		say(rs, RSOCK_SHUTDOWN, RSOCK_CLOSE_MS);
	rsock_kick(rs);
	pthread_mutex_unlock(&rs->lock);
	return rsock_done(rs, rc);
}
