/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/base/keyfile.h"
#include "proto/rpc/enrolled.h"
#include "proto/rpc/roles.h"

/* A change of an enrolled file: read under a lock of its directory, written whole. */
struct edit {
	char *path, *text; /* of malloc */
	size_t size;
	FILE *out;
	int lock;
};

static void
edit_end(struct edit *edit)
{
	if (edit->out)
		fclose(edit->out);
	if (edit->lock >= 0)
		close(edit->lock);
	free(edit->path);
	free(edit->text);
}

/* The present text (from malloc), "" when there is none; NULL and err. */
static char *
edit_begin(struct edit *edit, const char *dir, struct pr_error *err)
{
	char *now, *copy;

	*edit = (struct edit){.lock = -1};
	if (pr_keydir_check(dir, err) < 0 ||
		!(edit->path = pr_keys_path(dir, "enrolled", err)))
		return NULL;
	edit->lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (edit->lock < 0 || flock(edit->lock, LOCK_EX) < 0) {
		pr_error_errno(err, "cannot lock the key directory %s", dir);
		return NULL;
	}
	edit->out = open_memstream(&edit->text, &edit->size);
	if (!edit->out) {
		pr_error_set(err, "no memory for %s", edit->path);
		return NULL;
	}
	now = pr_keyfile_read(edit->path, false, NULL, err);
	if (!now && errno != ENOENT)
		return NULL;
	copy = strdup(now ? now : "");
	pr_keyfile_free(now);
	if (!copy)
		pr_error_set(err, "no memory for %s", edit->path);
	return copy;
}

static int
edit_write(struct edit *edit, struct pr_error *err)
{
	if (fclose(edit->out) != 0) {
		edit->out = NULL;
		return pr_error_set(err, "no memory for %s", edit->path);
	}
	edit->out = NULL;
	return pr_keyfile_write(edit->path, 0600, edit->text, true, err);
}

static int
clashes(const struct pr_enrolled_key *a, const struct pr_enrolled_key *b, const char *path,
	struct pr_error *err)
{
	if (!strcmp(a->name, b->name))
		return pr_error_set(err,
			"%s: '%s' is enrolled already; 'packrack keys revoke %s' first",
			path, a->name, a->name);
	if (!memcmp(a->key, b->key, PR_KEY_BYTES))
		return pr_error_set(
			err, "%s: this key is enrolled already, as '%s'", path, a->name);
	return 0;
}

static int
copy_but(struct edit *edit, char *text, const struct pr_enrolled_key *added,
	const char *without, unsigned *role, struct pr_error *err)
{
	struct pr_enrolled_key key;
	unsigned number = 0;

	for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
		int rc = pr_enrolled_parse(edit->path, ++number, line, &key, err);

		if (rc < 0 || (rc && added && clashes(&key, added, edit->path, err) < 0))
			return -1;
		if (rc && without && !strcmp(key.name, without))
			*role = key.role;
		else if (rest || *line)
			fprintf(edit->out, "%s\n", line);
	}
	return 0;
}

static int
change(const char *dir, const struct pr_enrolled_key *added, const char *without,
	unsigned *role, struct pr_error *err)
{
	char key[PR_KEY_TEXT], role_text[PR_ROLE_TEXT];
	struct edit edit;
	char *text = edit_begin(&edit, dir, err);
	int rc = text ? copy_but(&edit, text, added, without, role, err) : -1;

	if (rc == 0 && added)
		fprintf(edit.out, "%s %s %s\n", added->name,
			pr_role_text(added->role, role_text),
			zmq_z85_encode(key, added->key, PR_KEY_BYTES));
	if (rc == 0 && without && !*role)
		rc = pr_error_set(err,
			"%s: nobody named '%s' is enrolled: 'packrack keys list' names all",
			edit.path, without);
	if (rc == 0)
		rc = edit_write(&edit, err);
	free(text);
	edit_end(&edit);
	return rc;
}

int
pr_enrol(const char *dir, const char *name, unsigned role, const char *key,
	struct pr_error *err)
{
	struct pr_enrolled_key added = {.role = role};

	if (!pr_key_name_valid(name))
		return pr_error_set(err,
			"'%s' is no name: 1 to %d letters, digits, dots, dashes and "
			"underscores, first a letter or digit",
			name, PR_KEY_NAME_MAX);
	snprintf(added.name, sizeof(added.name), "%s", name);
	if (!zmq_z85_decode(added.key, key))
		return pr_error_set(err, "'%s' is no public key", key);
	return change(dir, &added, NULL, NULL, err);
}

int
pr_revoke(const char *dir, const char *name, unsigned *role, struct pr_error *err)
{
	*role = 0;
	return change(dir, NULL, name, role, err);
}
