/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/direct_link.h"

void
prl_direct_link_begin(struct prl_direct_link *m, struct prl_volume_writer *append,
	uint64_t epoch, uint16_t link, const char *name, int linktype, uint32_t snaplen)
{
	struct pr_ledger_entry e = prl_link_entry(epoch, link, linktype, snaplen, name);

	*m = (struct prl_direct_link){.append = append};
	m->mark.epoch = epoch;
	m->observation.link = link;
	m->mark.link = (struct pr_mark_link){.link = link,
		.linktype = linktype,
		.snaplen = snaplen,
		.last_otime = PR_TIME_MIN};
	memcpy(m->mark.link.name, e.u.link.name, sizeof(e.u.link.name));
	prl_writer_keep(append, &e);
}

void
prl_direct_link_packet(struct prl_direct_link *m, int64_t time, const uint8_t *data,
	uint32_t caplen, uint32_t len)
{
	struct pr_mark_link *link = &m->mark.link;
	struct pr_packet p = {.time = time,
		.epoch = m->mark.epoch,
		.link = link->link,
		.linktype = link->linktype,
		.data = data,
		.caplen = caplen,
		.len = len};

	link->last_otime = PR_MAX(link->last_otime, time);
	if (m->packets == 0 || time < m->earliest)
		m->earliest = time;
	m->last_time = time;
	p.otime = link->last_otime;
	p.seq = ++link->last_seq;
	link->assigned++;
	m->packets++;
	m->refused += prl_writer_put_packet(m->append, &p) != 0;
}

void
prl_direct_link_say(struct prl_direct_link *m, int64_t said_until, bool ended)
{
	struct pr_ledger_mark mark = m->mark;

	prl_writer_tell_observation(m->append, mark.epoch, &m->told, &m->observation);
	mark.said_until = said_until;
	mark.stopping = ended;
	mark.link.ended = ended;
	if (mark.link.last_seq == 0)
		mark.link.last_otime = 0;
	prl_writer_put_mark(m->append, &mark);
}

int
prl_ledger_each(struct sfs *sfs, void (*take)(void *arg, const struct pr_ledger_entry *e),
	void *arg, struct pr_error *err)
{
	int stream = sfs_stream_find(sfs, "ledger"), result;
	struct sfs_record record;

	if (stream < 0)
		return 0;
	struct sfs_cursor *cursor = sfs_cursor_open(sfs, stream, NULL, err);
	if (!cursor)
		return -1;
	/*
	 * Skips records that are overwritten, deleted or damaged; their links' names begin
	 * anew.
	 */
	while ((result = sfs_cursor_next(cursor, &record, err)) == 1 ||
		result == SFS_EXPIRED || result == SFS_CORRUPT || result == SFS_DELETED) {
		struct pr_cursor c =
			pr_cursor_make(record.body, result == 1 ? record.length : 0);
		struct pr_ledger_entry e;

		while (pr_ledger_load(&c, &e) == 1)
			take(arg, &e);
	}
	sfs_cursor_close(&cursor);
	return result < 0 ? -1 : 0;
}

struct link_search {
	char name[PR_NAME_MAX + 1];
	int found, highest;
};

static void
look_for_link(void *arg, const struct pr_ledger_entry *e)
{
	struct link_search *s = arg;
	int link = e->u.link.link;

	if (e->type != PR_LEDGER_LINK)
		return;
	if (link < PR_STREAM_CLASSES && link > s->highest)
		s->highest = link;
	if (!strcmp(e->u.link.name, s->name))
		s->found = link;
}

int
prl_direct_link_link_number(
	struct sfs *sfs, const char *name, int from, struct pr_error *err)
{
	struct link_search s = {.found = -1, .highest = from - 1};
	struct sfs_stream_info info;
	int link;

	PR_PRINT(s.name, "%s", name);
	if (prl_ledger_each(sfs, look_for_link, &s, err) < 0)
		return -1;
	/* packets may outlive the entry that has their link's name */
	for (size_t i = 0; sfs_stream_info(sfs, i, &info, NULL) == SFS_OK; i++)
		if (sscanf(info.name, "packets.%d", &link) == 1 && info.last_sequence &&
			link < PR_STREAM_CLASSES && link > s.highest)
			s.highest = link;
	if (s.found < 0 && s.highest + 1 >= PR_STREAM_CLASSES)
		return pr_error_set(err,
			"the volume has links up to number %d: give --link", s.highest);
	return s.found >= 0 ? s.found : s.highest + 1;
}
