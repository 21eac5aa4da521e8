/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "proto/base/error.h"

/*
 * What a daemon that has dropped its privileges asks of its parent, the small process that keeps them
 * (proto/port/parent.h). Without a parent all of this is done by the process itself. Any thread may call.
 *
 * libpcap and libnet open packet sockets themselves, and cannot be given one. So this file defines
 * socket(2) and bind(2): for packet and AF_XDP sockets they ask the parent, else they are the plain calls.
 */
enum pr_request {
	PR_REQUEST_SOCKET, /* a: domain, b: type; answered with a descriptor */
	PR_REQUEST_BIND, /* a: interface's index, b: protocol; with a descriptor */
	PR_REQUEST_PREPARE, /* name: an interface */
	PR_REQUEST_RESTORE,
	PR_REQUEST_BLINK, /* a: seconds */
	PR_REQUEST_OPEN, /* name: a path, a: flags of open(2); answered with a descriptor */
	PR_REQUESTS
};

#define PR_REQUEST_NAME 4096 /* bytes of a name at most, with its NUL */
struct pr_request_message {
	uint32_t kind;
	uint32_t a, b;
	char name[PR_REQUEST_NAME]; /* as much of it as there is, with its NUL */
};

struct pr_request_answer {
	int32_t error; /* errno; 0: done */
	struct pr_error why; /* text, where the request gives one */
};

/* The end of the socket to the parent. -1: there is none. Set once, before threads. */
extern int pr_privilege_parent;

/*
 * One message out, or in, with at most one descriptor: *fd, -1 for none. Returns its length; 0: the other end
 * is closed; -1: errno. A message that does not fit has length 1, as none has.
 */
ssize_t pr_privilege_pass(int socket, bool out, void *bytes, size_t len, int *fd);

/*
 * Asks the parent. fd: a descriptor to send along, or -1. Returns the descriptor that came back, or 0;
 * -1, errno and err (may be NULL): refused or failed; -2: there is no parent.
 */
int pr_privilege_ask(enum pr_request kind, const char *name, uint32_t a, uint32_t b, int fd,
	struct pr_error *err);

/* As open(2) and stat(2). The parent is asked only for what this process may not open. */
int pr_privilege_open(const char *path, int flags);
int pr_privilege_stat(const char *path, struct stat *st);
