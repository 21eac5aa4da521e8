/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sodium.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "merger/manifest.h"
#include "proto/base/keyfile.h"
#include "proto/rpc/admission.h"
#include "proto/wire/rack_key.h"

/* The file `rack` of a key directory: public keys of a rack's servers, its frame key. */
#define KEYS_BUNDLE_MAX 65536 /* most bytes of a bundle to join with, without the NUL */

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

	if (!out)
		return pr_error_null(err, "no memory for a bundle");
	int n = snprintf(out, KEYS_BUNDLE_MAX,
		"# For %s: goes to its key directory as 'rack'. %s\n", name,
		node ? "Secret: mode 600." : "Mode 600.");
	size_t used = n;
	for (char *line; (line = strsep(&rack, "\n"));) {
		if (!begins(line, SERVER_LINE) && !(node && begins(line, FRAME_LINE)))
			continue;
		if (used + strlen(line) + 2 > KEYS_BUNDLE_MAX) {
			sodium_free(out);
			return pr_error_null(err, "the file 'rack' is longer than 64 KiB");
		}
		used += snprintf(out + used, KEYS_BUNDLE_MAX - used, "%s\n", line);
	}
	return out;
}

/*
 * Writes the bundle of an enrolled key to FILE, or to standard output ("-"): the servers'
 * public keys, and for nodes the frame key. Its owner stores it as DIR/rack.
 */
static int
write_bundle(const char *dir, const char *name, bool node, const char *file,
	struct pr_error *err)
{
	char *rack = read_rack(dir, err);
	char *text = rack ? bundle_text(rack, name, node, err) : NULL;
	int rc = -1;

	if (text && strcmp(file, "-"))
		rc = pr_keyfile_write(file, 0600, text, true, err);
	else if (text && node && isatty(STDOUT_FILENO))
		pr_error_set(err, "this bundle holds the frame key, and standard output is "
				  "a terminal: name a file, or pipe it to where it goes");
	else if (text && write(STDOUT_FILENO, text, strlen(text)) == (ssize_t)strlen(text))
		rc = 0;
	else if (text)
		pr_error_errno(err, "standard output");
	pr_keyfile_free(rack);
	sodium_free(text);
	return rc;
}

struct keys_args {
	const char *program; /* "packrack keys list" */
	char *key, *bundle;
	bool rack, end, json, keyvalue;
	const char *dir; /* what the command works in */
	char **operands;
};

#define PR_VALUES struct keys_args
#define KEY_OPTION                                                                         \
	PR_OPT_STRING(key, "key-dir", 0, "DIR", "the key directory",                       \
		.def_note = "$PACKRACK_KEY, root's " PR_KEYS_DIR                           \
			    ", or ~/.config/packrack/keys",                                \
		.aliases = {"key"})

static const struct pr_option generate_options[] = {KEY_OPTION,
	PR_OPT_FLAG(rack, "head", 0,
		"this machine is the head of a new rack: also make a frame key and enroll "
		"the head",
		.aliases = {"rack"})};
static const struct pr_option enroll_options[] = {KEY_OPTION,
	PR_OPT_STRING(bundle, "bundle", 0, "FILE",
		"write the bundle for the new key's owner; - is standard output")};
static const struct pr_option list_options[] = {
	KEY_OPTION,
	CLI_FORM_OPTIONS(),
};
static const struct pr_option dir_options[] = {KEY_OPTION};
static const struct pr_option renew_options[] = {
	KEY_OPTION,
	PR_OPT_FLAG(
		end, "end", 0, "all members have the new key: stop accepting the old one"),
};

/* ---- generate ---- */

/*
 * Makes the head of a new rack: DIR/rack with its own public key and a new frame key; the
 * file must not exist yet. Enrolls the head's own key for all roles: its merger talks to
 * other mergers as a node does; its user queries and operates.
 */
