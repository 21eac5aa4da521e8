/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_TRACE_FILE_H
#define PR_CLI_TRACE_FILE_H

#include "proto/base/error.h"
#include "proto/wire/source.h"

/* A pcap or pcapng file as libpcap reads it, times in ns: its packets one by one. */
struct trace_file;

struct trace_file *trace_file_open(const char *path, struct pr_error *err);
void trace_file_close(struct trace_file **file);
/* PR_SOURCE_PACKET (epoch, seq and link are 0), END or ERROR. */
int trace_file_next(struct trace_file *file, struct pr_packet *out, struct pr_error *err);

#endif
