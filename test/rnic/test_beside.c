/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices of the stock library beside ours: each public function that takes an object passes objects of the stock
 * library on to that library, and the device list has the stock library's devices, too. The stock library is a stub
 * that records calls. argv[1] is librnic's version script: a function that is added there must be tested here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#include "stock_stub.h"

int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned int index, unsigned int *type);
int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
		      size_t size);
ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *e, size_t max, uint32_t flags, size_t size);

/* These functions take no object, or handle objects of either library. */
static const char *const for_all[] = { "ibv_ack_async_event",     "ibv_dofork_range",    "ibv_dontfork_range",
				       "ibv_event_type_str",      "ibv_fork_init",       "ibv_free_device_list",
				       "ibv_get_device_list",     "ibv_get_device_name", "ibv_import_device",
				       "ibv_is_fork_initialized", "ibv_node_type_str",   "ibv_port_state_str",
				       "ibv_rate_to_mbps",        "ibv_rate_to_mult",    "ibv_wc_status_str" };
static const char *const handed_on[] = {
#define STUB(name) #name,
#include "stock_names.inc"
};
static const char *script;

static bool in(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, list[i]) == 0)
			return true;
	return false;
}

static void no_function_is_forgotten(void **state)
{
	FILE *f = fopen(script, "r");
	char line[128], name[128];
	unsigned seen = 0;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, " %127[a-z0-9_];", name) != 1 ||
		    (strstr(name, "ibv_") == NULL && strstr(name, "efadv_") == NULL) || strncmp(name, "mbps", 4) == 0 ||
		    strncmp(name, "mult", 4) == 0)
			continue;
		seen++;
		if (!in(name, for_all, sizeof(for_all) / sizeof(for_all[0])) &&
		    !in(name, handed_on, sizeof(handed_on) / sizeof(handed_on[0])))
			fail_msg("%s is exported, but is it handed on for objects that are not ours?", name);
	}
	fclose(f);
	assert_true(seen > 60);
}

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port
#define VOID(name, ...) \
	do { \
		stock_called = ""; \
		name(__VA_ARGS__); \
		assert_string_equal(stock_called, #name); \
	} while (0)
#define CALL(name, ...) \
	do { \
		stock_called = ""; \
		long said_ = (long)name(__VA_ARGS__); \
		assert_string_equal(stock_called, #name); \
		assert_int_equal(said_, STOCK_SAYS); \
	} while (0)

static void strangers_objects_are_handed_on(void **state)
{
	struct ibv_context ctx = { 0 };
	struct ibv_device dev = { 0 };
	struct ibv_comp_channel channel = { .context = &ctx };
	struct ibv_pd pd = { .context = &ctx };
	struct ibv_mr mr = { .context = &ctx };
	struct ibv_cq cq = { .context = &ctx };
	struct ibv_qp qp = { .context = &ctx };
	struct ibv_srq srq = { .context = &ctx };
	struct ibv_ah ah = { .context = &ctx };
	struct ibv_dm dm = { .context = &ctx };
	struct ibv_cq_ex cq_ex = { .context = &ctx };

	(void)state;
	CALL(ibv_create_comp_channel, &ctx);
	CALL(ibv_destroy_comp_channel, &channel);
	CALL(ibv_get_cq_event, &channel, NULL, NULL);
	CALL(ibv_get_async_event, &ctx, NULL);
	CALL(ibv_close_device, &ctx);
	CALL(ibv_create_cq, &ctx, 1, NULL, NULL, 0);
	CALL(ibv_destroy_cq, &cq);
	CALL(ibv_reg_mr, &pd, NULL, 0, 0);
	CALL(ibv_reg_mr_iova, &pd, NULL, 0, 0, 0);
	CALL(ibv_reg_mr_iova2, &pd, NULL, 0, 0, 0);
	CALL(ibv_dereg_mr, &mr);
	CALL(ibv_alloc_pd, &ctx);
	CALL(ibv_dealloc_pd, &pd);
	CALL(ibv_create_qp, &pd, NULL);
	CALL(ibv_qp_to_qp_ex, &qp);
	CALL(ibv_modify_qp, &qp, NULL, 0);
	CALL(ibv_query_qp, &qp, NULL, 0, NULL);
	CALL(ibv_destroy_qp, &qp);
	CALL(ibv_query_device, &ctx, NULL);
	CALL(ibv_query_port, &ctx, 1, NULL);
	CALL(ibv_query_gid, &ctx, 1, 0, NULL);
	CALL(_ibv_query_gid_ex, &ctx, 1, 0, NULL, 0, 0);
	CALL(_ibv_query_gid_table, &ctx, NULL, 0, 0, 0);
	CALL(ibv_query_gid_type, &ctx, 1, 0, NULL);
	CALL(ibv_query_pkey, &ctx, 1, 0, NULL);
	CALL(ibv_get_pkey_index, &ctx, 1, 0);
	CALL(ibv_create_ah, &pd, NULL);
	CALL(ibv_init_ah_from_wc, &ctx, 1, NULL, NULL, NULL);
	CALL(ibv_create_ah_from_wc, &pd, NULL, NULL, 1);
	CALL(ibv_destroy_ah, &ah);
	CALL(ibv_attach_mcast, &qp, NULL, 0);
	CALL(ibv_detach_mcast, &qp, NULL, 0);
	CALL(ibv_resolve_eth_l2_from_gid, &ctx, NULL, NULL, NULL);
	CALL(ibv_create_srq, &pd, NULL);
	CALL(ibv_modify_srq, &srq, NULL, 0);
	CALL(ibv_query_srq, &srq, NULL);
	CALL(ibv_destroy_srq, &srq);
	CALL(ibv_resize_cq, &cq, 1);
	CALL(ibv_rereg_mr, &mr, 0, NULL, NULL, 0, 0);
	CALL(ibv_reg_dmabuf_mr, &pd, 0, 0, 0, 0, 0);
	CALL(ibv_import_pd, &ctx, 0);
	CALL(ibv_import_mr, &pd, 0);
	CALL(ibv_import_dm, &ctx, 0);
	CALL(ibv_set_ece, &qp, NULL);
	CALL(ibv_query_ece, &qp, NULL);
	CALL(ibv_query_qp_data_in_order, &qp, IBV_WR_SEND, 0);
	CALL(ibv_open_device, &dev);
	CALL(ibv_get_device_index, &dev);
	CALL(ibv_get_device_guid, &dev);
	VOID(ibv_ack_cq_events, &cq, 1);
	VOID(ibv_unimport_pd, &pd);
	VOID(ibv_unimport_mr, &mr);
	VOID(ibv_unimport_dm, &dm);
	CALL(efadv_query_device, &ctx, NULL, 0);
	CALL(efadv_create_qp_ex, &ctx, NULL, NULL, 0);
	CALL(efadv_create_driver_qp, &pd, NULL, 0);
	CALL(efadv_query_ah, &ah, NULL, 0);
	CALL(efadv_create_cq, &ctx, NULL, NULL, 0);
	CALL(efadv_cq_from_ibv_cq_ex, &cq_ex);
}

/* Without a daemon only the stock library's devices are listed. */
static void stock_devices_are_listed(void **state)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	(void)state;
	assert_non_null(list);
	assert_int_equal(n, 1);
	assert_non_null(list[0]);
	assert_null(list[1]);
	assert_string_equal(ibv_get_device_name(list[0]), "");
	ibv_free_device_list(list);
	assert_int_equal(stock_frees, 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_function_is_forgotten),
		cmocka_unit_test(strangers_objects_are_handed_on),
		cmocka_unit_test(stock_devices_are_listed),
	};

	if (argc != 2)
		return 2;
	script = argv[1];
	setenv("RNICD_SOCKET", "/nonexistent/rnicd.sock", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
