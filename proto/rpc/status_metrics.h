/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_STATUS_METRICS_H
#define PR_RPC_STATUS_METRICS_H

#include "proto/base/metrics.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * Puts all figures of a program's own status into a page, so that a scrape says what `packrack status`
 * says. node: the name of the node that a logger or an indexer is of, else NULL. Names of values are
 * kept until the page is written: in a program's own status they are constants.
 */
void pr_status_metrics(
	struct pr_metrics_page *page, const Packrack__Status *status, const char *node);

#endif
