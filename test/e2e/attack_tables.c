/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes entries of tables that all users share: as many as it gets, or $N of each. Stays until stdin ends. */
#include "attack.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "raw_client.h"

#define QPS     8u  /* queue pairs that join groups */
#define IN_EACH 16u /* groups that a queue pair can join */

static int datagram_qp(struct raw *r, uint32_t pd, uint32_t cq, uint32_t *handle)
{
	const uint64_t at = raw_room(r, sizeof(struct qp_shm) + 2 * spsc_size(1, QP_SLOT_SIZE));
	struct ipc_msg m = { .type = IPC_CREATE_QP,
			     .len = IPC_MSG_LEN(create_qp),
			     .create_qp = { .pd = pd,
					    .send_cq = cq,
					    .recv_cq = cq,
					    .datagram = 1,
					    .shm_off = at,
					    .sq_off = at + sizeof(struct qp_shm),
					    .rq_off = at + sizeof(struct qp_shm) + spsc_size(1, QP_SLOT_SIZE),
					    .sq_slots = 1,
					    .rq_slots = 1 } };
	int rc = raw_call(r, &m, -1);

	*handle = m.create_qp_ok.handle;
	return rc;
}

static int join(struct raw *r, uint32_t qp_handle, uint32_t n)
{
	struct ipc_msg m = { .type = IPC_ATTACH, .len = IPC_MSG_LEN(attach), .attach = { .qp = qp_handle } };
	const struct ipc_addr group = raw_addr("239.1.0.0", 0);

	for (uint32_t i = 0; i < sizeof(group.ip); i++)
		m.attach.group[i] = group.ip[i];
	m.attach.group[14] = (uint8_t)getuid(); /* each user joins groups of its own */
	m.attach.group[15] = (uint8_t)n;
	return raw_call(r, &m, -1);
}

int mode_tables(void)
{
	const uint32_t most = atoi(getenv("N")) == 0 ? UINT32_MAX : (uint32_t)atoi(getenv("N"));
	uint32_t handle, member[QPS] = { 0 }, n[3] = { 0 };
	struct raw_job j = { .dev = 0 };
	struct raw_mr mr;
	int rc[3] = { 0 }, bad = 0;

	raw_must(raw_open(&j.r) == 0 && raw_pd(&j.r, 0, &j.pd) == 0 && raw_cq(&j.r, 0, 0, 64, &j.cq) == 0, "open");
	while (n[0] < most && (rc[0] = raw_mr(&j.r, j.pd, 0, 0, 4096, &mr)) == 0)
		n[0]++;
	while (n[1] < most && (rc[1] = datagram_qp(&j.r, j.pd, j.cq.handle, &handle)) == 0) {
		if (n[1] < QPS)
			member[n[1]] = handle;
		n[1]++;
	}
	while (n[2] < most && n[2] < QPS * IN_EACH && (rc[2] = join(&j.r, member[n[2] / IN_EACH], n[2])) == 0)
		n[2]++;
	for (int i = 0; i < 3; i++)
		EXPECT(rc[i] == (n[i] == most ? 0 : ENOMEM), "table %d: %d after %u (%s)", i, rc[i], n[i], j.r.text);
	printf("%u regions, %u queue pairs, %u groups\n", n[0], n[1], n[2]);
	char c;
	ssize_t end = most == UINT32_MAX ? read(0, &c, 1) : 0;
	(void)end;
	return bad;
}
