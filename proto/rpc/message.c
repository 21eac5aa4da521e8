/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/message.h"

#include <stdlib.h>
#include <string.h>

#include "proto/rpc/message_check.h"

/*
 * protobuf-c allocates as the bytes say, and two bytes make an empty sub-message of a hundred: the
 * budget bounds what a hostile message costs.
 */
struct budget {
	size_t left;
};

static void *
budget_alloc(void *arg, size_t size)
{
	struct budget *budget = arg;

	if (size > budget->left)
		return NULL;
	budget->left -= size;
	return malloc(size ? size : 1);
}

static void
budget_free(void *arg, void *p)
{
	(void)arg;
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

Packrack__Envelope *
pr_message_unpack(const void *data, size_t len, struct pr_error *err)
{
	struct budget budget = {.left = PR_MESSAGE_MEMORY};
	ProtobufCAllocator allocator = {
		.alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
	Packrack__Envelope *env;

	if (len > PR_RPC_MESSAGE_MAX) {
		pr_error_set(err, "message of %zu bytes: at most %d are taken", len,
			PR_RPC_MESSAGE_MAX);
		return NULL;
	}
	env = packrack__envelope__unpack(&allocator, len, data);
	if (!env) {
		pr_error_set(err, "%zu bytes that are not a packrack message", len);
		return NULL;
	}
	if (pr_message_check(env, err) < 0)
		pr_message_free(&env);
	return env;
}

void
pr_message_free(Packrack__Envelope **env)
{
	if (*env)
		packrack__envelope__free_unpacked(*env, NULL);
	*env = NULL;
}

void *
pr_message_copy(const ProtobufCMessage *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	uint8_t *buf = malloc(len ? len : 1);
	ProtobufCMessage *copy;

	if (!buf)
		return NULL;
	protobuf_c_message_pack(message, buf);
	copy = protobuf_c_message_unpack(message->descriptor, NULL, len, buf);
	free(buf);
	return copy;
}

const char *
pr_message_name(const Packrack__Envelope *env)
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
		&packrack__envelope__descriptor, (unsigned)env->body_case);

	return env->body_case && field ? field->name : "nothing";
}
