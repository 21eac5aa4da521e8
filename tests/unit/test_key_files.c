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
#include "proto/rpc/keys.h"
#include "proto/rpc/admission.h"
#include "proto/wire/frame.h"
#include "proto/wire/rack_key.h"
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
	ck_assert_msg(pr_keys_generate(dir, &err) == 0, "%s", err.text);
	ck_assert_int_eq(pr_keys_load_public(dir, key, &err), 0);
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

START_TEST(what_is_generated)
{
	struct pr_key_pair pair;
	char path[128];
	struct stat st;

	path_of(path, "secret");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	ck_assert_int_eq(stat(dir, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0700);
	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0);
	ck_assert_int_eq(pr_keys_load_pair(dir, &pair, &err), 0);
	ck_assert_str_eq(pair.public, key);
	ck_assert_int_eq(prctl(PR_GET_DUMPABLE), 0); /* no core dump holds it */
	pr_keys_wipe(&pair);
	ck_assert_int_eq(pair.secret[0], 0);
	ck_assert_int_eq(pr_keys_generate(dir, &err), -1);
	ck_assert(told("already"));
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
		ck_assert_int_eq(pr_enrol(dir, "ann", PR_ROLE_READ, key, &err), 0);
		path_of(path, "enrolled"); /* and what root writes is that user's */
		struct stat st;
		ck_assert_int_eq(stat(path, &st), 0);
		ck_assert_uint_eq(st.st_uid, 12345);
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
		ck_assert_int_eq(pr_enrol(dir, "new", PR_ROLE_READ, key, &err),
			-1); /* nor changed */
	}
	path_of(path, "enrolled");
	chmod(path, 0666);
	ck_assert_ptr_null(pr_enrolled_open(dir, &err));
	ck_assert(told("others may change it"));
	unlink(path);
	list = pr_enrolled_open(dir, &err); /* not there: nobody */
	ck_assert_ptr_nonnull(list);
	ck_assert_ptr_null(pr_enrolled_at(list, 0));
	pr_enrolled_close(&list);
}
END_TEST

/* The first key, by its bytes, once the file was looked at again. */
static const struct pr_enrolled_key *
find(struct pr_enrolled *list)
{
	int64_t until = pr_now_mono() + PR_ENROLLED_LOOK_NS;
	uint8_t bytes[PR_KEY_BYTES];
	const struct pr_enrolled_key *first = pr_enrolled_at(list, 0);

	memset(bytes, 0, sizeof(bytes));
	if (first)
		memcpy(bytes, first->key, sizeof(bytes));
	while (pr_now_mono() <= until)
		;
	return pr_enrolled_find(list, bytes);
}

START_TEST(enrolling_and_revoking)
{
	char other[PR_KEY_TEXT], sub[128], path[128], text[PR_KEY_TEXT];
	struct pr_enrolled *list;
	unsigned role;
	FILE *f;

	path_of(sub, "sub");
	ck_assert_int_eq(pr_keys_generate(sub, &err), 0);
	ck_assert_int_eq(pr_keys_load_public(sub, other, &err), 0);
	write_text("enrolled", 0600, "# who may\n");
	list = pr_enrolled_open(dir, &err);
	ck_assert_int_eq(pr_enrol(dir, "ann", PR_ROLE_READ, key, &err), 0);
	ck_assert_ptr_null(find(list)); /* has it read again */
	ck_assert_ptr_nonnull(find(list));
	ck_assert_str_eq(pr_key_text(find(list)->key, text), key);
	ck_assert_int_eq(pr_enrol(dir, "ann", PR_ROLE_READ, other, &err), -1);
	ck_assert(told("'ann' is enrolled already"));
	ck_assert_int_eq(pr_enrol(dir, "bob", PR_ROLE_READ, key, &err), -1);
	ck_assert(told("as 'ann'"));
	ck_assert_int_eq(pr_enrol(dir, "b b", PR_ROLE_READ, other, &err), -1);
	ck_assert_int_eq(pr_enrol(dir, "bob", PR_ROLE_READ, "x", &err), -1);
	ck_assert_int_eq(
		pr_enrol(dir, "bob", PR_ROLE_ALL | PR_ROLE_ANONYMIZED, other, &err), 0);
	ck_assert_int_eq(pr_revoke(dir, "eve", &role, &err), -1);
	ck_assert_int_eq(pr_revoke(dir, "ann", &role, &err), 0);
	ck_assert_uint_eq(role, PR_ROLE_READ);
	find(list);
	ck_assert_ptr_null(pr_enrolled_at(list, 1));
	ck_assert_str_eq(pr_enrolled_at(list, 0)->name, "bob");
	path_of(path, "enrolled"); /* comments stay */
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	ck_assert_str_eq(text, "# who may\n");
	fclose(f);
	chmod(path, 0606); /* what cannot be trusted any more admits nobody */
	ck_assert_ptr_null(find(list));
	ck_assert_ptr_null(pr_enrolled_at(list, 0));
	pr_enrolled_close(&list);
}
END_TEST

START_TEST(servers_by_endpoint)
{
	char other[PR_KEY_TEXT], sub[128], found[PR_KEY_TEXT];

	path_of(sub, "sub");
	ck_assert_int_eq(pr_keys_generate(sub, &err), 0);
	ck_assert_int_eq(pr_keys_load_public(sub, other, &err), 0);
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
	tcase_add_test(tc, what_is_generated);
	tcase_add_test(tc, modes);
	tcase_add_test(tc, hostile_secrets);
	tcase_add_test(tc, hostile_lists);
	tcase_add_test(tc, enrolling_and_revoking);
	tcase_add_test(tc, servers_by_endpoint);
	tcase_add_test(tc, frame_keys_are_read);
	tcase_add_test(tc, a_frame_key_is_renewed);
}

int
main(void)
{
	return unit_run("key files", fill);
}
