/* SPDX-License-Identifier: BSD-3-Clause */
#include "injector.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "inject/inject_rule.h"
#include "ipc/ipc.h"

#define WRONG_USAGE 2

static int dial(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int sock;

	if (strlen(path) >= sizeof(un.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(un.sun_path, path, strlen(path));
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock >= 0 && connect(sock, (struct sockaddr *)&un, sizeof(un)) != 0) {
		const int err = errno;
		close(sock);
		errno = err;
		return -1;
	}
	return sock;
}

static bool client_is(struct ipc_inject *to, const char *client)
{
	const bool pid = strncmp(client, "pid=", 4) == 0;
	const char *digits = client + (pid ? 4 : 0);
	char *end;

	errno = 0;
	const unsigned long n = strtoul(digits, &end, 10);
	if (*digits < '1' || *digits > '9' || *end != '\0' || errno != 0 || n > UINT32_MAX)
		return false;
	*(pid ? &to->pid : &to->client) = (uint32_t)n;
	return true;
}

int injector_send(const char *socket_path, const char *client, const char *spec)
{
	struct ipc_msg m = { .type = IPC_INJECT, .len = IPC_MSG_LEN(inject), .seq = 1 };
	struct inject_rules rules;
	const char *rest;
	unsigned none = 0;

	if (!client_is(&m.inject, client)) {
		fprintf(stderr,
			"rnicctl: inject wants the number of a client, as rnicctl clients has it, or pid=NUMBER\n");
		return WRONG_USAGE;
	}
	const char *wrong = inject_parse(&rules, spec, &rest);
	if (wrong == NULL && strlen(spec) >= sizeof(m.inject.spec)) {
		rest = spec;
		wrong = "a specification has at most 899 characters";
	}
	if (wrong != NULL) {
		fprintf(stderr, "rnicctl: the specification is wrong at '%.40s': %s\n", rest, wrong);
		return WRONG_USAGE;
	}
	memcpy(m.inject.spec, spec, strlen(spec) + 1);
	const int sock = dial(socket_path);
	int rc = sock < 0 ? -errno : ipc_send(sock, &m, NULL, 0);
	if (rc == 0)
		rc = ipc_recv(sock, &m, NULL, &none);
	if (sock >= 0)
		close(sock);
	if (rc != 0) {
		fprintf(stderr, "rnicctl: rnicd does not answer at %s: %s\n", socket_path, strerror(-rc));
		return 1;
	}
	m.text[IPC_TEXT_MAX - 1] = '\0';
	if (m.type != IPC_INJECT || m.status != 0) {
		fprintf(stderr, "rnicctl: %s\n",
			m.type == IPC_INJECT && m.len > IPC_MSG_HDR ? m.text : "rnicd refuses it");
		return 1;
	}
	printf("client %s is told; it says on its stderr what it injects\n", client);
	return 0;
}
