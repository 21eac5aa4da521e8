/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/keys_rack.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/keyfile.h"
#include "proto/rpc/keys.h"
#include "proto/wire/rack_key.h"

#define SERVER "server-key "
#define FRAME "frame-key "
#define RACK_MAX 65536

static bool
begins(const char *line, const char *word)
{
	return !strncmp(line, word, strlen(word));
}

int
keys_rack_make(const char *dir, struct pr_error *err)
{
	char public[PR_KEY_TEXT], hex[2 * PR_FRAME_KEY + 1], text[512];
	uint8_t frame[PR_FRAME_KEY];
	char *path;
	int rc;

	if (sodium_init() < 0)
		return pr_error_set(err, "libsodium does not start");
	if (pr_keys_load_public(dir, public, err) < 0 ||
		!(path = pr_keys_path(dir, "rack", err)))
		return -1;
	sodium_mlock(text, sizeof(text));
	randombytes_buf(frame, sizeof(frame));
	sodium_bin2hex(hex, sizeof(hex), frame, sizeof(frame));
	snprintf(text, sizeof(text),
		"# What members of this rack know (packrack-keys(7)). Mode 600.\n" SERVER
		"%s\n" FRAME "%s\n",
		public, hex);
	rc = pr_keyfile_write(path, 0600, text, false, err);
	if (rc < 0 && errno == EEXIST)
		pr_error_set(
			err, "there is a rack already, %s: 'packrack keys list'", path);
	sodium_munlock(text, sizeof(text));
	sodium_memzero(frame, sizeof(frame));
	sodium_memzero(hex, sizeof(hex));
	free(path);
	return rc;
}

static char *
read_rack(const char *dir, struct pr_error *err)
{
	char *path = pr_keys_path(dir, "rack", err), *text = NULL;

	if (path && pr_keydir_check(dir, err) == 0)
		text = pr_keyfile_read(path, true, NULL, err);
	if (path && !text && errno == ENOENT) {
		pr_error_set(err,
			"no %s: only the head of a rack can hand out its keys ('packrack "
			"keys generate --rack' makes a head)",
			path);
		errno = ENOENT;
	}
	free(path);
	return text;
}

/* The lines that go out, as text in locked memory. */
static char *
bundle_text(char *rack, const char *name, bool node, struct pr_error *err)
{
	char *out = sodium_malloc(RACK_MAX);
	size_t used;
	int n;

	if (!out) {
		pr_error_set(err, "no memory for a bundle");
		return NULL;
	}
	n = snprintf(out, RACK_MAX, "# For %s: goes to its key directory as 'rack'. %s\n",
		name, node ? "Secret: mode 600." : "Mode 600.");
	used = (size_t)n;
	for (char *line; (line = strsep(&rack, "\n"));) {
		if (!begins(line, SERVER) && !(node && begins(line, FRAME)))
			continue;
		if (used + strlen(line) + 2 > RACK_MAX) {
			sodium_free(out);
			pr_error_set(err, "the file 'rack' is longer than 64 KiB");
			return NULL;
		}
		used += (size_t)snprintf(out + used, RACK_MAX - used, "%s\n", line);
	}
	return out;
}

static int
print_secret(const char *text, bool secret, struct pr_error *err)
{
	if (secret && isatty(STDOUT_FILENO))
		return pr_error_set(err,
			"this bundle holds the frame key, and standard output is a "
			"terminal: name a file, or pipe it to where it goes");
	if (write(STDOUT_FILENO, text, strlen(text)) == (ssize_t)strlen(text))
		return 0;
	return pr_error_errno(err, "standard output");
}

int
keys_rack_bundle(const char *dir, const char *name, bool node, const char *file,
	struct pr_error *err)
{
	char *rack = read_rack(dir, err);
	char *text = rack ? bundle_text(rack, name, node, err) : NULL;
	int rc = -1;

	if (text && !strcmp(file, "-"))
		rc = print_secret(text, node, err);
	else if (text)
		rc = pr_keyfile_write(file, 0600, text, true, err);
	pr_keyfile_free(rack);
	sodium_free(text);
	return rc;
}

/* A hash that says nothing of the key, and differs when keys do. */
static int
fingerprint(const char *dir, char out[17], struct pr_error *err)
{
	uint8_t hash[crypto_generichash_BYTES_MIN];
	struct pr_frame_key key;
	int rc = pr_rack_key_read(dir, &key, err);

	if (rc == 0) {
		crypto_generichash(hash, sizeof(hash), key.bytes, sizeof(key.bytes),
			(const uint8_t *)"packrack frame key", 18);
		sodium_bin2hex(out, 17, hash, 8);
	}
	pr_rack_key_forget(&key);
	return rc;
}

int
keys_rack_read(const char *dir, struct keys_rack *out, struct pr_error *err)
{
	char *text = read_rack(dir, err), *rest = text;
	bool frame = false;
	size_t size;
	FILE *f;
	int rc = 0;

	*out = (struct keys_rack){0};
	if (!text)
		return errno == ENOENT ? 1 : -1;
	f = open_memstream(&out->servers, &size);
	for (char *line; f && (line = strsep(&rest, "\n"));) {
		if (begins(line, SERVER))
			fprintf(f, "%s\n", line + strlen(SERVER));
		frame |= begins(line, FRAME);
	}
	if (!f || fclose(f))
		rc = pr_error_set(err, "no memory");
	pr_keyfile_free(text);
	if (rc == 0 && frame)
		rc = fingerprint(dir, out->frame, err);
	return rc;
}
