/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that presents itself as an Elastic Fabric Adapter: numbers of address handles, senders' addresses, files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dev_rig.h"
#include "rnic/verbs/objects.h"

char *__realpath_chk(const char *path, char *resolved, size_t size);

static struct ibv_cq *cq;

static void address(uint8_t a[16], uint32_t n)
{
	memset(a, 0, 16);
	memcpy(a + 12, &n, sizeof(n));
}

static int setup(void **state)
{
	fake_efa = true;
	if (dev_setup(state) != 0)
		return 1;
	cq = ibv_create_cq(ctx, 8, NULL, NULL, 0);
	return cq == NULL;
}

static int teardown(void **state)
{
	assert_int_equal(ibv_destroy_cq(cq), 0);
	return dev_teardown(state);
}

static void there_are_as_many_numbers_as_16_bits_have(void **state)
{
	struct rnic_ahns *a = rnic_ahns_new();
	uint8_t *seen = calloc(1, RNIC_AHN_MAX + 1), addr[16];

	(void)state;
	assert_non_null(a);
	for (uint32_t i = 0; i < RNIC_AHN_MAX; i++) {
		address(addr, i);
		assert_int_equal(rnic_ahn_find(a, addr), RNIC_AHN_NONE);
		const uint16_t n = rnic_ahn_take(a, addr);
		assert_true(n < RNIC_AHN_MAX && seen[n] == 0);
		seen[n] = 1;
	}
	address(addr, RNIC_AHN_MAX);
	assert_int_equal(rnic_ahn_take(a, addr), RNIC_AHN_NONE);
	address(addr, 77);
	const uint16_t n = rnic_ahn_find(a, addr);
	assert_true(n < RNIC_AHN_MAX);
	/* a second reference, so that the number stays when one reference is gone */
	assert_int_equal(rnic_ahn_take(a, addr), n);
	rnic_ahn_give(a, n);
	assert_int_equal(rnic_ahn_find(a, addr), n);
	rnic_ahn_give(a, n);
	assert_int_equal(rnic_ahn_find(a, addr), RNIC_AHN_NONE);
	address(addr, RNIC_AHN_MAX);
	assert_int_equal(rnic_ahn_take(a, addr), n);
	rnic_ahns_free(a);
	free(seen);
}

static struct ibv_ah *handle_for(uint32_t n)
{
	struct ibv_ah_attr a = { .port_num = 1, .is_global = 1 };

	address(a.grh.dgid.raw, n);
	return ibv_create_ah(pd, &a);
}

/*
 * Completions that are not polled keep their sender's address while the CQ is resized and while other entries are
 * removed.
 */
