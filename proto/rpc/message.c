/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/message.h"

#include "proto/base/array.h"
#include "proto/base/cursor.h"
#include "proto/base/text.h"
#include "proto/rpc/tally.h"
#include "proto/wire/relation.h"

/* Sections: check (rules beyond those of protobuf), pack and unpack, copy and add. */

/* ---- check ---- */

enum { CREDIT_MAX = 65536, SECONDS_MAX = 366 * 86400 };

/*
 * Fields that people write or read as text: longer, and of several lines. They may quote
 * anything, such as a path: what a terminal must not get is replaced. Names that have it are
 * refused, as two names must not become one.
 */
static const char *const long_texts[] = {"text", "error", "logger", "why", "manifest"};

static int
check_text(const ProtobufCFieldDescriptor *field, char *s, struct pr_error *err)
{
	size_t max = PR_MESSAGE_NAME_MAX, len = strlen(s);
	bool lines = false;

	for (size_t i = 0; i < PR_COUNT(long_texts); i++)
		lines |= !strcmp(field->name, long_texts[i]);
	if (lines)
		max = PR_MESSAGE_TEXT_MAX;
	if (len > max)
		return pr_error_set(err, "%s of %zu bytes: at most %zu are taken",
			field->name, len, max);
	for (size_t n; *s; s += n ? n : 1) {
		uint8_t c = *s;

		n = pr_text_plain(s);
		if (n || (lines && strchr("\n\r\t", c)))
			continue;
		if (!lines || c < 0x20 || c == 0x7f)
			return pr_error_set(err,
				"%s with the byte 0x%02x: a control character, or not "
				"UTF-8",
				field->name, c);
		*s = '?';
	}
	return 0;
}

/*
 * Limits of fields: for numbers of the value; for texts, bytes and lists of the length. A
 * negative number is above any limit.
 */
static const struct {
	const ProtobufCMessageDescriptor *type;
	const char *field;
	uint64_t low, high;
} limits[] = {{&packrack__program__descriptor, "linktype", 0, UINT16_MAX},
	{&packrack__lookups__descriptor, "op", 1, PR_MESSAGE_LOOKUPS_MAX},
	{&packrack__related__descriptor, "keys", 0, PR_RELATION_KEYS_MAX},
	{&packrack__related__descriptor, "spans", 0, 2 * PR_RELATION_SPANS_MAX},
	{&packrack__link_info__descriptor, "link", 0, UINT16_MAX},
	{&packrack__link_info__descriptor, "linktype", 0, UINT16_MAX},
	{&packrack__held__descriptor, "link", 0, UINT16_MAX},
	{&packrack__loss__descriptor, "link", 0, UINT16_MAX},
	{&packrack__evicted__descriptor, "link", 0, UINT16_MAX},
	{&packrack__ledger__descriptor, "link", 0, UINT16_MAX},
	{&packrack__ledger__descriptor, "linktype", 0, UINT16_MAX},
	{&packrack__index_record__descriptor, "link", 0, UINT16_MAX},
	{&packrack__index_record__descriptor, "level", 0, UINT16_MAX},
	{&packrack__summary_info__descriptor, "link", 0, UINT16_MAX},
	{&packrack__summary_info__descriptor, "first_seq", 1, UINT64_MAX - 1},
	{&packrack__summary_info__descriptor, "last_seq", 1, UINT64_MAX - 1},
	{&packrack__tally_spec__descriptor, "step", 0, INT64_MAX},
	{&packrack__tally_spec__descriptor, "best", 0, PR_TALLY_ITEMS_MAX},
	{&packrack__tally_group__descriptor, "key", 1, PR_TALLY_KEY_MAX},
	{&packrack__credit__descriptor, "batches", 0, CREDIT_MAX},
	{&packrack__command__descriptor, "verb", 1, PR_MESSAGE_NAME_MAX},
	{&packrack__command__descriptor, "seconds", 0, SECONDS_MAX}};

