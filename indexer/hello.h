/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_HELLO_H
#define PRI_INDEXER_HELLO_H

#include <stdint.h>

#include "indexer/query/volume.h"
#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/* What an indexer says of itself and of its volume. */
struct pri_hello_input {
	const char *name;
	uint64_t boot;
	uint64_t queries, queries_running;
	uint64_t behind; /* segments that are stored and have no index yet */
};

/* Only the newest links are listed: a merger must be able to take the message. */
#define PRI_HELLO_LINKS_MAX 1024

/* What is known of a link; borrows its name. */
void pri_hello_link(Packrack__LinkInfo *out, const struct pri_series_ledger *facts);

struct pri_hello_message;

/* view NULL: there is no volume yet. */
struct pri_hello_message *pri_hello_create(
	struct pri_volume *view, const struct pri_hello_input *facts, struct pr_error *err);
void pri_hello_destroy(struct pri_hello_message **hello);
Packrack__Hello *pri_hello_message(struct pri_hello_message *hello);
Packrack__NodeStatus *pri_hello_status(struct pri_hello_message *hello);

#endif
