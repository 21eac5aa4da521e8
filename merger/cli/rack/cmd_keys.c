/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "merger/cli/rack/keys_rack.h"
#include "proto/base/keyfile.h"
#include "proto/rpc/admission.h"

struct keys_args {
	const char *program; /* "packrack keys list" */
	char *key, *bundle;
	bool rack, end, json, keyvalue;
};

#define PR_VALUES struct keys_args
#define KEY_OPTION                                                                         \
	PR_OPT_STRING(key, "key", 0, "DIR", "the key directory",                           \
		.def_note = "$PACKRACK_KEY, root's " PR_KEYS_DIR                           \
			    ", or ~/.config/packrack/keys")

static const struct pr_option generate_options[] = {
	KEY_OPTION,
	PR_OPT_FLAG(rack, "head", 0,
		"this machine is the head of a new rack: also make a frame key and enroll "
		"the head",
		.aliases = {"rack"}),
};
static const struct pr_option enroll_options[] = {
	KEY_OPTION,
	PR_OPT_STRING(bundle, "bundle", 0, "FILE",
		"write the bundle for the new key's owner; - is standard output"),
};
static const struct pr_option list_options[] = {
	KEY_OPTION,
	CLI_FORM_OPTIONS(),
};
static const struct pr_option dir_options[] = {
	KEY_OPTION,
};
static const struct pr_option renew_options[] = {
	KEY_OPTION,
	PR_OPT_FLAG(
		end, "end", 0, "all members have the new key: stop accepting the old one"),
};

/* The directory that a command works in; NULL: err. */
static const char *
dir_of(const void *values, struct pr_error *err)
{
	return cli_keys_home(((const struct keys_args *)values)->key, err);
}

/* ---- generate ---- */

/* The head may all: its merger speaks to others as a node does, its user queries and operates. */
static int
make_head(const char *dir, const char *public, struct pr_error *err)
{
	char name[PR_KEY_NAME_MAX + 1] = "";

	if (keys_rack_make(dir, err) < 0)
		return -1;
	if (gethostname(name, sizeof(name) - 1) < 0 || !pr_key_name_valid(name))
		snprintf(name, sizeof(name), "head");
	return pr_enrol(dir, name, PR_ROLE_ALL, public, err);
}

static int
run_generate(void *values, int count, char **operands, struct pr_error *err)
{
	const struct keys_args *a = values;
	const char *dir = dir_of(a, err);
	char public[PR_KEY_TEXT];

	(void)count;
	(void)operands;
	if (!dir)
		return CLI_USAGE;
	if (pr_keys_generate(dir, err) < 0 || pr_keys_load_public(dir, public, err) < 0 ||
		(a->rack && make_head(dir, public, err) < 0))
		return CLI_FAILED;
	printf("public-key %s\n", public);
	fprintf(stderr,
		a->rack ? "%s: key directory of the head of a new rack\n"
			: "%s: have this public key enrolled on the rack's head, and join "
			  "with the bundle that it makes\n",
		dir);
	return CLI_OK;
}

/* ---- enroll, bundle, join, revoke, renew ---- */

static int
read_some(const char *name, char *text, size_t room, struct pr_error *err)
{
	FILE *f = strcmp(name, "-") ? fopen(name, "re") : stdin;
	size_t len;

	if (!f)
		return pr_error_errno(err, "%s", name);
	len = fread(text, 1, room - 1, f);
	text[len] = 0;
	if (f != stdin)
		fclose(f);
	return 0;
}

/* KEY is the key itself, or a file that holds it, or - */
static int
public_key(const char *word, char out[PR_KEY_TEXT], struct pr_error *err)
{
	char text[512];

	if (pr_keys_parse_public(word, out) == 0)
		return 0;
	if (read_some(word, text, sizeof(text), err) < 0)
		return -1;
	if (!strncmp(text, "secret-key", strlen("secret-key"))) {
		explicit_bzero(text, sizeof(text));
		return pr_error_set(err,
			"%s holds a SECRET key, which never leaves its machine: give "
			"the public one (the file 'public' beside it)",
			word);
	}
	if (pr_keys_parse_public(text, out) == 0)
		return 0;
	return pr_error_set(err,
		"%s holds no public key: give the line 'public-key KEY' that 'packrack "
		"keys generate' prints",
		strcmp(word, "-") ? word : "standard input");
}

