/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/keys.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/base/keyfile.h"

char *
pr_keys_path(const char *dir, const char *name, struct pr_error *err)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir, name) >= 0)
		return path;
	pr_error_set(err, "no memory");
	return NULL;
}

const char *
pr_keys_dir(const char *flag)
{
	if (flag)
		return strcmp(flag, PR_KEYS_NONE) ? flag : NULL;
	if (access(PR_KEYS_DIR "/secret", F_OK) < 0 &&
		(errno == ENOENT || errno == ENOTDIR))
		return NULL;
	return PR_KEYS_DIR;
}

static bool
key_valid(const char *key)
{
	uint8_t bytes[PR_KEY_BYTES];
	bool valid = strlen(key) == PR_KEY_TEXT - 1 && zmq_z85_decode(bytes, key);

	explicit_bzero(bytes, sizeof(bytes));
	return valid;
}

static int
take(const char *key, char out[PR_KEY_TEXT])
{
	if (!key_valid(key))
		return -1;
	memcpy(out, key, PR_KEY_TEXT);
	return 0;
}

/* The next line that begins with word, as its value; the rest of the text behind *rest. */
static char *
next_value(char **rest, const char *word)
{
	size_t n = strlen(word);

	for (char *line; (line = strsep(rest, "\n"));) {
		size_t end = strlen(line);
		while (end > 0 && strchr(" \t\r", line[end - 1]))
			line[--end] = 0;
		if (!strncmp(line, word, n) && line[n] == ' ')
			return line + n + strspn(line + n, " ");
	}
	return NULL;
}

static int
load_key(const char *dir, const char *name, bool private, const char *word,
	char out[PR_KEY_TEXT], struct pr_error *err)
{
	char *path = pr_keys_path(dir, name, err), *text, *rest, *value;
	int rc = -1;

	if (!path || pr_keydir_check(dir, err) < 0) {
		free(path);
		return -1;
	}
	text = rest = pr_keyfile_read(path, private, NULL, err);
	value = text ? next_value(&rest, word) : NULL;
	if (value && take(value, out) == 0)
		rc = 0;
	else if (text)
		pr_error_set(err,
			value ? "key file %s: its %s is no key"
			      : "key file %s: no line '%s KEY' (packrack keys generate)",
			path, word);
	pr_keyfile_free(text);
	free(path);
	return rc;
}

int
pr_keys_load_pair(const char *dir, struct pr_key_pair *out, struct pr_error *err)
{
	sodium_mlock(out, sizeof(*out)); /* as far as the user may */
	if (load_key(dir, "secret", true, "secret-key", out->secret, err) < 0) {
		pr_keys_wipe(out);
		return -1;
	}
	if (zmq_curve_public(out->public, out->secret) == 0)
		return 0;
	pr_keys_wipe(out);
	return pr_error_set(err, "key file %s/secret: %s", dir,
		errno == ENOTSUP ? "this ZeroMQ was built without CURVE" : "no key");
}

void
pr_keys_wipe(struct pr_key_pair *pair)
{
	sodium_munlock(pair, sizeof(*pair)); /* also clears it */
}

int
pr_keys_load_public(const char *dir, char out[PR_KEY_TEXT], struct pr_error *err)
{
	return load_key(dir, "public", false, "public-key", out, err);
}

int
pr_keys_parse_public(const char *text, char out[PR_KEY_TEXT])
{
	char room[128];
	char *rest = room, *value;
	size_t len = strcspn(text, "\r\n");

	if (len == PR_KEY_TEXT - 1 && !text[len + strspn(text + len, "\r\n")]) {
		snprintf(room, sizeof(room), "%.*s", PR_KEY_TEXT - 1, text);
		return take(room, out);
	}
	while (*text == '#' || *text == '\n') {
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	snprintf(room, sizeof(room), "%s", text);
	value = next_value(&rest, "public-key");
	return value ? take(value, out) : -1;
}

const char *
pr_key_text(const uint8_t key[PR_KEY_BYTES], char out[PR_KEY_TEXT])
{
	return zmq_z85_encode(out, key, PR_KEY_BYTES);
}

/* "ENDPOINT KEY" or "KEY"; the key, and *endpoint NULL when there is none. */
static const char *
server_key(char *value, const char **endpoint)
{
	char *space = strrchr(value, ' ');

	*endpoint = space ? value : NULL;
	if (!space)
		return value;
	value[strcspn(value, " ")] = 0;
	return space + 1;
}

static int
find_server(char *text, const char *path, const char *endpoint, char out[PR_KEY_TEXT],
	struct pr_error *err)
{
	bool found = false;
	char *value;

	while ((value = next_value(&text, "server-key"))) {
		const char *of, *key = server_key(value, &of);

		if (!key_valid(key))
			return pr_error_set(
				err, "key file %s: a server-key in it is no key", path);
		if (of && strcmp(of, endpoint))
			continue;
		if (of || !found)
			memcpy(out, key, PR_KEY_TEXT);
		if (of)
			return 0;
		found = true;
	}
	return found ? 0
		     : pr_error_set(err,
			       "key file %s: no server-key for %s (packrack-keys(7))", path,
			       endpoint);
}

int
pr_keys_load_server(
	const char *dir, const char *endpoint, char out[PR_KEY_TEXT], struct pr_error *err)
{
	char *path = pr_keys_path(dir, "rack", err);
	char *text = path ? pr_keyfile_read(path, true, NULL, err) : NULL;
	int rc = text ? find_server(text, path, endpoint, out, err) : -1;

	pr_keyfile_free(text);
	free(path);
	return rc;
}

/* ---- making ---- */

static int
make_dir(const char *dir, struct pr_error *err)
{
	char *slash;
	char *path = strdup(dir);
	int rc = 0;

	if (!path)
		return pr_error_set(err, "no memory");
	for (slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = 0;
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			break;
	}
	if (slash || (mkdir(path, 0700) < 0 && errno != EEXIST))
		rc = pr_error_errno(err, "cannot make the key directory %s", dir);
	free(path);
	return rc < 0 ? -1 : pr_keydir_check(dir, err);
}

static int
write_key(const char *dir, const char *name, mode_t mode, const char *word, const char *key,
	struct pr_error *err)
{
	char line[PR_KEY_TEXT + 32];
	char *path = pr_keys_path(dir, name, err);
	int rc = -1;

	snprintf(line, sizeof(line), "%s %s\n", word, key);
	if (path)
		rc = pr_keyfile_write(path, mode, line, !strcmp(name, "public"), err);
	if (path && rc < 0 && errno == EEXIST)
		pr_error_set(err,
			"there is a key already, %s: 'packrack keys list' shows it", path);
	explicit_bzero(line, sizeof(line));
	free(path);
	return rc;
}

int
pr_keys_generate(const char *dir, struct pr_error *err)
{
	struct pr_key_pair pair;
	int rc = -1;

	if (make_dir(dir, err) < 0)
		return -1;
	sodium_mlock(&pair, sizeof(pair));
	if (zmq_curve_keypair(pair.public, pair.secret) < 0)
		pr_error_set(err, "this ZeroMQ was built without CURVE");
	else if (write_key(dir, "secret", 0600, "secret-key", pair.secret, err) == 0)
		rc = write_key(dir, "public", 0644, "public-key", pair.public, err);
	pr_keys_wipe(&pair);
	return rc;
}
