/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_cm with several threads: one reads events while another destroys ids and queue pairs. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "cm_rig.h"
#include "rnic/cm/cm.h"

#define TRIES 5000u /* ms */

static void *destroy_it(void *arg)
{
	rdma_destroy_id(arg);
	return NULL;
}

static bool known(struct rnic_session *s, uint32_t handle)
{
	pthread_mutex_lock(&s->ids_lock);
	const bool is = cm_id_find(s, handle) != NULL;
	pthread_mutex_unlock(&s->ids_lock);
	return is;
}

/* A thread begins to destroy the id. Then librnic has forgotten the id, and the paused daemon knows it still. */
static void destroy_begin(pthread_t *t, struct rdma_cm_id *id)
{
	struct rnic_session *s = cm_id(id)->s;
	const uint32_t handle = cm_id(id)->handle;

	fake_pause(fake, true);
	pthread_create(t, NULL, destroy_it, id);
	for (unsigned i = 0; i < TRIES && known(s, handle); i++)
		usleep(1000);
	assert_false(known(s, handle));
}

static void destroy_end(pthread_t t)
{
	fake_pause(fake, false);
	pthread_join(t, NULL);
}

static struct rdma_cm_id *listener_new(struct rdma_event_channel *c)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *l;

	assert_int_equal(rdma_create_id(c, &l, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(l, (struct sockaddr *)&any), 0);
	assert_int_equal(rdma_listen(l, 5), 0);
	return l;
}

static void *read_one(void *arg)
{
	struct rdma_cm_event *ev = NULL;

	(void)arg;
	return rdma_get_cm_event(ch, &ev) == 0 ? ev : NULL;
}

/* Nobody else knows the new id of such a request: it is destroyed at the daemon, which then answers the peer. */
static void a_request_is_read_while_its_listener_ends(void **state)
{
	struct rdma_cm_id *l = listener_new(ch), *other;
	pthread_t reader, destroyer;
	void *ev;

	(void)state;
	rdma_create_id(ch, &other, NULL, RDMA_PS_TCP);
	pthread_create(&reader, NULL, read_one, NULL);
	destroy_begin(&destroyer, l);
	raise_request(l, 44);
	for (unsigned i = 0; i < TRIES && readable(ch); i++)
		usleep(1000);
	assert_false(readable(ch));
	usleep(20000);
	destroy_end(destroyer);
	for (unsigned i = 0; i < TRIES && client()->id[44].used; i++)
		usleep(1000);
	assert_false(client()->id[44].used);
	raise_event(RDMA_CM_EVENT_ROUTE_ERROR, other, -ETIMEDOUT);
	pthread_join(reader, &ev);
	assert_non_null(ev);
	assert_ptr_equal(((struct rdma_cm_event *)ev)->id, other);
	rdma_ack_cm_event(ev);
	assert_no_event();
	rdma_destroy_id(other);
}

static struct rdma_cm_id *with_qp(void)
{
	struct ibv_qp_init_attr qa = { .cap = { 10, 10, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct sockaddr_in dst = addr(1, 5000);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 2000), 0);
	raise_event(RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_RESOLVED));
	assert_int_equal(rdma_create_qp(id, NULL, &qa), 0);
	return id;
}

static void event_of(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	raise_event(type, id, 0);
	rdma_ack_cm_event(next(type));
}

/*
 * ibv_destroy_qp() knows no ids, so id->qp still points to the memory, which may hold anything by then, another queue
 * pair included.
 */
static void events_leave_the_memory_of_a_destroyed_queue_pair_alone(void **state)
{
	struct rdma_cm_id *id = with_qp(), *other = with_qp();
	struct ibv_qp *qp = id->qp, anything = { .state = IBV_QPS_SQD };

	(void)state;
	event_of(id, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(qp->state, IBV_QPS_RTS);
	event_of(id, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	id->qp = &anything;
	event_of(id, RDMA_CM_EVENT_ESTABLISHED);
	event_of(id, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(anything.state, IBV_QPS_SQD);
	id->qp = other->qp;
	event_of(id, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(other->qp->state, IBV_QPS_INIT);
	id->qp = NULL;
	/* rdma_destroy_qp() would have destroyed these */
	assert_int_equal(ibv_destroy_cq(id->send_cq) | ibv_destroy_cq(id->recv_cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(id->send_cq_channel), 0);
	assert_int_equal(ibv_destroy_comp_channel(id->recv_cq_channel), 0);
	rdma_destroy_qp(other);
	assert_int_equal(rdma_destroy_id(other), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* The daemon gives the handle to a request on another channel, before librnic has dropped the id's events. */
static void events_of_a_dead_id_are_not_those_of_an_id_on_another_channel(void **state)
{
	struct rdma_event_channel *ch2 = rdma_create_event_channel();
	struct rdma_cm_id *id = with_qp(), *l = listener_new(ch2);
	const uint32_t handle = cm_id(id)->handle;
	const struct ipc_cm_event lost = { .type = RDMA_CM_EVENT_DISCONNECTED, .id = handle };
	struct rdma_cm_event *ev;
	pthread_t destroyer;

	(void)state;
	rdma_destroy_qp(id);
	raise_event(RDMA_CM_EVENT_DISCONNECTED, id, 0);
	destroy_begin(&destroyer, id);
	raise_request(l, handle);
	assert_int_equal(rdma_get_cm_event(ch2, &ev), 0);
	struct rdma_cm_id *child = ev->id;
	assert_int_equal(cm_id(child)->handle, handle);
	rdma_ack_cm_event(ev);
	assert_no_event();
	fake_event(client(), cm_channel(ch)->q.handle, &lost, sizeof(lost));
	destroy_end(destroyer);
	assert_false(readable(ch));
	client()->id[handle].used = true;
	rdma_destroy_id(child);
	rdma_destroy_id(l);
	rdma_destroy_event_channel(ch2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_read_while_its_listener_ends),
		cmocka_unit_test(events_leave_the_memory_of_a_destroyed_queue_pair_alone),
		cmocka_unit_test(events_of_a_dead_id_are_not_those_of_an_id_on_another_channel),
	};

	return cmocka_run_group_tests(tests, cm_setup, cm_teardown);
}
