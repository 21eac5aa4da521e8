/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/builder.h"

/* Adds a segment in own memory: pri_builder_add_shared never returns 2 then. */
static inline int
pri_builder_add(struct pri_builder *b, uint64_t sequence, uint64_t proof, const void *body,
	size_t len, struct pr_error *err)
{
	return pri_builder_add_shared(b, sequence, proof, body, len, NULL, NULL, err);
}
