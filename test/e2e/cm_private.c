/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of cm_cases.c about private data and refusals. */
#include "cm_rig.h"

#include <errno.h>
#include <string.h>

/* Reasons of an InfiniBand REJ (IBTA volume 1, 12.6.7.2). */
#define IB_INVALID_SERVICE  8
#define IB_CONSUMER_DEFINED 28

static bool adapter(void) { return srv.verbs->device->node_type == IBV_NODE_CA; }

/*
 * Private data arrives in full: all len bytes of p, and on an adapter zeros up to the length of InfiniBand's message.
 */
static bool filled_up(const struct got *g, const void *p, unsigned len, unsigned room)
{
	CHECK(g->priv_len == (adapter() ? room : len) && memcmp(g->priv, p, len) == 0);
	for (unsigned i = len; i < g->priv_len; i++)
		CHECK(g->priv[i] == 0);
	return true;
}

/* The limits are those of an InfiniBand adapter's messages. An RNIC takes any length that the length field can hold. */
bool private_data_has_the_room_of_its_messages(void)
{
	uint8_t data[255];
	struct got g;

	memset(data, 0x77, sizeof(data));
	struct rdma_cm_id *lid = listen_on(&srv, 8011, 4), *cid = route_to(8011);
	struct rdma_conn_param cp = param(4, 4, data, 57), sp = param(4, 4, data, 197);
	CHECK(lid != NULL && cid != NULL);
	if (adapter()) {
		CHECK(rdma_connect(cid, &cp) == -1 && errno == EINVAL);
		cp.private_data_len = 56;
	}
	CHECK(rdma_connect(cid, &cp) == 0 && want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
	CHECK(filled_up(&g, data, cp.private_data_len, 56) && give_qp(&srv, g.id));
	struct rdma_cm_id *sid = g.id;
	if (adapter()) {
		CHECK(rdma_accept(sid, &sp) == -1 && errno == EINVAL);
		sp.private_data_len = 10;
	}
	CHECK(rdma_accept(sid, &sp) == 0 && want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, &g));
	CHECK(filled_up(&g, data, sp.private_data_len, 196));
	CHECK(want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, &g) && g.priv_len == 0);
	CHECK(rdma_disconnect(cid) == 0 && want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && drop(cid) && drop(sid));

	CHECK((cid = dial(8011, NULL)) != NULL && want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
	CHECK(filled_up(&g, data, 0, 56));
	if (adapter())
		CHECK(rdma_reject(g.id, data, 149) == -1 && errno == EINVAL);
	CHECK(rdma_reject(g.id, data, 148) == 0 && rdma_destroy_id(g.id) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_REJECTED, &g) && filled_up(&g, data, 148, 148));
	return drop(cid) && rdma_destroy_id(lid) == 0;
}

bool private_data_both_ways(void)
{
	static const uint8_t sizes[] = { 0, 1, 56, 196, 255 };
	uint8_t data[255], back[255];
	struct got g;

	for (unsigned i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)(i + 1);
		back[i] = (uint8_t)(200 - i);
	}
	for (unsigned s = 0; s < sizeof(sizes); s++) {
		if (adapter() && sizes[s] > 56)
			continue;
		struct rdma_conn_param cp = param(4, 4, data, sizes[s]), sp = param(4, 4, back, sizes[s]);
		struct rdma_cm_id *lid = listen_on(&srv, 8006, 4), *cid;

		CHECK(lid != NULL && (cid = dial(8006, &cp)) != NULL);
		CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
		CHECK(g.listen_id == lid);
		CHECK(g.priv_len >= sizes[s] && memcmp(g.priv, data, sizes[s]) == 0);
		struct rdma_cm_id *sid = g.id;
		CHECK(give_qp(&srv, sid) && rdma_accept(sid, &sp) == 0);
		CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, &g));
		CHECK(g.priv_len >= sizes[s] && memcmp(g.priv, back, sizes[s]) == 0);
		CHECK(want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
		CHECK(part(&(struct joined){ lid, sid, cid }));
	}
	return true;
}

bool reject_with_private_data(void)
{
	static const char why[] = "not today";
	struct rdma_cm_id *lid = listen_on(&srv, 8007, 4);
	struct got g;

	for (uint8_t len = 0; len <= sizeof(why); len = (uint8_t)(len + sizeof(why))) {
		struct rdma_cm_id *cid;

		CHECK(lid != NULL && (cid = dial(8007, NULL)) != NULL);
		CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
		CHECK(rdma_reject(g.id, why, len) == 0 && rdma_destroy_id(g.id) == 0);
		CHECK(want(cli.ch, RDMA_CM_EVENT_REJECTED, &g));
		CHECK(g.id == cid && g.status == (adapter() ? IB_CONSUMER_DEFINED : -ECONNREFUSED));
		CHECK(g.priv_len >= len && memcmp(g.priv, why, len) == 0);
		CHECK(drop(cid));
	}
	return rdma_destroy_id(lid) == 0;
}

bool nobody_listens(void)
{
	struct rdma_cm_id *cid = dial(8999, NULL);
	struct got g;

	CHECK(cid != NULL);
	CHECK(want(cli.ch, RDMA_CM_EVENT_REJECTED, &g));
	CHECK(g.status == (adapter() ? IB_INVALID_SERVICE : -ECONNREFUSED));
	return drop(cid);
}
