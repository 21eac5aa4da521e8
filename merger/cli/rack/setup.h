/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_RACK_SETUP_H
#define PR_CLI_RACK_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/base/options.h"

/*
 * What of a machine makes a recorder lose packets, by its own word: each check adds findings, one line
 * each, which say what to change, or that it is well, or that it cannot be seen here. A finding may carry
 * the change itself; nothing is changed while checking.
 */
enum setup_verdict { SETUP_OK, SETUP_CHANGE, SETUP_UNKNOWN };

enum setup_fix_kind {
	SETUP_FIX_NONE, /* only a person can */
	SETUP_FIX_FILE, /* value into the file of sysfs or procfs at path */
	SETUP_FIX_OFFLOAD, /* value: command of ETHTOOL_S..., number: what to set */
	SETUP_FIX_RING, /* number: receive descriptors */
	SETUP_FIX_MTU, /* number: bytes */
};

struct setup_finding {
	const char *topic; /* "offloads", "ring", ...: a constant */
	char where[128]; /* an interface, a file, or "" */
	enum setup_verdict verdict;
	char text[256]; /* what is so, and why it matters */
	char mend[160]; /* a command; "" when there is none */
	char undo[160]; /* the command that takes it back */
	enum setup_fix_kind fix;
	char path[256], value[64];
	uint32_t command, number;
	bool fixed;
	char failed[128]; /* why it could not be fixed; or "" */
};

struct setup {
	const char *root; /* before /sys and /proc: "", or a copy of another machine's */
	struct setup_finding *list;
	size_t count;
	bool failed; /* out of memory */
};

/* A new finding, its text filled in. Never NULL: without memory one that is not listed. */
struct setup_finding *setup_add(struct setup *s, const char *topic, const char *where,
	enum setup_verdict verdict, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* The same, with the mend: writing value into the file at path, which holds old. */
void setup_add_file(struct setup *s, const char *topic, const char *path, const char *old,
	const char *value, const char *why);

/* The first line of a file below root, without its end; false: there is none that can be read. */
bool setup_read(const struct setup *s, const char *path, char *out, size_t size);

/* ---- the checks ---- */

enum setup_role { SETUP_IN, SETUP_OUT, SETUP_RACK };
void setup_check_interface(struct setup *s, const char *name, enum setup_role role);

/* The o-port or a node's port carries what the links bring, and 8 bytes of tags. */
void setup_check_mtu(struct setup *s, const char *name, uint32_t link_mtu);
uint32_t setup_mtu(const struct setup *s, const char *name); /* 0: not to be seen */

/* ---- the changes ---- */

/* Does what the finding of an interface says. -1: errno. */
int setup_fix_interface(const struct setup_finding *f);

#endif
