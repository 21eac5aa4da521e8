/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/field_table.h"

#include "proto/base/text.h"

/* A name is shown on terminals and in JSON: a control byte in it is forged or broken. */
static bool
name_ok(const uint8_t *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (name[i] < 0x20 || name[i] == 0x7f)
			return false;
	return len <= PR_NAME_MAX;
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
	size_t len;

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
		len = strnlen((const char *)at, PR_NAME_MAX + 1);
		return name_ok(at, len) && pr_store_u8(w, len) &&
		       pr_store_bytes(w, at, len);
	default:
		return kind & PR_FIELD_ZEROS
			       ? pr_store_bytes(w, zeros, kind & ~PR_FIELD_ZEROS)
			       : pr_store_bytes(w, at, kind);
	}
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
	const uint8_t *bytes;
	uint8_t len = kind & (uint8_t)~PR_FIELD_ZEROS;

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
		if (!pr_load_u8(c, &len) || !pr_load_bytes(c, &bytes, len) ||
			!name_ok(bytes, len))
			return false;
		memset(at, 0, PR_NAME_MAX + 1);
		memcpy(at, bytes, len);
		pr_text_clean((char *)at, "");
		return true;
	default:
		if (!pr_load_bytes(c, &bytes, len))
			return false;
		if (!(kind & PR_FIELD_ZEROS))
			memcpy(at, bytes, len);
		return true;
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

/*
 * Compiled once for each byte order, so that no field tests it: volumes have tens of
 * thousands of entries.
 */
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
