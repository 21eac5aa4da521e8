/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#include "indexer/flows/flow.h"
#include "indexer/index/packet_fields.h"
#include "merger/cli/flows/sql_kept.h"
#include "merger/cli/query/ask.h"

/*
 * `packrack sql`: an answer as tables, and statements over them. Packets come as for `packrack query`; of the tables only
 * those are filled that the statement names. Columns are in the man page.
 */

struct sql_args {
	struct query_args query;
	struct pri_flow_limits limits;
	struct pr_string_list inside;
	int form;
	char *packets; /* a filter */
	struct pr_string_list kept; /* volumes that keep flows */
	char *as; /* the table that the rows become */
	bool serve;
};

#define PR_VALUES struct sql_args

static const char *const forms[] = {"text", "csv", "json", NULL};

static const struct pr_option options[] = {
	QUERY_RANGE_OPTIONS(query.),
	PR_OPT_STRING(packets, "filter", 0, "FILTER",
		"tables are made of the packets that match, as tcpdump takes it"),
	PR_OPT_LIST(kept, "kept", 0, "VOLUME",
		"flows are those that this volume keeps (packrack flows --keep), several: "
		"that all keep; there are no other tables"),
	PR_OPT_ENUM(
		form, "format", 0, "FORMAT", forms, "text, csv or json (an object a line)"),
	PR_OPT_DURATION(limits.idle_tcp, "idle-tcp", 0, "DURATION", PR_NS_PER_S + 1, 0,
		"a TCP flow ends after this time without a packet", .def = "60s"),
	PR_OPT_DURATION(limits.idle, "idle", 0, "DURATION", PR_NS_PER_S + 1, 0,
		"another one after this time", .def = "30s"),
	PR_OPT_DURATION(limits.active, "active", 0, "DURATION", PR_NS_PER_S, 0,
		"a flow that lasts longer is given in parts", .def = "15m"),
	PR_OPT_LIST(inside, "inside", 0, "NETWORK",
		"a network of ours, as in 10.0.0.0/8: for `outgoing`"),
	PR_OPT_FLAG(query.explain, "explain", 0,
		"print what was searched and what was skipped"),
	PR_OPT_FLAG(serve, "serve", 0,
		"answer questions of standard input, which are such options and a "
		"STATEMENT, as words with a NUL behind each; a further NUL ends one"),
	PR_OPT_STRING(as, "as", 0, "NAME",
		"with --serve: keep the rows as table NAME for further questions"),
	CLI_KEY_OPTION(query.merger.key),
};

static const char footer[] =
	"Tables: flows, packets (their headers), rate (by link and second), losses, nodes. "
	"Without STATEMENT\n"
	"statements are read from standard input, each up to a ';' at the end of a line, "
	"over all tables;\n"
	"- is one statement from there. On a terminal quit ends it.\n"
	"prefix(ADDRESS, BITS) is a network's text, within(ADDRESS, NETWORK) a test. The "
	"SQL is DuckDB's.\n\n"
	"  packrack sql --since \"1h ago\" \"select src_ip, sum(bytes_sent) s from flows "
	"group by 1 order by 2 desc limit 10\"\n"
	"  packrack sql -r trace.pcap \"select prefix(dst_ip, 24) net, count(*) from flows "
	"where state = 'S0' group by all\"\n"
	"  packrack sql --since today --format csv \"select * from losses\"";

static const struct pr_cmdline program = {.name = "packrack sql",
	.summary = "Answers SQL over the flows, packets, rates and losses of a time range.",
	.usage = "[options] [STATEMENT]",
	PR_OPTIONS(options),
	.footer = footer};

/* ---- tables ---- */

static const struct sql_column packet_columns[] = {{"time", SQL_TIME}, {"link", SQL_U16},
	{"seq", SQL_U64}, {"length", SQL_U32}, {"captured", SQL_U32}, {"vlan", SQL_U16},
	{"src_ip", SQL_TEXT}, {"dst_ip", SQL_TEXT}, {"src_port", SQL_U16},
	{"dst_port", SQL_U16}, {"protocol", SQL_U8}, {"flags", SQL_U8}, {"bytes", SQL_U32},
	{"payload", SQL_U32}};
static const struct sql_column rate_columns[] = {
	{"time", SQL_TIME}, {"link", SQL_U16}, {"packets", SQL_U64}, {"bytes", SQL_U64}};
