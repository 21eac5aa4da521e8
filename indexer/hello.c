/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/hello.h"

#include <stdlib.h>

#include "indexer/query/inventory.h"

struct pri_hello_message {
	Packrack__Hello hello;
	Packrack__NodeStatus status;
	uint64_t behind;
	struct sfs_volume_info volume;
	char note[SFS_NOTE_BYTES];
	Packrack__LinkInfo *links;
	Packrack__LinkInfo **pointers;
	struct pri_inventory *stock;
};

void
pri_hello_link(Packrack__LinkInfo *out, const struct pri_series_ledger *facts)
{
	packrack__link_info__init(out);
	out->epoch = facts->epoch;
	out->link = facts->link;
	out->linktype = facts->have_link ? facts->info.linktype : facts->mark.link.linktype;
	out->snaplen = facts->have_link ? facts->info.snaplen : facts->mark.link.snaplen;
	out->name = (char *)pri_series_ledger_name(facts);
	out->speed = facts->speed;
}

/* The book is sorted by epoch, and epochs begin with their start time: the newest are last. */
static int
fill_links(struct pri_hello_message *m, const struct pri_ledger_view *book)
{
	size_t first =
		book->count > PRI_HELLO_LINKS_MAX ? book->count - PRI_HELLO_LINKS_MAX : 0;
	size_t n = 0;

	m->links = calloc(book->count - first + 1, sizeof(*m->links));
	m->pointers = calloc(book->count - first + 1, sizeof(*m->pointers));
	if (!m->links || !m->pointers)
		return -1;
	for (size_t i = first; i < book->count; i++) {
		if (!book->facts[i]->have_mark && !book->facts[i]->have_link)
			continue;
		pri_hello_link(&m->links[n], book->facts[i]);
		m->pointers[n] = &m->links[n];
		n++;
	}
	m->hello.links = m->pointers;
	m->hello.n_links = n;
	return 0;
}

/*
 * The logger's note goes out as it is; but the merger refuses messages with control bytes, and a
 * damaged note must not make the node vanish.
 */
static void
clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
}

static void
fill_status(struct pri_hello_message *m, struct pri_volume *view)
{
	const struct pri_catalog *catalog = pri_volume_catalog(view);
	Packrack__NodeStatus *s = &m->status;
	struct pri_volume_stats figures;

	pri_volume_stats(view, &figures);
	s->segments = catalog->segments;
	s->packets = catalog->packets;
	s->bytes = catalog->bytes;
	pri_catalog_times(catalog, &s->first_time, &s->last_time);
	if (m->behind > figures.unlisted)
		figures.unlisted = m->behind;
	s->indexed_lag_bytes =
		catalog->segments ? figures.unlisted * (catalog->bytes / catalog->segments)
				  : 0;
	s->missing = pri_volume_ledger(view)->missing;
	if (sfs_info(pri_volume_sfs(view), &m->volume, NULL) == 0) {
		m->hello.volume = m->volume.uuid;
		s->volume_bytes = m->volume.blocks * m->volume.block_size;
		s->volume_used = m->volume.blocks_used * m->volume.block_size;
		s->writer_alive = m->volume.writer_alive;
	}
	if (sfs_note_get(pri_volume_sfs(view), m->note, sizeof(m->note))) {
		m->note[sizeof(m->note) - 1] = 0;
		clean(m->note);
		s->logger = m->note;
	}
}

struct pri_hello_message *
pri_hello_create(
	struct pri_volume *view, const struct pri_hello_input *facts, struct pr_error *err)
{
	struct pri_hello_message *m = calloc(1, sizeof(*m));

	if (!m) {
		pr_error_set(err, "no memory");
		return NULL;
	}
	packrack__hello__init(&m->hello);
	packrack__node_status__init(&m->status);
	m->hello.name = (char *)facts->name;
	m->hello.version = (char *)PACKRACK_VERSION;
	m->hello.boot = facts->boot;
	m->behind = facts->behind;
	m->hello.status = &m->status;
	m->status.name = (char *)facts->name;
	m->status.queries = facts->queries;
	m->status.queries_running = facts->queries_running;
	if (view) {
		fill_status(m, view);
		m->stock = pri_inventory_create(view);
		if (m->stock)
			pri_inventory_put(m->stock, &m->status);
		if (!m->stock || fill_links(m, pri_volume_ledger(view)) < 0) {
			pr_error_set(err, "no memory");
			pri_hello_destroy(&m);
		}
	}
	return m;
}

void
pri_hello_destroy(struct pri_hello_message **hello)
{
	if (*hello) {
		free((*hello)->links);
		free((*hello)->pointers);
		pri_inventory_destroy(&(*hello)->stock);
		free(*hello);
	}
	*hello = NULL;
}

Packrack__Hello *
pri_hello_message(struct pri_hello_message *hello)
{
	return &hello->hello;
}

Packrack__NodeStatus *
pri_hello_status(struct pri_hello_message *hello)
{
	return &hello->status;
}
