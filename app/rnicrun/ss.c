/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicrun --ss: a table of rnicd's sockets, like the table of the kernel's sockets that `ss -tuanp` prints. rnicd lists
 * its sockets and names the file of each. The processes that have this file open are found in /proc, as ss does.
 */
#include "ss.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/ipc.h"

#define NAME  32                     /* bytes of a process' name, with its end */
#define ENTRY (INET6_ADDRSTRLEN + 8) /* bytes of an address and a port */
#define WIDTH 21                     /* columns of "255.255.255.255:65535"; a longer one moves the rest of its line */

/* A descriptor of a process that is a socket. */
struct holder {
	uint64_t file; /* inode number */
	uint32_t pid, fd;
	char name[NAME];
};

static struct holder *holders; /* sorted by file, pid, fd */
static size_t n_holders;

/* ---- processes ---- */

static void name_of(const char *pid, char name[NAME])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	f = fopen(path, "re");
	if (f == NULL || fgets(name, NAME, f) == NULL)
		snprintf(name, NAME, "?");
	if (f != NULL)
		fclose(f);
	name[strcspn(name, "\n")] = '\0';
	for (char *c = name; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

static bool holder_add(const struct holder *h)
{
	static size_t room;

	if (n_holders == room) {
		struct holder *more = realloc(holders, (room = 2 * room + 64) * sizeof(*more));
		if (more == NULL)
			return false;
		holders = more;
	}
	holders[n_holders++] = *h;
	return true;
}

/* Finds the sockets that a process has open. False: there is no such process, or it is another user's. */
static bool look_at(const char *pid)
{
	char path[300], target[64];
	struct holder h = { .pid = (uint32_t)strtoul(pid, NULL, 10) };
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	DIR *d = opendir(path);
	if (d == NULL)
		return false;
	name_of(pid, h.name);
	while ((e = readdir(d)) != NULL) {
		unsigned long long file;
		snprintf(path, sizeof(path), "/proc/%.20s/fd/%s", pid, e->d_name);
		ssize_t len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = '\0';
		if (sscanf(target, "socket:[%llu]", &file) != 1)
			continue;
		h.file = file;
		h.fd = (uint32_t)strtoul(e->d_name, NULL, 10);
		if (!holder_add(&h))
			break;
	}
	closedir(d);
	return true;
}

static int by_file(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->fd < y->fd ? -1 : x->fd > y->fd;
}

/* Whether the text is a number without sign. */
static bool is_number(const char *text) { return *text != '\0' && text[strspn(text, "0123456789")] == '\0'; }

static bool look_at_all(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	if (d == NULL) {
		perror("rnicrun: /proc");
		return false;
	}
	while ((e = readdir(d)) != NULL)
		if (is_number(e->d_name))
			(void)look_at(e->d_name);
	closedir(d);
	return true;
}

static bool look_at_these(char *const *pids)
{
	for (; *pids != NULL; pids++)
		if (!is_number(*pids) || !look_at(*pids)) {
			fprintf(stderr, "rnicrun: there is no process %s, or it is another user's\n", *pids);
			return false;
		}
	return true;
}

/* The first holder of a file; NULL: none. */
static const struct holder *holder_of(uint64_t file)
{
	size_t low = 0, high = n_holders;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (holders[mid].file < file)
			low = mid + 1;
		else
			high = mid;
	}
	return file != 0 && low < n_holders && holders[low].file == file ? &holders[low] : NULL;
}

/* ---- rows ---- */

static const char *state_of(const struct ipc_sock_row *r)
{
	static const char *const name[] = {
		[TCP_ESTABLISHED] = "ESTAB",    [TCP_SYN_SENT] = "SYN-SENT",     [TCP_SYN_RECV] = "SYN-RECV",
		[TCP_FIN_WAIT1] = "FIN-WAIT-1", [TCP_FIN_WAIT2] = "FIN-WAIT-2",  [TCP_TIME_WAIT] = "TIME-WAIT",
		[TCP_CLOSE] = "UNCONN",         [TCP_CLOSE_WAIT] = "CLOSE-WAIT", [TCP_LAST_ACK] = "LAST-ACK",
		[TCP_LISTEN] = "LISTEN",        [TCP_CLOSING] = "CLOSING",
	};

	return r->state < sizeof(name) / sizeof(name[0]) && name[r->state] != NULL ? name[r->state] : "?";
}

static const char *wire_of(const struct ipc_sock_row *r)
{
	return r->wire == IPC_GRAM_IWARP ? "iwarp" : r->wire == IPC_GRAM_PLAIN ? "plain" : "-";
}

