/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/field_table.h"

/* A name is shown on terminals and in JSON: a control byte in it is forged or broken. */
static bool
name_ok(const uint8_t *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (name[i] < 0x20 || name[i] == 0x7f)
			return false;
	return len <= PR_NAME_MAX;
}

static bool
store_name(struct pr_writer *w, const char *name)
{
	size_t len = strnlen(name, PR_NAME_MAX + 1);
	return name_ok((const uint8_t *)name, len) && pr_store_u8(w, (uint8_t)len) &&
	       pr_store_bytes(w, name, len);
}

static bool
load_name(struct pr_cursor *c, char *name)
{
	uint8_t len;
	const uint8_t *bytes;
	if (!pr_load_u8(c, &len) || !pr_load_bytes(c, &bytes, len) || !name_ok(bytes, len))
		return false;
	memset(name, 0, PR_NAME_MAX + 1);
	memcpy(name, bytes, len);
	return true;
}

#define STORE(bits)                                                                        \
	{                                                                                  \
		uint##bits##_t v;                                                          \
		memcpy(&v, at, sizeof v);                                                  \
		return big ? pr_store_be##bits(w, v) : pr_store_le##bits(w, v);            \
	}

static bool
store_field(struct pr_writer *w, const uint8_t *at, uint8_t kind, bool big)
{
	static const uint8_t zeros[PR_FIELD_ZEROS];
	switch (kind) {
	case 1:
		return pr_store_u8(w, *at);
	case 2:
		STORE(16)
	case 4:
		STORE(32)
	case 8:
		STORE(64)
	case PR_FIELD_BOOL:
		return pr_store_u8(w, *at != 0);
	case PR_FIELD_NAME:
		return store_name(w, (const char *)at);
	default:
		return kind & PR_FIELD_ZEROS
			       ? pr_store_bytes(w, zeros, kind & ~PR_FIELD_ZEROS)
			       : pr_store_bytes(w, at, kind);
	}
}

static bool
load_raw(struct pr_cursor *c, uint8_t *to, size_t len)
{
	const uint8_t *bytes;
	if (!pr_load_bytes(c, &bytes, len))
		return false;
	memcpy(to, bytes, len);
	return true;
}

#define LOAD(bits)                                                                         \
	{                                                                                  \
		uint##bits##_t v;                                                          \
		if (!(big ? pr_load_be##bits(c, &v) : pr_load_le##bits(c, &v)))            \
			return false;                                                      \
		memcpy(at, &v, sizeof v);                                                  \
		return true;                                                               \
	}

static inline __attribute__((always_inline)) bool
load_field(struct pr_cursor *c, uint8_t *at, uint8_t kind, bool big)
{
	const uint8_t *passed;
	switch (kind) {
	case 1:
		return pr_load_u8(c, at);
	case 2:
		LOAD(16)
	case 4:
		LOAD(32)
	case 8:
		LOAD(64)
	case PR_FIELD_BOOL:
		return pr_load_u8(c, at) && *at <= 1;
	case PR_FIELD_NAME:
		return load_name(c, (char *)at);
	default:
		return kind & PR_FIELD_ZEROS
			       ? pr_load_bytes(c, &passed, kind & ~PR_FIELD_ZEROS)
			       : load_raw(c, at, kind);
	}
}

bool
pr_field_table_store(struct pr_writer *w, const void *from,
	const struct pr_field_table *fields, enum pr_order order)
{
	for (size_t i = 0; i < fields->count; i++) {
		const struct pr_field *f = &fields->items[i];
		if (!store_field(w, (const uint8_t *)from + f->offset, f->kind,
			    order == PR_BIG_ENDIAN))
			return false;
	}
	return true;
}

/* Made twice, so that no field asks for the order: volumes have tens of thousands of entries. */
static inline __attribute__((always_inline)) bool
load_all(struct pr_cursor *c, uint8_t *to, const struct pr_field_table *fields, bool big)
{
	struct pr_cursor at = *c;

	for (size_t i = 0; i < fields->count; i++) {
		const struct pr_field *f = &fields->items[i];
		if (!load_field(&at, to + f->offset, f->kind, big))
			return false;
	}
	*c = at;
	return true;
}

bool
pr_field_table_load(struct pr_cursor *c, void *to, const struct pr_field_table *fields,
	enum pr_order order)
{
	return order == PR_BIG_ENDIAN ? load_all(c, to, fields, true)
				      : load_all(c, to, fields, false);
}
