/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/rack_state.h"

#include <sodium.h>

#include "proto/base/array.h"
#include "proto/base/log.h"

const struct pr_state_verb *
pr_state_verb(const char *name)
{
	static const struct pr_state_verb verbs[] = {{"suspend", "suspend", false},
		{"resume", "suspend", true}, {"move", "move", false},
		{"unmove", "move", true}, {"class-add", "class", false},
		{"class-set", "class", false}, {"class-remove", "class", true}};

	for (size_t i = 0; i < PR_COUNT(verbs); i++)
		if (!strcmp(verbs[i].name, name))
			return &verbs[i];
	return NULL;
}

static size_t
place(const struct pr_rack_state *s, const char *key, bool *known)
{
	size_t at = PR_ARRAY_SEARCH(s->count, strcmp(s->items[mid]->key, key) < 0);

	*known = at < s->count && !strcmp(s->items[at]->key, key);
	return at;
}

const Packrack__SteerRule *
pr_state_find(const struct pr_rack_state *s, const char *key)
{
	bool known;
	size_t at = place(s, key, &known);

	return known ? s->items[at] : NULL;
}

int64_t
pr_state_time(const struct pr_rack_state *s, int64_t now)
{
	for (size_t i = 0; i < s->count; i++)
		now = PR_MAX(now, s->items[i]->at + 1);
	return now;
}

/* An item has few bytes: refused before, if not. */
enum {
	OTHER_BYTES = PR_STATE_CLASS_TEXT + 6 * PR_MESSAGE_NAME_MAX,
	ITEM_BYTES = OTHER_BYTES + PR_STATE_HOLD_BYTES
};

static int
compare(const Packrack__SteerRule *a, const Packrack__SteerRule *b)
{
	uint8_t x[ITEM_BYTES], y[ITEM_BYTES];

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	size_t n = packrack__steer_rule__pack(a, x), m = packrack__steer_rule__pack(b, y);
	int order = memcmp(x, y, PR_MIN(n, m));
	return order ? order : (n > m) - (n < m);
}

static uint64_t
digest_of(Packrack__SteerRule *const *items, size_t count)
{
	uint8_t bytes[ITEM_BYTES], out[crypto_generichash_BYTES];
	crypto_generichash_state hash;
	uint64_t digest;

	crypto_generichash_init(&hash, NULL, 0, sizeof out);
	for (size_t i = 0; i < count; i++)
		crypto_generichash_update(
			&hash, bytes, packrack__steer_rule__pack(items[i], bytes));
	crypto_generichash_final(&hash, out, sizeof out);
	memcpy(&digest, out, sizeof digest);
	return count ? digest >> 1 : 0; /* a number that is shown has 63 bits */
}

bool
pr_state_is(const Packrack__RackState *message)
{
	for (size_t i = 0; i < message->n_items; i++)
		if (packrack__steer_rule__get_packed_size(message->items[i]) > ITEM_BYTES)
			return false;
	return digest_of(message->items, message->n_items) == message->digest;
}

static bool
has_ended(const Packrack__SteerRule *item, int64_t now)
{
	return item->until && item->until <= now;
}

static void
drop(struct pr_rack_state *s, size_t at)
{
	packrack__steer_rule__free_unpacked(s->items[at], NULL);
	memmove(&s->items[at], &s->items[at + 1], (--s->count - at) * sizeof *s->items);
}

/* Only holds have many bytes, and there are few of them; the key of one is of its name. */
static bool
is_allowed(const struct pr_rack_state *s, const Packrack__SteerRule *item)
{
	size_t holds = 0, bytes = packrack__steer_rule__get_packed_size(item);
	bool hold = !strcmp(item->verb, "hold");

	if (!item->hold)
		return !hold && bytes <= OTHER_BYTES;
	if (!hold || strncmp(item->key, "hold ", 5) != 0 ||
		strcmp(item->key + 5, item->hold->name) != 0)
		return false;
	for (size_t i = 0; i < s->count; i++)
		holds += s->items[i]->hold && !s->items[i]->removed &&
			 strcmp(s->items[i]->key, item->key) != 0;
	return bytes <= ITEM_BYTES &&
	       (item->removed ? !item->hold->query : holds < PR_STATE_HOLDS);
}

