/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_ROOM_H
#define PR_BASE_ROOM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Memory of at least `want` bytes at *buf, where *room bytes are: what is there stays. -1: no memory, all as it was. */
static inline int
pr_room_grow(uint8_t **buf, size_t *room, size_t want)
{
	uint8_t *grown;

	if (want <= *room)
		return 0;
	grown = realloc(*buf, want);
	if (!grown)
		return -1;
	*buf = grown;
	*room = want;
	return 0;
}

#endif