/* Pairs of fields: the first must not be above the second; equal: they must be equal. */
static const struct {
	const ProtobufCMessageDescriptor *type;
	const char *first, *last;
	bool equal;
} pairs[] = {{&packrack__held__descriptor, "first", "last", false},
	{&packrack__held__descriptor, "first_otime", "last_otime", false},
	{&packrack__loss__descriptor, "first_seq", "last_seq", false},
	{&packrack__index_record__descriptor, "min_time", "max_time", false},
	{&packrack__summary_info__descriptor, "min_time", "max_time", false},
	{&packrack__summary_info__descriptor, "first_otime", "last_otime", false},
	{&packrack__summary_info__descriptor, "first_seq", "last_seq", false},
	{&packrack__query__descriptor, "lookups", "programs", false},
	{&packrack__lookups__descriptor, "op", "left", true},
	{&packrack__lookups__descriptor, "op", "right", true},
	{&packrack__related__descriptor, "keys", "first", true},
	{&packrack__ledger__descriptor, "unobserved_reason", "unobserved_since", true},
	{&packrack__ledger__descriptor, "unobserved_reason", "unobserved_until", true},
	{&packrack__ledger__descriptor, "unobserved_reason", "unobserved_by", true},
	{&packrack__related__descriptor, "keys", "lasting", true},
	{&packrack__sources__descriptor, "ids", "nodes", true}};

/* *is_signed: the number is an int64_t. */
static uint64_t
measure(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
	bool *is_signed)
{
	const char *base = (const char *)message, *at = base + field->offset;

	*is_signed = field->type == PROTOBUF_C_TYPE_SINT64 ||
		     field->type == PROTOBUF_C_TYPE_SFIXED64;
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return *(const size_t *)(base + field->quantifier_offset);
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32:
		return *(const uint32_t *)at;
	case PROTOBUF_C_TYPE_BOOL:
		return *(const protobuf_c_boolean *)at != 0;
	case PROTOBUF_C_TYPE_STRING:
		return strlen(*(const char *const *)at);
	case PROTOBUF_C_TYPE_BYTES:
		return ((const ProtobufCBinaryData *)at)->len;
	default:
		return *(const uint64_t *)at;
	}
}

static uint64_t
measure_named(const ProtobufCMessage *message, const char *name, bool *is_signed)
{
	return measure(message,
		protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name),
		is_signed);
}

static int
check_numbers(const ProtobufCMessage *message, struct pr_error *err)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;
	bool is_signed;

	for (size_t i = 0; i < PR_COUNT(limits); i++) {
		if (limits[i].type != type)
			continue;
		uint64_t value = measure_named(message, limits[i].field, &is_signed);
		if (value < limits[i].low || value > limits[i].high)
			return pr_error_set(err, "%s's %s is %lld: %llu to %llu are taken",
				type->short_name, limits[i].field, (long long)value,
				(unsigned long long)limits[i].low,
				(unsigned long long)limits[i].high);
	}
	for (size_t i = 0; i < PR_COUNT(pairs); i++) {
		if (pairs[i].type != type)
			continue;
		uint64_t first = measure_named(message, pairs[i].first, &is_signed);
		uint64_t last = measure_named(message, pairs[i].last, &is_signed);
		bool bad = is_signed ? (int64_t)first > (int64_t)last : first > last;
		if (bad || (pairs[i].equal && first != last))
			return pr_error_set(err, "%s's %s is %lld, and its %s %lld",
				type->short_name, pairs[i].first, (long long)first,
				pairs[i].last, (long long)last);
	}
	return 0;
}

/* ---- rules beyond limits and pairs; these were checked before ---- */

static size_t
count_instructions(Packrack__Program *const *programs, size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += programs[i]->n_instructions;
	return sum;
}

/* Not by descriptors: they take several times as long, and a filter may be long. */
static int
check_program(const Packrack__Program *program, struct pr_error *err)
{
	for (size_t i = 0; i < program->n_instructions; i++) {
		const Packrack__Instruction *in = program->instructions[i];

		if (in->code > UINT16_MAX || in->jt > UINT8_MAX || in->jf > UINT8_MAX)
			return pr_error_set(err,
				"Instruction's code is %u, its jt %u, its jf %u: %u, %u, "
				"%u at most are taken",
				in->code, in->jt, in->jf, UINT16_MAX, UINT8_MAX, UINT8_MAX);
	}
	return 0;
}

static int
check_query(const Packrack__Query *query, struct pr_error *err)
{
	const Packrack__Related *related = query->related;
	size_t sum = count_instructions(query->programs, query->n_programs);

	if (related)
		sum += count_instructions(related->core, related->n_core);
	if (sum > PR_MESSAGE_INSTRUCTIONS_MAX)
		return pr_error_set(err, "filter of %zu instructions: at most %d are taken",
			sum, PR_MESSAGE_INSTRUCTIONS_MAX);
	if (related && related->n_spans % 2)
		return pr_error_set(err, "related packets: a span without its end");
	return 0;
}

