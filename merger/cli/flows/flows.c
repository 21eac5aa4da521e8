/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "indexer/flows/flow_filter.h"
#include "merger/cli/flows/flow_groups.h"
#include "merger/cli/flows/flow_keep.h"
#include "merger/cli/flows/sql_engine.h"
#include "merger/cli/query/ask.h"

/*
 * `packrack flows`: the packets of an answer as flow records. The records are those that one observer of the whole
 * link makes, since an answer has the packets in order.
 */

struct flows_args {
	struct query_args query;
	struct pri_flow_limits limits;
	struct pr_string_list inside, kept;
	uint64_t limit, top, seed, from_window, windows;
	int form, of;
	bool packets;
	char *by, *keep, *share, *to;
	int64_t every;
	char *filter; /* of flows; the packets are not filtered */
};

#define PR_VALUES struct flows_args

static const struct pr_option options[] = {
	QUERY_RANGE_OPTIONS(query.),
	PR_OPT_ENUM(form, "format", 0, "FORMAT", flow_forms,
		"text, csv, json (an object a line), zeek (as its conn.log), eve (as "
		"Suricata's eve.json), ipfix (RFC 5655) or parquet (needs DuckDB), both "
		"to a file"),
	PR_OPT_STRING(by, "by", 0, "KEYS",
		"sums of flows that are equal in KEYS, separated by commas: src, dst, "
		"sport, dport, proto, vlan, link, state; src/24 and dst/24 for networks"),
	PR_OPT_UINT(
		top, "top", 0, "N", 0, 0, "the N largest flows or sums, the largest first"),
	PR_OPT_ENUM(of, "of", 0, "WHAT", flow_measures,
		"largest by bytes, packets, payload, duration or flows"),
	PR_OPT_UINT(limit, "limit", 'c', "N", 0, 0, "at most N flows (0: all)"),
	PR_OPT_FLAG(query.follow, "follow", 'f',
		"continue with new flows as they end, from --since or from now, until "
		"interrupted or --until"),
	PR_OPT_DURATION(limits.idle_tcp, "idle-tcp", 0, "DURATION", PR_NS_PER_S + 1, 0,
		"a TCP flow ends after this time without a packet", .def = "60s"),
	PR_OPT_DURATION(limits.idle, "idle", 0, "DURATION", PR_NS_PER_S + 1, 0,
		"another one after this time", .def = "30s"),
	PR_OPT_DURATION(limits.idle_closed, "idle-closed", 0, "DURATION", PR_NS_PER_S + 1,
		0, "a TCP flow after its first FIN or RST (default: as --idle-tcp)"),
	PR_OPT_DURATION(limits.active, "active", 0, "DURATION", PR_NS_PER_S, 0,
		"a flow that lasts longer is given in parts", .def = "15m"),
	PR_OPT_FLAG(packets, "packets", 0,
		"with -w: the packets of the flows, instead of the flows"),
	PR_OPT_STRING(query.write, "write", 'w', "FILE",
		"write a trace (pcapng); -: to standard output"),
	PR_OPT_STRING(keep, "keep", 0, "VOLUME",
		"store the flows in this volume of their own instead of printing them; "
		"with --follow go on where it ends, until interrupted"),
	PR_OPT_DURATION(every, "every", 0, "DURATION", PR_NS_PER_S, 3600 * PR_NS_PER_S,
		"with --keep --follow: the time between two times at which flows are "
		"durable",
		.def = "10s"),
	PR_OPT_STRING(share, "share", 0, "N/M",
		"with --keep: store share N of M of the flows, by their pairs of "
		"addresses; other keepers store the others"),
	PR_OPT_LIST(kept, "kept", 0, "VOLUME",
		"ask the flows that this volume keeps; several: shares of the same flows"),
	PR_OPT_UINT(from_window, "from-window", 0, "N", 1, 0,
		"with --kept: window by window from this number on, as they were stored"),
	PR_OPT_UINT(
		windows, "windows", 0, "N", 0, 0, "with --from-window: so many (0: all)"),
	PR_OPT_STRING(to, "to", 0, "URL",
		"send them there, each once: clickhouse://, s3:// or parquet:DIR; "
		"packrack-flows-to(1) has its options"),
	PR_OPT_LIST(inside, "inside", 0, "NETWORK",
		"a network of ours, as in 10.0.0.0/8: for `outgoing`"),
	PR_OPT_UINT(seed, "community-seed", 0, "N", 0, 65535, "the seed of Community IDs",
		.def = "0"),
	CLI_KEY_OPTION(query.merger.key),
};

