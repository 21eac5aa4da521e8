/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "merger/cli/cli.h"
#include "proto/base/units.h"

/*
 * Computes how long a rack keeps what it records, and how many disks that takes. No I/O.
 * The overhead of StreamFS and segments was measured; a test compares it with a full
 * volume.
 */
/* Bytes that a packet takes in a segment besides its own: a header, and padding to 8. */
#define SIZING_PACKET_HEAD 24
#define SIZING_PACKET_PADDING 3.5

/*
 * Share of a volume that is packets once it has wrapped: segments leave the ends of blocks
 * free, the frontier runs ahead, and every 256th block is a map. Measured with packrack
 * import: 1 GiB holds 94.9 % at 450 bytes a packet and 94.1 % at 1514 bytes; 256 MiB holds
 * 92.5 %. Larger volumes hold more.
 */
#define SIZING_USABLE 0.94

/* The results for a share of the given rate. */
struct sizing_row {
	double link_bytes, packets; /* a second, of all links */
	double stored; /* bytes a second, on all disks together */
	double of_node, of_disk; /* bytes a second that one node, one disk must write */
	double disks; /* in each node */
	double kept; /* retention in seconds, when the disks are full */
};

#define DAY 86400.0

struct sizing_args {
	char *rate, *index;
	uint64_t packet, snaplen, nodes, disks, disk_size, copies; /* disks: in each node */
	int64_t keep; /* retention in ns that sets the number of disks in each node; 0: the number in disks */
	bool json, keyvalue;
	double link_bytes; /* a second, of all links together, as on the wire without preambles */
	double index_percent;
};

#define PR_VALUES struct sizing_args

static const struct pr_option options[] = {
	PR_OPT_STRING(rate, "rate", 'r', "RATE",
		"mean of all links together, over day and night: 1Gbit, 50MB",
		.required = true),
	PR_OPT_UINT(packet, "packet", 0, "BYTES", 14, 262144, "mean size of a packet",
		.def = "450"),
	PR_OPT_UINT(snaplen, "snaplen", 's', "BYTES", 1, 262144,
		"keep at most this many bytes of a packet", .def = "262144"),
	PR_OPT_UINT(nodes, "nodes", 'n', "N", 1, 256, "number of nodes in the rack",
		.def = "4"),
	PR_OPT_UINT(
		disks, "disks", 0, "N", 1, 256, "number of disks in a node", .def = "1"),
	PR_OPT_SIZE(disk_size, "disk-size", 0, "SIZE", 64000000,
		UINT64_C(1000000000000000000),
		"size of one disk: 4TB (powers of 1000, as disks are sold), 3.6T (powers "
		"of 1024)",
		.def = "1TB"),
	PR_OPT_UINT(copies, "copies", 0, "N", 1, 2, "number of copies of each packet",
		.def = "1"),
	/* most that the index takes with full-size packets; often it is 0.3 % */
	PR_OPT_STRING(index, "index-percent", 0, "PERCENT",
		"size of the index, in percent of the packets' bytes", .def = "0.5",
		.aliases = {"index"}),
	PR_OPT_DURATION(keep, "retention", 'k', "DURATION", 1, INT64_MAX,
		"print how many disks keep packets for this long: 30d",
		.aliases = {"keep"}),
	CLI_FORM_OPTIONS()};

static int
fill(struct sizing_args *a, struct pr_error *err)
{
	struct pr_rate rate;

	if (a->copies > a->nodes)
		return pr_error_set(err, "--copies 2 needs two nodes: --nodes 2 or more");
	if (pr_parse_percent(a->index, &a->index_percent) < 0 || a->index_percent > 1000)
		return pr_error_set(
			err, "--index-percent %s: give percent, as in 0.5", a->index);
	if (pr_parse_rate(a->rate, &rate) < 0)
		return pr_error_set(err,
			"--rate: '%s' is not a rate: a number and bit, B or pps, as in "
			"100Mbit, 12.5MB, 5kpps",
			a->rate);
	a->link_bytes = rate.per_second * (rate.packets ? (double)a->packet : 1.0 / 8);
	return a->link_bytes > 0 ? 0
				 : pr_error_set(err, "--rate %s: nothing to keep", a->rate);
}

