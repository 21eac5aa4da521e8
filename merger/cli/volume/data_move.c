/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/volume/data_carry.h"
#include "merger/cli/volume/data_file.h"
#include "proto/base/clock.h"

/*
 * A move copies, asks the other place whether all of it is there, and only then deletes: what a break
 * leaves is in one place or in both, and answers give a packet once, as it keeps its name. Only segments
 * that were stored before the copy began are deleted (fences), and it goes on in parts that fit in memory.
 */
#define PART 500000 /* packets of a part, at most */

static const struct pr_option options[] = {DATA_WHERE_OPTIONS,
	{.name = "to",
		.kind = PR_OPT_STRING,
		.offset = offsetof(struct data_args, to),
		.arg = "NODE",
		.help = "to this node"},
	{.name = "to-volume",
		.kind = PR_OPT_STRING,
		.offset = offsetof(struct data_args, to_volume),
		.arg = "PATH",
		.help = "into this volume of this machine, that nobody writes"},
	{.name = "to-file",
		.kind = PR_OPT_STRING,
		.offset = offsetof(struct data_args, to_file),
		.arg = "FILE",
		.help = "into this new trace file (pcapng)"}};

static const struct pr_cmdline program = {.name = "packrack data move",
	.summary =
		"Copies a node's packets, all or those of a time, elsewhere, checks them "
		"there, and then deletes them.",
	.usage = "--node NAME|--volume PATH --to NODE|--to-volume PATH|--to-file FILE "
		 "[--since TIME] [--until TIME]",
	.options = options,
	.option_count = sizeof(options) / sizeof(options[0]),
	.footer =
		"Broken off at any point, nothing is lost, and it goes on when given "
		"again. A batch of packets\n(segment) that reaches beyond the times stays "
		"where it was as well; answers give each once.\nExit status: 0 done, 1 "
		"failed, 2 bad usage."};

struct move {
	const struct data_args *args;
	const char *from;
	struct data_place *place;
	struct prl_delete_fence *fences;
	size_t fence_count;
	struct data_stock *stock; /* the fences' names are its */
	uint64_t packets, stored, segments;
	char hash[PRM_TRACE_HASH_TEXT]; /* of the last part */
	uint64_t left; /* packets of the time that are still there */
};

static void
question(const struct move *m, int64_t since, int64_t until, struct query_args *q)
{
	*q = (struct query_args){.merger = m->args->merger,
		.nodes = m->args->nodes,
		.volumes = m->args->volumes,
		.since = since,
		.until = until,
		.filter = (char *)"",
		.program = program.name};
}

/* ---- what may be deleted ---- */

#define FRESH_NS (5 * PR_NS_PER_S) /* a node tells every two seconds */
#define LOOK_MS 100

/* What the merger knows of a node is as old as its last word: one of now is waited for, if it comes. */
static int
ask_stock(struct move *m, struct pr_error *err)
{
	int64_t now = pr_now_real(), deadline = pr_now_mono() + FRESH_NS;

	for (;;) {
		data_stock_free(&m->stock);
		m->stock = data_stock_get(m->args, err);
		if (!m->stock)
			return -1;
		if (m->args->volumes.count ||
			data_stock_node(m->stock, 0)->last_seen >= now ||
			pr_now_mono() >= deadline)
			return 0;
		poll(NULL, 0, LOOK_MS);
	}
}

/* Segments that are stored now, before the copy is asked for. */
static int
set_fences(struct move *m, struct pr_error *err)
{
	const Packrack__NodeStatus *n;

	free(m->fences);
	m->fence_count = 0;
	m->fences = NULL;
	if (ask_stock(m, err) < 0)
		return -1;
	n = data_stock_node(m->stock, 0);
	m->fences = calloc(n->n_streams + 1, sizeof(*m->fences));
	if (!m->fences)
		return pr_error_set(err, "no memory");
	for (size_t i = 0; i < n->n_streams; i++)
		if (n->streams[i]->packet_stream && n->streams[i]->link_name &&
			strncmp(n->streams[i]->name, "packets.", 8) == 0)
			m->fences[m->fence_count++] = (struct prl_delete_fence){
				n->streams[i]->name, n->streams[i]->last_segment};
	return 0;
}