static const struct sql_column loss_columns[] = {{"link", SQL_U16}, {"reason", SQL_TEXT},
	{"node", SQL_TEXT}, {"packets", SQL_U64}, {"first_seq", SQL_U64},
	{"last_seq", SQL_U64}, {"first_time", SQL_TIME}, {"last_time", SQL_TIME}};
static const struct sql_column node_columns[] = {{"node", SQL_TEXT}, {"answered", SQL_BOOL},
	{"matched", SQL_U64}, {"why", SQL_TEXT}, {"error", SQL_TEXT}};

enum table { FLOWS, PACKETS, RATE, LOSSES, NODES, TABLES };
static const struct {
	const char *name;
	const struct sql_column *columns;
	size_t count;
} tables[TABLES] = {
#define TABLE(name, columns)                                                               \
	{                                                                                  \
		name, columns, PR_COUNT(columns)                                           \
	}
	[FLOWS] = TABLE("flows", flow_columns),
	[PACKETS] = TABLE("packets", packet_columns),
	[RATE] = TABLE("rate", rate_columns),
	[LOSSES] = TABLE("losses", loss_columns),
	[NODES] = TABLE("nodes", node_columns)};

/* Of one link in the second that is under way. */
struct second {
	int64_t number;
	uint64_t packets, bytes;
	uint16_t link;
};

/* Of the process: questions that are served share it. */
static struct sql_engine *engine;
static FILE *questions; /* NULL: one question alone */
static struct sql_kept kept; /* with --kept */

struct sql {
	const struct sql_args *args;
	struct sql_table *table[TABLES]; /* NULL: no statement names it */
	bool made[TABLES];
	struct pri_flow_table *flows;
	struct flow_context context;
	struct second *seconds;
	size_t second_count;
};

struct sql_table *
flow_table_create(struct sql_engine *of, struct pr_error *err)
{
	return sql_table_create(of, "flows", flow_columns, PR_COUNT(flow_columns), err);
}

int
flow_table_put(struct sql_table *t, const struct flow_record *r, struct pr_error *err)
{
	const struct pri_flow *flow = r->flow;

	sql_put(t, (uint64_t)r->first);
	sql_put_double(t, (double)pr_time_minus(r->last, r->first) / PR_NS_PER_S);
	sql_put_text(t, r->src);
	sql_put_text(t, r->dst);
	sql_put(t, r->sport);
	sql_put(t, r->dport);
	sql_put(t, flow->key.protocol);
	sql_put(t, r->sent->bytes);
	sql_put(t, r->received->bytes);
	sql_put_if(t, r->outgoing, r->outgoing && r->outgoing[0] == 't');
	sql_put_text(t, r->state);
	sql_put(t, r->sent->packets);
	sql_put(t, r->received->packets);
	sql_put(t, r->sent->payload);
	sql_put(t, r->received->payload);
	sql_put(t, r->sent->flags);
	sql_put(t, r->received->flags);
	sql_put_if(t, flow->key.vlan != PRI_FLOW_UNTAGGED, flow->key.vlan);
	sql_put(t, flow->key.link);
	sql_put(t, (uint64_t)r->last);
	sql_put_text(t, r->community_id);
	sql_put_text(t, r->uid);
	sql_put(t, r->missing);
	sql_put_if(t, flow->sampling, flow->sampling);
	return sql_row_end(t, err);
}

static int
on_flow(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	struct sql *s = arg;
	struct flow_record r;

	flow_record_make(&r, flow, &s->context);
	return flow_table_put(s->table[FLOWS], &r, err);
}

static int
put_packet(struct sql_table *t, const struct pr_packet *p, struct pr_error *err)
{
	struct pri_flow_packet f;
	bool ip = pri_flow_packet_parse(p, &f);
	unsigned from = f.side;
	char text[INET6_ADDRSTRLEN];

	sql_put(t, (uint64_t)p->time);
	sql_put(t, p->link);
	sql_put(t, p->seq);
	sql_put(t, p->len);
	sql_put(t, p->caplen);
	sql_put_if(t, f.key.vlan != PRI_FLOW_UNTAGGED, f.key.vlan);
	for (unsigned i = 0; i < 2 && ip; i++)
		sql_put_text(t, flow_address(&f.key, i ^ from, text));
	for (unsigned i = 0; i < 2 && ip; i++)
		sql_put(t, f.key.port[i ^ from]);
	if (ip) {
		sql_put(t, f.key.protocol);
		sql_put(t, f.flags);
		sql_put(t, f.bytes);
		sql_put(t, f.payload);
	}
	for (unsigned i = 0; i < 8 && !ip; i++)
		sql_put_null(t);
	return sql_row_end(t, err);
}

