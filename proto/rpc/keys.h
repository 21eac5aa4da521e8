/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "proto/base/clock.h"

/*
 * A key directory (mode 0700), as packrack-keys(7) describes it. Keys are CURVE's, in ZeroMQ's Z85 text
 * (40 characters). Each line is a word and a value; lines that begin with # are comments.
 *
 *   secret    0600   secret-key Z85                   own key pair
 *   public    0644   public-key Z85
 *   rack      0600   server-key [ENDPOINT] Z85        how the rack's servers are known, and
 *                    frame-key HEX                    the key of its frames (proto/wire/rack_key.h)
 *   enrolled  0600   NAME ROLE Z85                    whom the daemons of this machine admit
 *
 * A secret is never in an error text. Files and the directory are checked for owner and mode.
 */
enum { PR_KEY_TEXT = 41, PR_KEY_BYTES = 32, PR_KEY_NAME_MAX = 63 };
#define PR_KEYS_DIR "/etc/packrack/keys"
#define PR_KEYS_NONE "none" /* in place of a directory: no keys */

struct pr_key_pair {
	char secret[PR_KEY_TEXT], public[PR_KEY_TEXT];
};

/* DIR/NAME in malloc'd memory; NULL and err: no memory. */
char *pr_keys_path(const char *dir, const char *name, struct pr_error *err);

/*
 * The directory that a daemon uses: what --key-dir said, else PR_KEYS_DIR when there is a key pair in it,
 * or when that cannot be told (then using it fails, loudly). NULL: no keys.
 */
const char *pr_keys_dir(const char *flag);

/* Makes the directory if needed, and the pair in it; refuses to overwrite one. */
int pr_keys_generate(const char *dir, struct pr_error *err);
/* The caller wipes the pair (pr_keys_wipe) when it has been used; until then it is locked in memory. */
int pr_keys_load_pair(const char *dir, struct pr_key_pair *out, struct pr_error *err);
void pr_keys_wipe(struct pr_key_pair *pair);
int pr_keys_load_public(const char *dir, char out[PR_KEY_TEXT], struct pr_error *err);
/* Z85; returns out. */
const char *pr_key_text(const uint8_t key[PR_KEY_BYTES], char out[PR_KEY_TEXT]);
/* "public-key Z85" or the key alone, as a file or a pipe has it. */
int pr_keys_parse_public(const char *text, char out[PR_KEY_TEXT]);
/*
 * The key of the server at endpoint: from the line with this endpoint, else from the line
 * without one.
 */
int pr_keys_load_server(
	const char *dir, const char *endpoint, char out[PR_KEY_TEXT], struct pr_error *err);

struct pr_enrolled_key {
	char name[PR_KEY_NAME_MAX + 1];
	unsigned role; /* enum pr_role */
	uint8_t key[PR_KEY_BYTES];
};

/*
 * The listed keys, read again whenever the file has changed: neither enrolling nor revoking needs a
 * restart. A file that is not there is an empty list. It is looked at this often at most, not for each
 * message: a daemon without privileges has to ask its parent.
 */
#define PR_ENROLLED_LOOK_NS (50 * PR_NS_PER_MS)
struct pr_enrolled *pr_enrolled_open(const char *dir, struct pr_error *err);
void pr_enrolled_close(struct pr_enrolled **enrolled);
/*
 * NULL: not listed, or the file cannot be trusted any more (then nobody is admitted, and the log says
 * so once). Valid until the next call.
 */
const struct pr_enrolled_key *pr_enrolled_find(
	struct pr_enrolled *enrolled, const uint8_t key[PR_KEY_BYTES]);
/*
 * The key number `at` in the file's order; NULL: none. Valid until the next of these calls.
 */
const struct pr_enrolled_key *pr_enrolled_at(struct pr_enrolled *enrolled, size_t at);

/* 1 to PR_KEY_NAME_MAX letters, digits, dots, dashes, underscores; begins with a letter or digit. */
bool pr_key_name_valid(const char *name);

/*
 * Changes DIR/enrolled, for the user's command. Comments and order stay. Enrolling refuses a name or a
 * key that is listed already; revoking fails when there is none of this name. Two at once wait for
 * each other.
 */
int pr_enrol(const char *dir, const char *name, unsigned role, const char *key,
	struct pr_error *err);
/* *role: the role of the revoked key. */
int pr_revoke(const char *dir, const char *name, unsigned *role, struct pr_error *err);
