/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_QUERY_TIME_TERMS_H
#define PR_CLI_QUERY_TIME_TERMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * `after TIME` and `before TIME` within a filter, as in "after 3h ago and tcp port 80"; TIME is what --since
 * takes, and is included. The time range becomes the one outside of which the filter cannot hold. A term
 * at the top that is joined to all else by `and` has then been said, and is taken out of the text; others stay
 * there, as `after @SECONDS`, which filter.h takes. Where `after` follows a word like `host` it is a name, and
 * left alone. Pure. Returns the text that is left, to be freed; NULL err.
 */
char *time_terms_take(const char *filter, int64_t now, int64_t *since, int64_t *until,
	struct pr_error *err);

#endif
