/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_watch DEVICE: prints the state of the device's port, then its next two asynchronous events, each with the state.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static const char *state(struct ibv_context *ctx)
{
	struct ibv_port_attr a;

	if (ibv_query_port(ctx, 1, &a) != 0)
		return "unknown";
	return a.state == IBV_PORT_ACTIVE ? "ACTIVE" : a.state == IBV_PORT_DOWN ? "DOWN" : "other";
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list != NULL && list[i] != NULL && ctx == NULL; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			ctx = ibv_open_device(list[i]);
	if (list != NULL)
		ibv_free_device_list(list);
	return ctx;
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx = argc == 2 ? open_named(argv[1]) : NULL;
	struct ibv_async_event e;

	if (ctx == NULL) {
		fprintf(stderr, "link_watch: cannot open the device\n");
		return 1;
	}
	printf("PORT_%s state\n", state(ctx));
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		if (ibv_get_async_event(ctx, &e) != 0)
			return 1;
		printf("%s %d, state %s\n",
		       e.event_type == IBV_EVENT_PORT_ERR      ? "IBV_EVENT_PORT_ERR"
		       : e.event_type == IBV_EVENT_PORT_ACTIVE ? "IBV_EVENT_PORT_ACTIVE"
							       : "another event",
		       e.element.port_num, state(ctx));
		fflush(stdout);
		ibv_ack_async_event(&e);
	}
	return ibv_close_device(ctx);
}
