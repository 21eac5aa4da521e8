/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#include "proto/rpc/keyfile.h"
#include "proto/rpc/keys.h"

struct pr_enrolled {
	char *file;
	struct stat seen;
	struct pr_enrolled_key *keys;
	size_t count;
};

bool
pr_role_valid(const char *role)
{
	return !strcmp(role, "node") || !strcmp(role, "read") || !strcmp(role, "steer");
}

static bool
name_valid(const char *name)
{
	for (; *name; name++)
		if (!isgraph((unsigned char)*name))
			return false;
	return true;
}

static int
parse_line(const char *line, struct pr_enrolled_key *out)
{
	char key[PR_KEY_TEXT], extra;

	if (sscanf(line, "%63s %15s %40s %c", out->name, out->role, key, &extra) != 3)
		return -1;
	if (!name_valid(out->name) || !pr_role_valid(out->role))
		return -1;
	return strlen(key) == PR_KEY_TEXT - 1 && zmq_z85_decode(out->key, key) ? 0 : -1;
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

	e->count = 0;
	for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
		number++;
		if (!line[strspn(line, " \t\r")] || *line == '#')
			continue;
		if (parse_line(line, &key) < 0)
			return pr_error_set(err,
				"key file %s line %u: want NAME node|read|steer PUBLICKEY",
				e->file, number);
		if (add_key(e, &key) < 0)
			return pr_error_set(err, "no memory for the keys of %s", e->file);
	}
	return 0;
}

static int
load(struct pr_enrolled *e, struct pr_error *err)
{
	char *text = pr_keyfile_read(e->file, false, &e->seen, err);
	int rc = text ? parse(e, text, err) : -1;

	free(text);
	if (rc < 0)
		e->count = 0; /* who may come in is not known: nobody */
	return rc;
}

struct pr_enrolled *
pr_enrolled_open(const char *file, struct pr_error *err)
{
	struct pr_enrolled *e = calloc(1, sizeof(*e));

	if (e && (e->file = strdup(file))) {
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
		return true;
	return now.st_ino != e->seen.st_ino || now.st_size != e->seen.st_size ||
	       now.st_mtim.tv_sec != e->seen.st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != e->seen.st_mtim.tv_nsec ||
	       now.st_mode != e->seen.st_mode;
}

const struct pr_enrolled_key *
pr_enrolled_find(struct pr_enrolled *e, const uint8_t key[PR_KEY_BYTES])
{
	if (changed(e))
		load(e, NULL);
	for (size_t i = 0; i < e->count; i++)
		if (!memcmp(e->keys[i].key, key, PR_KEY_BYTES))
			return &e->keys[i];
	return NULL;
}
