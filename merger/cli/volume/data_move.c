/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logger/volume_writer.h"
#include "merger/cli/cli.h"
#include "merger/cli/query/ask.h"
#include "merger/cli/query/query_args.h"
#include "merger/cli/query/answer_sink.h"
#include "merger/cli/volume/data.h"
#include "merger/cli/volume/volume.h"
#include "merger/trace_writer.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/error.h"
#include "proto/port/trace.h"
#include "proto/wire/segment.h"
#include "proto/wire/source.h"

/* What is in the file, read anew: how many packets, and their hash. */
static int
data_file_read(const char *path, char hash[PRM_TRACE_HASH_TEXT], uint64_t *packets,
	struct pr_error *err)
{
	struct prm_trace_hash *h = prm_trace_hash_create(err);
	struct pr_trace *file = h ? pr_trace_open(path, err) : NULL;
	struct pr_packet p;
	int rc = PR_SOURCE_ERROR;

	*packets = 0;
	while (file && (rc = pr_trace_next(file, &p, err)) == PR_SOURCE_PACKET) {
		prm_trace_hash_add(h, &p);
		++*packets;
	}
	if (rc == PR_SOURCE_END)
		prm_trace_hash_text(h, hash);
	pr_trace_close(&file);
	prm_trace_hash_destroy(&h);
	return rc == PR_SOURCE_END ? 0 : -1;
}

/*
 * Makes the file durable under its final name, which must not exist. Packets may be
 * deleted only after that.
 */
static int
data_file_keep(const char *part, const char *path, struct pr_error *err)
{
	char folder[4096];
	const char *slash = strrchr(path, '/');
	int fd = open(part, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -1 : fsync(fd);

	if (fd >= 0)
		close(fd);
	if (rc < 0 || link(part, path) < 0)
		return pr_error_errno(err, "%s", path);
	unlink(part);
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
		slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = fd < 0 ? -1 : fsync(fd);
	if (fd >= 0)
		close(fd);
	return rc < 0 ? pr_error_errno(err, "%s", folder) : 0;
}

#define BATCH (512 * 1024)
#define STORE_NS                                                                           \
	(70 * PR_NS_PER_S) /* longer than the merger's own limit, so that its error arrives */

struct data_place {
	const struct data_args *args;
	struct volume_writer writer; /* a volume, */
	/* or a node: a batch, and what goes with the first */
	struct pr_segment_builder builder;
	uint8_t *batch;
	Packrack__LinkInfo *const *links;
	size_t link_count;
};

/* ---- a volume ---- */

static void
tell_link(struct prl_volume_writer *append, const Packrack__LinkInfo *from)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LINK,
		.u.link = {.epoch = from->epoch,
			.link = (uint16_t)from->link,
			.linktype = (uint16_t)from->linktype,
			.snaplen = from->snaplen}};

	snprintf(e.u.link.name, sizeof(e.u.link.name), "%s", from->name);
	prl_writer_tell(append, &e);
}

static int
open_volume(struct data_place *p, struct pr_error *err)
{
	struct volume_paths paths;
	int rc = volume_paths_parse(p->args->to_volume, &paths, err);

	if (rc == 0)
		rc = volume_writer_open(&p->writer, &paths, false, err);
	volume_paths_free(&paths);
	for (size_t i = 0; rc == 0 && i < p->link_count; i++)
		tell_link(p->writer.append, p->links[i]);
	return rc;
}

/* ---- a node ---- */

static int
send_batch(struct data_place *p, size_t len, struct pr_error *err)
{
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	Packrack__Envelope *reply;

	c.verb = (char *)"store";
	c.node = p->args->to;
	c.packets.data = p->batch;
	c.packets.len = len;
	c.links = (Packrack__LinkInfo **)p->links;
	c.n_links = p->link_count;
	if (cli_ask_command(&p->args->merger, &cli_merger, &c, STORE_NS, &reply, err) !=
		CLI_OK)
		return pr_error_prefix(err, "%s", p->args->to);
	pr_message_free(&reply);
	p->link_count = 0; /* told */
	return 0;
}

static int
send_gathered(struct data_place *p, struct pr_error *err)
{
	size_t len = pr_segment_seal(&p->builder);

	if (len && send_batch(p, len, err) < 0)
		return -1;
	pr_segment_begin(&p->builder, p->batch, BATCH, PR_SEGMENT_MIXED);
	return 0;
}

