/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/keys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/base/array.h"
#include "proto/base/keyfile.h"
#include "proto/base/log.h"
#include "proto/base/privilege.h"
#include "proto/base/text.h"
#include "proto/rpc/admission.h"

/* ---- key pairs ---- */

char *
pr_keys_path(const char *dir, const char *name, struct pr_error *err)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir, name) >= 0)
		return path;
	return pr_error_null(err, "no memory");
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
read_file(const char *dir, const char *name, bool private, char path[PATH_MAX],
	struct pr_error *err)
{
	snprintf(path, PATH_MAX, "%s/%s", dir, name);
	return pr_keyfile_read(path, private, NULL, err);
}

static int
load_key(const char *dir, const char *name, bool private, const char *word,
	char out[PR_KEY_TEXT], struct pr_error *err)
{
	char path[PATH_MAX], *text, *rest;
	int rc = 0;

	if (pr_keydir_check(dir, err) < 0)
		return -1;
	text = rest = read_file(dir, name, private, path, err);
	if (!text)
		return -1;
	char *value = next_value(&rest, word);
	if (!value || take(value, out) < 0)
		rc = pr_error_set(err,
			value ? "key file %s: its %s is not a key"
			      : "key file %s: no line '%s KEY' (packrack keys generate)",
			path, word);
	pr_keyfile_free(text);
	return rc;
}