static const char footer[] =
	"FILTER is a filter as tcpdump takes it, as far as it applies to flows, where "
	"`src` is who began\nthe flow; and attributes: bytes, packets, payload, "
	"bytes_sent, bytes_recv, packets_sent,\npackets_recv, duration, state. All times "
	"are those of the capture.\n\n"
	"  packrack flows --since \"10m ago\" tcp port 443 and bytes \\> 1M\n"
	"  packrack flows --since \"1h ago\" --by src --top 9 --of flows 'state = S0'\n"
	"  packrack flows --since \"1h ago\" --top 1 --packets -w largest.pcapng\n"
	"  packrack flows -r trace.pcap --format zeek\n"
	"  packrack flows --kept flows.vol --to clickhouse://127.0.0.1/rack.flows\n"
	"  packrack flows --since today 'state = S0 and dst port 22' --format csv";

static const struct pr_cmdline program = {.name = "packrack flows",
	.summary = "Shows the flows of a time range: who talked to whom, how much, and how "
		   "it ended.",
	.usage = "[options] [FILTER...]",
	PR_OPTIONS(options),
	.footer = footer};

/* A flow whose packets are wanted; in order of keys and times once all are known. */
struct chosen {
	struct pri_flow_key key;
	int64_t first, last;
};
#define CHOSEN_MAX 1000000 /* flows */

struct flows {
	const struct flows_args *args;
	enum flow_form form;
	struct chosen *chosen; /* `printed`; with --packets */
	struct pri_flow_filter *filter;
	struct pri_flow_table *table;
	struct flow_groups *groups; /* NULL: each flow is printed as it ends */
	struct flow_context context;
	struct sql_engine *engine; /* and its table, for parquet */
	struct sql_table *rows;
	FILE *out; /* standard output, while packrack-flows-form writes to it; or NULL */
	bool closed; /* nobody reads standard output any more */
	uint64_t found, printed;
};

static int
choose(struct flows *f, const struct pri_flow *flow, struct pr_error *err)
{
	if (f->printed >= CHOSEN_MAX)
		return pr_error_set(err,
			"--packets: more than %d flows; a filter or --top chooses some",
			CHOSEN_MAX);
	const struct chosen chosen = {flow->key, pri_flow_first(flow), pri_flow_last(flow)};
	if (PR_ARRAY_ADD(f->chosen, f->printed, chosen) < 0)
		return pr_error_set(err, "no memory for the flows");
	return 0;
}

static int
compare_chosen(const void *a, const void *b)
{
	const struct chosen *x = a, *y = b;
	int order = memcmp(&x->key, &y->key, sizeof(x->key));

	return order ? order : (x->first > y->first) - (x->first < y->first);
}

/* A packet of a flow that was chosen. */
static bool
is_wanted(void *arg, const struct pr_packet *p)
{
	const struct flows *f = arg;
	struct chosen at = {.first = p->otime};
	struct pri_flow_packet packet;

	if (!pri_flow_packet_parse(p, &packet))
		return false;
	at.key = packet.key;
	size_t n = PR_ARRAY_SEARCH(f->printed, compare_chosen(&f->chosen[mid], &at) <= 0);
	return n > 0 && p->otime <= f->chosen[n - 1].last &&
	       !memcmp(&f->chosen[n - 1].key, &at.key, sizeof(at.key));
}