static int
check_lookups(const Packrack__Lookups *l, struct pr_error *err)
{
	bool good = true;

	for (size_t i = 0; good && i < l->n_op; i++) {
		if (l->op[i] == 2)
			good = l->left[i] < l->n_hash;
		else if (l->op[i] == 3 || l->op[i] == 4)
			good = l->left[i] < i && l->right[i] < i;
		else
			good = l->op[i] < 2;
	}
	return good ? 0 : pr_error_set(err, "look-ups that make no sense");
}

static int
check_bits(const Packrack__Held *held, struct pr_error *err)
{
	uint64_t span = held->last - held->first; /* less one: no overflow at the ends */
	unsigned used = span % 8 + 1;

	if (held->bits.len == 0)
		return 0;
	if (held->bits.len - 1 != span / 8)
		return pr_error_set(err, "bitmap of %zu bytes for seqs %llu to %llu",
			held->bits.len, (unsigned long long)held->first,
			(unsigned long long)held->last);
	if (used < 8 && held->bits.data[held->bits.len - 1] >> used)
		return pr_error_set(err, "bitmap with bits behind its last seq");
	return 0;
}

/* Checks by descriptors: a new text field in packrack.proto is checked without new code. */
static int
check_message(const ProtobufCMessage *message, struct pr_error *err)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;
	const char *base = (const char *)message;
	int rc = check_numbers(message, err);

	if (rc == 0 && type == &packrack__program__descriptor)
		return check_program((const Packrack__Program *)message, err);
	if (rc == 0 && type == &packrack__query__descriptor)
		rc = check_query((const Packrack__Query *)message, err);
	else if (rc == 0 && type == &packrack__lookups__descriptor)
		rc = check_lookups((const Packrack__Lookups *)message, err);
	else if (rc == 0 && type == &packrack__held__descriptor)
		rc = check_bits((const Packrack__Held *)message, err);
	for (unsigned i = 0; rc == 0 && i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];
		const void *quantifier = base + field->quantifier_offset;
		bool text = field->type == PROTOBUF_C_TYPE_STRING;
		const void *at = base + field->offset;
		size_t count = 1;

		if (!text && field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (field->label == PROTOBUF_C_LABEL_REPEATED) {
			count = *(const size_t *)quantifier;
			at = *(const void *const *)at;
		} else if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
			   *(const uint32_t *)quantifier != field->id) {
			continue;
		}
		for (size_t j = 0; rc == 0 && j < count; j++) {
			void *value = ((void *const *)at)[j];

			if (value)
				rc = text ? check_text(field, value, err)
					  : check_message(value, err);
		}
	}
	return rc;
}

int
pr_message_check(const Packrack__Envelope *env, struct pr_error *err)
{
	if (env->body_case == PACKRACK__ENVELOPE__BODY__NOT_SET)
		return pr_error_set(err, "message with nothing that we know in it");
	if (check_message(&env->base, err) < 0)
		return pr_error_prefix(err, "%s", pr_message_name(env));
	return 0;
}

/* ---- pack and unpack ---- */

/* NULL: no body that we know. */
static const ProtobufCFieldDescriptor *
body_field(unsigned body_case)
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
		&packrack__envelope__descriptor, body_case);

	return field && field->descriptor ? field : NULL;
}

/*
 * protobuf-c allocates what a message demands, and two bytes on the wire make an empty
 * sub-message of a hundred bytes. The budget bounds the memory of a hostile message.
 */
static void *
budget_alloc(void *arg, size_t size)
{
	size_t *left = arg;

	if (size > *left)
		return NULL;
	*left -= size;
	return malloc(size ? size : 1);
}

static void
budget_free(PR_UNUSED void *arg, void *p)
{
	free(p);
}

int
pr_message_pack(
	const Packrack__Envelope *env, uint8_t **buf, size_t *len, struct pr_error *err)
{
	size_t need = packrack__envelope__get_packed_size(env);

	if (need > PR_RPC_MESSAGE_MAX)
		return pr_error_set(err, "%s of %zu bytes: a message has at most %d",
			pr_message_name(env), need, PR_RPC_MESSAGE_MAX);
	*buf = malloc(need ? need : 1);
	if (!*buf)
		return pr_error_set(err, "no memory for a message of %zu bytes", need);
	*len = packrack__envelope__pack(env, *buf);
	return 0;
}

enum { ID_TAG = 1 << 3, PACKETS_TAG = 1 << 3 | 2, FIELDS_MAX = 16 };

