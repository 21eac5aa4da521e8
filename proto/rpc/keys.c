/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/rpc/keyfile.h"

/* The value of the one line that begins with word. */
static int
parse_key(const char *path, char *text, const char *word, char out[PR_KEY_TEXT],
	struct pr_error *err)
{
	uint8_t bytes[PR_KEY_BYTES];
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		size_t n = strlen(word);
		if (strncmp(line, word, n) || line[n] != ' ')
			continue;
		line += n + 1;
		if (strlen(line) != PR_KEY_TEXT - 1 || !zmq_z85_decode(bytes, line))
			return pr_error_set(
				err, "key file %s: its %s is no key", path, word);
		explicit_bzero(bytes, sizeof(bytes));
		memcpy(out, line, PR_KEY_TEXT);
		return 0;
	}
	return pr_error_set(
		err, "key file %s: no line '%s KEY' (packrack keys generate)", path, word);
}

static int
load_key(const char *path, bool private, const char *word, char out[PR_KEY_TEXT],
	struct pr_error *err)
{
	char *text = pr_keyfile_read(path, private, NULL, err);
	size_t len;
	int rc;

	if (!text)
		return -1;
	len = strlen(text);
	rc = parse_key(path, text, word, out, err);
	explicit_bzero(text, len);
	free(text);
	return rc;
}

int
pr_keys_load_pair(const char *secret_file, struct pr_key_pair *out, struct pr_error *err)
{
	if (load_key(secret_file, true, "secret-key", out->secret, err) < 0)
		return -1;
	if (zmq_curve_public(out->public, out->secret) == 0)
		return 0;
	pr_keys_wipe(out);
	return pr_error_set(err, "key file %s: %s", secret_file,
		errno == ENOTSUP ? "this ZeroMQ was built without CURVE" : "no key");
}

int
pr_keys_load_public(const char *public_file, char out[PR_KEY_TEXT], struct pr_error *err)
{
	return load_key(public_file, false, "public-key", out, err);
}

void
pr_keys_wipe(struct pr_key_pair *pair)
{
	explicit_bzero(pair, sizeof(*pair));
}

static int
write_key(const char *path, mode_t mode, const char *word, const char *key,
	struct pr_error *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);

	if (fd < 0)
		return pr_error_errno(err, "cannot make key file %s", path);
	if (dprintf(fd, "%s %s\n", word, key) < 0 || fsync(fd) < 0) {
		pr_error_errno(err, "key file %s", path);
		close(fd);
		unlink(path);
		return -1;
	}
	close(fd);
	return 0;
}

int
pr_keys_generate(const char *secret_file, const char *public_file, struct pr_error *err)
{
	struct pr_key_pair pair;
	int rc = -1;

	if (zmq_curve_keypair(pair.public, pair.secret) < 0)
		return pr_error_set(err, "this ZeroMQ was built without CURVE");
	if (write_key(secret_file, 0600, "secret-key", pair.secret, err) == 0) {
		rc = write_key(public_file, 0644, "public-key", pair.public, err);
		if (rc < 0)
			unlink(secret_file);
	}
	pr_keys_wipe(&pair);
	return rc;
}