static int
run_enroll(void *values, int count, char **operands, struct pr_error *err)
{
	const struct keys_args *a = values;
	const char *dir = dir_of(a, err), *name = operands[0];
	unsigned role = pr_role_parse(operands[1]);
	char public[PR_KEY_TEXT];

	(void)count;
	if (!role)
		pr_error_set(err, "'%s' is not a role: node, read or operate", operands[1]);
	if (!dir || !role)
		return CLI_USAGE;
	if (public_key(operands[2], public, err) < 0 ||
		pr_enrol(dir, name, role, public, err) < 0 ||
		(a->bundle && keys_rack_bundle(
				      dir, name, role & PR_ROLE_NODE, a->bundle, err) < 0))
		return CLI_FAILED;
	return CLI_OK;
}

static int
role_of(const char *dir, const char *name, unsigned *role, struct pr_error *err)
{
	struct pr_enrolled *enrolled = pr_enrolled_open(dir, err);
	const struct pr_enrolled_key *key;

	if (!enrolled)
		return -1;
	*role = 0;
	for (size_t i = 0; (key = pr_enrolled_at(enrolled, i)); i++)
		if (!strcmp(key->name, name))
			*role = key->role;
	pr_enrolled_close(&enrolled);
	return *role ? 0
		     : pr_error_set(err, "no key named '%s' is enrolled in %s", name, dir);
}

static int
run_bundle(void *values, int count, char **operands, struct pr_error *err)
{
	const char *dir = dir_of(values, err);
	unsigned role;

	(void)count;
	if (!dir)
		return CLI_USAGE;
	if (role_of(dir, operands[0], &role, err) < 0 ||
		keys_rack_bundle(dir, operands[0], role & PR_ROLE_NODE, operands[1], err) <
			0)
		return CLI_FAILED;
	return CLI_OK;
}

static int
run_join(void *values, int count, char **operands, struct pr_error *err)
{
	static char bundle[KEYS_BUNDLE_MAX];
	const char *dir = dir_of(values, err);
	int rc;

	(void)count;
	if (!dir)
		return CLI_USAGE;
	rc = read_some(operands[0], bundle, KEYS_BUNDLE_MAX, err);
	if (rc == 0)
		rc = keys_rack_join(dir, bundle, err);
	explicit_bzero(bundle, KEYS_BUNDLE_MAX);
	return rc < 0 ? CLI_FAILED : CLI_OK;
}

static int
run_revoke(void *values, int count, char **operands, struct pr_error *err)
{
	const struct keys_args *a = values;
	const char *dir = dir_of(a, err);
	unsigned role;

	(void)count;
	if (!dir)
		return CLI_USAGE;
	if (pr_revoke(dir, operands[0], &role, err) < 0)
		return CLI_FAILED;
	if (role & PR_ROLE_NODE)
		fprintf(stderr,
			"%s: %s still has the rack's frame key: make a new one if it may "
			"be in bad hands (packrack-keys(7))\n",
			a->program, operands[0]);
	return CLI_OK;
}

static int
run_renew(void *values, int count, char **operands, struct pr_error *err)
{
	const struct keys_args *a = values;
	const char *dir = dir_of(a, err);

	(void)count;
	(void)operands;
	if (!dir)
		return CLI_USAGE;
	return (a->end ? keys_rack_renewed : keys_rack_renew)(dir, err) < 0 ? CLI_FAILED
									    : CLI_OK;
}

/* ---- list ---- */

struct key_list {
	const char *dir;
	char own[PR_KEY_TEXT]; /* or "" */
	struct keys_rack rack;
	struct pr_enrolled *enrolled;
};