static int
open_node(struct data_place *p, struct pr_error *err)
{
	p->batch = malloc(BATCH);
	if (!p->batch)
		return pr_error_set(err, "no memory for packets");
	pr_segment_begin(&p->builder, p->batch, BATCH, PR_SEGMENT_MIXED);
	return 0;
}

/* ---- both ---- */

/* links: names of the packets' links, borrowed until the first flush. Close in any case. */
static int
data_place_open(struct data_place *p, const struct data_args *a,
	Packrack__LinkInfo *const *links, size_t count, struct pr_error *err)
{
	*p = (struct data_place){.args = a, .links = links, .link_count = count};
	return a->to ? open_node(p, err) : open_volume(p, err);
}

static void
data_place_close(struct data_place *p)
{
	volume_writer_close(&p->writer);
	free(p->batch);
}

static int
data_place_store(struct data_place *place, const struct pr_packet *p, struct pr_error *err)
{
	if (place->writer.append) {
		if (prl_writer_put_packet(place->writer.append, p) == 0)
			return 0;
		return pr_error_set(err, "%s: %s", place->args->to_volume,
			prl_writer_suspend_reason(place->writer.append)
				? prl_writer_suspend_reason(place->writer.append)
				: "it does not take a packet");
	}
	if (pr_segment_add(&place->builder, p))
		return 0;
	if (send_gathered(place, err) < 0)
		return -1;
	return pr_segment_add(&place->builder, p)
		       ? 0
		       : pr_error_set(err, "a packet of %u bytes is too long", p->caplen);
}

/* All that was stored is durable when it returns 0. */
static int
data_place_flush(struct data_place *p, struct pr_error *err)
{
	if (p->writer.append)
		return prl_writer_flush(p->writer.append, err);
	return send_gathered(p, err) < 0 ? -1 : send_batch(p, 0, err);
}

/* To ask it what it holds; time range and all else are the caller's. It borrows the args' texts. */
static void
data_place_question(const struct data_place *p, struct query_args *q)
{
	*q = (struct query_args){.merger = p->args->merger,
		.filter = (char *)"",
		.program = "packrack data move"};
	if (p->args->to)
		q->nodes = (struct pr_string_list){(char **)&p->args->to, 1};
	else
		q->volumes = (struct pr_string_list){(char **)&p->args->to_volume, 1};
}

/* ---- asking ---- */

/* -1 unless the answer has all packets that the node or volume holds. */
static int
check_end(const Packrack__End *end, struct pr_error *err)
{
	const Packrack__Completeness *c = end->completeness;

	if (end->cancelled || !c)
		return pr_error_set(err, "interrupted");
	for (size_t i = 0; i < c->n_nodes; i++)
		if (!c->nodes[i]->answered)
			return pr_error_set(
				err, "%s: %s", c->nodes[i]->node, c->nodes[i]->error);
	if (end->corrupt_records)
		return pr_error_set(err,
			"%llu records cannot be read: packrack volume check names them",
			(unsigned long long)end->corrupt_records);
	return 0;
}

/* sink: as sink_init has it, and who takes packets. */
static int
ask_all(const struct query_args *q, struct sink *sink, struct ask_answer *answer,
	struct pr_error *err)
{
	return ask_query(q, sink, answer, err) == ASK_DONE ? check_end(answer->end, err)
							   : -1;
}

static int
ask_each(const struct query_args *q,
	int (*take)(void *arg, const struct pr_packet *p, struct pr_error *err), void *arg,
	uint64_t *matched, struct pr_error *err)
{
	struct ask_answer answer = {.end = NULL};
	struct sink sink;
	int rc;

	sink_init(&sink, q);
	sink.take = take;
	sink.take_arg = arg;
	rc = ask_all(q, &sink, &answer, err);
	if (rc == 0 && matched)
		*matched = answer.end->matched;
	sink_close(&sink);
	ask_answer_free(&answer);
	return rc;
}

int
data_ask_count(const struct query_args *q, uint64_t *count, struct pr_error *err)
{
	struct query_args counting = *q;

	counting.count = true;
	return ask_each(&counting, NULL, NULL, count, err);
}

/* Into a new trace file, and its hash there. */
static int
data_ask_file(const struct query_args *q, char hash[PRM_TRACE_HASH_TEXT], uint64_t *packets,
	struct pr_error *err)
{
	struct ask_answer answer = {.end = NULL};
	struct sink sink;
	int rc;

