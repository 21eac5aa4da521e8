/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "merger/cli/cli.h"
#include "merger/manifest.h"
#include "merger/trace_writer.h"
#include "proto/port/trace.h"

/* Exit statuses as those of cmp(1). */
enum { DIFFERENT = 1, TROUBLE = 2 };

enum times { TIMES_NS, TIMES_US, TIMES_IGNORE };

struct compare_args {
	int times;
	char *manifest, *key;
	bool json, keyvalue;
};

#define PR_VALUES struct compare_args

static const char *const times_names[] = {"ns", "us", "ignore", NULL};

static const struct pr_option options[] = {
	PR_OPT_ENUM(times, "times", 0, "HOW", times_names,
		"equal to the ns, to the us (where one is a pcap of microseconds), or "
		"ignore"),
	PR_OPT_STRING(manifest, "manifest", 0, "FILE",
		"check that it is signed, and of the packets of the one trace"),
	PR_OPT_STRING(key, "manifest-key", 0, "KEY",
		"signed by this key of a merger, as `packrack keys list` shows it there"),
	CLI_FORM_OPTIONS()};

struct side {
	const char *path;
	struct pr_trace *file;
	struct prm_trace_hash *hash;
	struct pr_packet packet;
	bool ended;
	uint64_t packets;
	struct prm_chain chain;
	char text[PRM_TRACE_HASH_TEXT];
};

struct comparison {
	const struct compare_args *args;
	struct side sides[2];
	int count;
	uint64_t at; /* number of the first packet that differs; 0: none */
	const char *what;
};

static int
side_next(struct side *s, struct pr_error *err)
{
	if (s->ended)
		return 0;
	int got = pr_trace_next(s->file, &s->packet, err);
	if (got == PR_SOURCE_ERROR)
		return -1;
	s->ended = got == PR_SOURCE_END;
	if (s->ended)
		return 0;
	s->packets++;
	prm_trace_hash_add(s->hash, &s->packet);
	prm_chain_add(&s->chain, &s->packet);
	return 0;
}

/* Names the first difference of two packets; NULL: none. */
static const char *
difference(
	const struct compare_args *a, const struct pr_packet *x, const struct pr_packet *y)
{
	if (x->linktype != y->linktype)
		return "link type";
	if (x->len != y->len)
		return "length";
	if (x->caplen != y->caplen)
		return "captured length";
	if (memcmp(x->data, y->data, x->caplen) != 0)
		return "bytes";
	if ((a->times == TIMES_NS && x->time != y->time) ||
		(a->times == TIMES_US && x->time / 1000 != y->time / 1000))
		return "time";
	return NULL;
}

/* Compares two traces. Reads both to their ends, for the hashes. */
static int
compare(struct comparison *c, struct pr_error *err)
{
	struct side *x = &c->sides[0], *y = &c->sides[1];

	while (!x->ended || (c->count > 1 && !y->ended)) {
		for (int i = 0; i < c->count; i++)
			if (side_next(&c->sides[i], err) < 0)
				return -1;
		if (c->count < 2 || c->at || (x->ended && y->ended))
			continue;
		c->what = x->ended || y->ended
				  ? "one has more packets"
				  : difference(c->args, &x->packet, &y->packet);
		if (c->what)
			c->at = x->ended ? y->packets : x->packets;
	}
	for (int i = 0; i < c->count; i++)
		prm_trace_hash_text(c->sides[i].hash, c->sides[i].text);
	return 0;
}

static int
print(const struct comparison *c)
{
	struct render *r = cli_render(c->args->json, c->args->keyvalue, NULL);

	if (r) {
		render_bool(r, "equal", !c->at);
		render_uint(r, "first_difference", c->at);
		render_string(r, "difference", c->what ? c->what : "");
		render_list(r, "files");
	}
	for (int i = 0; i < c->count; i++) {
		const struct side *s = &c->sides[i];

		if (!r) {
			printf("%s: %" PRIu64 " packets, %s\n", s->path, s->packets,
				s->text);
			continue;
		}
		render_object(r, NULL);
		render_string(r, "file", s->path);
		render_uint(r, "packets", s->packets);
		render_string(r, "hash", s->text);
		render_close(r);
	}
	if (!r && c->at)
		printf("different: from packet %" PRIu64 " on: %s\n", c->at, c->what);
	else if (!r && c->count > 1)
		printf("equal\n");
	return render_end(&r);
}

static int
check_manifest(const struct comparison *c, struct pr_error *err)
{
	char key[PRM_MANIFEST_KEY];
	static char text[65536];
	FILE *f = fopen(c->args->manifest, "re");
	size_t len = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (!f || ferror(f) || fclose(f) != 0)
		return pr_error_as(
			TROUBLE, err, "cannot read the manifest %s", c->args->manifest);
	text[len] = '\0';
	if (prm_manifest_check(text, &c->sides[0].chain, key, err) < 0) {
		printf("different: %s: %s\n", c->args->manifest, err->text);
		return DIFFERENT;
	}
	if (c->args->key && strcmp(c->args->key, key) != 0) {
		printf("different: signed by another key, %s\n", key);
		return DIFFERENT;
	}
	printf("%.*s\nsigned by %s%s\n", (int)strcspn(text, "\n"), text, key,
		c->args->key ? ""
			     : ": check that it is the merger's key by `packrack keys "
			       "list` there, or give --manifest-key");
	return CLI_OK;
}

static int
compare_files(struct comparison *c, char **paths, struct pr_error *err)
{
	for (int i = 0; i < c->count; i++) {
		struct side *s = &c->sides[i];

		s->path = paths[i];
		s->file = pr_trace_open(s->path, err);
		s->hash = s->file ? prm_trace_hash_create(err) : NULL;
		if (!s->hash)
			return TROUBLE;
	}
	if (compare(c, err) < 0)
		return TROUBLE;
	if (print(c) != 0)
		return pr_error_as(TROUBLE, err, "cannot write the report");
	if (c->args->manifest)
		return check_manifest(c, err);
	return c->at ? DIFFERENT : CLI_OK;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	const struct compare_args *a = call->values;
	struct comparison c = {.args = a, .count = call->count};
	int status = TROUBLE;

	if (call->count < 1 || call->count > 2)
		pr_error_set(err, "name one trace file, or two to compare");
	else if (a->manifest && call->count != 1)
		pr_error_set(err, "--manifest checks one trace: leave out %s",
			call->operands[1]);
	else if (a->key && !a->manifest)
		pr_error_set(err, "--manifest-key needs --manifest FILE");
	else if (a->json && a->keyvalue)
		pr_error_set(err, "--json and --keyvalue do not go together");
	else
		status = compare_files(&c, call->operands, err);
	for (int i = 0; i < 2; i++) {
		pr_trace_close(&c.sides[i].file);
		prm_trace_hash_destroy(&c.sides[i].hash);
	}
	return status;
}

const struct cli_command compare_command = {"compare",
	"compare two trace files, or hash one",
	.summary = "Compares the packets of two trace files: bytes, lengths, times and "
		   "order. Of one file, shows its hash.",
	.usage = "[options] FILE [FILE]", PR_OPTIONS(options),
	.footer = "The hash is the one that query -w and export write into a pcapng, where "
		  "all of a file is\nof one link type.\nExit status: 0 equal, 1 different, "
		  "2 trouble, or bad usage.",
	.operands = -1, .call = run, .values = &(struct compare_args){.times = TIMES_NS}};
