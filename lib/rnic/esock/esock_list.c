/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests and the memory of a socket. */
#include "rnic/esock/esock.h"

#include <unistd.h>

void es_put(struct es_list *l, struct es_op *op)
{
	op->next = NULL;
	if (l->first == NULL)
		l->first = op;
	else
		l->last->next = op;
	l->last = op;
}

struct es_op *es_take(struct es_list *l)
{
	struct es_op *op = l->first;

	if (op != NULL)
		l->first = op->next;
	return op;
}

bool es_make_ops(struct es *es)
{
	const uint32_t n[ES_KINDS] = {
		[ES_SEND] = es->mode.depth, [ES_RECV] = es->mode.depth, [ES_BYTES] = ES_OUT,
		[ES_PIECE] = ES_PIECES,     [ES_CTRL] = ES_CONTROL,     [ES_SLOT] = es->mode.slots
	};
	uint32_t all = 0;

	for (uint32_t k = 0; k < ES_KINDS; k++)
		all += n[k];
	es->ops = calloc(all, sizeof(*es->ops));
	struct es_op *op = es->ops;
	for (uint32_t k = 0; op != NULL && k < ES_KINDS; k++) {
		for (uint32_t i = 0; i < n[k]; i++, op++) {
			op->kind = (enum es_kind)k;
			es_put(&es->free[k], op);
		}
	}
	return es->ops != NULL;
}

static void share_out(struct es_list *l, uint8_t **at, size_t size, bool head)
{
	for (struct es_op *op = l->first; op != NULL; op = op->next, *at += size) {
		if (head)
			op->head = *at;
		else
			op->buf = *at;
	}
}

int es_make_bytes(struct es *es)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	es->out_size = rn_min_u32(es->esk.peer.size, es->hello.size);
	const size_t size = (size_t)es->mode.slots * es->hello.size + (size_t)ES_OUT * es->out_size +
			    (size_t)(es->mode.depth + ES_PIECES) * ESK_HEAD_LEN;
	void *p = NULL;

	if (posix_memalign(&p, page, (size + page - 1) & ~(page - 1)) != 0)
		return ENOMEM;
	es->mem = p;
	es->mr = ibv_reg_mr(es->id->pd, p, (size + page - 1) & ~(page - 1), IBV_ACCESS_LOCAL_WRITE);
	if (es->mr == NULL)
		return errno;
	uint8_t *at = es->mem;
	share_out(&es->free[ES_SLOT], &at, es->hello.size, false);
	share_out(&es->free[ES_BYTES], &at, es->out_size, false);
	share_out(&es->free[ES_SEND], &at, ESK_HEAD_LEN, true);
	share_out(&es->free[ES_PIECE], &at, ESK_HEAD_LEN, true);
	return 0;
}
