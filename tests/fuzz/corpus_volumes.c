/* SPDX-License-Identifier: Apache-2.0 */
/* First inputs of what lies in volumes: segments, ledger, directory, index, and faults of the volume's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/index/level2.h"
#include "proto/wire/directory.h"
#include "proto/wire/ledger.h"
#include "proto/wire/segment.h"
#include "tests/fuzz/corpus.h"

static const uint8_t golden_level1[] = {
#include "tests/unit/golden_level1.h"
};

/* ---- segments ---- */

static void
put_segments(void)
{
	static const uint8_t data[100] = "a packet's bytes";
	uint8_t buf[4096];

	for (unsigned i = 0; i < 6; i++) {
		struct pr_segment_builder b;
		char name[32];
		size_t len;

		pr_segment_begin(&b, buf, sizeof buf, i % 2 ? PR_SEGMENT_MIXED : 0);
		for (unsigned n = 0; n <= i; n++) {
			struct pr_packet p = {.time = 1000 - (int64_t)n,
				.otime = 1000,
				.epoch = 7,
				.seq = 5 + n,
				.caplen = n * 13,
				.len = 1500,
				.linktype = 1,
				.flags = (uint16_t)n,
				.data = data};

			if (!pr_segment_add(&b, &p))
				break;
		}
		len = pr_segment_seal(&b);
		snprintf(name, sizeof name, "segment-%u", i);
		corpus_put("segment", name, buf, len, END);
	}
}

/* ---- the ledger ---- */

static void
put_ledger(void)
{
	static const struct pr_ledger_entry entries[] = {
		{.type = PR_LEDGER_MARK,
			.u.mark = {7, 1000, 1, {.link = 1, .linktype = 1, .name = "tap0"}}},
		{.type = PR_LEDGER_LOSS,
			.u.loss = {.epoch = 7,
				.first_seq = 3,
				.last_seq = 5,
				.count = 2,
				.reason = 1}},
		{.type = PR_LEDGER_LOSS,
			.u.loss = {.epoch = 7,
				.first_seq = 3,
				.last_seq = 5,
				.count = 2,
				.bits = 5,
				.reason = 1}},
		{.type = PR_LEDGER_BOOT, .u.boot = {1000, 99, "node1"}},
		{.type = PR_LEDGER_DELETED,
			.u.deleted = {1000, 500, 900, 3, 4096, 1, 1, "ann", "n2"}},
		{.type = PR_LEDGER_LINK, .u.link = {7, 1, 1, 65535, "tap0"}},
		{.type = PR_LEDGER_PORT, .u.port = {7, 1, 1000000000}},
		{.type = PR_LEDGER_IMPORT, .u.import = {7, 1, 4096, 12, 34, "a.pcap"}},
		{.type = PR_LEDGER_DURABLE, .u.durable = {7, 12, 1}},
	};
	static const uint8_t unknown[] = {99, 1, 3, 0, 1, 2, 3};
	uint8_t all[2048];
	struct pr_writer w = pr_writer_make(all, sizeof all);

	for (size_t i = 0; i < COUNT(entries); i++) {
		const uint8_t *start = w.at;
		char name[32];

		if (!pr_ledger_store(&w, &entries[i]))
			corpus_die("a ledger entry");
		snprintf(name, sizeof name, "entry-%zu", i);
		corpus_put("ledger", name, start, (size_t)(w.at - start), END);
	}
	corpus_put("ledger", "all", all, pr_writer_len(&w), unknown, sizeof unknown, END);
}

static void
put_directory(void)
{
	static const struct pr_directory_entry entries[] = {
		{.u.segment = {7, 1, 2400, 1000, 5000, 1000, 5000, 2400, 1, 1},
			.handle_len = 3,
			.handle = "abc"},
		{.u.segment = {7, 2401, 4000, 4000, 9000, 5000, 9000, 1000, 1, 1}},
		{.kind = PR_DIRECTORY_INDEX, .u.index = {1, 0x0102030405060708, 16, 1, 1}},
		{.kind = PR_DIRECTORY_INDEX, .u.index = {17, 99, 16, 1, 2}},
	};
	struct pr_directory_coder coder;
	uint8_t all[512];
	struct pr_writer w = pr_writer_make(all, sizeof all);

	if (!pr_directory_begin(&coder, &w))
		corpus_die("a directory");
	for (size_t i = 0; i < COUNT(entries); i++)
		if (!pr_directory_store(&coder, &w, &entries[i]))
			corpus_die("an entry of a directory");
	corpus_put("directory", "all", all, pr_writer_len(&w), END);
}