static int
put_second(struct sql_table *t, const struct second *s, struct pr_error *err)
{
	if (s->packets == 0)
		return 0;
	sql_put(t, (uint64_t)(s->number * PR_NS_PER_S));
	sql_put(t, s->link);
	sql_put(t, s->packets);
	sql_put(t, s->bytes);
	return sql_row_end(t, err);
}

static int
count_packet(struct sql *s, const struct pr_packet *p, struct pr_error *err)
{
	struct second *of = NULL;

	for (size_t i = 0; i < s->second_count && !of; i++)
		of = s->seconds[i].link == p->link ? &s->seconds[i] : NULL;
	if (!of) {
		if (PR_ARRAY_ADD(s->seconds, s->second_count,
			    (struct second){.link = p->link, .number = INT64_MIN}) < 0)
			return pr_error_set(err, "no memory for rates");
		of = &s->seconds[s->second_count - 1];
	}
	if (of->number != p->otime / PR_NS_PER_S) {
		if (put_second(s->table[RATE], of, err) < 0)
			return -1;
		*of = (struct second){.link = p->link, .number = p->otime / PR_NS_PER_S};
	}
	of->packets++;
	of->bytes += p->len;
	return 0;
}

static int
on_packet(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct sql *s = arg;

	if (s->table[FLOWS] && pri_flow_table_packet(s->flows, p, err) < 0)
		return -1;
	if (s->table[PACKETS] && put_packet(s->table[PACKETS], p, err) < 0)
		return -1;
	return s->table[RATE] ? count_packet(s, p, err) : 0;
}

static int
put_losses(struct sql_table *t, const Packrack__Completeness *c, struct pr_error *err)
{
	for (size_t i = 0; i < c->n_missing + c->n_missing_classes; i++) {
		const Packrack__Loss *l = report_missing(c, i);

		sql_put(t, l->link);
		sql_put_text(t, l->reason);
		sql_put_text(t, l->node);
		sql_put(t, l->count);
		sql_put(t, l->first_seq);
		sql_put(t, l->last_seq);
		sql_put(t, (uint64_t)l->first_time);
		sql_put(t, (uint64_t)l->last_time);
		if (sql_row_end(t, err) < 0)
			return -1;
	}
	return 0;
}

static int
put_nodes(struct sql_table *t, const Packrack__Completeness *c, struct pr_error *err)
{
	for (size_t i = 0; i < c->n_nodes; i++) {
		const Packrack__NodeAnswer *n = c->nodes[i];

		sql_put_text(t, n->node);
		sql_put(t, n->answered);
		sql_put(t, n->matched);
		sql_put_text(t, n->why);
		sql_put_text(t, n->error);
		if (sql_row_end(t, err) < 0)
			return -1;
	}
	return 0;
}

/* All packets have come: what is left to be put. */
static int
finish_tables(struct sql *s, const struct sink *sink, struct pr_error *err)
{
	const Packrack__Completeness *c = sink->end->completeness;
	int rc = 0;

	if (s->table[FLOWS])
		rc = pri_flow_table_advance(s->flows, PRI_FLOW_NEVER, err);
	for (size_t i = 0; i < s->second_count && rc == 0; i++)
		rc = put_second(s->table[RATE], &s->seconds[i], err);
	if (s->table[LOSSES] && c && rc == 0)
		rc = put_losses(s->table[LOSSES], c, err);
	if (s->table[NODES] && c && rc == 0)
		rc = put_nodes(s->table[NODES], c, err);
	for (int i = 0; i < TABLES && rc == 0; i++)
		rc = sql_table_finish(&s->table[i], err);
	return rc;
}

/* ---- statements ---- */

static const char hint[] =
	"Statements end with ';' at the end of a line. show tables; describe flows; quit "
	"or Ctrl-D ends.\n";

