/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections over a TCP socket that the program has connected itself. */
#include <rnic/rnicdv.h>

#include "rnic/cm/cm.h"

static int hand_over(struct rnic_cm_id *id, int fd, bool passive)
{
	struct ipc_msg m = { .type = IPC_CM_SOCKET,
			     .len = IPC_MSG_LEN(cm_socket),
			     .cm_socket = { .fd = (uint32_t)fd, .passive = passive } };
	int rc = fd < 0 ? EBADF : cm_made(id);

	m.cm_socket.id = id->handle;
	if (rc == 0)
		rc = rnic_call(id->s, &m, IPC_MSG_LEN(cm_socket_ok), -1);
	if (rc != 0)
		return rc;
	id->bound = true;
	cm_addr_to(&id->id.route.addr.src_storage, &m.cm_socket_ok.local);
	cm_addr_to(&id->id.route.addr.dst_storage, &m.cm_socket_ok.remote);
	return cm_device(id, m.cm_socket_ok.dev);
}

int rnicdv_resolve_socket(struct rdma_cm_id *id, int fd) { return cm_ret(hand_over(cm_id(id), fd, false)); }

int rnicdv_await_socket(struct rdma_cm_id *id, int fd)
{
	int rc = hand_over(cm_id(id), fd, true);

	return rc != 0 ? cm_ret(rc) : cm_complete(cm_id(id));
}
