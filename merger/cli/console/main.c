/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <langinfo.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "merger/cli/console/ui.h"
#include "proto/rpc/status.h"

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
	CLI_DISPATCHER_OPTION(dispatcher.endpoint, "ask this dispatcher"),
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

/*
 * A command of the screen DATA: `packrack data ...` as a child process, one at a time,
 * so that the console does not wait. The child continues when the console ends. Zeroed:
 * none.
 */
struct action {
	pid_t pid;
	int out; /* its output: read end of a pipe */
	char text[256]; /* its first line so far */
	size_t used;
	bool line; /* the first line is complete */
};

/* A program that is asked. */
struct source {
	struct console *con;
	const char *name;
	struct model_peer *peer;
	struct pr_rpc *rpc;
	/* Ids of the Status request and of the command under way; 0: none. */
	uint64_t asked, ordered;
	int64_t asked_at, order_until; /* monotonic */
	char verb[32];
};

/*
 * Requests Status from the dispatcher and the mergers, and sends commands. Never waits:
 * a program that does not answer is marked silent in the model and asked again. Loop's
 * thread.
 */
struct console {
	struct pr_loop *loop;
	struct pr_timer *timer;
	struct event *input, *resized;
	struct model *model;
	struct source sources[1 + MODEL_MERGERS]; /* the dispatcher, then the mergers */
	unsigned source_count;
	uint64_t ids; /* of requests */
	struct action action;
	const char *key; /* as given; or NULL */
	struct ui ui;
	struct canvas canvas;
	struct logtail *logs;
	struct pr_error err; /* why it ended, or "" */
};

#define SILENT_NS (3 * PR_NS_PER_S)
#define ORDER_NS (20 * PR_NS_PER_S)
#define STOP_NS (120 * PR_NS_PER_S) /* nodes flush first */
#define IDENTIFY_SECONDS 10

/* ---- the screen ---- */

static void
logtail_read(struct logtail *t)
{
	/* a pipe or device by that name must not hang the console */
	int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	char *first;

	t->error[0] = '\0';
	if (fd < 0 || fstat(fd, &st) < 0) {
		PR_PRINT(t->error, "%s: %s", t->path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		PR_PRINT(t->error, "%s is not a regular file", t->path);
	} else {
		off_t at = st.st_size > LOGTAIL_BYTES ? st.st_size - LOGTAIL_BYTES : 0;
		ssize_t len = pread(fd, t->text, LOGTAIL_BYTES, at);
		if (len < 0)
			PR_PRINT(t->error, "%s: %s", t->path, strerror(errno));
		for (ssize_t i = 0; i < len; i++)
			if (!t->text[i])
				t->text[i] = '?'; /* a NUL byte would end the text */
		if (len > 0 && t->text[len - 1] != '\n')
			t->text[len++] = '\n';
		t->text[len > 0 ? len : 0] = '\0';
		/* a first line that began before what was read is left out */
		if (at > 0 && (first = strchr(t->text, '\n')))
			memmove(t->text, first + 1, strlen(first + 1) + 1);
	}
	pr_close(fd);
}

static void
paint(struct console *con)
{
	bool logs = con->ui.screen == SCREEN_LOGFILE && con->ui.log > 0;
	struct logtail *log = logs ? &con->logs[con->ui.log - 1] : NULL;
	int rows, cols;

	if (log)
		logtail_read(log);
	terminal_size(&rows, &cols);
	if (canvas_reset(&con->canvas, rows, cols, &con->err) < 0) {
		pr_loop_break(con->loop);
		return;
	}
	view_draw(&con->canvas, con->model, &con->ui, log);
	terminal_paint(&con->canvas);
}

/* ---- answers ---- */

static void
silent(struct source *s, const char *why)
{
	model_silent(s->con->model, s->peer, s->name, why, pr_now_real());
	s->asked = 0;
}

static void
order_end(struct source *s, bool ok, const char *text)
{
	s->ordered = 0;
	model_event(s->con->model, pr_now_real(), "%s: %s", s->verb, text);
	ui_say(&s->con->ui, !ok, "%s", text);
	paint(s->con);
}

/* The next tick shows what is new; the first answers are shown at once. */
static void
on_changed(struct console *con)
{
	if (con->ui.frame_count < 2)
		paint(con);
}

static void
on_status(struct source *s, Packrack__Status *status)
{
	struct console *con = s->con;
	bool dispatcher = s == con->sources;
	const char *wanted = dispatcher ? "packrack-dispatcher" : "packrack-merger";
	char why[160];

	s->asked = 0;
	pr_status_rename_old(status);
	if (strncmp(status->program, wanted, strlen(wanted))) {
		PR_PRINT(why, "%s is a %s", s->peer->endpoint, status->program);
		silent(s, why);
	} else if (dispatcher) {
		model_take_dispatcher(con->model, status, pr_now_real());
	} else {
		model_take_merger(con->model, s - con->sources - 1, status, pr_now_real());
	}
	on_changed(con);
}

static void
on_message(
	void *arg, PR_UNUSED const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct source *s = arg;
	const Packrack__CommandDone *done = env->command_done;
	bool ordered = s->ordered && env->id == s->ordered, asked = env->id == s->asked;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS && asked)
		on_status(s, env->status);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND_DONE && ordered)
		order_end(s, done->ok,
			done->text[0] ? done->text
			: done->ok    ? "done"
				      : "not done");
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE && ordered)
		order_end(s, false, env->failure->text);
	else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE && asked)
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
	on_changed(s->con);
}

