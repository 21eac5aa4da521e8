/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "proto/base/error.h"
#include "proto/base/keyfile.h"
#include "proto/rpc/admission.h"
#include "proto/rpc/keys.h"
#include "proto/wire/rack_key.h"

/* The file `rack` of a key directory: how a rack's servers are known, and the key of its frames. */
/*
 * Takes a bundle in (at most KEYS_BUNDLE_MAX bytes, without its NUL) as DIR/rack, in place of an
 * earlier one, when every line of it is good.
 */
#define KEYS_BUNDLE_MAX 65536

/* What people compare: "KEY [of ENDPOINT]" lines, and a short hash of the frame key, or "". */
struct keys_rack {
	char *servers; /* lines, from malloc */
	char frame[17];
};

#define SERVER_LINE "server-key "
#define FRAME_LINE "frame-key "

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
	snprintf(out, room, FRAME_LINE "%s\n", hex);
	sodium_memzero(frame, sizeof(frame));
	sodium_memzero(hex, sizeof(hex));
}

/* Makes it for the head of a new rack: its own public key, a new frame key. Refuses to overwrite. */
static int
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
		"# What members of this rack know (packrack-keys(7)). Mode "
		"600.\n" SERVER_LINE "%s\n",
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
		if (!begins(line, SERVER_LINE) && !(node && begins(line, FRAME_LINE)))
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

/*
 * Writes what an enrolled one needs to FILE, or to standard output ("-"): the servers' public keys,
 * for nodes the frame key as well. It goes to that machine as DIR/rack.
 */
static int
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
		bool frame = begins(line, FRAME_LINE);

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
		if (begins(line, SERVER_LINE)) {
			good = pr_keys_parse_public(value + 1, key) == 0;
			servers += good;
		} else if (begins(line, FRAME_LINE)) {
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

static int
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

/*
 * Puts a new frame key before the old one, which is accepted until keys_rack_renewed: bundles that are
 * made now hold both.
 */
static int
keys_rack_renew(const char *dir, struct pr_error *err)
{
	return change(dir, true, err);
}

static int
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

/* 1: there is no such file. */
static int
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
		if (begins(line, SERVER_LINE))
			fprintf(f, "%s\n", line + strlen(SERVER_LINE));
		frame |= begins(line, FRAME_LINE);
	}
	if (!f || fclose(f))
		rc = pr_error_set(err, "no memory");
	pr_keyfile_free(text);
	if (rc == 0 && frame)
		rc = fingerprint(dir, out->frame, err);
	return rc;
}

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
run_generate(const struct cli_call *call, struct pr_error *err)
{
	const struct keys_args *a = call->values;
	const char *dir = dir_of(a, err);
	char public[PR_KEY_TEXT];

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
run_enroll(const struct cli_call *call, struct pr_error *err)
{
	const struct keys_args *a = call->values;
	const char *dir = dir_of(a, err), *name = call->operands[0];
	unsigned role = pr_role_parse(call->operands[1]);
	char public[PR_KEY_TEXT];

	if (!role)
		pr_error_set(err, "'%s' is not a role: node, read or operate",
			call->operands[1]);
	if (!dir || !role)
		return CLI_USAGE;
	if (public_key(call->operands[2], public, err) < 0 ||
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
run_bundle(const struct cli_call *call, struct pr_error *err)
{
	const char *dir = dir_of(call->values, err);
	unsigned role;

	if (!dir)
		return CLI_USAGE;
	if (role_of(dir, call->operands[0], &role, err) < 0 ||
		keys_rack_bundle(dir, call->operands[0], role & PR_ROLE_NODE,
			call->operands[1], err) < 0)
		return CLI_FAILED;
	return CLI_OK;
}

static int
run_join(const struct cli_call *call, struct pr_error *err)
{
	static char bundle[KEYS_BUNDLE_MAX];
	const char *dir = dir_of(call->values, err);
	int rc;

	if (!dir)
		return CLI_USAGE;
	rc = read_some(call->operands[0], bundle, KEYS_BUNDLE_MAX, err);
	if (rc == 0)
		rc = keys_rack_join(dir, bundle, err);
	explicit_bzero(bundle, KEYS_BUNDLE_MAX);
	return rc < 0 ? CLI_FAILED : CLI_OK;
}

static int
run_revoke(const struct cli_call *call, struct pr_error *err)
{
	const struct keys_args *a = call->values;
	const char *dir = dir_of(a, err);
	unsigned role;

	if (!dir)
		return CLI_USAGE;
	if (pr_revoke(dir, call->operands[0], &role, err) < 0)
		return CLI_FAILED;
	if (role & PR_ROLE_NODE)
		fprintf(stderr,
			"%s: %s still has the rack's frame key: make a new one if it may "
			"be in bad hands (packrack-keys(7))\n",
			a->program, call->operands[0]);
	return CLI_OK;
}

static int
run_renew(const struct cli_call *call, struct pr_error *err)
{
	const struct keys_args *a = call->values;
	const char *dir = dir_of(a, err);

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
run_list(const struct cli_call *call, struct pr_error *err)
{
	const struct keys_args *a = call->values;
	const char *dir = dir_of(a, err);

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
	int (*run)(const struct cli_call *call, struct pr_error *err);
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