/* What a terminal says between statements that is none: 0: nothing; 1: help; -1: it ends */
static int
word_of(const char *line)
{
	static const char *const ends[] = {"quit", "exit", ".quit", ".exit"};

	line += strspn(line, " \t");
	size_t len = strcspn(line, "; \t\r\n");
	if (line[len + strspn(line + len, "; \t\r\n")])
		return *line == '.';
	for (size_t i = 0; i < PR_COUNT(ends); i++)
		if (strlen(ends[i]) == len && !strncasecmp(line, ends[i], len))
			return -1;
	return *line == '.' || (len == 4 && !strncasecmp(line, "help", len));
}

/* Reads up to a semicolon at the end of a line. NULL: no more. */
static char *
statement_read(bool prompt)
{
	char *text = NULL, *line = NULL;
	size_t size = 0, room = 0;
	FILE *to = open_memstream(&text, &size);
	bool any = false, end = false;
	ssize_t len;
	int word;

	while (to && !end) {
		if (prompt)
			fputs(any ? "  -> " : "sql> ", stderr);
		len = getline(&line, &room, stdin);
		if (len < 0)
			break;
		if (!any && !line[strspn(line, " \t\r\n;")])
			continue; /* nothing, or the semicolon of nothing */
		if (prompt && !any && (word = word_of(line))) {
			if (word < 0)
				break;
			fputs(hint, stderr);
			continue;
		}
		any = true;
		fputs(line, to);
		while (len && strchr(" \t\r\n", line[len - 1]))
			len--;
		end = len && line[len - 1] == ';' &&
		      strncmp(line + strspn(line, " \t"), "--", 2) != 0;
	}
	free(line);
	if (to)
		fclose(to);
	if (!any) {
		free(text);
		return NULL;
	}
	return text;
}

/* All of standard input, as one statement. */
static char *
statement_of_input(struct pr_error *err)
{
	char *text = NULL;
	size_t room = 0;

	if (getdelim(&text, &room, '\0', stdin) < 0) {
		free(text);
		return pr_error_null(err, "no statement on standard input");
	}
	return text;
}

static int
execute(struct sql *s, const char *statement, struct pr_error *err)
{
	if (kept.engine && s->args->kept.count) /* none: no statement named the table yet */
		sql_kept_ask(&kept, statement);
	if (s->args->as)
		return sql_keep(engine, s->args->as, statement, err);
	return sql_execute(engine, statement, (enum sql_form)s->args->form, stdout, err);
}

/* A mistake ends only its statement. */
static int
run_input(struct sql *s)
{
	bool prompt = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
	int status = CLI_OK;
	struct pr_error err;
	char *statement;

	if (prompt)
		fputs(hint, stderr);
	while ((statement = statement_read(prompt))) {
		if (execute(s, statement, &err) < 0) {
			fprintf(stderr, "%s: %s\n", program.name, err.text);
			status = CLI_FAILED;
		}
		fflush(stdout);
		free(statement);
	}
	return status;
}

static int
run_statement(struct sql *s, const char *statement, struct pr_error *err)
{
	if (execute(s, statement, err) < 0)
		return CLI_FAILED;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return CLI_OK;
	if (errno == EPIPE) /* as with tcpdump | head */
		return CLI_OK;
	pr_error_set(err, "cannot write the rows");
	return CLI_FAILED;
}

static void
explain_kept(const struct flow_kept_figures *f)
{
	fprintf(stderr,
		"batches of flows: %" PRIu64 " of the volume, %" PRIu64 " read; %" PRIu64
		" rows given to SQL\ncolumns read:",
		f->batches, f->read, f->rows);
	for (size_t i = 0; i < PR_COUNT(flow_columns); i++)
		if (kept.read >> i & 1)
			fprintf(stderr, " %s", flow_columns[i].name);
	fputs(kept.sums.may ? "\nrows of a batch that are alike may come as one, with "
			      "their sums\n"
			    : "\n",
		stderr);
}

/* Of volumes that keep flows. */
static int
answer_kept(struct sql *s, const char *statement, struct pr_error *err)
{
	const struct query_args *q = &s->args->query;
	struct flow_kept_figures f = {0};

	kept.context = s->context;
	kept.context.kept = true;
	kept.volume = flow_kept_open_all(&s->args->kept, q, err);
	if (!kept.volume)
		return CLI_FAILED;
	int status = statement ? run_statement(s, statement, err) : run_input(s);
	int told = flow_kept_lacks(kept.volume, &f);
	if (q->explain)
		explain_kept(&f);
	if (q->explain && kept.plan && statement)
		fprintf(stderr, "the statement excludes others: %zu of its tests\n",
			kept.plan->key_count + kept.plan->range_count);
	if (status == CLI_OK)
		status = told;
	if (status == CLI_FAILED && statement)
		return status;
	told = flow_kept_tell(kept.volume); /* also if others' rows were printed */
	return status == CLI_OK ? told : status;
}