/* As much of it as the ledger takes: of a path the end. */
static const char *
moved_to(const struct data_args *a)
{
	const char *to = a->to ? a->to : a->to_volume ? a->to_volume : a->to_file;
	size_t len = strlen(to);

	return len > PR_NAME_MAX ? to + len - PR_NAME_MAX : to;
}

static int
delete_part(struct move *m, int64_t until, struct pr_error *err)
{
	struct data_deletion d = {
		.args = m->args,
		.name = m->from,
		.volume = m->args->volumes.count > 0,
		.order = {.since = m->args->since,
			.until = until,
			.at = pr_now_real(),
			.by = data_user(),
			.moved_to = moved_to(m->args),
			.fenced = true,
			.fences = m->fences,
			.fence_count = m->fence_count},
	};
	int rc = m->fence_count ? data_delete_run(&d, err) : 0;

	m->segments += d.sum.segments;
	return rc;
}

/* ---- a part ---- */

/* Where a part that begins at since may end: at until, or earlier with fewer packets. */
static int
part_end(const struct move *m, int64_t since, int64_t until, int64_t *end,
	struct pr_error *err)
{
	int64_t low, high;
	struct query_args q;
	uint64_t count;

	question(m, since, until, &q);
	*end = until;
	if (data_ask_count(&q, &count, err) < 0)
		return -1;
	if (count <= PART || !data_times(data_stock_node(m->stock, 0), &low, &high))
		return 0;
	low = since > low ? since : low;
	high = until < high ? until : high;
	while (high - low > 1 && (count > PART || count < PART / 4)) {
		int64_t middle = low + (high - low) / 2;

		question(m, since, middle, &q);
		if (data_ask_count(&q, &count, err) < 0)
			return -1;
		*(count > PART ? &high : &low) = middle;
		*end = middle;
	}
	return 0;
}

static int
copy_part(struct move *m, int64_t since, int64_t end, struct data_names *have,
	struct data_names *all, struct prm_trace_hash *there, struct prm_trace_hash *here,
	struct pr_error *err)
{
	char want[PRM_TRACE_HASH_TEXT];
	struct query_args from, to;
	uint64_t found;

	question(m, since, end, &from);
	data_place_question(m->place, &to);
	to.since = since;
	to.until = end;
	if (data_ask_names(&to, have, err) < 0 ||
		data_ask_copy(&from, have, m->place, all, here, &m->stored, err) < 0 ||
		data_place_flush(m->place, err) < 0 ||
		data_ask_verify(&to, all, there, &found, err) < 0)
		return -1;
	m->packets += all->count;
	prm_trace_hash_text(here, want);
	prm_trace_hash_text(there, m->hash);
	if (found == all->count && !strcmp(want, m->hash))
		return 0;
	return pr_error_set(err,
		"%zu packets were copied, and %" PRIu64 " are there (%s, and there %s): "
		"nothing of them is deleted",
		all->count, found, want, m->hash);
}

static int
move_part(struct move *m, int64_t since, int64_t end, struct pr_error *err)
{
	struct prm_trace_hash *there = prm_trace_hash_create(err),
			      *here = there ? prm_trace_hash_create(err) : NULL;
	struct data_names have = {0}, all = {0};
	int rc = here ? copy_part(m, since, end, &have, &all, there, here, err) : -1;

	data_names_free(&have);
	data_names_free(&all);
	prm_trace_hash_destroy(&there);
	prm_trace_hash_destroy(&here);
	return rc == 0 ? delete_part(m, end, err) : -1;
}

static int
move_parts(struct move *m, struct pr_error *err)
{
	int64_t since = m->args->since, end;
	Packrack__LinkInfo *const *links;
	size_t count;

	links = data_stock_links(m->stock, &count);
	m->place = data_place_open(m->args, links, count, err);
	if (!m->place)
		return -1;
	/* it borrows the links until it has told them */
	if (data_place_flush(m->place, err) < 0)
		return -1;
	do {
		if (set_fences(m, err) < 0 ||
			part_end(m, since, m->args->until, &end, err) < 0 ||
			move_part(m, since, end, err) < 0)
			return -1;
		since = end < PR_TIME_MAX ? end + 1 : end;
	} while (end < m->args->until);
	return 0;
}