static int
cannot_write(struct flows *f, struct pr_error *err)
{
	f->closed |= errno == EPIPE; /* as with tcpdump | head */
	return pr_error_set(err, "cannot write the flows");
}

static int
on_flow(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	struct flows *f = arg;
	struct flow_record r;

	if (!pri_flow_filter_match(f->filter, flow))
		return 0;
	f->found++;
	if (f->groups)
		return flow_groups_add(f->groups, flow, 0, 0, err);
	if (f->args->limit && f->printed >= f->args->limit)
		return 0;
	if (f->args->packets)
		return choose(f, flow, err);
	flow_record_make(&r, flow, &f->context);
	if (f->printed++ == 0)
		flow_head_print(f->form);
	if (f->rows)
		return flow_table_put(f->rows, &r, err);
	flow_record_print(&r, f->form);
	if (f->args->query.follow && f->printed == f->args->limit) {
		f->closed = true;
		return pr_error_set(err, "that is all that --limit wants");
	}
	return ferror(stdout) ? cannot_write(f, err) : 0;
}

static int
on_packet(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct flows *f = arg;

	return pri_flow_table_packet(f->table, p, err);
}

static void
print_sums(const struct flows *f)
{
	const struct pri_flow_figures *s = pri_flow_table_figures(f->table);

	fprintf(stderr, "%" PRIu64 " of %" PRIu64 " flow%s match; %" PRIu64 " packet%s",
		f->found, s->flows, pr_plural(s->flows), s->packets, pr_plural(s->packets));
	if (s->not_ip)
		fprintf(stderr, ", %" PRIu64 " of them not IP", s->not_ip);
	if (s->beyond)
		fprintf(stderr, ", %" PRIu64 " of them beyond a cutoff", s->beyond);
	if (s->early)
		fprintf(stderr, "; %" PRIu64 " flow%s ended early for want of room",
			s->early, pr_plural(s->early));
	fputc('\n', stderr);
	if (s->parts_bytes)
		fprintf(stderr,
			"  %" PRIu64 " packets came as %" PRIu64 " parts of flows, %" PRIu64
			" bytes\n",
			s->parts_packets, s->parts, s->parts_bytes);
}

static const char to_parquet[] =
	"COPY flows TO '/dev/stdout' (FORMAT parquet, USE_TMP_FILE false)";

/* What is printed from here on is written by a program that knows the form. It ends with us. */
static int
form_begin(struct flows *f, struct pr_error *err)
{
	char command[80], *path = cli_beside("packrack-flows-form");

	/* the shell cannot read where we are: who has read a key is not to be looked at */
	PR_PRINT(command, "trap '' INT TERM; exec \"$PACKRACK_FORM\" %s",
		flow_forms[f->form]);
	FILE *to =
		path && setenv("PACKRACK_FORM", path, 1) == 0 ? popen(command, "w") : NULL;
	free(path);
	if (!to)
		return pr_error_errno(err, "cannot start packrack-flows-form");
	f->out = stdout;
	stdout = to;
	return 0;
}

/* Returns when it has written all, or nobody reads that: the status until then, or that it failed. */
static int
form_finish(struct flows *f, int status, struct pr_error *err)
{
	const bool good = status == CLI_OK || status == CLI_PARTIAL;
	FILE *to = stdout;

	if (!f->out)
		return status;
	if (good)
		puts("");
	stdout = f->out;
	f->out = NULL;
	return pclose(to) > 0 && good
		       ? pr_error_as(CLI_FAILED, err, "cannot write the flows")
		       : status;
}

