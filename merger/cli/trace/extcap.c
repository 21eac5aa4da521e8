/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/trace.h"
#include "merger/cli/query/ask.h"

/*
 * Wireshark's extcap(4): it calls us to list what can be captured from, to ask for the fields of its
 * dialogue, to have a filter checked, and to capture into a pipe. The rack is the interface "packrack",
 * each of its links "packrack:NAME". What is said here goes to standard output, in extcap's grammar.
 */
#define INTERFACE "packrack"

struct extcap_args {
	struct cli_connection merger;
	bool interfaces, dlts, config, capture;
	char *interface, *capture_filter, *version, *fifo;
	char *since, *until, *link;
};

#define PR_VALUES struct extcap_args
static const struct pr_option options[] = {
	PR_OPT_FLAG(interfaces, "extcap-interfaces", 0, "list the rack and its links"),
	PR_OPT_FLAG(dlts, "extcap-dlts", 0, "list the link types of the interface"),
	PR_OPT_FLAG(config, "extcap-config", 0, "list the fields of the dialogue"),
	PR_OPT_STRING(interface, "extcap-interface", 0, "NAME", "use this interface"),
	PR_OPT_STRING(capture_filter, "extcap-capture-filter", 0, "FILTER",
		"capture these packets; without --capture: check it"),
	PR_OPT_STRING(version, "extcap-version", 0, "VERSION", "version of Wireshark"),
	PR_OPT_FLAG(capture, "capture", 0, "capture into --fifo until interrupted"),
	PR_OPT_STRING(fifo, "fifo", 0, "FILE", "pipe from which Wireshark reads"),
	PR_OPT_STRING(since, "since", 0, "TIME", "from TIME on, then new packets",
		.def_note = "now"),
	PR_OPT_STRING(until, "until", 0, "TIME", "up to TIME, which may be in the future"),
	PR_OPT_STRING(link, "link", 0, "LINK", "packets of this link only"),
	CLI_MERGER_OPTION(merger.endpoint, "the merger"),
	CLI_KEY_OPTION(merger.key),
};

/* ---- what there is ---- */

/* Prints a value of extcap's grammar, without braces, which would end it. */
static void
print_text(const char *text)
{
	for (; *text; text++)
		if (*text != '{' && *text != '}' && (unsigned char)*text >= ' ')
			putchar(*text);
}

/*
 * Each link of the rack in a line: head, its name, middle, its name, tail. Without an answer only the rack as a
 * whole is listed, and the user can name a merger in the dialogue.
 */
static void
list_links(
	const struct extcap_args *a, const char *head, const char *middle, const char *tail)
{
	struct pr_error err;
	Packrack__Envelope *reply = cli_find_status(&a->merger, &cli_merger, &err);
	Packrack__LinkInfo *const *links = reply ? reply->status->links : NULL;

	for (size_t i = 0; reply && i < reply->status->n_links; i++) {
		/* of its name: a link has a number in each run of its dispatcher */
		size_t first = 0;

		while (strcmp(links[first]->name, links[i]->name) != 0)
			first++;
		if (first < i || !links[i]->name[0])
			continue;
		fputs(head, stdout);
		print_text(links[i]->name);
		fputs(middle, stdout);
		print_text(links[i]->name);
		puts(tail);
	}
	pr_message_free(&reply);
}

/* ---- its link types ---- */

static int
list_dlts(const struct extcap_args *a)
{
	struct pr_error err;
	Packrack__Envelope *reply = cli_find_status(&a->merger, &cli_merger, &err);
	char name[PR_LINKTYPE_TEXT];
	uint16_t *types = NULL;
	int count = reply ? ask_linktypes(reply->status->links, reply->status->n_links,
				    &types, &err)
			  : 0;

	for (int i = 0; i < count || i == 0; i++) {
		uint16_t type = count > 0 ? types[i] : PR_LINKTYPE_ETHERNET;

		printf("dlt {number=%u}{name=%s}{display=%s}\n", type,
			pr_linktype_name(type, name), name);
	}
	free(types);
	pr_message_free(&reply);
	return CLI_OK;
}

/* ---- the dialogue ---- */