/* As pr_state_put, without a new digest. */
static int
take(struct pr_rack_state *s, const Packrack__SteerRule *item, int64_t now,
	struct pr_error *err)
{
	bool known;
	size_t at = place(s, item->key, &known);

	if (!item->key[0] || !is_allowed(s, item))
		return pr_error_set(err, "a change without the right key, that is too "
					 "long, or a hold too many");
	if (has_ended(item, now) || (known && compare(item, s->items[at]) <= 0))
		return 0;
	if (!known && s->count == PR_STATE_MAX)
		return pr_error_set(err, "there are %d changes already", PR_STATE_MAX);
	Packrack__SteerRule *copy = pr_message_copy(&item->base);
	int rc = 0;
	if (!copy || (!known && PR_ARRAY_GROW(s->items, s->count) < 0))
		rc = pr_error_set(err, "no memory for a change");
	else if (s->apply)
		rc = s->apply(s->arg, item, err);
	if (rc < 0) {
		packrack__steer_rule__free_unpacked(copy, NULL);
		return -1;
	}
	if (known)
		drop(s, at);
	memmove(&s->items[at + 1], &s->items[at], (s->count++ - at) * sizeof *s->items);
	s->items[at] = copy;
	if (s->apply)
		pr_log_with(PR_LOG_INFO,
			PR_LOG_FIELDS({"command", item->verb}, {"user", item->user}),
			"'%s'%s by %s%s%s", item->key, item->removed ? " is removed" : "",
			item->user[0] ? item->user : "a user", item->reason[0] ? ": " : "",
			item->reason);
	return 1;
}

int
pr_state_put(struct pr_rack_state *s, const Packrack__SteerRule *item, int64_t now,
	struct pr_error *err)
{
	int rc = take(s, item, now, err);

	if (rc > 0)
		s->digest = digest_of(s->items, s->count);
	return rc;
}

unsigned
pr_state_merge(struct pr_rack_state *s, const Packrack__RackState *from, int64_t now)
{
	struct pr_error err;
	unsigned taken = 0;
	bool refused = false;

	for (size_t i = 0; i < from->n_items; i++) {
		const Packrack__SteerRule *item = from->items[i];
		int rc = take(s, item, now, &err);

		if (rc < 0 && s->refused != from->digest)
			pr_log_warning("%s: %s", item->key, err.text);
		refused |= rc < 0;
		taken += rc > 0;
	}
	if (refused)
		s->refused = from->digest;
	if (taken)
		s->digest = digest_of(s->items, s->count);
	return taken;
}

void
pr_state_expire(struct pr_rack_state *s, int64_t now)
{
	size_t before = s->count;
	struct pr_error err;

	for (size_t i = s->count; i-- > 0;) {
		Packrack__SteerRule gone = *s->items[i];

		if (!has_ended(&gone, now))
			continue;
		if (!gone.removed) {
			gone.removed = true;
			if (s->apply && s->apply(s->arg, &gone, &err) < 0)
				continue;
			pr_log_info("'%s' of %s is over", gone.key,
				gone.user[0] ? gone.user : "a user");
		}
		drop(s, i);
	}
	if (s->count != before)
		s->digest = digest_of(s->items, s->count);
}

Packrack__RackState
pr_state_message(const struct pr_rack_state *s)
{
	Packrack__RackState m = PACKRACK__RACK_STATE__INIT;

	m.items = s->items;
	m.n_items = s->count;
	m.digest = s->digest;
	return m;
}

bool
pr_state_exchange(struct pr_rack_state *s, const Packrack__RackState *from, int64_t now,
	Packrack__RackState *reply)
{
	pr_state_merge(s, from, now);
	*reply = pr_state_message(s);
	return reply->digest != from->digest;
}

void
pr_state_free(struct pr_rack_state *s)
{
	while (s->count)
		drop(s, s->count - 1);
	free(s->items);
	*s = (struct pr_rack_state){0};
}
