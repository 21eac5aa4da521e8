/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_OPTION_ROWS_H
#define PR_RPC_OPTION_ROWS_H

#include "proto/base/log.h"
#include "proto/base/options.h"
#include "proto/rpc/keys.h"

/* Rows of the option tables that all daemons have; at: where in the values, as offsetof says. */
#define PR_OPTION_METRICS(at)                                                              \
	{                                                                                  \
		.name = "metrics", .kind = PR_OPT_STRING, .offset = (at),                  \
		.arg = "ADDRESS:PORT", .help = "serve figures to Prometheus here (none)"   \
	}
#define PR_OPTION_KEY(at)                                                                  \
	{                                                                                  \
		.name = "key", .kind = PR_OPT_STRING, .offset = (at), .arg = "DIR",        \
		.help = "its key directory, or none (" PR_KEYS_DIR ", if it has keys)"     \
	}
#define PR_OPTION_LOG_FORMAT(at)                                                           \
	{                                                                                  \
		.name = "log-format", .kind = PR_OPT_ENUM, .offset = (at),                 \
		.arg = "FORMAT", .help = "of what is said on stderr: auto, text or json",  \
		.choices = pr_log_formats                                                  \
	}
#define PR_OPTION_VERBOSE(at)                                                              \
	{                                                                                  \
		.name = "verbose", .letter = 'v', .kind = PR_OPT_FLAG, .offset = (at),     \
		.help = "say more"                                                         \
	}

#endif
