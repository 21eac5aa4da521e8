/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/trace.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "proto/base/array.h"
#include "proto/base/privilege.h"

/* draft-ietf-opsawg-pcapng */
#define BLOCK_SECTION 0x0A0D0D0Au
#define BLOCK_SECRETS 0x0000000Au
#define BYTE_ORDER_MAGIC 0x1A2B3C4Du
#define BLOCK_MIN 12 /* type, length, length again */
enum { BUFFER = 256 * 1024, IDLE_MS = 10 };

/* By its first bytes. */
enum form { FORM_UNKNOWN, FORM_PLAIN, FORM_GZIP, FORM_ZSTD };

struct pr_trace {
	pcap_t *pcap;
	const char *path;
	int fd;
	enum form form;
	uint8_t in[BUFFER]; /* of the file, from in_at on not yet given */
	size_t in_at, in_len;
	z_stream gzip;
	ZSTD_DStream *zstd;
	bool inside, full; /* of a compressed unit; its last output filled the buffer */
	const char *broken; /* what is wrong with compressed data; NULL: nothing */
	struct pr_trace_info info;
	bool filtered;
	struct bpf_program program;
	bool (*idle)(void *arg);
	void *arg;
	/* the pcapng block that goes by */
	uint8_t head[12];
	uint32_t have, skip;
	bool begun, big_endian;
	bool over; /* not a pcapng, or damaged: libpcap reports it */
};

/* ---- decryption secrets: libpcap skips them silently, so the bytes are watched as they go by ---- */

static uint32_t
load32(const uint8_t *at, bool big_endian)
{
	uint32_t n;

	memcpy(&n, at, sizeof n);
	return big_endian ? be32toh(n) : le32toh(n);
}

/* Each section has its own byte order; the type of a section block reads the same in both. */
static void
block(struct pr_trace *t)
{
	uint32_t type = load32(t->head, t->big_endian), len;

	if (type == BLOCK_SECTION) {
		t->big_endian = load32(t->head + 8, true) == BYTE_ORDER_MAGIC;
		t->over = load32(t->head + 8, t->big_endian) != BYTE_ORDER_MAGIC;
	} else if (!t->begun) {
		t->over = true;
	}
	t->begun = true;
	len = load32(t->head + 4, t->big_endian);
	if (len < BLOCK_MIN || len % 4)
		t->over = true;
	if (t->over)
		return;
	t->info.secrets += type == BLOCK_SECRETS;
	t->skip = len - BLOCK_MIN;
	t->have = 0;
}

static void
watch(struct pr_trace *t, const void *data, size_t len)
{
	const uint8_t *at = data;
	size_t left = len, n;

	while (left && !t->over) {
		if (t->skip) {
			n = PR_MIN(left, t->skip);
			t->skip -= n;
		} else {
			n = sizeof(t->head) - t->have;
			n = PR_MIN(left, n);
			memcpy(t->head + t->have, at, n);
			t->have += n;
			if (t->have == sizeof(t->head))
				block(t);
		}
		at += n;
		left -= n;
	}
}

/* ---- reading ---- */

static ssize_t
read_file(struct pr_trace *t, void *buf, size_t size)
{
	struct pollfd p = {.fd = t->fd, .events = POLLIN};
	ssize_t n;

	while (t->idle) {
		int rc = poll(&p, 1, IDLE_MS);

		if (rc > 0 || (rc < 0 && errno != EINTR))
			break;
		if (!t->idle(t->arg)) /* the caller wants no more */
			return 0;
	}
	do
		n = read(t->fd, buf, size);
	while (n < 0 && errno == EINTR);
	t->info.bytes += n > 0 ? (uint64_t)n : 0;
	return n;
}

/* The first bytes tell the form; they stay in t->in. */
static void
find_form(struct pr_trace *t)
{
	static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
	ssize_t n;

	while (t->in_len < sizeof(zstd) &&
		(n = read_file(t, t->in + t->in_len, sizeof(zstd) - t->in_len)) > 0)
		t->in_len += n;
	t->form = FORM_PLAIN;
	if (!memcmp(t->in, gzip, sizeof(gzip)) &&
		inflateInit2(&t->gzip, 16 + MAX_WBITS) == Z_OK)
		t->form = FORM_GZIP;
	else if (!memcmp(t->in, zstd, sizeof(zstd)) && (t->zstd = ZSTD_createDStream()))
		t->form = FORM_ZSTD;
}

