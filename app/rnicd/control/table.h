/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives objects small numbers: the handles of one client's objects of one kind. 0 is never a handle. Control thread. */
#ifndef TABLE_H
#define TABLE_H

#include <stdint.h>
#include <stdlib.h>

struct table {
	void **obj;     /* by handle - 1 */
	uint32_t room;  /* number of slots in obj */
	uint32_t live;  /* number of objects */
	uint32_t first; /* index in obj before which no slot is free */
};

/* Bytes of its slots, and bytes that the next table_add() adds. */
static inline uint64_t table_size(const struct table *t) { return (uint64_t)t->room * sizeof(t->obj[0]); }
static inline uint32_t table_wider(const struct table *t) { return t->room == 0 ? 16 : 2 * t->room; }
static inline uint64_t table_grows_by(const struct table *t)
{
	return t->live < t->room ? 0 : (uint64_t)(table_wider(t) - t->room) * sizeof(t->obj[0]);
}

/* The new handle; 0 when there is no memory. */
static inline uint32_t table_add(struct table *t, void *obj)
{
	while (t->first < t->room && t->obj[t->first] != NULL)
		t->first++;
	if (t->first == t->room) {
		uint32_t room = table_wider(t);
		void **o = realloc(t->obj, room * sizeof(*o));
		if (o == NULL)
			return 0;
		for (uint32_t i = t->room; i < room; i++)
			o[i] = NULL;
		t->obj = o;
		t->room = room;
	}
	t->obj[t->first] = obj;
	t->live++;
	return ++t->first;
}

static inline void *table_get(const struct table *t, uint32_t handle)
{
	return handle == 0 || handle > t->room ? NULL : t->obj[handle - 1];
}

static inline void table_del(struct table *t, uint32_t handle)
{
	if (table_get(t, handle) == NULL)
		return;
	t->obj[handle - 1] = NULL;
	t->live--;
	if (handle - 1 < t->first)
		t->first = handle - 1;
}

/* Walks: for (uint32_t h = 0; (o = table_next(t, &h)) != NULL;) — h is the handle of o. */
static inline void *table_next(const struct table *t, uint32_t *handle)
{
	while (*handle < t->room)
		if (t->obj[(*handle)++] != NULL)
			return t->obj[*handle - 1];
	return NULL;
}

static inline void table_free(struct table *t)
{
	free(t->obj);
	*t = (struct table){ 0 };
}

#endif
