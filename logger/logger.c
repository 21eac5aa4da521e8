/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/logger.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "logger/import.h"
#include "logger/manage.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static struct sfs *
open_volume(const struct prl_logger_options *o, struct pr_error *err)
{
	struct sfs_open_options options = {.writer = true,
		.shm_bytes = o->shm_size,
		.one_thread = true,
		.degraded = o->degraded};
	const char *first = o->volume.items[0];

	if (o->volume.count == 1 && access(first, F_OK)) {
		pr_error_set(err,
			"volume %s is not there: make it by `packrack volume create %s "
			"--size SIZE`",
			first, first);
		return NULL;
	}
	return sfs_open(
		(const char *const *)o->volume.items, o->volume.count, &options, err);
}

static bool
show_progress(void *arg, const struct prl_import_stats *s)
{
	int64_t *shown = arg, now = pr_now_mono();

	if (now - *shown >= PR_NS_PER_S && s->size) {
		*shown = now;
		fprintf(stderr, "\r%" PRIu64 " packets, %" PRIu64 " %% ", s->packets,
			100 * s->offset / s->size);
	}
	return true;
}

int
prl_logger_read(struct sfs *sfs, const struct prl_logger_options *o, struct pr_error *err)
{
	bool terminal = isatty(STDERR_FILENO);
	int64_t shown = pr_now_mono() + PR_NS_PER_S;

	for (size_t i = 0; i < o->read.count; i++) {
		struct prl_import_options options = {.link = (int)o->link};
		struct prl_import_stats stats;
		int result = prl_import_file(sfs, o->read.items[i], &options,
			terminal ? show_progress : NULL, &shown, &stats, err);

		if (terminal && shown > pr_now_mono())
			fputc('\n', stderr);
		if (result)
			return -1;
		pr_log_info("%s: %" PRIu64 " packets stored as link %u", o->read.items[i],
			stats.stored, stats.link);
		if (stats.secrets)
			pr_log_warning(
				PRL_SECRETS_LEFT_OUT, o->read.items[i], stats.secrets);
	}
	return 0;
}

static int
run(const struct prl_logger_options *o, struct pr_error *err)
{
	struct sfs *sfs = open_volume(o, err);
	int result;

	if (!sfs)
		return -1;
	if (o->rack)
		result = prl_logger_rack(sfs, o, err);
	else if (o->tap)
		result = prl_logger_tap(sfs, o, err);
	else
		result = prl_logger_read(sfs, o, err);
	sfs_close(&sfs);
	return result;
}

int
prl_logger_main(int argc, char **argv)
{
	struct prl_logger_options o;
	struct pr_error err = {0};
	int result = prl_logger_options_parse(&o, argc, argv, &err), status = 0;

	pr_log_open("packrack-logger", o.verbose ? PR_LOG_DEBUG : PR_LOG_INFO);
	pr_log_set_format(o.log_format);
	if (result < 0) {
		pr_log_error("%s", err.text);
		status = 2;
	} else if (result == 0 && run(&o, &err)) {
		pr_log_error("%s", err.text);
		status = 1;
	}
	prl_logger_options_free(&o);
	return status;
}
