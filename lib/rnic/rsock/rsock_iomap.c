/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: buffers of the program that the peer writes directly (rsocket(7), riomap). */
#include "rnic/rsock/rsock.h"

static bool may_map(const struct rsock *rs) { return rs->state < RSOCK_ADDR || rs->state >= RSOCK_OPEN; }
static bool two_free(const struct rsock *rs) { return rs->state != RSOCK_OPEN || rs->sq_free >= 2 + RSOCK_SQ_CTRL; }

static bool ring_free(const struct rsock *rs)
{
	return two_free(rs) && (rs->state != RSOCK_OPEN || rs->s_used < rs->ssize);
}

/* ---- mapping ---- */

static bool index_taken(const struct rsock *rs, int index)
{
	rn_list_each(const struct rsock_iomr, m, &rs->iomrs, link) {
		if (m->index == index)
			return true;
	}
	return false;
}

static int index_free(const struct rsock *rs)
{
	for (uint32_t i = 0; i < rs->peer_maps; i++) {
		if (!index_taken(rs, (int)i))
			return (int)i;
	}
	return -1;
}

/*
 * Writes the entry into the peer's table, which follows the peer's SGL. The send queue has room for two work requests.
 */
static void tell(struct rsock *rs, const struct rsock_iomr *m)
{
	uint32_t msg = rsock_msg(RSOCK_IOMAP, (uint32_t)m->index);
	struct rsock_map e = { htole64(m->offset),
			       { htole64((uintptr_t)m->mr->addr), htole32(m->mr->rkey),
				 htole32((uint32_t)m->mr->length) } };
	struct rsock_write w = { .from = &e, .n = sizeof(e), .key = rs->peer_sgl.key };

	if (rs->peer_big)
		e = (struct rsock_map){ htobe64(m->offset),
					{ htobe64((uintptr_t)m->mr->addr), htobe32(m->mr->rkey),
					  htobe32((uint32_t)m->mr->length) } };
	w.to = rs->peer_sgl.addr + rs->peer_sgl.length * sizeof(struct rsock_sge) + (uint32_t)m->index * sizeof(e);
	rsock_write_post(rs, &w, &msg);
}

static int map_add(struct rsock *rs, void *buf, size_t len, bool remote, off_t *offset)
{
	struct rsock_iomr *m;
	int rc = rsock_wait(rs, may_map, false, -1), index = -1;

	if (rc == 0 && remote)
		rc = rsock_wait(rs, two_free, false, -1);
	if (rc == 0 && rs->state != RSOCK_OPEN)
		rc = ENOTCONN;
	if (rc != 0)
		return rc;
	if (remote)
		index = index_free(rs);
	if (remote && index < 0)
		return ENOBUFS;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return ENOMEM;
	m->index = index;
	m->offset = *offset == -1 ? (uintptr_t)buf : (uint64_t)*offset;
	m->mr = (ibv_reg_mr)(rs->id->pd, buf, len, IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_WRITE : 0));
	if (m->mr == NULL) {
		rc = errno;
		free(m);
		return rc;
	}
	if (remote)
		tell(rs, m);
	rn_list_push_front(&rs->iomrs, &m->link);
	*offset = (off_t)m->offset;
	return 0;
}

off_t riomap(int fd, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rsock *rs = rsock_get(fd);
	int rc;

	if (rs == NULL)
		return -1;
	if ((prot & ~PROT_WRITE) != 0 || flags != 0 || len == 0 || len > UINT32_MAX || offset < -1)
		return rsock_done(rs, EINVAL);
	pthread_mutex_lock(&rs->lock);
	rc = map_add(rs, buf, len, prot == PROT_WRITE, &offset);
	pthread_mutex_unlock(&rs->lock);
	return rsock_done(rs, rc) == 0 ? offset : -1;
}

