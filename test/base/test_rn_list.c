/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_list.h"
#include "base/rn_rng.h"

#define N 16u

/* No link is the first member: a list that returned the address of the link in place of the object would fail. */
struct thing {
	uint32_t name;
	struct rn_link by_age, by_size;
	struct rn_slink next;
};

static struct thing t[N];
static struct rn_list list;
static struct rn_slist queue;

static int clean(void **state)
{
	(void)state;
	memset(t, 0, sizeof(t));
	memset(&list, 0, sizeof(list));
	memset(&queue, 0, sizeof(queue));
	for (uint32_t i = 0; i < N; i++)
		t[i].name = i;
	return 0;
}

/* Checks that the list has exactly the n objects of `want`, in this order, and that all its pointers are consistent. */
static void holds(const struct rn_list *l, const uint32_t *want, uint32_t n)
{
	struct rn_link *const *from = &l->first;
	const struct rn_link *last = NULL;
	uint32_t i = 0;

	for (const struct rn_link *x = l->first; x != NULL; x = x->next) {
		assert_true(i < n);
		assert_ptr_equal(x, &t[want[i++]].by_age);
		assert_ptr_equal(x->pprev, from);
		assert_true(rn_link_linked(x));
		from = &x->next;
		last = x;
	}
	assert_int_equal(i, n);
	assert_ptr_equal(l->last, last);
	assert_int_equal(rn_list_empty(l), n == 0);
}

static void sholds(const struct rn_slist *l, const uint32_t *want, uint32_t n)
{
	const struct rn_slink *last = NULL;
	uint32_t i = 0;

	for (const struct rn_slink *x = l->first; x != NULL; x = x->next) {
		assert_true(i < n);
		assert_ptr_equal(x, &t[want[i++]].next);
		last = x;
	}
	assert_int_equal(i, n);
	assert_ptr_equal(l->last, last);
	assert_int_equal(rn_slist_empty(l), n == 0);
}

static void zeroed_memory_is_an_empty_list(void **state)
{
	(void)state;
	holds(&list, NULL, 0);
	sholds(&queue, NULL, 0);
	assert_null(rn_list_first(&list, struct thing, by_age));
	assert_null(rn_list_last(&list, struct thing, by_age));
	assert_null(rn_list_pop(&list, struct thing, by_age));
	assert_null(rn_slist_first(&queue, struct thing, next));
	assert_null(rn_slist_pop(&queue, struct thing, next));
	assert_false(rn_link_linked(&t[0].by_age));
	rn_list_remove(&list, &t[0].by_age);
	assert_false(rn_slist_remove(&queue, &t[0].next));
	rn_list_each(struct thing, x, &list, by_age)
		fail_msg("an empty list has %u", x->name);
	rn_slist_each(struct thing, x, &queue, next)
		fail_msg("an empty list has %u", x->name);
}

static void objects_are_added_at_both_ends_and_between(void **state)
{
	(void)state;
	rn_list_push_back(&list, &t[1].by_age);
	holds(&list, (uint32_t[]){ 1 }, 1);
	rn_list_push_front(&list, &t[0].by_age);
	rn_list_push_back(&list, &t[3].by_age);
	rn_list_insert(&list, &t[3].by_age, &t[2].by_age);
	holds(&list, (uint32_t[]){ 0, 1, 2, 3 }, 4);
	assert_ptr_equal(rn_list_first(&list, struct thing, by_age), &t[0]);
	assert_ptr_equal(rn_list_next(&t[0], struct thing, by_age), &t[1]);
	assert_ptr_equal(rn_list_last(&list, struct thing, by_age), &t[3]);
	assert_null(rn_list_next(&t[3], struct thing, by_age));
}

static void an_object_leaves_from_any_place(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		rn_list_push_back(&list, &t[i].by_age);
	rn_list_remove(&list, &t[2].by_age);
	holds(&list, (uint32_t[]){ 0, 1, 3, 4 }, 4);
	rn_list_remove(&list, &t[4].by_age);
	holds(&list, (uint32_t[]){ 0, 1, 3 }, 3);
	rn_list_remove(&list, &t[0].by_age);
	holds(&list, (uint32_t[]){ 1, 3 }, 2);
	assert_false(rn_link_linked(&t[0].by_age));
	rn_list_remove(&list, &t[0].by_age); /* removing twice changes nothing */
	holds(&list, (uint32_t[]){ 1, 3 }, 2);
	assert_ptr_equal(rn_list_pop(&list, struct thing, by_age), &t[1]);
	assert_ptr_equal(rn_list_pop(&list, struct thing, by_age), &t[3]);
	holds(&list, NULL, 0);
	rn_list_push_back(&list, &t[3].by_age);
	holds(&list, (uint32_t[]){ 3 }, 1);
}