	sink_init(&sink, q);
	rc = ask_all(q, &sink, &answer, err);
	if (rc == 0)
		rc = sink_finish(&sink, answer.end, err);
	if (rc == 0) {
		prm_trace_hash_of(sink.trace, hash);
		*packets = sink.packets;
	}
	sink_close(&sink);
	ask_answer_free(&answer);
	return rc;
}

/*
 * A move copies, asks the other place whether all of it is there, and only then deletes: what a break
 * leaves is in one place or in both, and answers give a packet once, as it keeps its name. Only segments
 * that were stored before the copy began are deleted (fences), and it goes on in parts that fit in memory.
 */
#define PART 500000 /* packets of a part, at most */

static const struct pr_option options[] = {
	DATA_WHERE_OPTIONS,
	PR_OPT_STRING(to, "to", 0, "NODE", "to this node"),
	PR_OPT_STRING(to_volume, "to-volume", 0, "VOLUME",
		"into this volume of this machine, which no program is writing"),
	PR_OPT_STRING(to_file, "to-file", 0, "FILE", "into this new trace file (pcapng)"),
};

static const struct pr_cmdline program = {.name = "packrack data move",
	.summary = "Moves packets of a node (all, or a time range) to another place, "
		   "verifying "
		   "the copy before it deletes them.",
	.usage = "--node NAME|--volume VOLUME --to NODE|--to-volume VOLUME|--to-file FILE "
		 "[--since TIME] [--until TIME]",
	PR_OPTIONS(options),
	.footer = "An interrupted move loses nothing: repeat the command to finish it. A "
		  "segment that\n"
		  "reaches beyond the time range also remains at the source; answers give "
		  "each packet\n"
		  "once."};