ProtobufCBinaryData
pr_message_peek(const void *data, size_t len, Packrack__Envelope *head)
{
	struct pr_cursor c = pr_cursor_make(data, len);
	ProtobufCBinaryData body = {0, NULL};
	uint64_t tag, value;
	const uint8_t *at;

	*head = (Packrack__Envelope)PACKRACK__ENVELOPE__INIT;
	for (unsigned i = 0;
		i < FIELDS_MAX && pr_load_varint(&c, &tag) && pr_load_varint(&c, &value);
		i++) {
		if (tag == ID_TAG)
			head->id = value;
		if ((tag & 7) == 0)
			continue;
		if ((tag & 7) != 2 || body.data || !pr_load_bytes(&c, &at, value)) {
			head->body_case = PACKRACK__ENVELOPE__BODY__NOT_SET;
			return body;
		}
		head->body_case = tag >> 3;
		body = (ProtobufCBinaryData){value, (uint8_t *)at};
	}
	if (pr_cursor_left(&c) || !body_field(head->body_case))
		head->body_case = PACKRACK__ENVELOPE__BODY__NOT_SET;
	return body;
}

/*
 * protobuf-c would copy the packets of a batch, which are nearly all of the message. If the batch begins with them,
 * they stay where they are, and what is behind them is unpacked.
 */
static Packrack__Envelope *
unpack(ProtobufCAllocator *allocator, const void *data, size_t len)
{
	Packrack__Envelope head, *env = NULL;
	ProtobufCBinaryData body = pr_message_peek(data, len, &head), packets = {0, NULL};
	struct pr_cursor c = pr_cursor_make(body.data, body.len), rest = c;
	bool batch = head.body_case == PACKRACK__ENVELOPE__BODY_BATCH;
	const uint8_t *at;
	uint64_t tag, size;

	if (!head.body_case)
		return NULL;
	if (batch && pr_load_varint(&rest, &tag) && tag == PACKETS_TAG &&
		pr_load_varint(&rest, &size) && pr_load_bytes(&rest, &at, size)) {
		packets = (ProtobufCBinaryData){size, (uint8_t *)at};
		c = rest;
	}
	/* all bodies are pointers in one union */
	head.batch =
		(void *)protobuf_c_message_unpack(body_field(head.body_case)->descriptor,
			allocator, pr_cursor_left(&c), c.at);
	/* in the order that we write */
	if (head.batch && !(batch && head.batch->packets.len))
		env = malloc(sizeof(*env));
	if (!env)
		protobuf_c_message_free_unpacked((void *)head.batch, NULL);
	else if (batch)
		head.batch->packets = packets;
	if (env)
		*env = head;
	return env;
}

Packrack__Envelope *
pr_message_unpack(const void *data, size_t len, struct pr_error *err)
{
	size_t left = PR_MESSAGE_MEMORY;
	ProtobufCAllocator allocator = {
		.alloc = budget_alloc, .free = budget_free, .allocator_data = &left};

	if (len > PR_RPC_MESSAGE_MAX)
		return pr_error_null(err, "message of %zu bytes: at most %d are taken", len,
			PR_RPC_MESSAGE_MAX);
	Packrack__Envelope *env = unpack(&allocator, data, len);
	if (!env)
		return pr_error_null(err, "%zu bytes that are not a packrack message", len);
	if (pr_message_check(env, err) < 0)
		pr_message_free(&env);
	return env;
}

void
pr_message_free(Packrack__Envelope **env)
{
	if (*env && (*env)->body_case == PACKRACK__ENVELOPE__BODY_BATCH)
		(*env)->batch->packets = (ProtobufCBinaryData){0}; /* they are borrowed */
	if (*env)
		packrack__envelope__free_unpacked(*env, NULL);
	*env = NULL;
}

const char *
pr_message_name(const Packrack__Envelope *env)
{
	const ProtobufCFieldDescriptor *field = body_field(env->body_case);

	return field ? field->name : "nothing";
}

/* ---- copy and add ---- */

/*
 * Fields whose sum is not a plain one. By default numbers are added, flags and times stay.
 */
enum add_rule { ADD_NONE, ADD_SUM, ADD_MAX, ADD_MIN };

