/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/admission.h"

#include <zmq.h>

#include "proto/base/array.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/rpc/socket.h"

/* ---- roles ---- */

enum {
	NODE = PR_ROLE_NODE,
	READ = PR_ROLE_READ,
	OPERATE = PR_ROLE_OPERATE,
	ANON = PR_ROLE_ANONYMIZED,
	NOBODY = 0
};

static const struct {
	Packrack__Envelope__BodyCase body;
	unsigned roles;
} table[] = {
	{PACKRACK__ENVELOPE__BODY_HELLO, NODE},
	{PACKRACK__ENVELOPE__BODY_BATCH, NODE},
	{PACKRACK__ENVELOPE__BODY_END, NODE},
	{PACKRACK__ENVELOPE__BODY_FAILURE, NODE},
	{PACKRACK__ENVELOPE__BODY_INDEX_RECORD, NODE},
	{PACKRACK__ENVELOPE__BODY_COVERAGE, NODE},
	{PACKRACK__ENVELOPE__BODY_SUMMARY, NODE},
	{PACKRACK__ENVELOPE__BODY_PEER, READ | OPERATE},
	{PACKRACK__ENVELOPE__BODY_ROUTE_REQUEST, READ | OPERATE},
	{PACKRACK__ENVELOPE__BODY_QUERY, READ | OPERATE | ANON},
	{PACKRACK__ENVELOPE__BODY_CREDIT, READ | OPERATE | ANON},
	{PACKRACK__ENVELOPE__BODY_CANCEL, READ | OPERATE | ANON},
	{PACKRACK__ENVELOPE__BODY_STATUS_REQUEST, READ | OPERATE | ANON},
	{PACKRACK__ENVELOPE__BODY_COMMAND, OPERATE},
	{PACKRACK__ENVELOPE__BODY_STATE, NODE | OPERATE},
	{PACKRACK__ENVELOPE__BODY_STATUS, NOBODY},
	{PACKRACK__ENVELOPE__BODY_COMMAND_DONE, NODE},
	{PACKRACK__ENVELOPE__BODY_INDEX_STORED, NOBODY},
	{PACKRACK__ENVELOPE__BODY_SUMMARY_WANT, NOBODY},
	{PACKRACK__ENVELOPE__BODY_ROUTE, NOBODY},
	{PACKRACK__ENVELOPE__BODY_SOURCES, NOBODY},
};

static const char *const names[] = {"node", "read", "operate", "read-anonymized"};
enum { ROLES = PR_COUNT(names) };

unsigned
pr_role_parse(const char *text)
{
	for (unsigned roles = 0;; text++) {
		size_t len = strcspn(text, ",");
		unsigned role = 0;

		for (unsigned i = 0; i < ROLES; i++)
			if (strlen(names[i]) == len && !memcmp(names[i], text, len))
				role = 1U << i;
		if (len == 5 && !memcmp(text, "steer", 5))
			role = PR_ROLE_OPERATE; /* its old name */
		roles |= role;
		text += len;
		if (!role || !*text)
			return role ? roles : 0;
	}
}

const char *
pr_role_text(unsigned roles, char text[PR_ROLE_TEXT])
{
	*text = 0;
	for (unsigned i = 0; i < ROLES; i++)
		if (roles & 1U << i)
			snprintf(text + strlen(text), PR_ROLE_TEXT - strlen(text), "%s%s",
				*text ? "," : "", names[i]);
	return text;
}

unsigned
pr_roles_for(Packrack__Envelope__BodyCase body)
{
	for (size_t i = 0; i < PR_COUNT(table); i++)
		if (table[i].body == body)
			return table[i].roles;
	return NODE;
}

/* ---- keys of connections ---- */

/* A request: version, id, domain, address, identity, mechanism, credentials. */
enum {
	ZAP_VERSION,
	ZAP_ID,
	ZAP_ADDRESS = 3,
	ZAP_MECHANISM = 5,
	ZAP_CREDENTIALS,
	ZAP_FRAMES
};
#define ZAP_FRAME_MAX 256

struct frame {
	uint8_t bytes[ZAP_FRAME_MAX];
	size_t len;
};

struct pr_zap {
	void *socket;
	int64_t said; /* monotonic: when an unknown key was last logged */
	uint8_t said_key[PR_KEY_BYTES];
	struct pr_zevent *zevent;
	struct pr_enrolled *enrolled;
};

/* Number of frames of the next message, of which the first `room` are stored; 0: none there. */
static size_t
receive_frames(void *socket, struct frame *frames, size_t room)
{
	struct frame surplus = {.len = 0};
	size_t count = 0;

	do {
		struct frame *f = count < room ? &frames[count] : &surplus;
		int len = zmq_recv(socket, f->bytes, sizeof(f->bytes), ZMQ_DONTWAIT);

		if (len < 0)
			return 0;
		f->len = len <= ZAP_FRAME_MAX ? len : 0;
		count++;
	} while (pr_socket_get(socket, ZMQ_RCVMORE));
	return count;
}

static bool
frame_is(const struct frame *frame, const char *text)
{
	return frame->len == strlen(text) && !memcmp(frame->bytes, text, frame->len);
}

/*
 * Logs an unknown key, so that it can be enrolled, or its machine found. Not each time: the
 * client keeps trying.
 */
