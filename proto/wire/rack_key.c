/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/rack_key.h"

#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 2 * PR_FRAME_KEY };

static int
check_file(int fd, const char *path, struct pr_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return pr_error_errno(err, "%s: cannot look at the rack's key", path);
	if (!S_ISREG(st.st_mode))
		return pr_error_set(err, "%s: the rack's key must be a regular file", path);
	if (st.st_mode & 077)
		return pr_error_set(err,
			"%s: others may read the rack's key: 'chmod 600 %s'", path, path);
	return 0;
}

static int
parse(const char *text, size_t len, const char *path, struct pr_frame_key *key,
	struct pr_error *err)
{
	size_t got = 0;

	while (len > 0 && strchr(" \t\r\n", text[len - 1]))
		len--;
	if (len != DIGITS ||
		sodium_hex2bin(
			key->bytes, sizeof key->bytes, text, len, NULL, &got, NULL) != 0 ||
		got != PR_FRAME_KEY)
		return pr_error_set(err,
			"%s: a rack's key is %d hexadecimal digits "
			"('openssl rand -hex 32' makes one)",
			path, DIGITS);
	key->set = true;
	return 0;
}

int
pr_rack_key_read(const char *path, struct pr_frame_key *key, struct pr_error *err)
{
	char text[DIGITS + 16];
	ssize_t len;
	int fd, rc = -1;

	memset(key, 0, sizeof *key);
	if (!path)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return pr_error_errno(err, "%s: cannot read the rack's key", path);
	if (check_file(fd, path, err) == 0) {
		len = read(fd, text, sizeof text);
		if (len < 0)
			pr_error_errno(err, "%s: cannot read the rack's key", path);
		else
			rc = parse(text, (size_t)len, path, key, err);
	}
	sodium_memzero(text, sizeof text);
	close(fd);
	return rc;
}
