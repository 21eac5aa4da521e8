/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/stages/rules.h"
#include "indexer/stages/stage_common.h"

/* Packets with a text, bytes in hex, or a regular expression, anywhere in what was captured of them. */

struct grep {
	hs_database_t *pattern;
	hs_scratch_t *scratch;
	uint64_t found;
	uint32_t scale;
};

static void
grep_close(void *state)
{
	struct grep *g = state;

	hs_free_database(g->pattern);
	hs_free_scratch(g->scratch);
	free(g);
}

static int
compile(struct grep *g, const char *pattern, struct pr_error *err)
{
	bool regex = *pattern == '/';
	uint8_t *bytes = NULL;
	unsigned flags = 0;
	uint32_t len;
	char *text = regex ? strdup(pattern + 1) : NULL;
	int rc = regex && text ? pri_rule_pcre(text, &flags, err)
		 : regex       ? -1
			       : pri_rule_bytes(pattern, &bytes, &len, err);

	if (rc == 0)
		rc = pri_rule_matcher_check(err);
	if (rc == 0 && !regex)
		text = pri_rule_regex(bytes, len);
	flags = (flags & ~(unsigned)HS_FLAG_ALLOWEMPTY) | HS_FLAG_SINGLEMATCH;
	if (rc == 0 && !text)
		rc = pr_error_set(err, "no memory for the pattern");
	if (rc == 0 && pri_pattern_compile(text, flags, &g->pattern, &g->scratch, err) < 0)
		rc = pr_error_prefix(err, "pattern");
	free(bytes);
	free(text);
	return rc;
}

static void *
grep_open(const char *const *options, char *error, size_t size)
{
	const char *pattern = pri_stage_option(options, "pattern");
	struct grep *g = calloc(1, sizeof(*g));
	struct pr_error err = {"no memory for the pattern"};

	if (g && !pattern)
		pr_error_set(&err, "no pattern given: use -o pattern=PATTERN");
	else if (g && compile(g, pattern, &err) == 0)
		return g;
	snprintf(error, size, "%s", err.text);
	if (g)
		grep_close(g);
	return NULL;
}

static int
grep_packet(void *state, struct packrack_packet *p)
{
	struct grep *g = state;
	bool found = pri_pattern_found(g->pattern, g->scratch, p->data, p->caplen);

	g->scale = p->scale;
	g->found += found;
	return found;
}

static int
grep_add(void *state, void *other)
{
	struct grep *g = state, *o = other;

	g->found += o->found;
	return 0;
}

static char *
grep_report(void *state)
{
	const struct grep *g = state;
	json_t *r = json_object();

	pri_stage_put(r, "packets", g->found, g->scale);
	return pri_stage_text(r);
}

static const char *const options[] = {
	"pattern: a text, with |hex| in it, or /a regular expression/ism", NULL};

const struct packrack_stage pri_stage_grep = {PACKRACK_STAGE_VERSION, PACKRACK_STAGE_GIVES,
	"grep", "packets that have a text, bytes or a regular expression in them", options,
	grep_open, grep_packet, NULL, grep_add, grep_report, grep_close};
