/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key directories, and the bundles that a rack's head gives to its members.
 * Covers proto/rpc/keys.c proto/rpc/admission.c proto/wire/rack_key.c
 * Options -max_len=2048
 *
 * The files secret, public, enrolled and rack, with a NUL between them.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/log.h"
#include "proto/base/clock.h"
#include "proto/rpc/keys.h"
#include "proto/rpc/admission.h"
#include "proto/wire/rack_key.h"
#include "tests/fuzz/fuzz.h"

#define ENDPOINT "tcp://rack:7100"
#define NEW_KEY                                                                            \
	"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7" /* of RFC 32/Z85's kind, 32 bytes */

static char dir[64];
static const char *const names[] = {"secret", "public", "enrolled", "rack"};
#define FILES (sizeof names / sizeof *names)

static void
path_of(char path[128], const char *name)
{
	snprintf(path, 128, "%s/%s", dir, name);
}

static void
remove_dir(void)
{
	char path[128];

	for (size_t i = 0; i < FILES; i++) {
		path_of(path, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	pr_log_open("fuzz", PR_LOG_ERROR);
	snprintf(dir, sizeof dir, "/dev/shm/packrack-fuzz-keys.%d", (int)getpid());
	atexit(remove_dir);
	return pr_keys_generate(dir, NULL);
}

static void
write_files(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < FILES; i++) {
		const uint8_t *end = size ? memchr(data, 0, size) : NULL;
		size_t len = end ? (size_t)(end - data) : size;
		char path[128];
		int fd;

		path_of(path, names[i]);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		MUST(fd >= 0 && write(fd, data, len) == (ssize_t)len && close(fd) == 0);
		data += end ? len + 1 : len;
		size -= end ? len + 1 : len;
	}
}

static void
load_keys(void)
{
	char key[PR_KEY_TEXT] = "";
	struct pr_frame_key frame_key = {0};
	struct pr_key_pair pair;
	struct pr_error err = {""};

	if (pr_keys_load_pair(dir, &pair, &err) == 0) {
		MUST(strlen(pair.secret) == PR_KEY_TEXT - 1);
		MUST(strlen(pair.public) == PR_KEY_TEXT - 1);
		pr_keys_wipe(&pair);
	} else {
		MUST(err.text[0]);
	}
	MUST(pr_keys_load_public(dir, key, &err) < 0 || strlen(key) == PR_KEY_TEXT - 1);
	MUST(pr_keys_load_server(dir, ENDPOINT, key, &err) < 0 ||
		strlen(key) == PR_KEY_TEXT - 1);
	if (pr_rack_key_read(dir, &frame_key, &err) == 0) {
		MUST(frame_key.set);
		pr_rack_key_turn(&frame_key);
		pr_rack_key_heard(&frame_key, true);
		MUST(frame_key.set);
	}
	pr_rack_key_forget(&frame_key);
}

static size_t
look_at(struct pr_enrolled *enrolled)
{
	const struct pr_enrolled_key *key;
	size_t count = 0;

	for (; (key = pr_enrolled_at(enrolled, count)); count++) {
		char text[PR_ROLE_TEXT];

		MUST(pr_key_name_valid(key->name));
		MUST(pr_role_parse(pr_role_text(key->role, text)) == key->role);
		MUST(pr_enrolled_find(enrolled, key->key));
	}
	return count;
}

static size_t
count_now(void)
{
	struct pr_enrolled *enrolled = pr_enrolled_open(dir, NULL);
	size_t count;

	MUST(enrolled);
	count = look_at(enrolled);
	pr_enrolled_close(&enrolled);
	return count;
}

/* What was good stays so, with one more and without it again. */
static void
enrol(struct pr_enrolled *enrolled, size_t before)
{
	const uint8_t nobody[PR_KEY_BYTES] = {0};
	unsigned role = pr_role_parse("read"), was;

	if (pr_enrol(dir, "fuzz-new", role, NEW_KEY, NULL) < 0)
		return;
	MUST(count_now() == before + 1);
	/* sees that the file is another one, once it looks again */
	for (int64_t end = pr_now_mono() + PR_NS_PER_S;
		!pr_enrolled_at(enrolled, before) && pr_now_mono() < end;)
		pr_enrolled_find(enrolled, nobody);
	MUST(pr_enrolled_at(enrolled, before) && !pr_enrolled_at(enrolled, before + 1));
	MUST(pr_revoke(dir, "fuzz-new", &was, NULL) == 0 && was == role);
	MUST(count_now() == before);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pr_error err = {""};
	struct pr_enrolled *enrolled;

	write_files(data, size);
	load_keys();
	enrolled = pr_enrolled_open(dir, &err);
	if (!enrolled) {
		MUST(err.text[0]);
		return 0;
	}
	size = look_at(enrolled);
	enrol(enrolled, size);
	pr_enrolled_close(&enrolled);
	return 0;
}
