/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/render.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/text.h"

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
	bool failed, one_line;
};

/* Used when there is no memory for another one; render_end then returns -1. */
static struct render no_memory;

struct render *
render_begin(FILE *to, enum render_form form)
{
	struct render *r = calloc(1, sizeof(*r));

	if (!r)
		r = &no_memory;
	*r = (struct render){.to = to, .form = form, .failed = r == &no_memory};
	if (form == RENDER_JSON)
		r->levels[0].json = json_object();
	return r;
}

void
render_on_one_line(struct render *r)
{
	r->one_line = true;
}

int
render_end(struct render **rp)
{
	struct render *r = PR_TAKE(rp);

	if (!r)
		return fflush(stdout) != 0 || ferror(stdout) ? -1 : 0;
	if (r->form == RENDER_JSON) {
		r->failed |= json_dumpf(r->levels[0].json, r->to,
				     r->one_line ? JSON_COMPACT : JSON_INDENT(2)) < 0;
		json_decref(r->levels[0].json);
		fputc('\n', r->to);
	}
	int result = r->failed || fflush(r->to) != 0 ? -1 : 0;
	if (r != &no_memory)
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

/* Prints a field's name with blanks: missing_packets as "missing packets". */
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
		for (unsigned i = 1; i <= r->depth; i++)
			fprintf(r->to, "%s.", r->levels[i].name);
		if (at->list)
			fprintf(r->to, "%u=", at->count);
		else
			fprintf(r->to, "%s=", name);
	} else {
		fprintf(r->to, "%*s", r->depth * 2, "");
		if (!at->list) {
			print_label(r, name);
			fputs(": ", r->to);
		}
	}
	/* texts of a volume or trace file may hold anything: the terminal gets what is plain of it */
	for (size_t n; *value; value += n ? n : 1) {
		n = pr_text_plain(value);
		fwrite(n ? value : "?", n ? n : 1, 1, r->to);
	}
	fputc('\n', r->to);
	at->count++;
}

static void
open_level(struct render *r, const char *name, bool list)
{
	struct level *outer = &r->levels[r->depth], *at = outer + 1;

	if (r->depth + 1 >= DEPTH_MAX) {
		r->failed = true;
		return;
	}
	if (r->form == RENDER_TEXT && name) {
		fprintf(r->to, "%*s", r->depth * 2, "");
		print_label(r, name);
		fputs(":\n", r->to);
	}
	*at = (struct level){.list = list};
	if (outer->list || !name)
		snprintf(at->name, sizeof(at->name), "%u", outer->count);
	else
		snprintf(at->name, sizeof(at->name), "%s", name);
	outer->count++;
	if (r->form == RENDER_JSON) {
		at->json = list ? json_array() : json_object();
		json_put(r, name, at->json);
	}
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
	json_t *json;

	if (r->form != RENDER_JSON) {
		print_value(r, name, value);
		return;
	}
	json = json_string(value); /* a text from outside may not be UTF-8; JSON must be */
	json_put(r, name, json ? json : json_string("(not UTF-8)"));
}

void
render_uint(struct render *r, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	if (r->form != RENDER_JSON)
		print_value(r, name, text);
	else /* jansson's integers end at 2^63 - 1; no counter gets there */
		json_put(r, name, json_integer(value > INT64_MAX ? INT64_MAX : value));
}

void
render_uints(struct render *r, const struct render_number *numbers)
{
	for (; numbers->name; numbers++)
		render_uint(r, numbers->name, numbers->value);
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
		print_value(r, name,
			(r->form == RENDER_TEXT ? pr_time_local : pr_time_format)(
				value, text, sizeof(text)));
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
	json_t *json = r->form == RENDER_JSON ? json_loads(text, 0, NULL) : NULL;

	if (json)
		json_put(r, name, json);
	else
		render_string(r, name, text);
}

/* ---- messages ---- */

enum { WHEN_SET = 1, EPOCH = 2, JSON = 4, HIDDEN = 8, INLINE = 16 };

