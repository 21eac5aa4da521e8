/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the rack: control frames, and what data frames are known by.
 * Covers proto/wire/frame.c proto/base/field_table.c
 * Options -max_len=2000
 *
 * Random bytes do not get past check and tag: the first byte says what is made right before
 * decoding (bit 0: with a key, 1: Ethertype and version, 2: body length, 3: check and tag, 4: the key
 * is the alternate one), so that the codec behind them is reached, and the refusals before it as well.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sodium.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/cursor.h"
#include "proto/wire/frame.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/wire_whole.h"

enum { WITH_KEY = 1, RIGHT_START = 2, RIGHT_LENGTH = 4, RIGHT_SEAL = 8, ALTERNATE = 16 };
enum {
	FRAME_MAX = 2000,
	CHECK_AT = PR_ETHER_LEN + 36,
	BODY_AT = PR_ETHER_LEN + PR_FRAME_HEADER
};

static const struct pr_frame_key frame_key = {
	.set = true, .active = "a key of thirty-two bytes, or so"};
/* while the rack's key is changed */
static const struct pr_frame_key two_keys = {.set = true,
	.alternate_set = true,
	.active = "another key, of thirty-two bytes",
	.alternate = "a key of thirty-two bytes, or so"};

static void
seal(uint8_t *frame, size_t len, const struct pr_frame_key *key)
{
	size_t body = pr_get_be16(frame + PR_ETHER_LEN + 32);
	uint8_t text[FRAME_MAX];
	size_t covered = BODY_AT + body;

	if (covered + PR_FRAME_TAG > len)
		return;
	pr_put_be32(frame + CHECK_AT, 0);
	/* MACs, header and body stand in line but for the Ethertype */
	memcpy(text, frame, 12);
	memcpy(text + 12, frame + PR_ETHER_LEN, covered - PR_ETHER_LEN);
	pr_put_be32(frame + CHECK_AT, (uint32_t)XXH3_64bits(text, covered - 2));
	pr_put_be32(text + CHECK_AT - 2, pr_get_be32(frame + CHECK_AT));
	memset(frame + covered, 0, PR_FRAME_TAG);
	if (key)
		crypto_generichash(frame + covered, PR_FRAME_TAG, text, covered - 2,
			key->active, sizeof key->active);
}

static void
make_right(uint8_t *frame, size_t len, uint8_t what)
{
	if (len < PR_FRAME_OVERHEAD)
		return;
	if (what & RIGHT_START) {
		pr_put_be16(frame + 12, PR_ETHERTYPE_DEFAULT);
		frame[PR_ETHER_LEN] = PR_FRAME_VERSION;
		pr_put_be16(frame + PR_ETHER_LEN + 34, 0);
	}
	if (what & RIGHT_LENGTH)
		pr_put_be16(frame + PR_ETHER_LEN + 32, (uint16_t)(len - PR_FRAME_OVERHEAD));
	if (what & RIGHT_SEAL)
		seal(frame, len, what & WITH_KEY ? &frame_key : NULL);
}

/*
 * What was taken is written again to bytes that are taken, and written, alike; and into no less room. They are the same
 * but for names, of which bytes that are no text are replaced.
 */
static void
check_again(const struct pr_frame *f, const struct pr_frame_key *key, const uint8_t *frame,
	size_t len)
{
	uint8_t again[FRAME_MAX], once_more[FRAME_MAX];
	struct pr_frame taken;
	size_t n = whole_frame(f, PR_ETHERTYPE_DEFAULT, key, again, sizeof again);

	MUST(n > 0 && n <= len);
	for (size_t i = PR_ETHER_LEN + PR_FRAME_HEADER; i < n - PR_FRAME_TAG; i++)
		MUST(again[i] == frame[i] || again[i] == '?');
	MUST(pr_frame_decode(again, n, PR_ETHERTYPE_DEFAULT, key, &taken) == PR_FRAME_OK);
	MUST(whole_frame(&taken, PR_ETHERTYPE_DEFAULT, key, once_more, sizeof once_more) ==
		n);
	MUST(memcmp(again, once_more, n) == 0);
	MUST(whole_frame(f, PR_ETHERTYPE_DEFAULT, key, again, n - 1) == 0);
}

