/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_KEYS_RACK_H
#define PR_CLI_KEYS_RACK_H

#include <stdbool.h>

#include "proto/base/error.h"

/* The file `rack` of a key directory: how a rack's servers are known, and the key of its frames. */

/* Makes it for the head of a new rack: its own public key, a new frame key. Refuses to overwrite. */
int keys_rack_make(const char *dir, struct pr_error *err);

/*
 * Writes what an enrolled one needs to FILE, or to standard output ("-"): the servers' public keys,
 * for nodes the frame key as well. It goes to that machine as DIR/rack.
 */
int keys_rack_bundle(const char *dir, const char *name, bool node, const char *file,
	struct pr_error *err);

/*
 * Takes a bundle in (at most KEYS_BUNDLE_MAX bytes, without its NUL) as DIR/rack, in place of an
 * earlier one, when every line of it is good.
 */
#define KEYS_BUNDLE_MAX 65536
int keys_rack_join(const char *dir, const char *bundle, struct pr_error *err);

/*
 * Puts a new frame key before the old one, which is accepted until keys_rack_renewed: bundles that are
 * made now hold both.
 */
int keys_rack_renew(const char *dir, struct pr_error *err);
int keys_rack_renewed(const char *dir, struct pr_error *err);

/* What people compare: "KEY [of ENDPOINT]" lines, and a short hash of the frame key, or "". */
struct keys_rack {
	char *servers; /* lines, from malloc */
	char frame[17];
};
/* 1: there is no such file. */
int keys_rack_read(const char *dir, struct keys_rack *out, struct pr_error *err);

#endif
