/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/beyond.h"

#include <string.h>

#include "proto/base/cursor.h"
#include "proto/base/field_table.h"

#define MAGIC 0x42545543u
enum { VERSION = 1, VERSION_ENCAPSULATED = 2, ETHER = 14 };

size_t
pr_headers_put(const struct pr_connection *c, uint8_t *frame)
{
	bool six = c->address_len == 16;
	uint8_t *at = frame + ETHER;

	if (c->vlan != PR_UNTAGGED) {
		pr_put_be16(at - 2, 0x8100);
		pr_put_be16(at, c->vlan);
		at += 4;
	}
	pr_put_be16(at - 2, six ? 0x86dd : 0x0800);
	at[0] = six ? 0x60 : 0x45;
	at[six ? 6 : 9] = c->protocol;
	memcpy(at + (six ? 8 : 12), c->address[0], c->address_len);
	memcpy(at + (six ? 24 : 16), c->address[1], c->address_len);
	at += six ? 40 : 20;
	pr_put_be16(at, c->port[0]);
	pr_put_be16(at + 2, c->port[1]);
	return (size_t)(at - frame);
}

static const struct pr_field sum_items[] = {
	PR_NAME(pr_beyond, name), PR_INTS(pr_beyond, number, packets, bytes, first, last)};
static const struct pr_field_table sums = PR_FIELD_TABLE(sum_items);

size_t
pr_beyond_store(const struct pr_beyond *b, uint8_t frame[PR_BEYOND_MAX])
{
	struct pr_writer w =
		pr_writer_make(frame + PR_BEYOND_AT + 5, PR_BEYOND_MAX - PR_BEYOND_AT - 5);

	memset(frame, 0, PR_BEYOND_MAX);
	pr_headers_put(&b->connection, frame);
	pr_put_le32(frame + PR_BEYOND_AT, MAGIC);
	frame[PR_BEYOND_AT + 4] = b->encapsulated ? VERSION_ENCAPSULATED : VERSION;
	if (!pr_field_table_store(&w, b, &sums, PR_LITTLE_ENDIAN))
		return 0;
	return PR_BEYOND_AT + 5 + pr_writer_len(&w);
}

bool
pr_beyond_load(const struct pr_packet *p, struct pr_beyond *out)
{
	struct pr_cursor c = pr_cursor_make(p->data, p->caplen);
	const uint8_t *headers;
	uint32_t magic;
	uint8_t version = 0;
	bool good = pr_load_bytes(&c, &headers, PR_BEYOND_AT) && pr_load_le32(&c, &magic) &&
		    magic == MAGIC && pr_load_u8(&c, &version) &&
		    (version == VERSION || version == VERSION_ENCAPSULATED) &&
		    pr_field_table_load(&c, out, &sums, PR_LITTLE_ENDIAN) &&
		    !pr_cursor_left(&c) && out->first <= out->last;
	out->encapsulated = version == VERSION_ENCAPSULATED;
	return good;
}
