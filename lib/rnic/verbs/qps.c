/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of the process's queue pairs, with lookups by number and by handle. */
#include "rnic/verbs/objects.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rn_list list; /* struct rnic_qp, all of the process */

void rnic_qps_fork_prepare(void) { pthread_mutex_lock(&list_lock); }

void rnic_qps_fork_parent(void) { pthread_mutex_unlock(&list_lock); }

void rnic_qps_fork_child(void) { pthread_mutex_init(&list_lock, NULL); }

void rnic_qp_list(struct rnic_qp *qp)
{
	pthread_mutex_lock(&list_lock);
	rn_list_push_front(&list, &qp->link);
	pthread_mutex_unlock(&list_lock);
}

void rnic_qp_unlist(struct rnic_qp *qp)
{
	pthread_mutex_lock(&list_lock);
	rn_list_remove(&list, &qp->link);
	pthread_mutex_unlock(&list_lock);
}

struct ibv_qp *rnic_qp_find(uint32_t qpn)
{
	struct rnic_qp *found = NULL;

	pthread_mutex_lock(&list_lock);
	rn_list_each(struct rnic_qp, qp, &list, link) {
		if (qp->ex.qp_base.qp_num == qpn && found == NULL) /* an older one may be of a dead session */
			found = qp;
	}
	pthread_mutex_unlock(&list_lock);
	return found != NULL ? &found->ex.qp_base : NULL;
}

void rnic_qp_each(void (*fn)(struct rnic_qp *qp, void *arg), void *arg)
{
	pthread_mutex_lock(&list_lock);
	rn_list_each(struct rnic_qp, qp, &list, link)
		fn(qp, arg);
	pthread_mutex_unlock(&list_lock);
}

void rnic_qp_side(struct ibv_qp *qp, enum inject_side side)
{
	if (qp != NULL)
		rnic_qp(qp)->side = side;
}

void rnic_qp_state(const struct ibv_qp *ibqp, uint32_t qpn, enum ibv_qp_state state)
{
	pthread_mutex_lock(&list_lock);
	rn_list_each(struct rnic_qp, qp, &list, link) {
		if (&qp->ex.qp_base != ibqp)
			continue;
		if (qpn == 0 || qp->ex.qp_base.qp_num == qpn)
			qp->ex.qp_base.state = state;
		break;
	}
	pthread_mutex_unlock(&list_lock);
}

void rnic_qp_timeout(const struct rnic_session *s, uint32_t handle, uint8_t timeout)
{
	pthread_mutex_lock(&list_lock);
	rn_list_each(struct rnic_qp, qp, &list, link) {
		if (qp->s == s && qp->ex.qp_base.handle == handle)
			qp->attr.timeout = timeout;
	}
	pthread_mutex_unlock(&list_lock);
}
