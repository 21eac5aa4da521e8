/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "merger/cli/console/model.h"
#include "merger/cli/console/terminal.h"
#include "merger/cli/console/ui.h"
#include "merger/cli/console/view.h"
#include "proto/base/clock.h"
#include "proto/base/error.h"
#include "proto/base/loop.h"
#include "proto/rpc/rpc.h"
#include "proto/rpc/status.h"

/*
 * A command of the screen DATA: `packrack data ...` as a child process, one at a time,
 * so that the console does not wait. The child continues when the console ends. Zeroed:
 * none.
 */
struct action {
	pid_t pid;
	int out; /* what it says */
	char text[256]; /* its first line so far */
	size_t used;
	bool line; /* which is complete */
};

/* The last lines of a log file that others write, shorten or replace. */
#define LOGTAIL_BYTES 65536
struct logtail {
	const char *path; /* borrowed */
	char text[LOGTAIL_BYTES + 2]; /* whole lines, NUL-terminated */
	char error[256]; /* "" when text is good */
	struct stat last;
};

/* One program; sources[0] is the dispatcher, sources[1 + i] the merger i. */
struct source {
	struct fetch *fetch;
	struct model_peer *peer;
	struct pr_rpc *rpc;
	uint64_t asked, ordered; /* id of the request that is out, or 0 */
	int64_t asked_at, order_until; /* monotonic */
	char verb[32];
};

/*
 * Requests Status from the dispatcher and the mergers, and sends commands. Never waits:
 * a program that does not answer is marked silent in the model and asked again. Loop's
 * thread.
 */
struct fetch {
	struct model *model;
	struct console *con;
	struct source sources[1 + MODEL_MERGERS];
	unsigned count;
	uint64_t ids;
};

/* The model has new values; a command was carried out, or not. */
static void on_changed(struct console *con);
static void on_command_done(struct console *con, bool ok, const char *text);

#define SILENT_NS (3 * PR_NS_PER_S)
#define ORDER_NS (20 * PR_NS_PER_S)
#define STOP_NS (120 * PR_NS_PER_S) /* nodes flush first */
#define IDENTIFY_SECONDS 10

static const char *
name_of(const struct source *s)
{
	return s == s->fetch->sources ? "dispatcher" : "merger";
}

static void
silent(struct source *s, const char *why)
{
	model_silent(s->fetch->model, s->peer, name_of(s), why, pr_now_real());
	s->asked = 0;
}

static void
order_end(struct source *s, bool ok, const char *text)
{
	s->ordered = 0;
	model_event(s->fetch->model, pr_now_real(), "%s: %s", s->verb, text);
	on_command_done(s->fetch->con, ok, text);
}

/* ---- answers ---- */

static void
on_status(struct source *s, Packrack__Status *status)
{
	struct fetch *f = s->fetch;
	const char *wanted = s == f->sources ? "packrack-dispatcher" : "packrack-merger";
	char why[160];

	s->asked = 0;
	pr_status_rename_old(status);
	if (strncmp(status->program, wanted, strlen(wanted))) {
		snprintf(
			why, sizeof(why), "%s is a %s", s->peer->endpoint, status->program);
		silent(s, why);
	} else if (s == f->sources) {
		model_take_dispatcher(f->model, status, pr_now_real());
	} else {
		model_take_merger(
			f->model, (unsigned)(s - f->sources - 1), status, pr_now_real());
	}
	on_changed(f->con);
}

static void
on_done(struct source *s, const Packrack__CommandDone *done)
{
	char text[200];

	snprintf(text, sizeof(text), "%s",
		done->text[0] ? done->text
		: done->ok    ? "done"
			      : "not done");
	order_end(s, done->ok, text);
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct source *s = arg;

	(void)peer;
	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS && env->id == s->asked)
		on_status(s, env->status);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND_DONE && s->ordered &&
		 env->id == s->ordered)
		on_done(s, env->command_done);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE && s->ordered &&
		 env->id == s->ordered)
		order_end(s, false, env->failure->text);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE && env->id == s->asked)
		silent(s, env->failure->text);
}

static void
on_state(void *arg, enum pr_rpc_state state)
{
	struct source *s = arg;

	if (state == PR_RPC_CONNECTED)
		return;
	silent(s, state == PR_RPC_REFUSED ? pr_rpc_refusal(s->rpc) : "went away");
	if (s->ordered)
		order_end(s, false, "it went away");
	on_changed(s->fetch->con);
}