/* What is open ends with the range. */
static int
finish(struct flows *f, struct pr_error *err)
{
	const struct flow_found *flows = NULL;
	size_t count = 0;

	if (pri_flow_table_advance(f->table, PRI_FLOW_NEVER, err) < 0)
		return CLI_FAILED;
	if (f->args->packets) {
		if (f->groups)
			flows = flow_groups_flows(f->groups, &count);
		for (size_t i = 0; i < count; i++)
			if (choose(f, &flows[i].flow, err) < 0)
				return CLI_FAILED;
		PR_SORT(f->chosen, f->printed, compare_chosen);
		return CLI_OK;
	}
	if (f->groups)
		f->printed = flow_groups_print(f->groups, f->form, &f->context);
	else if (!f->printed)
		flow_head_print(f->form);
	if (f->engine &&
		(sql_table_finish(&f->rows, err) < 0 ||
			sql_execute(f->engine, to_parquet, SQL_AS_TEXT, NULL, err) < 0))
		return CLI_FAILED;
	if (fflush(stdout) != 0 || ferror(stdout))
		cannot_write(f, err);
	else if (f->printed == SIZE_MAX)
		pr_error_set(err, "no memory for the sums");
	else
		return form_finish(f, CLI_OK, err);
	return CLI_FAILED;
}

static int
on_kept(void *arg, const struct pri_flow *flow, uint64_t missing, uint64_t row,
	struct pr_error *err)
{
	struct flows *f = arg;

	f->context.missing = missing;
	f->context.row = row;
	return on_flow(f, flow, err);
}

static void
on_window(void *arg, const struct flow_window *w, bool head)
{
	struct flows *f = arg;

	f->context.window = w->number;
	if (head && f->form == FLOW_JSON)
		printf("{\"window\": %" PRIu64 ", \"since\": %" PRId64
		       ", \"until\": %" PRId64 ", \"records\": %" PRIu64
		       ", \"packets\": %" PRIu64 ", \"not_ip\": %" PRIu64
		       ", \"missing\": %" PRIu64
		       ", \"complete\": %d, \"collected\": %d, \"filtered\": %d}\n",
			w->number, w->since, w->until, w->records, w->packets, w->not_ip,
			w->missing, w->complete, w->collected, w->filtered);
}

/* The answer of a volume that keeps flows. */
static int
answer_kept(struct flows *f, struct pr_error *err)
{
	const struct flows_args *a = f->args;
	struct pri_plan *plan = pri_flow_filter_plan(f->filter, err);
	const struct flow_taker taker = {
		.take = on_kept, .arg = f, .columns = PRI_COLUMNS_ALL};
	struct flow_kept_figures figures;
	struct flow_kept *k = NULL;
	int status = CLI_FAILED, said = CLI_OK;

	f->context.kept = true;
	if (a->from_window) /* their heads say what was kept */
		status = flow_kept_windows(&a->kept, &a->query, a->from_window, a->windows,
			on_window, on_kept, f, err);
	else if (plan && (k = flow_kept_open_all(&a->kept, &a->query, err)) &&
		 (f->groups ? flow_groups_kept(f->groups, k, plan,
				      a->filter[0] ? f->filter : NULL, &f->found, err)
			    : flow_kept_read(k, plan, &taker, 1, err)) == 0)
		status = flow_kept_lacks(k, &figures);
	pri_plan_destroy(&plan);
	if (status == CLI_FAILED || finish(f, err) != CLI_OK) {
		flow_kept_close(&k);
		return f->closed ? CLI_OK : CLI_FAILED;
	}
	fprintf(stderr, "%" PRIu64 " flow%s match%s\n", f->found, pr_plural(f->found),
		f->found == 1 ? "es" : "");
	if (k)
		said = flow_kept_tell(k);
	flow_kept_close(&k);
	return said == CLI_OK ? status : said;
}

