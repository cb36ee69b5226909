/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_getaddrinfo(), and end points made from its results. */
#include "rnic/cm/cm.h"

#include <netdb.h>

#define EP_TIMEOUT_MS 2000

/* ---- rdma_getaddrinfo ---- */

static int addr_copy(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from, socklen_t len)
{
	if (from == NULL || len == 0)
		return 0;
	*to = malloc(len);
	if (*to == NULL)
		return ENOMEM;
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

static int lookup(const struct rdma_addrinfo *r, const char *node, const char *service,
		  const struct rdma_addrinfo *hints, struct addrinfo **ai)
{
	/* The port of a service may depend on the protocol. */
	struct addrinfo h = { .ai_socktype = r->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM };
	int rc;

	if (hints != NULL) {
		h.ai_flags = ((hints->ai_flags & RAI_PASSIVE) != 0 ? AI_PASSIVE : 0) |
			     ((hints->ai_flags & RAI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0);
		if (hints->ai_family == AF_INET || hints->ai_family == AF_INET6)
			h.ai_family = hints->ai_family;
	}
	rc = getaddrinfo(node, service, &h, ai);
	if (rc == 0)
		return 0;
	return rc == EAI_SYSTEM ? errno : rc == EAI_MEMORY ? ENOMEM : EADDRNOTAVAIL;
}

/* Sets the flags, the type of queue pair and the port space from the hints. 0 or an errno. */
static int kind_set(struct rdma_addrinfo *r, const struct rdma_addrinfo *hints)
{
	const int qp_type = hints != NULL ? hints->ai_qp_type : 0, space = hints != NULL ? hints->ai_port_space : 0;

	r->ai_flags = hints != NULL ? hints->ai_flags : 0;
	r->ai_qp_type = qp_type != 0 ? qp_type : space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	r->ai_port_space = space != 0 ? space : r->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	return r->ai_qp_type == IBV_QPT_RC || r->ai_qp_type == IBV_QPT_UD ? 0 : EOPNOTSUPP;
}

/*
 * A passive caller that names "localhost" and no service wants any device of this host: libfabric binds an id to the
 * address and uses the id's device, but never a loopback one. Such a caller gets the first device's address. Numeric
 * loopback addresses are kept.
 */
static int first_device(struct rdma_addrinfo *r)
{
	struct rnic_session *s = rnic_session_get();
	uint32_t n = 0;
	struct rnic_dev **devs = s != NULL ? rnic_devices(s, &n) : NULL;
	struct sockaddr_storage ss;
	struct ipc_addr a = { .port = 0 };
	int rc = 0;

	if (n > 0) {
		memcpy(a.ip, devs[0]->info.ip, sizeof(a.ip));
		cm_addr_to(&ss, &a);
		free(r->ai_src_addr);
		r->ai_src_addr = NULL;
		rc = addr_copy(&r->ai_src_addr, &r->ai_src_len, (struct sockaddr *)&ss,
			       ss.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
		r->ai_family = ss.ss_family;
	}
	free(devs);
	return rc;
}

static int addrs_set(struct rdma_addrinfo *r, const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	bool passive = (r->ai_flags & RAI_PASSIVE) != 0;
	struct addrinfo *ai = NULL;
	int rc = 0;

	if (node == NULL && service == NULL) {
		/* Only hints are given: they are the result. */
		rc = addr_copy(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
		if (rc == 0)
			rc = addr_copy(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
		r->ai_family = hints->ai_family != 0    ? hints->ai_family
			       : r->ai_src_addr != NULL ? r->ai_src_addr->sa_family
			       : r->ai_dst_addr != NULL ? r->ai_dst_addr->sa_family
							: AF_INET;
		return rc;
	}
	rc = lookup(r, node, service, hints, &ai);
	if (rc != 0)
		return rc;
	r->ai_family = ai->ai_family;
	if (passive) {
		rc = addr_copy(&r->ai_src_addr, &r->ai_src_len, ai->ai_addr, ai->ai_addrlen);
		if (rc == 0 && service == NULL && strcmp(node, "localhost") == 0)
			rc = first_device(r);
	} else {
		rc = addr_copy(&r->ai_dst_addr, &r->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
		if (rc == 0 && hints != NULL)
			rc = addr_copy(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	}
	freeaddrinfo(ai);
	return rc;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *r;
	int rc;

	if (res == NULL || (node == NULL && service == NULL && hints == NULL))
		return cm_ret(EINVAL);
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -1;
	rc = kind_set(r, hints);
	if (rc == 0)
		rc = addrs_set(r, node, service, hints);
	if (rc != 0) {
		rdma_freeaddrinfo(r);
		return cm_ret(rc);
	}
	*res = r;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res != NULL) {
		struct rdma_addrinfo *next = res->ai_next;
		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res);
		res = next;
	}
}

/* ---- end points ---- */

static int ep_passive(struct rnic_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		      struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(&id->id, res->ai_src_addr) != 0)
		return -1;
	if (pd != NULL)
		id->id.pd = pd;
	if (attr != NULL) {
		id->has_ep = true;
		id->ep_attr = *attr;
		id->ep_attr.qp_type = (enum ibv_qp_type)res->ai_qp_type;
	}
	return 0;
}

static int ep_active(struct rnic_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(&id->id, res->ai_src_addr, res->ai_dst_addr, EP_TIMEOUT_MS) != 0 ||
	    rdma_resolve_route(&id->id, EP_TIMEOUT_MS) != 0)
		return -1;
	if (attr != NULL) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(&id->id, pd, attr) != 0)
			return -1;
	}
	if (res->ai_connect_len > 0) {
		id->connect_data = malloc(res->ai_connect_len);
		if (id->connect_data == NULL)
			return cm_ret(ENOMEM);
		memcpy(id->connect_data, res->ai_connect, res->ai_connect_len);
		id->connect_len = res->ai_connect_len;
	}
	return 0;
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *rid;
	int rc;

	if (rdma_create_id(NULL, &rid, NULL, (enum rdma_port_space)res->ai_port_space) != 0)
		return -1;
	rid->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	if ((res->ai_flags & RAI_PASSIVE) != 0)
		rc = ep_passive(cm_id(rid), res, pd, attr);
	else
		rc = ep_active(cm_id(rid), res, pd, attr);
	if (rc != 0) {
		int err = errno;
		rdma_destroy_ep(rid);
		return cm_ret(err);
	}
	*out = rid;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}
