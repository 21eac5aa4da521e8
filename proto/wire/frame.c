/* SPDX-License-Identifier: Apache-2.0 */
#include <sodium.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/wire/frame.h"
#include "proto/wire/frame_body.h"

#define CHECK_OFFSET 36
#define MACS (2 * PR_MAC_LEN)

static uint32_t
check_of(const uint8_t *macs, const uint8_t *payload, size_t len)
{
	static const uint8_t zeros[4];
	XXH3_state_t state;
	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, macs, MACS);
	XXH3_64bits_update(&state, payload, CHECK_OFFSET);
	XXH3_64bits_update(&state, zeros, sizeof zeros);
	XXH3_64bits_update(&state, payload + PR_FRAME_HEADER, len - PR_FRAME_HEADER);
	return (uint32_t)XXH3_64bits_digest(&state);
}

static void
keyed_tag(const uint8_t key[PR_FRAME_KEY], const uint8_t *macs, const uint8_t *payload,
	size_t len, uint8_t tag[PR_FRAME_TAG])
{
	crypto_generichash_state state;

	crypto_generichash_init(&state, key, PR_FRAME_KEY, PR_FRAME_TAG);
	crypto_generichash_update(&state, macs, MACS);
	crypto_generichash_update(&state, payload, len);
	crypto_generichash_final(&state, tag, PR_FRAME_TAG);
}

static void
tag_of(const struct pr_frame_key *key, const uint8_t *macs, const uint8_t *payload,
	size_t len, uint8_t tag[PR_FRAME_TAG])
{
	memset(tag, 0, PR_FRAME_TAG);
	if (key && key->set)
		keyed_tag(key->bytes, macs, payload, len, tag);
}

static bool
tag_good(const struct pr_frame_key *key, const uint8_t *macs, const uint8_t *payload,
	size_t len, bool *by_other)
{
	uint8_t tag[PR_FRAME_TAG];

	*by_other = false;
	tag_of(key, macs, payload, len, tag);
	if (sodium_memcmp(tag, payload + len, PR_FRAME_TAG) == 0)
		return true;
	if (!key || !key->other_set)
		return false;
	*by_other = true;
	keyed_tag(key->other, macs, payload, len, tag);
	return sodium_memcmp(tag, payload + len, PR_FRAME_TAG) == 0;
}

static void
put_header(uint8_t *p, const struct pr_frame_header *h, size_t body_len)
{
	p[0] = PR_FRAME_VERSION;
	p[1] = h->type;
	pr_put_be16(p + 2, h->flags);
	pr_put_be32(p + 4, h->rack);
	pr_put_be64(p + 8, h->epoch);
	pr_put_be64(p + 16, h->number);
	pr_put_be32(p + 24, h->sender_nonce);
	pr_put_be32(p + 28, h->receiver_nonce);
	pr_put_be16(p + 32, (uint16_t)body_len);
	pr_put_be16(p + 34, 0);
	pr_put_be32(p + CHECK_OFFSET, 0);
}

static void
get_header(const uint8_t *p, struct pr_frame_header *h)
{
	h->type = p[1];
	h->flags = pr_get_be16(p + 2);
	h->rack = pr_get_be32(p + 4);
	h->epoch = pr_get_be64(p + 8);
	h->number = pr_get_be64(p + 16);
	h->sender_nonce = pr_get_be32(p + 24);
	h->receiver_nonce = pr_get_be32(p + 28);
}

static const struct pr_frame_row *
row_of(unsigned type)
{
	return type < PR_FRAME_TYPES && pr_frame_rows[type].name ? &pr_frame_rows[type]
								 : NULL;
}

size_t
pr_frame_encode_payload(
	const struct pr_frame *f, const struct pr_frame_key *key, uint8_t *buf, size_t room)
{
	const struct pr_frame_row *row = row_of(f->header.type);
	uint8_t macs[MACS];

	if (!row || room < PR_FRAME_HEADER + PR_FRAME_TAG || (row->valid && !row->valid(f)))
		return 0;
	/* The body first: a TSLOG built in buf may begin where the header goes. */
	struct pr_writer w = pr_writer_make(
		buf + PR_FRAME_HEADER, room - PR_FRAME_HEADER - PR_FRAME_TAG);
	if (!row->encode(row, f, &w) || pr_writer_len(&w) > UINT16_MAX)
		return 0;
	put_header(buf, &f->header, pr_writer_len(&w));

	size_t len = PR_FRAME_HEADER + pr_writer_len(&w);
	memcpy(macs, f->dst, PR_MAC_LEN);
	memcpy(macs + PR_MAC_LEN, f->src, PR_MAC_LEN);
	pr_put_be32(buf + CHECK_OFFSET, check_of(macs, buf, len));
	tag_of(key, macs, buf, len, buf + len);
	return len + PR_FRAME_TAG;
}