/* Gives what is in t->in, decompressed. Returns the number of bytes; a damaged file is marked broken. */
static size_t
unpack(struct pr_trace *t, void *buf, size_t size)
{
	ZSTD_inBuffer in = {t->in, t->in_len, t->in_at};
	ZSTD_outBuffer out = {buf, size, 0};
	z_stream *z = &t->gzip;
	size_t rc, left = t->in_len - t->in_at;

	if (t->form == FORM_GZIP) {
		z->next_in = t->in + t->in_at;
		z->avail_in = (uInt)left;
		z->next_out = buf;
		z->avail_out = (uInt)size;
		rc = inflate(z, Z_NO_FLUSH);
		in.pos = t->in_len - z->avail_in;
		out.pos = size - z->avail_out;
		t->inside = rc != Z_STREAM_END;
		if (!t->inside) /* another may follow */
			inflateReset(z);
		else if (rc != Z_OK && rc != (size_t)Z_BUF_ERROR)
			t->broken = "the compressed data is damaged";
	} else if (t->form == FORM_ZSTD) {
		rc = ZSTD_decompressStream(t->zstd, &out, &in);
		t->inside = rc != 0;
		t->broken = ZSTD_isError(rc) ? ZSTD_getErrorName(rc) : NULL;
	} else {
		out.pos = PR_MIN(left, size);
		memcpy(buf, t->in + t->in_at, out.pos);
		in.pos += out.pos;
	}
	t->in_at = in.pos;
	t->full = out.pos == size;
	return out.pos;
}

static ssize_t
on_read(void *cookie, char *buf, size_t size)
{
	struct pr_trace *t = cookie;
	size_t made = 0;

	if (t->form == FORM_UNKNOWN)
		find_form(t);
	while (!made && !t->broken) {
		if (t->in_at == t->in_len && !(t->full && t->inside)) {
			ssize_t n = read_file(t, t->in, sizeof(t->in));
			if (n == 0 && t->inside)
				t->broken = "the compressed data ends too early";
			if (n <= 0)
				return t->broken ? -1 : n;
			t->in_at = 0;
			t->in_len = n;
		}
		made = unpack(t, buf, size);
	}
	watch(t, buf, made);
	return made ? (ssize_t)made : -1;
}

static int
on_close(void *cookie)
{
	struct pr_trace *t = cookie;

	return t->fd == STDIN_FILENO ? 0 : close(t->fd);
}

static FILE *
open_stream(struct pr_trace *t, struct pr_error *err)
{
	FILE *stream = NULL;
	struct stat st;

	t->fd = strcmp(t->path, "-") ? pr_privilege_open(t->path, O_RDONLY | O_CLOEXEC)
				     : STDIN_FILENO;
	if (t->fd >= 0)
		stream = fopencookie(t, "r",
			(cookie_io_functions_t){.read = on_read, .close = on_close});
	if (!stream) {
		pr_error_errno(err, "%s", t->path);
		if (t->fd >= 0)
			on_close(t);
		return NULL;
	}
	setvbuf(stream, NULL, _IOFBF, BUFFER);
	if (fstat(t->fd, &st) == 0 && S_ISREG(st.st_mode))
		t->info.size = st.st_size;
	return stream;
}

struct pr_trace *
pr_trace_open(const char *path, struct pr_error *err)
{
	struct pr_trace *t = calloc(1, sizeof *t);
	char text[PCAP_ERRBUF_SIZE] = "";

	if (!t)
		return pr_error_null(err, "%s: no memory to read it", path);
	t->path = path;
	FILE *stream = open_stream(t, err);
	if (stream)
		t->pcap = pcap_fopen_offline_with_tstamp_precision(
			stream, PCAP_TSTAMP_PRECISION_NANO, text);
	if (stream && !t->pcap) {
		fclose(stream);
		pr_error_set(err, "cannot read %s as pcap or pcapng: %s", path,
			t->broken ? t->broken : text);
	}
	if (!t->pcap) {
		pr_trace_close(&t);
		return NULL;
	}
	t->info.linktype = pr_linktype_of_pcap(t->pcap);
	t->info.snaplen = PR_MAX(pcap_snapshot(t->pcap), 0);
	/* The field has 28 bits, the registry and our formats have 16. */
	if (t->info.linktype < 0 || t->info.linktype > UINT16_MAX) {
		pr_error_set(err, "%s: unknown link type %d", path, t->info.linktype);
		pr_trace_close(&t);
	}
	return t;
}

void
pr_trace_close(struct pr_trace **trace)
{
	struct pr_trace *t = PR_TAKE(trace);

	if (!t)
		return;
	if (t->filtered)
		pcap_freecode(&t->program);
	if (t->pcap)
		pcap_close(t->pcap);
	if (t->form == FORM_GZIP)
		inflateEnd(&t->gzip);
	ZSTD_freeDStream(t->zstd);
	free(t);
}

