/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/ipc_region.h"
#include "wqe/qp_wqe.h"
#include "ring/spsc.h"

#define PATIENCE_MS 30000 /* an event that has not come by then counts as a failure */

/* ---- programs ---- */

void run_start(struct run *r, const char *const argv[])
{
	int p[2];

	memset(r, 0, sizeof(*r));
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0) {
		dup2(p[1], 1);
		dup2(p[1], 2);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(p[1]);
	r->out = p[0];
}

/* False: the program's output has ended. */
static bool read_more(struct run *r)
{
	struct pollfd p = { .fd = r->out, .events = POLLIN };

	if (poll(&p, 1, PATIENCE_MS) != 1) {
		kill(r->pid, SIGKILL);
		fail_msg("nothing more came from the program: %s", r->text);
	}
	if (r->len + 1 >= sizeof(r->text)) /* a full buffer drops the older text */
		r->len = 0;
	ssize_t n = read(r->out, r->text + r->len, sizeof(r->text) - 1 - r->len);
	if (n <= 0)
		return false;
	r->len += (size_t)n;
	r->text[r->len] = '\0';
	return true;
}

bool run_wait_for(struct run *r, const char *text)
{
	while (strstr(r->text, text) == NULL)
		if (!read_more(r))
			return false;
	return true;
}

int run_end(struct run *r)
{
	int st;

	while (read_more(r))
		;
	close(r->out);
	assert_int_equal(waitpid(r->pid, &st, 0), r->pid);
	r->pid = 0;
	return WIFEXITED(st) ? WEXITSTATUS(st) : -WTERMSIG(st);
}

/* ---- a daemon ---- */

void daemon_config(struct daemon *d, const char *rnicd_section)
{
	strcpy(d->dir, "/tmp/rnicd-test-XXXXXX");
	assert_non_null(mkdtemp(d->dir));
	snprintf(d->conf, sizeof(d->conf), "%s/rnicd.conf", d->dir);
	snprintf(d->sock, sizeof(d->sock), "%s/rnicd.sock", d->dir);
	FILE *f = fopen(d->conf, "w");
	assert_non_null(f);
	fprintf(f,
		"[rnicd]\nsocket = %s\n%s\n"
		"[port a]\ndevice = pair:b\naddress = 10.77.0.1/24\n[port b]\ndevice = pair:a\naddress = "
		"10.77.0.2/24\n",
		d->sock, rnicd_section);
	fclose(f);
}

void daemon_start(struct daemon *d, const char *rnicd_section)
{
	daemon_config(d, rnicd_section);
	const char *argv[] = { RNICD_PATH, "--config", d->conf, NULL };
	run_start(&d->run, argv);
	if (!run_wait_for(&d->run, "ready, 2 ports"))
		fail_msg("rnicd did not start: %s", d->run.text);
}

static void clean(const struct daemon *d)
{
	unlink(d->conf);
	rmdir(d->dir);
}

void daemon_stop(struct daemon *d)
{
	kill(d->run.pid, SIGTERM);
	int rc = run_end(&d->run);
	if (rc != 0)
		fail_msg("rnicd ended with %d: %s", rc, d->run.text);
	assert_int_not_equal(access(d->sock, F_OK), 0); /* the daemon has removed its socket */
	clean(d);
}

bool daemon_alive(const struct daemon *d) { return kill(d->run.pid, 0) == 0; }

/* ---- a client ---- */

void fc_dial(struct fc *c, const struct daemon *d)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	memset(c, 0, sizeof(*c));
	strcpy(un.sun_path, d->sock);
	c->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(c->sock >= 0);
	assert_int_equal(connect(c->sock, (struct sockaddr *)&un, sizeof(un)), 0);
	c->wake = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(ipc_region_create(IPC_REGION_QUEUES, FC_QUEUES, &c->fd[0]), 0);
	assert_int_equal(ipc_region_create(IPC_REGION_ARENA, FC_ARENA, &c->fd[1]), 0);
	assert_int_equal(ipc_region_map(c->fd[0], FC_QUEUES, &c->queues), 0);
	assert_int_equal(ipc_region_map(c->fd[1], FC_ARENA, &c->arena), 0);
}

void fc_close(struct fc *c)
{
	munmap(c->queues, FC_QUEUES);
	munmap(c->arena, FC_ARENA);
	close(c->sock);
	close(c->wake);
	close(c->fd[0]);
	close(c->fd[1]);
}

int fc_call(struct fc *c, struct ipc_msg *m, const int *fds, unsigned nfds)
{
	uint16_t type = m->type;
	struct pollfd p = { .fd = c->sock, .events = POLLIN };

	m->seq = ++c->seq;
	if (ipc_send(c->sock, m, fds, nfds) != 0)
		return -1;
	if (poll(&p, 1, PATIENCE_MS) != 1)
		fail_msg("the daemon does not answer request %u", type);
	if (ipc_recv(c->sock, m, NULL, NULL) != 0)
		return -1;
	assert_int_equal(m->type, type);
	assert_int_equal(m->seq, c->seq);
	return m->status;
}