/* As a data frame: a padded one is told by its fingerprint. */
static void
check_fingerprint(const uint8_t *data, size_t len)
{
	uint8_t frame[FRAME_MAX + 8];
	uint32_t print;

	if (len < PR_ETHER_LEN || len > FRAME_MAX)
		return;
	memcpy(frame, data, len);
	print = pr_fingerprint(frame, len, 7);
	memset(frame + len, 0, 8);
	MUST(pr_fingerprint(frame, len + 8, 7) - print == 8 * PR_FINGERPRINT_STEP);
	MUST(pr_ethertype_offset(frame, len) <= len - 2);
}

/* No number is accepted twice, nor one that is older than the window; each other one is. */
static void
check_replay(const uint8_t *steps, size_t count, uint64_t number)
{
	struct pr_replay replay = {0};
	uint64_t accepted[64], highest = 0;

	for (size_t i = 0, n = 0; i < count && n < 64; i++) {
		bool fresh =
			number != UINT64_MAX &&
			(n == 0 || number > highest || highest - number < PR_REPLAY_WINDOW);

		for (size_t j = 0; j < n; j++)
			fresh &= accepted[j] != number;
		MUST(pr_replay_accept(&replay, 1, number) == fresh);
		if (fresh) {
			accepted[n++] = number;
			highest = n == 1 || number > highest ? number : highest;
		}
		number += (uint64_t)((int64_t)(int8_t)steps[i] * (steps[i] & 1 ? 1 : 64));
	}
	MUST(pr_replay_accept(&replay, 2, 5) && !pr_replay_accept(&replay, 2, 5));
}

/* However many times without observation follow, and however the clock steps: the list covers each of them. */
static void
check_observation(const struct pr_observation *was, const uint8_t *steps, size_t count)
{
	struct pr_observation o = *was;
	int64_t begins[40], ends[40], now = 1000;
	size_t n;

	if (o.count == 0)
		pr_observation_begin(&o, PR_UNOBSERVED_BEGIN, now, "");
	for (n = 0; n < 40 && n + 1 < count; n++) {
		const struct pr_unobserved *last;

		now += (int8_t)steps[n];
		pr_observation_lost(&o, PR_UNOBSERVED_STOPPED, now, "user");
		last = &o.items[o.count - 1];
		MUST(o.count <= PR_UNOBSERVED_MAX && last->since == now &&
			last->until == PR_TIME_MAX);
		begins[n] = now;
		now += (int8_t)steps[n + 1];
		MUST(pr_observation_again(&o, now) && last->until >= now);
		ends[n] = last->until;
		MUST(!pr_observation_again(&o, now));
	}
	for (unsigned i = 0; i < o.count; i++)
		MUST(pr_unobserved_valid(&o.items[i]));
	while (n-- > 0) {
		bool covered = false;

		for (unsigned j = 1; j < o.count; j++)
			covered |= o.items[j].since <= begins[n] &&
				   o.items[j].until >= ends[n];
		MUST(covered);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pr_frame f;
	const struct pr_frame_key *key;
	enum pr_frame_result result;
	uint8_t *frame;

	if (size < 1 || size > FRAME_MAX)
		return -1;
	key = data[0] & WITH_KEY ? data[0] & ALTERNATE ? &two_keys : &frame_key : NULL;
	/* of its very size, so that the sanitizer sees a byte too far */
	frame = malloc(size - 1 ? size - 1 : 1);
	if (!frame)
		return -1;
	memcpy(frame, data + 1, size - 1);
	make_right(frame, size - 1, data[0]);
	result = pr_frame_decode(
		frame, size - 1, PR_ETHERTYPE_DEFAULT, key ? &frame_key : NULL, &f);
	MUST(result < PR_FRAME_RESULTS && pr_frame_type_name(data[0]));
	/* the alternate key is as good as the only one */
	MUST(pr_frame_decode(frame, size - 1, PR_ETHERTYPE_DEFAULT, key, &f) == result);
	if (result == PR_FRAME_OK) {
		MUST(f.by_alternate == (key == &two_keys));
		check_again(&f, key ? &frame_key : NULL, frame, size - 1);
		check_replay(frame, size - 1, f.header.number);
	}
	if (result == PR_FRAME_OK && f.header.type == PR_FRAME_UNOBSERVED)
		check_observation(&f.body.observation, frame, size - 1);
	check_fingerprint(frame, size - 1);
	free(frame);
	return 0;
}