static void
say_unknown(struct pr_zap *zap, const struct frame *address, const uint8_t *key)
{
	int64_t now = pr_now_mono();
	char text[PR_KEY_TEXT];

	if (zap->said && now - zap->said < 60 * PR_NS_PER_S &&
		!memcmp(zap->said_key, key, PR_KEY_BYTES))
		return;
	zap->said = now;
	memcpy(zap->said_key, key, PR_KEY_BYTES);
	pr_log_warning("refused a key that is not enrolled, %s%s%.*s",
		pr_key_text(key, text), address->len ? " from " : "", (int)address->len,
		(const char *)address->bytes);
}

static bool
on_request(void *arg)
{
	struct pr_zap *zap = arg;
	struct frame frames[ZAP_FRAMES] = {{.len = 0}};
	const struct frame *id = &frames[ZAP_ID], *credentials = &frames[ZAP_CREDENTIALS];
	const struct pr_enrolled_key *key = NULL;
	size_t count = receive_frames(zap->socket, frames, ZAP_FRAMES);
	bool good = !zap->enrolled && frame_is(&frames[ZAP_MECHANISM], "NULL");
	char user[PR_KEY_TEXT] = "";

	if (count == 0)
		return false;
	if (zap->enrolled && count == ZAP_FRAMES && frame_is(&frames[ZAP_VERSION], "1.0") &&
		frame_is(&frames[ZAP_MECHANISM], "CURVE") &&
		credentials->len == PR_KEY_BYTES)
		key = pr_enrolled_find(zap->enrolled, credentials->bytes);
	if (key)
		zmq_z85_encode(user, key->key, PR_KEY_BYTES);
	else if (credentials->len == PR_KEY_BYTES)
		say_unknown(zap, &frames[ZAP_ADDRESS], credentials->bytes);
	good |= key != NULL;
	zmq_send(zap->socket, "1.0", 3, ZMQ_SNDMORE);
	zmq_send(zap->socket, id->bytes, id->len, ZMQ_SNDMORE);
	zmq_send(zap->socket, good ? "200" : "400", 3, ZMQ_SNDMORE);
	zmq_send(zap->socket, "", 0, ZMQ_SNDMORE);
	zmq_send(zap->socket, user, strlen(user), ZMQ_SNDMORE);
	zmq_send(zap->socket, "", 0, 0);
	pr_zevent_check(zap->zevent);
	return true;
}

struct pr_zap *
pr_zap_create(struct event_base *base, void *ctx, const char *dir,
	struct pr_enrolled **enrolled, struct pr_error *err)
{
	struct pr_zap *zap = calloc(1, sizeof(*zap));

	if (!zap)
		return pr_error_null(err, "no memory");
	if (dir && !(*enrolled = zap->enrolled = pr_enrolled_open(dir, err)))
		goto fail;
	zap->socket = zmq_socket(ctx, ZMQ_REP);
	if (!zap->socket || pr_socket_set(zap->socket, ZMQ_LINGER, 0) ||
		zmq_bind(zap->socket, "inproc://zeromq.zap.01")) {
		pr_error_set(err, "cannot check keys: %s", zmq_strerror(zmq_errno()));
		goto fail;
	}
	zap->zevent = pr_zevent_create(base, zap->socket,
		&(struct pr_zevent_calls){.receive = on_request, .arg = zap}, err);
	if (zap->zevent)
		return zap;
fail:
	pr_zap_destroy(&zap);
	return NULL;
}

void
pr_zap_destroy(struct pr_zap **zap)
{
	struct pr_zap *z = PR_TAKE(zap);

	if (!z)
		return;
	pr_zevent_destroy(&z->zevent);
	if (z->socket)
		zmq_close(z->socket);
	pr_enrolled_close(&z->enrolled);
	free(z);
}

/* ---- messages ---- */

void
pr_admit_fill(struct pr_enrolled *enrolled, const char *user_id, struct pr_rpc_peer *peer)
{
	const struct pr_enrolled_key *key = NULL;

	peer->role = enrolled ? 0 : PR_ROLE_ALL;
	if (!enrolled || !user_id || strlen(user_id) != PR_KEY_TEXT - 1)
		return;
	if (zmq_z85_decode(peer->key, user_id))
		key = pr_enrolled_find(enrolled, peer->key);
	if (!key)
		return;
	peer->role = key->role;
	PR_PRINT(peer->user, "%s", key->name);
}

bool
pr_admit_message(const struct pr_enrolled *enrolled, const struct pr_rpc_peer *peer,
	Packrack__Envelope__BodyCase body, struct pr_error *why)
{
	unsigned roles = pr_roles_for(body);
	char has[PR_ROLE_TEXT], wanted[PR_ROLE_TEXT];

	if (!enrolled || peer->role & roles)
		return true;
	if (!peer->role)
		pr_error_set(why, PR_ADMIT_REVOKED);
	else
		pr_error_set(why, "not allowed: key '%s' has role %s; this needs %s%s",
			peer->user, pr_role_text(peer->role, has),
			roles & (roles - 1) ? "one of the roles " : "the role ",
			roles ? pr_role_text(roles, wanted) : "of a server");
	return false;
}
