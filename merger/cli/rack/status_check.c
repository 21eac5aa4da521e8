/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/rack/status.h"
#include "proto/base/text.h"
#include "proto/base/units.h"

static int
to_percent(const char *text, double *out)
{
	return pr_parse_percent(text, out) < 0 || *out > 100 ? -1 : 0;
}

static int
to_count(const char *text, double *out)
{
	if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 6)
		return -1;
	*out = strtod(text, NULL);
	return 0;
}

static int
to_seconds(const char *text, double *out)
{
	int64_t ns;

	if (pr_parse_duration(text, &ns) < 0)
		return -1;
	*out = (double)ns / 1e9;
	return 0;
}

int
check_limit_parse(struct check_limit *limit, const char *option, const char *text,
	struct pr_error *err)
{
	static const struct {
		const char *option, *example;
		int (*parse)(const char *text, double *out);
	} forms[] = {{"loss", "0,0.1", to_percent}, {"max-unreachable", "0,2", to_count},
		{"full-within", "24h,2h", to_seconds}, {"retention", "14d,7d", to_seconds}};
	size_t len = text ? strcspn(text, ",") : 0, i = 0;
	char first[32];

	if (!text)
		return 0;
	while (strcmp(forms[i].option, option))
		i++;
	PR_PRINT(first, "%.*s", (int)len, text);
	if (len && len < sizeof first && forms[i].parse(first, &limit->warning) == 0 &&
		(!text[len] || (text[len + 1] && forms[i].parse(text + len + 1,
							 &limit->critical) == 0)))
		return 0;
	return pr_error_set(err, "--%s %s: give WARNING,CRITICAL as in %s", option, text,
		forms[i].example);
}

/* ---- what was counted at the last check ---- */

int
check_counts_load(const char *path, struct check_counts *out, struct pr_error *err)
{
	json_error_t why;
	json_int_t captured, lost;
	const char *epoch;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 1;
	json_t *json = json_load_file(path, 0, &why);
	if (!json)
		return pr_error_set(err, "--state-file %s: %s", path, why.text);
	int rc = json_unpack(json, "{s:s, s:I, s:I}", "epoch", &epoch, "captured",
		&captured, "lost", &lost);
	if (rc == 0 && captured >= 0 && lost >= 0) {
		out->epoch = strtoull(epoch, NULL, 16);
		out->captured = captured;
		out->lost = lost;
	} else {
		rc = pr_error_set(err,
			"--state-file %s: no file of this command's: remove it, or name "
			"another",
			path);
	}
	json_decref(json);
	return rc < 0 ? -1 : 0;
}

/*
 * Written to another file and renamed, so that a concurrent check never reads half of
 * it.
 */
int
check_counts_store(const char *path, const struct check_counts *c, struct pr_error *err)
{
	char other[4096];
	int rc = -1;

	if ((size_t)PR_PRINT(other, "%s.new", path) >= sizeof other)
		return pr_error_set(err, "--state-file: the path is too long");
	FILE *to = fopen(other, "we");
	if (to) {
		fprintf(to,
			"{\"epoch\": \"%016" PRIx64 "\", \"captured\": %" PRIu64
			", \"lost\": %" PRIu64 "}\n",
			c->epoch, c->captured & INT64_MAX, c->lost & INT64_MAX);
		rc = fclose(to) == 0 ? rename(other, path) : -1;
	}
	return rc == 0 ? 0 : pr_error_errno(err, "--state-file %s", path);
}

#define UNDEFINED (-1)

/* The list of what is wrong; the worst item gives the status. */
struct verdict {
	enum check_status status;
	char text[400];
};

static void __attribute__((format(printf, 3, 4)))
say(struct verdict *v, enum check_status status, const char *fmt, ...)
{
	size_t len = strlen(v->text);
	va_list ap;

	if (status > v->status)
		v->status = status;
	if (len)
		len += snprintf(v->text + len, sizeof v->text - len, "; ");
	if (len >= sizeof v->text)
		return;
	va_start(ap, fmt);
	vsnprintf(v->text + len, sizeof v->text - len, fmt, ap);
	va_end(ap);
}

static enum check_status
above(double value, struct check_limit l)
{
	return value > l.critical  ? CHECK_CRITICAL
	       : value > l.warning ? CHECK_WARNING
				   : CHECK_OK;
}

/* ---- loss ---- */

void
check_counts_take(struct check_counts *out, const Packrack__Status *d)
{
	struct status_sums s = status_sum(NULL, d);

	*out = (struct check_counts){d->epoch, s.captured, s.kernel + s.dispatcher};
	for (size_t i = 0; i < d->n_dispatcher_nodes; i++)
		out->lost += status_value(d->dispatcher_nodes[i]->values,
			d->dispatcher_nodes[i]->n_values, "missing_packets");
}

static double
check_loss(struct verdict *v, struct check_limit limit, struct check_counts now,
	const struct check_counts *before)
{
	if (before && before->epoch == now.epoch && before->captured <= now.captured &&
		before->lost <= now.lost) {
		now.captured -= before->captured;
		now.lost -= before->lost;
	}
	double percent = now.captured ? 100.0 * (double)now.lost / (double)now.captured : 0;
	if (now.lost && !now.captured)
		percent = 100;
	enum check_status status = above(percent, limit);
	if (status != CHECK_OK)
		say(v, status, "%" PRIu64 " of %" PRIu64 " packets lost", now.lost,
			now.captured);
	return percent;
}

/* ---- nodes ---- */

struct nodes {
	uint64_t count, silent;
	char names[160];
};

static void
add_node(struct nodes *n, const char *name, bool silent)
{
	size_t len = strlen(n->names);

	n->count++;
	if (!silent)
		return;
	n->silent++;
	snprintf(n->names + len, sizeof n->names - len, "%s%s", len ? ", " : "", name);
}

