/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/trace_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* draft-ietf-opsawg-pcapng */
#define BLOCK_SECTION 0x0A0D0D0Au
#define BLOCK_SECRETS 0x0000000Au
#define BYTE_ORDER_MAGIC 0x1A2B3C4Du
#define BLOCK_MIN 12 /* type, length, length again */
#define BUFFER (256 * 1024)
#define IDLE_MS 10

struct watched {
	struct prl_trace_watch *watch;
	int fd;
};

static uint32_t
load32(const uint8_t *at, bool big_endian)
{
	if (big_endian)
		return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
		       (uint32_t)at[2] << 8 | at[3];
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

/* A section may have another byte order than the one before; its type reads the same in both. */
static void
block(struct prl_trace_watch *w)
{
	uint32_t type = load32(w->head, w->big_endian), len;

	if (type == BLOCK_SECTION) {
		w->big_endian = load32(w->head + 8, true) == BYTE_ORDER_MAGIC;
		w->over = load32(w->head + 8, w->big_endian) != BYTE_ORDER_MAGIC;
	} else if (!w->begun) {
		w->over = true;
	}
	w->begun = true;
	len = load32(w->head + 4, w->big_endian);
	if (len < BLOCK_MIN || len % 4)
		w->over = true;
	if (w->over)
		return;
	w->secrets += type == BLOCK_SECRETS;
	w->skip = len - BLOCK_MIN;
	w->have = 0;
}

void
prl_trace_watch_feed(struct prl_trace_watch *w, const void *data, size_t len)
{
	const uint8_t *at = data;
	size_t left = len, n;

	while (left && !w->over) {
		if (w->skip) {
			n = left < w->skip ? left : w->skip;
			w->skip -= (uint32_t)n;
		} else {
			n = sizeof(w->head) - w->have;
			n = left < n ? left : n;
			memcpy(w->head + w->have, at, n);
			w->have += (uint32_t)n;
			if (w->have == sizeof(w->head))
				block(w);
		}
		at += n;
		left -= n;
	}
	w->bytes += len;
}

/* False: it is not to be waited for any longer. */
static bool
await(struct watched *f)
{
	struct pollfd p = {.fd = f->fd, .events = POLLIN};
	int rc;

	while (f->watch->idle) {
		rc = poll(&p, 1, IDLE_MS);
		if (rc > 0 || (rc < 0 && errno != EINTR))
			break;
		if (!f->watch->idle(f->watch->arg))
			return false;
	}
	return true;
}

static ssize_t
on_read(void *cookie, char *buf, size_t size)
{
	struct watched *f = cookie;
	ssize_t n;

	if (!await(f))
		return 0;
	do
		n = read(f->fd, buf, size);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		prl_trace_watch_feed(f->watch, buf, (size_t)n);
	return n;
}

static int
on_close(void *cookie)
{
	struct watched *f = cookie;
	int result = f->fd == STDIN_FILENO ? 0 : close(f->fd);

	free(f);
	return result;
}

FILE *
prl_trace_watch_open(struct prl_trace_watch *w, const char *path, struct pr_error *err)
{
	struct watched *f = malloc(sizeof(*f));
	FILE *stream = NULL;

	*w = (struct prl_trace_watch){0};
	if (!f) {
		pr_error_set(err, "%s: no memory to read it", path);
		return NULL;
	}
	f->watch = w;
	f->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (f->fd >= 0)
		stream = fopencookie(f, "r",
			(cookie_io_functions_t){.read = on_read, .close = on_close});
	if (!stream) {
		pr_error_errno(err, "%s", path);
		if (f->fd >= 0)
			on_close(f);
		else
			free(f);
		return NULL;
	}
	setvbuf(stream, NULL, _IOFBF, BUFFER);
	return stream;
}