static int
list_config(const struct extcap_args *a)
{
	const char *variable = getenv("PACKRACK_MERGER");

	printf("arg {number=0}{call=--merger}{display=Merger}{type=string}{tooltip=Where "
	       "the rack's merger listens}{default=");
	print_text(variable && variable[0] ? variable : PR_RPC_ENDPOINT_MERGER);
	printf("}\n"
	       "arg "
	       "{number=1}{call=--since}{display=From}{type=string}{tooltip=" PR_TIME_FORMS
	       "; empty: from now}\n"
	       "arg {number=2}{call=--until}{display=Until}{type=string}{tooltip=The same; "
	       "empty: go on until stopped}\n"
	       "arg {number=3}{call=--link}{display=Link}{type=selector}{tooltip=Packets "
	       "of one link only}\n"
	       "arg {number=4}{call=--key}{display=Your key "
	       "directory}{type=string}{tooltip=Or none; empty: the one that packrack "
	       "finds by itself}{group=Keys}\n");
	printf("value {arg=3}{value=}{display=that of the interface}{default=true}\n");
	list_links(a, "value {arg=3}{value=", "}{display=", "}{default=false}");
	return CLI_OK;
}

/* ---- filter and capture ---- */

/* Prints on standard output what is wrong with the filter; nothing if it is good. */
static int
check_filter(const struct extcap_args *a)
{
	int64_t since = PR_TIME_MIN, until = PR_TIME_MAX;
	struct query_args query = {.since = since};
	struct pr_error err;

	query.filter =
		time_terms_take(a->capture_filter, pr_now_real(), &since, &until, &err);
	if (!query.filter || question_check(&query, &err) < 0)
		printf("%s\n", err.text);
	free(query.filter);
	return CLI_OK;
}

struct words {
	char *items[24];
	int count;
};

static void
add(struct words *w, const char *flag, const char *value)
{
	if (!value || !value[0])
		return;
	if (flag)
		w->items[w->count++] = (char *)flag;
	w->items[w->count++] = (char *)value;
}

/* A query as a user would ask it, --follow and all. */
static int
capture(const struct extcap_args *a)
{
	struct words w = {.items = {"query"}, .count = 1};
	bool of_link = !strncmp(a->interface, INTERFACE ":", sizeof(INTERFACE));

	add(&w, NULL, "--follow");
	add(&w, NULL, "--quiet");
	add(&w, "--write", a->fifo);
	add(&w, "--merger", a->merger.endpoint);
	add(&w, "--key", a->merger.key);
	add(&w, "--since", a->since);
	add(&w, "--until", a->until);
	add(&w, "--link",
		of_link && !(a->link && a->link[0]) ? a->interface + sizeof(INTERFACE)
						    : a->link);
	add(&w, "--", a->capture_filter);
	return cli_run_command("packrack", &query_command, NULL, w.count, w.items);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	const struct extcap_args *a = call->values;

	if (a->interfaces) {
		printf("extcap {version=" PACKRACK_VERSION
		       "}{help=https://www.wireshark.org/docs/man-pages/extcap.html}\n"
		       "interface {value=" INTERFACE "}{display=packrack: all links}\n");
		list_links(a, "interface {value=" INTERFACE ":",
			"}{display=packrack: link ", "}");
		return CLI_OK;
	}
	if (!a->interface ||
		(strcmp(a->interface, INTERFACE) != 0 &&
			strncmp(a->interface, INTERFACE ":", sizeof(INTERFACE))))
		pr_error_set(err, "no interface given: --extcap-interfaces lists them");
	else if (a->dlts)
		return list_dlts(a);
	else if (a->config)
		return list_config(a);
	else if (a->capture && a->fifo && a->fifo[0])
		return capture(a);
	else if (a->capture)
		pr_error_set(err, "--capture needs --fifo FILE");
	else if (a->capture_filter)
		return check_filter(a);
	else
		pr_error_set(err, "no action given: see --help");
	return CLI_USAGE;
}

const struct cli_command extcap_command = {"extcap", "serve as an interface of Wireshark",
	.summary = "Makes the rack an interface of Wireshark, which calls this by itself.",
	.usage = "--extcap-interfaces | --extcap-interface NAME ...", PR_OPTIONS(options),
	.footer =
		"Wireshark finds it as packrack-extcap in its extcap folder:\n"
		"  ln -s /usr/bin/packrack ~/.local/lib/wireshark/extcap/packrack-extcap\n"
		"  tshark -i packrack",
	.call = run, .values = &(struct extcap_args){.dlts = false}};
