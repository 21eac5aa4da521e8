/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "merger/trace_writer.h"
#include "tests/unit/unit.h"

/* A trace that is written into a file, and what came of it. */

static FILE *file;
static uint8_t got[4 * 1024 * 1024];
static size_t got_len;

static inline struct prm_trace_writer *
open_writer(bool threaded, struct prm_output *out, enum prm_trace_format format,
	const char *filter)
{
	struct prm_trace_options o = {.format = format, .filter = filter};
	struct prm_trace_writer *w;

	file = tmpfile();
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(prm_output_init(out, fileno(file), threaded, NULL), 0);
	w = prm_trace_create(out, &o, NULL);
	ck_assert_ptr_nonnull(w);
	return w;
}

static inline void
read_back(struct prm_trace_writer *w, struct prm_output *out)
{
	prm_trace_destroy(&w);
	prm_output_free(out);
	rewind(file);
	got_len = fread(got, 1, sizeof(got), file);
	fclose(file);
}

static inline void
close_writer(struct prm_trace_writer *w, struct prm_output *out, const char *comment)
{
	struct pr_error err = {""};
	Packrack__Ledger ledger = {.name = (char *)"tap0",
		.linktype = 1,
		.last_seq = 9,
		.dropped_kernel = 2,
		.dropped_interface = 1};
	Packrack__Ledger *list[] = {&ledger};

	ck_assert_msg(prm_trace_finish(w, list, 1, &comment, comment ? 1 : 0, &err) == 0,
		"%s", err.text);
	read_back(w, out);
}

static inline struct pr_packet
packet(int64_t time, uint32_t caplen, uint16_t linktype)
{
	static const uint8_t data[] = "\x01\x02\x03\x04\x05\x06\x07\x08\x09";

	return (struct pr_packet){.time = time,
		.epoch = 5,
		.seq = 1,
		.caplen = caplen,
		.len = 60,
		.linktype = linktype,
		.data = data};
}

static inline void
write_packet(struct prm_trace_writer *w, int64_t time, uint32_t caplen)
{
	struct pr_packet p = packet(time, caplen, 1);
	struct pr_error err = {""};

	ck_assert_msg(prm_trace_packet(w, &p, &err) == 0, "%s", err.text);
}

static inline void
expect(const uint8_t *want, size_t len)
{
	for (size_t i = 0; i < len && i < got_len; i++)
		ck_assert_msg(want[i] == got[i], "byte %zu is %02x, not %02x", i, got[i],
			want[i]);
	ck_assert_uint_eq(got_len, len);
}

static inline void
link_tap0_at(struct prm_trace_writer *w, uint64_t speed)
{
	const Packrack__LinkInfo link = {.epoch = 5,
		.linktype = 1,
		.snaplen = 96,
		.name = (char *)"tap0",
		.speed = speed};

	ck_assert_int_eq(prm_trace_link(w, &link, NULL), 0);
}

static inline void
link_tap0(struct prm_trace_writer *w)
{
	link_tap0_at(w, UINT64_C(10000000000));
}
