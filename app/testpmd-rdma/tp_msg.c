/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_msg.h"

#include <endian.h>
#include <string.h>

#define MAGIC   UINT64_C(0x7465737472646d61) /* "testrdma" */
#define VERSION 3

static void put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, 8);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return be64toh(v);
}

void tp_msg_encode(uint8_t wire[TP_MSG_SIZE], const struct tp_msg *m)
{
	put64(wire, MAGIC);
	put64(wire + 8, (uint64_t)VERSION << 32 | (uint32_t)m->type);
	for (unsigned i = 0; i < TP_MSG_WORDS; i++)
		put64(wire + 16 + 8 * i, m->word[i]);
	memcpy(wire + 16 + 8 * TP_MSG_WORDS, m->text, TP_MSG_TEXT);
}

enum tp_verdict tp_msg_decode(struct tp_msg *m, const uint8_t *wire, size_t len, struct tp_err *err)
{
	uint64_t head;

	if (len != TP_MSG_SIZE || get64(wire) != MAGIC)
		return tp_fail(err, TP_BAD_PEER, "the peer sent something that is no testpmd-rdma message");
	head = get64(wire + 8);
	if (head >> 32 != VERSION)
		return tp_fail(err, TP_BAD_PEER,
			       "the peer is another version of testpmd-rdma: use the same on both sides");
	if ((uint32_t)head < TP_MSG_SETUP || (uint32_t)head > TP_MSG_ERROR)
		return tp_fail(err, TP_BAD_PEER, "the peer sent a message of unknown type %u", (unsigned)head);
	m->type = (enum tp_msg_type)(uint32_t)head;
	for (unsigned i = 0; i < TP_MSG_WORDS; i++)
		m->word[i] = get64(wire + 16 + 8 * i);
	memcpy(m->text, wire + 16 + 8 * TP_MSG_WORDS, TP_MSG_TEXT);
	m->text[TP_MSG_TEXT - 1] = '\0';
	return TP_OK;
}

void tp_private_encode(uint8_t wire[TP_PRIVATE_SIZE], const struct tp_private *p)
{
	put64(wire, MAGIC + VERSION);
	put64(wire + 8, (uint64_t)p->role << 32 | p->index);
	put64(wire + 16, p->session);
}

enum tp_verdict tp_private_decode(struct tp_private *p, const uint8_t *wire, size_t len, struct tp_err *err)
{
	uint64_t w;

	/* Some devices pad private data, so it may be longer than what was sent. */
	if (len < TP_PRIVATE_SIZE || get64(wire) != MAGIC + VERSION)
		return tp_fail(err, TP_BAD_PEER, "a connection came that is not from this version of testpmd-rdma");
	w = get64(wire + 8);
	if (w >> 32 != TP_ROLE_CONTROL && w >> 32 != TP_ROLE_DATA)
		return tp_fail(err, TP_BAD_PEER, "a connection came in an unknown role");
	p->role = (enum tp_role)(w >> 32);
	p->index = (uint32_t)w;
	p->session = get64(wire + 16);
	return TP_OK;
}

void tp_msg_put_region(struct tp_msg *m, const struct tp_region *r)
{
	m->word[0] = r->addr;
	m->word[1] = r->len;
	m->word[2] = r->rkey;
}

void tp_msg_get_region(const struct tp_msg *m, struct tp_region *r)
{
	r->addr = m->word[0];
	r->len = m->word[1];
	r->rkey = (uint32_t)m->word[2];
}

/* A number that does not fit becomes one that tp_point_check refuses, instead of being truncated to one that it
 * accepts. */
static uint32_t fit32(uint64_t v) { return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v; }

