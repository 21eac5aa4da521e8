/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/enrolled.h"

#include <ctype.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#include "proto/base/keyfile.h"
#include "proto/base/log.h"
#include "proto/rpc/roles.h"

struct pr_enrolled {
	char *dir, *file;
	struct stat seen; /* st_ino 0: it was not there */
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

	if (sscanf(line, "%63s %15s %40s %c", out->name, role, key, &extra) != 3)
		return false;
	out->role = pr_role_parse(role);
	return pr_key_name_valid(out->name) && out->role &&
	       strlen(key) == PR_KEY_TEXT - 1 && zmq_z85_decode(out->key, key);
}

int
pr_enrolled_parse(const char *file, unsigned number, const char *line,
	struct pr_enrolled_key *out, struct pr_error *err)
{
	if (!line[strspn(line, " \t\r")] || *line == '#')
		return 0;
	if (parse_key(line, out))
		return 1;
	return pr_error_set(err,
		"key file %s line %u: want NAME ROLE PUBLICKEY, roles are node, read, "
		"steer",
		file, number);
}

static int
add_key(struct pr_enrolled *e, const struct pr_enrolled_key *key)
{
	struct pr_enrolled_key *keys = realloc(e->keys, (e->count + 1) * sizeof(*keys));

	if (!keys)
		return -1;
	e->keys = keys;
	e->keys[e->count++] = *key;
	return 0;
}

static int
parse(struct pr_enrolled *e, char *text, struct pr_error *err)
{
	struct pr_enrolled_key key;
	unsigned number = 0;

	for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
		int rc = pr_enrolled_parse(e->file, ++number, line, &key, err);

		if (rc < 0)
			return -1;
		if (rc && add_key(e, &key) < 0)
			return pr_error_set(err, "no memory for the keys of %s", e->file);
	}
	return 0;
}

/* Who may come in is not known when it fails: nobody. */
static int
load(struct pr_enrolled *e, struct pr_error *err)
{
	char *text;
	int rc;

	e->count = 0;
	memset(&e->seen, 0, sizeof(e->seen));
	if (pr_keydir_check(e->dir, err) < 0)
		return -1;
	text = pr_keyfile_read(e->file, false, &e->seen, err);
	if (!text)
		return errno == ENOENT ? 0 : -1;
	rc = parse(e, text, err);
	pr_keyfile_free(text);
	if (rc < 0)
		e->count = 0;
	return rc;
}

struct pr_enrolled *
pr_enrolled_open(const char *dir, struct pr_error *err)
{
	struct pr_enrolled *e = calloc(1, sizeof(*e));

	if (e && (e->dir = strdup(dir)) && (e->file = pr_keys_path(dir, "enrolled", err))) {
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
	struct pr_enrolled *e = *enrolled;

	if (e) {
		free(e->dir);
		free(e->file);
		free(e->keys);
		free(e);
	}
	*enrolled = NULL;
}

static bool
changed(const struct pr_enrolled *e)
{
	struct stat now;

	if (stat(e->file, &now) < 0)
		return e->seen.st_ino != 0;
	return now.st_ino != e->seen.st_ino || now.st_size != e->seen.st_size ||
	       now.st_mtim.tv_sec != e->seen.st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != e->seen.st_mtim.tv_nsec ||
	       now.st_mode != e->seen.st_mode || now.st_uid != e->seen.st_uid;
}

static void
refresh(struct pr_enrolled *e)
{
	struct pr_error err;

	if (!changed(e))
		return;
	if (load(e, &err) == 0) {
		e->said_bad = false;
		pr_log_info("%s: %zu keys are enrolled now", e->file, e->count);
	} else if (!e->said_bad) {
		e->said_bad = true;
		pr_log_error("%s: nobody is admitted until it is mended", err.text);
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

size_t
pr_enrolled_count(struct pr_enrolled *e)
{
	return e->count;
}

const struct pr_enrolled_key *
pr_enrolled_at(struct pr_enrolled *e, size_t at)
{
	return at < e->count ? &e->keys[at] : NULL;
}
