/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: listen, connect, accept, reject, disconnect. */
#include "rnic/cm/cm.h"

int rdma_listen(struct rdma_cm_id *rid, int backlog)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct ipc_msg m = { .type = IPC_CM_LISTEN, .len = IPC_MSG_LEN(cm_listen) };
	struct sockaddr_in any = { .sin_family = AF_INET };
	int rc = rnic_inject(INJECT_LISTEN);

	if (rc != 0)
		return cm_ret(rc);
	if (!id->bound && rdma_bind_addr(rid, (struct sockaddr *)&any) != 0)
		return -1;
	m.cm_listen.id = id->handle;
	m.cm_listen.tos = id->opt.tos;
	m.cm_listen.backlog = backlog > 0 ? (uint32_t)backlog : 0;
	rc = rnic_call(id->s, &m, IPC_MSG_HDR, -1);
	if (rc == 0)
		id->listening = true;
	return cm_ret(rc);
}

static uint16_t depth(const struct rnic_cm_id *id, uint8_t asked, uint8_t max)
{
	uint32_t dev = id->id.verbs != NULL ? rnic_ctx(id->id.verbs)->info.max_rd_atomic : max;

	return (uint16_t)(asked == max ? dev : rn_min_u32(asked, dev));
}

static void param_send(struct ipc_conn_param *to, const struct rnic_cm_id *id, const struct rdma_conn_param *p)
{
	to->ird = depth(id, p->responder_resources, RDMA_MAX_RESP_RES);
	to->ord = depth(id, p->initiator_depth, RDMA_MAX_INIT_DEPTH);
	to->rnr_retry = p->rnr_retry_count;
	to->retry_cnt = p->retry_count;
	to->timeout = id->opt.ack_timeout;
	to->tos = id->opt.tos;
	if (p->private_data != NULL) {
		to->priv_len = p->private_data_len;
		memcpy(to->priv, p->private_data, p->private_data_len);
	}
}

static bool priv_fits(const struct rnic_cm_id *id, const char *fn, uint32_t len, uint32_t room)
{
	if (len <= room || id->id.ps == RDMA_PS_UDP)
		return true;
	if (!cm_adapter(id)) {
		if (rn_unlikely(rnic_sanitizing) && rnic_sanitize.ib)
			rnic_finding(RNIC_FIND_PRIVATE,
				     "%s: %u bytes of private data, and InfiniBand has room for %u: send the rest as "
				     "a message",
				     fn, len, room);
		return true;
	}
	rnic_complain("rnic: %s: %u bytes of private data, but InfiniBand has room for %u: send the rest as a message",
		      fn, len, room);
	return false;
}

/* rnicrun --sanitize: reports a depth above the maximum, which is lowered without an error. */
static void depth_check(const char *fn, const char *what, uint32_t asked, uint32_t most, const char *whose)
{
	if (rn_unlikely(rnic_sanitizing) && asked != RDMA_MAX_RESP_RES && asked > most)
		rnic_finding(RNIC_FIND_DEPTH,
			     "%s: %s is %u, and %s is %u: another device may refuse it, or fail the Reads", fn, what,
			     asked, whose, most);
}

static void depths_check(const struct rnic_cm_id *id, const char *fn, const struct rdma_conn_param *p)
{
	if (id->id.verbs == NULL || id->id.ps == RDMA_PS_UDP)
		return;
	const uint32_t most = rnic_ctx(id->id.verbs)->info.max_rd_atomic;
	depth_check(fn, "responder_resources", p->responder_resources, most, "the device's max_qp_rd_atom");
	depth_check(fn, "initiator_depth", p->initiator_depth, most, "the device's max_qp_init_rd_atom");
}

/* The handle of a connection's QP: the id's own, or one that the program made and names by its number. */
static uint32_t qp_of(const struct rnic_cm_id *id, const struct rdma_conn_param *p, enum inject_side side)
{
	struct ibv_qp *qp = id->id.qp != NULL ? id->id.qp : rnic_qp_find(p->qp_num);

	rnic_qp_side(qp, side);
	return qp != NULL ? qp->handle : 0;
}

/* After a successful request: ibv_query_qp() will return the timeout that was set. */
static void timeout_keep(const struct rnic_cm_id *id, uint32_t qp_handle)
{
	if (id->opt.ack_timeout != 0 && qp_handle != 0)
		rnic_qp_timeout(id->s, qp_handle, id->opt.ack_timeout);
}

