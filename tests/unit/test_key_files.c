/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/keyfile.h"
#include "proto/rpc/admission.h"
#include "proto/wire/frame.h"
#include "proto/wire/rack_key.h"
#include "tests/unit/key_dir.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire_whole.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static char dir[64], key[PR_KEY_TEXT];
static struct pr_error err;

static void
path_of(char path[128], const char *name)
{
	snprintf(path, 128, "%s/%s", dir, name);
}

static void
write_bytes(const char *name, mode_t mode, const void *bytes, size_t len)
{
	char path[128];
	FILE *f;

	path_of(path, name);
	unlink(path);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
	fclose(f);
	ck_assert_int_eq(chmod(path, mode), 0);
}

static void write_text(const char *name, mode_t mode, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void
write_text(const char *name, mode_t mode, const char *fmt, ...)
{
	char text[4096];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	write_bytes(name, mode, text, strlen(text));
}

static void
make_place(void)
{
	snprintf(dir, sizeof(dir), "/tmp/packrack-keyfiles-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chmod(dir, 0700), 0);
	key_dir_make(dir, key);
}

static void
remove_place(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static bool
told(const char *text)
{
	return strstr(err.text, text) && strstr(err.text, dir) && !strchr(err.text, '\n');
}

START_TEST(a_pair_is_loaded)
{
	struct pr_key_pair pair;

	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0);
	ck_assert_int_eq(pr_keys_load_pair(dir, &pair, &err), 0);
	ck_assert_str_eq(pair.public, key);
	ck_assert_int_eq(prctl(PR_GET_DUMPABLE), 0); /* no core dump holds it */
	pr_keys_wipe(&pair);
	ck_assert_int_eq(pair.secret[0], 0);
}
END_TEST

static bool
secret_refused(const char *why)
{
	struct pr_key_pair pair;

	err.text[0] = 0;
	if (pr_keys_load_pair(dir, &pair, &err) == 0)
		return false;
	ck_assert_msg(told(why), "%s", err.text);
	return true;
}

START_TEST(modes)
{
	char path[128];

	path_of(path, "secret");
	chmod(path, 0640);
	ck_assert(secret_refused("chmod 600"));
	chmod(path, 0604);
	ck_assert(secret_refused("chmod 600"));
	chmod(path, 0600);
	chmod(dir, 0750);
	ck_assert(secret_refused("chmod 700"));
	chmod(dir, 0700);
	if (geteuid() == 0) { /* of somebody who does not own the directory */
		ck_assert_int_eq(chown(path, 12345, 0), 0);
		ck_assert(secret_refused("belongs to user 12345"));
		ck_assert_int_eq(
			chown(dir, 12345, 0), 0); /* of a daemon's user: root may */
		ck_assert(!secret_refused("x"));
	}
}
END_TEST

START_TEST(hostile_secrets)
{
	static const char *const bad[] = {"", "\n", "secret-key", "secret-key \n",
		"secret-key short\n", "public-key x\n",
		"secret-key "
		"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\""
		"\"\"\"\n",
		"secret-key 0123456789012345678901234567890123456789extra\n"};
	char path[128];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_text("secret", 0600, "%s", bad[i]);
		ck_assert(secret_refused("key file"));
		ck_assert_ptr_null(strstr(err.text, "0123456789"));
	}
	write_bytes("secret", 0600, "secret-key \0hidden\n", 19);
	ck_assert(secret_refused("NUL"));
	path_of(path, "secret");
	unlink(path);
	ck_assert(secret_refused("No such file"));
	ck_assert_int_eq(mkfifo(path, 0600), 0); /* does not hang */
	ck_assert(secret_refused("not a regular file"));
	unlink(path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert(secret_refused("not a regular file"));
	rmdir(path);
	write_text("secret", 0600, "x");
	ck_assert_int_eq(truncate(path, 2 << 20), 0);
	ck_assert(secret_refused("longer"));
}
END_TEST

static const struct pr_enrolled_key *
find(struct pr_enrolled *list, const char *text)
{
	uint8_t bytes[PR_KEY_BYTES];

	ck_assert_ptr_nonnull(zmq_z85_decode(bytes, text));
	return pr_enrolled_find(list, bytes);
}

START_TEST(hostile_lists)
{
	static const char *const bad[] = {"ann", "ann read", "ann king %s",
		"ann read %s more", "-ann read %s", "a/b read %s", "ann\x1b read %s",
		"ann read, %s", "ann read short"};
	char path[128];
	struct pr_enrolled *list;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char line[256];

		snprintf(line, sizeof(line), bad[i], key);
		write_text("enrolled", 0600, "# one\n\nbob read %s\n%s\n", key, line);
		ck_assert_ptr_null(pr_enrolled_open(dir, &err));
		ck_assert_msg(told("line 4"), "%s", err.text);
	}
	path_of(path, "enrolled");
	chmod(path, 0666);
	ck_assert_ptr_null(pr_enrolled_open(dir, &err));
	ck_assert(told("others may change it"));
	unlink(path);
	list = pr_enrolled_open(dir, &err); /* not there: nobody */
	ck_assert_ptr_nonnull(list);
	ck_assert_ptr_null(find(list, key));
	pr_enrolled_close(&list);
}
END_TEST

START_TEST(lists_are_read_again)
{
	char other[PR_KEY_TEXT], sub[128], path[128], text[PR_KEY_TEXT];
	struct pr_enrolled *list = pr_enrolled_open(dir, &err);

	path_of(sub, "sub");
	key_dir_make(sub, other);
	ck_assert_ptr_null(find(list, key));
	key_dir_write(dir, "enrolled", 0600, "# who may\nann read %s\n", key);
	ck_assert_uint_eq(find(list, key)->role, PR_ROLE_READ);
	ck_assert_str_eq(pr_key_text(find(list, key)->key, text), key);
	key_dir_write(dir, "enrolled", 0600,
		"ann node,read,operate,read-anonymized %s\n bob\tsteer %s\r", key, other);
	ck_assert_uint_eq(find(list, key)->role, PR_ROLE_ALL | PR_ROLE_ANONYMIZED);
	ck_assert_str_eq(find(list, other)->name, "bob");
	key_dir_write(dir, "enrolled", 0600, "bob operate %s\n", other);
	ck_assert_ptr_null(find(list, key));
	ck_assert_ptr_nonnull(find(list, other));
	path_of(path, "enrolled");
	chmod(path, 0606); /* what cannot be trusted any more admits nobody */
	for (int64_t until = pr_now_mono() + PR_ENROLLED_LOOK_NS; pr_now_mono() <= until;)
		;
	ck_assert_ptr_null(find(list, other));
	pr_enrolled_close(&list);
}
END_TEST

START_TEST(servers_by_endpoint)
{
	char other[PR_KEY_TEXT], sub[128], found[PR_KEY_TEXT];

	path_of(sub, "sub");
	key_dir_make(sub, other);
	write_text("rack", 0600, "server-key %s\nserver-key tcp://h:1 %s\n", key, other);
	ck_assert_int_eq(pr_keys_load_server(dir, "tcp://h:1", found, &err), 0);
	ck_assert_str_eq(found, other);
	ck_assert_int_eq(pr_keys_load_server(dir, "tcp://h:2", found, &err), 0);
	ck_assert_str_eq(found, key);
	write_text("rack", 0600, "server-key tcp://h:1 %s\n", other);
	ck_assert_int_eq(pr_keys_load_server(dir, "tcp://h:2", found, &err), -1);
	ck_assert(told("no server-key for tcp://h:2"));
	write_text("rack", 0600, "server-key tcp://h:1 junk\n");
	ck_assert_int_eq(pr_keys_load_server(dir, "tcp://h:1", found, &err), -1);
	ck_assert(told("is not a key"));
	write_text("rack", 0640, "server-key %s\n", key);
	ck_assert_int_eq(pr_keys_load_server(dir, "tcp://h:1", found, &err), -1);
	ck_assert(told("chmod 600"));
}
END_TEST

/* ---- the frame key ---- */

static bool
rack_refused(const char *text, const char *why)
{
	struct pr_frame_key frame;

	write_text("rack", 0600, "%s", text);
	err.text[0] = 0;
	if (pr_rack_key_read(dir, &frame, &err) == 0)
		return false;
	ck_assert_msg(told(why), "%s", err.text);
	ck_assert_ptr_null(strstr(err.text, "aaaa"));
	ck_assert(!frame.set);
	return true;
}

START_TEST(frame_keys_are_read)
{
	struct pr_frame_key frame;

	ck_assert(rack_refused("", "no frame-key"));
	ck_assert(rack_refused("frame-key\n", "no frame-key"));
	ck_assert(rack_refused("frame-key aa\n", "64 hexadecimal"));
	ck_assert(rack_refused("frame-key " HEX_A "a\n", "64 hexadecimal"));
	ck_assert(rack_refused("frame-key x" HEX_A "\n", "64 hexadecimal"));
	ck_assert(rack_refused("frame-key " HEX_A "\nframe-key " HEX_B "\nframe-key " HEX_A
			       "\n",
		"more than two"));
	ck_assert(!rack_refused("server-key x\nframe-key " HEX_A "\n", ""));
	ck_assert_int_eq(pr_rack_key_read(dir, &frame, &err), 0);
	ck_assert(frame.set && !frame.alternate_set);
	ck_assert_uint_eq(frame.active[31], 0xaa);
	pr_rack_key_forget(&frame);
	ck_assert_uint_eq(frame.active[31], 0);
	ck_assert_int_eq(pr_rack_key_read(NULL, &frame, &err), 0);
	ck_assert(!frame.set);
}
END_TEST

/* Does a frame of `from` pass at `to`, and by which of its keys? */
static bool
passes(const struct pr_frame_key *from, const struct pr_frame_key *to, bool *by_alternate)
{
	struct pr_frame f = {.header = {.type = PR_FRAME_STOP}}, out;
	uint8_t buf[256];
	size_t len = whole_frame(&f, PR_ETHERTYPE_DEFAULT, from, buf, sizeof(buf));

	ck_assert_uint_gt(len, 0);
	if (pr_frame_decode(buf, len, PR_ETHERTYPE_DEFAULT, to, &out) != PR_FRAME_OK)
		return false;
	*by_alternate = out.by_alternate;
	return true;
}

START_TEST(a_frame_key_is_renewed)
{
	struct pr_frame_key old, both, node;
	bool by_alternate;

	write_text("rack", 0600, "frame-key " HEX_A "\n");
	ck_assert_int_eq(pr_rack_key_read(dir, &old, &err), 0);
	write_text("rack", 0600, "frame-key " HEX_B "\nframe-key " HEX_A "\n");
	ck_assert_int_eq(pr_rack_key_read(dir, &both, &err), 0);
	ck_assert(passes(&old, &both, &by_alternate) && by_alternate);
	ck_assert(!passes(&both, &old, &by_alternate));
	node = both; /* its dispatcher has the old one still: every other announcement passes */
	pr_rack_key_turn(&node);
	ck_assert(passes(&node, &old, &by_alternate));
	pr_rack_key_turn(&node);
	ck_assert(!passes(&node, &old, &by_alternate));
	ck_assert(passes(&old, &node, &by_alternate) && by_alternate);
	pr_rack_key_heard(&node, by_alternate);
	ck_assert(passes(&node, &old, &by_alternate)); /* it speaks as it was spoken to */
	pr_rack_key_heard(&node, false);
	ck_assert(node.alternate_set);
	ck_assert(passes(&both, &node, &by_alternate) &&
		  by_alternate); /* the dispatcher follows */
	pr_rack_key_heard(&node, by_alternate);
	ck_assert(!node.alternate_set);
	ck_assert(!passes(&old, &node, &by_alternate)); /* the old one is good no more */
	ck_assert(passes(&node, &both, &by_alternate) && !by_alternate);
	pr_rack_key_turn(&node);
	ck_assert(passes(&node, &both, &by_alternate) && !by_alternate);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, make_place, remove_place);
	tcase_add_test(tc, a_pair_is_loaded);
	tcase_add_test(tc, modes);
	tcase_add_test(tc, hostile_secrets);
	tcase_add_test(tc, hostile_lists);
	tcase_add_test(tc, lists_are_read_again);
	tcase_add_test(tc, servers_by_endpoint);
	tcase_add_test(tc, frame_keys_are_read);
	tcase_add_test(tc, a_frame_key_is_renewed);
}

int
main(void)
{
	return unit_run("key files", fill);
}
