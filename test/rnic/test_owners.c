/* SPDX-License-Identifier: BSD-3-Clause */
/* What objects belong to: a parent domain, the session whose daemon knows them; and a session that is not finished. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "fake.h"
#include "rnic/cm/cm.h"
#include "rnic/verbs/objects.h"

#define PAGE 4096u

static struct fake *fake;

/* ---- a session whose last step fails ---- */

int __real_rnic_watch_start(struct rnic_session *s);
int __wrap_rnic_watch_start(struct rnic_session *s);

static bool no_thread;

int __wrap_rnic_watch_start(struct rnic_session *s) { return no_thread ? EAGAIN : __real_rnic_watch_start(s); }

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void a_session_that_cannot_be_finished_leaves_no_descriptor_open(void **state)
{
	(void)state;
	setenv("RNIC_REG_VERBOSE", "0", 1);
	fake = fake_start();
	no_thread = true;
	assert_null(ibv_get_device_list(NULL));
	fake_stop(fake); /* has descriptors in this process, too */
	const unsigned before = descriptors();
	fake = fake_start();
	assert_null(ibv_get_device_list(NULL));
	fake_stop(fake);
	no_thread = false;
	assert_int_equal(descriptors(), before);
}

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list != NULL ? ibv_open_device(list[0]) : NULL;

	assert_non_null(c);
	ibv_free_device_list(list);
	return c;
}

/* ---- a parent domain ---- */

static void a_parent_domain_stays_while_objects_are_in_it(void **state)
{
	(void)state;
	fake = fake_start();
	struct ibv_context *c = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_parent_domain_init_attr pa = { .pd = pd };
	struct ibv_pd *parent = ibv_alloc_parent_domain(c, &pa), *other = ibv_alloc_parent_domain(c, &pa);
	struct ibv_cq *cq = ibv_create_cq(c, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr qa = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	struct ibv_qp *qp = ibv_create_qp(parent, &qa);
	assert_non_null(qp);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	struct ibv_srq *srq = ibv_create_srq(parent, &sa);
	assert_non_null(srq);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	struct ibv_mr *mr = ibv_reg_mr(parent, p, PAGE, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	/* The region moves to another domain, and this one is free. */
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(c), 0);
	munmap(p, PAGE);
	fake_stop(fake);
}

/* ---- sessions ---- */

/* The numbers of the earlier session's channels mean nothing to the daemon, or other channels. */
static void channels_of_an_earlier_session_are_refused(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	fake = fake_start();
	struct ibv_context *before = open_first();
	struct ibv_comp_channel *comp = ibv_create_comp_channel(before);
	struct rdma_event_channel *cm = rdma_create_event_channel();
	assert_non_null(comp);
	assert_non_null(cm);
	fake_stop(fake);
	fake = fake_start();
	struct ibv_context *now = open_first();
	struct rdma_event_channel *own = rdma_create_event_channel();
	assert_ptr_not_equal(rnic_ctx(now)->s, rnic_ctx(before)->s);
	errno = 0;
	assert_null(ibv_create_cq(now, 10, NULL, comp, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_id(own, &id, NULL, RDMA_PS_TCP), 0);
	errno = 0;
	assert_int_equal(rdma_migrate_id(id, cm), -1);
	assert_int_equal(errno, EINVAL);
	assert_ptr_equal(id->channel, own);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(own);
	rdma_destroy_event_channel(cm);
	ibv_destroy_comp_channel(comp);
	ibv_close_device(now);
	ibv_close_device(before);
	fake_stop(fake);
}

/* The child shares the channel's eventfd with the parent, whose tokens it must neither take nor add. */
static void a_child_leaves_the_events_of_its_parent_alone(void **state)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	uint64_t tokens = 0;
	int st;

	(void)state;
	fake = fake_start();
	struct rdma_event_channel *ch = rdma_create_event_channel();
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201) };
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
	const struct ipc_cm_event resolved = { .type = RDMA_CM_EVENT_ADDR_RESOLVED, .id = cm_id(id)->handle };
	fake_cm(fake_client(fake, 0), &resolved);
	assert_int_equal(rdma_get_cm_event(ch, &ev), 0); /* the id has a device from now on */
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	fake_cm(fake_client(fake, 0), &resolved);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(20);
		_exit(rdma_get_cm_event(ch, &ev) == -1 && errno == ENODEV ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	/* the one event's token */
	assert_int_equal(read(ch->fd, &tokens, sizeof(tokens)), sizeof(tokens));
	assert_int_equal(tokens, 1);
	fcntl(ch->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(read(ch->fd, &tokens, sizeof(tokens)), -1);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
	fake_stop(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_that_cannot_be_finished_leaves_no_descriptor_open),
		cmocka_unit_test(a_parent_domain_stays_while_objects_are_in_it),
		cmocka_unit_test(channels_of_an_earlier_session_are_refused),
		cmocka_unit_test(a_child_leaves_the_events_of_its_parent_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