/*
 * The dispatcher knows a node by its logger, the merger by its indexer: both must be there.
 */
static void
check_nodes(struct verdict *v, struct check_limit limit, struct nodes *n,
	const Packrack__Status *m, const Packrack__Status *d)
{
	for (size_t i = 0; d && i < d->n_dispatcher_nodes; i++) {
		const Packrack__DispatcherNode *node = d->dispatcher_nodes[i];
		bool silent = status_takes_nothing(node->state);

		for (size_t j = 0; m && j < m->n_nodes; j++)
			silent |= !m->nodes[j]->connected &&
				  !strcmp(m->nodes[j]->name, node->name);
		add_node(n, node->name, silent);
	}
	for (size_t i = 0; m && i < m->n_nodes; i++) {
		const Packrack__NodeStatus *node = m->nodes[i];
		bool known = false;

		for (size_t j = 0; d && j < d->n_dispatcher_nodes; j++)
			known |= !strcmp(d->dispatcher_nodes[j]->name, node->name);
		if (!known)
			add_node(n, node->name,
				!node->connected || (!d && !node->writer_alive));
	}
	enum check_status status = above(n->silent, limit);
	if (n->silent && n->silent == n->count)
		status = CHECK_CRITICAL; /* whatever the limits: nothing is stored */
	if (status != CHECK_OK)
		say(v, status, "%" PRIu64 " of %" PRIu64 " nodes silent (%s)", n->silent,
			n->count, n->names);
	if (n->count == 0)
		say(v, CHECK_CRITICAL, "no node");
}

/* ---- disks ---- */

/*
 * Seconds until the first volume of any node that the dispatcher lists is full, at the
 * present write rate; UNDEFINED: none will be full.
 */
static double
full_in(const Packrack__Status *d)
{
	double soonest = UNDEFINED;

	for (size_t i = 0; d && i < d->n_dispatcher_nodes; i++) {
		const Packrack__DispatcherNode *n = d->dispatcher_nodes[i];
		uint64_t left = status_value(n->values, n->n_values, "volume_free_bytes");
		uint64_t rate = status_value(n->values, n->n_values, "write_bytes_per_s");
		double in = rate ? (double)left / (double)rate : 0;

		if (left && rate && in < 9e9 && (soonest < 0 || in < soonest))
			soonest = in;
	}
	return soonest;
}

/* Smallest retention of the volumes that overwrite; UNDEFINED: none does yet. */
static double
kept(const Packrack__Status *m)
{
	double shortest = UNDEFINED;

	for (size_t i = 0; m && i < m->n_nodes; i++) {
		const Packrack__NodeStatus *n = m->nodes[i];
		double back = (double)(m->time - n->first_time) / 1e9;

		if (n->connected && n->packets && n->volume_used >= n->volume_bytes &&
			(shortest < 0 || back < shortest))
			shortest = back > 0 ? back : 0;
	}
	return shortest;
}

static void
check_time(struct verdict *v, double value, struct check_limit l, const char *what)
{
	enum check_status status = value < l.critical  ? CHECK_CRITICAL
				   : value < l.warning ? CHECK_WARNING
						       : CHECK_OK;

	if (value != UNDEFINED && status != CHECK_OK)
		say(v, status, "%s %.1f hours", what, value / 3600);
}

/* ---- the line ---- */

static void
put_time(FILE *to, const char *name, double value, struct check_limit l)
{
	if (value == UNDEFINED)
		return;
	fprintf(to, " %s=%" PRId64 "s;", name, (int64_t)value);
	if (l.warning > 0)
		fprintf(to, "%" PRId64 ":", (int64_t)l.warning);
	fputc(';', to);
	if (l.critical > 0)
		fprintf(to, "%" PRId64 ":", (int64_t)l.critical);
	fputs(";0;", to);
}

enum check_status
status_check(FILE *to, const struct check_limits *l, const Packrack__Status *m,
	const Packrack__Status *d, const char *silent, const struct check_counts *before)
{
	static const char *const names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
	double loss = 0, full = full_in(d), back = kept(m);
	struct verdict v = {CHECK_OK, ""};
	struct check_counts counts = {0};
	struct nodes nodes = {0};

	if (silent)
		say(&v, CHECK_CRITICAL, "%s does not answer", silent);
	else if (!m && !d)
		say(&v, CHECK_UNKNOWN, "there is no merger and no dispatcher here");
	if (d && strcmp(d->state, "capturing"))
		say(&v, CHECK_WARNING, "the dispatcher is %s", d->state);
	if (d) {
		check_counts_take(&counts, d);
		loss = check_loss(&v, l->loss, counts, before);
	}
	if (m || d)
		check_nodes(&v, l->silent, &nodes, m, d);
	check_time(&v, full, l->full, "a volume is full in");
	check_time(&v, back, l->kept, "packets are overwritten after");
	if (!v.text[0])
		say(&v, CHECK_OK, "%" PRIu64 " nodes%s", nodes.count,
			d ? ", capturing" : "");
	fprintf(to, "PACKRACK %s - %s", names[v.status], v.text);
	if (m || d)
		fprintf(to, " | silent=%" PRIu64 ";%.0f;%.0f;0;%" PRIu64, nodes.silent,
			l->silent.warning, l->silent.critical, nodes.count);
	if (d)
		fprintf(to,
			" loss=%.6f%%;%g;%g;0;100 captured=%" PRIu64 "c lost=%" PRIu64 "c",
			loss, l->loss.warning, l->loss.critical, counts.captured,
			counts.lost);
	put_time(to, "full_in", full, l->full);
	put_time(to, "kept", back, l->kept);
	fputc('\n', to);
	return v.status;
}