/* Fields that are not shown in the default way of their type. */
static const struct shown {
	const ProtobufCMessageDescriptor *type; /* NULL: any message */
	const char *field;
	unsigned how;
	const char *name; /* NULL: the field's name. INLINE: prefix of its fields' names */
} shown[] = {
	{&packrack__loss__descriptor, "among_first", WHEN_SET, NULL},
	{&packrack__loss__descriptor, "among_last", WHEN_SET, NULL},
	{&packrack__loss__descriptor, "step", WHEN_SET, NULL},
	{&packrack__loss__descriptor, "bits", HIDDEN, NULL},
	{&packrack__evicted__descriptor, "midst", HIDDEN, NULL},
	{&packrack__evicted__descriptor, "since", WHEN_SET, NULL},
	{&packrack__evicted__descriptor, "deleted", INLINE, "deleted_"},
	{&packrack__deleted__descriptor, "since", WHEN_SET, NULL},
	{&packrack__deleted__descriptor, "moved_to", 0, "moved_to"}, /* without prefix */
	/* Completeness has what became of them */
	{&packrack__end__descriptor, "losses", HIDDEN, NULL},
	{&packrack__end__descriptor, "evicted", HIDDEN, NULL},
	{&packrack__end__descriptor, "ledgers", HIDDEN, NULL},
	{&packrack__node_status__descriptor, "name", 0, "node"},
	{&packrack__node_status__descriptor, "first_time", WHEN_SET, "oldest_time"},
	{&packrack__node_status__descriptor, "last_time", WHEN_SET, "newest_time"},
	{&packrack__node_status__descriptor, "missing", 0, "missing_packets"},
	{&packrack__node_status__descriptor, "volume_bytes", 0, "volume_size_bytes"},
	{&packrack__node_status__descriptor, "volume_used", 0, "volume_used_bytes"},
	{&packrack__node_status__descriptor, "queries", 0, "queries_total"},
	{&packrack__node_status__descriptor, "queries_running", 0, "running_query_count"},
	{&packrack__dispatcher_node__descriptor, "name", 0, "node"},
	{&packrack__running_query__descriptor, "text", 0, "filter"},
	{&packrack__running_query__descriptor, "bytes", 0, "bytes_received"},
	{&packrack__completeness__descriptor, "held_packets", 0, "packets_in_range"},
	{&packrack__completeness__descriptor, "held_at_most", 0,
		"packets_in_range_is_bound"},
	{&packrack__node_answer__descriptor, "why", 0, "reason"},
	{&packrack__node_status__descriptor, "cluster", WHEN_SET, NULL},
	{&packrack__node_status__descriptor, "summaries_told_time", WHEN_SET, NULL},
	{&packrack__node_status__descriptor, "logger", JSON | WHEN_SET, NULL},
	{&packrack__node_status__descriptor, "streams", HIDDEN, NULL}, /* data list has */
	{&packrack__stream_held__descriptor, "first_time", WHEN_SET, "oldest_time"},
	{&packrack__stream_held__descriptor, "last_time", WHEN_SET, "newest_time"},
	{&packrack__stream_held__descriptor, "evicted_until", WHEN_SET, NULL},
	{&packrack__status__descriptor, "program", HIDDEN, NULL},
	{&packrack__status__descriptor, "epoch", EPOCH | WHEN_SET, NULL},
	/* the command shows these itself, elsewhere or under another name */
	{&packrack__status__descriptor, "nodes", HIDDEN, NULL},
	{&packrack__status__descriptor, "dispatcher_nodes", HIDDEN, NULL},
	{&packrack__status__descriptor, "dispatcher_links", HIDDEN, NULL},
	{&packrack__status__descriptor, "links", HIDDEN, NULL},
	{&packrack__status__descriptor, "queries", HIDDEN, NULL},
	{NULL, "epoch", EPOCH, NULL}, {NULL, NULL, 0, NULL}, /* all others */
};

static void render_prefixed(
	struct render *r, const char *prefix, const ProtobufCMessage *message);