/* Puts ai_connect before the program's private data. False: a connection does not carry so much. */
static bool connect_data_put(const struct rnic_cm_id *id, struct ipc_conn_param *to)
{
	if (id->connect_len == 0)
		return true;
	if (id->connect_len + to->priv_len > IPC_PRIV_MAX) {
		rnic_complain("rnic: rdma_connect: ai_connect has %zu bytes, the private data %u, and a connection "
			      "carries %u",
			      id->connect_len, to->priv_len, IPC_PRIV_MAX);
		return false;
	}
	memmove(to->priv + id->connect_len, to->priv, to->priv_len);
	memcpy(to->priv, id->connect_data, id->connect_len);
	to->priv_len = (uint16_t)(to->priv_len + id->connect_len);
	return true;
}

/* The connection has been asked for: another rdma_connect() of the id sends no ai_connect. */
static void connect_data_free(struct rnic_cm_id *id)
{
	free(id->connect_data);
	id->connect_data = NULL;
	id->connect_len = 0;
}

int rdma_connect(struct rdma_cm_id *rid, struct rdma_conn_param *param)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct rdma_conn_param p = { .responder_resources = RDMA_MAX_RESP_RES,
				     .initiator_depth = RDMA_MAX_INIT_DEPTH,
				     .retry_count = RETRIES_MOST,
				     .rnr_retry_count = RNR_FOR_GOOD };
	struct ipc_msg m = { .type = IPC_CM_CONNECT, .len = IPC_MSG_LEN(cm_connect) };
	int rc;

	if (cm_injected(id, INJECT_CONNECT, &rc))
		return rc;
	rc = cm_made(id);
	if (rc == 0 && id->route_until != 0) {
		rnic_complain("rnic: connect is not possible: the id is in state addr-known");
		rc = EINVAL;
	}
	if (rc != 0)
		return cm_ret(rc);
	if (param != NULL)
		p = *param;
	m.cm_connect.id = id->handle;
	if (rid->qp != NULL || !cm_adapter(id))
		m.cm_connect.qp = qp_of(id, &p, INJECT_ACTIVE);
	else
		id->own_qpn = p.qp_num; /* on CONNECT_RESPONSE the program calls rdma_establish() */
	depths_check(id, "rdma_connect", &p);
	id->rnr_retry = p.rnr_retry_count;
	id->retry_cnt = p.retry_count;
	param_send(&m.cm_connect.param, id, &p);
	if (!connect_data_put(id, &m.cm_connect.param) ||
	    !priv_fits(id, "rdma_connect", m.cm_connect.param.priv_len, CM_PRIV_CONNECT))
		return cm_ret(EINVAL);
	id->active = true;
	id->over = false;
	const uint32_t qp = m.cm_connect.qp;
	rc = rnic_call(id->s, &m, IPC_MSG_HDR, -1);
	if (rc != 0)
		return cm_ret(rc);
	connect_data_free(id);
	timeout_keep(id, qp);
	return cm_complete(id);
}

int rdma_accept(struct rdma_cm_id *rid, struct rdma_conn_param *param)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct rdma_conn_param p = { .responder_resources = id->peer_ord,
				     .initiator_depth = id->peer_ird,
				     .rnr_retry_count = RNR_FOR_GOOD };
	struct ipc_msg m = { .type = IPC_CM_ACCEPT, .len = IPC_MSG_LEN(cm_connect) };
	int rc = rnic_inject(INJECT_ACCEPT);

	if (rc == 0)
		rc = cm_made(id);
	if (rc != 0)
		return cm_ret(rc);
	if (param != NULL)
		p = *param;
	m.cm_connect.id = id->handle;
	m.cm_connect.qp = qp_of(id, &p, INJECT_PASSIVE);
	if (m.cm_connect.qp == 0)
		return cm_ret(EINVAL);
	depths_check(id, "rdma_accept", &p);
	if (rid->ps != RDMA_PS_UDP)
		depth_check("rdma_accept", "initiator_depth", p.initiator_depth, id->peer_ird,
			    "responder_resources of the peer");
	p.retry_count = RETRIES_MOST; /* rdma_accept() has no retry_count: the program's value is ignored */
	param_send(&m.cm_connect.param, id, &p);
	if (!priv_fits(id, "rdma_accept", m.cm_connect.param.priv_len, CM_PRIV_ACCEPT))
		return cm_ret(EINVAL);
	const uint32_t qp = m.cm_connect.qp;
	rc = rnic_call(id->s, &m, IPC_MSG_HDR, -1);
	if (rc != 0)
		return cm_ret(rc);
	timeout_keep(id, qp);
	if (rid->ps != RDMA_PS_UDP)
		return cm_complete(id);
	/* After rdma_accept() a datagram id gets no more events: the request, which its listener waits for, is done. */
	if (id->sync)
		cm_last_done(id);
	return 0;
}

