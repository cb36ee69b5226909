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

bool iw_pcap_open(struct iw_pcap *p, const char *path)
{
	FILE *f = fopen(path, "rb");
	long size;
	uint32_t magic = 0;

	*p = (struct iw_pcap){ 0 };
	if (f == NULL)
		return false;
	fseek(f, 0, SEEK_END);
	size = ftell(f);
	rewind(f);
	p->data = malloc(size > 0 ? (size_t)size : 1);
	p->size = fread(p->data, 1, (size_t)size, f);
	fclose(f);
	if (p->size >= PCAP_HDR_LEN)
		memcpy(&magic, p->data, sizeof(magic));
	p->off = PCAP_HDR_LEN;
	if (magic != PCAP_MAGIC)
		iw_pcap_close(p);
	return magic == PCAP_MAGIC;
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
	while (p->size - p->off >= PCAP_REC_LEN) {
		uint32_t caplen;

		memcpy(&caplen, p->data + p->off + 8, sizeof(caplen));
		p->off += PCAP_REC_LEN;
		if (caplen > p->size - p->off)
			return false;
		uint8_t *k = p->data + p->off;
		p->off += caplen;
		if (read_tcp(k, caplen, s))
			return true;
	}
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

void iw_flow_add(struct iw_flow *f, const struct iw_seg *s)
{
	if (s->len > 0 && f->n_held < sizeof(f->held) / sizeof(f->held[0]))
		f->held[f->n_held++] = *s;
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
