/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace files. Covers logger/import.c logger/direct_link.c
 * Options -max_len=4096
 *
 * The input is a pcap or pcapng file. What libpcap reads of it up to its first fault is in the volume
 * afterwards: the same packets, bytes, lengths and times, in the same order.
 */
#include <pcap/pcap.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logger/import.h"
#include "logger/streamfs/internal.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/clock.h"
#include "proto/wire/ledger.h"
#include "proto/wire/segment.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memory_disk.h"

/*
 * A volume takes some files, each as two links of its own. Each import reads the whole ledger, so that many files take
 * longer than opening a volume anew.
 */
enum { SIZE = 3 << 20, BLOCK = SFS_BLOCK_MIN, FILES = 12 };

static uint8_t pristine[SIZE];
static struct sfs *sfs;
static struct sfs_cursor *ledger; /* behind what was checked */
static unsigned files;
static int trace = -1;
static char trace_path[32];

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sfs_create_options options = {.size = SIZE, .block_size = BLOCK};
	int volume = memfd_create("volume", 0);
	char path[32];
	const char *const paths[] = {path};

	(void)argc;
	(void)argv;
	trace = memfd_create("trace", 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", volume);
	snprintf(trace_path, sizeof trace_path, "/proc/self/fd/%d", trace);
	MUST(ftruncate(volume, SIZE) == 0);
	MUST(sfs_create(paths, 1, &options, NULL) == 0);
	MUST(pread(volume, pristine, SIZE, 0) == SIZE);
	close(volume);
	disk.bytes = malloc(SIZE);
	memcpy(disk.bytes, pristine, SIZE);
	return 0;
}

static void
open_volume(void)
{
	struct sfs_open_options options = {
		.writer = true, .keep = true, .shm_bytes = 8 * BLOCK};
	struct sfs_disk memory;
	struct sfs_volume_info info;
	struct pr_error err;

	sfs_cursor_close(&ledger);
	sfs_close(&sfs);
	files = 0;
	disk_restore(pristine, SIZE);
	memory = disk_make();
	sfs = sfs_open_disks(&memory, 1, &options, &err);
	MUST(sfs);
	MUST(sfs_info(sfs, &info, &err) == 0);
	fuzz_unname_shm(info.uuid);
}

/* The next packet of the stream, segment after segment; false at its end. */
struct stored {
	struct sfs_cursor *cursor;
	struct sfs_record record;
	struct pr_segment_reader reader;
	bool open;
};

static bool
next_stored(struct stored *s, struct pr_packet *p)
{
	for (;;) {
		int result = s->open ? pr_segment_next(&s->reader, p, NULL) : 0;

		MUST(result >= 0);
		if (result > 0)
			return true;
		if (sfs_cursor_next(s->cursor, &s->record, NULL) != 1)
			return false;
		s->open = true;
		MUST(pr_segment_open(&s->reader, s->record.body, s->record.length, NULL) ==
			0);
	}
}

static void
same(const struct pr_packet *p, const struct pcap_pkthdr *h, const uint8_t *data)
{
	MUST(p->time ==
		pr_time_from_pcap(h->ts.tv_sec, h->ts.tv_usec)); /* ns, as asked for */
	MUST(p->caplen == h->caplen && p->len == h->len);
	MUST(memcmp(p->data, data, h->caplen) == 0);
}

/* Reads the file once more, by libpcap alone. */
static void
check_packets(struct sfs *sfs, const struct prl_import_stats *stats, int result)
{
	char name[32], text[PCAP_ERRBUF_SIZE];
	pcap_t *pcap = pcap_open_offline_with_tstamp_precision(
		trace_path, PCAP_TSTAMP_PRECISION_NANO, text);
	struct stored s = {.open = false};
	struct pr_packet p = {.seq = 0};
	struct pcap_pkthdr *h;
	const uint8_t *data;
	uint64_t count = 0;
	int stream, more;

	snprintf(name, sizeof name, "packets.%u", stats->link);
	stream = sfs_stream_find(sfs, name);
	if (stream >= 0)
		s.cursor = sfs_cursor_open(sfs, stream, NULL, NULL);
	while ((more = pcap_next_ex(pcap, &h, &data)) == 1) {
		MUST(s.cursor && next_stored(&s, &p));
		same(&p, h, data);
		MUST(p.seq == ++count && p.epoch == stats->epoch && p.link == stats->link);
		MUST(p.linktype == stats->linktype && p.otime >= p.time);
	}
	MUST(!s.cursor || !next_stored(&s, &p));
	MUST(count == stats->packets && count == stats->stored);
	MUST((more == PCAP_ERROR) == (result < 0));
	sfs_cursor_close(&s.cursor);
	pcap_close(pcap);
}

/* The ledger's last word on the link. */
static void
check_ledger(struct sfs *sfs, const struct prl_import_stats *stats)
{
	struct sfs_record record;
	struct pr_ledger_entry e;
	uint64_t last = 0;
	bool ended = false;

	if (!ledger)
		ledger = sfs_cursor_open(sfs, sfs_stream_find(sfs, "ledger"), NULL, NULL);
	while (ledger && sfs_cursor_next(ledger, &record, NULL) == 1) {
		struct pr_cursor c = pr_cursor_make(record.body, record.length);
		int result;

		while ((result = pr_ledger_load(&c, &e)) > 0)
			if (e.type == PR_LEDGER_MARK) {
				last = e.u.mark.link.last_seq;
				ended = e.u.mark.link.ended;
			}
		MUST(result == 0);
	}
	MUST(last == stats->packets && ended);
}

static bool
on_progress(void *arg, const struct prl_import_stats *stats)
{
	uint64_t *seen = arg;

	MUST(stats->packets >= *seen && stats->stored <= stats->packets);
	MUST(stats->offset <= stats->size);
	*seen = stats->packets;
	return true;
}

/* name NULL: the link gets that of the file. */
static void
import(struct sfs *sfs, const char *name, struct prl_import_stats *stats)
{
	struct prl_import_options options = {.name = name, .link = -1, .keep = true};
	struct pr_error err = {""};
	uint64_t seen = 0;
	int result =
		prl_import_file(sfs, trace_path, &options, on_progress, &seen, stats, &err);

	MUST(result == 0 || err.text[0]);
	if (stats->epoch) { /* it was a trace, if only its header */
		check_packets(sfs, stats, result);
		check_ledger(sfs, stats);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct prl_import_stats first, second;
	char name[32];

	if (!sfs || ++files == FILES)
		open_volume();
	MUST(ftruncate(trace, 0) == 0 && pwrite(trace, data, size, 0) == (ssize_t)size);
	snprintf(name, sizeof name, "fuzz %u", files);
	import(sfs, name, &first);
	name[0] = 'F';
	import(sfs, files ? name : NULL, &second);
	MUST(first.packets == second.packets);
	MUST(!first.epoch || (first.link != second.link && first.epoch != second.epoch));
	return 0;
}
