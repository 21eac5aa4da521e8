/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/rack/keys_rack.h"

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

static bool
begins(const char *line, const char *word)
{
	return !strncmp(line, word, strlen(word));
}

static void
append_new_key(char *out, size_t room)
{
	char hex[2 * PR_FRAME_KEY + 1];
	uint8_t frame[PR_FRAME_KEY];

	randombytes_buf(frame, sizeof(frame));
	sodium_bin2hex(hex, sizeof(hex), frame, sizeof(frame));
	snprintf(out, room, FRAME "%s\n", hex);
	sodium_memzero(frame, sizeof(frame));
	sodium_memzero(hex, sizeof(hex));
}

int
keys_rack_make(const char *dir, struct pr_error *err)
{
	char public[PR_KEY_TEXT], text[512];
	size_t used;
	char *path;
	int rc;

	if (sodium_init() < 0)
		return pr_error_set(err, "libsodium does not start");
	if (pr_keys_load_public(dir, public, err) < 0 ||
		!(path = pr_keys_path(dir, "rack", err)))
		return -1;
	sodium_mlock(text, sizeof(text));
	used = (size_t)snprintf(text, sizeof(text),
		"# What members of this rack know (packrack-keys(7)). Mode 600.\n" SERVER
		"%s\n",
		public);
	append_new_key(text + used, sizeof(text) - used);
	rc = pr_keyfile_write(path, 0600, text, false, err);
	if (rc < 0 && errno == EEXIST)
		pr_error_set(
			err, "there is a rack already, %s: 'packrack keys list'", path);
	sodium_munlock(text, sizeof(text));
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
	char *out = sodium_malloc(KEYS_BUNDLE_MAX);
	size_t used;
	int n;

	if (!out) {
		pr_error_set(err, "no memory for a bundle");
		return NULL;
	}
	n = snprintf(out, KEYS_BUNDLE_MAX,
		"# For %s: goes to its key directory as 'rack'. %s\n", name,
		node ? "Secret: mode 600." : "Mode 600.");
	used = (size_t)n;
	for (char *line; (line = strsep(&rack, "\n"));) {
		if (!begins(line, SERVER) && !(node && begins(line, FRAME)))
			continue;
		if (used + strlen(line) + 2 > KEYS_BUNDLE_MAX) {
			sodium_free(out);
			pr_error_set(err, "the file 'rack' is longer than 64 KiB");
			return NULL;
		}
		used += (size_t)snprintf(out + used, KEYS_BUNDLE_MAX - used, "%s\n", line);
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

/* The rack file with the first frame key only, before it a new one if so; *keys: there were. */
static void
rewrite(char *rack, bool renew, char *out, size_t room, unsigned *keys)
{
	size_t used = 0;

	*keys = 0;
	for (char *line; (line = strsep(&rack, "\n"));) {
		bool frame = begins(line, FRAME);

		if (frame && ++*keys > 1)
			continue;
		if (frame && renew)
			append_new_key(out + used, room - used);
		used += strlen(out + used);
		if (rack || *line)
			used += (size_t)snprintf(out + used, room - used, "%s\n", line);
	}
}

static int
change(const char *dir, bool renew, struct pr_error *err)
{
	char *rack = sodium_init() < 0 ? NULL : read_rack(dir, err), *path, *out;
	size_t room = rack ? strlen(rack) + 256 : 0;
	unsigned keys = 0;
	int rc = -1;

	if (!rack)
		return -1;
	path = pr_keys_path(dir, "rack", err);
	out = sodium_malloc(room);
	if (path && out) {
		memset(out, 0, room);
		rewrite(rack, renew, out, room, &keys);
		if (keys == 0)
			pr_error_set(err, "%s: no frame-key in it to renew", path);
		else if (renew && keys > 1)
			pr_error_set(err,
				"%s: a renewal is under way: end it with 'packrack keys "
				"renew --end'",
				path);
		else if (!renew && keys == 1)
			pr_error_set(err, "%s: no renewal is under way", path);
		else
			rc = pr_keyfile_write(path, 0600, out, true, err);
	}
	sodium_free(out);
	free(path);
	pr_keyfile_free(rack);
	return rc;
}

/* Is it what keys_rack_bundle writes? */
static int
check_bundle(char *text, struct pr_error *err)
{
	char key[PR_KEY_TEXT];
	uint8_t frame[PR_FRAME_KEY];
	unsigned servers = 0, number = 0;

	for (char *line; (line = strsep(&text, "\n"));) {
		const char *value = strrchr(line, ' ');
		bool good = !*line || *line == '#';

		number++;
		if (begins(line, SERVER)) {
			good = pr_keys_parse_public(value + 1, key) == 0;
			servers += good;
		} else if (begins(line, FRAME)) {
			good = strlen(value + 1) == 2 * PR_FRAME_KEY &&
			       sodium_hex2bin(frame, sizeof(frame), value + 1,
				       2 * PR_FRAME_KEY, NULL, NULL, NULL) == 0;
			sodium_memzero(frame, sizeof(frame));
		}
		if (!good)
			return pr_error_set(err,
				"line %u of the bundle is none of 'packrack keys enroll "
				"--bundle' or 'packrack keys bundle'",
				number);
	}
	return servers ? 0 : pr_error_set(err, "there is no server-key in this bundle");
}

int
keys_rack_join(const char *dir, const char *bundle, struct pr_error *err)
{
	char *path, *copy = sodium_init() < 0 ? NULL : sodium_malloc(KEYS_BUNDLE_MAX + 1);
	int rc = -1;

	if (!copy)
		return pr_error_set(err, "no memory for a bundle");
	snprintf(copy, KEYS_BUNDLE_MAX + 1, "%s", bundle);
	path = pr_keys_path(dir, "rack", err);
	if (path && pr_keydir_check(dir, err) == 0 && check_bundle(copy, err) == 0)
		rc = pr_keyfile_write(path, 0600, bundle, true, err);
	sodium_free(copy);
	free(path);
	return rc;
}

int
keys_rack_renew(const char *dir, struct pr_error *err)
{
	return change(dir, true, err);
}

int
keys_rack_renewed(const char *dir, struct pr_error *err)
{
	return change(dir, false, err);
}

/* A hash that says nothing of the key, and differs when keys do. */
static int
fingerprint(const char *dir, char out[17], struct pr_error *err)
{
	uint8_t hash[crypto_generichash_BYTES_MIN];
	struct pr_frame_key key;
	int rc = pr_rack_key_read(dir, &key, err);

	if (rc == 0) {
		crypto_generichash(hash, sizeof(hash), key.active, sizeof(key.active),
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
