/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_FILTER_TIME_H
#define PRI_INDEXER_FILTER_TIME_H

#include "indexer/filter/bpf.h"
#include "proto/base/error.h"

/*
 * Terms `after @SECONDS` and `before @SECONDS` of a filter, both including that moment. pcap-filter's
 * language knows no time, so libpcap is given the test of a load from where no packet has bytes, a place
 * for each term; at the head of what it compiles stand the terms (bpf.h). So one may stand wherever
 * any other term may.
 */
struct pri_times {
	struct pri_bpf_time *items;
	size_t count;
};

/* The text as libpcap is to have it, to be freed; out gets the terms, from a zeroed one. NULL: err. */
char *pri_filter_take_times(const char *text, struct pri_times *out, struct pr_error *err);

#endif
