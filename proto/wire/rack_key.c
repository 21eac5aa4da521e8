/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/rack_key.h"

#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>

#include "proto/base/keyfile.h"

enum { DIGITS = 2 * PR_FRAME_KEY };
#define WORD "frame-key "

static int
parse(char *text, const char *path, struct pr_frame_key *key, struct pr_error *err)
{
	uint8_t *out[] = {key->active, key->alternate};
	unsigned found = 0;
	char *line;

	while ((line = strsep(&text, "\n"))) {
		if (strncmp(line, WORD, strlen(WORD)) != 0)
			continue;
		if (found == 2)
			return pr_error_set(err,
				"key file %s: more than two frame-key lines: the new one "
				"and the old one are enough",
				path);
		line += strlen(WORD);
		line[strcspn(line, " \t\r")] = 0;
		if (strlen(line) != DIGITS || sodium_hex2bin(out[found], PR_FRAME_KEY, line,
						      DIGITS, NULL, NULL, NULL) != 0)
			return pr_error_set(err,
				"key file %s: a frame-key in it is no key: wanted %d "
				"hexadecimal digits",
				path, DIGITS);
		found++;
	}
	key->set = found > 0;
	key->alternate_set = found > 1;
	if (found)
		return 0;
	return pr_error_set(err,
		"key file %s: no frame-key in it ('packrack keys enroll' on the rack's "
		"head writes it for a node)",
		path);
}

void
pr_rack_key_turn(struct pr_frame_key *key)
{
	uint8_t bytes[PR_FRAME_KEY];

	if (!key->alternate_set)
		return;
	memcpy(bytes, key->active, PR_FRAME_KEY);
	memcpy(key->active, key->alternate, PR_FRAME_KEY);
	memcpy(key->alternate, bytes, PR_FRAME_KEY);
	key->alternate_is_newer = !key->alternate_is_newer;
	sodium_memzero(bytes, sizeof bytes);
}

void
pr_rack_key_heard(struct pr_frame_key *key, bool by_alternate)
{
	if (!key->alternate_set)
		return;
	if (by_alternate)
		pr_rack_key_turn(key);
	if (key->alternate_is_newer)
		return;
	sodium_memzero(key->alternate, sizeof key->alternate);
	key->alternate_set = false;
}

int
pr_rack_key_read(const char *dir, struct pr_frame_key *key, struct pr_error *err)
{
	char path[PATH_MAX];

	memset(key, 0, sizeof *key);
	if (!dir)
		return 0;
	snprintf(path, sizeof path, "%s/rack", dir);
	if (sodium_init() < 0)
		return pr_error_set(err, "libsodium does not start");
	if (pr_keydir_check(dir, err) < 0)
		return -1;
	char *text = pr_keyfile_read(path, true, NULL, err);
	if (!text && errno == ENOENT)
		return pr_error_set(err,
			"key file %s does not exist: on the rack's head 'packrack keys "
			"generate --rack' makes it, on a node it comes from the head's "
			"'packrack keys enroll'",
			path);
	if (!text)
		return -1;
	sodium_mlock(key, sizeof *key);
	int rc = parse(text, path, key, err);
	pr_keyfile_free(text);
	if (rc < 0)
		pr_rack_key_forget(key);
	return rc;
}

void
pr_rack_key_forget(struct pr_frame_key *key)
{
	sodium_munlock(key, sizeof *key);
}
