/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "logger/streamfs/streamfs.h"

/* A volume in a file of its own. */
static char path[64];
static const char *const paths[] = {path};
static struct pr_error err;

static inline void
make_file(void)
{
	snprintf(path, sizeof(path), "/tmp/sfs-test.XXXXXX");
	close(mkstemp(path));
}

static inline void
remove_file(void)
{
	unlink(path);
}

static inline void
make_volume(const struct sfs_create_options *o)
{
	make_file();
	ck_assert_msg(sfs_create(paths, 1, o, &err) == 0, "%s", err.text);
}

static inline struct sfs *
open_with(const struct sfs_open_options *o)
{
	struct sfs *sfs = sfs_open(paths, 1, o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	return sfs;
}

static inline struct sfs *
open_volume(bool writer)
{
	return open_with(
		&(struct sfs_open_options){.writer = writer, .shm_bytes = 1 << 20});
}
