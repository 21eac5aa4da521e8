/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/top_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "indexer/query/tally_key.h"

static bool
exact(const Packrack__Tally *sums)
{
	return !sums->slack_packets && !sums->slack_bytes;
}

static enum pri_tally_key
group_of(const struct counted *c)
{
	return (enum pri_tally_key)c->sink.args->tally.group;
}

static bool
by_packets(const struct counted *c)
{
	return c->sink.args->tally.by_packets;
}

/* The most that one that is not listed can have, of what was asked for. */
static uint64_t
unlisted(const struct counted *c)
{
	const Packrack__Tally *s = pr_tally_total(c->sink.tally);
	uint64_t most = by_packets(c) ? s->most_packets : s->most_bytes;
	uint64_t slack = by_packets(c) ? s->slack_packets : s->slack_bytes;

	return most > slack ? most : slack;
}

/* How many of those listed are sure to be among the so many largest. */
static size_t
sure(const struct counted *c)
{
	size_t count, n = 0;
	const struct pr_tally_item *items = pr_tally_items(c->sink.tally, &count);
	uint64_t others = unlisted(c);

	while (n < count && (by_packets(c) ? items[n].packets : items[n].bytes) >= others)
		n++;
	return n;
}

/* ---- for people ---- */

static void
print_count(uint64_t least, uint64_t most, int width)
{
	char text[64];

	if (least == most)
		snprintf(text, sizeof(text), "%" PRIu64, least);
	else
		snprintf(text, sizeof(text), "%" PRIu64 "..%" PRIu64, least, most);
	printf("%*s", width, text);
}

static void
print_item(const struct counted *c, const struct pr_tally_item *item, int width)
{
	const struct pr_tally *t = c->sink.tally;
	const Packrack__Tally *sums = pr_tally_total(t);
	uint64_t all = by_packets(c) ? sums->packets : sums->bytes;
	uint64_t mine = by_packets(c) ? item->packets : item->bytes;
	char text[PRI_TALLY_KEY_TEXT];

	print_count(item->packets, pr_tally_most_packets(t, item), width);
	fputs(" ", stdout);
	print_count(item->bytes, pr_tally_most_bytes(t, item), width + 4);
	printf(" %5.1f%%", all ? 100.0 * (double)mine / (double)all : 0.0);
	pri_tally_key_text(group_of(c), item, text);
	printf("  %s\n", text);
}

static void
print_bounds(const struct counted *c)
{
	size_t count;

	pr_tally_items(c->sink.tally, &count);
	printf("from..to: the index bounds these counts; %zu of %zu are sure to be among "
	       "the "
	       "largest, and one that is not listed has at most %" PRIu64
	       " %s (--exact reads the packets)\n",
		sure(c), count, unlisted(c), by_packets(c) ? "packets" : "bytes");
}

void
top_print(const struct counted *c)
{
	const Packrack__Tally *sums = pr_tally_total(c->sink.tally);
	int width = exact(sums) ? 12 : 24;
	size_t count;
	const struct pr_tally_item *items = pr_tally_items(c->sink.tally, &count);

	printf("%*s %*s  share  %s\n", width, "packets", width + 4, "bytes",
		pri_tally_key_name(group_of(c)));
	for (size_t i = 0; i < count; i++)
		print_item(c, &items[i], width);
	printf("%*" PRIu64 " %*" PRIu64 " 100.0%%  all\n", width, sums->packets, width + 4,
		sums->bytes);
	if (!exact(sums))
		print_bounds(c);
}

/* ---- as data ---- */

static void
render_item(struct render *r, const struct counted *c, const struct pr_tally_item *item)
{
	const struct pr_tally *t = c->sink.tally;
	char text[PRI_TALLY_KEY_TEXT];

	render_object(r, NULL);
	pri_tally_key_text(group_of(c), item, text);
	render_string(r, "key", text);
	if (group_of(c) != PRI_TALLY_KEY_LINK &&
		pri_tally_key_filter(group_of(c), item, text))
		render_string(r, "filter", text);
	render_uint(r, "packets", item->packets);
	render_uint(r, "packets_most", pr_tally_most_packets(t, item));
	render_uint(r, "bytes", item->bytes);
	render_uint(r, "bytes_most", pr_tally_most_bytes(t, item));
	render_close(r);
}

void
top_render(struct render *r, const struct counted *c)
{
	const Packrack__Tally *sums = pr_tally_total(c->sink.tally);
	size_t count;
	const struct pr_tally_item *items = pr_tally_items(c->sink.tally, &count);

	render_string(r, "group", pri_tally_key_name(group_of(c)));
	render_uint(r, "packets", sums->packets);
	render_uint(r, "bytes", sums->bytes);
	render_bool(r, "exact", exact(sums));
	render_uint(r, "sure", sure(c));
	render_uint(r, "left_out", sums->left_out);
	render_uint(r, "unlisted_most", unlisted(c));
	render_list(r, "top");
	for (size_t i = 0; i < count; i++)
		render_item(r, c, &items[i]);
	render_close(r);
}
