/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/query/ask.h"
#include "merger/cli/cli.h"
#include "merger/cli/query/query_build.h"
#include "merger/cli/trace/replay_send.h"
#include "merger/cli/query/completeness_text.h"
#include "proto/base/clock.h"

#define ETHERNET 1

struct replay_args {
	struct query_args query;
	char *out, *pace, *at;
};

#define PR_VALUES struct replay_args

static const struct pr_option options[] = {
	QUERY_RANGE_OPTIONS(query.),
	PR_OPT_STRING(out, "out", 'o', "IFACE", "send on this interface, and on no other"),
	PR_OPT_STRING(pace, "pace", 'p', "PACE",
		"recorded, x2, x0.5, 5kpps, 100Mbit or max", .def_note = "recorded"),
	PR_OPT_STRING(at, "at", 0, "TIME",
		"send the first packet at this time: 09:30, 09:30:00, or a time as for "
		"--since"),
	PR_OPT_UINT(query.limit, "limit", 'c', "N", 0, 0, "at most N packets (0: all)"),
	PR_OPT_FLAG(query.strays, "strays", 0,
		"also packets without a timestamp from the dispatcher"),
	CLI_FORM_OPTIONS(query.),
	CLI_KEY_OPTION(query.merger.key),
};

static const struct pr_cmdline program = {.name = "packrack replay",
	.summary = "Sends the packets that a filter and a time range choose onto an "
		   "interface.",
	.usage = "--out IFACE [options] [FILTER...]",
	PR_OPTIONS(options),
	.footer = "Needs root, or CAP_NET_RAW.\n\n"
		  "  packrack replay --volume v --out eth1\n"
		  "  packrack replay --since \"10m ago\" --out eth1 --pace x2 tcp "
		  "port 80\n"
		  "  packrack replay --out eth1 --pace 100Mbit --at 23:00"};

struct replay {
	const struct replay_args *args;
	struct sink sink;
	struct replay_send send;
	uint64_t cut, other_type; /* packets snapped; of other link types */
	atomic_bool interrupted;
};

/* ---- the answer's packets ---- */

static int
take_packet(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct replay *r = arg;

	if (p->linktype != ETHERNET) {
		r->other_type++;
		return 0;
	}
	r->cut += p->caplen < p->len;
	if (replay_queue_put(r->send.queue, p) == 0)
		return 0;
	return r->send.gave_up ? pr_error_set(err, "%s: %s", r->args->out, r->send.err.text)
			       : pr_error_set(err, "interrupted");
}

/* ---- when ---- */

/* 09:30 means tomorrow's if today's is over. */
static int
parse_at(const char *text, int64_t *out, struct pr_error *err)
{
	bool of_day = strchr(text, ':') && strlen(text) <= strlen("09:30:00");
	int64_t now = pr_now_real();

	if (pr_time_parse(text, now, out, err) < 0)
		return pr_error_prefix(err, "--at");
	if (*out < now && of_day)
		*out += 86400 * PR_NS_PER_S;
	return *out >= now ? 0 : pr_error_set(err, "--at %s is in the past", text);
}

static int
take(struct replay_args *a, struct replay_send *s, int count, char **words,
	struct pr_error *err)
{
	if (query_args_take(&a->query, count, words, err) < 0)
		return -1;
	if (!a->out)
		return pr_error_set(err, "no interface given: use --out IFACE");
	if (pace_parse(a->pace ? a->pace : "recorded", &s->pace, err) < 0)
		return pr_error_prefix(err, "--pace");
	if (a->at && parse_at(a->at, &s->at, err) < 0)
		return -1;
	if (question_check(&a->query, err) < 0)
		return -1;
	a->query.checked = true; /* before a socket is asked for, and not once more */
	return 0;
}

/* ---- what came of it ---- */

static uint64_t
not_sent(const struct replay *r)
{
	const struct replay_counts *c = &r->send.counts;

	return c->too_long + c->too_short + c->failed + r->other_type;
}

static void
print_text(const struct replay *r)
{
	const struct replay_counts *c = &r->send.counts;
	double seconds = (double)(c->ended - c->begun) / 1e9;

	printf("%" PRIu64 " packets, %" PRIu64
	       " bytes sent on %s in %.3f s (%.0f pps, %.1f Mbit/s)\n",
		c->frames, c->bytes, r->args->out, seconds,
		seconds > 0 ? (double)c->frames / seconds : 0,
		seconds > 0 ? (double)c->bytes * 8e-6 / seconds : 0);
	if (c->paced)
		printf("pacing: handed over late by %.1f us at the median, %.1f us at 99 "
		       "%%, "
		       "%.1f us at most\n",
			(double)replay_late(c, 0.5) / 1e3,
			(double)replay_late(c, 0.99) / 1e3, (double)c->latest / 1e3);
	if (r->cut)
		printf("truncated: %" PRIu64 " packets were sent as captured, truncated\n",
			r->cut);
	if (not_sent(r))
		printf("not sent: %" PRIu64 " longer than the MTU (%u), %" PRIu64
		       " shorter than an Ethernet header, %" PRIu64
		       " because the send queue stayed full, %" PRIu64 " not Ethernet\n",
			c->too_long, r->send.mtu, c->too_short, c->failed, r->other_type);
}

