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
#include "proto/base/units.h"

#define DAY 86400.0

struct sizing_args {
	char *rate, *index;
	uint64_t packet, snaplen, nodes, disks, disk_size, copies;
	int64_t keep;
	bool json, keyvalue;
};

#define PR_VALUES struct sizing_args

static const struct pr_option options[] = {
	PR_OPT_STRING(rate, "rate", 'r', "RATE",
		"mean of all links together, over day and night: 1Gbit, 50MB",
		.required = true),
	PR_OPT_UINT(packet, "packet", 0, "BYTES", 14, 262144, "mean size of a packet",
		.def = "450"),
	PR_OPT_UINT(snaplen, "snaplen", 's', "BYTES", 1, 262144,
		"keep at most so many bytes of a packet", .def = "262144"),
	PR_OPT_UINT(nodes, "nodes", 'n', "N", 1, 256, "in the rack", .def = "4"),
	PR_OPT_UINT(disks, "disks", 0, "N", 1, 256, "in a node", .def = "1"),
	PR_OPT_SIZE(disk_size, "disk-size", 0, "SIZE", 64000000,
		UINT64_C(1000000000000000000),
		"size of one disk: 4TB (powers of 1000, as disks are sold), 3.6T (powers "
		"of 1024)",
		.def = "1TB"),
	PR_OPT_UINT(copies, "copies", 0, "N", 1, 2, "of each packet", .def = "1"),
	PR_OPT_STRING(index, "index", 0, "PERCENT",
		"what the index takes, of the packets' bytes", .def = "0.5"),
	PR_OPT_DURATION(keep, "keep", 'k', "TIME", 1, INT64_MAX,
		"how many disks keep packets for so long: 30d"),
	CLI_FORM_OPTIONS(),
};

static const struct pr_cmdline program = {.name = "packrack sizing",
	.summary =
		"Says how long a rack keeps packets, or how many disks keep them so long.",
	.usage = "--rate RATE [options]",
	PR_OPTIONS(options),
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
fill(const struct sizing_args *a, struct sizing *s, struct pr_error *err)
{
	*s = (struct sizing){.packet_bytes = (double)a->packet,
		.snaplen = (double)a->snaplen,
		.nodes = (double)a->nodes,
		.disks = (double)a->disks,
		.disk_bytes = (double)a->disk_size,
		.copies = (double)a->copies};
	if (a->copies > a->nodes)
		return pr_error_set(err, "--copies 2 needs two nodes: --nodes 2 or more");
	if (pr_parse_percent(a->index, &s->index_percent) < 0 || s->index_percent > 1000)
		return pr_error_set(err, "--index %s: give percent, as in 0.5", a->index);
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
	struct sizing_args a = {0};
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
