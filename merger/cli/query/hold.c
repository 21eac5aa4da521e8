/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "merger/cli/query/ask.h"
#include "merger/cli/render.h"
#include "proto/base/units.h"
#include "proto/wire/frame.h"

/*
 * packrack hold: cases, whose packets each node copies into a stream of their own until they are released. A node that cannot be
 * reached is named, and makes the exit status 3: repeat the command when it is back.
 */

#define HOLD_NS (65 * PR_NS_PER_S)

struct hold_args {
	struct query_args query;
	char *reason, *guarantee;
};
#define PR_VALUES struct hold_args

#define MERGER_OPTIONS                                                                     \
	CLI_MERGER_OPTION(query.merger.endpoint, "the merger"),                            \
		CLI_KEY_OPTION(query.merger.key)

static const struct pr_option add_options[] = {MERGER_OPTIONS, CLI_TIME_OPTIONS(query.),
	PR_OPT_STRING(query.link, "link", 0, "LINK",
		"packets of this link only: its name or number"),
	PR_OPT_STRING(guarantee, "guarantee", 'g', "PERCENT",
		"of each node's volume, for each link: it is not overwritten"),
	PR_OPT_STRING(reason, "reason", 0, "TEXT", "why, for the log and `hold list`")};
static const struct pr_option release_options[] = {
	MERGER_OPTIONS, PR_OPT_STRING(reason, "reason", 0, "TEXT", "why, for the log")};
static const struct pr_option list_options[] = {MERGER_OPTIONS, CLI_FORM_OPTIONS(query.)};

/* Gives all nodes the command. CLI_PARTIAL: some did not take it. */
static int
tell_nodes(const struct hold_args *a, const Packrack__Status *status, Packrack__Hold *hold,
	struct pr_error *err)
{
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	Packrack__Envelope *reply;
	size_t took = 0;

	c.verb = "hold";
	c.hold = hold;
	for (size_t i = 0; i < status->n_nodes; i++) {
		struct pr_error why = {""};

		c.node = status->nodes[i]->name;
		if (cli_ask_command(&a->query.merger, &cli_merger, &c, HOLD_NS, &reply,
			    &why) == CLI_OK) {
			pr_message_free(&reply);
			took++;
		} else if (took || status->n_nodes > i + 1) {
			fprintf(stderr, "packrack: %s: %s\n", c.node, why.text);
		} else {
			return pr_error_set(err, "%s: %s", c.node, why.text);
		}
	}
	if (!took)
		return pr_error_set(
			err, status->n_nodes ? "no node took it" : "the rack has no nodes");
	return took == status->n_nodes ? CLI_OK : CLI_PARTIAL;
}

static int
run_add(const struct cli_call *call, struct pr_error *err)
{
	struct hold_args *a = call->values;
	Packrack__Hold hold = PACKRACK__HOLD__INIT;
	Packrack__Envelope *reply;
	struct question q = {0};
	uint16_t *types = NULL;
	double percent = 0;

	if (call->count < 1)
		return pr_error_as(CLI_USAGE, err, "a hold needs a name: NAME FILTER");
	if (a->guarantee && (pr_parse_percent(a->guarantee, &percent) < 0 || percent > 95))
		return pr_error_as(CLI_USAGE, err,
			"--guarantee: '%s' is not a percentage up to 95%%", a->guarantee);
	if (query_args_take(&a->query, call->count - 1, call->operands + 1, err) < 0 ||
		question_check(&a->query, err) < 0) {
		free(a->query.filter);
		return CLI_USAGE;
	}
	int status = cli_ask_status(&a->query.merger, &cli_merger, &reply, err);
	if (status == CLI_OK) {
		const Packrack__Status *s = reply->status;
		int n = ask_linktypes(s->links, s->n_links, &types, err);

		hold.name = call->operands[0];
		hold.text = a->query.filter;
		hold.reason = a->reason ? a->reason : (char *)protobuf_c_empty_string;
		hold.guarantee = (uint32_t)(percent * 10);
		hold.query = &q.query;
		status = n < 0 ? CLI_FAILED
			 : question_make(&q, &a->query, types, (size_t)n, err) < 0
				 ? CLI_USAGE
				 : tell_nodes(a, s, &hold, err);
		if (n >= 0)
			question_free(&q);
		pr_message_free(&reply);
	}
	free(types);
	free(a->query.filter);
	return status;
}