static int
answer(struct sql *s, const char *statement, struct pr_error *err)
{
	struct query_args query = s->args->query;
	struct sink sink;
	int status = CLI_OK;

	query.parts = s->table[FLOWS] && !s->table[PACKETS] && !s->table[RATE];
	if (s->table[FLOWS] && !s->args->query.files.count)
		status = flow_losses_ask(&s->context.losses, &s->args->query, err);
	sink_init(&sink, &query);
	sink.take = on_packet;
	sink.take_arg = s;
	if (status == CLI_OK)
		status = ask_query(&sink, err);
	/* the query's handlers end a query; now they would end nothing */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (status == CLI_OK && finish_tables(s, &sink, err) < 0)
		status = CLI_FAILED;
	if (status == CLI_OK) {
		int said = statement ? run_statement(s, statement, err) : run_input(s);

		if (said == CLI_OK || !statement) /* others' rows were printed */
			report_text(stderr, &sink);
		if (said == CLI_OK && s->args->query.explain)
			explain_text(stderr, &sink);
		status = said != CLI_OK ? said : report_status(&sink);
	}
	sink_close(&sink);
	return status;
}

static void
tables_end(struct sql *s)
{
	struct pr_error later;

	for (int i = 0; i < TABLES; i++) {
		sql_table_finish(&s->table[i], &later);
		if (questions && s->made[i])
			sql_drop(engine, s->args->kept.count ? "VIEW" : "TABLE",
				tables[i].name);
	}
	flow_kept_close(&kept.volume);
	pri_plan_destroy(&kept.plan);
}

#define NAME "abcdefghijklmnopqrstuvwxyz_"

static int
served_check(const struct sql_args *a, struct pr_error *err)
{
	if (a->as && !questions)
		return pr_error_set(err, "--as: in a question to --serve");
	for (int i = 0; i < TABLES && a->as; i++)
		if (!*a->as || a->as[strspn(a->as, NAME)] ||
			!strcasecmp(a->as, tables[i].name))
			return pr_error_set(err,
				"--as %s: small letters and _, and another name than the "
				"tables have",
				a->as);
	for (size_t i = 0; i < a->query.files.count && questions; i++)
		if (!strcmp(a->query.files.items[i], "-"))
			return pr_error_set(err, "-r -: questions come from there");
	return 0;
}

/* CLI_OK, ..USAGE, or ..FAILED: no engine, or no memory */
static int
prepare(struct sql *s, struct sql_args *a, const char *statement, struct pr_error *err)
{
	if (query_args_take(&a->query, a->packets != NULL, &a->packets, err) < 0 ||
		networks_parse(&s->context.inside, "--inside", &a->inside, err) < 0)
		return CLI_USAGE;
	if (a->kept.count && a->packets)
		pr_error_set(err, "--kept: --filter is of packets; WHERE is of flows");
	if (a->kept.count && (a->packets || flow_kept_alone(&a->query, err) < 0))
		return CLI_USAGE;
	if (served_check(a, err) < 0 || question_check(&a->query, err) < 0)
		return CLI_USAGE;
	engine = engine ? engine : sql_open(NULL, NULL, false, err);
	s->flows = engine ? pri_flow_table_create(&a->limits, on_flow, s, err) : NULL;
	for (int i = 0; i < (a->kept.count ? FLOWS + 1 : TABLES) && s->flows; i++) {
		bool named = !statement || sql_names(engine, statement, tables[i].name);

		if (questions && !named)
			continue;
		s->made[i] = true;
		if (a->kept.count && sql_kept_create(&kept, engine, err) < 0)
			return CLI_FAILED;
		if (a->kept.count)
			break;
		s->table[i] = sql_table_create(
			engine, tables[i].name, tables[i].columns, tables[i].count, err);
		if (!s->table[i] || (!named && sql_table_finish(&s->table[i], err) < 0))
			return CLI_FAILED;
	}
	if (s->flows && statement &&
		sql_check(engine, statement, questions != NULL, err) < 0)
		return CLI_USAGE;
	return s->flows ? CLI_OK : CLI_FAILED;
}

