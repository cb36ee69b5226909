/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory registration. Touching the pages may take long, so each turn of the loop touches one portion. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/client.h"
#include "control/dev.h"
#include "ipc/ipc_own.h"
#include "ipc/ipc_region.h"

#define PIECES_MAX  65536u
#define PAGE        UINT64_C(4096)
#define PORTION_MAX (UINT64_C(4) << 20) /* bytes touched in one turn */
#define PORTION_N   256u                /* pieces touched in one turn: each takes a system call */

/* The memory behind null regions (ibv_alloc_null_mr): reads come from zeros, writes go to sink. All workers write into
 * sink at the same time, and nobody reads it. */
static uint8_t zeros[16384], sink[16384];
static const struct qp_piece nothing[2] = { { zeros, sizeof(zeros) }, { sink, sizeof(sink) } };

/* The registration under way of a client. */
struct client_mr_job {
	struct client_pd *pd;
	uint32_t npieces;
	uint32_t at;     /* index of the piece whose pages are being touched */
	uint64_t at_off; /* bytes of this piece that have been touched */
	uint32_t nimports;
	struct client_import **imports; /* an entry for each piece that lies in an import: that import */
	bool counted;                   /* an STag for it is counted in the user's share */
	uint32_t at_import;             /* index of the import of piece `at`, or of the first piece behind it in one */
	bool huge;                      /* its hugepages are counted */
	uint64_t shared;                /* bytes counted in USER_MEMORY, without hugepages */
	struct qp_piece piece[];
};

static void imports_release(struct user *u, struct client_import **imports, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		imports[i]->users--;
	user_free(u, imports);
}

/* ---- pages in which pieces lie ---- */

static bool lies_in(const struct client_region *r, const uint8_t *p)
{
	return r->base != NULL && p >= r->base && p < r->base + r->size;
}

/* Bytes of a page of the memory in which a piece lies. *im: the imports of this piece and of those behind it; moves on
 * if the piece lies in an import. */
static uint64_t page_of(const struct client *c, const struct qp_piece *p, struct client_import *const **im)
{
	if (lies_in(&c->room, p->base))
		return (*(*im)++)->page;
	return lies_in(&c->region[IPC_REGION_HUGE], p->base) ? IPC_HUGE_PAGE : PAGE;
}

static uint64_t piece_len(const struct qp_piece *piece, uint32_t i)
{
	return piece[i].end - (i > 0 ? piece[i - 1].end : 0);
}

/* Bytes of the ordinary pages in which the pieces lie. A page that several regions have counts for each of them. */
static uint64_t page_bytes(const struct client *c, const struct client_mr_job *j)
{
	struct client_import *const *im = j->imports;
	uint64_t sum = 0;
	uintptr_t before = 0; /* page in which the piece before ends */

	for (uint32_t i = 0; i < j->npieces; i++) {
		const uint64_t page = page_of(c, &j->piece[i], &im);
		const uintptr_t at = (uintptr_t)j->piece[i].base, first = at & ~(page - 1),
				last = (at + piece_len(j->piece, i) - 1) & ~(page - 1);
		if (page < IPC_HUGE_PAGE)
			sum += last - first + (first != before ? page : 0);
		before = last;
	}
	return sum;
}

/* The place in client.huge of a page: IPC_REGION_HUGE has one for each page, the room one for each 2 MiB. */
static uint32_t *huge_users(const struct client *c, uintptr_t page)
{
	const struct client_region *h = &c->region[IPC_REGION_HUGE];

	if (lies_in(h, (const uint8_t *)page))
		return &c->huge[(page - (uintptr_t)h->base) / IPC_HUGE_PAGE];
	return &c->huge[IPC_HUGE_SIZE / IPC_HUGE_PAGE + page / IPC_HUGE_PAGE - (uintptr_t)c->room.base / IPC_HUGE_PAGE];
}

/* Counts the pieces in (by: 1) or out (-1) of the hugepages in which they lie. Returns the bytes of the pages that had,
 * or have, no other piece: so a hugepage counts once, as small regions may have one together. */
