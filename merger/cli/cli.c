/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/cli.h"

#include <limits.h>
#include <unistd.h>

#include "proto/rpc/status.h"

volatile sig_atomic_t cli_interrupted;

static void
on_signal(int number)
{
	cli_interrupted = 1;
	signal(number, SIG_DFL);
}

void
cli_catch_signals(void)
{
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
}

int
cli_fail(const char *name, int status, const struct pr_error *err)
{
	fprintf(stderr, "%s: %s\n", name, err->text);
	return status;
}

int
cli_parse(
	const struct pr_cmdline *program, void *values, int argc, char **argv, int *operand)
{
	const char *old = program->footer;
	bool has = old && strstr(old, "Exit status");
	struct pr_cmdline with_status = *program;
	struct pr_error err = {""};
	char footer[4096];

	snprintf(footer, sizeof(footer), "%s%s%s", old ? old : "", old && !has ? "\n" : "",
		has ? "" : CLI_STATUSES);
	with_status.footer = footer;
	int parsed = pr_options_parse(&with_status, values, argc, argv, operand, &err);
	if (parsed == 0)
		return -1;
	return parsed > 0 ? CLI_OK : cli_fail(program->name, CLI_USAGE, &err);
}

static int
call_command(const struct pr_cmdline *program, const struct cli_command *command,
	void *values, int argc, char **argv)
{
	struct pr_error err = {""};
	int operand = argc;
	int status =
		cli_parse(program, values, argc, argv, command->operands ? &operand : NULL);

	if (status < 0) {
		const struct cli_call call = {
			program->name, command, values, argc - operand, argv + operand};

		status = CLI_USAGE;
		if (command->operands > 0 && call.count != command->operands)
			pr_error_set(&err, "usage: %s %s", program->name, program->usage);
		else
			status = command->call(&call, &err);
		status = status < 0 ? CLI_FAILED : status;
		if ((status == CLI_FAILED || status == CLI_USAGE) && err.text[0])
			cli_fail(program->name, status, &err);
	}
	pr_options_free(program, values);
	return status;
}

int
cli_run(const struct pr_cmdline *program, void *values, int operands, int argc, char **argv,
	int (*run)(const struct cli_call *call, struct pr_error *err))
{
	const struct cli_command command = {.operands = operands, .call = run};

	return call_command(program, &command, values, argc, argv);
}

int
cli_run_command(
	const char *group, const struct cli_command *c, void *values, int argc, char **argv)
{
	char name[64];
	struct pr_cmdline program = {.name = name};

	PR_COPY(&program, c, summary, usage, footer, options, option_count);
	PR_PRINT(name, "%s %s", group, c->name);
	if (c->run)
		return c->run(argc, argv);
	if (c->list)
		return cli_dispatch(
			name, c->summary, c->list, c->list_count, c->values, argc, argv);
	return call_command(&program, c, c->values ? c->values : values, argc, argv);
}

int
cli_check(const struct cli_rule *rules, struct pr_error *err)
{
	while (rules->text && !rules->broken)
		rules++;
	return rules->text ? pr_error_set(err, "%s", rules->text) : 0;
}

enum render_form
cli_form(bool json, bool keyvalue)
{
	return json ? RENDER_JSON : keyvalue ? RENDER_KEYVALUE : RENDER_TEXT;
}

struct render *
cli_render(bool json, bool keyvalue, const char *list)
{
	struct render *r =
		json || keyvalue ? render_begin(stdout, cli_form(json, keyvalue)) : NULL;

	if (r && list)
		render_list(r, list);
	return r;
}

static char *
command_list(const char *name, const struct cli_command *list, size_t count)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fprintf(f, "Commands:\n");
	for (size_t i = 0; i < count; i++)
		fprintf(f, "  %-12s %s\n", list[i].name, list[i].help);
	fprintf(f, "'%s help COMMAND' describes one. " CLI_STATUSES, name);
	fclose(f);
	return text;
}

/* "help COMMAND ..." is "COMMAND ... --help". */
static int
show_help(const char *group, const struct cli_command *command, void *values, int argc,
	char **argv)
{
	char **words = calloc((size_t)argc + 3, sizeof(*words));
	int status = CLI_FAILED;

	if (words) {
		memcpy(words, argv - 1, (argc + 1) * sizeof(*words));
		words[argc + 1] = "--help";
		status = cli_run_command(group, command, values, argc + 1, words + 1);
	}
	free(words);
	return status;
}