static void an_entry_keeps_its_address(void **state)
{
	struct ibv_ah *ah[4];
	struct ibv_qp_init_attr i = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp *qp = ibv_create_qp(pd, &i);
	struct efadv_ah_attr attr;
	struct ibv_wc wc[4];
	uint8_t from[16];

	(void)state;
	assert_non_null(qp);
	for (uint32_t n = 0; n < 4; n++) {
		const struct qp_cqe e = { .wr_id = n, .op = QP_WC_RECV, .qpn = n == 1 ? qp->qp_num : 0xabc };
		assert_non_null(ah[n] = handle_for(100 + n));
		address(from, 100 + n);
		fake_cqe_from(client(), cq->handle, 0, &e, from);
	}
	assert_int_equal(ibv_resize_cq(cq, 64), 0);
	assert_int_equal(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0); /* removes the second entry */
	assert_int_equal(ibv_poll_cq(cq, 4, wc), 3);
	for (uint32_t k = 0, n = 0; k < 3; k++, n += n == 0 ? 2 : 1) {
		assert_int_equal(wc[k].wr_id, n);
		assert_int_equal(efadv_query_ah(ah[n], &attr, sizeof(attr)), 0);
		assert_int_equal(wc[k].slid, attr.ahn);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	for (uint32_t n = 0; n < 4; n++)
		assert_int_equal(ibv_destroy_ah(ah[n]), 0);
}

static void what_is_no_receive_has_no_sender(void **state)
{
	const struct qp_cqe read = { .wr_id = 1, .op = QP_WC_RDMA_READ }, recv = { .wr_id = 2, .op = QP_WC_RECV };
	struct ibv_wc wc[2];
	uint8_t from[16];

	(void)state;
	address(from, 9);
	fake_cqe(client(), cq->handle, 0, &read);
	fake_cqe_from(client(), cq->handle, 0, &recv, from);
	assert_int_equal(ibv_poll_cq(cq, 2, wc), 2);
	assert_true(wc[0].opcode == IBV_WC_SEND && wc[0].slid == 0);
	assert_true(wc[1].opcode == IBV_WC_RECV && wc[1].slid == RNIC_AHN_NONE);
}

static void another_device_is_no_such_adapter(void **state)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *other = ibv_open_device(list[1]);
	struct ibv_pd *opd = ibv_alloc_pd(other);
	struct ibv_cq_init_attr_ex c = { .cqe = 4 };
	struct efadv_cq_init_attr ec = { 0 };
	struct efadv_qp_init_attr eq = { 0 };
	struct ibv_qp_init_attr_ex q = { .qp_type = IBV_QPT_DRIVER };
	struct ibv_qp_init_attr plain = { .qp_type = IBV_QPT_DRIVER };
	struct efadv_device_attr dev;
	struct efadv_ah_attr attr;
	struct ibv_ah_attr a = { .port_num = 1, .is_global = 1 };

	(void)state;
	assert_int_equal(n, 2);
	assert_int_equal(list[0]->node_type, IBV_NODE_UNSPECIFIED);
	assert_int_equal(list[1]->node_type, IBV_NODE_RNIC);
	struct ibv_ah *ah = ibv_create_ah(opd, &a);
	assert_non_null(ah);
	assert_int_equal(efadv_query_device(other, &dev, sizeof(dev)), EOPNOTSUPP);
	assert_int_equal(efadv_query_ah(ah, &attr, sizeof(attr)), EOPNOTSUPP);
	errno = 0;
	assert_true(efadv_create_cq(other, &c, &ec, sizeof(ec)) == NULL && errno == EOPNOTSUPP);
	errno = 0;
	assert_true(efadv_create_qp_ex(other, &q, &eq, sizeof(eq)) == NULL && errno == EOPNOTSUPP);
	errno = 0;
	assert_true(efadv_create_driver_qp(opd, &plain, EFADV_QP_DRIVER_TYPE_SRD) == NULL && errno == EOPNOTSUPP);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_dealloc_pd(opd), 0);
	assert_int_equal(ibv_close_device(other), 0);
	ibv_free_device_list(list);
}

/* The files that libfabric reads. */
static void its_path_leads_to_a_driver(void **state)
{
	char path[PATH_MAX], text[8] = { 0 };
	unsigned int domain, bus, device, function;

	(void)state;
	assert_non_null(realpath("/sys/class/infiniband/rnic0/device", path));
	assert_int_equal(sscanf(strrchr(path, '/') + 1, "%x:%x:%x.%x", &domain, &bus, &device, &function), 4);
	char *driver = __realpath_chk("/sys/class/infiniband/rnic0/device/driver", NULL, PATH_MAX);
	assert_non_null(driver);
	assert_string_equal(strrchr(driver, '/'), "/efa");
	free(driver);
	static const char *const no[] = { "/sys/class/infiniband/rnic1/device",
					  "/sys/class/infiniband/rnic/device",
					  "/sys/class/infiniband/rnic00/device/driver",
					  "/sys/class/infiniband/rnic0/device/drivers",
					  "/sys/class/infiniband/rnic0",
					  "/nowhere/at/all" };
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		errno = 0;
		assert_true(realpath(no[i], path) == NULL && errno == ENOENT);
	}
	assert_string_equal(realpath("/proc/../proc/", path), "/proc"); /* read as without librnic */

	const int fd = open("/sys/class/infiniband_verbs/abi_version", O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text) - 1), 2);
	assert_string_equal(text, "6\n");
	assert_int_equal(close(fd), 0);
	assert_true(open("/sys/class/infiniband_verbs/abi_version", O_RDWR) < 0 && errno == ENOENT);
	assert_true(open("/sys/class/infiniband_verbs/abi", O_RDONLY) < 0 && errno == ENOENT);
	char made[] = "/tmp/test_efa_XXXXXX";
	assert_int_equal(close(mkstemp(made)), 0);
	assert_int_equal(unlink(made), 0);
	const int file = open(made, O_CREAT | O_EXCL | O_WRONLY, 0600); /* the mode is passed on */
	assert_true(file >= 0 && access(made, R_OK | W_OK) == 0);
	assert_int_equal(close(file), 0);
	assert_int_equal(unlink(made), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_are_as_many_numbers_as_16_bits_have),
		cmocka_unit_test_setup_teardown(an_entry_keeps_its_address, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_no_receive_has_no_sender, setup, teardown),
		cmocka_unit_test_setup_teardown(another_device_is_no_such_adapter, setup, teardown),
		cmocka_unit_test_setup_teardown(its_path_leads_to_a_driver, setup, teardown),
	};

	return cmocka_run_group_tests_name("efa", tests, NULL, NULL);
}
