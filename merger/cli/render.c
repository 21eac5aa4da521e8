/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/render.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

#define DEPTH_MAX 16

/* An open object or list. */
struct level {
	char name[64];
	bool list;
	unsigned count; /* items so far, for key=value names */
	json_t *json;
};

struct render {
	FILE *to;
	enum render_form form;
	struct level levels[DEPTH_MAX];
	unsigned depth; /* levels[depth] is open; levels[0] is the whole */
	bool failed;
};

struct render *
render_begin(FILE *to, enum render_form form)
{
	struct render *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->to = to;
	r->form = form;
	if (form == RENDER_JSON) {
		r->levels[0].json = json_object();
		if (!r->levels[0].json) {
			free(r);
			return NULL;
		}
	}
	return r;
}

int
render_end(struct render **rp)
{
	struct render *r = *rp;
	int result;

	*rp = NULL;
	if (r->form == RENDER_JSON) {
		r->failed |= json_dumpf(r->levels[0].json, r->to, JSON_INDENT(2)) < 0;
		json_decref(r->levels[0].json);
		fputc('\n', r->to);
	}
	result = r->failed || fflush(r->to) != 0 ? -1 : 0;
	free(r);
	return result;
}

/* Puts a value into the open object or list. */
static void
json_put(struct render *r, const char *name, json_t *value)
{
	struct level *at = &r->levels[r->depth];

	if (!value ||
		(at->list ? json_array_append_new(at->json, value)
			  : json_object_set_new(at->json, name ? name : "", value)) < 0)
		r->failed = true;
}

static void
print_path(struct render *r)
{
	for (unsigned i = 1; i <= r->depth; i++)
		fprintf(r->to, "%s.", r->levels[i].name);
}

/* "missing packets" of missing_packets. */
static void
print_label(struct render *r, const char *name)
{
	for (; *name; name++)
		fputc(*name == '_' ? ' ' : *name, r->to);
}

static void
print_value(struct render *r, const char *name, const char *value)
{
	struct level *at = &r->levels[r->depth];

	if (r->form == RENDER_KEYVALUE) {
		print_path(r);
		if (at->list)
			fprintf(r->to, "%u=%s\n", at->count, value);
		else
			fprintf(r->to, "%s=%s\n", name, value);
	} else {
		fprintf(r->to, "%*s", (int)r->depth * 2, "");
		if (!at->list) {
			print_label(r, name);
			fputs(": ", r->to);
		}
		fprintf(r->to, "%s\n", value);
	}
	at->count++;
}

static void
open_level(struct render *r, const char *name, bool list)
{
	struct level *outer = &r->levels[r->depth], *at;
	char number[16];

	if (r->depth + 1 >= DEPTH_MAX) {
		r->failed = true;
		return;
	}
	snprintf(number, sizeof(number), "%u", outer->count++);
	if (r->form == RENDER_TEXT && name) {
		fprintf(r->to, "%*s", (int)r->depth * 2, "");
		print_label(r, name);
		fputs(":\n", r->to);
	}
	at = &r->levels[++r->depth];
	*at = (struct level){.list = list};
	snprintf(at->name, sizeof(at->name), "%s", outer->list || !name ? number : name);
	if (r->form != RENDER_JSON)
		return;
	at->json = list ? json_array() : json_object();
	r->depth--;
	json_put(r, name, at->json);
	r->depth++;
}

void
render_object(struct render *r, const char *name)
{
	open_level(r, name, false);
}

void
render_list(struct render *r, const char *name)
{
	open_level(r, name, true);
}

void
render_close(struct render *r)
{
	if (r->depth)
		r->depth--;
}

void
render_string(struct render *r, const char *name, const char *value)
{
	/* texts of others need not be UTF-8, JSON must be */
	if (r->form != RENDER_JSON) {
		print_value(r, name, value);
	} else {
		json_t *json = json_string(value);

		json_put(r, name, json ? json : json_string("(not UTF-8)"));
	}
}

void
render_uint(struct render *r, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	if (r->form != RENDER_JSON)
		print_value(r, name, text);
	else /* jansson's integers end at 2^63 - 1; no counter gets there */
		json_put(r, name,
			json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

void
render_bool(struct render *r, const char *name, bool value)
{
	if (r->form == RENDER_JSON)
		json_put(r, name, json_boolean(value));
	else if (r->form == RENDER_TEXT)
		print_value(r, name, value ? "yes" : "no");
	else
		print_value(r, name, value ? "true" : "false");
}

void
render_time(struct render *r, const char *name, int64_t value)
{
	char text[PR_TIME_TEXT];

	if (r->form == RENDER_JSON)
		json_put(r, name, json_integer(value));
	else
		print_value(r, name, pr_time_format(value, text, sizeof(text)));
}

void
render_epoch(struct render *r, const char *name, uint64_t value)
{
	char text[20];

	snprintf(text, sizeof(text), "%016" PRIx64, value);
	render_string(r, name, text);
}

void
render_json(struct render *r, const char *name, const char *text)
{
	json_t *json;

	if (r->form != RENDER_JSON) {
		print_value(r, name, text);
		return;
	}
	json = json_loads(text, 0, NULL);
	if (json)
		json_put(r, name, json);
	else
		render_string(r, name, text);
}
