/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/wire/frame.h"

#include <sodium.h>

#include "proto/wire/fingerprint.h"

#define MACS (2 * PR_MAC_LEN)

/* ---- bodies ---- */

/* Field order is the wire's; frame.h documents it. All big-endian. */

static const struct pr_field ann_items[] = {PR_NAME(pr_ann, name), PR_NAME(pr_ann, version),
	PR_INTS(pr_ann, disk_total, disk_free, write_rate, buffer_size, link_speed, mtu)};

static const struct pr_field ann_ack_items[] = {
	PR_INTS(pr_ann_ack, node, hold_ns, snaplen)};

static const struct pr_field status_items[] = {
	PR_INTS(pr_status, state, buffer_fill, ordinal_settled, frames_received,
		bytes_received, packets_stored, bytes_stored, packets_durable),
	PR_INTS(pr_status, missing, stray, duplicate, pending, kernel_drops, logs_received,
		logs_requested, logs_gone),
	PR_INTS(pr_status, disk_total, disk_free, write_rate, command, command_type),
	PR_BOOL(pr_status, command_result)};

static const struct pr_field mark_items[] = {PR_INTS(pr_mark, said_until, next_ordinal),
	PR_BOOL(pr_mark, stopping), PR_INTS(pr_mark, link_count, count)};

static const struct pr_field mark_link_items[] = {
	PR_INTS(pr_mark_link, link, linktype, snaplen), PR_BOOL(pr_mark_link, ended),
	PR_INTS(pr_mark_link, last_seq, last_otime, last_log, assigned, dropped_kernel,
		dropped_interface, dropped_ring, dropped_no_node),
	PR_INTS(pr_mark_link, dropped_send, cut, undelivered_first, undelivered_last),
	PR_NAME(pr_mark_link, name)};
const struct pr_field_table pr_mark_link_fields = PR_FIELD_TABLE(mark_link_items);

static const struct pr_field resend_items[] = {
	PR_INTS(pr_resend, link, first_log, last_log)};

static const struct pr_field gone_items[] = {PR_INTS(pr_gone, link, first_log, last_log,
	first_seq, last_seq, first_time, last_time, count)};

static const struct pr_field command_items[] = {PR_INTS(pr_command, command, seconds)};

static const struct pr_field port_items[] = {PR_INTS(pr_port, link, speed, clock.timestamps,
	clock.state, clock.steps, clock.stepped, clock.step)};

static const struct pr_field class_items[] = {PR_INTS(pr_class, number, guarantee, keep),
	PR_NAME(pr_class, name), PR_INT(pr_class, memory)};
const struct pr_field_table pr_class_fields = PR_FIELD_TABLE(class_items);

static const struct pr_field observation_items[] = {
	PR_INTS(pr_observation, link, generation, count)};

static const struct pr_field unobserved_items[] = {
	PR_INTS(pr_unobserved, reason, since, until), PR_NAME(pr_unobserved, by)};
const struct pr_field_table pr_unobserved_fields = PR_FIELD_TABLE(unobserved_items);

/* The wire table: a row a frame type. */
static const struct row {
	const char *name;
	/* of the union member; MARK, UNOBSERVED: of what comes first */
	struct pr_field_table fields;
	size_t newer; /* of them; older versions have not these last ones */
} rows[PR_FRAME_TYPES] = {[PR_FRAME_ANN] = {"ANN", PR_FIELD_TABLE(ann_items)},
	[PR_FRAME_ANN_ACK] = {"ANN_ACK", PR_FIELD_TABLE(ann_ack_items)},
	[PR_FRAME_STATUS] = {"STATUS", PR_FIELD_TABLE(status_items)},
	[PR_FRAME_TSLOG] = {"TSLOG", {NULL, 0}},
	[PR_FRAME_MARK] = {"MARK", PR_FIELD_TABLE(mark_items)},
	[PR_FRAME_RESEND] = {"RESEND", PR_FIELD_TABLE(resend_items)},
	[PR_FRAME_GONE] = {"GONE", PR_FIELD_TABLE(gone_items)},
	[PR_FRAME_STOP] = {"STOP", PR_FIELD_TABLE(command_items)},
	[PR_FRAME_QUIT] = {"QUIT", PR_FIELD_TABLE(command_items)},
	[PR_FRAME_IDENTIFY] = {"IDENTIFY", PR_FIELD_TABLE(command_items)},
	[PR_FRAME_RESET] = {"RESET", PR_FIELD_TABLE(command_items)},
	[PR_FRAME_DISCONNECT] = {"DISCONNECT", PR_FIELD_TABLE(command_items)},
	[PR_FRAME_RECONNECT] = {"RECONNECT", PR_FIELD_TABLE(command_items)},
	[PR_FRAME_PORT] = {"PORT", PR_FIELD_TABLE(port_items), 5},
	[PR_FRAME_UNOBSERVED] = {"UNOBSERVED", PR_FIELD_TABLE(observation_items)},
	[PR_FRAME_CLASS] = {"CLASS", PR_FIELD_TABLE(class_items), 1}};

