/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>

#include "logger/streamfs/streamfs.h"
#include "merger/audit.h"
#include "merger/cli/cli.h"

/* `packrack audit`: the records of a merger's --audit. */

struct audit_args {
	int64_t since, until;
	char *user;
	bool json;
};

#define PR_VALUES struct audit_args
static const struct pr_option options[] = {CLI_TIME_OPTIONS(),
	PR_OPT_STRING(user, "user", 'u', "NAME", "of this user only"),
	PR_OPT_FLAG(json, "json", 0, "print the records as they are, an object a line")};

static const char *
text_of(const json_t *r, const char *name)
{
	const char *text = json_string_value(json_object_get(r, name));

	return text ? text : "";
}

static void
print_text(const json_t *r)
{
	const char *event = text_of(r, "event");

	printf("%s %-12s %-8s", text_of(r, "time"), text_of(r, "user"), event);
	if (!strcmp(event, "command")) {
		printf("%s %s %s\n", text_of(r, "verb"), text_of(r, "node"),
			text_of(r, "case"));
		return;
	}
	if (strcmp(event, "refused") != 0)
		printf("#%" JSON_INTEGER_FORMAT " ",
			json_integer_value(json_object_get(r, "number")));
	printf("%s", *text_of(r, "filter") ? text_of(r, "filter") : "all packets");
	if (*text_of(r, "link"))
		printf(" of link %s", text_of(r, "link"));
	if (*text_of(r, "since"))
		printf(" since %s", text_of(r, "since"));
	if (*text_of(r, "until"))
		printf(" until %s", text_of(r, "until"));
	if (json_is_true(json_object_get(r, "follow")))
		printf(" and new ones");
	if (*text_of(r, "why"))
		printf(": %s", text_of(r, "why"));
	if (!strcmp(event, "end"))
		printf(": %" JSON_INTEGER_FORMAT " packets%s",
			json_integer_value(json_object_get(r, "packets")),
			json_is_true(json_object_get(r, "complete")) ? ""
								     : ", not complete");
	putchar('\n');
}

static void
show(const struct audit_args *a, const struct sfs_record *record)
{
	const char *text = (const char *)record->body;
	json_t *r = record->length && !text[record->length - 1] ? json_loads(text, 0, NULL)
								: NULL;

	if (!r)
		printf("(a record that is not JSON)\n");
	else if (a->user && strcmp(text_of(r, "user"), a->user) != 0)
		;
	else if (a->json)
		puts(text);
	else
		print_text(r);
	json_decref(r);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	const struct audit_args *a = call->values;
	const struct sfs_open_options open = {.writer = false};
	const char *path = call->operands[0];
	struct sfs *volume = sfs_open(&path, 1, &open, err);
	int stream = volume ? sfs_stream_find(volume, PRM_AUDIT_STREAM) : -1, rc = -1;
	struct sfs_cursor *cursor = NULL;
	uint64_t gone = 0;
	struct sfs_record r;

	if (volume && stream < 0)
		pr_error_set(err, "%s has no records of an audit", path);
	else if (volume)
		cursor = sfs_cursor_open(volume, stream, NULL, err);
	while (cursor && (rc = sfs_cursor_next(cursor, &r, err)) != 0 && rc != SFS_ERROR)
		if (rc != 1)
			gone++;
		else if (r.min_time >= a->since && r.min_time <= a->until)
			show(a, &r);
	if (cursor)
		sfs_cursor_close(&cursor);
	if (volume)
		sfs_close(&volume);
	if (rc == 0 && gone)
		fprintf(stderr,
			"packrack audit: %" PRIu64
			" places are damaged or were overwritten\n",
			gone);
	return rc < 0 ? CLI_FAILED : gone ? CLI_PARTIAL : CLI_OK;
}

const struct cli_command audit_command = {"audit", "show who asked the rack for what",
	"Shows who asked a merger for what, and got how much: the records of its --audit.",
	"VOLUME [options]", NULL, CLI_OPTIONS(options), 1, run,
	.values = &(struct audit_args){PR_TIME_MIN, PR_TIME_MAX, NULL, false}};
