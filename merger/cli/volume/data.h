/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_VOLUME_DATA_H
#define PR_CLI_VOLUME_DATA_H

#include "logger/delete.h"
#include "merger/cli/cli.h"
#include "merger/cli/query/query_args.h"
#include "merger/cli/progress.h"
#include "merger/cli/render.h"
#include "proto/rpc/packrack.pb-c.h"

/* What the commands of `packrack data` share, a file each. */
struct data_args {
	struct cli_connection merger;
	struct pr_string_list nodes, volumes;
	int64_t since, until;
	char *to, *to_volume, *to_file; /* move */
	bool yes, json, keyvalue;
};

#define PR_VALUES struct data_args
#define DATA_WHERE_OPTIONS                                                                 \
	PR_OPT_LIST(nodes, "node", 0, "NAME", "of this node"),                             \
		PR_OPT_LIST(                                                               \
			volumes, "volume", 0, "PATH", "of this volume, without a rack"),   \
		PR_OPT_TIME(since, "since", 0, "TIME", CLI_SINCE_HELP),                    \
		PR_OPT_TIME(until, "until", 0, "TIME", "up to and including this time"),   \
		CLI_MERGER_OPTION(merger.endpoint, "the rack's merger"),                   \
		CLI_KEY_OPTION(merger.key), CLI_FORM_OPTIONS()

/* Of options alone; -1: go on, and free by data_free; else the exit status. */
int data_parse(
	const struct pr_cmdline *program, struct data_args *a, int argc, char **argv);

/* The merger that is asked; NULL: err. */
const char *data_merger(const struct data_args *a, struct pr_error *err);

/* What nodes, or volumes, hold. */
struct data_stock;

/* Those that args name; none named: all that the merger knows. NULL: err. */
struct data_stock *data_stock_get(const struct data_args *a, struct pr_error *err);
void data_stock_free(struct data_stock **stock);
size_t data_stock_count(const struct data_stock *stock);
const Packrack__NodeStatus *data_stock_node(const struct data_stock *stock, size_t index);

/* The links that any of them, or of all nodes, has heard. */
Packrack__LinkInfo *const *data_stock_links(const struct data_stock *stock, size_t *count);

/* Times of the oldest and newest packet of a node; false: it holds none. */
bool data_times(const Packrack__NodeStatus *node, int64_t *oldest, int64_t *newest);

/* Who does it, where no key says so. */
const char *data_user(void);

/* One node's, or volume's: deleted step by step. */
struct data_deletion {
	const struct data_args *args;
	const char *name; /* of the node, or the volume's path */
	bool volume;
	struct prl_delete_order order;
	struct prl_deleted sum;
	uint64_t left; /* packets of its time that stayed */
	struct progress progress;
};
int data_delete_run(struct data_deletion *d, struct pr_error *err);

/*
 * Number of packets that one node or volume has for q. An answer that is not complete (a node that does
 * not answer, records that cannot be read) is an error.
 */
int data_ask_count(const struct query_args *q, uint64_t *count, struct pr_error *err);
int data_list(int argc, char **argv);
int data_delete(int argc, char **argv);
int data_move(int argc, char **argv);

#endif