/* ---- volumes: one patch each (fuzz_volume.c), of a field's bytes ---- */

static void
put_patch(unsigned kind, unsigned target, unsigned offset, uint8_t value, unsigned writer)
{
	const uint8_t patch[] = {(uint8_t)writer, (uint8_t)kind, (uint8_t)target,
		(uint8_t)offset, (uint8_t)(offset >> 8), 4, value, value, value, value};
	char name[64];

	snprintf(name, sizeof name, "%u-%u-%u-%u-%u", kind, target, offset, value, writer);
	corpus_put("volume", name, patch, sizeof patch, END);
}

/* Two: a map entry's flags, and a block header's high bytes of its stream. */
static void
put_patches(unsigned kind, unsigned target, unsigned offset, uint8_t value, unsigned kind2,
	unsigned target2, unsigned offset2, unsigned writer)
{
	const uint8_t patches[] = {(uint8_t)writer, (uint8_t)kind, (uint8_t)target,
		(uint8_t)offset, (uint8_t)(offset >> 8), 1, value, (uint8_t)kind2,
		(uint8_t)target2, (uint8_t)offset2, 0, 1, 4};
	char name[64];

	snprintf(name, sizeof name, "two-%u-%u-%u", offset, target2, writer);
	corpus_put("volume", name, patches, sizeof patches, END);
}

static void
put_volumes(void)
{
	static const uint16_t ends[] = {32, 288, 256, 96, 64, 128};
	/* a stream that should have 2^64 records: a repair notes no more than fits */
	static const uint8_t endless[] = {3, 0, 2, 0xee, 0x11, 3, 1, 3, 0xc0};

	corpus_put("volume", "endless", endless, sizeof endless, END);

	for (unsigned writer = 0; writer < 2; writer++) {
		for (unsigned kind = 0; kind < 5; kind++)
			for (unsigned offset = 0; offset < ends[kind]; offset += 12)
				put_patch(kind, offset % 7, offset, offset % 5 ? 1 : 0xff,
					writer);
		for (unsigned field = 36; field < 220; field += 4) /* of the root */
			put_patch(0, 2, field, field % 8 ? 0 : 0xff, writer);
		for (unsigned target = 8; target < 20; target += 3)
			put_patch(5, target, 100, 0, writer);
		/* the map says "open", the block's header names a stream that is not there */
		for (unsigned entry = 0; entry < 3; entry++)
			put_patches(4, 0, entry * 64 + 4, 1, 1, entry, 31, writer);
		put_patch(3, 0, 0, 1, writer); /* one root copy is gone */
		put_patch(3, 0, 32768, 1, writer);
	}
}

/* ---- the index ---- */

static void
put_index(void)
{
	struct pri_level2_writer w = {0};
	struct pri_level2_column column = {.check = 1, .segments = 3};
	uint64_t hashes[] = {1, 2, 3};
	uint8_t *out;
	size_t len;

	corpus_put("index", "level1", golden_level1, sizeof golden_level1, END);
	for (int i = 0; i < 16; i++)
		pri_level2_add(&w, 5, &column, hashes, 3, 100000);
	len = pri_level2_size(&w);
	out = malloc(len);
	if (!out)
		corpus_die("level2");
	pri_level2_finish(&w, 2, out);
	corpus_put("index", "level2", out, len, END);
	corpus_put("index", "composites", "src+dport,dst+sport+proto", (size_t)25, END);
	free(out);
	pri_level2_free(&w);
}

/* ---- heads of kept flows (fuzz_kept.c): as they are, whatever is asked, and with one field changed ---- */

static void
put_kept(void)
{
	for (unsigned flags = 0; flags < 256; flags++) {
		const uint8_t as_is[] = {(uint8_t)flags};
		char name[32];

		snprintf(name, sizeof name, "as-is-%u", flags);
		corpus_put("kept", name, as_is, sizeof as_is, END);
	}
	for (unsigned at = 0; at < 200; at += 3) {
		const uint8_t patch[] = {(uint8_t)(at % 4 << 6 | at % 32), (uint8_t)at, 0,
			3, 0xff, (uint8_t)at, 1};
		const uint8_t cut[] = {patch[0], (uint8_t)at, 0xf0, 0};
		char name[32];

		snprintf(name, sizeof name, "patch-%u", at);
		corpus_put("kept", name, patch, sizeof patch, END);
		snprintf(name, sizeof name, "cut-%u", at);
		corpus_put("kept", name, cut, sizeof cut, END);
	}
}

void
corpus_volumes(void)
{
	put_kept();
	put_segments();
	put_ledger();
	put_directory();
	put_volumes();
	put_index();
}