static uint64_t huge_count(const struct client *c, const struct qp_piece *piece, uint32_t n,
			   struct client_import *const *im, int by)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n && c->huge != NULL; i++) {
		const uint64_t page = page_of(c, &piece[i], &im);
		const uintptr_t end = (uintptr_t)piece[i].base + piece_len(piece, i);
		for (uintptr_t at = (uintptr_t)piece[i].base & ~(page - 1); page >= IPC_HUGE_PAGE && at < end;
		     at += page) {
			uint32_t *users = huge_users(c, at);
			sum += *users == (by > 0 ? 0 : 1) ? page : 0;
			*users += (uint32_t)by;
		}
	}
	return sum;
}

/* False: no memory to count hugepages. */
static bool huge_begin(struct client *c, const struct client_mr_job *j)
{
	const size_t n = (IPC_HUGE_SIZE + IPC_IMPORT_ROOM) / IPC_HUGE_PAGE + 1; /* the room need not be aligned */
	struct client_import *const *im = j->imports;

	for (uint32_t i = 0; i < j->npieces && c->huge == NULL; i++) {
		if (page_of(c, &j->piece[i], &im) < IPC_HUGE_PAGE)
			continue;
		c->huge = user_alloc(c->user, n * sizeof(*c->huge));
		return c->huge != NULL;
	}
	return true;
}

static void job_free(struct client *c, struct client_mr_job *j)
{
	if (j->huge)
		user_give(c->user, USER_MEMORY, 0, huge_count(c, j->piece, j->npieces, j->imports, -1));
	imports_release(c->user, j->imports, j->nimports);
	user_give(c->user, USER_MEMORY, 0, j->shared);
	user_free(c->user, j);
}

static void job_end(struct client *c)
{
	if (c->job->counted)
		user_give(c->user, USER_STAGS, c->job->pd->dev, 1);
	client_pd_unuse(c->job->pd);
	job_free(c, c->job);
	c->job = NULL;
	client_unhold(c);
}

static void client_mr_refuse(struct client *c, int err, const char *sentence)
{
	job_end(c);
	if (c->state != CLIENT_DYING)
		client_error(c, err, "%s", sentence);
}

/* ---- the end of a registration ---- */

static uint64_t name_of(uint32_t dev, uint32_t index) { return (uint64_t)(dev + 1) << 32 | index; }

struct client_mr *client_mr_of(uint32_t dev, uint32_t index)
{
	struct owner *o = owner_get(OWNER_MR, name_of(dev, index));

	return o != NULL ? rn_container_of(o, struct client_mr, owner) : NULL;
}

void client_mr_void(struct client_mr *mr)
{
	owner_del(&mr->owner);
	if (mr->stag != 0)
		qp_mr_dereg(dev_get(mr->pd->dev), mr->stag);
	mr->stag = 0;
}

void client_mr_free(struct client *c, struct client_mr *mr)
{
	if (mr->counted)
		user_give(c->user, USER_STAGS, mr->pd->dev, 1);
	c->memory -= mr->len;
	c->pieces -= mr->npieces;
	user_give(c->user, USER_MEMORY, 0,
		  huge_count(c, mr->pieces != NULL ? mr->pieces : &mr->one, mr->npieces, mr->imports, -1));
	client_pd_unuse(mr->pd);
	rn_list_remove(&mr->pd->mrs, &mr->in_pd);
	table_del(&c->mr, mr->handle);
	imports_release(c->user, mr->imports, mr->nimports);
	user_give(c->user, USER_MEMORY, 0, mr->shared);
	user_free(c->user, mr->pieces);
	user_free(c->user, mr);
}

struct mr_end {
	struct cmd cmd;
	struct client *c;
	struct client_mr *mr;
	struct ipc_reg_mr_ok by; /* the answer with the region that replaces mr; handle 0: none does */
};

static void mr_ended(struct cmd *cmd)
{
	struct mr_end *e = rn_container_of(cmd, struct mr_end, cmd);
	struct client *c = e->c;

	struct ipc_msg m = { .reg_mr_ok = e->by };

	client_mr_free(c, e->mr);
	free(e);
	if (!client_back(c))
		return;
	if (m.reg_mr_ok.handle != 0)
		client_answer(c, &m, IPC_MSG_LEN(reg_mr_ok));
	else
		client_ok(c);
}

/* Frees a region to which no new access can begin. When every worker has answered CMD_NOTHING, no worker is copying
 * from or to the region any more. */
