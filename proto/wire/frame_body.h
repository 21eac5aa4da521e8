/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_WIRE_FRAME_BODY_H
#define PR_WIRE_FRAME_BODY_H

#include "proto/base/field_table.h"
#include "proto/wire/frame.h"

/* The wire table: a row a frame type (within proto/wire only). */
struct pr_frame_row {
	const char *name;
	bool (*encode)(const struct pr_frame_row *row, const struct pr_frame *f,
		struct pr_writer *w);
	bool (*decode)(
		const struct pr_frame_row *row, struct pr_cursor *c, struct pr_frame *f);
	struct pr_field_table fields; /* of the union member; MARK: of what comes first */
	bool (*valid)(const struct pr_frame
			*f); /* holds for what is sent and what is taken; or NULL */
};

/* Lines of a MARK, alike in frames and in the ledger (struct pr_mark_link). */
extern const struct pr_field_table pr_mark_link_fields;

extern const struct pr_frame_row pr_frame_rows[PR_FRAME_TYPES];

#endif
