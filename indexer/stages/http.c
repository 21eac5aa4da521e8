/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/filter.h"
#include "indexer/stages/stage_common.h"

/* Tests of header fields: filters, each with a name. Gives the packets that any of them takes; counts those of each. */

#define TESTS_MAX 64

struct test {
	char *name;
	struct pr_bpf_set programs;
	struct pri_stage_tally found;
};

struct tests {
	struct test test[TESTS_MAX];
	size_t count;
	struct pri_stage_tally any;
	uint32_t scale;
};

static void
http_close(void *state)
{
	struct tests *t = state;

	for (size_t i = 0; i < t->count; i++) {
		pr_bpf_set_free(&t->test[i].programs);
		free(t->test[i].name);
	}
	free(t);
}

static int
add_test(struct tests *t, const char *text, struct pr_error *err)
{
	size_t name = strcspn(text, ":");
	struct test *test = &t->test[t->count];

	if (!text[name] || !name)
		return pr_error_set(
			err, "test=%s: NAME:FILTER, as in test=dns:udp port 53", text);
	if (t->count == TESTS_MAX)
		return pr_error_set(err, "at most %d tests", TESTS_MAX);
	test->name = strndup(text, name);
	t->count++;
	if (!test->name)
		return pr_error_set(err, "no memory for a test");
	return pri_filter_compile_all(pri_linktypes, PRI_LINKTYPES, text + name + 1, false,
		       &test->programs, err) < 0
		       ? pr_error_prefix(err, "test %s", test->name)
		       : 0;
}

static void *
http_open(const char *const *options, char *error, size_t size)
{
	struct tests *t = calloc(1, sizeof(*t));
	struct pr_error err = {"no memory for tests"};
	int rc = t ? 0 : -1;

	for (; rc == 0 && *options; options++)
		rc = add_test(t, *options + strlen("test="), &err);
	if (rc == 0 && !t->count)
		rc = add_test(t, "http:tcp dst port 80", &err);
	if (rc == 0)
		return t;
	snprintf(error, size, "%s", err.text);
	if (t)
		http_close(t);
	return NULL;
}

static int
http_packet(void *state, struct packrack_packet *p)
{
	struct tests *t = state;
	struct pr_packet packet = pri_stage_packet_of(p);
	bool any = false;

	t->scale = p->scale;
	for (size_t i = 0; i < t->count; i++)
		if (pr_bpf_set_match(&t->test[i].programs, &packet)) {
			t->test[i].found.packets++;
			t->test[i].found.bytes += p->len;
			any = true;
		}
	t->any.packets += any;
	t->any.bytes += any ? p->len : 0;
	return any;
}

static int
http_add(void *state, void *other)
{
	struct tests *t = state, *o = other;

	t->scale = t->scale ? t->scale : o->scale;
	pri_stage_add(&t->any, &o->any, 1);
	for (size_t i = 0; i < t->count; i++)
		pri_stage_add(&t->test[i].found, &o->test[i].found, 1);
	return 0;
}

static char *
http_report(void *state)
{
	const struct tests *t = state;
	json_t *r = json_object(), *tests = json_object();

	pri_stage_put_tally(r, NULL, &t->any, t->scale);
	for (size_t i = 0; i < t->count; i++)
		pri_stage_put_tally(tests, t->test[i].name, &t->test[i].found, t->scale);
	json_object_set_new(r, "test", tests);
	return pri_stage_text(r);
}

static const char *const options[] = {"test: NAME:FILTER, as in dns:udp port 53; several; "
				      "without any, http: tcp dst port 80",
	NULL};

const struct packrack_stage pri_stage_http = {PACKRACK_STAGE_VERSION, PACKRACK_STAGE_GIVES,
	"http", "packets of HTTP, or of any list of tests of header fields", options,
	http_open, http_packet, NULL, http_add, http_report, http_close};