const struct pr_trace_info *
pr_trace_info(const struct pr_trace *t)
{
	return &t->info;
}

int
pr_trace_filter(struct pr_trace *t, const char *filter, struct pr_error *err)
{
	t->filtered = pr_filter_of_pcap(t->pcap, filter, &t->program, err) == 0;
	return t->filtered ? 0 : -1;
}

void
pr_trace_on_idle(struct pr_trace *t, bool (*idle)(void *arg), void *arg)
{
	t->idle = idle;
	t->arg = arg;
}

int
pr_trace_next(struct pr_trace *t, struct pr_packet *out, struct pr_error *err)
{
	struct pcap_pkthdr *h;
	const u_char *data;

	do {
		int got = pcap_next_ex(t->pcap, &h, &data);

		if (got == PCAP_ERROR_BREAK)
			return PR_SOURCE_END;
		if (got != 1)
			return pr_error_as(PR_SOURCE_ERROR, err, "%s: packet %llu: %s",
				t->path, (unsigned long long)t->info.packets + 1,
				t->broken ? t->broken : pcap_geterr(t->pcap));
		t->info.packets++;
	} while (t->filtered && !pcap_offline_filter(&t->program, h, data));
	*out = (struct pr_packet){
		.time = pr_time_from_pcap(h->ts.tv_sec, h->ts.tv_usec), /* tv_usec: ns */
		.caplen = h->caplen,
		.len = h->len,
		.linktype = t->info.linktype,
		.data = data};
	return PR_SOURCE_PACKET;
}

/* ---- filters ---- */

int
pr_filter_of_pcap(
	pcap_t *pcap, const char *filter, struct bpf_program *out, struct pr_error *err)
{
	if (pcap_compile(pcap, out, filter, 1, PCAP_NETMASK_UNKNOWN) == 0)
		return 0;
	return pr_error_set(err, "filter '%s': %s", filter, pcap_geterr(pcap));
}

enum { SNAPLEN = 262144 };

struct pr_packet_filter {
	struct bpf_program program;
};

struct pr_packet_filter *
pr_packet_filter_create(const char *filter, struct pr_error *err)
{
	struct pr_packet_filter *f = calloc(1, sizeof *f);
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, SNAPLEN);

	if (!f || !pcap)
		pr_error_set(err, "filter '%s': no memory", filter);
	if (!f || !pcap || pr_filter_of_pcap(pcap, filter, &f->program, err) < 0)
		free(PR_TAKE(&f));
	if (pcap)
		pcap_close(pcap);
	return f;
}

void
pr_packet_filter_destroy(struct pr_packet_filter **filter)
{
	struct pr_packet_filter *f = PR_TAKE(filter);

	if (f)
		pcap_freecode(&f->program);
	free(f);
}

bool
pr_packet_filter_match(const struct pr_packet_filter *f, const uint8_t *data,
	uint32_t caplen, uint32_t len)
{
	return bpf_filter(f->program.bf_insns, data, len, caplen) != 0;
}

/* ---- link types ---- */

/* Link types of files that are other numbers inside libpcap on Linux (pcap-common.c). */
static const struct {
	uint16_t linktype;
	int dlt;
} different[] = {{100, DLT_ATM_RFC1483}, {101, DLT_RAW}, {102, DLT_SLIP_BSDOS},
	{103, DLT_PPP_BSDOS}, {106, DLT_ATM_CLIP}, {246, DLT_PFSYNC}};

int
pr_linktype_of_pcap(pcap_t *pcap)
{
	int dlt = pcap_datalink(pcap);

	/* the machine that captured it is big-endian */
	if (dlt == DLT_NULL && (pcap_is_swapped(pcap) == 1) != (htobe16(1) == 1))
		return PR_LINKTYPE_LOOP;
	for (size_t i = 0; i < PR_COUNT(different); i++)
		if (different[i].dlt == dlt)
			return different[i].linktype;
	return dlt;
}

char *
pr_linktype_name(int linktype, char text[PR_LINKTYPE_TEXT])
{
	int dlt = linktype;

	for (size_t i = 0; i < PR_COUNT(different); i++)
		if (different[i].linktype == linktype)
			dlt = different[i].dlt;
	const char *name = pcap_datalink_val_to_name(dlt);
	if (name)
		snprintf(text, PR_LINKTYPE_TEXT, "%s", name);
	else
		snprintf(text, PR_LINKTYPE_TEXT, "%d", linktype);
	return text;
}
