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

/*
 * The directory that a daemon uses: what --key-dir said, else PR_KEYS_DIR when there is a key pair in it,
 * or when that cannot be told (then using it fails, loudly). NULL: no keys.
 */
const char *pr_keys_dir(const char *flag);

/* The caller wipes the pair (pr_keys_wipe) when it has been used; until then it is locked in memory. */
int pr_keys_load_pair(const char *dir, struct pr_key_pair *out, struct pr_error *err);
void pr_keys_wipe(struct pr_key_pair *pair);
/* Z85; returns out. */
const char *pr_key_text(const uint8_t key[PR_KEY_BYTES], char out[PR_KEY_TEXT]);
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
