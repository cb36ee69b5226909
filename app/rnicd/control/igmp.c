/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/igmp.h"

#define TELLS       2u                   /* reports of a change: the robustness variable (RFC 3376, 8.1) */
#define TELL_NS     RN_NS_PER_S          /* unsolicited report interval (8.11) */
#define TELL_OLD_NS (10 * RN_NS_PER_S)   /* the same of version 2 (RFC 2236, 8.10) */
#define OLD_NS      (260 * RN_NS_PER_S)  /* older version querier present (8.12), with the defaults of 8.1 to 8.3 */
#define WITHIN_MIN  (100 * RN_NS_PER_MS) /* least time over which answers to a query are spread */

void igmp_init(struct igmp *i, uint64_t seed)
{
	memset(i, 0, sizeof(*i));
	rn_rng_seed(&i->rng, seed);
	i->version = 3;
}

/* A random time in (0, most], ns. */
static uint64_t some_time(struct igmp *i, uint64_t most)
{
	return 1 + (uint64_t)(((unsigned __int128)rn_rng_u64(&i->rng) * most) >> 64);
}

/* Whether routers are told of the group. */
static bool told(const struct pkt_addr *a) { return pkt_addr_to_ip4(a) != PKT_IP4_ALL_HOSTS; }

static struct igmp_group *igmp_find(struct igmp *i, const struct pkt_addr *addr)
{
	for (uint32_t k = 0; k < IGMP_SLOTS; k++)
		if (i->group[k].used && pkt_addr_eq(&i->group[k].addr, addr))
			return &i->group[k];
	return NULL;
}

/* A free slot; if there is none, the slot of a group that the port is leaving, which has been reported once at least.
 * There are twice as many slots as groups. */
static struct igmp_group *slot(struct igmp *i)
{
	struct igmp_group *leaving = NULL;

	for (uint32_t k = 0; k < IGMP_SLOTS; k++) {
		if (!i->group[k].used)
			return &i->group[k];
		if (i->group[k].leaving)
			leaving = &i->group[k];
	}
	return leaving;
}

/* ---- the version in use: the oldest of recent queries (RFC 3376, 7.2.1) ---- */

static void speak(struct igmp *i, uint64_t now)
{
	uint32_t version = now < i->old_until[1] ? 1 : now < i->old_until[2] ? 2 : 3;

	if (version == i->version)
		return;
	i->version = version;
	for (uint32_t k = 0; k < IGMP_SLOTS; k++) {
		struct igmp_group *g = &i->group[k];
		g->tells = 0;
		g->tell_at = g->answer_at = RN_NEVER;
		g->used = g->used && !g->leaving;
	}
}

/* ---- events ---- */

/* The port has joined the group, or is leaving it: the reports of this begin. */
static void change(struct igmp *i, struct igmp_group *g, bool leaving, uint64_t now)
{
	g->leaving = leaving;
	g->tells = leaving && i->version == 2 ? 1 : TELLS;
	g->tell_at = now;
	g->answer_at = RN_NEVER;
	if (leaving && i->version == 1)
		g->used = false;
}

void igmp_join(struct igmp *i, const struct pkt_addr *addr, uint64_t now)
{
	struct igmp_group *g;

	speak(i, now);
	if (!told(addr))
		return;
	g = igmp_find(i, addr);
	if (g == NULL)
		g = slot(i);
	if (g == NULL)
		return;
	*g = (struct igmp_group){ .used = true, .addr = *addr };
	change(i, g, false, now);
}

void igmp_leave(struct igmp *i, const struct pkt_addr *addr, uint64_t now)
{
	struct igmp_group *g;

	speak(i, now);
	g = igmp_find(i, addr);
	if (g != NULL && !g->leaving)
		change(i, g, true, now);
}

void igmp_query(struct igmp *i, const struct pkt_igmp_query *q, uint64_t now)
{
	const uint64_t within = rn_max_u64(q->within_ms * RN_NS_PER_MS, WITHIN_MIN);

	if (q->version < 3)
		i->old_until[q->version] = now + OLD_NS;
	speak(i, now);
	/* Version 3 answers for all groups in one message. */
	uint64_t at = now + some_time(i, within);
	for (uint32_t k = 0; k < IGMP_SLOTS; k++) {
		struct igmp_group *g = &i->group[k];
		if (!g->used || g->leaving || (!q->all && !pkt_addr_eq(&g->addr, &q->group)))
			continue;
		if (i->version < 3)
			at = now + some_time(i, within);
		g->answer_at = rn_min_u64(g->answer_at, at);
	}
}

/* ---- messages ---- */

uint64_t igmp_next(const struct igmp *i)
{
	uint64_t next = RN_NEVER;

	for (uint32_t k = 0; k < IGMP_SLOTS; k++)
		if (i->group[k].used)
			next = rn_min_u64(next, rn_min_u64(i->group[k].tell_at, i->group[k].answer_at));
	return next;
}

/* Writes the group's report into *r if one is due, and plans the next. False: none is due. */
static bool igmp_say(struct igmp *i, struct igmp_group *g, uint64_t now, struct pkt_igmp_record *r)
{
	if (!g->used || rn_min_u64(g->tell_at, g->answer_at) > now)
		return false;
	*r = (struct pkt_igmp_record){ .says = g->leaving ? PKT_IGMP_LEAVES : PKT_IGMP_IS_IN_IT, .group = g->addr };
	g->answer_at = RN_NEVER;
	if (g->tell_at > now)
		return true;
	if (!g->leaving)
		r->says = PKT_IGMP_JOINS;
	g->tells--;
	g->tell_at = g->tells > 0 ? now + some_time(i, i->version < 3 ? TELL_OLD_NS : TELL_NS) : RN_NEVER;
	if (g->leaving && g->tells == 0)
		g->used = false;
	return true;
}

uint32_t igmp_out(struct igmp *i, uint64_t now, struct pkt_igmp_record r[IGMP_GROUPS])
{
	const uint32_t most = i->version < 3 ? 1 : IGMP_GROUPS; /* groups that a message can hold */
	uint32_t n = 0;

	speak(i, now);
	for (uint32_t k = 0; k < IGMP_SLOTS && n < most; k++)
		n += igmp_say(i, &i->group[k], now, &r[n]);
	return n;
}
