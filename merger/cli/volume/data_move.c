/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "merger/cli/volume/data.h"
#include "merger/cli/volume/volume.h"
#include "proto/port/trace.h"
#include "proto/wire/segment.h"

/*
 * A move copies, asks the destination whether all packets are there, and only then deletes.
 * If it breaks off, each packet is in one place or in both, and answers give it once,
 * because link, epoch and seq stay the same. Only segments that were stored before the copy
 * began are deleted (fences). A move goes on in parts that fit in memory.
 */
#define PART 500000 /* packets of a part, at most */
#define LOOK_BYTES (256 * 1024) /* of a rebuild between two looks at the clock */

static const struct pr_option options[] = {DATA_WHERE_OPTIONS,
	PR_OPT_STRING(to, "to", 0, "NODE", "to this node"),
	PR_OPT_STRING(to_volume, "to-volume", 0, "VOLUME",
		"into this volume of this machine, which no program is writing"),
	PR_OPT_STRING(to_file, "to-file", 0, "FILE", "into this new trace file (pcapng)"),
	PR_OPT_FLAG(yes, "yes", 'y', "delete what was copied without asking")};

/* What packrack node rebuild has besides; see its section. */
struct rebuild {
	const char **nodes; /* that are connected */
	struct names *held; /* by each of them, in the present part */
	size_t count, source; /* source: the node that packets are copied from */
	size_t to; /* the node that they are copied to */
	uint64_t rate, read, looked; /* bytes */
	int64_t begun; /* monotonic */
	unsigned percent; /* of the time range is done */
	uint64_t only_there; /* packets that the node itself holds alone */
	struct progress progress;
	char text[128]; /* for the list of queries */
};

struct move {
	const struct data_args *args;
	const char *from;
	struct volume_writer writer; /* the destination: a volume, */
	/* or a node: a batch, and the links, which go with the first */
	struct pr_segment_builder builder;
	uint8_t *batch;
	Packrack__LinkInfo *const *links;
	size_t link_count;
	struct prl_delete_fence *fences;
	size_t fence_count;
	struct data_inventory stock; /* owns the names in the fences */
	uint64_t packets, stored, segments;
	char hash[PRM_TRACE_HASH_TEXT]; /* of the last part */
	uint64_t left; /* packets of the time range left at the source */
	/* the packets to move when it began, and how many of them could be copied */
	uint64_t total, old;
	int64_t begun;
	struct progress progress;
	struct rebuild *rebuild; /* NULL: it is a move */
};

/* ---- the destination, if it is no file ---- */

#define BATCH (512 * 1024)
/* longer than the merger's own limit, so that its error arrives */
#define STORE_NS (70 * PR_NS_PER_S)

/* The first len bytes of the batch, or ledgers; neither: all that was sent becomes durable. */
static int
send_batch(struct move *m, size_t len, const Packrack__Completeness *ledgers,
	struct pr_error *err)
{
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	Packrack__Envelope *reply;

	c.verb = "store";
	c.node = m->args->to;
	c.packets.data = m->batch;
	c.packets.len = len;
	c.copies = m->rebuild != NULL;
	c.links = (Packrack__LinkInfo **)m->links;
	c.n_links = m->link_count;
	if (ledgers)
		PR_COPY(&c, ledgers, ledgers, n_ledgers);
	if (cli_ask_command(&m->args->merger, &cli_merger, &c, STORE_NS, &reply, err) !=
		CLI_OK)
		return pr_error_prefix(err, "%s", m->args->to);
	pr_message_free(&reply);
	m->link_count = 0; /* told */
	return 0;
}

/* The links are borrowed until the destination was told of them. */
static int
begin_batches(struct move *m, struct pr_error *err)
{
	PR_COPY(m, &m->stock, links, link_count);
	m->batch = malloc(BATCH);
	if (!m->batch)
		return pr_error_set(err, "no memory for packets");
	pr_segment_begin(&m->builder, m->batch, BATCH, PR_SEGMENT_MIXED);
	return 0;
}

static int
send_gathered(struct move *m, struct pr_error *err)
{
	size_t len = pr_segment_seal(&m->builder);

	if (len && send_batch(m, len, NULL, err) < 0)
		return -1;
	pr_segment_begin(&m->builder, m->batch, BATCH, PR_SEGMENT_MIXED);
	return 0;
}

