/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/loop.h"
#include "proto/rpc/admission.h"
#include "proto/rpc/rpc.h"
#include "tests/unit/key_dir.h"
#include "tests/unit/loop_wait.h"
#include "tests/unit/unit.h"

#include <event2/event.h>

#define PAGE "merger/cli/packrack-keys.7"
#define FIELDS (packrack__envelope__descriptor.n_fields)

static const ProtobufCFieldDescriptor *
field_at(size_t i)
{
	return &packrack__envelope__descriptor.fields[i];
}

static bool
is_body(const ProtobufCFieldDescriptor *field)
{
	return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
}

START_TEST(roles_by_name)
{
	char text[PR_ROLE_TEXT];

	ck_assert_uint_eq(pr_role_parse("read"), PR_ROLE_READ);
	ck_assert_uint_eq(pr_role_parse("steer,node"), PR_ROLE_OPERATE | PR_ROLE_NODE);
	ck_assert_uint_eq(pr_role_parse("node,read,steer"), PR_ROLE_ALL);
	ck_assert_uint_eq(pr_role_parse("read-anonymized"), PR_ROLE_ANONYMIZED);
	ck_assert_uint_eq(pr_role_parse(""), 0);
	ck_assert_uint_eq(pr_role_parse("read,"), 0);
	ck_assert_uint_eq(pr_role_parse(",read"), 0);
	ck_assert_uint_eq(pr_role_parse("rea"), 0);
	ck_assert_uint_eq(pr_role_parse("reads"), 0);
	ck_assert_uint_eq(pr_role_parse("all"), 0);
	ck_assert_uint_eq(pr_role_parse("READ"), 0);
	for (unsigned roles = 1; roles <= PR_ROLE_ALL; roles++)
		ck_assert_uint_eq(pr_role_parse(pr_role_text(roles, text)), roles);
}
END_TEST

/* ".It MESSAGE Ta WHAT Ta ROLES": ROLES, or NULL when the page has no such line. */
static const char *
said_of(const char *message, char line[256])
{
	FILE *f = fopen(PAGE, "r");
	char begin[64];
	bool found = false;

	ck_assert_msg(f != NULL, "tests run from the top of the tree");
	snprintf(begin, sizeof(begin), ".It %s Ta ", message);
	while (!found && fgets(line, 256, f))
		found = !strncmp(line, begin, strlen(begin));
	fclose(f);
	if (!found)
		return NULL;
	line[strcspn(line, "\n")] = 0;
	return strstr(line + strlen(begin), " Ta ") + strlen(" Ta ");
}

static unsigned
roles_in(const char *said)
{
	char text[64];
	size_t used = 0;

	if (!strcmp(said, "nobody"))
		return 0;
	if (!strcmp(said, "all but node"))
		return PR_ROLE_READ | PR_ROLE_OPERATE | PR_ROLE_ANONYMIZED;
	for (; *said && used < sizeof(text) - 1; said++)
		if (*said != ' ')
			text[used++] = *said;
	text[used] = 0;
	ck_assert_msg(pr_role_parse(text) != 0, "%s: %s", PAGE, text);
	return pr_role_parse(text);
}

/* Whatever the page does not name is for nodes, as it says. */
START_TEST(page_and_table_agree)
{
	size_t named = 0;

	for (size_t i = 0; i < FIELDS; i++) {
		const ProtobufCFieldDescriptor *field = field_at(i);
		char line[256];
		const char *said = is_body(field) ? said_of(field->name, line) : NULL;
		unsigned roles = pr_roles_for((Packrack__Envelope__BodyCase)field->id);

		if (!is_body(field))
			continue;
		named += !!said;
		ck_assert_msg(roles == (said ? roles_in(said) : PR_ROLE_NODE),
			"%s: the page says %s, the table %u", field->name,
			said ? said : "node", roles);
	}
	ck_assert_uint_ge(named, 13);
	ck_assert_uint_eq(pr_roles_for((Packrack__Envelope__BodyCase)9999), PR_ROLE_NODE);
}
END_TEST

/* ---- each message by each role, over a wire ---- */

struct side {
	struct pr_rpc *rpc;
	unsigned got, refused;
	Packrack__Envelope__BodyCase last;
	uint64_t last_id;
};

