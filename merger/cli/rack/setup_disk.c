/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "merger/cli/rack/setup.h"
#include "proto/base/clock.h"

#define PIECE (1 << 20) /* as StreamFS writes */
#define PIECES_MAX 256
#define TEST_NS (PR_NS_PER_S / 2)

static void
check_scheduler(struct setup *s, const char *path, dev_t device)
{
	static const char *const forms[] = {"/sys/dev/block/%u:%u/queue/scheduler",
		"/sys/dev/block/%u:%u/../queue/scheduler" /* of a partition's disk */};
	char file[128], text[128];

	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
		snprintf(file, sizeof file, forms[i], major(device), minor(device));
		if (!setup_read(s, file, text, sizeof text))
			continue;
		if (strstr(text, "[bfq]"))
			setup_add_file(s, "disk", file, "bfq", "mq-deadline",
				"it puts fairness before writing on time");
		else
			setup_add(s, "disk", path, SETUP_OK, "scheduler: %s", text);
		return;
	}
	setup_add(s, "disk", path, SETUP_UNKNOWN, "no scheduler of its own is to be seen");
}

/* A file that is nowhere: gone when it is closed, whatever happens. */
static int
open_nameless(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
	char path[4096];

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd;
	snprintf(path, sizeof path, "%s/.packrack-setup.XXXXXX", folder);
	fd = mkostemp(path, O_DIRECT | O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* Bytes a second; 0: errno. Half a second, 256 MiB at most. A device or file is only read. */
static double
measure(int fd, bool writing, void *piece)
{
	int64_t begun = pr_now_mono(), now = begun;
	uint64_t done = 0;
	off_t at = 0;

	for (unsigned i = 0; i < PIECES_MAX && now - begun < TEST_NS; i++) {
		ssize_t n = writing ? pwrite(fd, piece, PIECE, at)
				    : pread(fd, piece, PIECE, at);

		if (n < 0 || (n == 0 && done == 0)) {
			errno = n < 0 ? errno : ENODATA;
			return 0;
		}
		at = n == PIECE ? at + n : 0; /* at its end: from the front */
		done += (uint64_t)n;
		now = pr_now_mono();
	}
	if (writing && fdatasync(fd) < 0)
		return 0;
	now = pr_now_mono();
	return (double)done * 1e9 / (double)(now > begun ? now - begun : 1);
}

static void
judge_speed(struct setup *s, const char *path, bool writing, double speed, uint64_t wanted)
{
	const char *what = writing ? "writes" : "reads";

	if (speed < (double)wanted)
		setup_add(s, "disk", path, SETUP_CHANGE,
			"%s %.0f MB/s, less than the %.0f that are wanted: a faster disk, "
			"several of them in one volume, or more nodes",
			what, speed / 1e6, (double)wanted / 1e6);
	else
		setup_add(s, "disk", path, SETUP_OK, "%s %.0f MB/s", what, speed / 1e6);
}

static void
check_speed(struct setup *s, const char *path, bool writing, uint64_t wanted)
{
	int fd = writing ? open_nameless(path)
			 : open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
	void *piece = NULL;
	double speed = 0;

	if (fd >= 0 && posix_memalign(&piece, 4096, PIECE) == 0) {
		memset(piece, 0x5a, PIECE);
		speed = measure(fd, writing, piece);
	}
	if (speed > 0)
		judge_speed(s, path, writing, speed, wanted);
	else
		setup_add(s, "disk", path, SETUP_UNKNOWN,
			"its speed past the page cache cannot be measured: %s",
			strerror(errno));
	free(piece);
	if (fd >= 0)
		close(fd);
}

void
setup_check_disk(struct setup *s, const char *path, uint64_t wanted)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		setup_add(s, "disk", path, SETUP_CHANGE, "%s", strerror(errno));
		return;
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
		setup_add(s, "disk", path, SETUP_CHANGE,
			"is no device, file or folder: name where the volume is to be");
		return;
	}
	check_scheduler(s, path, S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
	check_speed(s, path, S_ISDIR(st.st_mode), wanted);
}
