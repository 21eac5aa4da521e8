/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_CLI_H
#define PR_CLI_CLI_H

#include <stddef.h>

#include "proto/base/error.h"
#include "proto/base/options.h"
#include "proto/rpc/keys.h"
#include "proto/rpc/rpc.h"

/* The `packrack` command: a table of subcommands, each with one exit. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_PARTIAL = 3 };

struct cli_command {
	const char *name;
	int (*run)(
		int argc, char **argv); /* argv[0] is the command's name; an exit status */
	const char *help;
};

/* Runs the subcommand that argv[1] names; name is shown in help and errors ("packrack volume"). */
int cli_dispatch(const char *name, const char *summary, const struct cli_command *commands,
	size_t count, int argc, char **argv);

/* The whole of packrack; returns its exit status. */
int pr_cli_main(int argc, char **argv);

/* Prints "NAME: text" to stderr and returns status. */
int cli_fail(const char *name, int status, const struct pr_error *err);

/* Parses; -1 when the command may go on, else the status to exit with (help, bad usage). */
int cli_parse(const struct pr_cmdline *program, void *values, int argc, char **argv,
	int *operand);

/* Where a merger or dispatcher is, and the key directory for it. */
struct cli_connection {
	char *endpoint;
	char *key;
};
/* Rows of option tables; at: where the endpoint stands; what: the program, as help calls it. */
#define CLI_MERGER_OPTION(at, what)                                                        \
	{                                                                                  \
		.name = "merger", .letter = 'm', .kind = PR_OPT_STRING, .offset = (at),    \
		.arg = "ENDPOINT", .help = what " ($PACKRACK_MERGER, or the local one)"    \
	}
#define CLI_DISPATCHER_OPTION(at, what)                                                    \
	{                                                                                  \
		.name = "dispatcher", .letter = 'd', .kind = PR_OPT_STRING,                \
		.offset = (at), .arg = "ENDPOINT",                                         \
		.help = what " ($PACKRACK_DISPATCHER, or the local one)"                   \
	}
#define CLI_KEY_OPTIONS(type, field)                                                       \
	{                                                                                  \
		.name = "key", .kind = PR_OPT_STRING, .offset = offsetof(type, field.key), \
		.arg = "DIR",                                                              \
		.help = "your key directory, or none ($PACKRACK_KEY, "                     \
			"~/.config/packrack/keys or " PR_KEYS_DIR ")"                      \
	}

/* How figures are printed: offsets of two bool. */
#define CLI_FORM_OPTIONS(json_at, keyvalue_at)                                             \
	{.name = "json", .kind = PR_OPT_FLAG, .offset = (json_at), .help = "print JSON"},  \
	{                                                                                  \
		.name = "keyvalue", .kind = PR_OPT_FLAG, .offset = (keyvalue_at),          \
		.help = "print lines of key=value"                                         \
	}

/* flag, else the environment variable, else fallback; checked. NULL: err. */
const char *cli_endpoint(
	const char *flag, const char *variable, const char *fallback, struct pr_error *err);
/* NULL when there are no keys. */
const struct pr_rpc_keys *cli_keys(
	const struct cli_connection *c, struct pr_rpc_keys *room);
/* Where keys are looked after: flag, $PACKRACK_KEY, and the user's own. NULL: err. */
const char *cli_keys_home(const char *flag, struct pr_error *err);

int cmd_query(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_rate(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_console(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_setup(int argc, char **argv);
int cmd_sizing(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_volume(int argc, char **argv);
int cmd_node(int argc, char **argv);
int cmd_queries(int argc, char **argv);
int cmd_keys(int argc, char **argv);
int cmd_extcap(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_data_export(int argc, char **argv);
int cmd_capture(int argc, char **argv);

#endif
