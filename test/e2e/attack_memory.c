/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes memory by several clients at once, each of which stays below the quotas of a client. */
#include "attack.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "raw_client.h"

#define CLIENTS 6u
#define REGIONS 4u /* of each client */
#define REGION  (UINT64_C(16) << 20)
#define IDS     4000u /* of each client */

/* $N regions and ids, 0: as many as it gets. Stays until stdin ends, if it takes as many as it gets. */
int mode_memory(void)
{
	const uint32_t most = atoi(getenv("N")) == 0 ? UINT32_MAX : (uint32_t)atoi(getenv("N"));
	static struct raw r[CLIENTS];
	struct raw_chan ch[CLIENTS];
	uint32_t pd, id, n[2] = { 0 };
	struct raw_mr mr;
	int rc[2] = { 0 }, bad = 0;
	char c;

	for (uint32_t i = 0; i < CLIENTS; i++)
		raw_must(raw_open(&r[i]) == 0 && raw_chan(&r[i], IPC_CHANNEL_CM, 0, 16, &ch[i]) == 0, "open");
	for (uint32_t i = 0; i < CLIENTS && rc[0] == 0 && n[0] < most; i++) {
		raw_must(raw_pd(&r[i], 0, &pd) == 0, "a protection domain");
		for (uint64_t k = 0; k < REGIONS && n[0] < most; k++) {
			rc[0] = raw_mr(&r[i], pd, 7, k * REGION, REGION, &mr);
			if (rc[0] != 0)
				break;
			n[0]++;
		}
	}
	for (uint32_t i = 0; i < CLIENTS && rc[1] == 0 && n[1] < most; i++)
		for (uint32_t k = 0; k < IDS && n[1] < most && (rc[1] = raw_cm_id(&r[i], &ch[i], &id)) == 0; k++)
			n[1]++;
	for (int i = 0; i < 2; i++)
		EXPECT(rc[i] == (n[i] == most ? 0 : ENOMEM), "%d: %d after %u", i, rc[i], n[i]);
	printf("%u regions, %u ids\n", n[0], n[1]);
	ssize_t end = most == UINT32_MAX ? read(0, &c, 1) : 0;
	(void)end;
	return bad;
}