static void
print_data(struct render *out, const struct replay *r)
{
	const struct replay_counts *c = &r->send.counts;

	render_string(out, "out", r->args->out);
	render_uint(out, "sent_packets", c->frames);
	render_uint(out, "sent_bytes", c->bytes);
	render_uint(out, "duration_ns", (uint64_t)(c->ended - c->begun));
	render_uint(out, "late_p50_ns", c->paced ? (uint64_t)replay_late(c, 0.5) : 0);
	render_uint(out, "late_p99_ns", c->paced ? (uint64_t)replay_late(c, 0.99) : 0);
	render_uint(out, "late_max_ns", (uint64_t)c->latest);
	render_uint(out, "too_long", c->too_long);
	render_uint(out, "too_short", c->too_short);
	render_uint(out, "failed", c->failed);
	render_uint(out, "other_linktype", r->other_type);
	render_uint(out, "cut", r->cut);
	render_uint(out, "queue_full", c->queue_full);
}

static int
report(const struct replay *r, const Packrack__End *end)
{
	enum render_form form = query_form(&r->args->query);
	struct render *out;
	struct pr_error err;

	report_text(stderr, end, &r->sink);
	if (form == RENDER_TEXT) {
		print_text(r);
	} else {
		out = render_begin(stdout, form);
		if (out)
			print_data(out, r);
		if (!out || render_end(&out) < 0) {
			pr_error_set(&err, "cannot write the report");
			return cli_fail(program.name, CLI_FAILED, &err);
		}
	}
	return not_sent(r) ? CLI_PARTIAL : report_status(end);
}

/* ---- doing it ---- */

static int
ask(struct replay *r, struct ask_answer *answer, struct pr_error *err)
{
	const struct query_args *q = &r->args->query;
	enum ask_result result;

	sink_init(&r->sink, q);
	r->sink.progress.terminal = false; /* it would be of packets that wait to be sent */
	r->sink.take = take_packet;
	r->sink.take_arg = r;
	result = ask_query(q, &r->sink, answer, err);
	r->send.stop |= result != ASK_DONE;
	replay_queue_end(r->send.queue);
	return result == ASK_DONE ? -1 : result == ASK_USAGE ? CLI_USAGE : CLI_FAILED;
}

static void
on_signal(int number)
{
	(void)number;
}

/* An interrupt ends the sending at once, also while the answer waits for room. */
static void *
watch_signals(void *arg)
{
	struct replay *r = arg;
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigwait(&set, &number);
	r->interrupted = true;
	r->send.stop = true;
	replay_queue_give_up(r->send.queue);
	return NULL;
}

static int
start(struct replay *r, pthread_t *sender, pthread_t *watcher, struct pr_error *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGINT,
		on_signal); /* one that a shell had ignored would not be waited for */
	if (pthread_create(watcher, NULL, watch_signals, r) != 0)
		return pr_error_set(err, "cannot start watching for signals");
	if (pthread_create(sender, NULL, replay_send_run, &r->send) == 0)
		return 0;
	pthread_cancel(*watcher);
	pthread_join(*watcher, NULL);
	return pr_error_set(err, "cannot start sending");
}

static int
conclude(const struct replay *r, int status, const Packrack__End *end, struct pr_error *err)
{
	if (r->send.gave_up) {
		pr_error_set(err, "%s: %s", r->args->out, r->send.err.text);
		return cli_fail(program.name, CLI_FAILED, err);
	}
	if (r->interrupted) {
		print_text(r);
		pr_error_set(err, "interrupted");
		return cli_fail(program.name, CLI_PARTIAL, err);
	}
	return status < 0 ? report(r, end) : cli_fail(program.name, status, err);
}

static int
run(struct replay *r, struct pr_error *err)
{
	struct ask_answer answer = {.end = NULL};
	pthread_t sender, watcher;
	int status;

	r->send.queue = replay_queue_create(err);
	if (!r->send.queue || replay_send_open(&r->send, r->args->out, err) < 0 ||
		start(r, &sender, &watcher, err) < 0)
		return cli_fail(program.name, CLI_FAILED, err);
	status = ask(r, &answer, err);
	pthread_join(sender, NULL);
	pthread_cancel(watcher);
	pthread_join(watcher, NULL);
	status = conclude(r, status, answer.end, err);
	sink_close(&r->sink);
	ask_answer_free(&answer);
	return status;
}

int
cmd_replay(int argc, char **argv)
{
	struct replay_args a = {.query = {.since = PR_TIME_MIN,
					.until = PR_TIME_MAX,
					.program = program.name}};
	struct replay *r = calloc(1, sizeof(*r));
	struct pr_error err = {"no memory"};
	int operand, status = cli_parse(&program, &a, argc, argv, &operand);

	if (status < 0 && !r)
		status = cli_fail(program.name, CLI_FAILED, &err);
	if (status < 0) {
		r->args = &a;
		a.query.write =
			(char *)"(the interface)"; /* packets, not a report on them */
		if (take(&a, &r->send, argc - operand, argv + operand, &err) < 0)
			status = cli_fail(program.name, CLI_USAGE, &err);
	}
	if (status < 0)
		status = run(r, &err);
	if (r) {
		replay_send_close(&r->send);
		replay_queue_destroy(&r->send.queue);
	}
	free(r);
	free(a.query.filter);
	pr_options_free(&program, &a);
	return status;
}
