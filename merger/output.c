/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/output.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int
pr_output_init(struct pr_output *out, int fd, struct pr_error *err)
{
	*out = (struct pr_output){.fd = fd, .buf = malloc(PR_OUTPUT_ROOM)};
	return out->buf ? 0 : pr_error_set(err, "no memory for an output buffer");
}

void
pr_output_free(struct pr_output *out)
{
	free(out->buf);
	out->buf = NULL;
}

static int
write_all(struct pr_output *out, const uint8_t *data, size_t len, struct pr_error *err)
{
	while (len && !out->failed) {
		ssize_t n = write(out->fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			out->failed = true;
			out->closed = errno == EPIPE;
			return pr_error_errno(err, "writing the answer");
		}
		data += n;
		len -= (size_t)n;
	}
	return out->failed ? pr_error_set(err, "writing the answer failed before") : 0;
}

int
pr_output_flush(struct pr_output *out, struct pr_error *err)
{
	size_t used = out->used;

	out->used = 0;
	return write_all(out, out->buf, used, err);
}

int
pr_output_write(struct pr_output *out, const void *data, size_t len, struct pr_error *err)
{
	if (len > PR_OUTPUT_ROOM - out->used && pr_output_flush(out, err) < 0)
		return -1;
	out->written += len;
	if (len > PR_OUTPUT_ROOM)
		return write_all(out, data, len, err);
	memcpy(out->buf + out->used, data, len);
	out->used += len;
	return 0;
}
