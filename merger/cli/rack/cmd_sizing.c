/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/cli.h"
#include "merger/cli/query/rate.h"
#include "merger/cli/render.h"
#include "merger/cli/rack/sizing.h"
#include "proto/base/clock.h"

#define DAY 86400.0

struct sizing_args {
	char *rate, *index, *disk_size;
	uint64_t packet, snaplen, nodes, disks, copies;
	int64_t keep;
	bool json, keyvalue;
};

#define AT(field) offsetof(struct sizing_args, field)

static const struct pr_option options[] = {
	{.name = "rate",
		.letter = 'r',
		.kind = PR_OPT_STRING,
		.offset = AT(rate),
		.arg = "RATE",
		.help = "mean of all links together, over day and night: 1Gbit, 50MB "
			"(needed)"},
	{.name = "packet",
		.kind = PR_OPT_UINT,
		.offset = AT(packet),
		.arg = "BYTES",
		.help = "mean size of a packet",
		.min = 14,
		.max = 262144},
	{.name = "snaplen",
		.letter = 's',
		.kind = PR_OPT_UINT,
		.offset = AT(snaplen),
		.arg = "BYTES",
		.help = "keep at most so many bytes of a packet",
		.min = 1,
		.max = 262144},
	{.name = "nodes",
		.letter = 'n',
		.kind = PR_OPT_UINT,
		.offset = AT(nodes),
		.arg = "N",
		.help = "in the rack",
		.min = 1,
		.max = 256},
	{.name = "disks",
		.kind = PR_OPT_UINT,
		.offset = AT(disks),
		.arg = "N",
		.help = "in a node",
		.min = 1,
		.max = 256},
	{.name = "disk-size",
		.kind = PR_OPT_STRING,
		.offset = AT(disk_size),
		.arg = "SIZE",
		.help = "of one disk: as it is sold, 4TB, or in powers of 1024, 3.6T "
			"(default 1TB)"},
	{.name = "copies",
		.kind = PR_OPT_UINT,
		.offset = AT(copies),
		.arg = "N",
		.help = "of each packet",
		.min = 1,
		.max = 2},
	{.name = "index",
		.kind = PR_OPT_STRING,
		.offset = AT(index),
		.arg = "PERCENT",
		.help = "what the index takes, of the packets' bytes (default 0.5)"},
	{.name = "keep",
		.letter = 'k',
		.kind = PR_OPT_DURATION,
		.offset = AT(keep),
		.arg = "TIME",
		.help = "how many disks keep packets for so long: 30d",
		.min = 1,
		.max = INT64_MAX},
	CLI_FORM_OPTIONS(AT(json), AT(keyvalue)),
};

static const struct pr_cmdline program = {.name = "packrack sizing",
	.summary =
		"Says how long a rack keeps packets, or how many disks keep them so long.",
	.usage = "--rate RATE [options]",
	.options = options,
	.option_count = sizeof(options) / sizeof(options[0]),
	.footer = "The shares that StreamFS and the index take are measured ones. "
		  "Examples:\n"
		  "  packrack sizing --rate 400Mbit --nodes 4 --disks 2 --disk-size 4TB\n"
		  "  packrack sizing --rate 2Gbit --nodes 8 --disk-size 16TB --keep 30d"};

static int
parse_rate(const char *text, double packet, double *bytes, struct pr_error *err)
{
	struct rate_limit limit;

	if (rate_limit_parse(text, &limit, err) < 0)
		return -1;
	*bytes = (double)limit.per_second * (limit.packets ? packet : 1.0 / 8);
	return *bytes > 0 ? 0 : pr_error_set(err, "%s: nothing to keep", text);
}

static int
parse_percent(const char *text, double *out, struct pr_error *err)
{
	char end;

	if (sscanf(text, "%lf%c", out, &end) == 1 && isfinite(*out) && *out >= 0 &&
		*out <= 1000)
		return 0;
	return pr_error_set(err, "--index %s: give percent, as in 0.5", text);
}

/* Who buys a disk reads TB, of 1000s; who asks a computer gets powers of 1024. */
static int
parse_disk(const char *text, double *out, struct pr_error *err)
{
	static const char letters[] = "MGTP";
	char *end;
	double value = strtod(text, &end);
	const char *letter = *end ? strchr(letters, *end) : NULL;

	if (letter && *text >= '0' && *text <= '9') {
		double base = !strcmp(end + 1, "B") ? 1000 : 1024;
		bool known = base == 1000 || !end[1] || !strcmp(end + 1, "iB");

		*out = value * pow(base, (double)(letter - letters + 2));
		if (known && *out >= 64e6 && *out < 1e18)
			return 0;
	}
	return pr_error_set(err,
		"--disk-size %s: give 4TB as disks are sold, or 3.6T in powers of 1024, at "
		"least 64 MB",
		text);
}

