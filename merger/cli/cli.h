/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>

#include "merger/cli/render.h"
#include "proto/base/options.h"
#include "proto/rpc/keys.h"
#include "proto/rpc/rpc.h"

/* The `packrack` command: a table of subcommands, and the exit statuses of all of them. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_PARTIAL = 3 };
#define CLI_STATUSES                                                                       \
	"Exit status: 0 done and complete, 1 failed, 2 bad usage, 3 done in part or "      \
	"needs attention."

struct cli_call;
struct cli_command {
	const char *name;
	const char *help; /* in the list of commands */
	const char *summary, *usage, *footer;
	const struct pr_option *options;
	size_t option_count;
	int operands; /* as in cli_run, and call */
	int (*call)(const struct cli_call *call, struct pr_error *err);
	/* for a call that several commands share: what only this one does with the values */
	int (*task)(void *values, struct pr_error *err);
	void *values; /* of the options; NULL: those that cli_dispatch got */
	/* of a group: its commands, which get the values */
	const struct cli_command *list;
	size_t list_count;
	/* instead of all this; argv[0] is the command's name, there is an argv[-1]; an exit status */
	int (*run)(int argc, char **argv);
};
#define CLI_OPTIONS(table) table, PR_COUNT(table)
#define CLI_LIST(table) .list = table, .list_count = PR_COUNT(table)

/*
 * Runs the subcommand that argv[1] names; name is shown in help and errors ("packrack volume"). values: of the
 * options of commands that have none and no run.
 */
int cli_dispatch(const char *name, const char *summary, const struct cli_command *commands,
	size_t count, void *values, int argc, char **argv);

/* Runs one: group is what its name follows ("packrack volume"), argv[0] the command's name. */
int cli_run_command(const char *group, const struct cli_command *command, void *values,
	int argc, char **argv);

/* Prints "NAME: text" to stderr and returns status. */
int cli_fail(const char *name, int status, const struct pr_error *err);
/* From now on SIGINT and SIGTERM set it; a second one ends the program at once, even if a reader of our output blocks. */
void cli_catch_signals(void);
extern volatile sig_atomic_t cli_interrupted;

/* Parses; -1 when the command may go on, else the status to exit with (help, bad usage). */
int cli_parse(const struct pr_cmdline *program, void *values, int argc, char **argv,
	int *operand);

struct cli_call {
	const char *program; /* "packrack volume show" */
	const struct cli_command *command; /* that cli_dispatch found; or NULL */
	void *values; /* of the options */
	int count;
	char **operands;
};

/*
 * A whole command: parses argv into values, runs it, prints the error text that it leaves with CLI_FAILED
 * or CLI_USAGE, and frees values. operands: how many it takes, 0: none, -1: any number. run returns the
 * exit status, or -1 for CLI_FAILED.
 */
int cli_run(const struct pr_cmdline *program, void *values, int operands, int argc,
	char **argv, int (*run)(const struct cli_call *call, struct pr_error *err));

/* Which options do not go together, or lack another: -1 and the text of the first rule that is broken. */
struct cli_rule {
	bool broken;
	const char *text; /* NULL: the end */
};
#define CLI_CHECK(err, ...)                                                                \
	cli_check((const struct cli_rule[]){__VA_ARGS__, {false, NULL}}, err)
int cli_check(const struct cli_rule *rules, struct pr_error *err);

/* The form that --json and --keyvalue choose. */
enum render_form cli_form(bool json, bool keyvalue);
/* Where standard output gets figures as data, in a list if it has a name; NULL: it gets text for people. */
struct render *cli_render(bool json, bool keyvalue, const char *list);

/* Becomes the program in the folder of this one: `packrack NAME` is packrack-NAME. Returns only if it cannot be started. */
int cli_become(const char *program, char **argv);

/* Where a merger or dispatcher is, and the key directory for it. */
struct cli_connection {
	char *endpoint;
	char *key;
};

/* Rows of option tables. member: of PR_VALUES. what: the help text. */
#define CLI_MERGER_OPTION(member, what)                                                    \
	PR_OPT_STRING(member, "merger", 'm', "ENDPOINT", what,                             \
		.def_note = "$PACKRACK_MERGER, or the local one")
#define CLI_KEY_OPTION(member)                                                             \
	PR_OPT_STRING(member, "key-dir", 0, "DIR", "your key directory, or none",          \
		.def_note = "$PACKRACK_KEY, ~/.config/packrack/keys or " PR_KEYS_DIR,      \
		.aliases = {"key"})
#define CLI_TIME_OPTIONS(at)                                                               \
	PR_OPT_TIME(at since, "since", 'S', "TIME", "from TIME on: " PR_TIME_FORMS),       \
		PR_OPT_TIME(at until, "until", 'U', "TIME", "up to and including TIME")
/* How figures are printed. at: prefix of the two bool members, such as `query.` */
#define CLI_FORM_OPTIONS(at)                                                               \
	PR_OPT_FLAG(at json, "json", 0, "print JSON"),                                     \
		PR_OPT_FLAG(at keyvalue, "keyvalue", 0, "print lines of key=value")

/* The two programs that users ask. */
struct cli_server {
	/* $variable or fallback has the endpoint */
	const char *program, *variable, *fallback;
};
extern const struct cli_server cli_merger, cli_dispatcher;

/* flag, else the environment variable, else the local one; checked. NULL: err. */
const char *cli_endpoint(
	const char *flag, const struct cli_server *server, struct pr_error *err);

/* The key directory; NULL when there are no keys. */
const char *cli_keys(const struct cli_connection *c);

/* Path of another program in the folder of this one, to be freed. NULL: errno is set. */
char *cli_beside(const char *name);
extern const struct cli_command query_command, export_command, data_export_command,
	rate_command, top_command, import_command, compare_command, node_rebuild_command,
	volume_command, hold_command, collect_command;
int cmd_flows(int argc, char **argv);
int cmd_sql(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_data(int argc, char **argv);

/*
 * One request, one reply, whose body is a Status or a CommandDone; free it with pr_message_free. CLI_OK, or
 * CLI_USAGE (a bad endpoint) or CLI_FAILED with err. A command that was not done is an error.
 */
int cli_ask_status(const struct cli_connection *c, const struct cli_server *server,
	Packrack__Envelope **reply, struct pr_error *err);
/* NULL: the user named no server, and no local one listens; or there is no answer, then err has a text. */
Packrack__Envelope *cli_find_status(const struct cli_connection *c,
	const struct cli_server *server, struct pr_error *err);
int cli_ask_command(const struct cli_connection *c, const struct cli_server *server,
	const Packrack__Command *command, int64_t timeout_ns, Packrack__Envelope **reply,
	struct pr_error *err);

#define VOLUME_DEVICES_MAX 16

/* The volume's devices, as one argument names them: PATH[,PATH]. */
struct volume_paths {
	char *split; /* what path points into */
	const char *path[VOLUME_DEVICES_MAX];
	size_t count;
};

/*
 * A text that names an existing file is one device, even if it has commas. 0 or -1
 * (err); call free in both cases.
 */
int volume_paths_parse(const char *text, struct volume_paths *out, struct pr_error *err);
void volume_paths_free(struct volume_paths *paths);
