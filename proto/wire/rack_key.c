/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/rack_key.h"

#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/keyfile.h"

enum { DIGITS = 2 * PR_FRAME_KEY };
#define WORD "frame-key "

static int
parse(char *text, const char *path, struct pr_frame_key *key, struct pr_error *err)
{
	char *line;

	while ((line = strsep(&text, "\n")))
		if (!strncmp(line, WORD, strlen(WORD)))
			break;
	if (!line)
		return pr_error_set(err,
			"key file %s: no frame-key in it: is it a node's? "
			"('packrack keys enroll' on the rack's head writes it)",
			path);
	line += strlen(WORD);
	line[strcspn(line, " \t\r")] = 0;
	if (strlen(line) != DIGITS || sodium_hex2bin(key->bytes, sizeof(key->bytes), line,
					      DIGITS, NULL, NULL, NULL) != 0)
		return pr_error_set(err,
			"key file %s: its frame-key is no key: wanted %d hexadecimal "
			"digits",
			path, DIGITS);
	key->set = true;
	return 0;
}

int
pr_rack_key_read(const char *dir, struct pr_frame_key *key, struct pr_error *err)
{
	char path[PATH_MAX], *text;
	int rc;

	memset(key, 0, sizeof(*key));
	if (!dir)
		return 0;
	snprintf(path, sizeof(path), "%s/rack", dir);
	if (sodium_init() < 0)
		return pr_error_set(err, "libsodium does not start");
	if (pr_keydir_check(dir, err) < 0)
		return -1;
	text = pr_keyfile_read(path, true, NULL, err);
	if (!text && errno == ENOENT)
		return pr_error_set(err,
			"key file %s is not there: on the rack's head 'packrack keys "
			"generate --rack' makes it, on a node it comes from the head's "
			"'packrack keys enroll'",
			path);
	if (!text)
		return -1;
	sodium_mlock(key, sizeof(*key));
	rc = parse(text, path, key, err);
	pr_keyfile_free(text);
	if (rc < 0)
		pr_rack_key_forget(key);
	return rc;
}

void
pr_rack_key_forget(struct pr_frame_key *key)
{
	sodium_munlock(key, sizeof(*key));
}
