/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Sizes, durations, rates and percentages as users write them: a decimal number without sign, and
 * a unit directly behind it. All parsers return 0, or -1 if the text is malformed or too large.
 */

/* Bytes. K M G T P E and KiB ... EiB are powers of 1024, KB ... EB are powers of 1000. */
int pr_parse_size(const char *text, uint64_t *out);

/* A number of things: k M G T P E are powers of 1000. */
int pr_parse_count(const char *text, uint64_t *out);

/* ns. Units: ns us ms s m (or min) h d, sec(s) to day(s) in words; without a unit: seconds. */
int pr_parse_duration(const char *text, int64_t *out);

struct pr_rate {
	bool packets; /* else bits */
	double per_second;
};

/* bit, bit/s, bps, B, B/s, pps or p/s, with k, M, G or T (powers of 1000) before it: 100Mbit. */
int pr_parse_rate(const char *text, struct pr_rate *out);

/* "0.5" or "0.5%". */
int pr_parse_percent(const char *text, double *out);

/* An address, IPv4 or IPv6. Returns its bytes, 4 or 16; 0: it is none. */
uint8_t pr_parse_address(const char *text, uint8_t out[16]);
#define PR_ADDRESS_TEXT 46
char *pr_format_address(const uint8_t *bytes, size_t len, char buf[PR_ADDRESS_TEXT]);

/* The number in a file of /proc or /sys, by a format of scanf with one %llu. 0: it cannot be read. */
uint64_t pr_number_in(const char *path, const char *format);

/* In the largest unit that divides the value: "32M", "1500ms". Return buf. */
char *pr_format_size(uint64_t bytes, char *buf, size_t size);
char *pr_format_duration(int64_t ns, char *buf, size_t size);
