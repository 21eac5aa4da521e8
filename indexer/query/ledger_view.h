/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_BOOK_H
#define PRI_INDEXER_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/wire/ledger.h"

/*
 * What the ledger of a volume says, as needed for answers: for each (epoch, link) its name, the
 * latest MARK, and the packets that this node knows to be lost. Pure; one thread.
 */
struct pri_series_ledger {
	uint64_t epoch;
	uint16_t link;
	bool have_mark, have_link;
	struct pr_ledger_mark mark;
	struct pr_ledger_link
		info; /* when have_link; else pri_series_ledger_name looks at the mark */
	uint64_t speed; /* of the link's interface, bits/s; 0 unknown */
	struct pr_loss *losses; /* in the order of the ledger */
	size_t loss_count, loss_room;
};

/* A deletion: the word of all its steps. While it goes on, until is as far as it may go. */
struct pri_ledger_deletion {
	struct pr_ledger_deleted word;
	int64_t reached;
};

struct pri_ledger_view {
	struct pri_series_ledger **facts; /* sorted by epoch and link */
	size_t count, room;
	size_t losses; /* kept, over all */
	uint64_t missing; /* packets on the loss lists */
	struct pri_ledger_deletion *deleted; /* in the order of the ledger */
	size_t deleted_count;
};

/* Deletions that are remembered; of more, the oldest are forgotten. */
#define PRI_LEDGER_DELETED_MAX 256

/*
 * Beyond this many losses (56 bytes each) neighbours are put together: "count of first..last", as
 * the ledger does where identical frames leave no choice.
 */
#define PRI_LEDGER_LOSSES_MAX (1024 * 1024)

/* Takes a MARK, LOSS, LINK, DELETED or PORT; other entries do nothing. -1: no memory. */
int pri_ledger_view_take(struct pri_ledger_view *book, const struct pr_ledger_entry *entry,
	struct pr_error *err);
void pri_ledger_view_free(struct pri_ledger_view *book);

/*
 * Who has not been heard of for so long is gone: a MARK comes every 100 ms, and what it declares is
 * settled within the hold time of 2 s.
 */
#define PRI_LEDGER_ALIVE_NS INT64_C(4000000000)
/*
 * Up to which time all is stored that dispatchers still at work have sent here; PR_TIME_MAX: none
 * of them is. now: real time.
 */
int64_t pri_ledger_view_stored_until(const struct pri_ledger_view *book, int64_t now);

const struct pri_series_ledger *pri_ledger_view_find(
	const struct pri_ledger_view *book, uint64_t epoch, uint16_t link); /* or NULL */
/* The last deletion of the link of packets of since..until; NULL: none. oldest: from the oldest on. */
const struct pr_ledger_deleted *pri_ledger_view_deletion(const struct pri_ledger_view *book,
	uint16_t link, bool oldest, int64_t since, int64_t until);
const char *pri_series_ledger_name(
	const struct pri_series_ledger *facts); /* "" when none is known */

/*
 * Puts neighbours of a list together until at most max are left; returns how many are.
 * losses[] are of one (epoch, link), in order.
 */
size_t pri_losses_coalesce(struct pr_loss *losses, size_t count, size_t max);

#endif