int rdma_reject(struct rdma_cm_id *rid, const void *priv, uint8_t len)
{
	struct ipc_msg m = { .type = IPC_CM_REJECT, .len = IPC_MSG_LEN(cm_reject) };
	const int rc = cm_made(cm_id(rid));

	if (rc != 0)
		return cm_ret(rc);
	m.cm_reject.id = cm_id(rid)->handle;
	if (priv != NULL) {
		m.cm_reject.priv_len = len;
		memcpy(m.cm_reject.priv, priv, len);
	}
	if (!priv_fits(cm_id(rid), "rdma_reject", m.cm_reject.priv_len, CM_PRIV_REJECT))
		return cm_ret(EINVAL);
	return cm_ret(rnic_call(cm_id(rid)->s, &m, IPC_MSG_HDR, -1));
}

/* As rdma_reject(): enhanced connection establishment (ECE) is not supported. */
int rdma_reject_ece(struct rdma_cm_id *rid, const void *priv, uint8_t len) { return rdma_reject(rid, priv, len); }

int rdma_disconnect(struct rdma_cm_id *rid)
{
	struct rnic_cm_id *id = cm_id(rid);
	int rc = cm_made(id);

	if (rc == 0)
		rc = rnic_call_handle(id->s, IPC_CM_DISCONNECT, id->handle);
	rnic_watch_ended(rid->qp);
	return rc != 0 || id->over ? cm_ret(rc) : cm_complete(id);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct rnic_cm_id *id = cm_id(listen);
	struct rdma_cm_event *event;

	if (!id->sync || !id->listening)
		return cm_ret(EINVAL);
	cm_last_done(id);
	if (rdma_get_cm_event(listen->channel, &event) != 0)
		return -1;
	if (event->status != 0 || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		int err = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ? ENODEV
			  : event->status < 0                          ? -event->status
								       : EINVAL;
		rdma_ack_cm_event(event);
		return cm_ret(err);
	}
	if (id->has_ep) {
		struct ibv_qp_init_attr attr = id->ep_attr;
		if (rdma_create_qp(event->id, listen->pd, &attr) != 0) {
			int err = errno;
			struct rdma_cm_id *child = event->id;
			rdma_ack_cm_event(event);
			rdma_reject(child, NULL, 0);
			rdma_destroy_id(child);
			return cm_ret(err);
		}
	}
	*out = event->id;
	(*out)->event = event;
	return 0;
}

/*
 * rdma_establish(), for a channel adapter's connections whose QP the program brings up itself after CONNECT_RESPONSE;
 * an RNIC brings the QP up with the connection.
 */
int rdma_establish(struct rdma_cm_id *rid)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct ipc_msg m = { .type = IPC_CM_ACCEPT,
			     .len = IPC_MSG_LEN(cm_connect),
			     .cm_connect = { .id = id->handle } };
	const struct ibv_qp *qp = id->own_qpn != 0 ? rnic_qp_find(id->own_qpn) : NULL;
	int rc;

	if (rid->qp != NULL || qp == NULL)
		return cm_ret(EINVAL);
	m.cm_connect.qp = qp->handle;
	param_send(&m.cm_connect.param, id,
		   &(struct rdma_conn_param){ .retry_count = id->retry_cnt, .rnr_retry_count = id->rnr_retry });
	/* ESTABLISHED is only for the side that has not called rdma_establish(). */
	m.cm_connect.param.quiet = 1;
	id->quiet = (id->s->can & IPC_CAN_QUIET) == 0;
	rc = rnic_call(id->s, &m, IPC_MSG_HDR, -1);
	if (rc != 0)
		id->quiet = false;
	else
		timeout_keep(id, qp->handle);
	return cm_ret(rc);
}

/* COMM_EST says that data overtook the connection's last message, which cannot happen over TCP. */
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	(void)id;
	return cm_ret(event == IBV_EVENT_COMM_EST ? 0 : EINVAL);
}

/* ---- enhanced connection establishment (ECE) of InfiniBand: not supported ---- */

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	(void)ece;
	return cm_ret(EOPNOTSUPP);
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	(void)ece;
	return cm_ret(EOPNOTSUPP);
}
