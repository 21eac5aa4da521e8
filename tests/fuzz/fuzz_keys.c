/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key directories, the bundles that a rack's head gives to its members, and who is admitted with a key.
 * Covers proto/rpc/keys.c proto/rpc/admission.c proto/wire/rack_key.c
 * Options -max_len=2048
 *
 * The files secret, public, enrolled and rack, with a NUL behind each; then the frames of a request to
 * ZeroMQ's authentication, each with its length before it.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/rpc/admission.h"
#include "proto/wire/rack_key.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/key_dir.h"

#define ENDPOINT "tcp://rack:7100"

static char dir[64], head[64]; /* head: its list is FUZZ_NEW_KEY alone */
static const char *const names[] = {"secret", "public", "enrolled", "rack"};
#define FILES (sizeof names / sizeof *names)

static struct event_base *base;
static struct pr_enrolled *admitted;
static void *client;

/* In place of libsodium's pages with guards, which took most of a run: the sanitizer sees each byte. */
void *
sodium_malloc(size_t size)
{
	return malloc(size);
}

void
sodium_free(void *memory)
{
	free(memory);
}

static void
remove_dir(const char *which)
{
	char path[128];

	for (size_t i = 0; i < FILES; i++) {
		snprintf(path, sizeof path, "%s/%s", which, names[i]);
		unlink(path);
	}
	rmdir(which);
}

static void
remove_dirs(void)
{
	remove_dir(dir);
	remove_dir(head);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	void *ctx = zmq_ctx_new();
	char key[PR_KEY_TEXT];

	(void)argc;
	(void)argv;
	pr_log_open("fuzz", PR_LOG_ERROR, PR_LOG_AUTO);
	snprintf(dir, sizeof dir, "/dev/shm/packrack-fuzz-keys.%d", (int)getpid());
	snprintf(head, sizeof head, "%s.head", dir);
	atexit(remove_dirs);
	key_dir_make(dir, key);
	key_dir_make(head, key);
	key_dir_write(head, "enrolled", 0600, "fuzz-new read %s\n", FUZZ_NEW_KEY);
	base = event_base_new();
	MUST(pr_zap_create(base, ctx, head, &admitted, NULL));
	client = zmq_socket(ctx, ZMQ_REQ);
	MUST(zmq_connect(client, "inproc://zeromq.zap.01") == 0);
	return 0;
}

/* Returns the length of what is behind the files. */
static size_t
write_files(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < FILES; i++) {
		const uint8_t *end = size ? memchr(data, 0, size) : NULL;
		size_t len = end ? (size_t)(end - data) : size;
		char path[128];
		int fd;

		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		MUST(fd >= 0 && write(fd, data, len) == (ssize_t)len && close(fd) == 0);
		data += end ? len + 1 : len;
		size -= end ? len + 1 : len;
	}
	return size;
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

/* The next frame, or NULL. A length of 255: all that is left. */
static const uint8_t *
next_frame(const uint8_t **data, size_t *size, size_t *len)
{
	const uint8_t *frame = *data + 1;

	if (*size == 0)
		return NULL;
	*len = **data < 255 && **data < *size ? **data : *size - 1;
	*data += *len + 1;
	*size -= *len + 1;
	return frame;
}

static bool
is(const uint8_t *frame, size_t len, const void *wanted, size_t wanted_len)
{
	return len == wanted_len && !memcmp(frame, wanted, len);
}

/* Sends the request; true: its key has to be admitted. *id_len: of its number, which is kept up to 256 bytes. */
static bool
send_request(const uint8_t *data, size_t size, size_t *id_len)
{
	uint8_t key[PR_KEY_BYTES];
	const uint8_t *frame;
	size_t len, count = 0;
	bool good = true;

	zmq_z85_decode(key, FUZZ_NEW_KEY);
	while ((frame = next_frame(&data, &size, &len))) {
		if (count == 1)
			*id_len = len <= 256 ? len : 0;
		if (count == 0)
			good &= is(frame, len, "1.0", 3);
		else if (count == 5)
			good &= is(frame, len, "CURVE", 5);
		else if (count == 6)
			good &= is(frame, len, key, sizeof key);
		count++;
		MUST(zmq_send(client, frame, len, size ? ZMQ_SNDMORE : 0) == (int)len);
	}
	return good && count == 7;
}

/* One answer: the user id that it gives, which has no text when nobody is admitted. */
static void
take_answer(bool good, size_t id_len, char user[PR_KEY_TEXT])
{
	char frame[300];
	int len = -1;

	for (int64_t end = pr_now_mono() + 10 * PR_NS_PER_S; pr_now_mono() < end;) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		if ((len = zmq_recv(client, frame, sizeof frame, ZMQ_DONTWAIT)) >= 0)
			break;
	}
	MUST(len == 3 && !memcmp(frame, "1.0", 3));
	MUST(zmq_recv(client, frame, sizeof frame, 0) == (int)id_len);
	MUST(zmq_recv(client, frame, sizeof frame, 0) == 3);
	MUST(!memcmp(frame, good ? "200" : "400", 3));
	MUST(zmq_recv(client, frame, sizeof frame, 0) == 0);
	len = zmq_recv(client, user, PR_KEY_TEXT - 1, 0);
	MUST(len == (good ? PR_KEY_TEXT - 1 : 0));
	user[len] = 0;
	MUST(zmq_recv(client, frame, sizeof frame, 0) == 0);
}

/* Nobody but the enrolled key is admitted, and it may send what its role may. */
static void
admit(const uint8_t *data, size_t size)
{
	struct pr_rpc_peer peer = {0};
	struct pr_error why = {""};
	char user[PR_KEY_TEXT];
	size_t id_len = 0;
	unsigned body;
	bool good;

	if (size == 0)
		return;
	body = data[size - 1] % 32;
	good = send_request(data, size, &id_len);
	take_answer(good, id_len, user);
	pr_admit_fill(admitted, user, &peer);
	MUST(peer.role == (good ? PR_ROLE_READ : 0U));
	MUST(!strcmp(peer.user, good ? "fuzz-new" : ""));
	if (pr_admit_message(admitted, &peer, body, &why))
		MUST(good && pr_roles_for(body) & PR_ROLE_READ);
	else
		MUST(why.text[0] && !(good && pr_roles_for(body) & PR_ROLE_READ));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pr_error err = {""};
	const struct pr_enrolled_key *key;
	struct pr_enrolled *enrolled;
	uint8_t bytes[PR_KEY_BYTES];
	char text[PR_ROLE_TEXT];
	size_t rest = write_files(data, size);

	load_keys();
	admit(data + size - rest, rest);
	enrolled = pr_enrolled_open(dir, &err);
	MUST(enrolled || err.text[0]);
	if (enrolled && zmq_z85_decode(bytes, FUZZ_NEW_KEY) &&
		(key = pr_enrolled_find(enrolled, bytes)))
		MUST(*key->name &&
			pr_role_parse(pr_role_text(key->role, text)) == key->role);
	pr_enrolled_close(&enrolled);
	return 0;
}
