/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/rack_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/log.h"
#include "tests/unit/draw.h"
#include "tests/unit/unit.h"

/* Programs that tell each other what they know, in any order, end with the same: of each key the latest change. */

enum { KEYS = 12, PROGRAMS = 5, CHANGES = 60, TIMES = 40 };

struct change {
	char key[32], text[32];
	Packrack__SteerRule item;
};

static struct pr_error err;

static void
draw_change(struct change *c, int64_t at)
{
	snprintf(c->key, sizeof c->key, "move 10.0.0.%u", draw(KEYS));
	snprintf(c->text, sizeof c->text, "text %u", draw(4));
	packrack__steer_rule__init(&c->item);
	c->item.verb = (char *)"move";
	c->item.key = c->key;
	c->item.what = c->text;
	c->item.at = at;
	c->item.removed = draw(3) == 0;
	c->item.until = draw(2) ? 1000 + draw(1000) : 0;
}

static int
order(const Packrack__SteerRule *a, const Packrack__SteerRule *b)
{
	uint8_t x[512], y[512];
	size_t n, m;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	n = packrack__steer_rule__pack(a, x);
	m = packrack__steer_rule__pack(b, y);
	int rc = memcmp(x, y, n < m ? n : m);
	return rc ? rc : (int)n - (int)m;
}

/* The latest of a key, by looking at all changes. */
static const Packrack__SteerRule *
model(const struct change *changes, unsigned count, const char *key)
{
	const Packrack__SteerRule *best = NULL;

	for (unsigned i = 0; i < count; i++)
		if (!strcmp(changes[i].key, key) &&
			(!best || order(&changes[i].item, best) > 0))
			best = &changes[i].item;
	return best;
}

static void
tells(const struct pr_rack_state *from, struct pr_rack_state *to)
{
	Packrack__RackState message = pr_state_message(from);

	unit_must(pr_state_is(&message));
	pr_state_merge(to, &message, 1);
}

START_TEST(all_end_with_the_same)
{
	struct pr_rack_state programs[PROGRAMS] = {{.count = 0}};
	struct change changes[CHANGES];
	char key[32];

	seed = (uint32_t)_i;
	for (unsigned i = 0; i < CHANGES; i++) {
		draw_change(&changes[i], 1 + draw(TIMES));
		pr_state_put(&programs[draw(PROGRAMS)], &changes[i].item, 1, &err);
		if (draw(3) == 0)
			tells(&programs[draw(PROGRAMS)], &programs[draw(PROGRAMS)]);
	}
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < PROGRAMS; i++)
			tells(&programs[i], &programs[(i + 1) % PROGRAMS]);
	for (unsigned i = 0; i < PROGRAMS; i++) {
		unit_must(programs[i].digest == programs[0].digest && programs[0].digest);
		for (int k = 0; k < KEYS; k++) {
			snprintf(key, sizeof key, "move 10.0.0.%d", k);
			const Packrack__SteerRule *want = model(changes, CHANGES, key),
						  *have = pr_state_find(&programs[i], key);
			unit_must(!want == !have);
			unit_must(!want || order(want, have) == 0);
		}
	}
	/* what has ended goes, everywhere alike, and nobody takes it again */
	struct pr_rack_state before = programs[0];
	programs[0] = (struct pr_rack_state){0};
	for (unsigned i = 1; i < PROGRAMS; i++) {
		Packrack__RackState message = pr_state_message(&before);

		pr_state_expire(&programs[i], 1500);
		pr_state_merge(&programs[i], &message, 1500);
		unit_must(programs[i].digest == programs[1].digest);
		for (size_t k = 0; k < programs[i].count; k++)
			unit_must(!programs[i].items[k]->until ||
				  programs[i].items[k]->until > 1500);
	}
	pr_state_free(&before);
	for (unsigned i = 0; i < PROGRAMS; i++)
		pr_state_free(&programs[i]);
}
END_TEST

/* ---- what is refused is offered again ---- */

static int
apply(void *arg, const Packrack__SteerRule *item, struct pr_error *why)
{
	int *left = arg;

	if (item->removed && item->until && item->until <= 1500)
		++left[1];
	return left[0]-- > 0 ? 0 : pr_error_set(why, "no");
}