int
cli_dispatch(const char *name, const char *summary, const struct cli_command *list,
	size_t count, void *values, int argc, char **argv)
{
	char *footer = command_list(name, list, count);
	struct pr_cmdline program = {.name = name,
		.summary = summary,
		.usage = "COMMAND ...",
		.stop_at_operand = true,
		.footer = footer};
	const struct cli_command *command = NULL;
	const char *meant = NULL;
	int operand, status = cli_parse(&program, NULL, argc, argv, &operand);

	if (status < 0 && operand >= argc) {
		fprintf(stderr, "%s: no command given\n%s\n", name, footer ? footer : "");
		status = CLI_USAGE;
	} else if (status < 0) {
		bool help = !strcmp(argv[operand], "help");
		operand += help && operand + 1 < argc;
		for (size_t i = 0; i < count; i++) {
			if (!strcmp(list[i].name, argv[operand]))
				command = &list[i];
			pr_options_nearest(argv[operand], list[i].name, &meant);
		}
		if (help && command)
			status = show_help(
				name, command, values, argc - operand, argv + operand);
		else if (help && !strcmp(argv[operand], "help"))
			status = puts(footer ? footer : "") < 0 ? CLI_FAILED : CLI_OK;
		else if (command)
			status = cli_run_command(
				name, command, values, argc - operand, argv + operand);
	}
	if (status < 0) {
		fprintf(stderr, "%s: there is no command '%s'; ", name, argv[operand]);
		fprintf(stderr,
			meant ? "did you mean '%s %s'?\n" : "'%s --help' lists them\n",
			name, meant);
		status = CLI_USAGE;
	}
	free(footer);
	return status;
}

char *
cli_beside(const char *name)
{
	char self[PATH_MAX], *path = NULL;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len < 0)
		return NULL;
	self[len] = 0;
	char *slash = strrchr(self, '/');
	return asprintf(&path, "%.*s/%s", (int)(slash - self), self, name) < 0 ? NULL
									       : path;
}

int
cli_become(const char *program, char **argv)
{
	struct pr_error err;
	char *path = cli_beside(program);

	if (path)
		execv(path, argv);
	pr_error_errno(&err, "cannot start %s", path ? path : program);
	free(path);
	return cli_fail("packrack", CLI_FAILED, &err);
}

const struct cli_server cli_merger = {"packrack-merger", "PACKRACK_MERGER",
				PR_RPC_ENDPOINT_MERGER},
			cli_dispatcher = {"packrack-dispatcher", "PACKRACK_DISPATCHER",
				PR_RPC_ENDPOINT_DISPATCHER};

/* NULL: not set, or empty. */
static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] ? value : NULL;
}

const char *
cli_endpoint(const char *flag, const struct cli_server *server, struct pr_error *err)
{
	const char *from = variable(server->variable);
	const char *endpoint = flag ? flag : from ? from : server->fallback;

	if (pr_rpc_check_endpoint(endpoint, err) == 0)
		return endpoint;
	if (!flag && from)
		pr_error_prefix(err, "$%s", server->variable);
	return NULL;
}

/* True if the user named the server, by flag or environment. */
static bool
is_named(const char *flag, const struct cli_server *server)
{
	return flag || variable(server->variable);
}

/* The user's key directory, which may not exist. NULL: there is no home directory. */
static const char *
of_user(void)
{
	static char path[PATH_MAX];
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int len;

	if (config && *config == '/')
		len = snprintf(path, sizeof(path), "%s/packrack/keys", config);
	else if (home && *home == '/')
		len = snprintf(path, sizeof(path), "%s/.config/packrack/keys", home);
	else
		return NULL;
	return len < (int)sizeof(path) ? path : NULL;
}

static bool
has_secret(const char *dir, int mode)
{
	char path[PATH_MAX + sizeof("/secret")];

	snprintf(path, sizeof(path), "%s/secret", dir);
	return access(path, mode) == 0;
}

/*
 * An explicitly given directory must exist: opening it reports an error. The default
 * directory is used only if its secret can be read.
 */
