/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/tally.h"

/* What was counted, in messages. */

int
pr_tally_take(struct pr_tally *t, const Packrack__Tally *part, struct pr_error *err)
{
	const struct pr_tally_sums sums = {.packets = part->packets,
		.bytes = part->bytes,
		.slack_packets = part->slack_packets,
		.slack_bytes = part->slack_bytes,
		.left_out = part->left_out,
		.most_packets = part->most_packets,
		.most_bytes = part->most_bytes};

	pr_tally_sum(t, &sums);
	for (size_t i = 0; i < part->n_groups; i++) {
		const Packrack__TallyGroup *g = part->groups[i];
		struct pr_tally_item item = {.packets = g->packets,
			.bytes = g->bytes,
			.less_packets = g->less_packets,
			.less_bytes = g->less_bytes};

		if (g->key.len > PR_TALLY_KEY_MAX)
			return pr_error_set(err, "a group's key of %zu bytes", g->key.len);
		item.len = (uint8_t)g->key.len;
		memcpy(item.key, g->key.data, g->key.len);
		if (pr_tally_add_less(t, &item, err) < 0)
			return -1;
	}
	return 0;
}

static int
allocate(struct pr_tally_part *part, struct pr_error *err)
{
	if (part->groups)
		return 0;
	part->groups = calloc(PR_TALLY_PART, sizeof(*part->groups));
	part->pointers = calloc(PR_TALLY_PART, sizeof(*part->pointers));
	if (part->groups && part->pointers)
		return 0;
	pr_tally_part_free(part);
	return pr_error_set(err, "no memory for sending what was counted");
}

static void
fill_sums(Packrack__Tally *m, const struct pr_tally_sums *sums)
{
	m->packets = sums->packets;
	m->bytes = sums->bytes;
	m->slack_packets = sums->slack_packets;
	m->slack_bytes = sums->slack_bytes;
	m->left_out = sums->left_out;
	m->most_packets = sums->most_packets;
	m->most_bytes = sums->most_bytes;
}

static void
fill_group(Packrack__TallyGroup *g, const struct pr_tally_item *item)
{
	packrack__tally_group__init(g);
	g->key.data = (uint8_t *)item->key;
	g->key.len = item->len;
	g->packets = item->packets;
	g->bytes = item->bytes;
	g->less_packets = item->less_packets;
	g->less_bytes = item->less_bytes;
}

/* *at: groups given and 1 for the sums. */
int
pr_tally_next_part(const struct pr_tally *t, size_t *at, struct pr_tally_part *part,
	struct pr_error *err)
{
	size_t count, given = *at ? *at - 1 : 0, n;
	const struct pr_tally_item *items = pr_tally_items(t, &count);

	n = count - given;
	if (*at && !n)
		return 0;
	if (allocate(part, err) < 0)
		return -1;
	packrack__tally__init(&part->message);
	if (!*at)
		fill_sums(&part->message, pr_tally_total(t));
	if (n > PR_TALLY_PART)
		n = PR_TALLY_PART;
	for (size_t i = 0; i < n; i++) {
		fill_group(&part->groups[i], &items[given + i]);
		part->pointers[i] = &part->groups[i];
	}
	part->message.groups = part->pointers;
	part->message.n_groups = n;
	*at = 1 + given + n;
	return 1;
}

void
pr_tally_part_free(struct pr_tally_part *part)
{
	free(part->groups);
	free(part->pointers);
	*part = (struct pr_tally_part){.groups = NULL};
}
