/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CONSOLE_FORMAT_H
#define PR_CONSOLE_FORMAT_H

#include <stdint.h>

/* Figures for people, in at most FORMAT_TEXT bytes; all return buf. */
#define FORMAT_TEXT 32

char *format_bytes(char *buf, double bytes); /* 428.3 GiB */
char *format_count(char *buf, double count); /* 14.4 k; below 10,000 as it is */
char *format_bits(char *buf, double bytes_per_s); /* 78.2 Mbit/s */
/* 62:07 are hours and minutes, as CLog has them; below an hour "12 min", above four days "9 d". */
char *format_left(char *buf, double seconds);
char *format_clock(char *buf, int64_t time); /* 23:59:59, local */

#endif
