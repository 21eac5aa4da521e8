/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/trace_file.h"

int
data_file_read(const char *path, char hash[PRM_TRACE_HASH_TEXT], uint64_t *packets,
	struct pr_error *err)
{
	struct prm_trace_hash *h = prm_trace_hash_create(err);
	struct trace_file *file = h ? trace_file_open(path, err) : NULL;
	struct pr_packet p;
	int rc = PR_SOURCE_ERROR;

	*packets = 0;
	while (file && (rc = trace_file_next(file, &p, err)) == PR_SOURCE_PACKET) {
		prm_trace_hash_add(h, &p);
		++*packets;
	}
	if (rc == PR_SOURCE_END)
		prm_trace_hash_text(h, hash);
	trace_file_close(&file);
	prm_trace_hash_destroy(&h);
	return rc == PR_SOURCE_END ? 0 : -1;
}

int
data_file_keep(const char *part, const char *path, struct pr_error *err)
{
	char folder[4096];
	const char *slash = strrchr(path, '/');
	int fd = open(part, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -1 : fsync(fd);

	if (fd >= 0)
		close(fd);
	if (rc < 0 || link(part, path) < 0)
		return pr_error_errno(err, "%s", path);
	unlink(part);
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
		slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = fd < 0 ? -1 : fsync(fd);
	if (fd >= 0)
		close(fd);
	return rc < 0 ? pr_error_errno(err, "%s", folder) : 0;
}
