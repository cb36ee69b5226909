/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/link.h"

#include <string.h>

#include "border/cmd.h"
#include "border/port_admin.h"
#include "control/client.h"
#include "control/loop.h"

#define LOOK_NS (200 * RN_NS_PER_MS)
#define WHY_MAX 256u
/* How many checks must find the link down before this end connects again. */
#define PATIENCE_UP  1u /* the link was up */
#define PATIENCE_NEW 5u /* this end has just connected: the other end may be slow */

/* Whether workers use a port. look_at_all() and the answers of the workers change it. */
enum step {
	HERE,    /* workers use the port; look_at_all() checks whether the device is gone */
	LEAVING, /* each worker was told to leave; the last answer makes it AWAY */
	AWAY,    /* no worker uses the port; look_at_all() opens the device again */
	JOINING, /* the device is open; the last answer makes it HERE */
};

static struct link {
	struct rnicd_port *port;
	enum step step;
	bool told_up;      /* link state that was last reported to the log and the clients */
	uint32_t patience; /* checks left before this end connects again (memif clients) */
	struct cmd cmd;    /* used in LEAVING and JOINING */
	struct cmd up;     /* CMD_PORT_UP, under way while up_sent */
	bool up_sent;
	char why[WHY_MAX]; /* the reason for the link being down that was logged last */
} links[RNICD_MAX_LINES];
static struct loop_timer timer;
static bool stopped;

static void up_done(struct cmd *c) { rn_container_of(c, struct link, up)->up_sent = false; }

/* The only writer of a port's link state, once the daemon serves clients. */
static void set(struct link *l, enum rnicd_link to)
{
	bool up = to == RNICD_LINK_UP;
	port_set_link(l->port, to);
	if (up == l->told_up)
		return;
	l->told_up = up;
	l->why[0] = '\0';
	if (up) {
		rnicd_log(RNICD_LOG_INFO, "port %s: link up", l->port->cfg->name);
	} else {
		port_link_why(l->port, l->why, sizeof(l->why));
		rnicd_log(RNICD_LOG_WARNING, "port %s: link down: %s", l->port->cfg->name, l->why);
	}
	if (l->port->of == NULL)
		client_port_event(l->port->index, up);
	if (!up || l->up_sent)
		return;
	l->up_sent = true;
	l->up = (struct cmd){ .type = CMD_PORT_UP, .done = up_done, .port = l->port };
	cmd_send_all(&l->up);
}

static void link_left(struct cmd *c) { rn_container_of(c, struct link, cmd)->step = AWAY; }

static void link_leave(struct link *l)
{
	set(l, RNICD_LINK_GONE);
	l->step = LEAVING;
	l->cmd = (struct cmd){ .type = CMD_PORT_LEAVE, .done = link_left, .port = l->port };
	cmd_send_all(&l->cmd);
}

static void link_joined(struct cmd *c)
{
	struct link *l = rn_container_of(c, struct link, cmd);

	l->step = HERE;
	l->patience = PATIENCE_NEW;
	set(l, port_link_ask(l->port));
}

static void try_open(struct link *l)
{
	char err[WHY_MAX];

	if (!port_link_reopen(l->port, err, sizeof(err))) {
		/* A reason is logged only if it differs from the last one. */
		if (strcmp(err, l->why) != 0) {
			memcpy(l->why, err, sizeof(l->why));
			rnicd_log(RNICD_LOG_INFO, "port %s: waiting for its device: %s", l->port->cfg->name, err);
		}
		return;
	}
	port_set_link(l->port, RNICD_LINK_GONE); /* until all workers are back */
	l->step = JOINING;
	l->cmd = (struct cmd){ .type = CMD_PORT_JOIN, .done = link_joined, .port = l->port };
	cmd_send_all(&l->cmd);
}

/* True: the link is down, only this end can connect, and the other end has had time to answer the last attempt. */
static bool must_call(struct link *l)
{
	return port_link_must_call(l->port) && (l->patience == 0 || --l->patience == 0);
}

static void look_at(struct link *l)
{
	enum rnicd_link now;

	switch (l->step) {
	case HERE:
		now = port_link_ask(l->port);
		if (now == RNICD_LINK_GONE || (now == RNICD_LINK_DOWN && must_call(l))) {
			link_leave(l);
			return;
		}
		if (now == RNICD_LINK_UP)
			l->patience = PATIENCE_UP;
		set(l, now);
		return;
	case AWAY: try_open(l); return;
	case LEAVING:
	case JOINING: return;
	}
}

static void look_at_all(struct loop_timer *t)
{
	if (stopped)
		return;
	/* Paths lie behind the ports in the table, and come first here: their links decide the link of their port. */
	for (uint32_t i = rnicd_lines(); i-- > 0;)
		if (rnicd.port[i]->cfg->kind != RNICD_PORT_PAIR)
			look_at(&links[i]);
	loop_timer_arm(t, rnicd_now() + LOOK_NS);
}

void link_start(void)
{
	bool any = false;

	for (uint32_t i = 0; i < rnicd_lines(); i++) {
		struct rnicd_port *p = rnicd.port[i];
		enum rnicd_link now = port_link(p);
		links[i] = (struct link){ .port = p,
					  .step = now == RNICD_LINK_GONE ? AWAY : HERE,
					  .told_up = true,
					  .patience = PATIENCE_NEW };
		any |= p->cfg->kind != RNICD_PORT_PAIR;
		set(&links[i], now);
	}
	stopped = false;
	timer.due = look_at_all;
	if (any)
		loop_timer_arm(&timer, rnicd_now() + LOOK_NS);
}

void link_stop(void) { stopped = true; }
