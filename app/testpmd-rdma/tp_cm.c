/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define MAX_READS 16 /* outstanding per connection, when the device has that many */

enum tp_verdict tp_cm_next(struct rdma_event_channel *ch, uint64_t timeout, struct rdma_cm_event **ev,
			   struct tp_err *err)
{
	struct pollfd fd = { .fd = ch->fd, .events = POLLIN };
	int n = poll(&fd, 1, (int)(timeout / 1000000));

	*ev = NULL;
	if (n == 0 || (n < 0 && errno == EINTR))
		return TP_OK;
	if (n < 0 || rdma_get_cm_event(ch, ev) != 0) {
		*ev = NULL;
		return errno == EAGAIN || errno == EINTR ? TP_OK : tp_verbs_fail(err, "waiting for a connection event");
	}
	return TP_OK;
}

enum tp_verdict tp_cm_address(const char *host, uint16_t port, bool passive, struct sockaddr_storage *sa,
			      struct tp_err *err)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *ai = NULL;
	char service[8];
	int rc;

	hints.ai_flags = passive ? AI_PASSIVE : 0;
	if (passive && host[0] == '\0') {
		struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };

		memset(sa, 0, sizeof(*sa));
		memcpy(sa, &any, sizeof(any));
		return TP_OK;
	}
	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(host, service, &hints, &ai);
	if (rc != 0)
		return tp_fail(err, TP_BAD_OPTION, "\"%s\" is no address: %s", host, gai_strerror(rc));
	memset(sa, 0, sizeof(*sa));
	memcpy(sa, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return TP_OK;
}

static uint8_t reads(int device_max) { return (uint8_t)(device_max > MAX_READS ? MAX_READS : device_max); }

void tp_cm_param(struct rdma_conn_param *cp, struct ibv_context *verbs, const struct tp_private *p,
		 uint8_t wire[TP_PRIVATE_SIZE])
{
	struct ibv_device_attr dev;

	memset(cp, 0, sizeof(*cp));
	cp->retry_count = 7;
	cp->rnr_retry_count = 7;
	cp->responder_resources = cp->initiator_depth = 1;
	if (ibv_query_device(verbs, &dev) == 0) {
		cp->responder_resources = reads(dev.max_qp_rd_atom);
		cp->initiator_depth = reads(dev.max_qp_init_rd_atom);
	}
	tp_private_encode(wire, p);
	cp->private_data = wire;
	cp->private_data_len = TP_PRIVATE_SIZE;
}

void tp_cm_format(const struct sockaddr *sa, char *buf, size_t len)
{
	char host[INET6_ADDRSTRLEN] = "?";
	unsigned port = 0;

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		port = ntohs(in->sin_port);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		port = ntohs(in6->sin6_port);
	}
	snprintf(buf, len, "%s port %u", host, port);
}
