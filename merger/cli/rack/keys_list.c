/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/rack/keys_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/rack/keys_rack.h"
#include "proto/base/keyfile.h"
#include "proto/rpc/keys.h"
#include "proto/rpc/admission.h"

struct held {
	const char *dir;
	char own[PR_KEY_TEXT]; /* or "" */
	struct keys_rack rack;
	struct pr_enrolled *enrolled;
};

static int
load_own(struct held *h, struct pr_error *err)
{
	struct pr_key_pair pair;
	char *path = pr_keys_path(h->dir, "secret", err);
	int rc = 0;

	if (!path || pr_keydir_check(h->dir, err) < 0) {
		rc = -1;
	} else if (access(path, F_OK) == 0) {
		rc = pr_keys_load_pair(h->dir, &pair, err);
		if (rc == 0)
			memcpy(h->own, pair.public, PR_KEY_TEXT);
		pr_keys_wipe(&pair);
	}
	free(path);
	return rc;
}

static void
print_text(struct held *h)
{
	const struct pr_enrolled_key *key;
	char role[PR_ROLE_TEXT], text[PR_KEY_TEXT];
	char *rest = h->rack.servers;

	printf("%s\n%-16s %-15s %s\n", h->dir, "own", "",
		h->own[0] ? h->own : "none: packrack keys generate");
	for (char *line; rest && (line = strsep(&rest, "\n"));)
		if (*line)
			printf("%-16s %-15s %s\n", "server", "", line);
	if (h->rack.frame[0])
		printf("%-16s %-15s %s (hash)\n", "frame key", "", h->rack.frame);
	for (size_t i = 0; (key = pr_enrolled_at(h->enrolled, i)); i++)
		printf("%-16s %-15s %s\n", key->name, pr_role_text(key->role, role),
			pr_key_text(key->key, text));
}

static int
print_values(struct held *h, enum render_form form)
{
	const struct pr_enrolled_key *key;
	char role[PR_ROLE_TEXT], text[PR_KEY_TEXT];
	struct render *r = render_begin(stdout, form);
	char *rest = h->rack.servers;

	if (!r)
		return -1;
	render_string(r, "directory", h->dir);
	render_string(r, "own", h->own);
	render_list(r, "servers");
	for (char *line; rest && (line = strsep(&rest, "\n"));)
		if (*line)
			render_string(r, "server", line);
	render_close(r);
	render_string(r, "frame_key_hash", h->rack.frame);
	render_list(r, "enrolled");
	for (size_t i = 0; (key = pr_enrolled_at(h->enrolled, i)); i++) {
		render_object(r, NULL);
		render_string(r, "name", key->name);
		render_string(r, "role", pr_role_text(key->role, role));
		render_string(r, "key", pr_key_text(key->key, text));
		render_close(r);
	}
	render_close(r);
	return render_end(&r);
}

int
keys_list(const char *dir, enum render_form form, struct pr_error *err)
{
	struct held h = {.dir = dir};
	int rc = load_own(&h, err);

	if (rc == 0 && keys_rack_read(dir, &h.rack, err) < 0)
		rc = -1;
	if (rc == 0 && !(h.enrolled = pr_enrolled_open(dir, err)))
		rc = -1;
	if (rc == 0 && form == RENDER_TEXT)
		print_text(&h);
	else if (rc == 0 && print_values(&h, form) < 0)
		rc = pr_error_set(err, "cannot print");
	free(h.rack.servers);
	pr_enrolled_close(&h.enrolled);
	return rc;
}