static int
fill(const struct sizing_args *a, struct sizing *s, struct pr_error *err)
{
	*s = (struct sizing){.packet_bytes = (double)a->packet,
		.snaplen = (double)a->snaplen,
		.nodes = (double)a->nodes,
		.disks = (double)a->disks,
		.disk_bytes = 1e12,
		.copies = (double)a->copies,
		.index_percent = SIZING_INDEX_DEFAULT};
	if (!a->rate)
		return pr_error_set(err, "--rate is missing: how much do the links bring, "
					 "on average over days? As in --rate 400Mbit");
	if (a->copies > a->nodes)
		return pr_error_set(err, "--copies 2 needs two nodes: --nodes 2 or more");
	if (a->index && parse_percent(a->index, &s->index_percent, err) < 0)
		return -1;
	if (a->disk_size && parse_disk(a->disk_size, &s->disk_bytes, err) < 0)
		return -1;
	if (parse_rate(a->rate, s->packet_bytes, &s->link_bytes, err) < 0)
		return pr_error_prefix(err, "--rate");
	return 0;
}

/* ---- what is printed: the case asked for, and those around it ---- */

static const double shares[] = {0.25, 0.5, 1, 2, 4};
enum { SHARES = sizeof shares / sizeof shares[0] };

static struct sizing
at_share(const struct sizing *s, double share, int64_t keep)
{
	struct sizing other = *s;

	other.link_bytes *= share;
	if (keep)
		other.disks = sizing_disks(&other, (double)keep / PR_NS_PER_S);
	return other;
}

static void
print_row(const struct sizing *s)
{
	struct sizing_need need;
	double days = sizing_kept(s) / DAY;

	sizing_need(s, &need);
	printf("%11.1f %11.0f %12.3f %11.1f %11.1f %11.0f %9.*f\n", s->link_bytes * 8 / 1e6,
		need.packets_per_s, need.stored_per_s * DAY / 1e12, need.node_per_s / 1e6,
		need.disk_per_s / 1e6, s->disks, days < 10 ? 2 : 1, days);
}

static void
print_text(const struct sizing *s, int64_t keep)
{
	printf("%.0f nodes, disks of %.2f TB, %.0f cop%s; packets of %.0f bytes", s->nodes,
		s->disk_bytes / 1e12, s->copies, s->copies > 1 ? "ies" : "y",
		s->packet_bytes);
	if (s->snaplen < s->packet_bytes)
		printf(", of which %.0f are kept", s->snaplen);
	printf("\n\n%11s %11s %12s %11s %11s %11s %9s\n", "Mbit/s", "packets/s", "TB/day",
		"MB/s node", "MB/s disk", "disks/node", "days");
	for (int i = 0; i < SHARES; i++) {
		struct sizing row = at_share(s, shares[i], keep);

		print_row(&row);
	}
	printf("\nPlan for the busiest minute as well: a node must take its share of that "
	       "(packrack setup --disk).\n");
}

static void
render_row(struct render *r, const struct sizing *s, double share)
{
	struct sizing_need need;

	sizing_need(s, &need);
	render_object(r, NULL);
	render_uint(r, "rate_percent", (uint64_t)(share * 100));
	render_uint(r, "link_bytes_per_second", (uint64_t)s->link_bytes);
	render_uint(r, "packets_per_second", (uint64_t)need.packets_per_s);
	render_uint(r, "stored_bytes_per_second", (uint64_t)need.stored_per_s);
	render_uint(r, "node_bytes_per_second", (uint64_t)need.node_per_s);
	render_uint(r, "disk_bytes_per_second", (uint64_t)need.disk_per_s);
	render_uint(r, "nodes", (uint64_t)s->nodes);
	render_uint(r, "disks_per_node", (uint64_t)s->disks);
	render_uint(r, "kept_seconds", (uint64_t)sizing_kept(s));
	render_close(r);
}

static int
print_data(const struct sizing_args *a, const struct sizing *s)
{
	struct render *r = render_begin(stdout, a->json ? RENDER_JSON : RENDER_KEYVALUE);

	if (!r)
		return -1;
	render_list(r, "rows");
	for (int i = 0; i < SHARES; i++) {
		struct sizing row = at_share(s, shares[i], a->keep);

		render_row(r, &row, shares[i]);
	}
	render_close(r);
	return render_end(&r);
}

static int
run(const struct sizing_args *a)
{
	struct pr_error err;
	struct sizing s;

	if (fill(a, &s, &err) < 0)
		return cli_fail(program.name, CLI_USAGE, &err);
	if (a->json || a->keyvalue)
		return print_data(a, &s) < 0 ? CLI_FAILED : CLI_OK;
	print_text(&s, a->keep);
	return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

int
cmd_sizing(int argc, char **argv)
{
	struct sizing_args a = {
		.packet = 450, .snaplen = 262144, .nodes = 4, .disks = 1, .copies = 1};
	struct pr_error err;
	int operand, status = cli_parse(&program, &a, argc, argv, &operand);

	if (status < 0 && operand < argc) {
		pr_error_set(&err, "unexpected '%s': there are only options, see --help",
			argv[operand]);
		status = cli_fail(program.name, CLI_USAGE, &err);
	}
	if (status < 0)
		status = run(&a);
	pr_options_free(&program, &a);
	return status;
}