/* Asks again, for the packets of the flows that were found. chosen: the status of the answer that had them. */
static int
write_packets(struct flows *f, int chosen, struct pr_error *err)
{
	struct sink sink;

	sink_init(&sink, &f->args->query);
	sink.wanted = is_wanted;
	sink.wanted_arg = f;
	int status = ask_query(&sink, err);
	if (status == CLI_OK && sink_finish(&sink, err) < 0)
		status = CLI_FAILED;
	if (status == CLI_OK) {
		fprintf(stderr, "%" PRIu64 " packet%s of %" PRIu64 " flow%s written\n",
			sink.packets, pr_plural(sink.packets), f->printed,
			pr_plural(f->printed));
		if (chosen != CLI_OK)
			fputs("the flows were chosen from an answer that was partial\n",
				stderr);
		report_text(stderr, &sink);
		status = report_status(&sink) == CLI_OK ? chosen : CLI_PARTIAL;
	}
	sink_close(&sink);
	return status == ASK_CLOSED ? CLI_OK : status;
}

static int
answer(struct flows *f, struct pr_error *err)
{
	const struct flows_args *a = f->args;
	struct query_args query = a->query;
	struct sink sink;
	int status = CLI_OK;

	query.parts = true;
	f->context.seed = (uint16_t)a->seed;
	if (f->form >= FLOW_ZEEK && f->form <= FLOW_IPFIX && !a->packets &&
		form_begin(f, err) < 0)
		return CLI_FAILED;
	if (a->kept.count)
		return answer_kept(f, err);
	f->context.live = a->query.follow;
	if (a->query.follow)
		setvbuf(stdout, NULL, _IOLBF, 0);
	if (!a->query.follow && !a->query.files.count && !a->by && !a->packets)
		status = flow_losses_ask(&f->context.losses, &a->query, err);
	sink_init(&sink, &query);
	sink.take = on_packet;
	sink.take_arg = f;
	if (status == CLI_OK)
		status = ask_query(&sink, err);
	if (status == CLI_OK)
		status = finish(f, err);
	bool answered = status == CLI_OK;
	if (answered) {
		print_sums(f);
		if (!a->packets)
			report_text(stderr, &sink);
		status = report_status(&sink);
	}
	sink_close(&sink);
	if (answered && a->packets)
		return write_packets(f, status, err);
	return status == CLI_FAILED && f->closed ? CLI_OK : status;
}

static int
share_parse(struct flows_args *a, struct pr_error *err)
{
	unsigned share, shares;
	char more;

	if (sscanf(a->share, "%5u/%5u%c", &share, &shares, &more) != 2 || share < 1 ||
		share > shares || shares > PRI_FLOW_SHARES_MAX)
		return pr_error_set(err,
			"--share %s: a share and how many there are, at most %d, as in 1/3",
			a->share, PRI_FLOW_SHARES_MAX);
	a->query.share = a->limits.share = share;
	a->query.shares = a->limits.shares = shares;
	return 0;
}

/* What does not go together. -1: bad usage */
static int
check(const struct flows_args *a, struct pr_error *err)
{
	const struct query_args *q = &a->query;
	const bool sums = a->by, sorted = a->by || a->top;

	return CLI_CHECK(err,
		{a->keep && (a->kept.count || sorted || a->limit || a->packets || a->form),
			"--keep: stores flows; --kept shows and counts them"},
		{a->share && !a->keep, "--share: of the flows that --keep stores"},
		{a->kept.count && a->packets, "--kept: there are no packets; ask the rack"},
		{a->keep && q->follow && (q->volumes.count || q->files.count),
			"--keep --follow: of a rack; of --volume and -r without --follow"},
		{a->from_window && (a->kept.count != 1 || sorted),
			"--from-window: with --kept of one volume; of all flows"},
		{sums && a->form > FLOW_JSON, "--by: sums are given as text, csv or json"},
		{a->form == FLOW_PARQUET && (a->top || q->follow),
			"--format parquet: all flows of a range that has ended, without "
			"--by, --top and --follow"},
		{q->follow && (sorted || a->packets),
			"--follow: flows as they end; --by, --top and --packets want a "
			"range that has ended"},
		{a->form >= FLOW_IPFIX && !a->packets && isatty(STDOUT_FILENO),
			"--format ipfix and parquet are not for a terminal: > FILE takes "
			"them"},
		{a->packets != (q->write != NULL),
			"--packets -w FILE: the one does not go without the other"},
		{a->packets && sums,
			"--packets: of flows, not of sums (--by); a filter chooses them"},
		{a->limit && sorted, "--limit: of flows in the order of their ends; --top "
				     "limits the largest"},
		{a->of && !sorted, "--of: by what --top or --by finds the largest"},
		{a->of == FLOW_BY_FLOWS && !sums,
			"--of flows: counts those of each key of --by"});
}