static int
make_head(const char *dir, const char *public, struct pr_error *err)
{
	char text[512], name[PR_KEY_NAME_MAX + 1] = "";
	char *path;

	if (sodium_init() < 0)
		return pr_error_set(err, "libsodium does not start");
	if (!(path = pr_keys_path(dir, "rack", err)))
		return -1;
	sodium_mlock(text, sizeof(text));
	size_t used = PR_PRINT(text,
		"# What members of this rack know (packrack-keys(7)). Mode "
		"600.\n" SERVER_LINE "%s\n",
		public);
	append_new_key(text + used, sizeof(text) - used);
	int rc = pr_keyfile_write(path, 0600, text, false, err);
	if (rc < 0 && errno == EEXIST)
		pr_error_set(
			err, "there is a rack already, %s: 'packrack keys list'", path);
	sodium_munlock(text, sizeof(text));
	free(path);
	if (rc < 0)
		return -1;
	if (gethostname(name, sizeof(name) - 1) < 0 || !pr_key_name_valid(name))
		PR_PRINT(name, "head");
	return pr_enrol(dir, name, PR_ROLE_ALL, public, err);
}

static int
run_generate(void *values, struct pr_error *err)
{
	const struct keys_args *a = values;
	char public[PR_KEY_TEXT];

	if (pr_keys_generate(a->dir, err) < 0 ||
		pr_keys_load_public(a->dir, public, err) < 0 ||
		(a->rack && make_head(a->dir, public, err) < 0))
		return -1;
	printf("public-key %s\n", public);
	fprintf(stderr,
		a->rack ? "%s: key directory of the head of a new rack\n"
			: "%s: have this public key enrolled on the rack's head, and join "
			  "with the bundle that it makes\n",
		a->dir);
	return CLI_OK;
}

/* ---- enroll, bundle, join, revoke, renew ---- */

static int
read_some(const char *name, char *text, size_t room, struct pr_error *err)
{
	FILE *f = strcmp(name, "-") ? fopen(name, "re") : stdin;

	if (!f)
		return pr_error_errno(err, "%s", name);
	size_t len = fread(text, 1, room - 1, f);
	text[len] = 0;
	if (f != stdin)
		fclose(f);
	return 0;
}

/*
 * KEY is the key itself, or the path of a file that holds it, or -. A word with a slash is a
 * path, although a key may have one: such a key is given as the line 'public-key KEY'.
 */
static int
public_key(const char *word, char out[PR_KEY_TEXT], struct pr_error *err)
{
	bool line = begins(word, "public-key ");
	char text[512];

	if ((line || !strchr(word, '/')) && pr_keys_parse_public(word, out) == 0) {
		if (line || access(word, F_OK) < 0)
			return 0;
		return pr_error_set(err,
			"%s has the form of a key, and is a file: give './%s' for the "
			"file, or 'public-key %s' for the key",
			word, word, word);
	}
	if (read_some(word, text, sizeof(text), err) < 0)
		return pr_keys_parse_public(word, out) < 0
			       ? -1
			       : pr_error_prefix(err, "a key with a / in it is given as "
						      "'public-key KEY'; no such file");
	if (begins(text, "secret-key")) {
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
run_enroll(void *values, struct pr_error *err)
{
	const struct keys_args *a = values;
	const char *name = a->operands[0];
	unsigned role = pr_role_parse(a->operands[1]);
	char public[PR_KEY_TEXT];

	if (!role)
		return pr_error_as(CLI_USAGE, err,
			"'%s' is not a role: node, read, operate or read-anonymized",
			a->operands[1]);
	if (public_key(a->operands[2], public, err) < 0 ||
		pr_enrol(a->dir, name, role, public, err) < 0)
		return -1;
	return a->bundle ? write_bundle(a->dir, name, role & PR_ROLE_NODE, a->bundle, err)
			 : CLI_OK;
}

static int
run_bundle(void *values, struct pr_error *err)
{
	const struct keys_args *a = values;
	struct pr_enrolled *enrolled = pr_enrolled_open(a->dir, err);
	const char *name = a->operands[0];
	const struct pr_enrolled_key *key;
	unsigned role = 0;

	if (!enrolled)
		return -1;
	for (size_t i = 0; (key = pr_enrolled_at(enrolled, i)); i++)
		if (!strcmp(key->name, name))
			role = key->role;
	pr_enrolled_close(&enrolled);
	if (!role)
		return pr_error_set(
			err, "no key named '%s' is enrolled in %s", name, a->dir);
	return write_bundle(a->dir, name, role & PR_ROLE_NODE, a->operands[1], err);
}

/* 0 if the text is what write_bundle writes; -1: err. */
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
				"line %u of the bundle is not as 'packrack keys enroll "
				"--bundle' or 'packrack keys bundle' writes it",
				number);
	}
	return servers ? 0 : pr_error_set(err, "there is no server-key in this bundle");
}

