/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/rack/status_check.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/rack/status.h"
#include "proto/base/clock.h"
#include "proto/base/units.h"

/* Two words with a comma between, or one; both 0-terminated. false: neither. */
static bool
split(const char *text, char first[32], const char **second)
{
	size_t len = strcspn(text, ",");

	if (len == 0 || len >= 32)
		return false;
	memcpy(first, text, len);
	first[len] = '\0';
	*second = text[len] ? text + len + 1 : NULL;
	return !*second || (**second && !strchr(*second, ','));
}

static int
to_percent(const char *text, void *out)
{
	double value;

	if (pr_parse_percent(text, &value) < 0 || value > 100)
		return -1;
	*(double *)out = value;
	return 0;
}

static int
to_count(const char *text, void *out)
{
	if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 6)
		return -1;
	*(uint64_t *)out = strtoull(text, NULL, 10);
	return 0;
}

static int
to_time(const char *text, void *out)
{
	return pr_parse_duration(text, out);
}

static int
parse(const char *option, const char *text, int (*to)(const char *, void *), void *warning,
	void *critical, const char *example, struct pr_error *err)
{
	const char *second;
	char first[32];

	if (split(text, first, &second) && to(first, warning) == 0 &&
		(!second || to(second, critical) == 0))
		return 0;
	return pr_error_set(
		err, "--%s %s: give WARNING,CRITICAL as in %s", option, text, example);
}

int
check_limits_loss(struct check_limits *l, const char *text, struct pr_error *err)
{
	return parse("loss", text, to_percent, &l->loss_warning, &l->loss_critical, "0,0.1",
		err);
}

int
check_limits_silent(struct check_limits *l, const char *text, struct pr_error *err)
{
	return parse("max-unreachable", text, to_count, &l->silent_warning,
		&l->silent_critical, "0,2", err);
}

int
check_limits_full(struct check_limits *l, const char *text, struct pr_error *err)
{
	return parse("full-within", text, to_time, &l->full_warning, &l->full_critical,
		"24h,2h", err);
}

int
check_limits_kept(struct check_limits *l, const char *text, struct pr_error *err)
{
	return parse("retention", text, to_time, &l->kept_warning, &l->kept_critical,
		"14d,7d", err);
}

/* ---- what was counted at the last check ---- */