void tp_msg_put_setup(struct tp_msg *m, const struct tp_point *p, const struct tp_region *r, uint32_t inline_max)
{
	memset(m, 0, sizeof(*m));
	m->type = TP_MSG_SETUP;
	tp_msg_put_region(m, r);
	m->word[3] = inline_max;
	m->word[4] = p->mode;
	m->word[5] = (p->bidir ? 1u : 0u) | (p->verify ? 2u : 0u) | (p->events ? 4u : 0u) | (p->more ? 8u : 0u) |
		     (p->touch ? 16u : 0u);
	m->word[6] = p->qps;
	m->word[7] = p->depth;
	m->word[8] = p->batch;
	m->word[9] = p->signal_every;
	m->word[10] = p->slots;
	m->word[11] = p->size;
	m->word[12] = p->iters;
	m->word[13] = p->duration;
	m->word[14] = p->warmup_ops;
	m->word[15] = p->warmup;
	m->word[16] = p->timeout;
	m->word[17] = p->seed;
	m->word[18] = p->qp_type;
}

void tp_msg_get_setup(const struct tp_msg *m, struct tp_point *p, struct tp_region *r, uint32_t *inline_max)
{
	memset(p, 0, sizeof(*p));
	tp_msg_get_region(m, r);
	*inline_max = fit32(m->word[3]);
	p->mode = m->word[4] < TP_MODE_COUNT ? (enum tp_mode)m->word[4] : TP_MODE_COUNT;
	p->bidir = m->word[5] & 1;
	p->verify = m->word[5] & 2;
	p->events = m->word[5] & 4;
	p->more = m->word[5] & 8;
	p->touch = m->word[5] & 16;
	p->qps = fit32(m->word[6]);
	p->depth = fit32(m->word[7]);
	p->batch = fit32(m->word[8]);
	p->signal_every = fit32(m->word[9]);
	p->slots = fit32(m->word[10]);
	p->size = m->word[11];
	p->iters = m->word[12];
	p->duration = m->word[13];
	p->warmup_ops = m->word[14];
	p->warmup = m->word[15];
	p->timeout = m->word[16];
	p->seed = m->word[17];
	p->qp_type = m->word[18] < TP_QP_TYPES ? (enum tp_qp_type)m->word[18] : TP_QP_TYPES;
	p->loss = TP_NO_LOSS;
}

void tp_msg_put_result(struct tp_msg *m, const struct tp_figures *f)
{
	memset(m, 0, sizeof(*m));
	m->type = TP_MSG_RESULT;
	m->word[0] = f->ops;
	m->word[1] = f->bytes;
	m->word[2] = f->ns;
	m->word[3] = f->cpu_ns;
	m->word[4] = f->cpu_ops;
	m->word[5] = f->checked;
	m->word[6] = f->wrong;
	m->word[7] = f->lat.count;
	m->word[8] = f->lat.min;
	m->word[9] = f->lat.p50;
	m->word[10] = f->lat.p99;
	m->word[11] = f->lat.p999;
	m->word[12] = f->lat.max;
	m->word[13] = f->lat.mean;
	m->word[14] = f->overtaken;
	m->word[15] = f->sent;
	m->word[16] = f->sent_bytes;
	m->word[17] = f->arrived;
	m->word[18] = f->partial;
	m->word[19] = f->valid;
	m->word[20] = f->counted;
	m->word[21] = f->again;
	m->word[22] = f->dropped;
}

void tp_msg_get_result(const struct tp_msg *m, struct tp_figures *f)
{
	f->ops = m->word[0];
	f->bytes = m->word[1];
	f->ns = m->word[2];
	f->cpu_ns = m->word[3];
	f->cpu_ops = m->word[4];
	f->checked = m->word[5];
	f->wrong = m->word[6];
	f->overtaken = m->word[14];
	f->sent = m->word[15];
	f->sent_bytes = m->word[16];
	f->arrived = m->word[17];
	f->partial = m->word[18];
	f->valid = m->word[19];
	f->counted = m->word[20] != 0;
	f->again = m->word[21];
	f->dropped = m->word[22];
	f->lat = (struct tp_quantiles){ .count = m->word[7],
					.min = m->word[8],
					.p50 = m->word[9],
					.p99 = m->word[10],
					.p999 = m->word[11],
					.max = m->word[12],
					.mean = m->word[13] };
}
