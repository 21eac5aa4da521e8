/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "merger/cli/rack/keys_list.h"
#include "merger/cli/rack/keys_rack.h"
#include "proto/rpc/admission.h"

struct keys_args {
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
	PR_OPT_FLAG(rack, "rack", 0,
		"of a rack's head: a frame key as well, and enroll the head"),
};
static const struct pr_option enroll_options[] = {
	KEY_OPTION,
	PR_OPT_STRING(bundle, "bundle", 0, "FILE",
		"write what the enrolled one needs to know of the rack; - is standard "
		"output"),
};
static const struct pr_option list_options[] = {
	KEY_OPTION,
	CLI_FORM_OPTIONS(),
};
static const struct pr_option revoke_options[] = {
	KEY_OPTION,
};
static const struct pr_option renew_options[] = {
	KEY_OPTION,
	PR_OPT_FLAG(end, "end", 0, "all have the new one: the old one is good no more"),
};
/* -1: go on, with `operands` of them at argv + *operand and *dir set; else the status to exit with. */
static int
begin(const struct pr_cmdline *p, struct keys_args *a, int argc, char **argv, int operands,
	int *operand, const char **dir)
{
	int status = cli_parse(p, a, argc, argv, operand);
	struct pr_error err;

	if (status >= 0)
		return status;
	if (argc - *operand != operands) {
		pr_error_set(&err, "want %s", p->usage);
		return cli_fail(p->name, CLI_USAGE, &err);
	}
	*dir = cli_keys_home(a->key, &err);
	return *dir ? -1 : cli_fail(p->name, CLI_USAGE, &err);
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
keys_generate(int argc, char **argv)
{
	const struct pr_cmdline p = {.name = "packrack keys generate",
		.summary =
			"Makes a key pair in a key directory, and prints its public key.",
		.usage = "[options]",
		PR_OPTIONS(generate_options)};
	char public[PR_KEY_TEXT];
	struct keys_args a = {0};
	struct pr_error err;
	const char *dir;
	int operand, status = begin(&p, &a, argc, argv, 0, &operand, &dir);

	if (status < 0) {
		if (pr_keys_generate(dir, &err) < 0 ||
			pr_keys_load_public(dir, public, &err) < 0 ||
			(a.rack && make_head(dir, public, &err) < 0)) {
			status = cli_fail(p.name, CLI_FAILED, &err);
		} else {
			printf("public-key %s\n", public);
			fprintf(stderr,
				a.rack ? "%s: the head of a new rack\n"
				       : "%s: have this public key enrolled "
					 "on the rack's head, and join with the "
					 "bundle that it makes\n",
				dir);
			status = CLI_OK;
		}
	}
	pr_options_free(&p, &a);
	return status;
}

/* ---- enroll, bundle, revoke ---- */

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
		"%s holds no public key: want the line 'public-key KEY' that 'packrack "
		"keys generate' prints",
		strcmp(word, "-") ? word : "standard input");
}

static int
keys_enroll(int argc, char **argv)
{
	const struct pr_cmdline p = {.name = "packrack keys enroll",
		.summary = "Admits a public key, by a name and for a role.",
		.usage = "NAME ROLE KEY [options]",
		.footer = "ROLE is node, read or operate, or several with commas. KEY is "
			  "the file with the public\nkey, or - for standard input, or the "
			  "key itself.",
		PR_OPTIONS(enroll_options)};
	char public[PR_KEY_TEXT];
	struct keys_args a = {0};
	struct pr_error err;
	const char *dir;
	unsigned role = 0;
	int operand, status = begin(&p, &a, argc, argv, 3, &operand, &dir);

	if (status < 0 && !(role = pr_role_parse(argv[operand + 1]))) {
		pr_error_set(
			&err, "'%s' is no role: node, read or operate", argv[operand + 1]);
		status = cli_fail(p.name, CLI_USAGE, &err);
	}
	if (status < 0) {
		status = CLI_OK;
		if (public_key(argv[operand + 2], public, &err) < 0 ||
			pr_enrol(dir, argv[operand], role, public, &err) < 0 ||
			(a.bundle && keys_rack_bundle(dir, argv[operand],
					     role & PR_ROLE_NODE, a.bundle, &err) < 0))
			status = cli_fail(p.name, CLI_FAILED, &err);
	}
	pr_options_free(&p, &a);
	return status;
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
		     : pr_error_set(err, "nobody named '%s' is enrolled in %s", name, dir);
}

static int
keys_bundle(int argc, char **argv)
{
	const struct pr_cmdline p = {.name = "packrack keys bundle",
		.summary = "Writes again what an enrolled one needs to know of the rack.",
		.usage = "NAME FILE [options]",
		.footer = "FILE may be -, standard output.",
		PR_OPTIONS(revoke_options)};
	struct keys_args a = {0};
	struct pr_error err;
	const char *dir;
	unsigned role;
	int operand, status = begin(&p, &a, argc, argv, 2, &operand, &dir);

	if (status < 0) {
		status = CLI_OK;
		if (role_of(dir, argv[operand], &role, &err) < 0 ||
			keys_rack_bundle(dir, argv[operand], role & PR_ROLE_NODE,
				argv[operand + 1], &err) < 0)
			status = cli_fail(p.name, CLI_FAILED, &err);
	}
	pr_options_free(&p, &a);
	return status;
}

