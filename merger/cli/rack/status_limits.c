/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/rack/status_check.h"
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

/* In one step, so that a check at the same time never reads half of it. */
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
