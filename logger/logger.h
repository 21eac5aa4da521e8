/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/streamfs/streamfs.h"
#include "proto/base/options.h"
#include "proto/wire/frame.h"

/* packrack-logger's flags and configuration keys. */
struct prl_options {
	char *rack, *tap;
	struct pr_string_list read;
	bool degraded; /* go on without devices that are missing or fail */
	struct pr_string_list volume; /* one path an item */
	char *name;
	uint64_t buffer_size, ring_size, shm_size;
	int64_t hold_time, segment_age;
	uint64_t window;
	char *filter;
	uint64_t snaplen;
	bool both;
	uint64_t rack_id, ethertype;
	char *manage, *metrics, *user;
	char *key_flag; /* as given */
	const char *keys; /* key directory, or NULL */
	uint64_t link; /* PRL_LINK_BY_NAME: not given */
	int log_format, timestamps;
	bool verbose;
};

/* The program packrack-logger; returns its exit status. */
int prl_logger_main(int argc, char **argv);

/* The three ways to run: 0, or -1 and err. sfs: the volume, opened as its writer. */
int prl_logger_rack(struct sfs *sfs, const struct prl_options *o, struct pr_error *err);
int prl_logger_tap(struct sfs *sfs, const struct prl_options *o, struct pr_error *err);