static bool is_ip4(const struct ipc_addr *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a->ip, mapped, sizeof(mapped)) == 0;
}

/* any: the families of a wildcard address, IPC_SOCK_IP4 and IPC_SOCK_IP6; 0: the address is no wildcard. */
static const char *address_of(const struct ipc_addr *a, uint32_t any, char to[ENTRY])
{
	const bool ip4 = is_ip4(a);
	char ip[INET6_ADDRSTRLEN], port[8] = "*";

	if (a->port != 0)
		snprintf(port, sizeof(port), "%u", a->port);
	inet_ntop(ip4 ? AF_INET : AF_INET6, a->ip + (ip4 ? 12 : 0), ip, sizeof(ip));
	if (any == (IPC_SOCK_IP4 | IPC_SOCK_IP6))
		snprintf(to, ENTRY, "*:%s", port);
	else if (any == IPC_SOCK_IP4)
		snprintf(to, ENTRY, "0.0.0.0:%s", port);
	else
		snprintf(to, ENTRY, ip4 ? "%s:%s" : "[%s]:%s", ip, port);
	return to;
}

/* The address families that a peer of this socket may have; 0: the socket has a peer already. */
static uint32_t peers_of(const struct ipc_sock_row *r)
{
	if (r->remote.port != 0)
		return 0;
	if (r->families != 0)
		return r->families;
	return is_ip4(&r->local) ? IPC_SOCK_IP4 : IPC_SOCK_IP6;
}

static void print_row(const struct ipc_sock_row *r)
{
	const struct holder *h = holder_of(r->file);
	char local[ENTRY], remote[ENTRY];

	printf("%-5s %-10s %-6u %-6u %*s %*s %-5s", r->protocol == IPPROTO_UDP ? "udp" : "tcp", state_of(r), r->recv_q,
	       r->send_q, WIDTH, address_of(&r->local, r->families, local), WIDTH,
	       address_of(&r->remote, peers_of(r), remote), wire_of(r));
	for (const char *before = " users:("; h != NULL; before = ",") {
		printf("%s(\"%s\",pid=%u,fd=%u)", before, h->name, h->pid, h->fd);
		h = h + 1 < holders + n_holders && h[1].file == r->file ? h + 1 : NULL;
		if (h == NULL)
			putchar(')');
	}
	putchar('\n');
}

/* ---- rnicd ---- */

/* Gets the next rows. False: a sentence was printed. */
static bool ask(int sock, uint32_t from, struct ipc_msg *m)
{
	unsigned none = 0;

	*m = (struct ipc_msg){ .type = IPC_SOCK_LIST, .len = IPC_MSG_LEN(sock_list), .sock_list.from = from };
	int rc = ipc_send(sock, m, NULL, 0);
	if (rc == 0)
		rc = ipc_recv(sock, m, NULL, &none);
	if (rc == 0 && m->status == 0 && m->len == IPC_MSG_LEN(sock_list_ok) && m->sock_list_ok.n <= IPC_SOCK_ROWS)
		return true;
	m->text[IPC_TEXT_MAX - 1] = '\0';
	fprintf(stderr, "rnicrun: rnicd does not list its sockets: %s\n",
		rc != 0                                  ? strerror(-rc)
		: m->status != 0 && m->len > IPC_MSG_HDR ? m->text
							 : "its answer is malformed");
	return false;
}

int ss_print(const char *socket_path, char *const *pids)
{
	const bool all = *pids == NULL;
	struct ipc_msg m;

	if (all ? !look_at_all() : !look_at_these(pids))
		return 1;
	qsort(holders, n_holders, sizeof(*holders), by_file);
	const int sock = ipc_dial(socket_path);
	if (sock < 0) {
		fprintf(stderr,
			"rnicrun: no rnicd answers at %s: %s (sockets of --embedded programs: ss -tuanp lists them)\n",
			socket_path, strerror(-sock));
		return 1;
	}
	bool ok = ask(sock, 0, &m);
	if (ok)
		printf("Netid State      Recv-Q Send-Q %*s %*s Wire  Process\n", WIDTH, "Local Address:Port", WIDTH,
		       "Peer Address:Port");
	while (ok) {
		for (uint32_t i = 0; i < m.sock_list_ok.n; i++)
			if (all || holder_of(m.sock_list_ok.row[i].file) != NULL)
				print_row(&m.sock_list_ok.row[i]);
		if (m.sock_list_ok.next == 0)
			break;
		ok = ask(sock, m.sock_list_ok.next, &m);
	}
	close(sock);
	return ok ? 0 : 1;
}
