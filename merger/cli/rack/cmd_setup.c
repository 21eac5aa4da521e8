/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/cli.h"
#include "merger/cli/render.h"
#include "merger/cli/rack/setup.h"
#include "proto/base/units.h"

struct setup_args {
	struct pr_string_list in, disk;
	char *out, *rack, *rate;
	uint64_t link_mtu, disk_rate; /* bytes per second */
	bool fix, json, keyvalue;
};

#define PR_VALUES struct setup_args

static const struct pr_option options[] = {
	PR_OPT_LIST(in, "in", 'i', "IFACE", "a dispatcher's or tap's port on the link"),
	PR_OPT_STRING(out, "out", 'o', "IFACE", "a dispatcher's port to the rack's switch"),
	PR_OPT_STRING(rack, "rack-interface", 0, "IFACE",
		"a node's port to the rack's switch", .aliases = {"rack"}),
	PR_OPT_UINT(link_mtu, "link-mtu", 0, "BYTES", 68, 65535,
		"MTU of the links, if they are not on this machine", .def = "1500"),
	PR_OPT_LIST(disk, "disk", 0, "PATH",
		"measure the speed of PATH: devices and files are read; in a directory, a "
		"temporary file is written"),
	PR_OPT_STRING(
		rate, "disk-rate", 0, "RATE", "rate that each disk must reach: 100MB"),
	PR_OPT_FLAG(fix, "fix", 0,
		"make the changes until the next boot, and print how to undo them"),
	CLI_FORM_OPTIONS(),
};

static const struct pr_cmdline program = {.name = "packrack setup",
	.summary = "Looks for what makes this machine lose packets, and prints what to "
		   "change.",
	.usage = "[options]",
	PR_OPTIONS(options),
	.footer = "Exit status: 0 nothing is to be changed, 3 something is, 1 a change "
		  "failed, 2 bad\nusage."};

static void
check_all(struct setup *s, const struct setup_args *a)
{
	uint32_t link_mtu = a->in.count ? 0 : (uint32_t)a->link_mtu;

	for (size_t i = 0; i < a->in.count; i++) {
		uint32_t mtu = setup_mtu(s, a->in.items[i]);

		setup_check_interface(s, a->in.items[i], SETUP_IN);
		link_mtu = mtu > link_mtu ? mtu : link_mtu;
	}
	if (a->out) {
		setup_check_interface(s, a->out, SETUP_OUT);
		setup_check_mtu(s, a->out, link_mtu);
	}
	if (a->rack) {
		setup_check_interface(s, a->rack, SETUP_RACK);
		setup_check_mtu(s, a->rack, (uint32_t)a->link_mtu);
	}
	setup_check_machine(s);
	for (size_t i = 0; i < a->disk.count; i++)
		setup_check_disk(s, a->disk.items[i], a->disk_rate);
}

/* ---- what is printed ---- */

static const char *
verdict(const struct setup_finding *f)
{
	return f->fixed ? "fixed" : setup_verdicts[f->verdict];
}

static void
print_text(const struct setup_finding *f)
{
	printf("%-10s  %-13s  %s%s%s", verdict(f), f->topic, f->where,
		f->where[0] ? " " : "", f->text);
	if (f->mend[0])
		printf(f->fixed ? " (%s)" : ": %s", f->mend);
	if (f->failed[0])
		printf(", which failed: %s", f->failed);
	if (f->fixed && f->undo[0])
		printf("; undo: %s", f->undo);
	putchar('\n');
}

static void
render_finding(struct render *r, const struct setup_finding *f)
{
	render_object(r, NULL);
	render_string(r, "verdict", verdict(f));
	render_string(r, "topic", f->topic);
	render_string(r, "where", f->where);
	render_string(r, "text", f->text);
	render_string(r, "mend", f->mend);
	render_string(r, "undo", f->undo);
	render_bool(r, "can_fix", f->fix != SETUP_FIX_NONE);
	render_string(r, "failed", f->failed);
	render_close(r);
}

static int
print_all(const struct setup *s, const struct setup_args *a)
{
	struct render *r;

	if (!a->json && !a->keyvalue) {
		for (size_t i = 0; i < s->count; i++)
			print_text(&s->list[i]);
		return fflush(stdout) ? -1 : 0;
	}
	r = render_begin(stdout, cli_form(a->json, a->keyvalue));
	render_list(r, "findings");
	for (size_t i = 0; i < s->count; i++)
		render_finding(r, &s->list[i]);
	render_close(r);
	return render_end(&r);
}

/* Bytes per second: a rate, or a size as of old (100M). */
static int
parse_disk_rate(const char *text, uint64_t *out)
{
	struct pr_rate rate;

	if (pr_parse_rate(text, &rate) < 0 || rate.packets)
		return pr_parse_size(text, out);
	*out = (uint64_t)(rate.per_second / 8);
	return 0;
}

static int
run(void *values, int count, char **operands, struct pr_error *err)
{
	struct setup_args *a = values;
	const char *root = getenv("PACKRACK_SYSROOT");
	struct setup s = {.root = root ? root : ""};
	size_t failed, left = 0;
	int status;

	(void)count;
	(void)operands;
	if (a->rate && parse_disk_rate(a->rate, &a->disk_rate) < 0) {
		pr_error_set(err, "--disk-rate: '%s' is not a rate, like 100MB", a->rate);
		return CLI_USAGE;
	}
	check_all(&s, a);
	failed = a->fix ? setup_fix_all(&s) : 0;
	for (size_t i = 0; i < s.count; i++)
		left += s.list[i].verdict == SETUP_CHANGE && !s.list[i].fixed;
	status = failed ? CLI_FAILED : left ? CLI_PARTIAL : CLI_OK;
	if (print_all(&s, a) < 0 || s.failed)
		status = CLI_FAILED;
	free(s.list);
	return status;
}

int
cmd_setup(int argc, char **argv)
{
	struct setup_args a = {0};

	return cli_run(&program, &a, 0, argc, argv, run);
}