/* ---- questions ---- */

static void
ask(struct source *s)
{
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = ++s->fetch->ids;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS_REQUEST;
	env.status_request = &request;
	request.per_link = true;
	if (pr_rpc_send(s->rpc, NULL, &env, NULL) < 0) {
		silent(s, "no answer");
		return;
	}
	s->asked = env.id;
	s->asked_at = pr_now_mono();
}

/* Sends a request to every program that has answered the last one. */
static void
fetch_ask(struct fetch *f)
{
	int64_t now = pr_now_mono();

	for (unsigned i = 0; i < f->count; i++) {
		struct source *s = &f->sources[i];
		struct pr_error none;

		if (!s->rpc)
			continue;
		if (s->ordered && now > s->order_until)
			order_end(s, false, "no answer");
		if (!s->peer->answers && pr_rpc_reachable(s->peer->endpoint, &none) < 0)
			silent(s, "no program listens there");
		else if (!s->asked)
			ask(s);
		else if (now - s->asked_at > SILENT_NS)
			silent(s, "no answer for 3 s");
	}
}

static void
fetch_order(struct fetch *f, const struct console_order *order)
{
	bool merger = !strcmp(order->verb, "cancel");
	struct source *s = &f->sources[merger && f->count > 1];
	Packrack__Command command = PACKRACK__COMMAND__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	struct pr_error err;

	if (s->ordered) {
		on_command_done(f->con, false, "the previous command is still running");
		return;
	}
	snprintf(s->verb, sizeof(s->verb), "%s", order->verb);
	command.verb = (char *)order->verb;
	command.node = (char *)order->node;
	command.number = order->number;
	command.seconds = IDENTIFY_SECONDS;
	env.id = ++f->ids;
	env.body_case = PACKRACK__ENVELOPE__BODY_COMMAND;
	env.command = &command;
	if (!s->rpc || !s->peer->answers || pr_rpc_send(s->rpc, NULL, &env, &err) < 0) {
		order_end(s, false, "not sent: the program does not answer");
		return;
	}
	s->ordered = env.id;
	s->order_until = pr_now_mono() + (strcmp(order->verb, "stop") ? ORDER_NS : STOP_NS);
}

/* ---- life ---- */

static int
source_open(struct fetch *f, struct pr_loop *loop, struct model_peer *peer,
	const struct pr_rpc_keys *keys, struct pr_error *err)
{
	struct source *s = &f->sources[f->count++];

	s->fetch = f;
	s->peer = peer;
	if (!peer->endpoint[0])
		return 0;
	s->rpc = pr_rpc_connect(loop, peer->endpoint, keys, on_message, s, err);
	if (!s->rpc)
		return -1;
	pr_rpc_watch(s->rpc, on_state, s);
	return 0;
}

/* Connects to the model's peers that have an endpoint. */
static int
fetch_start(struct fetch *f, struct pr_loop *loop, struct model *model,
	const struct pr_rpc_keys *keys, struct pr_error *err)
{
	int rc;

	f->model = model;
	rc = source_open(f, loop, &model->dispatcher, keys, err);
	for (unsigned i = 0; rc == 0 && i < model->merger_count; i++)
		rc = source_open(f, loop, &model->mergers[i], keys, err);
	return rc;
}

static void
fetch_stop(struct fetch *f)
{
	for (unsigned i = 0; i < f->count; i++)
		pr_rpc_destroy(&f->sources[i].rpc);
}

extern char **environ;

/* Its command line, in argv of 16. */
static void
words_of(const struct console_order *o, const char *merger, const char *key,
	const char **argv)
{
	size_t n = 0;

	argv[n++] = "packrack";
	argv[n++] = "data";
	argv[n++] = o->verb;
	argv[n++] = "--node";
	argv[n++] = o->node;
	argv[n++] = "--merger";
	argv[n++] = merger;
	if (key) {
		argv[n++] = "--key";
		argv[n++] = key;
	}
	if (!strcmp(o->verb, "delete"))
		argv[n++] = "--yes";
	if (o->text[0]) {
		argv[n++] = !strcmp(o->verb, "export") ? "--write"
			    : !strcmp(o->verb, "move") ? "--to"
						       : "--until";
		argv[n++] = o->text;
	}
	argv[n] = NULL;
}

