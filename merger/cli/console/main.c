/* SPDX-License-Identifier: Apache-2.0 */
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "merger/cli/console/action.h"
#include "merger/cli/console/fetch.h"
#include "merger/cli/console/logtail.h"
#include "merger/cli/console/model.h"
#include "merger/cli/console/terminal.h"
#include "merger/cli/console/ui.h"
#include "merger/cli/console/view.h"
#include "proto/base/clock.h"
#include "proto/base/loop.h"

#define LOGS_MAX 16

struct console_args {
	struct pr_string_list mergers, logs;
	struct cli_connection dispatcher; /* with the keys for all */
	int64_t interval;
	bool ascii, mono;
};

#define AT(field) offsetof(struct console_args, field)

static const struct pr_option options[] = {
	{.name = "merger",
		.letter = 'm',
		.kind = PR_OPT_LIST,
		.offset = AT(mergers),
		.arg = "ENDPOINT",
		.help = "ask this merger, repeatable ($PACKRACK_MERGER, or the local one)"},
	CLI_DISPATCHER_OPTION(AT(dispatcher.endpoint), "and this dispatcher"),
	{.name = "interval",
		.kind = PR_OPT_DURATION,
		.offset = AT(interval),
		.arg = "TIME",
		.help = "between two refreshes",
		.min = 100 * PR_NS_PER_MS,
		.max = 60 * PR_NS_PER_S},
	{.name = "log",
		.kind = PR_OPT_LIST,
		.offset = AT(logs),
		.arg = "FILE",
		.help = "a daemon's log, for the screen LOGFILE; repeatable"},
	{.name = "ascii",
		.kind = PR_OPT_FLAG,
		.offset = AT(ascii),
		.help = "draw with ASCII only, also where the locale has more"},
	{.name = "mono", .kind = PR_OPT_FLAG, .offset = AT(mono), .help = "no colours"},
	CLI_KEY_OPTIONS(struct console_args, dispatcher),
};

static const struct pr_cmdline program = {.name = "packrack console",
	.summary = "Shows the rack at work on a terminal, and steers it.",
	.usage = "[options]",
	.options = options,
	.option_count = sizeof(options) / sizeof(options[0]),
	.footer = "Press ? in it for its keys."};

struct console {
	struct pr_loop *loop;
	struct pr_timer *timer;
	struct event *input, *resized;
	struct model *model;
	struct fetch *fetch;
	struct action action;
	const char *key; /* as given; or NULL */
	struct ui ui;
	struct canvas canvas;
	struct logtail *logs;
	unsigned log_count;
	bool dirty;
	struct pr_error err; /* why it ended, or "" */
};

static void
paint(struct console *con)
{
	struct view_log log = {NULL, NULL, NULL};
	int rows, cols;

	if (con->ui.log) {
		struct logtail *t = &con->logs[con->ui.log - 1];

		logtail_read(t);
		log = (struct view_log){t->path, t->text, t->error[0] ? t->error : NULL};
	}
	terminal_size(&rows, &cols);
	if (canvas_reset(&con->canvas, rows, cols, &con->err) < 0) {
		pr_loop_break(con->loop);
		return;
	}
	view_draw(&con->canvas, con->model, &con->ui, &log);
	terminal_paint(&con->canvas);
	con->dirty = false;
}

/* ---- what happens ---- */

/* Figures of the last round are shown with this one's tick at the latest. */
static void
on_timer(void *arg)
{
	struct console *con = arg;
	bool ok;

	con->ui.spin++;
	if (action_ended(&con->action, &ok))
		ui_say(&con->ui, !ok, "%s", con->action.text);
	paint(con);
	fetch_ask(con->fetch);
}

static void
on_changed(void *arg)
{
	struct console *con = arg;

	con->dirty = true; /* the next tick shows it; the first answers at once */
	if (con->ui.spin < 2)
		paint(con);
}

static void
on_done(void *arg, bool ok, const char *text)
{
	struct console *con = arg;

	ui_say(&con->ui, !ok, "%s", text);
	paint(con);
}

static void
give(struct console *con, const struct console_order *order)
{
	struct pr_error err;

	if (!ui_order_is_data(order))
		fetch_order(con->fetch, order);
	else if (action_start(&con->action, order, con->model->mergers[0].endpoint,
			 con->key, &err) < 0)
		ui_say(&con->ui, true, "%s", err.text);
}

static void
on_input(evutil_socket_t fd, short what, void *arg)
{
	struct console *con = arg;
	struct console_order order;
	int key;

	(void)fd;
	(void)what;
	while ((key = terminal_key(&con->canvas)) > 0)
		if (ui_key(&con->ui, con->model, key, &order))
			give(con, &order);
	if (key < 0)
		pr_error_set(&con->err, "the terminal has gone");
	if (key < 0 || con->ui.quit)
		pr_loop_break(con->loop);
	else
		paint(con);
}

static void
on_resize(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	paint(arg);
}

/* ---- life ---- */