int
check_counts_load(const char *path, struct check_counts *out, struct pr_error *err)
{
	json_error_t why;
	json_int_t captured, lost;
	const char *epoch;
	json_t *json;
	int rc;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 1;
	json = json_load_file(path, 0, &why);
	if (!json)
		return pr_error_set(err, "--state-file %s: %s", path, why.text);
	rc = json_unpack(json, "{s:s, s:I, s:I}", "epoch", &epoch, "captured", &captured,
		"lost", &lost);
	if (rc == 0 && captured >= 0 && lost >= 0) {
		out->epoch = strtoull(epoch, NULL, 16);
		out->captured = (uint64_t)captured;
		out->lost = (uint64_t)lost;
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
	FILE *to;

	if ((size_t)snprintf(other, sizeof other, "%s.new", path) >= sizeof other)
		return pr_error_set(err, "--state-file: the path is too long");
	to = fopen(other, "we");
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

/* What is wrong, gathered; the worst decides. */
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
		len += (size_t)snprintf(v->text + len, sizeof v->text - len, "; ");
	if (len >= sizeof v->text)
		return;
	va_start(ap, fmt);
	vsnprintf(v->text + len, sizeof v->text - len, fmt, ap);
	va_end(ap);
}

static enum check_status
above(double value, double warning, double critical)
{
	return value > critical  ? CHECK_CRITICAL
	       : value > warning ? CHECK_WARNING
				 : CHECK_OK;
}

/* A limit of 0 is none. */
static enum check_status
below(int64_t value, int64_t warning, int64_t critical)
{
	return value < critical  ? CHECK_CRITICAL
	       : value < warning ? CHECK_WARNING
				 : CHECK_OK;
}

/* ---- loss ---- */

void
check_counts_take(struct check_counts *out, const Packrack__Status *d)
{
	*out = (struct check_counts){.epoch = d->epoch};
	for (size_t i = 0; i < d->n_dispatcher_links; i++) {
		const Packrack__DispatcherLink *l = d->dispatcher_links[i];

		out->captured += l->last_seq;
		for (size_t j = 0; j < l->n_values; j++) {
			const char *name = l->values[j]->name;

			if (strncmp(name, "dropped_", 8))
				continue;
			out->lost += l->values[j]->number;
			/* those dropped later have a number already */
			if (strcmp(name, "dropped_no_node") && strcmp(name, "dropped_send"))
				out->captured += l->values[j]->number;
		}
	}
	for (size_t i = 0; i < d->n_dispatcher_nodes; i++)
		out->lost += status_value(d->dispatcher_nodes[i]->values,
			d->dispatcher_nodes[i]->n_values, "missing_packets");
}

static double
check_loss(struct verdict *v, const struct check_limits *l, struct check_counts now,
	const struct check_counts *before)
{
	enum check_status status;
	double percent;

	if (before && before->epoch == now.epoch && before->captured <= now.captured &&
		before->lost <= now.lost) {
		now.captured -= before->captured;
		now.lost -= before->lost;
	}
	percent = now.captured ? 100.0 * (double)now.lost / (double)now.captured : 0;
	if (now.lost && !now.captured)
		percent = 100;
	status = above(percent, l->loss_warning, l->loss_critical);
	if (status != CHECK_OK)
		say(v, status, "%" PRIu64 " of %" PRIu64 " packets lost", now.lost,
			now.captured);
	return percent;
}

/* ---- nodes ---- */

static const Packrack__NodeStatus *
merger_node(const Packrack__Status *m, const char *name)
{
	for (size_t i = 0; m && i < m->n_nodes; i++)
		if (!strcmp(m->nodes[i]->name, name))
			return m->nodes[i];
	return NULL;
}

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

/* A node is known to the dispatcher by its logger, to the merger by its indexer: both must be there. */
static void
count_nodes(struct nodes *n, const Packrack__Status *m, const Packrack__Status *d)
{
	for (size_t i = 0; d && i < d->n_dispatcher_nodes; i++) {
		const Packrack__DispatcherNode *node = d->dispatcher_nodes[i];
		const Packrack__NodeStatus *other = merger_node(m, node->name);

		add_node(n, node->name,
			status_takes_nothing(node->state) || (other && !other->connected));
	}
	for (size_t i = 0; m && i < m->n_nodes; i++) {
		bool known = false;

		for (size_t j = 0; d && j < d->n_dispatcher_nodes; j++)
			known |= !strcmp(d->dispatcher_nodes[j]->name, m->nodes[i]->name);
		if (!known)
			add_node(n, m->nodes[i]->name,
				!m->nodes[i]->connected ||
					(!d && !m->nodes[i]->writer_alive));
	}
}

static void
check_nodes(struct verdict *v, const struct check_limits *l, const struct nodes *n)
{
	enum check_status status = above(
		(double)n->silent, (double)l->silent_warning, (double)l->silent_critical);

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
 * Time until the first volume of any node that the dispatcher lists is full, at the
 * present write rate; UNDEFINED: none will be full.
 */
static int64_t
full_in(const Packrack__Status *d)
{
	int64_t soonest = UNDEFINED;

	for (size_t i = 0; d && i < d->n_dispatcher_nodes; i++) {
		const Packrack__DispatcherNode *n = d->dispatcher_nodes[i];
		uint64_t left = status_value(n->values, n->n_values, "volume_free_bytes");
		uint64_t rate = status_value(n->values, n->n_values, "write_bytes_per_s");
		double in = rate ? (double)left / (double)rate * 1e9 : 0;

		if (left && rate && in < 9e18 && (soonest < 0 || in < (double)soonest))
			soonest = (int64_t)in;
	}
	return soonest;
}

/* Smallest retention of the volumes that overwrite; UNDEFINED: none does yet. */
static int64_t
kept(const Packrack__Status *m)
{
	int64_t shortest = UNDEFINED;

	for (size_t i = 0; m && i < m->n_nodes; i++) {
		const Packrack__NodeStatus *n = m->nodes[i];
		int64_t back = m->time - n->first_time;

		if (n->connected && n->packets && n->volume_used >= n->volume_bytes &&
			(shortest < 0 || back < shortest))
			shortest = back > 0 ? back : 0;
	}
	return shortest;
}

static void
check_time(struct verdict *v, int64_t value, int64_t warning, int64_t critical,
	const char *what)
{
	enum check_status status = below(value, warning, critical);

	if (value != UNDEFINED && status != CHECK_OK)
		say(v, status, "%s %.1f hours", what, (double)value / 3600e9);
}

/* ---- the line ---- */

static void
put_time(FILE *to, const char *name, int64_t value, int64_t warning, int64_t critical)
{
	if (value == UNDEFINED)
		return;
	fprintf(to, " %s=%" PRId64 "s;", name, value / PR_NS_PER_S);
	if (warning)
		fprintf(to, "%" PRId64 ":", warning / PR_NS_PER_S);
	fputc(';', to);
	if (critical)
		fprintf(to, "%" PRId64 ":", critical / PR_NS_PER_S);
	fputs(";0;", to);
}

static void
check_state(struct verdict *v, const Packrack__Status *d)
{
	if (d && strcmp(d->state, "capturing"))
		say(v, CHECK_WARNING, "the dispatcher is %s", d->state);
}

enum check_status
status_check(FILE *to, const struct check_limits *l, const Packrack__Status *m,
	const Packrack__Status *d, const char *silent, const struct check_counts *before)
{
	static const char *const names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
	struct verdict v = {CHECK_OK, ""};
	struct check_counts counts = {0};
	struct nodes nodes = {0};
	double loss = 0;

	if (silent)
		say(&v, CHECK_CRITICAL, "%s does not answer", silent);
	else if (!m && !d)
		say(&v, CHECK_UNKNOWN, "there is no merger and no dispatcher here");
	check_state(&v, d);
	if (d) {
		check_counts_take(&counts, d);
		loss = check_loss(&v, l, counts, before);
	}
	if (m || d) {
		count_nodes(&nodes, m, d);
		check_nodes(&v, l, &nodes);
	}
	check_time(
		&v, full_in(d), l->full_warning, l->full_critical, "a volume is full in");
	check_time(&v, kept(m), l->kept_warning, l->kept_critical,
		"packets are overwritten after");
	if (!v.text[0])
		say(&v, CHECK_OK, "%" PRIu64 " nodes%s", nodes.count,
			d ? ", capturing" : "");
	fprintf(to, "PACKRACK %s - %s", names[v.status], v.text);
	if (m || d)
		fprintf(to, " | silent=%" PRIu64 ";%" PRIu64 ";%" PRIu64 ";0;%" PRIu64,
			nodes.silent, l->silent_warning, l->silent_critical, nodes.count);
	if (d)
		fprintf(to,
			" loss=%.6f%%;%g;%g;0;100 captured=%" PRIu64 "c lost=%" PRIu64 "c",
			loss, l->loss_warning, l->loss_critical, counts.captured,
			counts.lost);
	put_time(to, "full_in", full_in(d), l->full_warning, l->full_critical);
	put_time(to, "kept", kept(m), l->kept_warning, l->kept_critical);
	fputc('\n', to);
	return v.status;
}
