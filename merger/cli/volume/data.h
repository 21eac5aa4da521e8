/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/delete.h"
#include "merger/cli/query/ask.h"

/* What the commands of `packrack data` share. */
struct data_args {
	struct cli_connection merger;
	struct pr_string_list nodes, volumes;
	int64_t since, until;
	char *to, *to_volume, *to_file; /* move */
	uint64_t rate; /* rebuild: bytes/s; 0: no limit */
	bool yes, json, keyvalue;
};
#define PR_VALUES struct data_args
#define DATA_WHERE_OPTIONS                                                                 \
	PR_OPT_LIST(nodes, "node", 0, "NAME", "packets of this node"),                     \
		PR_OPT_LIST(volumes, "volume", 0, "VOLUME",                                \
			"packets of this volume, without a rack"),                         \
		CLI_TIME_OPTIONS(),                                                        \
		CLI_MERGER_OPTION(merger.endpoint, "the rack's merger"),                   \
		CLI_KEY_OPTION(merger.key), CLI_FORM_OPTIONS()

/* Values before options are parsed: all times. */
#define DATA_ARGS                                                                          \
	{                                                                                  \
		.since = PR_TIME_MIN, .until = PR_TIME_MAX                                 \
	}

/* Checks that the options can be combined. -1: bad usage. */
int data_check(const struct data_args *a, struct pr_error *err);

/* What nodes, or volumes, hold. */
struct data_inventory {
	const Packrack__NodeStatus **nodes;
	size_t count;
	/* links that any node, or the first volume, has recorded */
	Packrack__LinkInfo *const *links;
	size_t link_count;
	/* nodes and links belong to a merger's reply, or to volumes */
	Packrack__Envelope *reply;
	struct data_volume *volumes;
	size_t volume_count;
};

/*
 * Gets the contents of the nodes or volumes in args; without a name, of all nodes that the
 * merger knows. Free it in any case.
 */
int data_inventory_get(
	struct data_inventory *inv, const struct data_args *a, struct pr_error *err);
void data_inventory_free(struct data_inventory *inv);

/* Asks for each node or volume whether its packets of the time range may be deleted, unless --yes was given. */
int data_confirm(
	const struct data_args *a, const struct data_inventory *inv, struct pr_error *err);

/* A deletion on one node or volume, done step by step. */
struct data_deletion {
	const struct data_args *args;
	const char *name; /* of the node, or the volume's path */
	/* The caller sets until, and the fields of a move; the call sets the rest. */
	struct prl_delete_order order;
	struct prl_deleted sum;
	struct progress progress;
};
int data_delete_run(struct data_deletion *d, struct pr_error *err);

/*
 * A query for all packets of a time range on one node, or in one volume; borrows its
 * arguments.
 */
struct query_args data_question(const struct data_args *a, const char *const *name,
	bool volume, int64_t since, int64_t until);
/*
 * Number of packets that one node or volume has for q. An answer that is not complete (a node that does
 * not answer, records that cannot be read) is an error.
 */
int data_ask_count(struct query_args q, uint64_t *count, struct pr_error *err);
extern const struct cli_command data_move_command;
