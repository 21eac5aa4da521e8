/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/log.h"
#include "proto/base/options.h"
#include "proto/base/sandbox.h"
#include "proto/rpc/keys.h"

/* Rows that the option tables of all daemons have; member: of PR_VALUES. */
#define PR_OPTION_METRICS(member)                                                          \
	PR_OPT_STRING(                                                                     \
		member, "metrics", 0, "ADDRESS:PORT", "serve metrics to Prometheus here")
#define PR_OPTION_KEY(member)                                                              \
	PR_OPT_STRING(member, "key-dir", 0, "DIR", "its key directory, or none",           \
		.def_note = PR_KEYS_DIR ", if it has keys", .aliases = {"key"})
#define PR_OPTION_USER(member)                                                             \
	PR_OPT_STRING(member, "user", 0, "USER", "run as this user when started as root",  \
		.def_note = PR_SANDBOX_USER ", or nobody")
#define PR_OPTION_LOG_FORMAT(member)                                                       \
	PR_OPT_ENUM(member, "log-format", 0, "FORMAT", pr_log_formats,                     \
		"format of log lines on stderr: auto, text or json")
#define PR_OPTIONS_RACK(id, type)                                                          \
	PR_OPT_UINT(id, "rack-id", 0, "N", 0, UINT32_MAX,                                  \
		"number that distinguishes racks on one switch"),                          \
		PR_OPT_UINT(type, "ethertype", 0, "N", 0x600, 0xffff,                      \
			"Ethertype of the rack's control frames", .def = "0x88B5")
/* 0: on */
#define PR_OPTION_CANARY(member, help)                                                     \
	PR_OPT_ENUM(member, "canary", 0, "on|off",                                         \
		((const char *const[]){"on", "off", NULL}), help)
#define PR_OPTION_VERBOSE(member) PR_OPT_FLAG(member, "verbose", 'v', "log more")