/* Stores a bundle as DIR/rack, in place of an earlier one, if every line of it is good. */
static int
run_join(void *values, struct pr_error *err)
{
	const struct keys_args *a = values;
	static char bundle[KEYS_BUNDLE_MAX];
	char *path = NULL, *copy = NULL;
	int rc = read_some(a->operands[0], bundle, sizeof(bundle), err);

	if (rc == 0 && (sodium_init() < 0 || !(copy = sodium_malloc(sizeof(bundle)))))
		rc = pr_error_set(err, "no memory for a bundle");
	if (rc == 0) {
		memcpy(copy, bundle, sizeof(bundle));
		path = pr_keys_path(a->dir, "rack", err);
		rc = path && pr_keydir_check(a->dir, err) == 0 &&
				     check_bundle(copy, err) == 0
			     ? pr_keyfile_write(path, 0600, bundle, true, err)
			     : -1;
	}
	sodium_free(copy);
	free(path);
	explicit_bzero(bundle, sizeof(bundle));
	return rc;
}

static int
run_revoke(void *values, struct pr_error *err)
{
	const struct keys_args *a = values;
	unsigned role;

	if (pr_revoke(a->dir, a->operands[0], &role, err) < 0)
		return -1;
	if (role & PR_ROLE_NODE)
		fprintf(stderr,
			"%s: %s still has the rack's frame key: renew the key if others "
			"may have it (packrack-keys(7))\n",
			a->program, a->operands[0]);
	return CLI_OK;
}

/*
 * Puts a new frame key before the old one, which is accepted until --end removes it. A
 * bundle made in between has both keys.
 */
static int
run_renew(void *values, struct pr_error *err)
{
	const struct keys_args *a = values;
	char *rack = sodium_init() < 0 ? NULL : read_rack(a->dir, err), *rest = rack;
	size_t room = rack ? strlen(rack) + 256 : 0, used = 0;
	char *path = rack ? pr_keys_path(a->dir, "rack", err) : NULL;
	char *out = path ? sodium_malloc(room) : NULL;
	unsigned keys = 0;
	int rc = -1;

	for (char *line; out && (line = strsep(&rest, "\n"));) {
		bool frame = begins(line, FRAME_LINE);

		if (frame && ++keys > 1)
			continue;
		if (frame && !a->end) {
			append_new_key(out + used, room - used);
			used += strlen(out + used);
		}
		if (rest || *line)
			used += snprintf(out + used, room - used, "%s\n", line);
	}
	if (out && keys == 0)
		pr_error_set(err, "%s: it has no frame-key to renew", path);
	else if (out && !a->end && keys > 1)
		pr_error_set(err,
			"%s: a renewal is under way: end it with 'packrack keys renew "
			"--end'",
			path);
	else if (out && a->end && keys == 1)
		pr_error_set(err, "%s: no renewal is under way", path);
	else if (out)
		rc = pr_keyfile_write(path, 0600, out, true, err);
	sodium_free(out);
	free(path);
	pr_keyfile_free(rack);
	return rc;
}

/* ---- list ---- */