/* Holds for what is sent and for what is taken. */
static bool
valid(const struct pr_frame *f)
{
	const struct pr_status *s = &f->body.status;
	const struct pr_mark *m = &f->body.mark;
	const struct pr_resend *r = &f->body.resend;
	const struct pr_gone *g = &f->body.gone;

	switch (f->header.type) {
	case PR_FRAME_ANN:
		return f->body.ann.name[0] != '\0';
	case PR_FRAME_ANN_ACK:
		/* half the range of int64_t: a receiver may add the hold time to any time of this age */
		return f->body.ann_ack.hold_ns <= INT64_MAX / 2;
	case PR_FRAME_STATUS:
		return s->state <= PR_NODE_SUSPENDED && s->buffer_fill <= 100 &&
		       s->command_type < PR_FRAME_TYPES;
	case PR_FRAME_MARK:
		return m->count <= PR_MARK_LINKS_MAX && m->count <= m->link_count;
	case PR_FRAME_RESEND:
		return r->first_log >= 1 && r->first_log <= r->last_log;
	case PR_FRAME_GONE:
		return g->first_log >= 1 && g->first_log <= g->last_log &&
		       ((g->first_seq >= 1 && g->first_seq <= g->last_seq) ||
			       (g->first_seq == 0 && g->last_seq == 0));
	case PR_FRAME_PORT:
		return pr_port_valid(f->body.port.speed, &f->body.port.clock);
	case PR_FRAME_CLASS:
		return pr_class_valid(&f->body.class);
	case PR_FRAME_UNOBSERVED:
		return f->body.observation.generation != 0 &&
		       f->body.observation.count <= PR_UNOBSERVED_MAX;
	}
	return true;
}

/* What a MARK or an UNOBSERVED lists behind its first fields: how many items, and of which fields. */
static unsigned
list_of(const struct pr_frame *f, const struct pr_field_table **fields)
{
	*fields = f->header.type == PR_FRAME_MARK ? &pr_mark_link_fields
						  : &pr_unobserved_fields;
	return f->header.type == PR_FRAME_MARK         ? f->body.mark.count
	       : f->header.type == PR_FRAME_UNOBSERVED ? f->body.observation.count
						       : 0;
}

bool
pr_class_valid(const struct pr_class *c)
{
	return c->number && c->number <= PR_CLASS_MAX && c->guarantee <= 1000 &&
	       c->memory <= 1000 && c->keep >= 0 && c->name[0];
}

const char *const pr_degree_suffixes[PR_DEGREES] = {"", "", PR_CLASS_CUT, PR_CLASS_HEADERS};

bool
pr_class_is_degree(const char *name, const char *of, enum pr_degree degree)
{
	size_t len = strlen(of);

	return strncmp(name, of, len) == 0 &&
	       strcmp(name + len, pr_degree_suffixes[degree]) == 0;
}

enum pr_degree
pr_class_degree(const char *name)
{
	size_t len = strlen(name);

	if (strncmp(name, PR_CLASS_HOLD, strlen(PR_CLASS_HOLD)) == 0)
		return PR_DEGREE_HOLD;
	for (enum pr_degree d = PR_DEGREE_CUT; d < PR_DEGREES; d++) {
		size_t suffix = strlen(pr_degree_suffixes[d]);

		if (len > suffix && strcmp(name + len - suffix, pr_degree_suffixes[d]) == 0)
			return d;
	}
	return PR_DEGREE_NONE;
}

bool
pr_unobserved_valid(const struct pr_unobserved *u)
{
	return u->reason && u->reason < PR_UNOBSERVED_REASONS && u->since <= u->until;
}

