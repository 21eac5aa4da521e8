/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_HELLO_H
#define PR_INDEXER_HELLO_H

#include <stdint.h>

#include "indexer/view.h"
#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/* What an indexer says of itself and of its volume. */
struct pr_hello_facts {
	const char *name;
	uint64_t boot;
	uint64_t queries, queries_running;
	uint64_t behind; /* segments that are stored and have no index yet */
};

/* Only the newest links are listed: a merger must be able to take the message. */
#define PR_HELLO_LINKS_MAX 1024

/* What is known of a link; borrows its name. */
void pr_hello_link(Packrack__LinkInfo *out, const struct pr_facts *facts);

struct pr_hello_message;

/* view NULL: there is no volume yet. */
struct pr_hello_message *pr_hello_create(
	struct pr_view *view, const struct pr_hello_facts *facts, struct pr_error *err);
void pr_hello_destroy(struct pr_hello_message **hello);
Packrack__Hello *pr_hello_message(struct pr_hello_message *hello);
Packrack__NodeStatus *pr_hello_status(struct pr_hello_message *hello);

#endif