/* ---- what is printed: the case asked for, and those around it ---- */

static const double shares[] = {0.25, 0.5, 1, 2, 4};

static struct sizing_row
at_share(const struct sizing_args *a, double share)
{
	/* of a mean: packets of which only some are longer than the snap length take less */
	double each =
		fmin(a->packet, a->snaplen) + SIZING_PACKET_HEAD + SIZING_PACKET_PADDING;
	struct sizing_row r = {.link_bytes = a->link_bytes * share, .disks = a->disks};

	r.packets = r.link_bytes / a->packet;
	r.stored =
		r.packets * each * a->copies * (1 + a->index_percent / 100) / SIZING_USABLE;
	r.of_node = r.stored / a->nodes;
	if (a->keep)
		r.disks = fmax(1,
			ceil(r.of_node * ((double)a->keep / PR_NS_PER_S) / a->disk_size));
	r.of_disk = r.of_node / r.disks;
	r.kept = a->nodes * r.disks * a->disk_size / r.stored;
	return r;
}

static void
print_text(const struct sizing_args *a)
{
	printf("%" PRIu64 " nodes, disks of %.2f TB, %" PRIu64 " cop%s; packets of %" PRIu64
	       " bytes",
		a->nodes, a->disk_size / 1e12, a->copies, a->copies > 1 ? "ies" : "y",
		a->packet);
	if (a->snaplen < a->packet)
		printf(", of which %" PRIu64 " are kept", a->snaplen);
	printf("\n\n%11s %11s %12s %11s %11s %11s %9s\n", "Mbit/s", "packets/s", "TB/day",
		"MB/s node", "MB/s disk", "disks/node", "days");
	for (size_t i = 0; i < PR_COUNT(shares); i++) {
		struct sizing_row r = at_share(a, shares[i]);
		double days = r.kept / DAY;

		printf("%11.1f %11.0f %12.3f %11.1f %11.1f %11.0f %9.*f\n",
			r.link_bytes * 8 / 1e6, r.packets, r.stored * DAY / 1e12,
			r.of_node / 1e6, r.of_disk / 1e6, r.disks, days < 10 ? 2 : 1, days);
	}
	printf("\nPlan for the busiest minute as well: a node must take its share of that "
	       "(packrack setup --disk).\n");
}

static void
print_data(const struct sizing_args *a, struct render *out)
{
	for (size_t i = 0; i < PR_COUNT(shares); i++) {
		struct sizing_row r = at_share(a, shares[i]);
		const struct {
			const char *name;
			double value;
		} figures[] = {{"rate_percent", shares[i] * 100},
			{"link_bytes_per_second", r.link_bytes},
			{"packets_per_second", r.packets},
			{"stored_bytes_per_second", r.stored},
			{"node_bytes_per_second", r.of_node},
			{"disk_bytes_per_second", r.of_disk}, {"nodes", a->nodes},
			{"disks_per_node", r.disks}, {"kept_seconds", r.kept}};

		render_object(out, NULL);
		for (size_t j = 0; j < PR_COUNT(figures); j++)
			render_uint(out, figures[j].name, figures[j].value);
		render_close(out);
	}
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct sizing_args *a = call->values;

	if (fill(a, err) < 0)
		return CLI_USAGE;
	struct render *out = cli_render(a->json, a->keyvalue, "rows");
	if (out)
		print_data(a, out);
	else
		print_text(a);
	return render_end(&out);
}

const struct cli_command sizing_command = {"sizing",
	"compute how long disks keep packets, or how many disks it takes",
	.summary = "Prints how long a rack keeps packets, or how many disks keep them that "
		   "long.",
	.usage = "--rate RATE [options]", PR_OPTIONS(options),
	.footer = "The overhead assumed for StreamFS and the index was measured. "
		  "Examples:\n"
		  "  packrack sizing --rate 400Mbit --nodes 4 --disks 2 --disk-size 4TB\n"
		  "  packrack sizing --rate 2Gbit --nodes 8 --disk-size 16TB --retention "
		  "30d",
	.call = run, .values = &(struct sizing_args){0}};