static void mr_end(struct mr_end *e, struct client *c, struct client_mr *mr)
{
	*e = (struct mr_end){ .c = c, .mr = mr, .by = e->by, .cmd = { .type = CMD_NOTHING, .done = mr_ended } };
	client_hold(c);
	cmd_send_all(&e->cmd);
}

/* ---- registration ---- */

/* All pages have been touched: enters the region into the STag table, and answers the client. */
static void register_now(struct client *c)
{
	const struct ipc_reg_mr *r = &c->req.reg_mr;
	struct client_mr_job *j = c->job;
	struct client_mr *old = table_get(&c->mr, r->mr), *mr = user_alloc(c->user, sizeof(*mr));
	struct mr_end *e = old != NULL ? calloc(1, sizeof(*e)) : NULL;
	struct qp_piece *keep = NULL;
	uint32_t stag = old != NULL ? old->stag : 0;

	if (mr != NULL && j->npieces > 1) {
		keep = user_alloc(c->user, j->npieces * sizeof(*keep));
		if (keep != NULL)
			memcpy(keep, j->piece, j->npieces * sizeof(*keep));
	}
	if (mr != NULL && (j->npieces <= 1 || keep != NULL) && (old == NULL || e != NULL))
		mr->handle = client_table_add(c, &c->mr, mr);
	if (mr == NULL || mr->handle == 0) {
		user_free(c->user, mr);
		user_free(c->user, keep);
		free(e);
		client_mr_refuse(c, ENOMEM, "no memory to register another region");
		return;
	}
	struct qp_mr_attr a = { .pd = j->pd->id,
				.rights = r->access,
				.iova = r->iova,
				.len = r->len,
				.pieces = keep != NULL ? keep : j->piece,
				.npieces = j->npieces };
	if (j->npieces == 0)
		a = QP_NULL_MR(j->pd->id, nothing);
	enum qp_mr_verdict v = old != NULL ? qp_mr_change(dev_get(j->pd->dev), stag, &a)
					   : qp_mr_reg(dev_stirred(j->pd->dev), &a, &stag);
	if (v != QP_MR_OK) {
		table_del(&c->mr, mr->handle);
		user_free(c->user, mr);
		user_free(c->user, keep);
		free(e);
		client_mr_refuse(
			c, v == QP_MR_FULL ? ENOMEM : EINVAL,
			v == QP_MR_FULL
				? "the device's table of memory regions is full"
				: "the address range or the access flags of the memory region are not possible");
		return;
	}
	mr->counted = j->counted || (old != NULL && old->counted);
	j->counted = false;
	if (old != NULL) {
		old->counted = false; /* the new region has the same STag, and counts it now */
		owner_del(&old->owner);
	}
	owner_put(&mr->owner, OWNER_MR, name_of(j->pd->dev, stag >> 8));
	mr->pd = j->pd;
	mr->stag = stag;
	mr->len = r->len;
	mr->pieces = keep;
	if (j->npieces > 0)
		mr->one = j->piece[0];
	client_pd_use(j->pd);
	rn_list_push_back(&j->pd->mrs, &mr->in_pd);
	mr->npieces = j->npieces;
	mr->imports = j->imports;
	mr->nimports = j->nimports;
	mr->shared = j->shared;
	j->imports = NULL;
	j->nimports = 0;
	j->shared = 0;
	j->huge = false;
	c->memory += r->len;
	c->pieces += j->npieces;
	struct ipc_msg m = { .reg_mr_ok = { .handle = mr->handle, .stag = stag } };
	job_end(c);
	if (e != NULL) {
		e->by = m.reg_mr_ok;
		mr_end(e, c, old);
	} else {
		client_answer(c, &m, IPC_MSG_LEN(reg_mr_ok));
	}
}