START_TEST(refused_comes_again)
{
	int left[2] = {1, 0};
	struct pr_rack_state s = {.apply = apply, .arg = left}, other = {.count = 0};
	struct change a, b;

	seed = 1;
	draw_change(&a, 1);
	do
		draw_change(&b, 2);
	while (!strcmp(a.key, b.key));
	a.item.removed = b.item.removed = false;
	a.item.until = b.item.until = 1500;
	ck_assert_int_eq(pr_state_put(&other, &a.item, 1, &err), 1);
	ck_assert_int_eq(pr_state_put(&other, &b.item, 1, &err), 1);
	ck_assert_int_eq(pr_state_put(&other, &b.item, 1, &err), 0);
	tells(&other, &s);
	ck_assert_uint_eq(s.count, 1);
	ck_assert_uint_ne(s.digest, other.digest);
	left[0] = 1;
	tells(&other, &s);
	ck_assert_uint_eq(s.count, 2);
	ck_assert_uint_eq(s.digest, other.digest);
	/* its end, too */
	left[0] = 1;
	pr_state_expire(&s, 1500);
	ck_assert_uint_eq(s.count, 1);
	left[0] = 1;
	pr_state_expire(&s, 1500);
	ck_assert_uint_eq(s.count, 0);
	ck_assert_uint_eq(s.digest, 0);
	ck_assert_int_eq(left[1], 3);
	pr_state_free(&s);
	pr_state_free(&other);
}
END_TEST

/* Its size has a limit, and a change without sense is refused. */
START_TEST(limits)
{
	struct pr_rack_state s = {.count = 0};
	struct change c;
	char long_text[PR_STATE_CLASS_TEXT + 7 * PR_MESSAGE_NAME_MAX];

	seed = 2;
	draw_change(&c, 1);
	c.item.until = 0;
	for (int i = 0; i < PR_STATE_MAX; i++) {
		snprintf(c.key, sizeof c.key, "key %d", i * 7919 % PR_STATE_MAX);
		unit_must(pr_state_put(&s, &c.item, 1, &err) == 1);
	}
	ck_assert_uint_eq(s.count, PR_STATE_MAX);
	snprintf(c.key, sizeof c.key, "one more");
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "4352 changes already"));
	snprintf(c.key, sizeof c.key, "key 5");
	c.item.at = pr_state_time(&s, 1);
	ck_assert_int_eq(c.item.at, 2);
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), 1);
	c.key[0] = 0;
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), -1);
	snprintf(c.key, sizeof c.key, "key 6");
	memset(long_text, 'x', sizeof long_text);
	long_text[sizeof long_text - 1] = 0;
	c.item.text = long_text;
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), -1);
	/* a digest that is another's */
	Packrack__RackState message = pr_state_message(&s);
	ck_assert(pr_state_is(&message));
	message.n_items--;
	ck_assert(!pr_state_is(&message));
	pr_state_free(&s);
}
END_TEST

/* Holds have more bytes, so there are few of them; what is released is small, and does not count. */
START_TEST(holds)
{
	struct pr_rack_state s = {.count = 0}, other = {.count = 0};
	Packrack__Hold hold = PACKRACK__HOLD__INIT;
	Packrack__Query query = PACKRACK__QUERY__INIT;
	static char text[PR_STATE_HOLD_BYTES];
	struct change c;

	memset(text, 'x', sizeof text - 1);
	query.text = text;
	hold.query = &query;
	hold.id = 7;
	draw_change(&c, 1);
	c.item.until = 0;
	c.item.removed = false;
	c.item.hold = &hold;
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), -1); /* its verb is another */
	c.item.verb = (char *)"hold";
	hold.name = c.key + 5;
	for (int i = 0; i < PR_STATE_HOLDS; i++) {
		snprintf(c.key, sizeof c.key, "hold %d", i);
		ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), 1);
	}
	snprintf(c.key, sizeof c.key, "hold more");
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), -1);
	tells(&s, &other);
	ck_assert_uint_eq(s.digest, other.digest);
	ck_assert_uint_eq(other.items[3]->hold->id, 7);
	snprintf(c.key, sizeof c.key, "hole 3");
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), -1); /* its key is another */
	/* one is released */
	snprintf(c.key, sizeof c.key, "hold 3");
	c.item.at = 2;
	c.item.removed = true;
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), -1); /* with its query */
	hold.query = NULL;
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), 1);
	snprintf(c.key, sizeof c.key, "hold more");
	hold.query = &query;
	c.item.removed = false;
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), 1);
	tells(&s, &other);
	ck_assert_uint_eq(s.digest, other.digest);
	c.item.hold = NULL;
	c.item.at = 3;
	ck_assert_int_eq(pr_state_put(&s, &c.item, 1, &err), -1);
	pr_state_free(&s);
	pr_state_free(&other);
}
END_TEST

static void
fill(TCase *t)
{
	pr_log_open("test_rack_state", PR_LOG_ERROR, PR_LOG_AUTO);
	tcase_add_loop_test(t, all_end_with_the_same, 0, 400);
	tcase_add_test(t, refused_comes_again);
	tcase_add_test(t, limits);
	tcase_add_test(t, holds);
}

int
main(void)
{
	return unit_run("rack state", fill);
}