static int
store(struct move *m, const struct pr_packet *p, struct pr_error *err)
{
	if (m->writer.append) {
		if (prl_writer_put_packet(m->writer.append, p) == 0)
			return 0;
		const char *why = prl_writer_suspend_reason(m->writer.append);
		return pr_error_set(err, "%s: %s", m->args->to_volume,
			why ? why : "it does not accept the packet");
	}
	if (pr_segment_add(&m->builder, p))
		return 0;
	if (send_gathered(m, err) < 0)
		return -1;
	return pr_segment_add(&m->builder, p)
		       ? 0
		       : pr_error_set(err, "a packet of %u bytes is too long", p->caplen);
}

/* All that was stored is durable when it returns 0. */
static int
flush(struct move *m, struct pr_error *err)
{
	if (m->writer.append)
		return prl_writer_flush(m->writer.append, err);
	return send_gathered(m, err) < 0 ? -1 : send_batch(m, 0, NULL, err);
}

/* ---- asking ---- */

/* -1 unless the answer has all packets that the node or volume holds. */
static int
ask_all(struct sink *sink, struct pr_error *err)
{
	if (ask_query(sink, err) != CLI_OK)
		return -1;
	const Packrack__Completeness *c = sink->end->completeness;
	if (sink->end->cancelled || !c)
		return pr_error_set(err, "interrupted");
	for (size_t i = 0; i < c->n_nodes; i++)
		if (!c->nodes[i]->answered)
			return pr_error_set(
				err, "%s: %s", c->nodes[i]->node, c->nodes[i]->error);
	if (sink->end->corrupt_records)
		return pr_error_set(err,
			"%llu records cannot be read: packrack volume check names them",
			(unsigned long long)sink->end->corrupt_records);
	return 0;
}

static int
ask_each(const struct query_args *q,
	int (*take)(void *arg, const struct pr_packet *p, struct pr_error *err), void *arg,
	struct pr_error *err)
{
	struct sink sink;

	sink_init(&sink, q);
	sink.progress.terminal = false; /* a move has a line of its own */
	sink.take = take;
	sink.take_arg = arg;
	int rc = ask_all(&sink, err);
	sink_close(&sink);
	return rc;
}

int
data_ask_count(struct query_args q, uint64_t *count, struct pr_error *err)
{
	struct sink sink;

	q.count = true;
	sink_init(&sink, &q);
	int rc = ask_all(&sink, err);
	*count = rc == 0 ? sink.end->matched : 0;
	sink_close(&sink);
	return rc;
}

static struct query_args
of_source(const struct move *m, int64_t since, int64_t until)
{
	struct query_args q =
		data_question(m->args, &m->from, m->args->volumes.count, since, until);

	q.purpose = m->rebuild ? m->rebuild->text : NULL;
	return q;
}

/* ---- what may be deleted ---- */

#define FRESH_NS (5 * PR_NS_PER_S) /* a node reports every two seconds */
#define LOOK_MS 100

/*
 * Segments that are stored now, before the copy is asked for. The merger's list is as old as the node's last
 * report: waits for one that is newer than the call, for at most FRESH_NS.
 */
