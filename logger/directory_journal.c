/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/directory_journal.h"

#include <stdlib.h>

#include "logger/journal.h"
#include "proto/base/clock.h"

/*
 * Each record costs a sector of the volume when it is flushed, and is read by who opens it; each segment that
 * is not listed costs who asks meanwhile a look at it.
 */
#define LATE_NS (200 * PR_NS_PER_MS)
#define LATE_ENTRIES 16
#define UNHURRIED_NS PR_NS_PER_S
#define UNHURRIED_ENTRIES 64 /* an indexer beside finds so many in shared memory */

struct prl_directory_journal {
	struct prl_journal *journal;
	struct pr_directory_coder coder;
	struct sfs_handle segment, index; /* the handles before */
	bool unhurried;
	int64_t began;
	unsigned entries;
};

struct prl_directory_journal *
prl_directory_journal_create(struct sfs *sfs, const char *stream, unsigned share,
	bool unhurried, struct pr_error *err)
{
	struct prl_directory_journal *j = calloc(1, sizeof(*j));

	if (!j) {
		pr_error_set(err, "no memory for stream \"%s\"", stream);
		return NULL;
	}
	j->unhurried = unhurried;
	j->journal = prl_journal_create(sfs, stream, share, err);
	if (!j->journal)
		prl_directory_journal_destroy(&j);
	return j;
}

void
prl_directory_journal_destroy(struct prl_directory_journal **journal)
{
	if (*journal)
		prl_journal_destroy(&(*journal)->journal);
	free(*journal);
	*journal = NULL;
}

static bool
begin(struct prl_directory_journal *j, struct pr_writer *w)
{
	j->segment = j->index = (struct sfs_handle){0};
	j->began = pr_now_mono();
	j->entries = 0;
	return pr_directory_begin(&j->coder, w);
}

int
prl_directory_journal_add(struct prl_directory_journal *j, struct pr_directory_entry *e,
	const struct sfs_handle *handle, int64_t min, int64_t max, struct pr_error *err)
{
	struct sfs_handle *before = e->kind == PR_DIRECTORY_INDEX ? &j->index : &j->segment;
	struct pr_writer *w = prl_journal_room(j->journal, PR_DIRECTORY_ENTRY_MAX, err);

	if (!w)
		return -1;
	if (pr_writer_len(w) == 0 && !begin(j, w))
		return pr_error_set(err, "no room for a directory");
	e->handle_len = (uint8_t)sfs_handle_pack(handle, before, e->handle);
	if (!pr_directory_store(&j->coder, w, e))
		return pr_error_set(err, "an entry of a directory contradicts itself");
	*before = *handle;
	j->entries++;
	prl_journal_added(j->journal, min, max);
	return 0;
}

int
prl_directory_journal_write(
	struct prl_directory_journal *j, int64_t now, struct pr_error *err)
{
	unsigned many = j->unhurried ? UNHURRIED_ENTRIES : LATE_ENTRIES;
	int64_t late = j->unhurried ? UNHURRIED_NS : LATE_NS;

	if (j->entries < many && now - j->began < late)
		return 0;
	return prl_journal_write(j->journal, err);
}
