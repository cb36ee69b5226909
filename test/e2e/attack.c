/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of rnicd that attacks the daemon and its other clients.
 *
 * usage: attack MODE	$RNICD_SOCKET names the daemon; other parameters of a mode are environment
 * variables. Exit status 0: the daemon kept to its rules toward this client.
 */
#include "attack.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raw_client.h"

int mode_probe(void)
{
	int n = atoi(getenv("N")), bad = 0, rc = 0;
	struct raw r;

	raw_must(raw_open(&r) == 0, "open");
	for (int i = 0; i < n && rc == 0; i++) {
		struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) };
		rc = raw_call(&r, &m, -1);
	}
	EXPECT(rc == 0, "a request: %d (%s)", rc, r.text);
	printf("%d requests answered\n", n);
	raw_close(&r);
	return bad;
}

int mode_bystander(void)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };
	uint32_t n = 0;
	struct raw r;
	int rc = 0;
	char c;

	raw_must(raw_open(&r) == 0, "open");
	printf("ready\n");
	while (rc == 0 && (poll(&p, 1, 1) == 0 || read(0, &c, 1) == 1)) {
		if ((p.revents & POLLIN) != 0)
			printf("answered %u\n", n);
		struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev) };
		rc = raw_call(&r, &m, -1);
		n += rc == 0;
	}
	if (rc != 0)
		printf("a request: %d (%s)\n", rc, r.text);
	raw_close(&r);
	return rc != 0;
}

int mode_work(void)
{
	int n = atoi(getenv("N")), bad = 0, rc;
	struct raw_job j = { .dev = 0 };

	raw_must(raw_open(&j.r) == 0, "open");
	rc = raw_pd(&j.r, 0, &j.pd);
	for (int i = 0; i < n && rc == 0; i++) {
		rc = raw_cq(&j.r, 0, 0, 16, &j.cq);
		if (rc == 0)
			rc = raw_qp(&j.r, j.pd, j.cq.handle, 16, &j.qp);
		if (rc == 0)
			rc = raw_call_handle(&j.r, IPC_DESTROY_QP, j.qp.handle);
		if (rc == 0) /* destroying a CQ needs the answer of every worker */
			rc = raw_call_handle(&j.r, IPC_DESTROY_CQ, j.cq.handle);
	}
	EXPECT(rc == 0, "a request: %d (%s)", rc, j.r.text);
	printf("%d rounds answered\n", n);
	raw_close(&j.r);
	return bad;
}

#define MODE(m) \
	{ \
#m, mode_##m \
	}
static const struct {
	const char *name;
	int (*run)(void);
} modes[] = {
	MODE(probe),     MODE(lingering), MODE(unread),   MODE(fuse),      MODE(groups),  MODE(hijack),
	MODE(numbers),   MODE(channels),  MODE(mappings), MODE(listeners), MODE(clients), MODE(setups),
	MODE(work),      MODE(flushing),  MODE(fuzz),     MODE(tables),    MODE(inside),  MODE(memory),
	MODE(bystander), MODE(bells),     MODE(ports),    MODE(leaving),   MODE(victim),  MODE(locked),
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) == 0) {
			int bad = modes[i].run();
			printf("done %s\n", modes[i].name);
			return bad != 0;
		}
	}
	fprintf(stderr, "usage: attack MODE\nmodes:");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		fprintf(stderr, " %s", modes[i].name);
	fprintf(stderr, "\n");
	return 2;
}