/* What a key directory holds, except secrets. */
struct key_list {
	const char *dir;
	char own[PR_KEY_TEXT]; /* or "" */
	char manifest[PRM_MANIFEST_KEY]; /* with which a merger signs */
	char *rack; /* the file; or NULL */
	char frame[17]; /* what people compare: a short hash of the frame key, or "" */
	struct pr_enrolled *enrolled;
};

static int
load_own(struct key_list *h, struct pr_error *err)
{
	struct prm_signer signer;
	struct pr_key_pair pair;
	char *path = pr_keys_path(h->dir, "secret", err);
	int rc = 0;

	if (!path || pr_keydir_check(h->dir, err) < 0) {
		rc = -1;
	} else if (access(path, F_OK) == 0) {
		rc = pr_keys_load_pair(h->dir, &pair, err);
		if (rc == 0) {
			memcpy(h->own, pair.public, PR_KEY_TEXT);
			prm_signer_make(&signer, &pair);
			sodium_bin2hex(h->manifest, sizeof(h->manifest), signer.public,
				sizeof(signer.public));
			sodium_memzero(&signer, sizeof(signer));
		}
		pr_keys_wipe(&pair);
	}
	free(path);
	return rc;
}

/* Loads what DIR/rack holds into the list; does nothing if there is no such file. */
static int
load_rack(struct key_list *h, struct pr_error *err)
{
	uint8_t hash[crypto_generichash_BYTES_MIN];
	struct pr_frame_key key;

	h->rack = read_rack(h->dir, err);
	if (!h->rack)
		return errno == ENOENT ? 0 : -1;
	if (!begins(h->rack, FRAME_LINE) && !strstr(h->rack, "\n" FRAME_LINE))
		return 0;
	int rc = pr_rack_key_read(h->dir, &key, err);
	/* the hash differs when keys differ, and does not give the key away */
	if (rc == 0) {
		crypto_generichash(hash, sizeof(hash), key.active, sizeof(key.active),
			(const uint8_t *)"packrack frame key", 18);
		sodium_bin2hex(h->frame, sizeof(h->frame), hash, 8);
	}
	pr_rack_key_forget(&key);
	return rc;
}

/* r NULL: as text, else as data. */
static int
print_list(struct key_list *h, struct render *r)
{
	const struct pr_enrolled_key *key;
	char role[PR_ROLE_TEXT], text[PR_KEY_TEXT];
	char *rest = h->rack;

	if (r) {
		render_string(r, "directory", h->dir);
		render_string(r, "own", h->own);
		render_string(r, "manifest_key", h->manifest);
		render_list(r, "servers");
	} else {
		printf("%s\n%-16s %-15s %s\n", h->dir, "own", "",
			h->own[0] ? h->own : "none: packrack keys generate");
		if (h->manifest[0])
			printf("%-16s %-15s %s\n", "signs by", "", h->manifest);
	}
	for (char *line; rest && (line = strsep(&rest, "\n"));)
		if (begins(line, SERVER_LINE) && r)
			render_string(r, "server", line + strlen(SERVER_LINE));
		else if (begins(line, SERVER_LINE))
			printf("%-16s %-15s %s\n", "server", "",
				line + strlen(SERVER_LINE));
	if (r) {
		render_close(r);
		render_string(r, "frame_key_hash", h->frame);
		render_list(r, "enrolled");
	} else if (h->frame[0]) {
		printf("%-16s %-15s %s (hash)\n", "frame key", "", h->frame);
	}
	for (size_t i = 0; (key = pr_enrolled_at(h->enrolled, i)); i++) {
		pr_role_text(key->role, role);
		pr_key_text(key->key, text);
		if (!r) {
			printf("%-16s %-15s %s\n", key->name, role, text);
			continue;
		}
		render_object(r, NULL);
		render_string(r, "name", key->name);
		render_string(r, "role", role);
		render_string(r, "key", text);
		render_close(r);
	}
	return render_end(&r);
}