int
pr_keys_load_pair(const char *dir, struct pr_key_pair *out, struct pr_error *err)
{
	sodium_mlock(out, sizeof(*out)); /* as far as the user may */
	int rc = load_key(dir, "secret", true, "secret-key", out->secret, err);
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

int
pr_keys_load_public(const char *dir, char out[PR_KEY_TEXT], struct pr_error *err)
{
	return load_key(dir, "public", false, "public-key", out, err);
}

int
pr_keys_parse_public(const char *text, char out[PR_KEY_TEXT])
{
	char room[128];
	char *rest = room;
	size_t len = strcspn(text, "\r\n");

	if (len == PR_KEY_TEXT - 1 && !text[len + strspn(text + len, "\r\n")]) {
		PR_PRINT(room, "%.*s", PR_KEY_TEXT - 1, text);
		return take(room, out);
	}
	while (*text == '#' || *text == '\n') {
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	PR_PRINT(room, "%s", text);
	char *value = next_value(&rest, "public-key");
	return value ? take(value, out) : -1;
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
	char path[PATH_MAX], *text = read_file(dir, "rack", true, path, err);
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
	char line[PR_KEY_TEXT + 32], path[PATH_MAX];

	PR_PRINT(path, "%s/%s", dir, name);
	PR_PRINT(line, "%s %s\n", word, key);
	int rc = pr_keyfile_write(path, mode, line, !strcmp(name, "public"), err);
	if (rc < 0 && errno == EEXIST)
		pr_error_set(err, "a key exists already: %s; 'packrack keys list' shows it",
			path);
	explicit_bzero(line, sizeof(line));
	return rc;
}

int
pr_keys_generate(const char *dir, struct pr_error *err)
{
	struct pr_key_pair pair;
	int rc = -1, made;

	if (make_dir(dir, err) < 0)
		return -1;
	sodium_mlock(&pair, sizeof(pair));
	do /* as a word a key with a slash would be a path, one with - first an option */
		made = zmq_curve_keypair(pair.public, pair.secret);
	while (made == 0 && (strchr(pair.public, '/') || *pair.public == '-'));
	if (made < 0)
		pr_error_set(err, "this ZeroMQ was built without CURVE");
	else if (write_key(dir, "secret", 0600, "secret-key", pair.secret, err) == 0)
		rc = write_key(dir, "public", 0644, "public-key", pair.public, err);
	pr_keys_wipe(&pair);
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

bool
pr_key_name_valid(const char *name)
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
	return pr_key_name_valid(out->name) && out->role &&
	       strlen(key) == PR_KEY_TEXT - 1 && zmq_z85_decode(out->key, key);
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

const struct pr_enrolled_key *
pr_enrolled_at(struct pr_enrolled *e, size_t at)
{
	return at < e->count ? &e->keys[at] : NULL;
}

/* ---- changing what is enrolled ---- */

static int
check_new(const struct pr_enrolled *e, const struct pr_enrolled_key *added,
	struct pr_error *err)
{
	for (size_t i = 0; i < e->count; i++) {
		const char *name = e->keys[i].name;

		if (!strcmp(name, added->name))
			return pr_error_set(err,
				"%s: '%s' is enrolled already; 'packrack keys revoke %s' "
				"first",
				e->file, name, name);
		if (!memcmp(e->keys[i].key, added->key, PR_KEY_BYTES))
			return pr_error_set(err,
				"%s: this key is enrolled already, as '%s'", e->file, name);
	}
	return 0;
}

/*
 * Writes the file's lines without the key named `without`, then `added`; either may be
 * NULL.
 */
static int
rewrite(const struct pr_enrolled *e, const struct pr_enrolled_key *added,
	const char *without, struct pr_error *err)
{
	char *now = pr_keyfile_read(e->file, false, NULL, err), *text = NULL;
	char key_text[PR_KEY_TEXT], role_text[PR_ROLE_TEXT];
	struct pr_enrolled_key key;
	size_t size;
	int rc = -1;

	if (!now && errno != ENOENT)
		return -1;
	FILE *out = open_memstream(&text, &size);
	for (char *line, *rest = now; out && (line = strsep(&rest, "\n"));)
		if ((rest || *line) &&
			!(without && parse_key(line, &key) && !strcmp(key.name, without)))
			fprintf(out, "%s\n", line);
	if (out && added)
		fprintf(out, "%s %s %s\n", added->name,
			pr_role_text(added->role, role_text),
			pr_key_text(added->key, key_text));
	if (!out || fclose(out) != 0)
		pr_error_set(err, "no memory for %s", e->file);
	else
		rc = pr_keyfile_write(e->file, 0600, text, true, err);
	pr_keyfile_free(now);
	free(text);
	return rc;
}

static int
change(const char *dir, const struct pr_enrolled_key *added, const char *without,
	unsigned *role, struct pr_error *err)
{
	struct pr_enrolled *e = NULL;
	int rc = -1;

	if (pr_keydir_check(dir, err) < 0)
		return -1;
	int lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		pr_error_errno(err, "cannot lock the key directory %s", dir);
	else
		e = pr_enrolled_open(dir, err);
	for (size_t i = 0; e && without && i < e->count; i++)
		if (!strcmp(e->keys[i].name, without))
			*role = e->keys[i].role;
	if (e && without && !*role)
		pr_error_set(err,
			"%s: nobody named '%s' is enrolled: 'packrack keys list' names all",
			e->file, without);
	else if (e && (!added || check_new(e, added, err) == 0))
		rc = rewrite(e, added, without, err);
	pr_enrolled_close(&e);
	pr_close(lock);
	if (rc == 0) /* then every daemon that reads the file knows */
		nanosleep(&(struct timespec){.tv_nsec = PR_ENROLLED_LOOK_NS}, NULL);
	return rc;
}

int
pr_enrol(const char *dir, const char *name, unsigned role, const char *key,
	struct pr_error *err)
{
	struct pr_enrolled_key added = {.role = role};

	if (!pr_key_name_valid(name))
		return pr_error_set(err,
			"'%s' is not a name: give 1 to %d letters, digits, dots, dashes "
			"and underscores, first a letter or digit",
			name, PR_KEY_NAME_MAX);
	PR_PRINT(added.name, "%s", name);
	if (!zmq_z85_decode(added.key, key))
		return pr_error_set(err, "'%s' is not a public key", key);
	return change(dir, &added, NULL, NULL, err);
}

int
pr_revoke(const char *dir, const char *name, unsigned *role, struct pr_error *err)
{
	*role = 0;
	return change(dir, NULL, name, role, err);
}
