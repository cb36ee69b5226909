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

/* Connects to a program that runs iWARP itself and takes orders. -1: there is none. Any process may have bound the
 * socket's name, so the peer's process number is checked. */
static int dial_program(uint32_t pid, uid_t *user)
{
	struct sockaddr_un un;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	const socklen_t name = ipc_orders_name(&un, pid);
	const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return -1;
	if (connect(sock, (const struct sockaddr *)&un, name) != 0 ||
	    getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || cred.pid != (pid_t)pid) {
		close(sock);
		return -1;
	}
	*user = cred.uid;
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

/* Checks the client and the specification, and puts them into m. False, after a sentence on stderr: one is wrong. */
static bool read_order(struct ipc_msg *m, const char *client, const char *spec)
{
	struct inject_rules rules;
	const char *rest;

	if (!client_is(&m->inject, client)) {
		fprintf(stderr,
			"rnicctl: inject needs the number of a client, as shown by rnicctl clients, or pid=NUMBER\n");
		return false;
	}
	const char *wrong = inject_parse(&rules, spec, &rest);
	if (wrong == NULL && strlen(spec) >= sizeof(m->inject.spec)) {
		rest = spec;
		wrong = "a specification has at most 899 characters";
	}
	if (wrong != NULL) {
		fprintf(stderr, "rnicctl: the specification is wrong at '%.40s': %s\n", rest, wrong);
		return false;
	}
	memcpy(m->inject.spec, spec, strlen(spec) + 1);
	return true;
}

/* Sends one message and receives its answer; closes the socket. 0 or a negative errno. */
static int told(int sock, struct ipc_msg *m)
{
	unsigned none = 0;
	int rc = ipc_send(sock, m, NULL, 0);

	if (rc == 0)
		rc = ipc_recv(sock, m, NULL, &none);
	close(sock);
	m->text[IPC_TEXT_MAX - 1] = '\0';
	return rc;
}

static int by_rnicd(const char *socket_path, struct ipc_msg *m)
{
	const bool pid = m->inject.pid != 0;
	const int sock = ipc_dial(socket_path);
	const int rc = sock < 0 ? sock : told(sock, m);

	if (rc == 0 && m->type == IPC_INJECT && m->status == 0)
		return 0;
	if (rc != 0)
		fprintf(stderr, "rnicctl: %srnicd does not answer at %s: %s\n",
			pid ? "the process takes no orders itself (was it started with rnicrun --inject?), and " : "",
			socket_path, strerror(-rc));
	else
		fprintf(stderr, "rnicctl: %s\n",
			m->type == IPC_INJECT && m->len > IPC_MSG_HDR ? m->text : "rnicd refuses it");
	return 1;
}

static int by_itself(int sock, struct ipc_msg *m, uid_t user)
{
	const uint32_t pid = m->inject.pid;

	if (geteuid() != 0 && geteuid() != user) {
		close(sock);
		fprintf(stderr, "rnicctl: process %u is another user's: only that user and root may\n", pid);
		return 1;
	}
	const int rc = told(sock, m);
	if (rc == 0 && m->type == IPC_INJECT && m->status == 0)
		return 0;
	fprintf(stderr, "rnicctl: process %u does not take the order: %s\n", pid,
		rc != 0 ? strerror(-rc) : "it has another version of librnic");
	return 1;
}

int injector_send(const char *socket_path, const char *client, const char *spec)
{
	struct ipc_msg m = { .type = IPC_INJECT, .len = IPC_MSG_LEN(inject), .seq = 1 };
	uid_t user = 0;

	if (!read_order(&m, client, spec))
		return WRONG_USAGE;
	const int sock = m.inject.pid != 0 ? dial_program(m.inject.pid, &user) : -1;
	const int rc = sock >= 0 ? by_itself(sock, &m, user) : by_rnicd(socket_path, &m);
	if (rc == 0)
		printf("client %s has the new failures; it prints each injected failure on its stderr\n", client);
	return rc;
}