void fc_join(struct fc *c, const struct daemon *d)
{
	fc_dial(c, d);
	struct ipc_msg m = { .type = IPC_HELLO,
			     .len = IPC_MSG_LEN(hello),
			     .hello = { .version = IPC_VERSION, .size = { FC_QUEUES, FC_ARENA, 0 } } };
	int fds[3] = { c->wake, c->fd[0], c->fd[1] };
	if (fc_call(c, &m, fds, 3) != 0)
		fail_msg("HELLO: %s", m.text);
	assert_int_equal(m.hello_ok.version, IPC_VERSION);
	assert_int_equal(m.hello_ok.devs, 2);
}

uint32_t fc_pd(struct fc *c)
{
	struct ipc_msg m;

	assert_int_equal(FC_CALL(c, &m, IPC_ALLOC_PD, alloc_pd, .dev = 0), 0);
	assert_int_equal(m.len, IPC_MSG_LEN(handle));
	return m.handle.handle;
}

uint32_t fc_cq(struct fc *c, uint32_t n, uint32_t chan)
{
	struct ipc_msg m;
	uint64_t at = FC_PLACE(n);

	if (FC_CALL(c, &m, IPC_CREATE_CQ, create_cq, .dev = 0, .channel = chan, .cookie = n, .shm_off = at,
		    .ring_off = at + 4096, .ring_stride = 16384, .cqe = 64) != 0)
		fail_msg("CQ: %s", m.text);
	return m.handle.handle;
}

uint32_t fc_qp(struct fc *c, uint32_t n, uint32_t pd, uint32_t cq, uint32_t *qpn)
{
	struct ipc_msg m;
	uint64_t at = FC_PLACE(n);

	if (FC_CALL(c, &m, IPC_CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq, .cookie = n, .shm_off = at,
		    .sq_off = at + 4096, .rq_off = at + 4096 + 16384, .sq_slots = 64, .rq_slots = 64, .max_send_wr = 16,
		    .max_recv_wr = 16) != 0)
		fail_msg("QP: %s", m.text);
	if (qpn != NULL)
		*qpn = m.create_qp_ok.qpn;
	return m.create_qp_ok.handle;
}

uint32_t fc_chan(struct fc *c, uint32_t n, enum ipc_channel_kind kind, int *efd)
{
	struct ipc_msg m = { .type = IPC_CREATE_CHANNEL,
			     .len = IPC_MSG_LEN(create_channel),
			     .create_channel = { .kind = kind, .ring_off = FC_PLACE(n), .ring_slots = 16 } };

	*efd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (fc_call(c, &m, efd, 1) != 0)
		fail_msg("channel: %s", m.text);
	return m.handle.handle;
}

int fc_mr(struct fc *c, struct ipc_msg *m, uint32_t pd, const struct ipc_piece *p, uint32_t n)
{
	uint64_t at = FC_PLACE(100), len = 0;

	memcpy(c->queues + at, p, n * sizeof(*p));
	for (uint32_t i = 0; i < n; i++)
		len += p[i].len;
	return FC_CALL(c, m, IPC_REG_MR, reg_mr, .pd = pd, .access = 7, .iova = 0x10000, .len = len, .pieces_off = at,
		       .npieces = n);
}

uint32_t fc_id(struct fc *c, uint32_t chan)
{
	struct ipc_msg m;

	if (FC_CALL(c, &m, IPC_CM_CREATE_ID, cm_create_id, .channel = chan) != 0)
		fail_msg("id: %s", m.text);
	return m.handle.handle;
}

void fc_event(struct fc *c, uint32_t n, int efd, struct ipc_cm_event *ev)
{
	struct pollfd p = { .fd = efd, .events = POLLIN };
	struct spsc_place at = { .region = c->queues,
				 .region_size = FC_QUEUES,
				 .off = FC_PLACE(n),
				 .nslots = 16,
				 .slot_size = IPC_EVENT_SLOT_CM };
	struct spsc_cons ring;
	uint64_t one;

	if (poll(&p, 1, PATIENCE_MS) != 1)
		fail_msg("no event came");
	assert_int_equal(read(efd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(spsc_cons_attach(&ring, &at), SPSC_OK);
	assert_true(spsc_cons_avail(&ring, 1) >= 1);
	memcpy(ev, spsc_cons_slot(&ring, 0), sizeof(*ev));
	spsc_cons_release(&ring, 1);
}

struct ipc_addr fc_addr(uint8_t last_byte, uint16_t port)
{
	return (struct ipc_addr){ .ip = { [10] = 0xff, [11] = 0xff, 10, 77, 0, last_byte }, .port = port };
}
