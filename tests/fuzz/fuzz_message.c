/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes as a peer sends them. Covers proto/rpc/message.c
 * Options -max_len=4096
 */
#include <stdbool.h>
#include <string.h>

#include "proto/rpc/message.h"
#include "tests/fuzz/fuzz.h"

static bool knows_all(const ProtobufCMessage *message);

static bool
field_knows_all(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *at = (const char *)message + field->offset;
	const char *quantifier = (const char *)message + field->quantifier_offset;
	ProtobufCMessage *const *items = (const void *)at;
	size_t count = 1;

	if (field->type != PROTOBUF_C_TYPE_MESSAGE)
		return true;
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		count = *(const size_t *)(const void *)quantifier;
		items = *(ProtobufCMessage *const *const *)(const void *)at;
	} else if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
		   *(const uint32_t *)(const void *)quantifier != field->id) {
		return true;
	}
	for (size_t i = 0; i < count; i++)
		if (items[i] && !knows_all(items[i]))
			return false;
	return true;
}

/* protobuf-c keeps fields that it does not know, and takes some of them that it would not write. */
static bool
knows_all(const ProtobufCMessage *message)
{
	if (message->n_unknown_fields)
		return false;
	for (unsigned i = 0; i < message->descriptor->n_fields; i++)
		if (!field_knows_all(message, &message->descriptor->fields[i]))
			return false;
	return true;
}

static void
check_again(const Packrack__Envelope *env)
{
	uint8_t *first, *second;
	size_t first_len, second_len;
	Packrack__Envelope *again;

	MUST(pr_message_pack(env, &first, &first_len, NULL) == 0);
	again = pr_message_unpack(first, first_len, NULL);
	MUST(again);
	MUST(pr_message_pack(again, &second, &second_len, NULL) == 0);
	MUST(first_len == second_len && memcmp(first, second, first_len) == 0);
	free(first);
	free(second);
	pr_message_free(&again);
}

/* A copy has the same bytes; numbers added and then copied back are the same again. */
static void
check_copy(const Packrack__Envelope *env)
{
	const ProtobufCMessage *body = &env->batch->base; /* whichever it is */
	ProtobufCMessage *copy = pr_message_copy(body);
	size_t len = protobuf_c_message_get_packed_size(body);
	uint8_t *first = malloc(len + 1), *second = malloc(len + 1);

	MUST(copy && protobuf_c_message_get_packed_size(copy) == len);
	pr_message_add_numbers(copy, body);
	pr_message_copy_numbers(copy, body);
	MUST(protobuf_c_message_get_packed_size(copy) == len);
	protobuf_c_message_pack(body, first);
	protobuf_c_message_pack(copy, second);
	MUST(memcmp(first, second, len) == 0);
	free(first);
	free(second);
	protobuf_c_message_free_unpacked(copy, NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pr_error err = {""};
	Packrack__Envelope *env = pr_message_unpack(data, size, &err);

	if (!env) {
		MUST(err.text[0]);
		return 0;
	}
	MUST(strcmp(pr_message_name(env), "nothing") != 0);
	/* what was taken can be sent, taken, and sent again as the same bytes */
	if (knows_all(&env->base)) {
		check_again(env);
		check_copy(env);
	}
	pr_message_free(&env);
	return 0;
}
