/* SPDX-License-Identifier: Apache-2.0 */
#include <hs/hs.h>

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
	hs_compile_error_t *why = NULL;
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
	if (rc == 0 && (!text || hs_compile(text, flags, HS_MODE_BLOCK, NULL, &g->pattern,
					 &why) != HS_SUCCESS))
		rc = pr_error_set(err, "pattern: %s", why ? why->message : "no memory");
	if (rc == 0 && hs_alloc_scratch(g->pattern, &g->scratch) != HS_SUCCESS)
		rc = pr_error_set(err, "no memory for the pattern");
	hs_free_compile_error(why);
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
on_match(PR_UNUSED unsigned id, PR_UNUSED unsigned long long from,
	PR_UNUSED unsigned long long to, PR_UNUSED unsigned flags, void *arg)
{
	*(bool *)arg = true;
	return 1;
}

static int
grep_packet(void *state, struct packrack_packet *p)
{
	struct grep *g = state;
	bool found = false;

	g->scale = p->scale;
	hs_scan(g->pattern, (const char *)p->data, p->caplen, 0, g->scratch, on_match,
		&found);
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