/* ---- questions ---- */

/* The id of the request; 0: it was not sent. */
static uint64_t
send_request(struct source *s, Packrack__Envelope *env)
{
	env->id = ++s->con->ids;
	return pr_rpc_send(s->rpc, NULL, env, NULL) < 0 ? 0 : env->id;
}

/* Sends a request to every program that has answered the last one. */
static void
ask_all(struct console *con)
{
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;
	Packrack__Envelope env =
		pr_message_of(0, PACKRACK__ENVELOPE__BODY_STATUS_REQUEST, &request);
	int64_t now = pr_now_mono();
	struct pr_error none;

	request.per_link = true;
	for (unsigned i = 0; i < con->source_count; i++) {
		struct source *s = &con->sources[i];

		if (s->ordered && now > s->order_until)
			order_end(s, false, "no answer");
		if (!s->peer->answers && pr_rpc_reachable(s->peer->endpoint, &none) < 0) {
			silent(s, "no program listens there");
		} else if (!s->asked) {
			s->asked = send_request(s, &env);
			s->asked_at = now;
			if (!s->asked)
				silent(s, "no answer");
		} else if (now - s->asked_at > SILENT_NS) {
			silent(s, "no answer for 3 s");
		}
	}
}

/* An order for the dispatcher, or for the first merger. */
static void
order_send(struct console *con, const struct console_order *order)
{
	struct source *s = &con->sources[!strcmp(order->verb, "cancel")];
	Packrack__Command command = PACKRACK__COMMAND__INIT;
	Packrack__Envelope env =
		pr_message_of(0, PACKRACK__ENVELOPE__BODY_COMMAND, &command);

	if (s->ordered) {
		ui_say(&con->ui, true, "the previous command is still running");
		return;
	}
	PR_PRINT(s->verb, "%s", order->verb);
	command.verb = (char *)order->verb;
	command.node = (char *)order->node;
	command.number = order->number;
	command.seconds = IDENTIFY_SECONDS;
	if (s->peer->answers)
		s->ordered = send_request(s, &env);
	if (!s->ordered)
		order_end(s, false, "not sent: the program does not answer");
	s->order_until = pr_now_mono() + (strcmp(order->verb, "stop") ? ORDER_NS : STOP_NS);
}

/* ---- packrack data ---- */