/* Such a body is written as older versions write it: without a share of memory, without a clock. */
static bool
is_older(const struct pr_frame *f)
{
	return f->header.type == PR_FRAME_CLASS  ? !f->body.class.memory
	       : f->header.type == PR_FRAME_PORT ? !pr_clock_known(&f->body.port.clock)
						 : false;
}

static bool
encode_body(const struct pr_frame *f, struct pr_writer *w)
{
	const struct pr_field_table *fields;
	unsigned count = list_of(f, &fields);

	if (f->header.type == PR_FRAME_TSLOG) {
		if (f->body.raw.len == 0 || pr_writer_room(w) < f->body.raw.len)
			return false;
		/* the log may have been built in the frame's own buffer */
		memmove(w->at, f->body.raw.data, f->body.raw.len);
		w->at += f->body.raw.len;
		return true;
	}
	struct pr_field_table own = rows[f->header.type].fields;
	own.count -= is_older(f) ? rows[f->header.type].newer : 0;
	if (!pr_field_table_store(w, &f->body, &own, PR_BIG_ENDIAN))
		return false;
	for (unsigned i = 0; i < count; i++) {
		const struct pr_unobserved *u = &f->body.observation.items[i];
		bool mark = f->header.type == PR_FRAME_MARK;

		if ((!mark && !pr_unobserved_valid(u)) ||
			!pr_field_table_store(w,
				mark ? (const void *)&f->body.mark.links[i] : u, fields,
				PR_BIG_ENDIAN))
			return false;
	}
	return true;
}

static bool
decode_body(struct pr_cursor *c, struct pr_frame *f)
{
	const struct pr_field_table *fields;
	bool mark = f->header.type == PR_FRAME_MARK;

	if (f->header.type == PR_FRAME_TSLOG) {
		f->body.raw.len = pr_cursor_left(c);
		return f->body.raw.len > 0 &&
		       pr_load_bytes(c, &f->body.raw.data, f->body.raw.len);
	}
	const struct row *row = &rows[f->header.type];
	const size_t older = row->fields.count - row->newer;
	const struct pr_field_table first = {row->fields.items, older},
				    more = {row->fields.items + older, row->newer};
	if (!pr_field_table_load(c, &f->body, &first, PR_BIG_ENDIAN) ||
		(row->newer && pr_cursor_left(c) &&
			!pr_field_table_load(c, &f->body, &more, PR_BIG_ENDIAN)) ||
		!valid(f))
		return false;
	unsigned count = list_of(f, &fields);
	for (unsigned i = 0; i < count; i++) {
		struct pr_unobserved *u = &f->body.observation.items[i];

		if (!pr_field_table_load(c, mark ? (void *)&f->link_room[i] : u, fields,
			    PR_BIG_ENDIAN) ||
			(!mark && !pr_unobserved_valid(u)))
			return false;
	}
	if (mark)
		f->body.mark.links = f->link_room;
	return true;
}

/* ---- frames ---- */

#define CHECK_OFFSET 36

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
	return XXH3_64bits_digest(&state);
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
		keyed_tag(key->active, macs, payload, len, tag);
}

static bool
tag_good(const struct pr_frame_key *key, const uint8_t *macs, const uint8_t *payload,
	size_t len, bool *by_alternate)
{
	uint8_t tag[PR_FRAME_TAG];

	tag_of(key, macs, payload, len, tag);
	*by_alternate = sodium_memcmp(tag, payload + len, PR_FRAME_TAG) != 0;
	if (!*by_alternate || !key || !key->alternate_set)
		return !*by_alternate;
	keyed_tag(key->alternate, macs, payload, len, tag);
	return sodium_memcmp(tag, payload + len, PR_FRAME_TAG) == 0;
}

/* Bytes 1 to 31 of the header. */
static const struct pr_field header_items[] = {PR_INTS(
	pr_frame_header, type, flags, rack, epoch, number, sender_nonce, receiver_nonce)};
static const struct pr_field_table header_fields = PR_FIELD_TABLE(header_items);
#define FIELDS_END 32

static const struct row *
row_of(unsigned type)
{
	return type < PR_FRAME_TYPES && rows[type].name ? &rows[type] : NULL;
}