static const struct {
	const ProtobufCMessageDescriptor *type;
	const char *field; /* NULL: all of them */
	enum add_rule rule;
} add_rules[] = {
	/* a merger counts these itself, as it gives packets on */
	{&packrack__end__descriptor, "matched", ADD_NONE},
	{&packrack__end__descriptor, "related", ADD_NONE},
	{&packrack__end__descriptor, "truncated", ADD_NONE},
	{&packrack__end__descriptor, "from_cut", ADD_NONE},
	{&packrack__end__descriptor, "from_headers", ADD_NONE},
	{&packrack__completeness__descriptor, "complete", ADD_MIN},
	{&packrack__completeness__descriptor, "held_at_most", ADD_MAX},
	/* counted for a whole epoch each time */
	{&packrack__completeness__descriptor, "dropped_packets", ADD_MAX},
	/* several nodes report one series, and some are behind */
	{&packrack__ledger__descriptor, NULL, ADD_MAX}};

static enum add_rule
add_rule(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field)
{
	for (size_t i = 0; i < PR_COUNT(add_rules); i++)
		if (add_rules[i].type == type &&
			(!add_rules[i].field || !strcmp(add_rules[i].field, field->name)))
			return add_rules[i].rule;
	return field->type == PROTOBUF_C_TYPE_UINT64 ? ADD_SUM : ADD_NONE;
}

static size_t
number_size(const ProtobufCFieldDescriptor *field)
{
	if (field->label == PROTOBUF_C_LABEL_REPEATED ||
		field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		return 0;
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
		return sizeof(uint64_t);
	case PROTOBUF_C_TYPE_UINT32:
		return sizeof(uint32_t);
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	default:
		return 0;
	}
}

/* Goes through the numbers and flags that both messages have under one name. */
static void
each_number(ProtobufCMessage *to, const ProtobufCMessage *from, bool add)
{
	const ProtobufCMessageDescriptor *type = to->descriptor;

	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i], *other = field;
		size_t size = number_size(field);
		char *at = (char *)to + field->offset;
		enum add_rule rule = add ? add_rule(type, field) : ADD_NONE;
		bool is_signed;

		if (type != from->descriptor)
			other = protobuf_c_message_descriptor_get_field_by_name(
				from->descriptor, field->name);
		if (!size || !other || other->type != field->type ||
			number_size(other) != size || (add && rule == ADD_NONE))
			continue;
		uint64_t now = measure(to, field, &is_signed);
		uint64_t more = measure(from, other, &is_signed);
		bool less = is_signed ? (int64_t)now < (int64_t)more : now < more;
		if (rule == ADD_SUM)
			*(uint64_t *)at += more;
		else if (rule == ADD_NONE || (rule == ADD_MAX ? less : !less))
			memcpy(at, (const char *)from + other->offset, size);
	}
}

void
pr_message_copy_numbers(ProtobufCMessage *to, const ProtobufCMessage *from)
{
	each_number(to, from, false);
}

void
pr_message_add_numbers(ProtobufCMessage *to, const ProtobufCMessage *from)
{
	each_number(to, from, true);
}

void *
pr_message_copy(const ProtobufCMessage *message)
{
	size_t left = SIZE_MAX;

	return pr_message_copy_within(message, &left);
}

void *
pr_message_copy_within(const ProtobufCMessage *message, size_t *left)
{
	ProtobufCAllocator allocator = {
		.alloc = budget_alloc, .free = budget_free, .allocator_data = left};
	size_t len = protobuf_c_message_get_packed_size(message);
	uint8_t *buf = malloc(len ? len : 1);

	if (!buf)
		return NULL;
	protobuf_c_message_pack(message, buf);
	ProtobufCMessage *copy =
		protobuf_c_message_unpack(message->descriptor, &allocator, len, buf);
	free(buf);
	return copy;
}

int
pr_bpf_set_from_message(Packrack__Program *const *list, size_t count,
	struct pr_bpf_set *out, struct pr_error *err)
{
	for (size_t i = 0; i < count; i++) {
		const Packrack__Program *message = list[i];
		struct pr_insn *insns = calloc(message->n_instructions + 1, sizeof *insns);

		if (!insns)
			return pr_error_set(err, "no memory for a filter");
		for (size_t j = 0; j < message->n_instructions; j++) {
			const Packrack__Instruction *in = message->instructions[j];

			insns[j] = (struct pr_insn){in->code, in->jt, in->jf, in->k};
		}
		struct pr_bpf *program = pr_bpf_create(
			message->linktype, insns, message->n_instructions, err);
		free(insns);
		if (!program || pr_bpf_set_add(out, program, err) < 0)
			return -1;
	}
	return 0;
}