/* at: the field in the message; name: the name shown. */
static void
render_field(struct render *r, const char *name, struct shown as,
	const ProtobufCFieldDescriptor *field, const void *at)
{
	bool when_set = as.how & WHEN_SET;
	ProtobufCMessage *message;
	const char *text;
	uint64_t number;

	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		number = field->type == PROTOBUF_C_TYPE_UINT32 ? *(const uint32_t *)at
							       : *(const uint64_t *)at;
		if (number || !when_set)
			(as.how & EPOCH ? render_epoch : render_uint)(r, name, number);
		break;
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		if (*(const int64_t *)at || !when_set)
			render_time(r, name, *(const int64_t *)at);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		render_bool(r, name, *(const protobuf_c_boolean *)at);
		break;
	case PROTOBUF_C_TYPE_STRING:
		text = *(char *const *)at;
		if (*text || !when_set)
			(as.how & JSON ? render_json : render_string)(r, name, text);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		message = *(ProtobufCMessage *const *)at;
		if (message && as.how & INLINE)
			render_prefixed(r, as.name, message);
		else if (message)
			render_message(r, name, message);
		break;
	default: /* bytes are nothing to read */
		break;
	}
}

static void
render_prefixed(struct render *r, const char *prefix, const ProtobufCMessage *message)
{
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		const char *base = (const char *)message, *at = base + field->offset;
		const size_t *count = (const void *)(base + field->quantifier_offset);
		const struct shown *as = shown;
		char name[64];

		while (as->field && (strcmp(as->field, field->name) != 0 ||
					    (as->type && as->type != message->descriptor)))
			as++;
		snprintf(name, sizeof(name), "%s%s", as->name ? "" : prefix,
			as->name ? as->name : field->name);
		if (as->how & HIDDEN)
			continue;
		if (field->label != PROTOBUF_C_LABEL_REPEATED) {
			render_field(r, name, *as, field, at);
		} else if (field->descriptor == &packrack__value__descriptor) {
			/* named values are fields of the object around them */
			Packrack__Value *const *values = *(void *const *)at;

			for (size_t j = 0; j < *count; j++)
				render_uint(r, values[j]->name, values[j]->number);
		} else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
			render_messages(r, name, *(void *const *)at, *count);
		}
	}
}

void
render_fields(struct render *r, const ProtobufCMessage *message)
{
	render_prefixed(r, "", message);
}

void
render_message(struct render *r, const char *name, const ProtobufCMessage *message)
{
	render_object(r, name);
	render_fields(r, message);
	render_close(r);
}

void
render_messages(struct render *r, const char *name, const void *list, size_t count)
{
	render_list(r, name);
	for (size_t i = 0; i < count; i++)
		render_message(r, NULL, ((const ProtobufCMessage *const *)list)[i]);
	render_close(r);
}

#define FIRST_NS (2 * PR_NS_PER_S)
#define EVERY_NS (PR_NS_PER_S / 4)

void
progress_begin(struct progress *p)
{
	*p = (struct progress){.terminal = isatty(STDERR_FILENO), .begun = pr_now_mono()};
	p->next = p->begun + FIRST_NS;
}

bool
progress_due(struct progress *p)
{
	int64_t now = p->terminal ? pr_now_mono() : INT64_MIN;

	if (now < p->next)
		return false;
	p->next = now + EVERY_NS;
	return true;
}

char *
progress_text(char *buf, size_t size, const struct progress_state *s, int64_t elapsed)
{
	double part =
		s->total ? (s->done < s->total ? s->done : s->total) / (double)s->total : 0;
	double seconds = (double)(elapsed > 0 ? elapsed : 1) / PR_NS_PER_S;
	double left = part > 0 ? seconds / part - seconds : -1;
	int n = snprintf(buf, size, "%s: %" PRIu64 " %s, %.0f/s", s->what, s->count,
		s->unit, s->count / seconds);

	if (left >= 0 && left < 1e6 && n >= 0 && (size_t)n < size)
		snprintf(buf + n, size - n, ", %.0f %%, %d:%02d:%02d left", 100 * part,
			(int)left / 3600, (int)left / 60 % 60, (int)left % 60);
	return buf;
}

void
progress_show(struct progress *p, const struct progress_state *s)
{
	char line[300];

	p->shown = true;
	fprintf(stderr, "\r%s\033[K",
		progress_text(line, sizeof(line), s, pr_now_mono() - p->begun));
	fflush(stderr);
}

void
progress_end(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}
