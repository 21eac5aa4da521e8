/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/log.h"

#include <jansson.h>
#include <string.h>

#include "tests/unit/unit.h"

static const struct pr_log_field fields[] = {
	{"node", "log 1"}, {"mac", "02:00:00:00:00:01"}, {"user", ""}, {NULL, NULL}};

static struct pr_log_line
line_of(const char *text, const struct pr_log_field *with)
{
	return (struct pr_log_line){.time = INT64_C(1700000000123456789),
		.level = PR_LOG_WARNING,
		.program = "packrack-test",
		.file = "dispatcher/sender.c",
		.text = text,
		.fields = with};
}

static const char *
put(const struct pr_log_line *line, enum pr_log_format format, int journal)
{
	static char out[PR_LOG_LINE_MAX + 1];
	size_t len = pr_log_line_put(out, line, format, journal);

	ck_assert_uint_le(len, PR_LOG_LINE_MAX);
	out[len] = 0;
	ck_assert_uint_eq(strlen(out), len);
	ck_assert_ptr_eq(strchr(out, '\n'), out + len - 1);
	return out;
}

START_TEST(forms)
{
	struct pr_log_line l = line_of("it is \"gone\"", fields);

	ck_assert_str_eq(
		put(&l, PR_LOG_AUTO, 0), "packrack-test: warning: it is \"gone\"\n");
	ck_assert_str_eq(put(&l, PR_LOG_AUTO, 1), "<4>it is \"gone\"\n");
	ck_assert_str_eq(put(&l, PR_LOG_TEXT, 0),
		"2023-11-14T22:13:20.123456789Z warning packrack-test dispatcher/sender: "
		"it is \"gone\" node=\"log 1\" mac=02:00:00:00:00:01 user=\"\"\n");
	ck_assert_str_eq(put(&l, PR_LOG_JSON, 0),
		"{\"time\":\"2023-11-14T22:13:20.123456789Z\",\"level\":\"warning\","
		"\"program\":\"packrack-test\",\"where\":\"dispatcher/sender\","
		"\"what\":\"it is \\\"gone\\\"\",\"node\":\"log 1\","
		"\"mac\":\"02:00:00:00:00:01\",\"user\":\"\"}\n");
	ck_assert_int_eq(strncmp(put(&l, PR_LOG_JSON, 1), "<4>{\"time", 9), 0);
}
END_TEST

/* What a name from another machine may hold. */
START_TEST(no_line_is_forged)
{
	static const char *const texts[] = {"a\nerror: b", "\033[2J", "\xff\xfe",
		"\\\"}\n{", "\xc3", "\xed\xa0\x80", "\x7f\x01",
		"\xc2\x9b"
		"31m",
		"\xe2\x80\xae"
		"gpj.exe"};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		const struct pr_log_field with[] = {{"node", texts[i]}, {NULL, NULL}};
		struct pr_log_line l = line_of(texts[i], with);
		json_t *json;

		put(&l, PR_LOG_AUTO, 0);
		for (int form = PR_LOG_AUTO; form <= PR_LOG_JSON; form++) {
			ck_assert_ptr_null(strchr(put(&l, form, 0), '\033'));
			ck_assert_ptr_null(strstr(put(&l, form, 0), "\xc2\x9b"));
			ck_assert_ptr_null(strstr(put(&l, form, 0), "\xe2\x80\xae"));
			ck_assert_ptr_null(strstr(put(&l, form, 0), "\xff"));
		}
		json = json_loads(put(&l, PR_LOG_JSON, 0), JSON_REJECT_DUPLICATES, NULL);
		ck_assert_msg(json_object_size(json) == 6, "%s", texts[i]);
		json_decref(json);
	}
}
END_TEST

/* However much: one line, closed; what fits is whole. */
START_TEST(long_ones_are_cut)
{
	static char much[2 * PR_LOG_LINE_MAX];

	for (size_t n = 900; n < PR_LOG_LINE_MAX + 50;
		n += n < 1100 || n > 3800 ? 1 : 100) {
		const struct pr_log_field with[] = {
			{"node", "n"}, {"more", much}, {NULL, NULL}};
		struct pr_log_line of_text = line_of(much, fields),
				   of_field = line_of("x", with);
		json_t *json;

		memset(much, n % 2 ? '"' : 'y', n);
		much[n] = 0;
		put(&of_text, PR_LOG_AUTO, 0);
		put(&of_text, PR_LOG_TEXT, 1);
		put(&of_field, PR_LOG_TEXT, 0);
		json = json_loads(put(&of_text, PR_LOG_JSON, 0), 0, NULL);
		ck_assert_uint_ge(json_string_length(json_object_get(json, "what")),
			n < 1900 ? n : 1900);
		ck_assert(n > 1024 || json_object_get(json, "user"));
		json_decref(json);
		json = json_loads(put(&of_field, PR_LOG_JSON, 0), 0, NULL);
		ck_assert_str_eq(json_string_value(json_object_get(json, "node")), "n");
		ck_assert_str_eq(json_string_value(json_object_get(json, "what")), "x");
		ck_assert(n > 1900 || json_object_get(json, "more"));
		json_decref(json);
	}
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, forms);
	tcase_add_test(tc, no_line_is_forged);
	tcase_add_test(tc, long_ones_are_cut);
}

int
main(void)
{
	return unit_run("base log", fill);
}
