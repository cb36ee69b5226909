/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts, PDs and memory regions of other processes of the same user. A context's cmd_fd is a token: a process that
 * has a descriptor of it (by fork() or over a UNIX socket) may import the context, and also the context's PDs and
 * regions by their handles.
 *
 * The importing process has a session of its own with the daemon; QPs and CQs that it makes are its own. Regions belong
 * to the PD, whichever process has registered them: QPs of all processes that have the PD use the regions by their
 * keys, and a process that has the context imports the regions by their handles. The memory need not be mapped in the
 * importing process, since the daemon moves the bytes. Deallocating or deregistering an imported object only gives it
 * back; the process that made the object destroys it. When that process ends, its regions live on until no other
 * process has their PD.
 */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int rnic_token_make(struct rnic_session *s, uint32_t async)
{
	struct ipc_msg m = { .type = IPC_TOKEN, .len = IPC_MSG_LEN(handle), .handle = { .handle = async } };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && rnic_call(s, &m, IPC_MSG_HDR, fd) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Not every descriptor can be passed to another process, and a failed attempt would end the session. */
static bool may_be_token(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_DGRAM;
}

/* Asks the daemon about an object of the token's context. 0 or an errno. */
static int ask(struct rnic_session *s, struct ipc_msg *m, uint16_t want, int token)
{
	if (fcntl(token, F_GETFD) < 0)
		return EBADF;
	if (!may_be_token(token)) {
		rnic_complain("rnic: descriptor %d is not the cmd_fd of a context: pass on the one in its ibv_context",
			      token);
		return EINVAL;
	}
	m->len = IPC_MSG_LEN(handle);
	return rnic_call(s, m, want, token);
}

static struct ibv_context *import_device(int fd)
{
	struct rnic_session *s = rnic_session_get();
	struct ipc_msg m = { .type = IPC_TOKEN_DEV };
	struct ibv_context *c = NULL;
	uint32_t n;
	int rc = s != NULL ? ask(s, &m, IPC_MSG_LEN(handle), fd) : errno;
	struct rnic_dev **devs = rc == 0 ? rnic_devices(s, &n) : NULL;

	if (devs == NULL) {
		errno = rc != 0 ? rc : errno;
		return NULL;
	}
	if (m.handle.handle < n)
		c = rnic_open(s, devs[m.handle.handle], fd);
	else
		errno = ENODEV;
	free(devs);
	return c;
}

struct ibv_context *ibv_import_device(int fd)
{
	struct stat st;
	bool real = fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && rnic_stock("ibv_import_device") != NULL;

	RNIC_PASS(ibv_import_device, !real, NULL, fd);
	return import_device(fd);
}

struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t handle)
{
	RNIC_BESIDE(ibv_import_pd, c, NULL, c, handle);
	struct ipc_msg m = { .type = IPC_TOKEN_PD, .handle = { .handle = handle } };
	struct rnic_pd *pd = calloc(1, sizeof(*pd));
	int rc;

	if (pd == NULL)
		return NULL;
	rc = ask(rnic_ctx(c)->s, &m, IPC_MSG_LEN(handle), c->cmd_fd);
	if (rc != 0) {
		free(pd);
		errno = rc;
		return NULL;
	}
	pd->s = rnic_ctx(c)->s;
	pd->number = m.handle.handle;
	pd->ibv = (struct ibv_pd){ .context = c, .handle = handle };
	return &pd->ibv;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	RNIC_BESIDE_VOID(ibv_unimport_pd, pd->context, pd);
	ibv_dealloc_pd(pd);
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	RNIC_BESIDE(ibv_import_mr, pd->context, NULL, pd, handle);
	struct ipc_msg m = { .type = IPC_TOKEN_MR, .handle = { .handle = handle } };
	struct rnic_mr *mr = calloc(1, sizeof(*mr));
	int rc;

	if (mr == NULL)
		return NULL;
	rc = ask(rnic_pd(pd)->s, &m, IPC_MSG_LEN(token_mr_ok), pd->context->cmd_fd);
	if (rc != 0) {
		free(mr);
		errno = rc;
		return NULL;
	}
	mr->s = rnic_pd(pd)->s;
	mr->imported = true;
	mr->ibv = (struct ibv_mr){ .context = pd->context,
				   .pd = pd,
				   .length = m.token_mr_ok.len,
				   .handle = handle,
				   .lkey = m.token_mr_ok.stag,
				   .rkey = m.token_mr_ok.stag };
	rnic_pd_use(pd);
	return &mr->ibv;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	RNIC_BESIDE_VOID(ibv_unimport_mr, mr->context, mr);
	ibv_dereg_mr(mr);
}