const char *
cli_keys(const struct cli_connection *c)
{
	const char *dir = c->key ? c->key : variable("PACKRACK_KEY"), *own = of_user();

	if (!dir && own && has_secret(own, F_OK))
		dir = own;
	if (!dir && has_secret(PR_KEYS_DIR, R_OK))
		dir = PR_KEYS_DIR;
	return dir && strcmp(dir, PR_KEYS_NONE) ? dir : NULL;
}

#define STATUS_NS (5 * PR_NS_PER_S)

/* The reply's body must be this one; else err, and no reply. */
static int
ask(const struct cli_connection *c, const struct cli_server *server,
	const Packrack__Envelope *env, Packrack__Envelope__BodyCase body,
	int64_t timeout_ns, Packrack__Envelope **reply, struct pr_error *err)
{
	const char *endpoint = cli_endpoint(c->endpoint, server, err);

	if (!endpoint)
		return CLI_USAGE;
	if (pr_rpc_ask(endpoint, cli_keys(c), env, timeout_ns, reply, err) < 0)
		return CLI_FAILED;
	if ((*reply)->body_case == body)
		return CLI_OK;
	if ((*reply)->body_case == PACKRACK__ENVELOPE__BODY_FAILURE)
		pr_error_set(err, "%s: %s", endpoint, (*reply)->failure->text);
	else
		pr_error_set(err, "%s answers with %s: is it the right program?", endpoint,
			pr_message_name(*reply));
	pr_message_free(reply);
	return CLI_FAILED;
}

int
cli_ask_status(const struct cli_connection *c, const struct cli_server *server,
	Packrack__Envelope **reply, struct pr_error *err)
{
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;
	Packrack__Envelope env =
		pr_message_of(1, PACKRACK__ENVELOPE__BODY_STATUS_REQUEST, &request);

	request.per_link = true;
	int status = ask(
		c, server, &env, PACKRACK__ENVELOPE__BODY_STATUS, STATUS_NS, reply, err);
	if (status != CLI_OK)
		return status;
	pr_status_rename_old((*reply)->status);
	const char *program = (*reply)->status->program;
	if (!strncmp(program, server->program, strlen(server->program)))
		return CLI_OK;
	pr_error_set(err, "%s is a %s, not a %s", cli_endpoint(c->endpoint, server, err),
		program, server->program);
	pr_message_free(reply);
	return CLI_FAILED;
}

Packrack__Envelope *
cli_find_status(const struct cli_connection *c, const struct cli_server *server,
	struct pr_error *err)
{
	Packrack__Envelope *reply = NULL;

	err->text[0] = 0;
	if (is_named(c->endpoint, server) || pr_rpc_reachable(server->fallback, NULL) == 0)
		cli_ask_status(c, server, &reply, err);
	return reply;
}

int
cli_ask_command(const struct cli_connection *c, const struct cli_server *server,
	const Packrack__Command *command, int64_t timeout_ns, Packrack__Envelope **reply,
	struct pr_error *err)
{
	Packrack__Envelope env =
		pr_message_of(1, PACKRACK__ENVELOPE__BODY_COMMAND, command);

	if (pr_message_check(&env, err) < 0)
		return CLI_USAGE;
	int status = ask(c, server, &env, PACKRACK__ENVELOPE__BODY_COMMAND_DONE, timeout_ns,
		reply, err);
	if (status != CLI_OK || (*reply)->command_done->ok)
		return status;
	pr_error_set(err, "%s", (*reply)->command_done->text);
	pr_message_free(reply);
	return CLI_FAILED;
}

int
volume_paths_parse(const char *text, struct volume_paths *out, struct pr_error *err)
{
	char *at = strdup(text), *word;

	*out = (struct volume_paths){.split = at};
	if (!at)
		return pr_error_set(err, "no memory");
	out->path[0] = at;
	out->count = 1;
	if (access(text, F_OK) == 0)
		return 0;
	for (out->count = 0; (word = strsep(&at, ",")); out->count++) {
		if (!word[0])
			return pr_error_set(err, "%s: a device without a name", text);
		if (out->count == VOLUME_DEVICES_MAX)
			return pr_error_set(err, "%s: a volume has at most %d devices",
				text, VOLUME_DEVICES_MAX);
		out->path[out->count] = word;
	}
	return 0;
}

void
volume_paths_free(struct volume_paths *paths)
{
	free(paths->split);
	*paths = (struct volume_paths){0};
}
