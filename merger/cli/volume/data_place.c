/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data_place.h"

#include <stdio.h>
#include <stdlib.h>

#include "logger/store.h"
#include "merger/cli/client.h"
#include "merger/cli/volume/volume.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"

#define BATCH (512 * 1024)
#define STORE_NS (70 * PR_NS_PER_S) /* the merger gives up first, and says so */

struct data_place {
	const struct data_args *args;
	/* a volume */
	struct sfs *sfs;
	struct prl_append *append;
	/* a node: a batch, and what goes with the first */
	struct pr_segment_builder builder;
	uint8_t *batch;
	Packrack__LinkInfo *const *links;
	size_t link_count;
};

/* ---- a volume ---- */

static void
tell_link(struct prl_append *append, const Packrack__LinkInfo *from)
{
	struct pr_ledger_link link = {.epoch = from->epoch,
		.link = (uint16_t)from->link,
		.linktype = (uint16_t)from->linktype,
		.snaplen = from->snaplen};

	snprintf(link.name, sizeof(link.name), "%s", from->name);
	prl_append_moved_link(append, &link);
}

static int
open_volume(struct data_place *p, struct pr_error *err)
{
	struct sfs_open_options writing = {.writer = true};
	struct prl_append_options o = {0};
	struct volume_paths paths;

	if (volume_paths_parse(p->args->to_volume, &paths, err) == 0)
		p->sfs = sfs_open(paths.path, paths.count, &writing, err);
	volume_paths_free(&paths);
	if (p->sfs)
		p->append = prl_append_create(p->sfs, &o, err);
	for (size_t i = 0; p->append && i < p->link_count; i++)
		tell_link(p->append, p->links[i]);
	return p->append ? 0 : -1;
}

/* ---- a node ---- */

static int
send_batch(struct data_place *p, size_t len, struct pr_error *err)
{
	const char *endpoint = data_merger(p->args, err);
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	struct pr_rpc_keys room;
	Packrack__Envelope *reply;

	c.verb = (char *)"store";
	c.node = p->args->to;
	c.packets.data = p->batch;
	c.packets.len = len;
	c.links = (Packrack__LinkInfo **)p->links;
	c.n_links = p->link_count;
	if (!endpoint || client_command(endpoint, cli_keys(&p->args->merger, &room), &c,
				 STORE_NS, &reply, err) < 0)
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

struct data_place *
data_place_open(const struct data_args *a, Packrack__LinkInfo *const *links, size_t count,
	struct pr_error *err)
{
	struct data_place *p = calloc(1, sizeof(*p));

	if (!p) {
		pr_error_set(err, "no memory");
		return NULL;
	}
	p->args = a;
	p->links = links;
	p->link_count = count;
	if ((a->to ? open_node(p, err) : open_volume(p, err)) < 0)
		data_place_close(&p);
	return p;
}

void
data_place_close(struct data_place **place)
{
	struct data_place *p = *place;

	*place = NULL;
	if (!p)
		return;
	prl_append_destroy(&p->append);
	if (p->sfs)
		sfs_close(&p->sfs);
	free(p->batch);
	free(p);
}

int
data_place_store(struct data_place *place, const struct pr_packet *p, struct pr_error *err)
{
	if (place->append) {
		if (prl_append_packet(place->append, p) == 0)
			return 0;
		return pr_error_set(err, "%s: %s", place->args->to_volume,
			prl_append_suspended(place->append)
				? prl_append_suspended(place->append)
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

int
data_place_flush(struct data_place *p, struct pr_error *err)
{
	if (p->append)
		return prl_append_flush(p->append, err);
	return send_gathered(p, err) < 0 ? -1 : send_batch(p, 0, err);
}

void
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