static void an_object_lies_in_two_lists(void **state)
{
	struct rn_list other = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		rn_list_push_back(&list, &t[i].by_age);
		rn_list_push_front(&other, &t[i].by_size);
	}
	rn_list_remove(&list, &t[1].by_age);
	holds(&list, (uint32_t[]){ 0, 2 }, 2);
	assert_ptr_equal(rn_list_pop(&other, struct thing, by_size), &t[2]);
	assert_ptr_equal(rn_list_pop(&other, struct thing, by_size), &t[1]);
	assert_ptr_equal(rn_list_pop(&other, struct thing, by_size), &t[0]);
	holds(&list, (uint32_t[]){ 0, 2 }, 2);
}

static void the_loop_may_take_off_and_free_what_it_visits(void **state)
{
	uint32_t seen = 0;

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		rn_list_push_back(&list, &t[i].by_age);
		rn_slist_push_back(&queue, &t[i].next);
	}
	rn_list_each(struct thing, x, &list, by_age) {
		assert_int_equal(x->name, seen++);
		if (x->name % 2 != 0)
			continue;
		rn_list_remove(&list, &x->by_age);
		memset(&x->by_age, 0xff, sizeof(x->by_age));
	}
	assert_int_equal(seen, 6);
	holds(&list, (uint32_t[]){ 1, 3, 5 }, 3);
	rn_slist_each(struct thing, x, &queue, next) {
		if (x->name % 2 == 0)
			assert_true(rn_slist_remove(&queue, &x->next));
	}
	sholds(&queue, (uint32_t[]){ 1, 3, 5 }, 3);
	rn_list_each(const struct thing, x, &list, by_age)
		seen += x->name;
	assert_int_equal(seen, 6 + 9);
}

static void a_queue_gives_back_in_order_and_a_stack_in_reverse(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		rn_slist_push_back(&queue, &t[i].next);
	sholds(&queue, (uint32_t[]){ 0, 1, 2, 3 }, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_ptr_equal(rn_slist_pop(&queue, struct thing, next), &t[i]);
	sholds(&queue, NULL, 0);
	for (uint32_t i = 0; i < 4; i++)
		rn_slist_push_front(&queue, &t[i].next);
	sholds(&queue, (uint32_t[]){ 3, 2, 1, 0 }, 4);
	assert_ptr_equal(rn_slist_next(&t[3], struct thing, next), &t[2]);
	assert_true(rn_slist_remove(&queue, &t[0].next));
	rn_slist_push_back(&queue, &t[9].next); /* a list of two: both neighbours of the removed object have changed */
	sholds(&queue, (uint32_t[]){ 3, 2, 1, 9 }, 4);
}

static void a_singly_linked_list_may_be_moved(void **state)
{
	struct rn_slist other;

	(void)state;
	rn_slist_push_back(&queue, &t[0].next);
	rn_slist_push_back(&queue, &t[1].next);
	other = queue;
	memset(&queue, 0, sizeof(queue));
	rn_slist_push_back(&other, &t[2].next);
	rn_slist_push_back(&queue, &t[3].next);
	sholds(&other, (uint32_t[]){ 0, 1, 2 }, 3);
	sholds(&queue, (uint32_t[]){ 3 }, 1);
}

/* ---- random operations, compared with an array of names ---- */

struct model {
	uint32_t name[N], n;
};

static bool in(const struct model *m, uint32_t name, uint32_t *at)
{
	for (*at = 0; *at < m->n; ++*at) {
		if (m->name[*at] == name)
			return true;
	}
	return false;
}

static void model_insert(struct model *m, uint32_t at, uint32_t name)
{
	memmove(&m->name[at + 1], &m->name[at], (m->n++ - at) * sizeof(m->name[0]));
	m->name[at] = name;
}

static void model_remove(struct model *m, uint32_t at)
{
	memmove(&m->name[at], &m->name[at + 1], (--m->n - at) * sizeof(m->name[0]));
}

static void a_doubly_linked_list_is_like_an_array(void **state)
{
	struct model m = { 0 };
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 7);
	for (uint32_t turn = 0; turn < 20000; turn++) {
		uint32_t x = rn_rng_u32(&r) % N, at;

		if (in(&m, x, &at)) {
			rn_list_remove(&list, &t[x].by_age);
			model_remove(&m, at);
		} else {
			at = rn_rng_u32(&r) % (m.n + 1);
			rn_list_insert(&list, at < m.n ? &t[m.name[at]].by_age : NULL, &t[x].by_age);
			model_insert(&m, at, x);
		}
		assert_false(rn_link_linked(&t[x].by_age) != in(&m, x, &at));
		holds(&list, m.name, m.n);
	}
}