static void client_mr_go_on(struct loop_timer *t)
{
	struct client *c = rn_container_of(t, struct client, timer);
	struct client_mr_job *j = c->job;
	uint64_t left = PORTION_MAX;
	const uint32_t upto = rn_min_u32(j->npieces, j->at + PORTION_N);

	if (c->state == CLIENT_DYING) {
		client_mr_refuse(c, 0, "");
		return;
	}
	while (j->at < upto && left > 0) {
		struct client_import *const *im = &j->imports[j->at_import];
		const uint64_t page = page_of(c, &j->piece[j->at], &im);
		const uint64_t len = piece_len(j->piece, j->at), n = rn_min_u64(left, len - j->at_off);
		int rc = ipc_region_prefault(j->piece[j->at].base + j->at_off, n);
		if (rc != 0) {
			client_mr_refuse(
				c, ENOMEM,
				"no memory for the pages of the region: the system has not enough, or not enough "
				"hugepages");
			return;
		}
		left -= rn_min_u64(left, rn_max_u64(n, page)); /* the system clears whole pages */
		j->at_off += n;
		if (j->at_off == len) {
			j->at++;
			j->at_import = (uint32_t)(im - j->imports);
			j->at_off = 0;
		}
	}
	if (j->at < j->npieces)
		loop_timer_arm(t, 0); /* continue in the next turn, after other work of the loop */
	else
		register_now(c);
}

/* A registration in an imported PD waits until every worker knows that the lender shares memory (client_pd_shares):
 * connections of other clients may have bytes of the region to send as soon as it has an STag. */
struct share {
	struct cmd cmd;
	struct client *c;
};

static void shared(struct cmd *cmd)
{
	struct share *s = rn_container_of(cmd, struct share, cmd);
	struct client *c = s->c;

	free(s);
	client_mr_go_on(&c->timer);
}

/* Of the refusals below, the one that is not the client's fault. */
static const char no_memory[] = "no memory";

/* Counts a piece that lies in an import. NULL, or why the piece cannot lie there. */
static const char *import_add(const struct client *c, struct client_import *i, struct client_mr_job *j)
{
	if (!i->writable &&
	    (c->req.reg_mr.access & (QP_ACC_LOCAL_WRITE | QP_ACC_REMOTE_WRITE | QP_ACC_REMOTE_ATOMIC)) != 0)
		return "a piece lies in memory that may only be read";
	if (j->imports == NULL)
		j->imports = user_alloc(c->user, c->req.reg_mr.npieces * sizeof(struct client_import *));
	if (j->imports == NULL)
		return no_memory;
	i->users++;
	j->imports[j->nimports++] = i;
	return NULL;
}

/* Counts the region in its user's share, before its pages are touched. NULL, or why the user may not have it. */
static const char *client_mr_count(struct client *c, struct client_mr_job *j, bool new_stag)
{
	const uint64_t bytes = page_bytes(c, j);

	if (!huge_begin(c, j))
		return no_memory;
	const uint64_t huge = huge_count(c, j->piece, j->npieces, j->imports, 1);
	if (!user_take(c->user, USER_MEMORY, 0, bytes + huge)) {
		(void)huge_count(c, j->piece, j->npieces, j->imports, -1);
		return "its user shares as much memory with rnicd as a user may (client-memory, user-share)";
	}
	j->shared = bytes;
	j->huge = true;
	if (new_stag && !user_take(c->user, USER_STAGS, j->pd->dev, 1))
		return "its user has as many memory regions and windows of the device as a user may (regions, user-share)";
	j->counted = new_stag;
	return NULL;
}

/* Copies the list of pieces out of the client's memory, and turns each piece into a pointer. NULL, or what is wrong
 * with the list. */
static const char *take_pieces(const struct client *c, const struct ipc_reg_mr *r, struct client_mr_job *j)
{
	const struct client_region *q = &c->region[IPC_REGION_QUEUES];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < r->npieces; i++) {
		struct ipc_piece p;
		memcpy(&p, q->base + r->pieces_off + i * sizeof(p), sizeof(p));
		if (p.region == IPC_REGION_OWN && c->pid == getpid() && p.len > 0 && p.len <= r->len - sum) {
			sum += p.len;
			j->piece[i] = (struct qp_piece){ .base = (uint8_t *)(uintptr_t)p.off, .end = sum };
			continue;
		}
		struct client_import *im = client_import_get(c, p.region);
		if (im == NULL && p.region != IPC_REGION_ARENA && p.region != IPC_REGION_HUGE)
			return "a piece lies in a region that cannot hold registered memory";
		uint8_t *base = im != NULL ? im->base : c->region[p.region].base;
		if (base == NULL || p.len == 0 ||
		    !rn_in_range(p.off, p.len, im != NULL ? im->len : c->region[p.region].size))
			return "a piece does not lie inside its region";
		if (p.len > r->len - sum)
			return "the pieces are longer than the region";
		sum += p.len;
		j->piece[i] = (struct qp_piece){ .base = base + p.off, .end = sum };
		const char *no = im != NULL ? import_add(c, im, j) : NULL;
		if (no != NULL)
			return no;
	}
	return sum == r->len ? NULL : "the pieces are shorter than the region";
}