int riounmap(int fd, void *buf, size_t len)
{
	struct rsock *rs = rsock_get(fd);
	int rc = EINVAL;

	if (rs == NULL)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rn_list_each(struct rsock_iomr, m, &rs->iomrs, link) {
		if (m->mr->addr != buf || m->mr->length != len)
			continue;
		rn_list_remove(&rs->iomrs, &m->link);
		rc = ibv_dereg_mr(m->mr);
		free(m);
		break;
	}
	pthread_mutex_unlock(&rs->lock);
	return rsock_done(rs, rc);
}

void rsock_iomaps_free(struct rsock *rs)
{
	rn_list_each(struct rsock_iomr, m, &rs->iomrs, link) {
		rn_list_remove(&rs->iomrs, &m->link);
		ibv_dereg_mr(m->mr);
		free(m);
	}
}

/* ---- writing ---- */

/* Finds the peer's buffer that contains the offset: its address, and how many bytes follow there. 0 or EINVAL. */
static int find(const struct rsock *rs, uint64_t offset, struct rsock_sge *out)
{
	for (uint32_t i = 0; i < rs->opt.maps; i++) {
		volatile const struct rsock_map *from = &rs->map[i];
		struct rsock_map m = { from->offset, { from->sge.addr, from->sge.key, from->sge.length } };
		if (offset < m.offset || offset - m.offset >= m.sge.length)
			continue;
		uint32_t skip = (uint32_t)(offset - m.offset);
		*out = (struct rsock_sge){ m.sge.addr + skip, m.sge.key, m.sge.length - skip };
		return 0;
	}
	return EINVAL;
}

/*
 * Copies a part into the send ring and writes it to the peer's `to`. Returns its length. The lock and `snd` are held.
 */
static uint32_t write_some(struct rsock *rs, const uint8_t *buf, size_t left, const struct rsock_sge *to)
{
	uint32_t n = rn_min_u32(rn_min_u32(to->length, RSOCK_XFER_MAX),
				rn_min_u32(rs->ssize - rs->s_used, rs->ssize - rs->s_head));
	struct rsock_write w = { .from = rs->sbuf + rs->s_head, .to = to->addr, .key = to->key };

	n = left < n ? (uint32_t)left : n;
	w.n = w.ring = n;
	memcpy(rs->sbuf + rs->s_head, buf, n);
	rs->s_head = rs->s_head + n == rs->ssize ? 0 : rs->s_head + n;
	rs->s_used += n;
	rsock_write_post(rs, &w, NULL);
	return n;
}

static int write_all(struct rsock *rs, const uint8_t *buf, size_t len, uint64_t offset, bool now, size_t *done)
{
	while (*done < len) {
		struct rsock_sge to;
		int rc = rsock_wait(rs, ring_free, now, -1);
		if (rc == 0 && rs->tx_shut)
			rc = EPIPE;
		if (rc == 0 && rs->state != RSOCK_OPEN)
			rc = rs->err != 0 ? rs->err : ENOTCONN;
		if (rc == 0)
			rc = find(rs, offset + *done, &to);
		if (rc != 0)
			return rc;
		*done += write_some(rs, buf + *done, len - *done, &to);
	}
	return 0;
}

size_t riowrite(int fd, const void *buf, size_t len, off_t offset, int flags)
{
	struct rsock *rs = rsock_get(fd);
	size_t done = 0;
	int rc;

	if (rs == NULL)
		return (size_t)-1;
	bool now = rs->nonblock || (flags & MSG_DONTWAIT) != 0;
	if (!now)
		pthread_mutex_lock(&rs->snd);
	else if (pthread_mutex_trylock(&rs->snd) != 0)
		return (size_t)rsock_done(rs, EAGAIN);
	rsock_call.turn = &rs->snd;
	pthread_mutex_lock(&rs->lock);
	rc = write_all(rs, buf, len, (uint64_t)offset, now, &done);
	pthread_mutex_unlock(&rs->lock);
	pthread_mutex_unlock(&rs->snd);
	return rsock_done(rs, done > 0 ? 0 : rc) == 0 ? done : (size_t)-1;
}
