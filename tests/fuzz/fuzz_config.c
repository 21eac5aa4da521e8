/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files and command lines. Covers proto/base/options.c proto/base/units.c proto/base/clock.c
 * Options -max_len=1024
 *
 * The first byte says which: 'f' a file, else a command line, one word a line.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/options.h"
#include "tests/fuzz/fuzz.h"

struct values {
	bool fast;
	char *name;
	struct pr_string_list in;
	uint64_t rack, ring;
	int64_t hold, since;
	int spread;
};

static const char *const spreads[] = {"round-robin", "weighted", "flow", NULL};

#define PR_VALUES struct values
#define HELP "a text about it"
static const struct pr_option options[] = {
	PR_OPT_FLAG(fast, "fast", 'f', HELP, .aliases = {"quick", "q"}),
	PR_OPT_STRING(name, "name", 'n', "NAME", HELP),
	PR_OPT_LIST(in, "in", 'i', "IFACE", HELP),
	PR_OPT_UINT(rack, "rack-id", 0, "N", 1, 0xffff, HELP),
	PR_OPT_SIZE(ring, "ring-size", 'r', "BYTES", 64 << 10, 0, HELP, .def = "4M"),
	PR_OPT_DURATION(hold, "hold", 0, "TIME", 1000, PR_TIME_MAX, HELP),
	PR_OPT_TIME(since, "since", 's', "TIME", HELP),
	PR_OPT_ENUM(spread, "spread", 0, "MODE", spreads, HELP),
};

static const struct pr_cmdline program = {
	.name = "fuzz", .section = "logger", .summary = "Is fuzzed.", PR_OPTIONS(options)};

static void
parse(int argc, char **argv)
{
	struct values v = {0};
	struct pr_error err = {""};
	int operand = -1,
	    result = pr_options_parse(&program, &v, argc, argv, &operand, &err);

	MUST(result == 1 || (result < 0) == (err.text[0] != '\0'));
	MUST(strchr(err.text, '\n') == NULL || argc > 3);
	MUST(result != 0 || (operand >= 1 && operand <= argc));
	MUST(result != 0 || v.rack <= 0xffff);
	for (int i = operand; result == 0 && i < argc; i++)
		MUST(strlen(argv[i]) < 2000);
	pr_options_free(&program, &v);
	MUST(v.name == NULL && v.in.count == 0);
}

static int config = -1;
static char config_path[32];

static void
parse_file(const uint8_t *data, size_t size)
{
	char *argv[] = {"fuzz", "--config", config_path, NULL};

	MUST(ftruncate(config, 0) == 0);
	MUST(pwrite(config, data, size, 0) == (ssize_t)size);
	parse(3, argv);
}

static void
parse_words(const uint8_t *data, size_t size)
{
	enum { WORDS = 64 };
	char *argv[WORDS + 1] = {"fuzz", "--config", "/dev/null"};
	char *text = strndup((const char *)data, size), *rest = text, *word;
	int argc = 3;

	while (argc < WORDS && (word = strsep(&rest, "\n")))
		argv[argc++] = word;
	parse(argc, argv);
	free(text);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	config = memfd_create("config", 0);
	snprintf(config_path, sizeof config_path, "/proc/self/fd/%d", config);
	/* --help writes there */
	return freopen("/dev/null", "w", stdout) ? 0 : -1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char buf[PR_TIME_TEXT];

	if (size < 1)
		return -1;
	if (data[0] == 'f')
		parse_file(data + 1, size - 1);
	else
		parse_words(data + 1, size - 1);
	if (size >= 9) {
		int64_t t, again;

		memcpy(&t, data + 1, sizeof t);
		MUST(pr_time_parse(pr_time_format(t, buf, sizeof buf), 0, &again, NULL) ==
			0);
		MUST(t == again);
		again = pr_time_make(t, size > 16 ? t ^ 0x5555 : t);
	}
	return 0;
}