static void a_singly_linked_list_is_like_an_array(void **state)
{
	struct model m = { 0 };
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 8);
	for (uint32_t turn = 0; turn < 20000; turn++) {
		uint32_t x = rn_rng_u32(&r) % N, at;

		if (in(&m, x, &at)) {
			assert_true(rn_slist_remove(&queue, &t[x].next));
			model_remove(&m, at);
		} else if ((rn_rng_u32(&r) & 1) != 0) {
			rn_slist_push_front(&queue, &t[x].next);
			model_insert(&m, 0, x);
		} else {
			assert_false(rn_slist_remove(&queue, &t[x].next));
			rn_slist_push_back(&queue, &t[x].next);
			model_insert(&m, m.n, x);
		}
		sholds(&queue, m.name, m.n);
	}
}

static void a_pool_gives_each_object_once_and_touches_no_other(void **state)
{
	struct rn_pool p = rn_pool_of(t, N, next);

	(void)state;
	assert_int_equal(rn_pool_left(&p), N);
	for (uint32_t i = 0; i < N; i++)
		t[i].next.next = &t[0].next; /* a value that a lost write would not leave there */
	struct thing *a = rn_pool_pop(&p, struct thing, next), *b = rn_pool_pop(&p, struct thing, next);
	assert_int_equal(a->name, 0);
	assert_int_equal(b->name, 1);
	rn_pool_push_front(&p, &a->next);
	rn_pool_push_front(&p, &b->next);
	assert_int_equal(rn_pool_left(&p), N);
	assert_ptr_equal(rn_pool_pop(&p, struct thing, next), b); /* the free list is last in, first out */
	rn_pool_push_back(&p, &b->next);
	assert_ptr_equal(rn_pool_pop(&p, struct thing, next), a);
	assert_ptr_equal(rn_pool_pop(&p, struct thing, next), b);
	for (uint32_t i = 2; i < N; i++)
		assert_ptr_equal(t[i].next.next, &t[0].next);
	for (uint32_t i = 2; i < N; i++) {
		assert_false(rn_pool_empty(&p));
		assert_ptr_equal(rn_pool_pop(&p, struct thing, next), &t[i]);
	}
	assert_true(rn_pool_empty(&p) && rn_pool_left(&p) == 0);
	assert_null(rn_pool_pop(&p, struct thing, next));
	rn_pool_push_front(&p, &t[5].next);
	assert_false(rn_pool_empty(&p));
	assert_ptr_equal(rn_pool_pop(&p, struct thing, next), &t[5]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(zeroed_memory_is_an_empty_list, clean),
		cmocka_unit_test_setup(objects_are_added_at_both_ends_and_between, clean),
		cmocka_unit_test_setup(an_object_leaves_from_any_place, clean),
		cmocka_unit_test_setup(an_object_lies_in_two_lists, clean),
		cmocka_unit_test_setup(the_loop_may_take_off_and_free_what_it_visits, clean),
		cmocka_unit_test_setup(a_queue_gives_back_in_order_and_a_stack_in_reverse, clean),
		cmocka_unit_test_setup(a_singly_linked_list_may_be_moved, clean),
		cmocka_unit_test_setup(a_doubly_linked_list_is_like_an_array, clean),
		cmocka_unit_test_setup(a_singly_linked_list_is_like_an_array, clean),
		cmocka_unit_test_setup(a_pool_gives_each_object_once_and_touches_no_other, clean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
