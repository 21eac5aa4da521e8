/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_OPTIONS_H
#define PRL_LOGGER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/options.h"
#include "proto/wire/frame.h"

/* packrack-logger's flags and configuration keys. */
struct prl_logger_options {
	char *rack, *tap;
	struct pr_string_list read;
	bool degraded; /* go on without devices that are missing or fail */
	struct pr_string_list volume; /* after prl_logger_options_parse: one path an item */
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
	uint64_t link; /* PRL_LINK_BY_NAME: not given */
	int log_format;
	bool verbose;
};

/* 0; 1: help or version was printed; -1: bad usage or configuration, exit status 2. */
int prl_logger_options_parse(
	struct prl_logger_options *o, int argc, char **argv, struct pr_error *err);
void prl_logger_options_free(struct prl_logger_options *o);

#endif
