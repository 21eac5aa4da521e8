/* SPDX-License-Identifier: Apache-2.0 */
/* First inputs of what the switch carries: frames, timestamp logs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/frame.h"
#include "proto/wire/tslog.h"
#include "tests/fuzz/corpus.h"
#include "tests/unit/golden_frames.h"

/* ---- frames: the golden bytes, sealed by the target without and with a key, or the alternate one ---- */

static void
put_frames(void)
{
#define GOLDEN(bytes)                                                                      \
	{                                                                                  \
		bytes, sizeof(bytes)                                                       \
	}
	static const struct {
		const uint8_t *data;
		size_t len;
	} golden[] = {GOLDEN(golden_ann), GOLDEN(golden_ann_ack), GOLDEN(golden_status),
		GOLDEN(golden_tslog), GOLDEN(golden_mark), GOLDEN(golden_resend),
		GOLDEN(golden_gone), GOLDEN(golden_stop), GOLDEN(golden_quit),
		GOLDEN(golden_identify), GOLDEN(golden_reset), GOLDEN(golden_disconnect),
		GOLDEN(golden_reconnect), GOLDEN(golden_port), GOLDEN(golden_unobserved),
		GOLDEN(golden_class), GOLDEN(golden_keyed_stop)};

	for (size_t i = 0; i < COUNT(golden); i++)
		for (unsigned char mode = 0; mode < 32; mode = mode == 14 ? 31 : mode + 7) {
			char name[32];

			snprintf(name, sizeof name, "golden-%zu-%d", i, mode);
			corpus_put("frame", name, &mode, sizeof mode, golden[i].data,
				golden[i].len, END);
		}
}

/* ---- timestamp logs ---- */

static struct pr_entry
make_entry(uint64_t n)
{
	static const uint8_t kinds[] = {0, PR_ENTRY_SECOND, PR_ENTRY_CAPLEN,
		PR_ENTRY_CAPLEN | PR_ENTRY_LEN, PR_ENTRY_LEN | PR_ENTRY_CUT,
		PR_ENTRY_ETHERTYPE, PR_ENTRY_RUNT, 0};
	uint8_t flags = kinds[n % COUNT(kinds)];
	struct pr_entry e = {.seq = 1 + n + (n > 20 ? 100 * n : 0),
		.ordinal = n,
		.time = 1700000000000000000 + (int64_t)(n * 12345),
		.fingerprint = (uint32_t)(n * 2654435761u),
		.flags = flags};

	e.otime = e.time + (n % 5 == 0 ? 77 : 0);
	e.caplen = flags & PR_ENTRY_CAPLEN ? 20 : 0;
	e.len = flags & PR_ENTRY_LEN ? 9000 : e.caplen;
	e.ethertype = flags & PR_ENTRY_ETHERTYPE ? PR_ETHERTYPE_DEFAULT : 0;
	e.runt_len = flags & PR_ENTRY_RUNT ? 3 : 0;
	if (!(flags & PR_ENTRY_RUNT))
		memset(e.macs, (int)(n % 3), sizeof e.macs);
	return e;
}

static void
put_tslogs(void)
{
	uint8_t buf[2048];

	for (unsigned i = 0; i < 6; i++) {
		struct pr_tslog_builder b;
		const uint8_t *body;
		char name[32];
		size_t len;

		pr_tslog_begin(
			&b, 1, i % 2 ? PR_TSLOG_INTERLEAVED : 0, 1 + i, buf, sizeof buf);
		for (uint64_t n = 0; n < 1u << i; n++) {
			struct pr_entry e = make_entry(n);

			e.ordinal = i % 2 ? n * n : n;
			if (!pr_tslog_add(&b, &e))
				break;
		}
		len = pr_tslog_finish(&b, &body);
		snprintf(name, sizeof name, "log-%u", i);
		corpus_put("tslog", name, body, len, END);
	}
}

void
corpus_frames(void)
{
	put_frames();
	put_tslogs();
}