static const char *mr_refusal(const struct client *c, const struct ipc_reg_mr *r)
{
	const struct client_pd *pd = client_pd_get(c, r->pd);
	const struct client_mr *old = table_get(&c->mr, r->mr);

	if (pd == NULL)
		return "there is no such protection domain";
	if (r->mr != 0 && (old == NULL || old->pd->dev != pd->dev))
		return "there is no such region to replace";
	if (r->len == 0 && r->npieces == 0 && r->access == QP_ACC_LOCAL_WRITE)
		return NULL; /* a null region */
	if (r->len == 0 || r->len > DEV_MAX_MR_SIZE || r->npieces == 0 || r->npieces > PIECES_MAX)
		return "the length or the number of pieces is not possible";
	if ((r->access & ~(uint32_t)QP_ACC_ALL) != 0)
		return "there are unknown access flags";
	if (!rn_in_range(r->pieces_off, (uint64_t)r->npieces * sizeof(struct ipc_piece),
			 c->region[IPC_REGION_QUEUES].size))
		return "the list of pieces does not lie in the queue region";
	return NULL;
}

void client_reg_mr(struct client *c)
{
	const struct ipc_reg_mr *r = &c->req.reg_mr;
	const char *no = mr_refusal(c, r);

	if (no != NULL) {
		client_error(c, EINVAL, "memory region: %s", no);
		return;
	}
	if (c->mr.live + c->mw.live >= rnicd.cfg.quota_mrs || r->len > rnicd.cfg.quota_memory - c->memory) {
		client_over_quota(c, "quota: a client may register %u regions and %llu MiB (quota-mrs, quota-memory)",
				  rnicd.cfg.quota_mrs, (unsigned long long)(rnicd.cfg.quota_memory >> 20));
		return;
	}
	/* The limit allows a client to use its whole memory quota in pieces of 4 KiB. It keeps lists of smaller pieces
	 * from using up rnicd's memory. */
	if (r->npieces > 1 && c->pieces + r->npieces > rnicd.cfg.quota_memory / 4096 + 2 * rnicd.cfg.quota_mrs) {
		client_over_quota(
			c, "quota: the memory regions of this client are in too many small pieces (quota-memory)");
		return;
	}
	struct client_mr_job *j = user_alloc(c->user, sizeof(*j) + r->npieces * sizeof(j->piece[0]));
	if (j == NULL) {
		client_error(c, ENOMEM, "no memory to register another region");
		return;
	}
	no = take_pieces(c, r, j);
	if (no != NULL) {
		job_free(c, j);
		client_error(c, no == no_memory ? ENOMEM : EINVAL, "memory region: %s", no);
		return;
	}
	j->pd = client_pd_get(c, r->pd);
	j->npieces = r->npieces;
	no = client_mr_count(c, j, r->mr == 0);
	if (no != NULL) {
		job_free(c, j);
		client_error(c, ENOMEM, "memory region: %s", no);
		return;
	}
	client_pd_use(j->pd);
	c->job = j;
	client_hold(c);
	c->timer.due = client_mr_go_on;
	struct share *s = j->pd->borrowed ? calloc(1, sizeof(*s)) : NULL;
	if (!j->pd->borrowed) {
		client_mr_go_on(&c->timer);
	} else if (s == NULL) {
		client_mr_refuse(c, ENOMEM, "no memory to register another region");
	} else {
		client_pd_shares(j->pd);
		*s = (struct share){ .c = c, .cmd = { .type = CMD_NOTHING, .done = shared } };
		cmd_send_all(&s->cmd);
	}
}

void client_dereg_mr(struct client *c)
{
	struct client_mr *mr = table_get(&c->mr, c->req.handle.handle);

	if (mr == NULL) {
		client_error(c, EINVAL, "there is no memory region %u", c->req.handle.handle);
		return;
	}
	struct mr_end *e = calloc(1, sizeof(*e));
	if (e == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	client_mr_void(mr);
	mr_end(e, c, mr);
}