/* -1: bad usage */
static int
prepare(struct flows *f, struct flows_args *a, const struct cli_call *call,
	struct pr_error *err)
{
	struct stat file;

	if (check(a, err) < 0 || (a->share && share_parse(a, err) < 0) ||
		(a->kept.count && flow_kept_alone(&a->query, err) < 0) ||
		query_args_take(&a->query, call->count, call->operands, err) < 0)
		return -1;
	a->filter = a->query.filter;
	a->query.filter = strdup("");
	if (!a->query.filter)
		return pr_error_set(err, "no memory for the filter");
	if (a->from_window && a->filter[0])
		return pr_error_set(err, "--from-window: of all flows, without a filter");
	for (size_t i = 0; a->packets && i < a->query.files.count; i++)
		if (!strcmp(a->query.files.items[i], "-") ||
			(stat(a->query.files.items[i], &file) == 0 &&
				!S_ISREG(file.st_mode)))
			return pr_error_set(err,
				"--packets: %s is read twice, which a pipe cannot be",
				a->query.files.items[i]);
	f->filter = pri_flow_filter_create(a->filter, err);
	if (!f->filter ||
		networks_parse(&f->context.inside, "--inside", &a->inside, err) < 0)
		return -1;
	bool groups = a->by || a->top, parquet = f->form == FLOW_PARQUET;
	if (groups)
		f->groups =
			flow_groups_create(a->by, (enum flow_measure)a->of, a->top, err);
	if (parquet && (f->engine = sql_open("/dev/stdout", "", false, err)))
		f->rows = flow_table_create(f->engine, err);
	if ((groups && !f->groups) || (parquet && !f->rows))
		return -1;
	f->table = pri_flow_table_create(&a->limits, on_flow, f, err);
	return f->table ? 0 : -1;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct flows_args *a = call->values;
	struct flows f = {.args = a, .form = (enum flow_form)a->form};
	struct pr_error later;
	int status = CLI_USAGE;

	signal(SIGPIPE, SIG_IGN);
	if (prepare(&f, a, call, err) == 0)
		status = a->keep ? flow_keep_run(&(struct flow_keep_order){a->keep,
							 &a->query, &a->limits, f.filter,
							 a->every, a->filter[0] != 0},
					   err)
				 : answer(&f, err);
	status = form_finish(&f, status, err);
	free(f.chosen);
	sql_table_finish(&f.rows, &later);
	sql_close(&f.engine);
	pri_flow_table_destroy(&f.table);
	flow_groups_destroy(&f.groups);
	pri_flow_filter_destroy(&f.filter);
	networks_free(&f.context.inside);
	flow_losses_free(&f.context.losses);
	free(a->filter);
	free(a->query.filter);
	return status;
}

int
cmd_flows(int argc, char **argv)
{
	struct flows_args a = {.query = QUERY_ARGS};

	for (int i = 1; i < argc; i++) /* of Python; its options are its own */
		if (!strncmp(argv[i], "--to", 4) && (!argv[i][4] || argv[i][4] == '='))
			return cli_become("packrack-flows-to", argv);
	return cli_run(&program, &a, -1, argc, argv, run);
}
