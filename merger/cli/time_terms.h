/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_TIME_TERMS_H
#define PR_CLI_TIME_TERMS_H

#include <stdint.h>

#include "proto/base/error.h"

/*
 * `after TIME` and `before TIME` within a filter, as in "after 3h ago and tcp port 80": they are no
 * part of pcap-filter's language, so they are taken out of the text and narrow the time range. That is exact
 * where each stands at the top, joined to all else by `and`; elsewhere it is refused. TIME is what --since
 * takes, both ends are included. Pure.
 *
 * filter is changed in place (terms become spaces); -1 err. Where `after` follows a word like `host`
 * it is a name, and left alone.
 */
int time_terms_take(
	char *filter, int64_t now, int64_t *since, int64_t *until, struct pr_error *err);

#endif