static int
peer_set(struct model_peer *peer, const char *flag, const char *variable,
	const char *fallback, struct pr_error *err)
{
	const char *from = getenv(variable);
	const char *endpoint = cli_endpoint(flag, variable, fallback, err);

	if (!endpoint)
		return -1;
	if (strlen(endpoint) >= sizeof(peer->endpoint))
		return pr_error_set(err, "%.40s...: an endpoint has at most %zu bytes",
			endpoint, sizeof(peer->endpoint) - 1);
	peer->wanted = flag || (from && from[0]);
	snprintf(peer->endpoint, sizeof(peer->endpoint), "%s", endpoint);
	return 0;
}

static int
peers_set(struct model *m, const struct console_args *a, struct pr_error *err)
{
	size_t count = a->mergers.count ? a->mergers.count : 1;

	if (count > MODEL_MERGERS)
		return pr_error_set(err, "at most %d mergers are shown", MODEL_MERGERS);
	if (peer_set(&m->dispatcher, a->dispatcher.endpoint, "PACKRACK_DISPATCHER",
		    PR_RPC_ENDPOINT_DISPATCHER, err) < 0)
		return -1;
	for (m->merger_count = 0; m->merger_count < count; m->merger_count++)
		if (peer_set(&m->mergers[m->merger_count],
			    a->mergers.count ? a->mergers.items[m->merger_count] : NULL,
			    "PACKRACK_MERGER", PR_RPC_ENDPOINT_MERGER, err) < 0)
			return -1;
	return 0;
}

static int
logs_set(struct console *con, const struct pr_string_list *logs, struct pr_error *err)
{
	if (logs->count > LOGS_MAX)
		return pr_error_set(err, "at most %d logs are shown", LOGS_MAX);
	con->logs = calloc(logs->count + 1, sizeof(*con->logs));
	if (!con->logs)
		return pr_error_set(err, "no memory for logs");
	for (size_t i = 0; i < logs->count; i++)
		con->logs[i].path = logs->items[i];
	con->ui.logs = (unsigned)logs->count;
	con->ui.log = logs->count > 0;
	return 0;
}

static int
events_set(struct console *con, int64_t interval, struct pr_error *err)
{
	struct event_base *base = pr_loop_base(con->loop);

	con->input = event_new(base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, con);
	con->resized = evsignal_new(base, SIGWINCH, on_resize, con);
	con->timer = pr_timer_create(con->loop, interval, on_timer, con, err);
	if (!con->timer)
		return -1;
	if (!con->input || !con->resized || event_add(con->input, NULL) < 0 ||
		event_add(con->resized, NULL) < 0)
		return pr_error_set(err, "no memory for events");
	return 0;
}

static int
run(struct console *con, const struct console_args *a, struct pr_error *err)
{
	struct fetch_calls calls = {on_changed, on_done, con};
	struct pr_rpc_keys room;
	int rc;

	con->key = a->dispatcher.key;
	con->loop = pr_loop_create(&(struct pr_loop_calls){0}, err);
	if (!con->loop)
		return -1;
	con->fetch = fetch_create(
		con->loop, con->model, cli_keys(&a->dispatcher, &room), &calls, err);
	if (!con->fetch || terminal_open(!a->mono, err) < 0)
		return -1;
	con->canvas.ascii = a->ascii || !terminal_is_utf8();
	rc = events_set(
		con, a->interval, err); /* behind curses, which wants SIGWINCH too */
	if (rc == 0) {
		fetch_ask(con->fetch);
		paint(con);
		rc = pr_loop_run(con->loop, err);
	}
	terminal_close();
	if (rc == 0 && con->err.text[0])
		rc = pr_error_set(err, "%s", con->err.text);
	return rc;
}

static void
clean_up(struct console *con)
{
	if (con->input)
		event_free(con->input);
	if (con->resized)
		event_free(con->resized);
	if (con->timer)
		pr_timer_destroy(&con->timer);
	fetch_destroy(&con->fetch);
	pr_loop_destroy(&con->loop);
	model_destroy(&con->model);
	canvas_free(&con->canvas);
	free(con->logs);
}

int
main(int argc, char **argv)
{
	struct console_args a = {.interval = PR_NS_PER_S};
	struct console con = {0};
	struct pr_error err = {""};
	int operand, status = cli_parse(&program, &a, argc, argv, &operand);

	if (status < 0 && operand < argc) {
		pr_error_set(&err, "unexpected '%s': there are only options, see --help",
			argv[operand]);
		status = cli_fail(program.name, CLI_USAGE, &err);
	}
	if (status < 0) {
		con.model = model_create(&err);
		if (!con.model || peers_set(con.model, &a, &err) < 0 ||
			logs_set(&con, &a.logs, &err) < 0)
			status = cli_fail(program.name, CLI_USAGE, &err);
		else
			status = run(&con, &a, &err) < 0
					 ? cli_fail(program.name, CLI_FAILED, &err)
					 : CLI_OK;
		clean_up(&con);
	}
	pr_options_free(&program, &a);
	return status;
}
