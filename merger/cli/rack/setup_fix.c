/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/rack/setup.h"
#include "merger/cli/rack/setup_ethtool.h"

static int
write_file(const struct setup *s, const struct setup_finding *f)
{
	size_t len = strlen(f->value);
	char whole[512];
	int fd, rc;

	snprintf(whole, sizeof whole, "%s%s", s->root, f->path);
	fd = open(whole, O_WRONLY | O_CLOEXEC | O_TRUNC);
	if (fd < 0)
		return -1;
	rc = write(fd, f->value, len) == (ssize_t)len ? 0 : -1;
	if (close(fd) < 0)
		rc = -1;
	return rc;
}

static int
fix(const struct setup *s, const struct setup_finding *f)
{
	switch (f->fix) {
	case SETUP_FIX_FILE:
		return write_file(s, f);
	case SETUP_FIX_OFFLOAD:
		return setup_ethtool_set(f->where, f->command, f->number);
	case SETUP_FIX_RING:
		return setup_ethtool_set_ring(f->where, f->number);
	case SETUP_FIX_MTU:
		return setup_set_mtu(f->where, f->number);
	case SETUP_FIX_NONE:
		break;
	}
	errno = ENOTSUP;
	return -1;
}

size_t
setup_fix_all(struct setup *s)
{
	size_t failed = 0;

	for (size_t i = 0; i < s->count; i++) {
		struct setup_finding *f = &s->list[i];

		if (f->verdict != SETUP_CHANGE || f->fix == SETUP_FIX_NONE)
			continue;
		if (*s->root && f->fix != SETUP_FIX_FILE)
			continue; /* the interface is another machine's */
		f->fixed = fix(s, f) == 0;
		if (f->fixed)
			continue;
		snprintf(f->failed, sizeof f->failed, "%s", strerror(errno));
		failed++;
	}
	return failed;
}