static int
keys_join(int argc, char **argv)
{
	const struct pr_cmdline p = {.name = "packrack keys join",
		.summary =
			"Takes in the bundle that the rack's head made for this machine.",
		.usage = "FILE [options]",
		.footer = "FILE may be -, standard input.",
		PR_OPTIONS(revoke_options)};
	struct keys_args a = {0};
	struct pr_error err = {""};
	const char *dir;
	char *bundle = NULL;
	int operand, status = begin(&p, &a, argc, argv, 1, &operand, &dir);

	if (status < 0) {
		status = CLI_OK;
		bundle = calloc(1, KEYS_BUNDLE_MAX);
		if (!bundle)
			pr_error_set(&err, "no memory for a bundle");
		if (!bundle ||
			read_some(argv[operand], bundle, KEYS_BUNDLE_MAX, &err) < 0 ||
			keys_rack_join(dir, bundle, &err) < 0)
			status = cli_fail(p.name, CLI_FAILED, &err);
		if (bundle)
			explicit_bzero(bundle, KEYS_BUNDLE_MAX);
	}
	free(bundle);
	pr_options_free(&p, &a);
	return status;
}

static int
keys_revoke(int argc, char **argv)
{
	const struct pr_cmdline p = {.name = "packrack keys revoke",
		.summary =
			"Admits a key no more; its connections lose their rights at once.",
		.usage = "NAME [options]",
		PR_OPTIONS(revoke_options)};
	struct keys_args a = {0};
	struct pr_error err;
	const char *dir;
	unsigned role;
	int operand, status = begin(&p, &a, argc, argv, 1, &operand, &dir);

	if (status < 0) {
		status = CLI_OK;
		if (pr_revoke(dir, argv[operand], &role, &err) < 0)
			status = cli_fail(p.name, CLI_FAILED, &err);
		else if (role & PR_ROLE_NODE)
			fprintf(stderr,
				"%s: %s still has the rack's frame key: make a new one if "
				"it may be in bad hands (packrack-keys(7))\n",
				p.name, argv[operand]);
	}
	pr_options_free(&p, &a);
	return status;
}

static int
keys_renew(int argc, char **argv)
{
	const struct pr_cmdline p = {.name = "packrack keys renew",
		.summary = "Makes a new frame key; the old one is accepted until --end.",
		.usage = "[options]",
		.footer = "Then, for each node: packrack keys bundle, and restart it; last "
			  "the dispatcher.\nSee packrack-keys(7).",
		PR_OPTIONS(renew_options)};
	struct keys_args a = {0};
	struct pr_error err = {""};
	const char *dir;
	int operand, status = begin(&p, &a, argc, argv, 0, &operand, &dir);

	if (status < 0) {
		status = CLI_OK;
		if ((a.end ? keys_rack_renewed : keys_rack_renew)(dir, &err) < 0)
			status = cli_fail(p.name, CLI_FAILED, &err);
	}
	pr_options_free(&p, &a);
	return status;
}

/* ---- list ---- */

static int
keys_list_command(int argc, char **argv)
{
	const struct pr_cmdline p = {.name = "packrack keys list",
		.summary = "Lists what a key directory holds; no secret is shown.",
		.usage = "[options]",
		PR_OPTIONS(list_options)};
	struct keys_args a = {0};
	struct pr_error err;
	const char *dir;
	int operand, status = begin(&p, &a, argc, argv, 0, &operand, &dir);

	if (status < 0) {
		status = CLI_OK;
		if (keys_list(dir,
			    a.json       ? RENDER_JSON
			    : a.keyvalue ? RENDER_KEYVALUE
					 : RENDER_TEXT,
			    &err) < 0)
			status = cli_fail(p.name, CLI_FAILED, &err);
	}
	pr_options_free(&p, &a);
	return status;
}

int
cmd_keys(int argc, char **argv)
{
	static const struct cli_command commands[] = {
		{"generate", keys_generate, "make this machine's or this user's own"},
		{"enroll", keys_enroll, "admit a public key"},
		{"bundle", keys_bundle, "write again what an enrolled one needs"},
		{"join", keys_join, "take in what the head made for this machine or user"},
		{"list", keys_list_command, "own, the rack's and all that are enrolled"},
		{"revoke", keys_revoke, "admit one no more"},
		{"renew", keys_renew, "make a new frame key"},
	};

	return cli_dispatch("packrack keys", "Makes keys, and says who may do what.",
		commands, sizeof(commands) / sizeof(commands[0]), argc, argv);
}
