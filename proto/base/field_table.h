/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/cursor.h"
#include "proto/base/error.h"

/*
 * A struct's wire or disk form as one table, so that writing and reading cannot differ: fields in
 * order, integers as wide as the member, without gaps. PR_INT(S), PR_BOOL, PR_NAME are its rows.
 */
#define PR_NAME_MAX 64 /* node, link and version names, bytes without NUL */

#define PR_FIELD_NAME 0x40 /* char[PR_NAME_MAX + 1]: u8 length, bytes; no control bytes */
#define PR_FIELD_BOOL 0x41 /* uint8_t: written as 0 or 1; others are refused in reading */
/* and a number of bytes: written as zeros, passed by in reading */
#define PR_FIELD_ZEROS 0x80

struct pr_field {
	uint16_t offset;
	uint8_t kind; /* 1, 2, 4, 8: an integer; 9 to 63: so many bytes; else PR_FIELD_... */
};

#define PR_INT(type, member) PR_FIELD_OF(type, member, sizeof((struct type *)0)->member)
#define PR_BOOL(type, member) PR_FIELD_OF(type, member, PR_FIELD_BOOL)
#define PR_NAME(type, member) PR_FIELD_OF(type, member, PR_FIELD_NAME)
#define PR_FIELD_OF(type, member, kind)                                                    \
	{                                                                                  \
		offsetof(struct type, member), kind                                        \
	}

/* Up to eight PR_INT: PR_INTS(pr_resend, link, first_log, last_log). */
#define PR_INTS(type, ...) PR_EACH(PR_INT_OF, type, type, __VA_ARGS__)
#define PR_INT_OF(type, same, member) PR_INT(type, member)

#define PR_ZEROS(bytes)                                                                    \
	{                                                                                  \
		0, PR_FIELD_ZEROS | (bytes)                                                \
	}

enum pr_order { PR_BIG_ENDIAN, PR_LITTLE_ENDIAN };

struct pr_field_table {
	const struct pr_field *items;
	size_t count;
};
#define PR_FIELD_TABLE(array)                                                              \
	{                                                                                  \
		array, sizeof(array) / sizeof(array[0])                                    \
	}

/* false: no room, or a name that the format cannot hold. */
PR_MUST_USE bool pr_field_table_store(struct pr_writer *w, const void *from,
	const struct pr_field_table *fields, enum pr_order order);
/*
 * false: too short, a bool that is neither 0 nor 1, a bad name. Members not in the table
 * stay as they are.
 */
PR_MUST_USE bool pr_field_table_load(struct pr_cursor *c, void *to,
	const struct pr_field_table *fields, enum pr_order order);