static int
run_list(void *values, struct pr_error *err)
{
	const struct keys_args *a = values;
	struct key_list h = {.dir = a->dir};
	int rc = -1;

	if (load_own(&h, err) == 0 && load_rack(&h, err) == 0 &&
		(h.enrolled = pr_enrolled_open(a->dir, err))) {
		rc = print_list(&h, cli_render(a->json, a->keyvalue, NULL));
		if (rc < 0)
			pr_error_set(err, "cannot print");
	}
	pr_keyfile_free(h.rack);
	pr_enrolled_close(&h.enrolled);
	return rc;
}

/* A key of its own: who has it can turn addresses back (proto/wire/anonymize.h). */
static int
run_anonymize(void *values, struct pr_error *err)
{
	const struct keys_args *a = values;
	char hex[2 * 32 + 2];
	uint8_t key[32];

	if (sodium_init() < 0)
		return pr_error_set(err, "no random numbers");
	randombytes_buf(key, sizeof(key));
	sodium_bin2hex(hex, sizeof(hex), key, sizeof(key));
	strcat(hex, "\n");
	int rc = pr_keyfile_write(a->operands[0], 0600, hex, false, err);
	sodium_memzero(key, sizeof(key));
	sodium_memzero(hex, sizeof(hex));
	return rc;
}

/* ---- the commands ---- */

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct keys_args *a = call->values;

	PR_COPY(a, call, program, operands);
	a->dir = cli_keys_home(a->key, err);
	return a->dir ? call->command->task(a, err) : CLI_USAGE;
}

static const struct cli_command commands[] = {
	{"generate", "make the key pair of this machine or user",
		"Makes a key pair in a key directory, and prints its public key.",
		"[options]", NULL, CLI_OPTIONS(generate_options), 0, run,
		.task = run_generate},
	{"enroll", "admit a public key", "Admits a public key, by a name and for a role.",
		"NAME ROLE KEY [options]",
		"ROLE is node, read, operate or read-anonymized, or several with commas. "
		"KEY is the file "
		"with the public\nkey, or - for standard input, or the key itself. A word "
		"with a slash is a file.",
		CLI_OPTIONS(enroll_options), 3, run, .task = run_enroll},
	{"bundle", "write the bundle of an enrolled key again",
		"Writes the bundle of an enrolled key again.", "NAME FILE [options]",
		"FILE may be -, standard output.", CLI_OPTIONS(dir_options), 2, run,
		.task = run_bundle},
	{"join", "store the bundle that the head made",
		"Stores the bundle that the rack's head made for this machine or user.",
		"FILE [options]", "FILE may be -, standard input.",
		CLI_OPTIONS(dir_options), 1, run, .task = run_join},
	{"list", "own key, the rack's keys, and all enrolled ones",
		"Lists what a key directory holds; no secret is shown.", "[options]", NULL,
		CLI_OPTIONS(list_options), 0, run, .task = run_list},
	{"anonymize", "make a key that anonymizes addresses",
		"Makes a key for `packrack stage anonymize`: the same key always gives the "
		"same addresses.",
		"FILE [options]", NULL, CLI_OPTIONS(dir_options), 1, run,
		.task = run_anonymize},
	{"revoke", "remove an enrolled key",
		"Removes a key; its connections lose their rights at once.",
		"NAME [options]", NULL, CLI_OPTIONS(dir_options), 1, run,
		.task = run_revoke},
	{"renew", "make a new frame key",
		"Makes a new frame key; the old one is accepted until --end.", "[options]",
		"Then, for each node: packrack keys bundle, and restart it; last the "
		"dispatcher.\nSee packrack-keys(7).",
		CLI_OPTIONS(renew_options), 0, run, .task = run_renew}};

const struct cli_command keys_command = {"keys", "make keys, and set who may do what",
	"Makes keys, and sets who may do what.", CLI_LIST(commands),
	.values = &(struct keys_args){.json = false}};
