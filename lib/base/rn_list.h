/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intrusive lists: the link lies inside the object, so adding an object allocates nothing and cannot fail. A list names
 * links; the macros at the end give back the object by its type and the link's member (rn_container_of). An object that
 * lies in several lists has a link for each. An object's memory must not go while a list names it.
 *
 * There are two kinds. Zeroed memory is an empty list of either kind, and a link that is in no list.
 *
 *   struct rn_list, rn_link    doubly linked, 16 bytes a link: an object leaves from any place in O(1), and its link
 *                              says whether it is in a list. A list that is not empty must stay where it is in memory.
 *   struct rn_slist, rn_slink  singly linked, 8 bytes a link: for stacks and queues, where objects leave at the front.
 *                              Leaving elsewhere is a search. A list may be moved by assignment; the old one is then
 *                              to be zeroed.
 *
 * Both kinds keep their last link, so objects are added at either end in O(1). No locks: one thread owns a list with
 * all its links, or the caller holds a lock. struct rn_pool, at the end, has the free objects of an array.
 */
#ifndef RN_LIST_H
#define RN_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rn_base.h"

/* ---- doubly linked ---- */

struct rn_link {
	struct rn_link *next;   /* NULL: the last one */
	struct rn_link **pprev; /* the pointer to this link: the list's first or another's next. NULL: in no list */
};

struct rn_list {
	struct rn_link *first, *last; /* both NULL when the list is empty */
};

static inline bool rn_list_empty(const struct rn_list *l) { return l->first == NULL; }
static inline bool rn_link_linked(const struct rn_link *x) { return x->pprev != NULL; }

/* Puts x, which is in no list, before the link `before` of this list; NULL: at the end. */
static inline void rn_list_insert(struct rn_list *l, struct rn_link *before, struct rn_link *x)
{
	x->next = before;
	if (before != NULL) {
		x->pprev = before->pprev;
		before->pprev = &x->next;
	} else {
		x->pprev = l->last != NULL ? &l->last->next : &l->first;
		l->last = x;
	}
	*x->pprev = x;
}

static inline void rn_list_push_front(struct rn_list *l, struct rn_link *x) { rn_list_insert(l, l->first, x); }
static inline void rn_list_push_back(struct rn_list *l, struct rn_link *x) { rn_list_insert(l, NULL, x); }

/* Takes x off the list l. Does nothing when x is in no list. */
static inline void rn_list_remove(struct rn_list *l, struct rn_link *x)
{
	if (x->pprev == NULL)
		return;
	*x->pprev = x->next;
	if (x->next != NULL)
		x->next->pprev = x->pprev;
	else
		l->last = x->pprev == &l->first ? NULL : rn_container_of(x->pprev, struct rn_link, next);
	x->next = NULL;
	x->pprev = NULL;
}

/* Takes the first link off the list; NULL when the list is empty. */
static inline struct rn_link *rn_list_take(struct rn_list *l)
{
	struct rn_link *x = l->first;

	if (x != NULL)
		rn_list_remove(l, x);
	return x;
}

/* ---- singly linked ---- */

struct rn_slink {
	struct rn_slink *next; /* NULL: the last one, or in no list */
};

struct rn_slist {
	struct rn_slink *first, *last; /* both NULL when the list is empty */
};

static inline bool rn_slist_empty(const struct rn_slist *l) { return l->first == NULL; }

static inline void rn_slist_push_front(struct rn_slist *l, struct rn_slink *x)
{
	x->next = l->first;
	l->first = x;
	if (l->last == NULL)
		l->last = x;
}

static inline void rn_slist_push_back(struct rn_slist *l, struct rn_slink *x)
{
	x->next = NULL;
	if (l->last != NULL)
		l->last->next = x;
	else
		l->first = x;
	l->last = x;
}

/* Takes the first link off the list; NULL when the list is empty. */
static inline struct rn_slink *rn_slist_take(struct rn_slist *l)
{
	struct rn_slink *x = l->first;

	if (x == NULL)
		return NULL;
	l->first = x->next;
	if (l->first == NULL)
		l->last = NULL;
	x->next = NULL;
	return x;
}

