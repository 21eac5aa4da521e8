/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_OPTIONS_H
#define PR_LOGGER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/options.h"
#include "proto/wire/frame.h"

/* packrack-logger's flags and configuration keys. */
struct pr_logger_options {
	char *rack, *tap;
	struct pr_string_list read;
	bool degraded; /* go on without devices that are missing or fail */
	struct pr_string_list volume; /* after pr_logger_options_parse: one path an item */
	char *name;
	uint64_t buffer_size, ring_size, shm_size;
	int64_t hold_time, segment_age;
	uint64_t window;
	char *filter;
	uint64_t snaplen;
	bool both;
	uint64_t rack_id, ethertype;
	char *manage, *metrics;
	char *key_flag; /* as given */
	const char *keys; /* key directory, or NULL */
	uint64_t link;
	bool link_set;
	int log_format;
	bool verbose;
};

/* 0; 1: help or version was printed; -1: bad usage or configuration, exit status 2. */
int pr_logger_options_parse(
	struct pr_logger_options *o, int argc, char **argv, struct pr_error *err);
void pr_logger_options_free(struct pr_logger_options *o);

#endif
