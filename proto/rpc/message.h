/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"
#include "proto/wire/bpf.h"

/*
 * Envelopes to bytes and back. Pure: no sockets, so that fuzzers can feed it. What unpack
 * returns can be trusted in form: a body is set, texts are short and hold no control bytes
 * (newline and tab pass in the longer ones: texts, errors, the logger's JSON), numbers fit
 * the types that they stand for, ranges are not inverted, bitmaps are as long as their
 * range, and the message took at most PR_MESSAGE_MEMORY. Texts need not be UTF-8.
 */
#define PR_RPC_MESSAGE_MAX (4 * 1024 * 1024) /* bytes on the wire */
/* bytes unpacked: 2 on the wire can make 150 */
#define PR_MESSAGE_MEMORY (64 * 1024 * 1024)
#define PR_MESSAGE_NAME_MAX 128 /* names and other short texts */
#define PR_MESSAGE_TEXT_MAX 65536 /* filters, failures, the logger's note */
#define PR_MESSAGE_INSTRUCTIONS_MAX 200000 /* of a query, over all its programs */
#define PR_MESSAGE_LOOKUPS_MAX 65536 /* of one program */

/* A message with this body, which is borrowed. */
static inline Packrack__Envelope
pr_message_of(uint64_t id, Packrack__Envelope__BodyCase body_case, const void *body)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = id;
	env.body_case = body_case;
	env.query = (Packrack__Query *)body; /* all bodies are pointers in one union */
	return env;
}

/* Ownership of *buf (free) passes to the caller. -1: too long, or no memory. */
int pr_message_pack(
	const Packrack__Envelope *env, uint8_t **buf, size_t *len, struct pr_error *err);

/*
 * What a message is before it is unpacked, at hardly any cost: the bytes of its body, and in head
 * its id and the kind of its body; BODY__NOT_SET: not a message of ours.
 */
ProtobufCBinaryData pr_message_peek(const void *data, size_t len, Packrack__Envelope *head);
/*
 * NULL and err: not a message of ours. Free with pr_message_free. The packets of a batch are not copied: they stay in
 * data.
 */
Packrack__Envelope *pr_message_unpack(const void *data, size_t len, struct pr_error *err);
void pr_message_free(Packrack__Envelope **env);

/* The same checks of a message that was made here, before it is sent. 0 or -1. */
int pr_message_check(const Packrack__Envelope *env, struct pr_error *err);

/*
 * Deep copy, for data that outlives the received message. Free with the type's free_unpacked; NULL: no
 * memory.
 */
void *pr_message_copy(const ProtobufCMessage *message);
/* The same if it takes no more memory than *left bytes, which it is taken from. NULL: also if not. */
void *pr_message_copy_within(const ProtobufCMessage *message, size_t *left);

/*
 * Copies, or adds up, all numbers and flags that two messages have under one name and type; the messages
 * may be of different types (End and NodeAnswer). Texts, lists and sub-messages stay as they are. When
 * added, numbers of 64 bits are summed, flags and times of `to` stay; message.c has the exceptions.
 */
void pr_message_copy_numbers(ProtobufCMessage *to, const ProtobufCMessage *from);
void pr_message_add_numbers(ProtobufCMessage *to, const ProtobufCMessage *from);

/* "query", "batch", ...; "nothing" when no body is set. */
const char *pr_message_name(const Packrack__Envelope *env);

/* The programs of a filter, each checked (proto/wire/bpf.h). -1: err, and out must be freed all the same. */
int pr_bpf_set_from_message(Packrack__Program *const *list, size_t count,
	struct pr_bpf_set *out, struct pr_error *err);