size_t
pr_frame_encode_payload(
	const struct pr_frame *f, const struct pr_frame_key *key, uint8_t *buf, size_t room)
{
	struct pr_writer head = pr_writer_make(buf + 1, FIELDS_END - 1), w;
	uint8_t macs[MACS];

	if (!row_of(f->header.type) || room < PR_FRAME_HEADER + PR_FRAME_TAG || !valid(f))
		return 0;
	/* The body first: a TSLOG built in buf may begin where the header goes. */
	w = pr_writer_make(buf + PR_FRAME_HEADER, room - PR_FRAME_HEADER - PR_FRAME_TAG);
	if (!encode_body(f, &w) || pr_writer_len(&w) > UINT16_MAX)
		return 0;
	buf[0] = PR_FRAME_VERSION;
	pr_put_be16(buf + 32, pr_writer_len(&w));
	pr_put_be16(buf + 34, 0);
	pr_put_be32(buf + CHECK_OFFSET, 0);
	if (!pr_field_table_store(&head, &f->header, &header_fields, PR_BIG_ENDIAN))
		return 0;
	size_t len = PR_FRAME_HEADER + pr_writer_len(&w);
	memcpy(macs, f->dst, PR_MAC_LEN);
	memcpy(macs + PR_MAC_LEN, f->src, PR_MAC_LEN);
	pr_put_be32(buf + CHECK_OFFSET, check_of(macs, buf, len));
	tag_of(key, macs, buf, len, buf + len);
	return len + PR_FRAME_TAG;
}

/* Is the payload whole and untouched? *body_len is set when it is. */
static enum pr_frame_result
verify(const uint8_t *data, size_t len, const struct pr_frame_key *key, size_t *body_len,
	bool *by_alternate)
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
	if (!tag_good(key, data, payload, covered, by_alternate))
		return PR_FRAME_BAD_TAG;
	/* Reserved bytes are set: a field that this version does not have. */
	return pr_get_be16(payload + 34) == 0 ? PR_FRAME_OK : PR_FRAME_BAD_VERSION;
}

enum pr_frame_result
pr_frame_decode(const uint8_t *data, size_t len, uint16_t ethertype,
	const struct pr_frame_key *key, struct pr_frame *out)
{
	const uint8_t *payload = data + PR_ETHER_LEN;
	size_t body_len;
	bool by_alternate;

	if (!pr_is_control(data, len, ethertype))
		return PR_FRAME_NOT_OURS;
	enum pr_frame_result result = verify(data, len, key, &body_len, &by_alternate);
	if (result != PR_FRAME_OK)
		return result;
	memset(out, 0, sizeof *out);
	out->by_alternate = by_alternate;
	memcpy(out->dst, data, PR_MAC_LEN);
	memcpy(out->src, data + PR_MAC_LEN, PR_MAC_LEN);
	struct pr_cursor c = pr_cursor_make(payload + 1, FIELDS_END - 1);
	if (!pr_field_table_load(&c, &out->header, &header_fields, PR_BIG_ENDIAN) ||
		!row_of(out->header.type))
		return PR_FRAME_BAD_TYPE;
	c = pr_cursor_make(payload + PR_FRAME_HEADER, body_len);
	return decode_body(&c, out) && pr_cursor_left(&c) == 0 ? PR_FRAME_OK
							       : PR_FRAME_BAD_BODY;
}

const char *
pr_frame_type_name(unsigned type)
{
	const struct row *row = row_of(type);
	return row ? row->name : "?";
}

/* ---- what was not observed ---- */

static struct pr_unobserved
unobserved(enum pr_unobserved_reason reason, int64_t since, int64_t until, const char *by)
{
	struct pr_unobserved u = {.reason = reason, .since = since, .until = until};

	strncpy(u.by, by, PR_NAME_MAX);
	return u;
}

void
pr_observation_begin(struct pr_observation *o, enum pr_unobserved_reason reason,
	int64_t until, const char *by)
{
	o->items[0] = unobserved(reason, PR_TIME_MIN, until, by);
	o->count += o->count == 0;
}

bool
pr_observation_again(struct pr_observation *o, int64_t until)
{
	struct pr_unobserved *last = o->count > 1 ? &o->items[o->count - 1] : NULL;

	if (!last || last->until != PR_TIME_MAX)
		return false;
	last->until = PR_MAX(until, last->since);
	return true;
}

