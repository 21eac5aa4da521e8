/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "proto/base/counter.h"

/*
 * Which connections the servers of this program accept. By itself libzmq accepts every
 * connection, and ends the program when no descriptor is left. So connections.c defines
 * accept4() and accept(), and libzmq's calls arrive there. Any thread may call.
 *
 * A peer is a user of this machine (ipc), an address (tcp; a network of 64 bits in IPv6),
 * or an enrolled key, once it has sent a message. These limits hold:
 * - PR_CONNECTIONS_MAX connections in all, or half of the program's descriptors if that is less;
 * - PR_CONNECTIONS_PEER_MAX connections of one peer, or a quarter of all;
 * - half of all may be silent: they have sent no message yet.
 * A new connection above a limit replaces the connection that was idle for most of its life:
 * one that has sent nothing, if there is any. A connection with an enrolled key is never
 * replaced.
 */
enum { PR_CONNECTIONS_MAX = 4096, PR_CONNECTIONS_PEER_MAX = 256 };

/*
 * Guards the socket of libzmq that listens on this descriptor. Call with the lock held since
 * before zmq_bind, so that no connection is missed. The first lock raises the program's limit of
 * descriptors as far as the system allows. own: refuses all but our own user and root. False: no memory.
 */
bool pr_connections_guard(int listener, bool own);
void pr_connections_lock(void);
void pr_connections_unlock(void);
/* Before the listening socket is closed. */
void pr_connections_unguard(int listener);
/*
 * A message arrived on this connection. key: the enrolled key (32 bytes) of its peer, or NULL;
 * who: gets the name of its peer in words.
 */
#define PR_CONNECTIONS_WHO 64
void pr_connections_heard(int fd, const uint8_t *key, char who[PR_CONNECTIONS_WHO]);

/* The counters of this program's connections, for its status and metrics. */
enum { PR_CONNECTIONS_ROWS = 3 };
struct pr_counter_table pr_connections_figures(void);