static int
spawn(struct action *a, const char *const *argv, int out)
{
	posix_spawn_file_actions_t files;
	char *path = cli_program_beside("packrack");
	int rc = path ? posix_spawn_file_actions_init(&files) : -1;

	if (rc) {
		free(path);
		return -1;
	}
	rc = posix_spawn_file_actions_addopen(
		&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
	if (rc == 0)
		rc = posix_spawn(&a->pid, path, &files, NULL,
			(char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	free(path);
	errno = rc;
	return rc == 0 ? 0 : -1;
}

/* merger, key: as the console was given them; key may be NULL. */
static int
action_start(struct action *a, const struct console_order *order, const char *merger,
	const char *key, struct pr_error *err)
{
	const char *argv[16];
	int ends[2];

	if (a->pid)
		return pr_error_set(err, "the previous command is still running");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return pr_error_errno(err, "%s", order->verb);
	*a = (struct action){.out = ends[0]};
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	words_of(order, merger, key, argv);
	if (spawn(a, argv, ends[1]) < 0) {
		a->pid = 0;
		pr_error_errno(err, "%s", order->verb);
		close(ends[0]);
	}
	close(ends[1]);
	return a->pid ? 0 : -1;
}

/* Only the first line is kept; the rest is read so that the child is not blocked. */
static void
listen_to(struct action *a)
{
	char buf[512];
	ssize_t got;

	while ((got = read(a->out, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < got; i++) {
			a->line |= buf[i] == '\n';
			if (!a->line && a->used + 1 < sizeof(a->text))
				a->text[a->used++] = buf[i];
		}
	a->text[a->used] = 0;
}

/* true: it has ended; *ok and a->text say how. Never waits. */
static bool
action_ended(struct action *a, bool *ok)
{
	int status;

	if (!a->pid)
		return false;
	listen_to(a);
	if (waitpid(a->pid, &status, WNOHANG) != a->pid)
		return false;
	listen_to(a);
	close(a->out);
	a->pid = 0;
	*ok = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3);
	return true;
}

static void
failed(struct logtail *t)
{
	snprintf(t->error, sizeof(t->error), "%s: %s", t->path, strerror(errno));
	t->text[0] = '\0';
	memset(&t->last, 0, sizeof(t->last));
}

/* A first line that began before what was read is left out; a NUL byte would end the text. */
static void
make_lines(struct logtail *t, size_t len, bool begun)
{
	char *first = t->text;

	for (size_t i = 0; i < len; i++)
		if (!t->text[i])
			t->text[i] = '?';
	if (len && t->text[len - 1] != '\n')
		t->text[len++] = '\n';
	t->text[len] = '\0';
	if (begun && (first = strchr(t->text, '\n')))
		memmove(t->text, first + 1, strlen(first + 1) + 1);
}

static bool
same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
	       a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the file again if it has changed, and then returns true. */
static bool
logtail_read(struct logtail *t)
{
	/* a pipe or device by that name must not hang the console */
	int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n;
	off_t at;

	if (fd < 0 || fstat(fd, &st) < 0) {
		failed(t);
	} else if (!S_ISREG(st.st_mode)) {
		snprintf(t->error, sizeof(t->error), "%s is no plain file", t->path);
	} else if (!same(&st, &t->last) || t->error[0]) {
		at = st.st_size > LOGTAIL_BYTES ? st.st_size - LOGTAIL_BYTES : 0;
		n = pread(fd, t->text, LOGTAIL_BYTES, at);
		if (n < 0) {
			failed(t);
		} else {
			make_lines(t, (size_t)n, at > 0);
			t->error[0] = '\0';
			t->last = st;
		}
	} else {
		close(fd);
		return false;
	}
	if (fd >= 0)
		close(fd);
	return true;
}

#define LOGS_MAX 16

struct console_args {
	struct pr_string_list mergers, logs;
	struct cli_connection dispatcher; /* with the keys for all */
	int64_t interval;
	bool ascii, mono;
};

#define PR_VALUES struct console_args

static const struct pr_option options[] = {
	PR_OPT_LIST(mergers, "merger", 'm', "ENDPOINT", "ask this merger",
		.def_note = "$PACKRACK_MERGER, or the local one"),
	CLI_DISPATCHER_OPTION(dispatcher.endpoint, "and this dispatcher"),
	PR_OPT_DURATION(interval, "interval", 0, "DURATION", 100 * PR_NS_PER_MS,
		60 * PR_NS_PER_S, "time between two refreshes", .def = "1s"),
	PR_OPT_LIST(logs, "log-file", 0, "FILE", "a daemon's log, for the screen LOGFILE",
		.aliases = {"log"}),
	PR_OPT_FLAG(ascii, "ascii", 0, "draw with ASCII only, even if the locale has more"),
	PR_OPT_FLAG(mono, "mono", 0, "use no colours"),
	CLI_KEY_OPTION(dispatcher.key),
};

static const struct pr_cmdline program = {.name = "packrack console",
	.summary = "Shows the rack at work on a terminal, and operates it.",
	.usage = "[options]",
	PR_OPTIONS(options),
	.footer = "Press ? for the keyboard commands."};

struct console {
	struct pr_loop *loop;
	struct pr_timer *timer;
	struct event *input, *resized;
	struct model *model;
	struct fetch fetch;
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

	con->ui.frame_count++;
	if (action_ended(&con->action, &ok))
		ui_say(&con->ui, !ok, "%s", con->action.text);
	paint(con);
	fetch_ask(&con->fetch);
}

static void
on_changed(struct console *con)
{
	con->dirty = true; /* the next tick shows it; the first answers at once */
	if (con->ui.frame_count < 2)
		paint(con);
}

static void
on_command_done(struct console *con, bool ok, const char *text)
{
	ui_say(&con->ui, !ok, "%s", text);
	paint(con);
}

static void
give(struct console *con, const struct console_order *order)
{
	struct pr_error err;

	if (!ui_order_is_data(order))
		fetch_order(&con->fetch, order);
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
peer_set(struct model_peer *peer, const char *flag, const struct cli_server *server,
	struct pr_error *err)
{
	const char *endpoint = cli_endpoint(flag, server, err);

	if (!endpoint)
		return -1;
	if (strlen(endpoint) >= sizeof(peer->endpoint))
		return pr_error_set(err, "%.40s...: an endpoint has at most %zu bytes",
			endpoint, sizeof(peer->endpoint) - 1);
	peer->wanted = cli_is_named(flag, server);
	snprintf(peer->endpoint, sizeof(peer->endpoint), "%s", endpoint);
	return 0;
}

static int
peers_set(struct model *m, const struct console_args *a, struct pr_error *err)
{
	size_t count = a->mergers.count ? a->mergers.count : 1;

	if (count > MODEL_MERGERS)
		return pr_error_set(err, "at most %d mergers are shown", MODEL_MERGERS);
	if (peer_set(&m->dispatcher, a->dispatcher.endpoint, &cli_dispatcher, err) < 0)
		return -1;
	for (m->merger_count = 0; m->merger_count < count; m->merger_count++)
		if (peer_set(&m->mergers[m->merger_count],
			    a->mergers.count ? a->mergers.items[m->merger_count] : NULL,
			    &cli_merger, err) < 0)
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
show(struct console *con, const struct console_args *a, struct pr_error *err)
{
	struct pr_rpc_keys room;
	int rc;

	con->key = a->dispatcher.key;
	con->loop = pr_loop_create(&(struct pr_loop_calls){0}, err);
	if (!con->loop)
		return -1;
	con->fetch.con = con;
	if (fetch_start(&con->fetch, con->loop, con->model, cli_keys(&a->dispatcher, &room),
		    err) < 0 ||
		terminal_open(!a->mono, err) < 0)
		return -1;
	con->canvas.ascii = a->ascii || !terminal_is_utf8();
	rc = events_set(con, a->interval,
		err); /* after curses, which also installs a handler for SIGWINCH */
	if (rc == 0) {
		fetch_ask(&con->fetch);
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
	fetch_stop(&con->fetch);
	pr_loop_destroy(&con->loop);
	model_destroy(&con->model);
	canvas_free(&con->canvas);
	free(con->logs);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct console con = {0};
	int status = CLI_USAGE;

	con.model = model_create(err);
	if (con.model && peers_set(con.model, call->values, err) == 0 &&
		logs_set(&con, &((struct console_args *)call->values)->logs, err) == 0)
		status = show(&con, call->values, err) < 0 ? CLI_FAILED : CLI_OK;
	clean_up(&con);
	return status;
}

int
main(int argc, char **argv)
{
	struct console_args a = {0};

	return cli_run(&program, &a, 0, argc, argv, run);
}
