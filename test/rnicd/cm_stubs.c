/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that the files of test_cm_ids.c call, and into which its tests do not look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "border/expect.h"
#include "control/cm.h"
#include "control/dev.h"
#include "control/oob.h"
#include "control/why.h"

void client_hold(struct client *c) { c->under_way++; }
void client_unhold(struct client *c) { c->under_way--; }

bool client_back(struct client *c)
{
	c->under_way--;
	return true;
}

void client_drop(struct client *c, const char *why)
{
	(void)c;
	fail_msg("dropped: %s", why);
}

struct loop_timer *armed_last;
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	(void)when;
	armed_last = t;
}
void loop_timer_disarm(struct loop_timer *t) { (void)t; }
uint64_t rnicd_now(void) { return 1; }

void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

void expect_put(uint32_t port, uint16_t lport, uint64_t now)
{
	(void)port;
	(void)lport;
	(void)now;
}

void why_connection(const struct event_fx *fx) { (void)fx; }

void oob_fx(struct cm_conn *k, const struct event_fx *fx)
{
	(void)k;
	(void)fx;
}

bool oob_request(const struct event_fx *fx)
{
	(void)fx;
	return false;
}

uint32_t ud_owner(uint32_t dev, uint32_t qpn)
{
	(void)dev;
	(void)qpn;
	return 0;
}

void cm_joins_end(struct cm_id *id) { (void)id; }
void cm_joins_move(struct cm_id *id) { (void)id; }

/* Device 0 is 10.77.0.1, device 1 is 10.77.0.2; both reach 10.77.0.x. */
uint32_t dev_by_addr(const uint8_t ip[16]) { return ip[15] == 1 || ip[15] == 2 ? ip[15] - 1u : UINT32_MAX; }
bool dev_reaches(uint32_t index, const uint8_t dst[16])
{
	(void)index;
	return dst[12] == 10;
}
uint32_t dev_by_scope(const struct ipc_addr *a) { return a->scope != 0 && dev_is_local(a->ip) ? 0 : UINT32_MAX; }
uint32_t dev_by_route(const uint8_t dst[16]) { return dst[12] == 10 ? 0 : UINT32_MAX; }