/* ---- questions that are served ---- */

#define WORDS 256
#define QUESTION_SIZE (64 << 20)

/* Of a question, as argv; count 1: it has none, or too many. */
struct words {
	char *text, *word[WORDS];
	int count;
};

/* False: there is none any more. */
static bool
question_read(struct words *w)
{
	size_t size = 0, begin = 0;
	int c = 0;

	free(w->text);
	*w = (struct words){.word = {(char *)program.name}, .count = 1};
	FILE *to = open_memstream(&w->text, &size);
	for (bool empty = true; to && (c = getc(questions)) != EOF && (c || !empty);
		empty = !c)
		if (ftello(to) <= QUESTION_SIZE)
			fputc(c, to);
	if (!to || fclose(to) != 0 || c == EOF)
		return false;
	for (; begin < size && size <= QUESTION_SIZE && w->count < WORDS;
		begin += strlen(w->text + begin) + 1)
		w->word[w->count++] = w->text + begin;
	if (begin < size)
		w->count = 1;
	return true;
}

static int run(const struct cli_call *call, struct pr_error *err);

/* What is said of a question is a part of its answer. */
static void
question_answer(struct words *w)
{
	struct sql_args a = {.query = QUERY_ARGS};
	FILE *const printed = stderr;
	char *said = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&said, &size);
	int status = CLI_USAGE;

	if (to)
		stderr = to;
	if (w->count > 1)
		status = cli_run(&program, &a, -1, w->count, w->word, run);
	else
		fprintf(stderr, "%s: a question has 1 to %d words, of at most %d MiB\n",
			program.name, WORDS - 1, QUESTION_SIZE >> 20);
	stderr = printed;
	if (to)
		fclose(to);
	printf("\n{\"status\": %d, \"rows\": %" PRIu64 ", \"said\": ", status,
		status == CLI_OK || status == CLI_PARTIAL ? sql_rows(engine) : 0);
	sql_print_quoted(said ? said : "", true, stdout);
	puts("}");
	fflush(stdout);
	free(said);
}

/* Nothing of a question is left for the next one but the tables of --as, and the engine. */
static int
serve(struct pr_error *err)
{
	struct words w = {.text = NULL};

	/* DuckDB's C++ remembers what stderr is while it is loaded: before that is another */
	engine = sql_open(NULL, NULL, true, err);
	if (!engine)
		return CLI_FAILED;
	/* a question that names standard input reads nothing */
	questions = fdopen(dup(STDIN_FILENO), "r");
	if (!questions || !freopen("/dev/null", "r", stdin))
		return pr_error_as(
			CLI_FAILED, err, "cannot read questions: %s", strerror(errno));
	while (!ferror(stdout) && question_read(&w))
		question_answer(&w);
	free(w.text);
	fclose(questions);
	return CLI_OK;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct sql_args *a = call->values;
	struct sql s = {.args = a};
	const char *statement = call->count ? call->operands[0] : NULL;
	bool of_input = statement && !strcmp(statement, "-");
	char *input = NULL;
	int status = CLI_USAGE;

	signal(SIGPIPE, SIG_IGN);
	if (a->serve && !questions && !statement)
		return serve(err);
	if (call->count > 1)
		pr_error_set(err, "one STATEMENT: put it in quotes");
	else if (a->serve || (questions && !statement))
		pr_error_set(err, "--serve: each question has its STATEMENT");
	else if (!of_input || (input = statement_of_input(err)))
		status = prepare(&s, a, input ? input : statement, err);
	if (status == CLI_OK)
		status = a->kept.count ? answer_kept(&s, input ? input : statement, err)
				       : answer(&s, input ? input : statement, err);
	tables_end(&s);
	pri_flow_table_destroy(&s.flows);
	networks_free(&s.context.inside);
	flow_losses_free(&s.context.losses);
	free(s.seconds);
	free(a->query.filter);
	free(input);
	return status;
}

int
cmd_sql(int argc, char **argv)
{
	struct sql_args a = {.query = QUERY_ARGS};

	int status = cli_run(&program, &a, -1, argc, argv, run);

	if (engine)
		sql_close(&engine);
	return status;
}
