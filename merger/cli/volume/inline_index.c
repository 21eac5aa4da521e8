/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/inline_index.h"

#include "indexer/index_follower.h"
#include "indexer/query/volume.h"
#include "merger/cli/volume/volume.h"

static int
sink(void *arg, const struct pr_index_record *r)
{
	struct inline_index *b = arg;

	return prl_writer_index(b->append, r, &b->error);
}

static int
begin(struct inline_index *b, struct pr_error *err)
{
	struct volume_paths paths;

	if (volume_paths_parse(b->path, &paths, err) == 0)
		b->view = pri_volume_open(paths.path, paths.count,
			PRI_VOLUME_CACHED | PRI_VOLUME_SUMMARIES, err);
	volume_paths_free(&paths);
	if (!b->view || pri_volume_refresh(b->view, true, INT64_MAX, err) < 0)
		return -1;
	b->feed = pri_follower_create(b->view, sink, b, err);
	if (b->feed)
		pri_follower_composites(b->feed, &b->composites);
	return b->feed ? 0 : -1;
}

/*
 * A volume that takes nothing more (its data's writer says why) has no index either. Groups are
 * finished at the end: the next import begins new ones.
 */
int
inline_index_step(
	void *arg, struct prl_volume_writer *append, bool end, struct pr_error *err)
{
	struct inline_index *b = arg;
	int rc;

	b->append = append;
	if (!b->feed && begin(b, err) < 0)
		return -1;
	do
		rc = pri_follower_step(b->feed, INT64_MAX, err);
	while (rc > 0);
	if (rc == 0 && end)
		rc = pri_follower_finish(b->feed, true, err);
	return rc < 0 ? -1 : 0;
}

void
inline_index_close(struct inline_index *b)
{
	pri_follower_destroy(&b->feed);
	pri_volume_close(&b->view);
}
