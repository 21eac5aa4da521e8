/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/keys.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/base/array.h"
#include "proto/base/keyfile.h"
#include "proto/base/log.h"
#include "proto/base/privilege.h"
#include "proto/base/text.h"
#include "proto/rpc/admission.h"

/* ---- key pairs ---- */

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

/* Returns the value of the next line that begins with word; *rest: the text behind it. */
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

/* DIR/NAME as text (pr_keyfile_free), and its path. NULL and err. */
static char *
read_file(const char *dir, const char *name, char path[PATH_MAX], struct pr_error *err)
{
	snprintf(path, PATH_MAX, "%s/%s", dir, name);
	return pr_keyfile_read(path, true, NULL, err);
}

static int
load_secret(const char *dir, char out[PR_KEY_TEXT], struct pr_error *err)
{
	char path[PATH_MAX], *text, *rest;
	int rc = 0;

	if (pr_keydir_check(dir, err) < 0)
		return -1;
	text = rest = read_file(dir, "secret", path, err);
	if (!text)
		return -1;
	char *value = next_value(&rest, "secret-key");
	if (!value || take(value, out) < 0)
		rc = pr_error_set(err,
			value ? "key file %s: its secret-key is not a key"
			      : "key file %s: no line 'secret-key KEY' (packrack keys "
				"generate)",
			path);
	pr_keyfile_free(text);
	return rc;
}

int
pr_keys_load_pair(const char *dir, struct pr_key_pair *out, struct pr_error *err)
{
	sodium_mlock(out, sizeof(*out)); /* as far as the user may */
	int rc = load_secret(dir, out->secret, err);
	if (rc == 0 && zmq_curve_public(out->public, out->secret) < 0)
		rc = pr_error_set(err, "key file %s/secret: %s", dir,
			errno == ENOTSUP ? "this ZeroMQ was built without CURVE"
					 : "no key");
	if (rc < 0)
		pr_keys_wipe(out);
	return rc;
}

void
pr_keys_wipe(struct pr_key_pair *pair)
{
	sodium_munlock(pair, sizeof(*pair)); /* also clears it */
}

const char *
pr_key_text(const uint8_t key[PR_KEY_BYTES], char out[PR_KEY_TEXT])
{
	return zmq_z85_encode(out, key, PR_KEY_BYTES);
}

int
pr_keys_load_server(
	const char *dir, const char *endpoint, char out[PR_KEY_TEXT], struct pr_error *err)
{
	char path[PATH_MAX], *text = read_file(dir, "rack", path, err);
	char *rest = text, *value;
	int rc = -1;

	if (!text)
		return -1;
	/* "ENDPOINT KEY" or "KEY" */
	while ((value = next_value(&rest, "server-key"))) {
		char *space = strrchr(value, ' '), *key = space ? space + 1 : value;

		if (!key_valid(key)) {
			rc = pr_error_set(
				err, "key file %s: a server-key in it is not a key", path);
			break;
		}
		if (space)
			value[strcspn(value, " ")] = 0;
		if (space && strcmp(value, endpoint))
			continue;
		if (space || rc < 0)
			memcpy(out, key, PR_KEY_TEXT);
		rc = 0;
		if (space)
			break;
	}
	if (rc < 0 && !value)
		pr_error_set(err, "key file %s: no server-key for %s (packrack-keys(7))",
			path, endpoint);
	pr_keyfile_free(text);
	return rc;
}

/* ---- enrolled keys ---- */

struct pr_enrolled {
	char *dir, file[PATH_MAX];
	struct stat seen; /* st_ino 0: it was not there */
	int64_t looked; /* monotonic: when the file was last looked at */
	bool said_bad;
	struct pr_enrolled_key *keys;
	size_t count;
};

static bool
name_valid(const char *name)
{
	size_t len = strlen(name);

	if (len < 1 || len > PR_KEY_NAME_MAX || !isalnum((unsigned char)*name))
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	return true;
}

static bool
parse_key(const char *line, struct pr_enrolled_key *out)
{
	char role[PR_ROLE_TEXT], key[PR_KEY_TEXT], extra;

	if (sscanf(line, "%63s %33s %40s %c", out->name, role, key, &extra) != 3)
		return false;
	out->role = pr_role_parse(role);
	return name_valid(out->name) && out->role && strlen(key) == PR_KEY_TEXT - 1 &&
	       zmq_z85_decode(out->key, key);
}

/* Loads the list. If that fails the list is empty: nobody is admitted. */
static int
load(struct pr_enrolled *e, struct pr_error *err)
{
	unsigned number = 0;
	int rc = 0;

	e->count = 0;
	memset(&e->seen, 0, sizeof(e->seen));
	if (pr_keydir_check(e->dir, err) < 0)
		return -1;
	char *text = pr_keyfile_read(e->file, false, &e->seen, err);
	if (!text)
		return errno == ENOENT ? 0 : -1;
	for (char *line, *rest = text; rc == 0 && (line = strsep(&rest, "\n"));) {
		number++;
		if (!line[strspn(line, " \t\r")] || *line == '#')
			continue;
		if (PR_ARRAY_GROW(e->keys, e->count) < 0)
			rc = pr_error_set(err, "no memory for the keys of %s", e->file);
		else if (!parse_key(line, &e->keys[e->count]))
			rc = pr_error_set(err,
				"key file %s line %u: expected NAME ROLE PUBLICKEY with "
				"the roles node, read, operate",
				e->file, number);
		else
			e->count++;
	}
	pr_keyfile_free(text);
	if (rc < 0)
		e->count = 0;
	return rc;
}

struct pr_enrolled *
pr_enrolled_open(const char *dir, struct pr_error *err)
{
	struct pr_enrolled *e = calloc(1, sizeof(*e));

	if (e && (e->dir = strdup(dir))) {
		PR_PRINT(e->file, "%s/enrolled", dir);
		if (load(e, err) == 0)
			return e;
	} else {
		pr_error_set(err, "no memory");
	}
	pr_enrolled_close(&e);
	return NULL;
}

void
pr_enrolled_close(struct pr_enrolled **enrolled)
{
	struct pr_enrolled *e = PR_TAKE(enrolled);

	if (e)
		PR_FREE(e, dir, keys);
	free(e);
}

static void
refresh(struct pr_enrolled *e)
{
	const struct stat *seen = &e->seen;
	int64_t mono = pr_now_mono();
	struct pr_error err;
	struct stat now;

	if (mono - e->looked < PR_ENROLLED_LOOK_NS)
		return;
	e->looked = mono;
	if (pr_privilege_stat(e->file, &now) < 0
			? !seen->st_ino
			: now.st_ino == seen->st_ino &&
				  !memcmp(&now.st_ctim, &seen->st_ctim,
					  sizeof(now.st_ctim)))
		return;
	if (load(e, &err) == 0) {
		e->said_bad = false;
		pr_log_info("%s: %zu keys are enrolled now", e->file, e->count);
	} else if (!e->said_bad) {
		e->said_bad = true;
		pr_log_error("%s: nobody is admitted until it is fixed", err.text);
	}
}

const struct pr_enrolled_key *
pr_enrolled_find(struct pr_enrolled *e, const uint8_t key[PR_KEY_BYTES])
{
	refresh(e);
	for (size_t i = 0; i < e->count; i++)
		if (!sodium_memcmp(e->keys[i].key, key, PR_KEY_BYTES))
			return &e->keys[i];
	return NULL;
}