/* Searches for x and takes it off the list. False: x is not in this list. O(length). */
static inline bool rn_slist_remove(struct rn_slist *l, struct rn_slink *x)
{
	struct rn_slink *before = NULL, *at = l->first;

	while (at != NULL && at != x) {
		before = at;
		at = at->next;
	}
	if (at == NULL)
		return false;
	if (before != NULL)
		before->next = x->next;
	else
		l->first = x->next;
	if (l->last == x)
		l->last = before;
	x->next = NULL;
	return true;
}

/* ---- objects by type: `member` is the link inside `type`. NULL where there is no object ---- */

static inline void *rn_link_object(const struct rn_link *x, size_t at)
{
	return x == NULL ? NULL : (void *)((uintptr_t)x - at);
}

static inline void *rn_slink_object(const struct rn_slink *x, size_t at)
{
	return x == NULL ? NULL : (void *)((uintptr_t)x - at);
}

#define rn_list_first(l, type, member)  ((type *)rn_link_object((l)->first, offsetof(type, member)))
#define rn_list_last(l, type, member)   ((type *)rn_link_object((l)->last, offsetof(type, member)))
#define rn_list_next(obj, type, member) ((type *)rn_link_object((obj)->member.next, offsetof(type, member)))
#define rn_list_pop(l, type, member)    ((type *)rn_link_object(rn_list_take(l), offsetof(type, member)))

#define rn_slist_first(l, type, member)  ((type *)rn_slink_object((l)->first, offsetof(type, member)))
#define rn_slist_next(obj, type, member) ((type *)rn_slink_object((obj)->member.next, offsetof(type, member)))
#define rn_slist_pop(l, type, member)    ((type *)rn_slink_object(rn_slist_take(l), offsetof(type, member)))

/*
 * for (each object `var` of the list). The body may take `var` off the list and free it, and add objects at the front;
 * it must leave the object after `var` where it is. An object that is added at the end while the loop is at the last
 * one is not visited.
 */
#define rn_list_each(type, var, l, member) \
	for (type *var = rn_list_first(l, type, member), *var##_next; \
	     var != NULL && ((var##_next = rn_list_next(var, type, member)), true); var = var##_next)

#define rn_slist_each(type, var, l, member) \
	for (type *var = rn_slist_first(l, type, member), *var##_next; \
	     var != NULL && ((var##_next = rn_slist_next(var, type, member)), true); var = var##_next)

/* ---- a pool: the free objects of an array. Objects that were never taken are never touched ---- */

struct rn_pool {
	struct rn_slist back;    /* objects that were put back; they are taken first */
	struct rn_slink *unused; /* the link of the first object that was never taken */
	uint32_t n_unused;
	size_t size; /* bytes of an object */
};

static inline bool rn_pool_empty(const struct rn_pool *p) { return p->n_unused == 0 && rn_slist_empty(&p->back); }
static inline void rn_pool_push_front(struct rn_pool *p, struct rn_slink *x) { rn_slist_push_front(&p->back, x); }
static inline void rn_pool_push_back(struct rn_pool *p, struct rn_slink *x) { rn_slist_push_back(&p->back, x); }

/* Takes a free object's link; NULL when there is none. */
static inline struct rn_slink *rn_pool_take(struct rn_pool *p)
{
	struct rn_slink *x = rn_slist_take(&p->back);

	if (x != NULL || p->n_unused == 0)
		return x;
	x = p->unused;
	p->unused = (struct rn_slink *)((uintptr_t)x + p->size);
	p->n_unused--;
	return x;
}

/* How many objects are free. O(objects that were put back). */
static inline uint32_t rn_pool_left(const struct rn_pool *p)
{
	uint32_t n = p->n_unused;

	for (const struct rn_slink *x = p->back.first; x != NULL; x = x->next)
		n++;
	return n;
}

/* array: n objects in zeroed memory. */
#define rn_pool_of(array, n, member) \
	((struct rn_pool){ .unused = &(array)->member, .n_unused = (n), .size = sizeof(*(array)) })
#define rn_pool_pop(p, type, member) ((type *)rn_slink_object(rn_pool_take(p), offsetof(type, member)))

#endif
