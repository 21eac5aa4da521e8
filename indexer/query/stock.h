/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_STOCK_H
#define PRI_INDEXER_STOCK_H

#include "indexer/query/view.h"
#include "proto/rpc/packrack.pb-c.h"

/* What a volume holds, stream by stream, and what somebody had deleted of it. As of the last refresh. */
struct pri_stock;

#define PRI_STOCK_STREAMS_MAX 320 /* of more, the first are told */

/* NULL: no memory. Names are the view's: it must outlive the stock. */
struct pri_stock *pri_stock_create(struct pri_view *view);
void pri_stock_destroy(struct pri_stock **stock);
/* Into a node's status; all of it stays the stock's. */
void pri_stock_put(struct pri_stock *stock, Packrack__NodeStatus *status);

#endif
