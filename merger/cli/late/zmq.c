/* SPDX-License-Identifier: Apache-2.0 */
#include <zmq.h>

#include "merger/cli/late/late.h"

/*
 * ZeroMQ for the command line, loaded when it is first needed: the library brings twenty others
 * along, and loading them takes longer than a query of a local volume, which needs none of them.
 */
static struct late library = {.names = {"libzmq.so.5"}, .lock = PTHREAD_MUTEX_INITIALIZER};

LATE(int, zmq_errno, (void), ())
LATE(const char *, zmq_strerror, (int code), (code))
LATE(void *, zmq_ctx_new, (void), ())
LATE(int, zmq_ctx_term, (void *context), (context))
LATE(int, zmq_msg_init, (zmq_msg_t * m), (m))
LATE(int, zmq_msg_init_data,
	(zmq_msg_t * m, void *data, size_t size, zmq_free_fn *release, void *hint),
	(m, data, size, release, hint))
LATE(int, zmq_msg_send, (zmq_msg_t * m, void *s, int flags), (m, s, flags))
LATE(int, zmq_msg_recv, (zmq_msg_t * m, void *s, int flags), (m, s, flags))
LATE(int, zmq_msg_close, (zmq_msg_t * m), (m))
LATE(void *, zmq_msg_data, (zmq_msg_t * m), (m))
LATE(size_t, zmq_msg_size, (const zmq_msg_t *m), (m))
LATE(int, zmq_msg_more, (const zmq_msg_t *m), (m))
LATE(const char *, zmq_msg_gets, (const zmq_msg_t *m, const char *property), (m, property))
LATE(void *, zmq_socket, (void *context, int type), (context, type))
LATE(int, zmq_close, (void *s), (s))
LATE(int, zmq_setsockopt, (void *s, int option, const void *value, size_t len),
	(s, option, value, len))
LATE(int, zmq_getsockopt, (void *s, int option, void *value, size_t *len),
	(s, option, value, len))
LATE(int, zmq_bind, (void *s, const char *address), (s, address))
LATE(int, zmq_connect, (void *s, const char *address), (s, address))
LATE(int, zmq_send, (void *s, const void *data, size_t len, int flags),
	(s, data, len, flags))
LATE(int, zmq_socket_monitor, (void *s, const char *address, int events),
	(s, address, events))
LATE(int, zmq_poll, (zmq_pollitem_t * items, int count, long timeout),
	(items, count, timeout))
LATE(char *, zmq_z85_encode, (char *to, const uint8_t *from, size_t len), (to, from, len))
LATE(uint8_t *, zmq_z85_decode, (uint8_t * to, const char *from), (to, from))
LATE(int, zmq_curve_keypair, (char *public_key, char *secret_key), (public_key, secret_key))
LATE(int, zmq_curve_public, (char *public_key, const char *secret_key),
	(public_key, secret_key))