void
pr_observation_lost(struct pr_observation *o, enum pr_unobserved_reason reason,
	int64_t since, const char *by)
{
	struct pr_unobserved *oldest = &o->items[1], *next = &o->items[2];

	pr_observation_again(o, since);
	if (o->count == PR_UNOBSERVED_MAX) {
		if (oldest->until >= pr_time_minus(since, PR_OBSERVATION_TOLD_NS))
			pr_time_widen(
				&next->since, &next->until, oldest->since, oldest->until);
		memmove(oldest, next, (--o->count - 1) * sizeof *oldest);
	}
	o->items[o->count++] = unobserved(reason, since, PR_TIME_MAX, by);
}

/* ---- numbers that are not used twice ---- */

static uint64_t *
word_of(struct pr_replay *replay, uint64_t number)
{
	return &replay->seen[number % PR_REPLAY_WINDOW / 64];
}

bool
pr_replay_accept(struct pr_replay *replay, uint32_t nonce, uint64_t number)
{
	uint64_t bit = UINT64_C(1) << number % 64;

	/* nobody counts this far, and the head must stay below it */
	if (number == UINT64_MAX)
		return false;
	if (!replay->any || replay->nonce != nonce)
		*replay =
			(struct pr_replay){.any = true, .nonce = nonce, .highest = number};
	if (number <= replay->highest) {
		if (replay->highest - number >= PR_REPLAY_WINDOW ||
			*word_of(replay, number) & bit)
			return false;
	} else {
		/* the window's head moves to number; what it passes over has not been seen */
		if (number - replay->highest >= PR_REPLAY_WINDOW)
			memset(replay->seen, 0, sizeof replay->seen);
		else
			for (uint64_t n = replay->highest + 1; n <= number; n++)
				*word_of(replay, n) &= ~(UINT64_C(1) << n % 64);
		replay->highest = number;
	}
	*word_of(replay, number) |= bit;
	return true;
}

/*
 * 0 means "not known yet" on the wire, for nonces and epochs alike. Nonces are made while a program
 * starts, before its threads: so libsodium may set itself up in the first call.
 */
uint32_t
pr_nonce_make(void)
{
	uint32_t v;
	do
		v = randombytes_random();
	while (v == 0);
	return v;
}

uint64_t
pr_epoch_make(int64_t now)
{
	return (uint64_t)(now / PR_NS_PER_S) << 32 | pr_nonce_make();
}

/* ---- data frames ---- */

uint32_t
pr_fingerprint(const uint8_t *frame, size_t len, uint64_t epoch)
{
	const uint8_t *p = frame + MACS;
	size_t n = len > MACS ? len - MACS : 0;

	/* without trailing zeros; a word at a time, as zero payloads may be long */
	while (n >= 8 && pr_get_le64(p + n - 8) == 0)
		n -= 8;
	while (n > 0 && p[n - 1] == 0)
		n--;
	return XXH3_64bits_withSeed(p, n, epoch) + PR_FINGERPRINT_STEP * len;
}

uint32_t
pr_fingerprint_whole(const uint8_t *frame, size_t len, uint64_t epoch)
{
	uint8_t room[PR_PRINT_MIN] = {0};
	struct pr_print print = pr_print_begin(epoch);

	if (len < PR_PRINT_MIN) {
		memcpy(room, frame, len);
		frame = room;
		len = PR_PRINT_MIN;
	}
	for (size_t at = PR_PRINT_FROM; at + PR_PRINT_BLOCK <= len; at += PR_PRINT_BLOCK)
		pr_print_block(&print, frame + at);
	pr_print_block(&print, frame + len - PR_PRINT_BLOCK);
	return pr_print_end(&print, (uint32_t)len);
}

uint32_t
pr_fingerprint_of(bool whole, const uint8_t *frame, size_t len, uint64_t epoch)
{
	return whole ? pr_fingerprint_whole(frame, len, epoch)
		     : pr_fingerprint(frame, len, epoch);
}

size_t
pr_ethertype_offset(const uint8_t *data, size_t len)
{
	for (size_t at = MACS; at + 2 <= len; at += 4) {
		uint16_t type = pr_get_be16(data + at);
		if (type != 0x8100 && type != 0x88a8 && type != 0x9100)
			return at;
	}
	return 0;
}