static int
run_release(const struct cli_call *call, struct pr_error *err)
{
	const struct hold_args *a = call->values;
	Packrack__Hold hold = PACKRACK__HOLD__INIT;
	Packrack__Envelope *reply;
	int status = cli_ask_status(&a->query.merger, &cli_merger, &reply, err);

	if (status != CLI_OK)
		return status;
	hold.name = call->operands[0];
	hold.reason = a->reason ? a->reason : (char *)protobuf_c_empty_string;
	hold.released = true;
	status = tell_nodes(a, reply->status, &hold, err);
	pr_message_free(&reply);
	return status;
}

/* ---- list ---- */

/* What a node has copied: of the streams of the hold's class. */
static void
sum_streams(const Packrack__NodeStatus *node, const char *name, uint64_t *packets,
	uint64_t *bytes)
{
	*packets = *bytes = 0;
	for (size_t i = 0; i < node->n_streams; i++) {
		const Packrack__StreamHeld *s = node->streams[i];

		if (strncmp(s->class_, PR_CLASS_HOLD, strlen(PR_CLASS_HOLD)) != 0 ||
			strcmp(s->class_ + strlen(PR_CLASS_HOLD), name) != 0)
			continue;
		*packets += s->packets;
		*bytes += s->bytes;
	}
}

static int
run_list(const struct cli_call *call, struct pr_error *err)
{
	const struct hold_args *a = call->values;
	Packrack__Envelope *reply;
	char until[PR_TIME_TEXT];
	uint64_t packets, bytes;
	int status = cli_ask_status(&a->query.merger, &cli_merger, &reply, err);

	if (status != CLI_OK)
		return status;
	struct render *r = cli_render(a->query.json, a->query.keyvalue, "holds");
	for (size_t i = 0; i < reply->status->n_nodes; i++) {
		const Packrack__NodeStatus *n = reply->status->nodes[i];

		for (size_t j = 0; j < n->n_holds; j++) {
			const Packrack__Hold *h = n->holds[j];

			sum_streams(n, h->name, &packets, &bytes);
			if (r) {
				render_object(r, NULL);
				render_string(r, "node", n->name);
				RENDER_UINTS(r, {"packets", packets}, {"bytes", bytes});
				render_fields(r, &h->base);
				render_close(r);
				continue;
			}
			printf("%s on %s: %s; %" PRIu64 " packets, %" PRIu64
			       " bytes, copied until %s; by %s%s%s\n",
				h->name, n->name, h->text[0] ? h->text : "all", packets,
				bytes,
				h->copied_until > 0 ? pr_time_local(h->copied_until, until,
							      sizeof(until))
						    : "-",
				h->user[0] ? h->user : "user", h->reason[0] ? ": " : "",
				h->reason);
		}
	}
	if (r)
		status = render_end(&r) < 0 ? CLI_FAILED : CLI_OK;
	pr_message_free(&reply);
	return status;
}

static const struct cli_command hold_commands[] = {
	{"add", "copy matching packets, past and future, until the case is released",
		"Makes each node copy matching packets, past and future, into a stream of "
		"their "
		"own, until the case is released.",
		"NAME [options] [FILTER...]", NULL, CLI_OPTIONS(add_options), -1,
		.call = run_add},
	{"list", "the cases, and what each node has copied",
		"Lists the cases, and what each node has copied.", "[options]", NULL,
		CLI_OPTIONS(list_options), 0, .call = run_list},
	{"release", "end a case: its copies are removed",
		"Ends a case: its copies are removed.", "NAME [options]", NULL,
		CLI_OPTIONS(release_options), 1, .call = run_release}};

const struct cli_command hold_command = {"hold",
	"keep the packets of a case on the nodes until it is released",
	"Keeps the packets of a case on the nodes until it is released.",
	CLI_LIST(hold_commands), .values = &(struct hold_args){.query = QUERY_ARGS}};
