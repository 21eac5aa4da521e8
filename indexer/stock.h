/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_STOCK_H
#define PR_INDEXER_STOCK_H

#include "indexer/view.h"
#include "proto/rpc/packrack.pb-c.h"

/* What a volume holds, stream by stream, and what somebody had deleted of it. As of the last refresh. */
struct pr_stock;

#define PR_STOCK_STREAMS_MAX 320 /* of more, the first are told */

/* NULL: no memory. Names are the view's: it must outlive the stock. */
struct pr_stock *pr_stock_create(struct pr_view *view);
void pr_stock_destroy(struct pr_stock **stock);
/* Into a node's status; all of it stays the stock's. */
void pr_stock_put(struct pr_stock *stock, Packrack__NodeStatus *status);

#endif
