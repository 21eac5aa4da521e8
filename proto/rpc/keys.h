/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_KEYS_H
#define PR_RPC_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * CURVE keys in files, in ZeroMQ's Z85 text (40 characters). Each line is a word and a value;
 * lines that begin with # are comments:
 *
 *   secret file (mode 0600, of the program that uses it)    secret-key Z85
 *   public file                                             public-key Z85
 *   enrolled file (of a server)                             NAME ROLE Z85
 *
 * A secret is never in an error text. A secret file that group or others may read, and any that
 * others may write, is refused.
 */
#define PR_KEY_TEXT 41
#define PR_KEY_BYTES 32
#define PR_KEY_NAME_MAX 63

struct pr_key_pair {
	char secret[PR_KEY_TEXT], public[PR_KEY_TEXT];
};

/* Makes both files; refuses to overwrite. */
int pr_keys_generate(
	const char *secret_file, const char *public_file, struct pr_error *err);
/* The caller wipes the pair (pr_keys_wipe) when it has been used. */
int pr_keys_load_pair(
	const char *secret_file, struct pr_key_pair *out, struct pr_error *err);
int pr_keys_load_public(
	const char *public_file, char out[PR_KEY_TEXT], struct pr_error *err);
void pr_keys_wipe(struct pr_key_pair *pair);

struct pr_enrolled_key {
	char name[PR_KEY_NAME_MAX + 1];
	char role[16]; /* node, read or steer */
	uint8_t key[PR_KEY_BYTES];
};

/* The listed keys, read again whenever the file has changed: enrolling needs no restart. */
struct pr_enrolled;
struct pr_enrolled *pr_enrolled_open(const char *file, struct pr_error *err);
void pr_enrolled_close(struct pr_enrolled **enrolled);
/* NULL: not listed, or the file cannot be read any more (then nobody is admitted). */
const struct pr_enrolled_key *pr_enrolled_find(
	struct pr_enrolled *enrolled, const uint8_t key[PR_KEY_BYTES]);

bool pr_role_valid(const char *role);

#endif
