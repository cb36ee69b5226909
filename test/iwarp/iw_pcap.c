/* SPDX-License-Identifier: BSD-3-Clause */
#include "iw_pcap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"
#include "base/rn_seq.h"

#define PCAP_MAGIC   0xa1b2c3d4u
#define PCAP_HDR_LEN 24
#define PCAP_REC_LEN 16
#define ETH_LEN      14

/* The next record's octets, of which there are *n; NULL: there is no whole one. */
static uint8_t *record(struct iw_pcap *p, uint32_t *n)
{
	if (p->size - p->off < PCAP_REC_LEN)
		return NULL;
	memcpy(n, p->data + p->off + 8, sizeof(*n));
	if (*n > p->size - p->off - PCAP_REC_LEN)
		return NULL;
	uint8_t *at = p->data + p->off + PCAP_REC_LEN;
	p->off += PCAP_REC_LEN + *n;
	return at;
}

/* Whether the file is a capture of whole records. */
static bool is_whole(struct iw_pcap *p)
{
	uint32_t magic = 0, n;

	if (p->size < PCAP_HDR_LEN)
		return false;
	memcpy(&magic, p->data, sizeof(magic));
	for (p->off = PCAP_HDR_LEN; record(p, &n) != NULL;)
		;
	const bool whole = p->off == p->size;
	p->off = PCAP_HDR_LEN;
	return magic == PCAP_MAGIC && whole;
}

bool iw_pcap_open(struct iw_pcap *p, const char *path)
{
	FILE *f = fopen(path, "rb");
	long size;

	*p = (struct iw_pcap){ 0 };
	if (f == NULL)
		return false;
	fseek(f, 0, SEEK_END);
	size = ftell(f);
	rewind(f);
	p->data = size > 0 ? malloc((size_t)size) : NULL;
	p->size = p->data != NULL ? fread(p->data, 1, (size_t)size, f) : 0;
	fclose(f);
	if (is_whole(p))
		return true;
	iw_pcap_close(p);
	return false;
}

void iw_pcap_close(struct iw_pcap *p)
{
	free(p->data);
	*p = (struct iw_pcap){ 0 };
}

static bool read_tcp(uint8_t *k, uint32_t n, struct iw_seg *s)
{
	if (n < ETH_LEN + 40 || rn_load_be16(k + 12) != 0x0800 || k[23] != 6)
		return false;
	uint8_t *ip = k + ETH_LEN;
	uint32_t ihl = (ip[0] & 15u) * 4, total = rn_load_be16(ip + 2);
	if (total > n - ETH_LEN || total < ihl + 20)
		return false;
	uint8_t *tcp = ip + ihl;
	uint32_t thl = (tcp[12] >> 4) * 4u;
	if (total < ihl + thl)
		return false;
	*s = (struct iw_seg){ .src = rn_load_be32(ip + 12),
			      .dst = rn_load_be32(ip + 16),
			      .sport = rn_load_be16(tcp),
			      .dport = rn_load_be16(tcp + 2),
			      .seq = rn_load_be32(tcp + 4),
			      .flags = tcp[13],
			      .body = tcp + thl,
			      .len = total - ihl - thl };
	return true;
}

bool iw_pcap_next(struct iw_pcap *p, struct iw_seg *s)
{
	uint32_t n;
	uint8_t *k;

	while ((k = record(p, &n)) != NULL)
		if (read_tcp(k, n, s))
			return true;
	return false;
}

void iw_flow_start(struct iw_flow *f, const struct iw_seg *syn)
{
	f->src = syn->src;
	f->dst = syn->dst;
	f->sport = syn->sport;
	f->dport = syn->dport;
	f->next = syn->seq + 1;
	f->n_held = 0;
}

bool iw_flow_owns(const struct iw_flow *f, const struct iw_seg *s)
{
	return f->src == s->src && f->dst == s->dst && f->sport == s->sport && f->dport == s->dport;
}

bool iw_flow_add(struct iw_flow *f, const struct iw_seg *s)
{
	if (s->len == 0)
		return true;
	if (f->n_held == sizeof(f->held) / sizeof(f->held[0]))
		return false;
	f->held[f->n_held++] = *s;
	return true;
}

bool iw_flow_pull(struct iw_flow *f, struct iw_seg *s)
{
	for (uint32_t i = 0; i < f->n_held;) {
		struct iw_seg *h = &f->held[i];
		uint32_t end = h->seq + h->len;

		if (rn_seq_gt(h->seq, f->next)) {
			i++;
			continue;
		}
		*s = *h;
		*h = f->held[--f->n_held];
		if (rn_seq_le(end, f->next)) { /* all octets of this segment have been delivered before */
			i = 0;
			continue;
		}
		s->body += f->next - s->seq;
		s->len = end - f->next;
		s->seq = f->next;
		f->next = end;
		return true;
	}
	return false;
}
