/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of descriptors that are extended sockets, and why the last call failed. */
#include "rnic/esock/esock.h"

#include <stdarg.h>
#include <stdio.h>

#define FDS 65536

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct es *table[FDS];
static __thread char why[256];

const char *rnic_sock_error(void) { return why[0] != '\0' ? why : "nothing has failed"; }

int es_fail(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	errno = err;
	return -1;
}

__thread int es_cancel;

static struct es *find(int fd, bool leaves)
{
	int cancel = PTHREAD_CANCEL_ENABLE, off;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&table_lock);
	struct es *es = fd >= 0 && fd < FDS ? table[fd] : NULL;
	if (es != NULL && leaves)
		table[fd] = NULL; /* the table's hold passes to the caller */
	else if (es != NULL)
		es->refs++;
	pthread_mutex_unlock(&table_lock);
	if (es != NULL) {
		pthread_mutex_lock(&es->lock);
		es_cancel = cancel;
		return es;
	}
	pthread_setcancelstate(cancel, &off);
	es_fail(EBADF, "descriptor %d is no extended socket: rnic_sock_prepare() makes one of a connected socket", fd);
	return NULL;
}

struct es *es_get(int fd) { return find(fd, false); }
struct es *es_leave(int fd) { return find(fd, true); }

void es_drop(struct es *es)
{
	pthread_mutex_unlock(&es->lock);
	pthread_mutex_lock(&table_lock);
	bool last = --es->refs == 0;
	pthread_mutex_unlock(&table_lock);
	if (last)
		es_free(es);
}

void es_call_end(void)
{
	int off;

	pthread_setcancelstate(es_cancel, &off);
}

void es_let(struct es *es)
{
	es_settle(es);
	es_drop(es);
	es_call_end();
}

bool es_enter(struct es *es)
{
	pthread_mutex_lock(&table_lock);
	bool room = es->fd < FDS && table[es->fd] == NULL;
	if (room) {
		table[es->fd] = es;
		es->refs = 1;
	}
	pthread_mutex_unlock(&table_lock);
	return room;
}