static int
load_own(struct key_list *h, struct pr_error *err)
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
print_text(struct key_list *h)
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
print_values(struct key_list *h, enum render_form form)
{
	const struct pr_enrolled_key *key;
	char role[PR_ROLE_TEXT], text[PR_KEY_TEXT];
	struct render *r = render_begin(stdout, form);
	char *rest = h->rack.servers;

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

/* Prints what a key directory holds, except secrets. */
static int
keys_list(const char *dir, enum render_form form, struct pr_error *err)
{
	struct key_list h = {.dir = dir};
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

static int
run_list(void *values, int count, char **operands, struct pr_error *err)
{
	const struct keys_args *a = values;
	const char *dir = dir_of(a, err);

	(void)count;
	(void)operands;
	if (!dir)
		return CLI_USAGE;
	return keys_list(dir, cli_form(a->json, a->keyvalue), err) < 0 ? CLI_FAILED
								       : CLI_OK;
}

/* ---- the commands ---- */

#define OPTIONS(table) table, sizeof(table) / sizeof(*(table))

static const struct command {
	const char *verb, *summary, *usage, *footer;
	const struct pr_option *options;
	size_t option_count;
	int operands;
	int (*run)(void *values, int count, char **operands, struct pr_error *err);
} commands[] = {
	{"generate", "Makes a key pair in a key directory, and prints its public key.",
		"[options]", NULL, OPTIONS(generate_options), 0, run_generate},
	{"enroll", "Admits a public key, by a name and for a role.",
		"NAME ROLE KEY [options]",
		"ROLE is node, read or operate, or several with commas. KEY is the file "
		"with "
		"the public\nkey, or - for standard input, or the key itself.",
		OPTIONS(enroll_options), 3, run_enroll},
	{"bundle", "Writes the bundle of an enrolled key again.", "NAME FILE [options]",
		"FILE may be -, standard output.", OPTIONS(dir_options), 2, run_bundle},
	{"join", "Stores the bundle that the rack's head made for this machine or user.",
		"FILE [options]", "FILE may be -, standard input.", OPTIONS(dir_options), 1,
		run_join},
	{"list", "Lists what a key directory holds; no secret is shown.", "[options]", NULL,
		OPTIONS(list_options), 0, run_list},
	{"revoke", "Removes a key; its connections lose their rights at once.",
		"NAME [options]", NULL, OPTIONS(dir_options), 1, run_revoke},
	{"renew", "Makes a new frame key; the old one is accepted until --end.",
		"[options]",
		"Then, for each node: packrack keys bundle, and restart it; last the "
		"dispatcher.\nSee packrack-keys(7).",
		OPTIONS(renew_options), 0, run_renew},
};

static int
run_command(int argc, char **argv)
{
	const struct command *c = commands;
	struct pr_cmdline program;
	struct keys_args a = {0};
	char name[40];

	while (strcmp(c->verb, argv[0]) != 0)
		c++;
	snprintf(name, sizeof(name), "packrack keys %s", c->verb);
	a.program = name;
	program = (struct pr_cmdline){.name = name,
		.summary = c->summary,
		.usage = c->usage,
		.footer = c->footer,
		.options = c->options,
		.option_count = c->option_count};
	return cli_run(&program, &a, c->operands, argc, argv, c->run);
}

int
cmd_keys(int argc, char **argv)
{
	static const struct cli_command list[] = {
		{"generate", run_command, "make the key pair of this machine or user"},
		{"enroll", run_command, "admit a public key"},
		{"bundle", run_command, "write the bundle of an enrolled key again"},
		{"join", run_command, "store the bundle that the head made"},
		{"list", run_command, "own key, the rack's keys, and all enrolled ones"},
		{"revoke", run_command, "remove an enrolled key"},
		{"renew", run_command, "make a new frame key"},
	};

	return cli_dispatch("packrack keys", "Makes keys, and sets who may do what.", list,
		sizeof(list) / sizeof(list[0]), argc, argv);
}