static int
set_fences(struct move *m, struct pr_error *err)
{
	int64_t now = pr_now_real(), deadline = pr_now_mono() + FRESH_NS;
	const Packrack__NodeStatus *n;

	for (;;) {
		data_inventory_free(&m->stock);
		if (data_inventory_get(&m->stock, m->args, err) < 0)
			return -1;
		n = m->stock.nodes[0];
		if (m->args->volumes.count || n->last_seen >= now ||
			pr_now_mono() >= deadline)
			break;
		poll(NULL, 0, LOOK_MS);
	}
	free(m->fences);
	m->fence_count = 0;
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

static int
delete_part(struct move *m, int64_t until, struct pr_error *err)
{
	const struct data_args *a = m->args;
	const char *to = a->to ? a->to : a->to_volume ? a->to_volume : a->to_file;
	size_t len = strlen(to);
	struct data_deletion d = {.args = a,
		.name = m->from,
		/* as the ledger stores it: of a long path only the end */
		.order = {.until = until,
			.moved_to = len > PR_NAME_MAX ? to + len - PR_NAME_MAX : to,
			.fenced = true,
			.fences = m->fences,
			.fence_count = m->fence_count}};
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
	struct rebuild *rebuild; /* its pace is kept; or NULL */
};

struct part {
	struct move *move;
	/* packets at the destination before; all that are to be there */
	struct names have, all;
	/* of all, as read at the source, at the destination */
	struct prm_trace_hash *here, *there;
	uint64_t found;
};

static struct pr_packet
named(const struct name *n)
{
	return (struct pr_packet){
		.otime = n->otime, .epoch = n->epoch, .seq = n->seq, .link = n->link};
}

/* Is the packet one of these? Call with packets in order. */
static bool
among(struct names *names, const struct pr_packet *p)
{
	for (; names->at < names->count; names->at++) {
		const struct name *n = &names->items[names->at];
		const struct pr_packet held = named(n);
		int order = pr_packet_compare(&held, p);

		if (order >= 0)
			return order == 0;
	}
	return false;
}

/* Holds the rebuild to its rate. */
static void
pace(struct rebuild *r, const struct pr_packet *p)
{
	if (!r || (r->read += p->caplen) - r->looked < LOOK_BYTES)
		return;
	r->looked = r->read;
	if (progress_due(&r->progress))
		progress_show(
			&r->progress, &(struct progress_state){r->nodes[r->to],
					      "bytes read", r->read, r->percent, 100});
	int64_t early =
		r->rate ? r->begun + (int64_t)((double)r->read / (double)r->rate * 1e9) -
				  pr_now_mono()
			: 0;
	if (early > 0)
		poll(NULL, 0, (early / PR_NS_PER_MS) + 1);
}

/* Does no other node hold the packet of this one? Call with packets in order. */
static bool
is_alone(struct rebuild *r, size_t node, const struct pr_packet *p)
{
	bool alone = true;

	for (size_t i = 0; i < r->count; i++)
		alone &= i == node || !among(&r->held[i], p);
	return alone;
}

/* The three passes over a part's packets: at the destination, at the source, at the destination. */
static int
note(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct names *names = arg;

	pace(names->rebuild, p);
	if (PR_ARRAY_GROW(names->items, names->count) < 0)
		return pr_error_set(err, "no memory for %zu packets", names->count);
	names->items[names->count++] = (struct name){p->otime, p->epoch, p->seq, p->link};
	return 0;
}

static int
copy(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct part *part = arg;
	struct move *m = part->move;

	pace(m->rebuild, p);
	if (m->rebuild && !is_alone(m->rebuild, m->rebuild->source, p))
		return 0;
	if (note(&part->all, p, err) < 0)
		return -1;
	prm_trace_hash_add(part->here, p);
	m->old += p->time <= m->begun;
	if (part->all.count % 4096 == 0 && progress_due(&m->progress))
		progress_show(
			&m->progress, &(struct progress_state){m->from, "packets",
					      m->packets + part->all.count,
					      m->packets + part->all.count, m->total});
	if (among(&part->have, p))
		return 0;
	m->stored++;
	return store(m, p, err);
}

static int
verify(void *arg, const struct pr_packet *p, PR_UNUSED struct pr_error *err)
{
	struct part *part = arg;

	if (among(&part->all, p)) {
		prm_trace_hash_add(part->there, p);
		part->found++;
	}
	return 0;
}

/* Where a part that begins at since may end: at until, or earlier with fewer packets. *packets: in it. */
static int
part_end(const struct move *m, int64_t since, int64_t until, int64_t *end,
	struct pr_error *err)
{
	const Packrack__NodeStatus *n = m->stock.nodes[0];
	int64_t low = since > n->first_time ? since : n->first_time;
	int64_t high = until < n->last_time ? until : n->last_time;
	uint64_t count;

	*end = until;
	if (data_ask_count(of_source(m, since, until), &count, err) < 0)
		return -1;
	if (count <= PART)
		return 0;
	while (high - low > 1 && (count > PART || count < PART / 4)) {
		int64_t middle = low + (high - low) / 2;

		if (data_ask_count(of_source(m, since, middle), &count, err) < 0)
			return -1;
		*(count > PART ? &high : &low) = middle;
	}
	*end = low;
	return 0;
}

static int
move_part(struct move *m, int64_t since, int64_t end, struct pr_error *err)
{
	const struct data_args *a = m->args;
	const char *place = a->to ? a->to : a->to_volume;
	struct query_args from = of_source(m, since, end);
	struct query_args to = data_question(a, &place, !a->to, since, end);
	struct part part = {.move = m,
		.here = prm_trace_hash_create(err),
		.there = prm_trace_hash_create(err)};
	char want[PRM_TRACE_HASH_TEXT];
	int rc = -1;

	if (part.here && part.there && ask_each(&to, note, &part.have, err) == 0 &&
		ask_each(&from, copy, &part, err) == 0 && flush(m, err) == 0 &&
		ask_each(&to, verify, &part, err) == 0) {
		m->packets += part.all.count;
		prm_trace_hash_text(part.here, want);
		prm_trace_hash_text(part.there, m->hash);
		rc = part.found == part.all.count && !strcmp(want, m->hash)
			     ? 0
			     : pr_error_set(err,
				       "copied %zu packets (hash %s), but the destination "
				       "has %" PRIu64
				       " (hash %s): nothing was deleted; check the "
				       "destination and repeat the command",
				       part.all.count, want, part.found, m->hash);
	}
	free(part.have.items);
	free(part.all.items);
	prm_trace_hash_destroy(&part.here);
	prm_trace_hash_destroy(&part.there);
	return rc < 0 || m->rebuild ? rc : delete_part(m, end, err);
}

static int
move_parts(struct move *m, struct pr_error *err)
{
	const struct data_args *a = m->args;
	int64_t since = a->since, end;

	if (begin_batches(m, err) < 0 ||
		(!a->to &&
			volume_writer_open(&m->writer, a->to_volume, false, true, err) < 0))
		return -1;
	for (size_t i = 0; !a->to && i < m->link_count; i++) {
		const Packrack__LinkInfo *from = m->links[i];
		struct pr_ledger_entry e = prl_link_entry(
			from->epoch, from->link, from->linktype, from->snaplen, from->name);

		prl_writer_tell(m->writer.append, &e);
	}
	if (flush(m, err) < 0)
		return -1;
	progress_begin(&m->progress);
	m->begun = pr_now_real();
	end = a->until < m->begun ? a->until : m->begun;
	if (data_ask_count(of_source(m, since, end), &m->total, err) < 0)
		return -1;
	do {
		if (set_fences(m, err) < 0 || part_end(m, since, a->until, &end, err) < 0 ||
			move_part(m, since, end, err) < 0)
			return -1;
		since = end < PR_TIME_MAX ? end + 1 : end;
	} while (end < a->until);
	return 0;
}

/* ---- into a file ---- */

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

	pr_close(fd);
	if (rc < 0 || link(part, path) < 0)
		return pr_error_errno(err, "%s", path);
	unlink(part);
	PR_PRINT(folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = fd < 0 ? -1 : fsync(fd);
	pr_close(fd);
	return rc < 0 ? pr_error_errno(err, "%s", folder) : 0;
}

static int
move_to_file(struct move *m, struct pr_error *err)
{
	const char *path = m->args->to_file;
	char part[4096], want[PRM_TRACE_HASH_TEXT] = "";
	struct query_args q = of_source(m, m->args->since, m->args->until);
	struct sink sink;
	uint64_t found;

	PR_PRINT(part, "%s.part", path);
	q.write = part;
	sink_init(&sink, &q);
	int rc = ask_all(&sink, err) < 0 ? -1 : sink_finish(&sink, err);
	if (rc == 0)
		prm_trace_hash_of(sink.trace, want);
	m->packets = m->stored = sink.packets;
	sink_close(&sink);
	if (rc < 0 || data_file_read(part, m->hash, &found, err) < 0)
		return -1;
	if (found != m->packets || strcmp(want, m->hash) != 0)
		return pr_error_set(err,
			"%s has %" PRIu64 " packets (hash %s), but %" PRIu64
			" were written (hash %s): nothing was deleted",
			part, found, m->hash, m->packets, want);
	return data_file_keep(part, path, err) < 0 ? -1
						   : delete_part(m, m->args->until, err);
}

/* ---- all of it ---- */

static int
check_args(const struct data_args *a, struct pr_error *err)
{
	const struct pr_string_list *nodes = &a->nodes, *volumes = &a->volumes;

	if (data_check(a, err) < 0 ||
		CLI_CHECK(err,
			{nodes->count + volumes->count != 1,
				"no source given: use one --node NAME or one --volume "
				"VOLUME"},
			{!!a->to + !!a->to_volume + !!a->to_file != 1,
				"no destination given: use one of --to NODE, --to-volume "
				"PATH and --to-file FILE"},
			{a->to && volumes->count,
				"--to NODE goes with --node NAME; a volume's packets go to "
				"--to-volume or --to-file"},
			{(a->to && nodes->count && !strcmp(a->to, nodes->items[0])) ||
					(a->to_volume && volumes->count &&
						!strcmp(a->to_volume, volumes->items[0])),
				"source and destination are the same"}) < 0)
		return -1;
	if (a->to_file && access(a->to_file, F_OK) == 0)
		return pr_error_set(err,
			"%s exists already, perhaps with packets that were moved: name "
			"another file",
			a->to_file);
	return 0;
}

static void
report(const struct move *m, uint64_t overwritten)
{
	struct render *r = cli_render(m->args->json, m->args->keyvalue, NULL);

	if (r) {
		RENDER_UINTS(r, {"packets", m->packets}, {"copied", m->stored},
			{"deleted_segments", m->segments});
		render_string(r, "hash", m->hash);
		RENDER_UINTS(
			r, {"packets_left", m->left}, {"packets_overwritten", overwritten});
		render_end(&r);
		return;
	}
	printf("%s: %" PRIu64 " packets are there, %" PRIu64 " of them copied now; %" PRIu64
	       " segments deleted\n",
		m->from, m->packets, m->stored, m->segments);
	if (m->left)
		printf("  %" PRIu64 " packets of the time range remain at the source: they "
		       "share a segment with packets outside the range, or "
		       "were stored during the move\n",
			m->left);
	if (overwritten)
		printf("  %" PRIu64 " packets were overwritten by recording before they "
		       "could be copied\n",
			overwritten);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	const struct data_args *a = call->values;
	struct move m = {.args = a};

	if (check_args(a, err) < 0)
		return CLI_USAGE;
	m.from = a->volumes.count ? a->volumes.items[0] : a->nodes.items[0];
	int rc = set_fences(&m, err);
	if (rc == 0 && data_confirm(a, &m.stock, err) < 0)
		rc = CLI_USAGE;
	if (rc == 0)
		rc = a->to_file ? move_to_file(&m, err) : move_parts(&m, err);
	/* without --until nothing is counted: new packets are not part of the move */
	if (rc == 0 && a->until != PR_TIME_MAX)
		rc = data_ask_count(of_source(&m, a->since, a->until), &m.left, err);
	progress_end(&m.progress);
	if (rc == 0)
		report(&m, m.total > m.old ? m.total - m.old : 0);
	if (rc == 0 && m.total > m.old)
		rc = CLI_PARTIAL;
	volume_writer_close(&m.writer);
	free(m.batch);
	data_inventory_free(&m.stock);
	free(m.fences);
	return rc;
}

const struct cli_command data_move_command = {"move",
	"move packets of a node (all, or a time range) to another place, verifying the "
	"copy first",
	.summary = "Moves packets of a node (all, or a time range) to another place, "
		   "verifying the copy before it deletes them.",
	.usage = "--node NAME|--volume VOLUME --to NODE|--to-volume VOLUME|--to-file FILE "
		 "[--since TIME] [--until TIME] [--yes]",
	PR_OPTIONS(options),
	.footer = "An interrupted move loses nothing: repeat the command to finish it. A "
		  "segment that\nreaches beyond the time range also remains at the source; "
		  "answers give each packet\nonce.",
	.call = run};

/* ---- packrack node rebuild ---- */

/*
 * Packets that one node alone holds are copied to another node, in parts of the time range. In each part, all nodes
 * say what they hold. What no other has is then copied from each, and verified, as a move does it; nothing is deleted.
 * What is there counts as held, so a rebuild that broke off continues where it was.
 */
#define SETTLED_NS (5 * PR_NS_PER_S) /* the dispatcher's own copies are stored by then */

static const struct pr_option rebuild_options[] = {
	CLI_TIME_OPTIONS(),
	PR_OPT_SIZE(rate, "rate", 0, "SIZE", 0, INT64_MAX,
		"read at most this much a second (0: no limit)", .def = "100M"),
	CLI_MERGER_OPTION(merger.endpoint, "the rack's merger"),
	CLI_KEY_OPTION(merger.key),
	CLI_FORM_OPTIONS(),
};

static uint64_t
count_alone(struct rebuild *r, size_t node)
{
	uint64_t alone = 0;

	for (size_t i = 0; i < r->count; i++)
		r->held[i].at = 0;
	for (size_t i = 0; i < r->held[node].count; i++) {
		struct pr_packet p = named(&r->held[node].items[i]);

		alone += is_alone(r, node, &p);
	}
	for (size_t i = 0; i < r->count; i++)
		r->held[i].at = 0;
	return alone;
}

static int
rebuild_part(struct move *m, int64_t since, int64_t end, struct pr_error *err)
{
	struct rebuild *r = m->rebuild;
	int rc = 0;

	for (size_t i = 0; i < r->count && rc == 0; i++) {
		r->held[i].count = 0;
		m->from = r->nodes[i];
		struct query_args q = of_source(m, since, end);
		rc = ask_each(&q, note, &r->held[i], err);
	}
	for (r->source = 0; r->source < r->count && rc == 0; r->source++) {
		uint64_t alone = count_alone(r, r->source);

		m->from = r->nodes[r->source];
		if (r->source == r->to)
			r->only_there += alone;
		else if (alone)
			rc = move_part(m, since, end, err);
	}
	return rc;
}

/* Takes the nodes that are connected; the first in stock becomes the one that holds most. */
static int
rebuild_nodes(struct move *m, struct pr_error *err)
{
	struct rebuild *r = m->rebuild;
	struct data_inventory *stock = &m->stock;

	r->nodes = calloc(stock->count + 1, sizeof(*r->nodes));
	r->held = calloc(stock->count + 1, sizeof(*r->held));
	r->to = SIZE_MAX;
	if (!r->nodes || !r->held)
		return pr_error_set(err, "no memory for %zu nodes", stock->count);
	for (size_t i = 0; i < stock->count; i++) {
		const Packrack__NodeStatus *n = stock->nodes[i];

		if (!n->connected) {
			fprintf(stderr, "packrack: %s is gone: its packets do not count\n",
				n->name);
			continue;
		}
		if (!strcmp(n->name, m->args->to))
			r->to = r->count;
		r->held[r->count].rebuild = r;
		r->nodes[r->count++] = n->name;
		if (n->packets > stock->nodes[0]->packets || !stock->nodes[0]->connected) {
			stock->nodes[i] = stock->nodes[0];
			stock->nodes[0] = n;
		}
	}
	if (r->to == SIZE_MAX)
		return pr_error_set(err,
			"no node %s is connected: 'packrack data list' shows the nodes",
			m->args->to);
	return 0;
}

/* Copies must not push out what the node has recorded. */
static int
check_room(const struct move *m, struct pr_error *err)
{
	struct data_args a = *m->args;
	struct data_inventory inv;

	a.nodes = (struct pr_string_list){&a.to, 1};
	int rc = data_inventory_get(&inv, &a, err);
	if (rc == 0 && inv.nodes[0]->volume_used >= inv.nodes[0]->volume_bytes / 100 * 95)
		rc = pr_error_set(err,
			"%s: its volume is full to 95 %%: copies would overwrite what it "
			"has recorded",
			a.to);
	data_inventory_free(&inv);
	return rc;
}

/* Nodes that are lost took their ledgers with them: the new one gets those of all epochs that are over. */
static int
copy_ledgers(struct move *m, struct pr_error *err)
{
	struct query_args q = data_question(
		m->args, m->rebuild->nodes, false, PR_TIME_MIN, m->args->until);
	struct sink sink;

	q.nodes.count = m->rebuild->count;
	q.count = true;
	sink_init(&sink, &q);
	int rc = ask_all(&sink, err) < 0 ? -1
					 : send_batch(m, 0, sink.end->completeness, err);
	sink_close(&sink);
	return rc;
}

static int
rebuild_parts(struct move *m, struct pr_error *err)
{
	const struct data_args *a = m->args;
	struct rebuild *r = m->rebuild;
	int64_t oldest = m->stock.nodes[0]->first_time; /* 0: there is no packet */
	int64_t newest = m->stock.nodes[0]->last_time, since = a->since, end, done;

	if (begin_batches(m, err) < 0)
		return -1;
	/* also what an earlier rebuild, which was killed, had sent */
	if (flush(m, err) < 0 || copy_ledgers(m, err) < 0)
		return -1;
	do {
		done = newest && since > oldest ? since - oldest : 0;
		r->percent = 100.0 * (double)done / (double)(newest - oldest + 1);
		PR_PRINT(r->text, "(rebuild of %s: %u %%, %" PRIu64 " packets copied)",
			a->to, r->percent, m->stored);
		m->from = m->stock.nodes[0]->name;
		if (check_room(m, err) < 0 || part_end(m, since, a->until, &end, err) < 0 ||
			rebuild_part(m, since, end, err) < 0)
			return -1;
		since = end + 1;
	} while (end < a->until);
	return 0;
}

static void
rebuild_report(const struct move *m)
{
	struct render *out = cli_render(m->args->json, m->args->keyvalue, NULL);
	const struct rebuild *r = m->rebuild;

	if (out) {
		render_string(out, "node", m->args->to);
		RENDER_UINTS(out, {"nodes", r->count}, {"bytes_read", r->read},
			{"copied", m->stored}, {"only_there", r->only_there});
		render_end(&out);
		return;
	}
	printf("%s: %" PRIu64
	       " packets were copied to it; now two of %zu nodes hold each\n",
		m->args->to, m->stored, r->count);
	if (r->only_there)
		printf("  %" PRIu64 " packets are on %s only: rebuild another node\n",
			r->only_there, m->args->to);
}

static int
run_rebuild(const struct cli_call *call, struct pr_error *err)
{
	struct data_args a = *(const struct data_args *)call->values;
	struct rebuild r = {.rate = a.rate, .begun = pr_now_mono()};
	struct move m = {.args = &a, .rebuild = &r};
	int64_t now = pr_now_real();

	a.to = call->operands[0];
	a.until = a.until < now ? a.until : now;
	if (data_check(&a, err) < 0)
		return CLI_USAGE;
	while (a.until > pr_now_real() - SETTLED_NS)
		poll(NULL, 0, LOOK_MS);
	progress_begin(&r.progress);
	int rc = data_inventory_get(&m.stock, &a, err) < 0 || rebuild_nodes(&m, err) < 0
			 ? -1
			 : rebuild_parts(&m, err);
	progress_end(&r.progress);
	if (rc == 0) {
		rebuild_report(&m);
		rc = r.only_there ? CLI_PARTIAL : CLI_OK;
	}
	for (size_t i = 0; r.held && i < r.count; i++)
		free(r.held[i].items);
	free(r.held);
	free(r.nodes);
	free(m.batch);
	data_inventory_free(&m.stock);
	return rc;
}

const struct cli_command node_rebuild_command = {"rebuild",
	"copy packets to it that only one other node holds",
	.summary = "Copies packets to a node that only one other node holds, as after the "
		   "loss of a node.",
	.usage = "NAME [options]", PR_OPTIONS(rebuild_options),
	.footer = "For a rack whose dispatcher sends each packet to two nodes (--copies "
		  "2). Recording goes on.\n"
		  "'packrack queries list' shows how far it is. After an interruption, "
		  "repeat the command to\n"
		  "finish.\n" CLI_STATUSES,
	.operands = 1, .call = run_rebuild, .values = &(struct data_args)DATA_ARGS};