size_t
pr_frame_encode(const struct pr_frame *f, uint16_t ethertype,
	const struct pr_frame_key *key, uint8_t *buf, size_t room)
{
	if (room < PR_ETHER_LEN)
		return 0;
	size_t len =
		pr_frame_encode_payload(f, key, buf + PR_ETHER_LEN, room - PR_ETHER_LEN);
	if (len == 0)
		return 0;
	memcpy(buf, f->dst, PR_MAC_LEN);
	memcpy(buf + PR_MAC_LEN, f->src, PR_MAC_LEN);
	pr_put_be16(buf + MACS, ethertype);
	return PR_ETHER_LEN + len;
}

/* Is the payload whole and untouched? *body_len is set when it is. */
static enum pr_frame_result
verify(const uint8_t *data, size_t len, const struct pr_frame_key *key, size_t *body_len,
	bool *by_other)
{
	const uint8_t *payload = data + PR_ETHER_LEN;

	if (len < PR_ETHER_LEN + 1)
		return PR_FRAME_BAD_LENGTH;
	if (payload[0] != PR_FRAME_VERSION)
		return PR_FRAME_BAD_VERSION;
	if (len < PR_FRAME_OVERHEAD)
		return PR_FRAME_BAD_LENGTH;
	*body_len = pr_get_be16(payload + 32);
	if (*body_len > len - PR_FRAME_OVERHEAD)
		return PR_FRAME_BAD_LENGTH;

	size_t covered = PR_FRAME_HEADER + *body_len;
	if (pr_get_be32(payload + CHECK_OFFSET) != check_of(data, payload, covered))
		return PR_FRAME_BAD_CHECK;
	if (!tag_good(key, data, payload, covered, by_other))
		return PR_FRAME_BAD_TAG;
	/* Of this version, and yet with something in it that this version does not have. */
	return pr_get_be16(payload + 34) == 0 ? PR_FRAME_OK : PR_FRAME_BAD_VERSION;
}

enum pr_frame_result
pr_frame_decode(const uint8_t *data, size_t len, uint16_t ethertype,
	const struct pr_frame_key *key, struct pr_frame *out)
{
	size_t body_len;
	bool by_other;

	if (!pr_is_control(data, len, ethertype))
		return PR_FRAME_NOT_OURS;
	enum pr_frame_result result = verify(data, len, key, &body_len, &by_other);
	if (result != PR_FRAME_OK)
		return result;

	memset(out, 0, sizeof *out);
	out->by_other = by_other;
	memcpy(out->dst, data, PR_MAC_LEN);
	memcpy(out->src, data + PR_MAC_LEN, PR_MAC_LEN);
	get_header(data + PR_ETHER_LEN, &out->header);
	const struct pr_frame_row *row = row_of(out->header.type);
	if (!row)
		return PR_FRAME_BAD_TYPE;

	struct pr_cursor c =
		pr_cursor_make(data + PR_ETHER_LEN + PR_FRAME_HEADER, body_len);
	if (!row->decode(row, &c, out) || pr_cursor_left(&c) ||
		(row->valid && !row->valid(out)))
		return PR_FRAME_BAD_BODY;
	return PR_FRAME_OK;
}

const char *
pr_frame_result_name(enum pr_frame_result result)
{
	static const char *const names[PR_FRAME_RESULTS] = {
		[PR_FRAME_OK] = "ok",
		[PR_FRAME_NOT_OURS] = "not_ours",
		[PR_FRAME_BAD_LENGTH] = "bad_length",
		[PR_FRAME_BAD_VERSION] = "bad_version",
		[PR_FRAME_BAD_TYPE] = "bad_type",
		[PR_FRAME_BAD_CHECK] = "bad_check",
		[PR_FRAME_BAD_TAG] = "bad_tag",
		[PR_FRAME_BAD_BODY] = "bad_body",
	};
	return (unsigned)result < PR_FRAME_RESULTS ? names[result] : "?";
}

const char *
pr_frame_type_name(unsigned type)
{
	const struct pr_frame_row *row = row_of(type);
	return row ? row->name : "?";
}