/* ---- into a file ---- */

static int
move_to_file(struct move *m, struct pr_error *err)
{
	const char *path = m->args->to_file;
	char part[4096], want[PRM_TRACE_HASH_TEXT] = "";
	struct query_args q;
	uint64_t found;

	question(m, m->args->since, m->args->until, &q);
	snprintf(part, sizeof(part), "%s.part", path);
	q.write = part;
	if (data_ask_file(&q, want, &m->packets, err) < 0 ||
		data_file_read(part, m->hash, &found, err) < 0)
		return -1;
	if (found != m->packets || strcmp(want, m->hash) != 0)
		return pr_error_set(err,
			"%s has %" PRIu64 " packets (%s) where %" PRIu64
			" were written (%s): nothing is deleted",
			part, found, m->hash, m->packets, want);
	m->stored = m->packets;
	return data_file_keep(part, path, err) < 0 ? -1
						   : delete_part(m, m->args->until, err);
}

/* ---- all of it ---- */

static int
check_args(const struct data_args *a, struct pr_error *err)
{
	if (a->nodes.count + a->volumes.count != 1)
		return pr_error_set(err, "from where? one --node NAME, as packrack data "
					 "list names them, or one --volume PATH");
	if (!!a->to + !!a->to_volume + !!a->to_file != 1)
		return pr_error_set(err,
			"where to? one of --to NODE, --to-volume PATH and --to-file FILE");
	if (a->to && a->volumes.count)
		return pr_error_set(err,
			"--to NODE goes with --node NAME; a volume's packets go to "
			"--to-volume or --to-file");
	if ((a->to && !strcmp(a->to, a->nodes.items[0])) ||
		(a->to_volume && a->volumes.count &&
			!strcmp(a->to_volume, a->volumes.items[0])))
		return pr_error_set(err, "they lie there already");
	if (a->to_file && access(a->to_file, F_OK) == 0)
		return pr_error_set(err,
			"%s is there already, perhaps with packets that were moved: name "
			"another file",
			a->to_file);
	return 0;
}

/* What came meanwhile, where there is no end, is no part of it. */
static int
count_left(struct move *m, struct pr_error *err)
{
	struct query_args q;

	if (m->args->until == PR_TIME_MAX)
		return 0;
	question(m, m->args->since, m->args->until, &q);
	return data_ask_count(&q, &m->left, err);
}

static void
report(const struct move *m)
{
	struct render *r;

	if (m->args->json || m->args->keyvalue) {
		r = render_begin(stdout, m->args->json ? RENDER_JSON : RENDER_KEYVALUE);
		if (!r)
			return;
		render_uint(r, "packets", m->packets);
		render_uint(r, "copied", m->stored);
		render_uint(r, "deleted_segments", m->segments);
		render_string(r, "hash", m->hash);
		render_uint(r, "packets_left", m->left);
		render_end(&r);
		return;
	}
	printf("%s: %" PRIu64 " packets are there, %" PRIu64 " of them copied now; %" PRIu64
	       " segments deleted\n",
		m->from, m->packets, m->stored, m->segments);
	if (m->left)
		printf("  %" PRIu64 " of that time stay as well: they share a segment with "
		       "others, or came meanwhile\n",
			m->left);
}

static int
run(const struct data_args *a)
{
	struct move m = {.args = a,
		.from = a->volumes.count ? a->volumes.items[0] : a->nodes.items[0]};
	struct pr_error err = {""};
	int rc = set_fences(&m, &err);

	if (rc == 0)
		rc = a->to_file ? move_to_file(&m, &err) : move_parts(&m, &err);
	if (rc == 0 && (rc = count_left(&m, &err)) == 0)
		report(&m);
	data_place_close(&m.place);
	data_stock_free(&m.stock);
	free(m.fences);
	return rc == 0 ? CLI_OK : cli_fail(program.name, CLI_FAILED, &err);
}

int
data_move(int argc, char **argv)
{
	struct data_args a;
	struct pr_error err;
	int status = data_parse(&program, &a, argc, argv);

	if (status < 0 && check_args(&a, &err) < 0)
		status = cli_fail(program.name, CLI_USAGE, &err);
	if (status < 0)
		status = run(&a);
	pr_options_free(&program, &a);
	return status;
}