extern char **environ;

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
		     &files, STDIN_FILENO, "/dev/null", O_RDONLY, 0) |
	     posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO) |
	     posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
	if (rc == 0)
		rc = posix_spawn(&a->pid, path, &files, NULL,
			(char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	free(path);
	errno = rc;
	return rc == 0 ? 0 : -1;
}

/* The merger and the key are as the console was given them. */
static int
action_start(struct console *con, const struct console_order *o, struct pr_error *err)
{
	struct action *a = &con->action;
	const char *argv[16] = {"packrack", "data", o->verb, "--node", o->node, "--merger",
		con->model->mergers[0].endpoint};
	size_t n = 7;
	int ends[2];

	if (con->key) {
		argv[n++] = "--key-dir";
		argv[n++] = con->key;
	}
	if (strcmp(o->verb, "export") != 0)
		argv[n++] = "--yes";
	if (o->text[0]) {
		argv[n++] = !strcmp(o->verb, "export") ? "--write"
			    : !strcmp(o->verb, "move") ? "--to"
						       : "--until";
		argv[n++] = o->text;
	}
	if (a->pid)
		return pr_error_set(err, "the previous command is still running");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return pr_error_errno(err, "%s", o->verb);
	*a = (struct action){.out = ends[0]};
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	if (spawn(a, argv, ends[1]) < 0) {
		a->pid = 0;
		pr_error_errno(err, "%s", o->verb);
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

/* ---- what happens ---- */

/* Shows at the latest now what was received since the last tick. */
static void
on_timer(void *arg)
{
	struct console *con = arg;
	struct action *a = &con->action;
	pid_t ended = 0;
	int status;

	con->ui.frame_count++;
	if (a->pid) {
		listen_to(a);
		ended = waitpid(a->pid, &status, WNOHANG);
	}
	if (a->pid && ended == a->pid) {
		listen_to(a);
		close(a->out);
		a->pid = 0;
		ui_say(&con->ui,
			!WIFEXITED(status) ||
				(WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3),
			"%s", a->text);
	}
	paint(con);
	ask_all(con);
}

static void
on_input(PR_UNUSED evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
	struct console *con = arg;
	struct console_order order;
	struct pr_error err;
	int key;

	while ((key = terminal_key(&con->canvas)) > 0) {
		if (!ui_key(&con->ui, con->model, key, &order))
			continue;
		if (!ui_order_is_data(&order))
			order_send(con, &order);
		else if (action_start(con, &order, &err) < 0)
			ui_say(&con->ui, true, "%s", err.text);
	}
	if (key < 0)
		pr_error_set(&con->err, "the terminal has gone");
	if (key < 0 || con->ui.quit)
		pr_loop_break(con->loop);
	else
		paint(con);
}

static void
on_resize(PR_UNUSED evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
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
	PR_PRINT(peer->endpoint, "%s", endpoint);
	return 0;
}

/* What is shown: programs and logs. */
static int
take_args(struct console *con, const struct console_args *a, struct pr_error *err)
{
	size_t mergers = a->mergers.count ? a->mergers.count : 1;
	struct model *m = con->model;

	if (mergers > MODEL_MERGERS)
		return pr_error_set(err, "at most %d mergers are shown", MODEL_MERGERS);
	if (peer_set(&m->dispatcher, a->dispatcher.endpoint, &cli_dispatcher, err) < 0)
		return -1;
	for (m->merger_count = 0; m->merger_count < mergers; m->merger_count++)
		if (peer_set(&m->mergers[m->merger_count],
			    a->mergers.count ? a->mergers.items[m->merger_count] : NULL,
			    &cli_merger, err) < 0)
			return -1;
	if (a->logs.count > LOGS_MAX)
		return pr_error_set(err, "at most %d logs are shown", LOGS_MAX);
	con->logs = calloc(a->logs.count + 1, sizeof(*con->logs));
	if (!con->logs)
		return pr_error_set(err, "no memory for logs");
	for (size_t i = 0; i < a->logs.count; i++)
		con->logs[i].path = a->logs.items[i];
	con->ui.logs = a->logs.count;
	con->ui.log = a->logs.count > 0;
	con->key = a->dispatcher.key;
	return 0;
}

/* Connects to the model's peers. */
static int
sources_open(
	struct console *con, const struct cli_connection *keys_of, struct pr_error *err)
{
	struct model *m = con->model;
	const char *keys = cli_keys(keys_of);

	while (con->source_count <= m->merger_count) {
		unsigned i = con->source_count++;
		struct source *s = &con->sources[i];

		s->con = con;
		s->name = i ? "merger" : "dispatcher";
		s->peer = i ? &m->mergers[i - 1] : &m->dispatcher;
		s->rpc = pr_rpc_connect(
			con->loop, s->peer->endpoint, keys, on_message, s, err);
		if (!s->rpc)
			return -1;
		pr_rpc_watch(s->rpc, on_state, s);
	}
	return 0;
}

static int
show(struct console *con, const struct console_args *a, struct pr_error *err)
{
	int rc = 0;

	con->loop = pr_loop_create(&(struct pr_loop_calls){0}, err);
	if (!con->loop || sources_open(con, &a->dispatcher, err) < 0 ||
		terminal_open(!a->mono, err) < 0)
		return -1;
	con->canvas.ascii = a->ascii || strcmp(nl_langinfo(CODESET), "UTF-8");
	/* after curses, which also installs a handler for SIGWINCH */
	struct event_base *base = pr_loop_base(con->loop);
	con->input = event_new(base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, con);
	con->resized = evsignal_new(base, SIGWINCH, on_resize, con);
	con->timer = pr_timer_create(con->loop, a->interval, on_timer, con, err);
	if (!con->timer)
		rc = -1;
	else if (!con->input || !con->resized || event_add(con->input, NULL) < 0 ||
		 event_add(con->resized, NULL) < 0)
		rc = pr_error_set(err, "no memory for events");
	if (rc == 0) {
		ask_all(con);
		paint(con);
		rc = pr_loop_run(con->loop, err);
	}
	terminal_close();
	if (rc == 0 && con->err.text[0])
		rc = pr_error_set(err, "%s", con->err.text);
	return rc;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct console con = {0};
	int status = CLI_USAGE;

	con.model = model_create(err);
	if (con.model && take_args(&con, call->values, err) == 0)
		status = show(&con, call->values, err) < 0 ? CLI_FAILED : CLI_OK;
	if (con.input)
		event_free(con.input);
	if (con.resized)
		event_free(con.resized);
	pr_timer_destroy(&con.timer);
	for (unsigned i = 0; i < con.source_count; i++)
		pr_rpc_destroy(&con.sources[i].rpc);
	pr_loop_destroy(&con.loop);
	model_destroy(&con.model);
	canvas_free(&con.canvas);
	free(con.logs);
	return status;
}

int
main(int argc, char **argv)
{
	return cli_run(&program, &(struct console_args){0}, 0, argc, argv, run);
}