struct move {
	const struct data_args *args;
	const char *from;
	struct data_place place;
	struct prl_delete_fence *fences;
	size_t fence_count;
	struct data_inventory stock; /* the fences' names are its */
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

#define FRESH_NS (5 * PR_NS_PER_S) /* a node reports every two seconds */
#define LOOK_MS 100

/*
 * Waits for a report of the node that is newer than the call, for at most FRESH_NS: the
 * merger's list is as old as the last report.
 */
static int
ask_stock(struct move *m, struct pr_error *err)
{
	int64_t now = pr_now_real(), deadline = pr_now_mono() + FRESH_NS;

	for (;;) {
		data_inventory_free(&m->stock);
		if (data_inventory_get(&m->stock, m->args, err) < 0)
			return -1;
		if (m->args->volumes.count || m->stock.nodes[0]->last_seen >= now ||
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
	n = m->stock.nodes[0];
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

/* The destination as the ledger stores it: of a long path only the end. */
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

/* What identifies a packet, 32 bytes. Answers come in the order of these. */
struct name {
	int64_t otime;
	uint64_t epoch, seq;
	uint16_t link;
};

struct names {
	struct name *items;
	size_t count, at; /* at: items before it were passed by among() */
};

struct part {
	struct data_place *place;
	struct names have,
		all; /* packets at the destination before; all that are to be there */
	struct prm_trace_hash *here,
		*there; /* of all, as read at the source, at the destination */
	uint64_t stored, found;
};

static struct name
name_of(const struct pr_packet *p)
{
	return (struct name){p->otime, p->epoch, p->seq, p->link};
}

static int
compare(const struct name *a, const struct name *b)
{
	if (a->otime != b->otime)
		return a->otime < b->otime ? -1 : 1;
	if (a->link != b->link)
		return a->link < b->link ? -1 : 1;
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static int
note(struct names *names, const struct pr_packet *p, struct pr_error *err)
{
	if (PR_ARRAY_GROW(names->items, names->count) < 0)
		return pr_error_set(err, "no memory for %zu packets", names->count);
	names->items[names->count++] = name_of(p);
	return 0;
}

/* Is the packet one of these? Call with packets in order. */
static bool
among(struct names *names, const struct pr_packet *p)
{
	struct name name = name_of(p);
	int order = 1;

	while (names->at < names->count &&
		(order = compare(&names->items[names->at], &name)) < 0)
		names->at++;
	return names->at < names->count && order == 0;
}

/* The three passes over a part's packets: at the destination, at the source, at the destination. */
static int
note_have(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	return note(&((struct part *)arg)->have, p, err);
}

static int
copy(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct part *part = arg;

	if (note(&part->all, p, err) < 0)
		return -1;
	prm_trace_hash_add(part->here, p);
	if (among(&part->have, p))
		return 0;
	part->stored++;
	return data_place_store(part->place, p, err);
}

static int
verify(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct part *part = arg;

	(void)err;
	if (among(&part->all, p)) {
		prm_trace_hash_add(part->there, p);
		part->found++;
	}
	return 0;
}

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
	if (count <= PART || !data_times(m->stock.nodes[0], &low, &high))
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
copy_part(
	struct move *m, struct part *part, int64_t since, int64_t end, struct pr_error *err)
{
	char want[PRM_TRACE_HASH_TEXT];
	struct query_args from, to;

	question(m, since, end, &from);
	data_place_question(&m->place, &to);
	to.since = since;
	to.until = end;
	if (ask_each(&to, note_have, part, NULL, err) < 0 ||
		ask_each(&from, copy, part, NULL, err) < 0 ||
		data_place_flush(&m->place, err) < 0 ||
		ask_each(&to, verify, part, NULL, err) < 0)
		return -1;
	m->packets += part->all.count;
	m->stored += part->stored;
	prm_trace_hash_text(part->here, want);
	prm_trace_hash_text(part->there, m->hash);
	if (part->found == part->all.count && !strcmp(want, m->hash))
		return 0;
	return pr_error_set(err,
		"copied %zu packets (hash %s), but the destination has %" PRIu64
		" (hash %s): nothing was deleted; check the destination and repeat the "
		"command",
		part->all.count, want, part->found, m->hash);
}

static int
move_part(struct move *m, int64_t since, int64_t end, struct pr_error *err)
{
	struct part part = {.place = &m->place, .here = prm_trace_hash_create(err)};
	int rc = -1;

	if (part.here && (part.there = prm_trace_hash_create(err)))
		rc = copy_part(m, &part, since, end, err);
	free(part.have.items);
	free(part.all.items);
	prm_trace_hash_destroy(&part.here);
	prm_trace_hash_destroy(&part.there);
	return rc == 0 ? delete_part(m, end, err) : -1;
}

static int
move_parts(struct move *m, struct pr_error *err)
{
	int64_t since = m->args->since, end;

	if (data_place_open(&m->place, m->args, m->stock.links, m->stock.link_count, err) <
		0)
		return -1;
	/* it borrows the links until it has told them */
	if (data_place_flush(&m->place, err) < 0)
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
		return pr_error_set(
			err, "no source given: use one --node NAME or one --volume VOLUME");
	if (!!a->to + !!a->to_volume + !!a->to_file != 1)
		return pr_error_set(err, "no destination given: use one of --to NODE, "
					 "--to-volume PATH and --to-file FILE");
	if (a->to && a->volumes.count)
		return pr_error_set(err,
			"--to NODE goes with --node NAME; a volume's packets go to "
			"--to-volume or --to-file");
	if ((a->to && !strcmp(a->to, a->nodes.items[0])) ||
		(a->to_volume && a->volumes.count &&
			!strcmp(a->to_volume, a->volumes.items[0])))
		return pr_error_set(err, "source and destination are the same");
	if (a->to_file && access(a->to_file, F_OK) == 0)
		return pr_error_set(err,
			"%s exists already, perhaps with packets that were moved: name "
			"another file",
			a->to_file);
	return 0;
}

/* Without --until nothing is counted: new packets are not part of the move. */
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
		r = render_begin(stdout, cli_form(m->args->json, m->args->keyvalue));
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
		printf("  %" PRIu64
		       " packets of the time range remain at the source: they share a "
		       "segment with packets outside the range, or were stored during the "
		       "move\n",
			m->left);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	const struct data_args *a = call->values;
	struct move m = {.args = a};
	int rc;

	if (data_check(a, err) < 0 || check_args(a, err) < 0)
		return CLI_USAGE;
	m.from = a->volumes.count ? a->volumes.items[0] : a->nodes.items[0];
	rc = set_fences(&m, err);
	if (rc == 0)
		rc = a->to_file ? move_to_file(&m, err) : move_parts(&m, err);
	if (rc == 0 && (rc = count_left(&m, err)) == 0)
		report(&m);
	data_place_close(&m.place);
	data_inventory_free(&m.stock);
	free(m.fences);
	return rc == 0 ? CLI_OK : CLI_FAILED;
}

int
data_move(int argc, char **argv)
{
	struct data_args a = DATA_ARGS;

	return cli_run(&program, &a, 0, argc, argv, run);
}