static void
on_server(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct side *s = arg;
	Packrack__Envelope reply = PACKRACK__ENVELOPE__INIT;
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;

	s->got++;
	s->last = env->body_case;
	reply.id = env->id;
	reply.body_case = PACKRACK__ENVELOPE__BODY_CANCEL;
	reply.cancel = &cancel;
	ck_assert_int_eq(pr_rpc_send(s->rpc, peer, &reply, NULL), 0);
}

static void
on_client(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct side *c = arg;

	(void)peer;
	c->got++;
	c->last_id = env->id;
	c->refused += env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE &&
		      strstr(env->failure->text, "not allowed: key");
}

static void
send_and_wait(struct pr_loop *loop, struct side *c, const Packrack__Envelope *env)
{
	int64_t deadline = pr_now_mono() + 10 * PR_NS_PER_S;
	struct pr_error err;

	ck_assert_msg(pr_rpc_send(c->rpc, NULL, env, &err) == 0, "%s", err.text);
	while (c->last_id != env->id && pr_now_mono() < deadline)
		loop_once(loop);
	ck_assert_uint_eq(c->last_id, env->id);
}

/* A message with this body, all of it empty. */
static void
fill(Packrack__Envelope *env, const ProtobufCFieldDescriptor *field, void *room)
{
	const ProtobufCMessageDescriptor *body = field->descriptor;

	packrack__envelope__init(env);
	body->message_init(room);
	env->body_case = (Packrack__Envelope__BodyCase)field->id;
	env->hello = room; /* of a union of pointers */
	if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND)
		env->command->verb = (char *)"stop";
}

static void
try_all(struct pr_loop *loop, struct side *server, struct side *client, unsigned role)
{
	static uint64_t id;
	void *room = calloc(1, 4096);

	for (size_t i = 0; i < FIELDS; i++) {
		const ProtobufCFieldDescriptor *field = field_at(i);
		unsigned got = server->got, refused = client->refused;
		Packrack__Envelope env;
		bool allowed;

		if (!is_body(field))
			continue;
		fill(&env, field, room);
		env.id = ++id;
		allowed = pr_roles_for(env.body_case) & role;
		send_and_wait(loop, client, &env);
		ck_assert_msg(
			server->got == got + allowed, "%s by role %u", field->name, role);
		ck_assert_msg(client->refused == refused + !allowed, "%s by role %u",
			field->name, role);
		if (allowed)
			ck_assert_int_eq(server->last, env.body_case);
	}
	free(room);
}

START_TEST(each_message_by_each_role)
{
	static const char *const names[] = {"node", "read", "operate", "node,operate"};
	char dir[] = "/tmp/packrack-roles-XXXXXX", server_dir[64], client_dir[64],
	     key[PR_KEY_TEXT], own[PR_KEY_TEXT], endpoint[96], command[128];
	struct pr_error err;
	struct pr_loop *loop = pr_loop_create(NULL, &err);
	struct side server = {0};

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(server_dir, sizeof(server_dir), "%s/server", dir);
	snprintf(endpoint, sizeof(endpoint), "ipc://%s/sock", dir);
	key_dir_make(server_dir, own);
	server.rpc = pr_rpc_listen(loop, endpoint, server_dir, on_server, &server, &err);
	ck_assert_ptr_nonnull(server.rpc);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct side client = {0};

		snprintf(client_dir, sizeof(client_dir), "%s/c%zu", dir, i);
		key_dir_make(client_dir, key);
		key_dir_write(server_dir, "enrolled", 0600, "c %s %s\n", names[i], key);
		key_dir_write(client_dir, "rack", 0600, "server-key %s\n", own);
		client.rpc = pr_rpc_connect(
			loop, endpoint, client_dir, on_client, &client, &err);
		ck_assert_msg(client.rpc != NULL, "%s", err.text);
		try_all(loop, &server, &client, pr_role_parse(names[i]));
		pr_rpc_destroy(&client.rpc);
	}
	ck_assert_uint_eq(pr_rpc_bad_messages(server.rpc), 0);
	pr_rpc_destroy(&server.rpc);
	pr_loop_destroy(&loop);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

static void
fill_case(TCase *tc)
{
	tcase_add_test(tc, roles_by_name);
	tcase_add_test(tc, page_and_table_agree);
	tcase_add_test(tc, each_message_by_each_role);
}

int
main(void)
{
	return unit_run("roles", fill_case);
}
