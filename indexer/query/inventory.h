/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_STOCK_H
#define PRI_INDEXER_STOCK_H

#include "indexer/query/volume.h"
#include "proto/rpc/packrack.pb-c.h"

/* What a volume holds, stream by stream, and what somebody had deleted of it. As of the last refresh. */
struct pri_inventory;

#define PRI_INVENTORY_STREAMS_MAX 320 /* of more, the first are told */

/* NULL: no memory. Names are the view's: it must outlive the stock. */
struct pri_inventory *pri_inventory_create(struct pri_volume *view);
void pri_inventory_destroy(struct pri_inventory **stock);
/* Into a node's status; all of it stays the stock's. */
void pri_inventory_put(struct pri_inventory *stock, Packrack__NodeStatus *status);

#endif
