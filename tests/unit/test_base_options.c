/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/units.h"
#include "tests/unit/unit.h"

struct values {
	bool fast;
	char *name;
	struct pr_string_list in;
	uint64_t rack, ring;
	int64_t hold, since;
	int spread;
};

static const char *const spreads[] = {"round-robin", "flow", NULL};

#define PR_VALUES struct values
static const struct pr_option options[] = {
	PR_OPT_FLAG(fast, "fast", 'f', "be fast", .aliases = {"quick", "q"}),
	PR_OPT_STRING(name, "name", 'n', "NAME", "a name", .def_note = "the host's"),
	PR_OPT_LIST(in, "in", 'i', "IFACE", "an interface"),
	PR_OPT_UINT(rack, "rack-id", 0, "N", 1, 0xffff, "the rack"),
	PR_OPT_SIZE(ring, "ring-size", 'r', "BYTES", 64 << 10, 0, "the ring", .def = "4M",
		.aliases = {"buffer"}),
	PR_OPT_DURATION(
		hold, "hold", 0, "TIME", PR_NS_PER_MS, 3600 * PR_NS_PER_S, "how long"),
	PR_OPT_TIME(since, "since", 0, "TIME", "the first packet's time"),
	PR_OPT_ENUM(spread, "spread", 's', "MODE", spreads,
		"how to spread over nodes that have announced themselves, in a long text "
		"that takes several lines"),
};
static const struct pr_option required[] = {
	PR_OPT_STRING(name, "name", 'n', "NAME", "a name", .required = true),
};

static struct pr_cmdline program = {.name = "packrack-logger",
	.section = "logger",
	.summary = "Takes frames.",
	.usage = "[options] FILTER...",
	PR_OPTIONS(options),
	.footer = "Exit status: 0, 1 or 2."};

/* What one parse gave. */
static struct values v;
static struct pr_error err;
static char *args[32];
static int arg_count, operand;

static int
parse(const char *first, ...)
{
	va_list ap;

	pr_options_free(&program, &v);
	v = (struct values){.hold = 2 * PR_NS_PER_S};
	err.text[0] = '\0';
	arg_count = 0;
	args[arg_count++] = "prog";
	va_start(ap, first);
	for (const char *a = first; a; a = va_arg(ap, const char *))
		args[arg_count++] = (char *)(uintptr_t)a;
	va_end(ap);
	return pr_options_parse(&program, &v, arg_count, args, &operand, &err);
}

/* argv has no --config: what the machine has in /etc must not matter here. */
#define PARSE(...) parse("--config", "/dev/null", __VA_ARGS__, (char *)NULL)

START_TEST(every_kind)
{
	ck_assert_int_eq(
		PARSE("-f", "--name", "a b", "--in=x", "-iy", "--rack-id", "0x88b5", "-r",
			"64K", "--hold=50ms", "--since", "@1.5", "-s", "flow"),
		0);
	ck_assert(v.fast);
	ck_assert_str_eq(v.name, "a b");
	ck_assert_uint_eq(v.in.count, 2);
	ck_assert_str_eq(v.in.items[0], "x");
	ck_assert_str_eq(v.in.items[1], "y");
	ck_assert_uint_eq(v.rack, 0x88b5);
	ck_assert_uint_eq(v.ring, 65536);
	ck_assert_int_eq(v.hold, 50 * PR_NS_PER_MS);
	ck_assert_int_eq(v.since, 1500 * PR_NS_PER_MS);
	ck_assert_int_eq(v.spread, 1);
	ck_assert_int_eq(operand, arg_count);
}
END_TEST

START_TEST(defaults_stay)
{
	ck_assert_int_eq(PARSE("--name", "x"), 0);
	ck_assert_uint_eq(v.ring, 4 << 20);
	ck_assert_int_eq(v.hold, 2 * PR_NS_PER_S);
}
END_TEST

START_TEST(operands_go_last)
{
	ck_assert_int_eq(PARSE("tcp", "-f", "port", "--name", "x", "80", "--", "-n"), 0);
	ck_assert_int_eq(arg_count - operand, 4);
	ck_assert_str_eq(args[operand], "tcp");
	ck_assert_str_eq(args[operand + 1], "port");
	ck_assert_str_eq(args[operand + 2], "80");
	ck_assert_str_eq(args[operand + 3], "-n");
	ck_assert_str_eq(v.name, "x");
	ck_assert_int_eq(PARSE("x", "-", "--"), 0);
	ck_assert_int_eq(arg_count - operand, 2);
	ck_assert_str_eq(args[operand + 1], "-");
	/* what has been put in order parses to the same again */
	ck_assert_int_eq(
		pr_options_parse(&program, &v, arg_count, args, &operand, &err), 0);
	ck_assert_int_eq(arg_count - operand, 2);
}
END_TEST

START_TEST(stop_at_operand)
{
	program.stop_at_operand = true;
	ck_assert_int_eq(PARSE("-f", "query", "--name", "--nonsense"), 0);
	ck_assert_str_eq(args[operand], "query");
	ck_assert_int_eq(arg_count - operand, 3);
	ck_assert_ptr_null(v.name);
}
END_TEST

static const struct {
	const char *args[2], *want;
} bad[] = {
	{{"--rng-size=1"}, "unknown option --rng-size; did you mean --ring-size?"},
	{{"--hlep"}, "unknown option --hlep; did you mean --help?"},
	{{"--z"}, "unknown option --z; 'packrack-logger --help' lists the options"},
	{{"-z"}, "unknown option -z; 'packrack-logger --help' lists the options"},
	{{"-fz"}, "unknown option -z; 'packrack-logger --help' lists the options"},
	{{"--help=1"}, "--help takes no value"},
	{{"--name"}, "--name needs a value: --name NAME"},
	{{"-n"}, "-n needs a value: -n NAME"},
	{{"--fast=maybe"}, "--fast: 'maybe' is neither yes nor no"},
	{{"-r", "12q"}, "-r: '12q' is not a size (like 64K, 1M or 2GiB)"},
	{{"--ring-size=1K"}, "--ring-size: 1K is too small: give at least 64K"},
	{{"--rack-id=-1"}, "--rack-id: '-1' is not a whole number (like 500, 10k or 2M)"},
	{{"--rack-id= 1"}, "--rack-id: ' 1' is not a whole number (like 500, 10k or 2M)"},
	{{"--rack-id="}, "--rack-id: '' is not a whole number (like 500, 10k or 2M)"},
	{{"--rack-id=0x"}, "--rack-id: '0x' is not a whole number (like 500, 10k or 2M)"},
	{{"--rack-id=99999999999999999999"}, "--rack-id: '99999999999999999999' is not a "
					     "whole number (like 500, 10k or 2M)"},
	{{"--rack-id", "65536"}, "--rack-id: 65536 is out of range: give 1 to 65535"},
	{{"--rack-id", "0"}, "--rack-id: 0 is out of range: give 1 to 65535"},
	{{"--hold", "2h"}, "--hold: 2h is out of range: give 1ms to 1h"},
	{{"--hold", "2 s"}, "--hold: '2 s' is not a duration (like 50ms, 2s or 1h)"},
	{{"--since", "then"}, "--since: 'then' is not a time; forms are: " PR_TIME_FORMS},
	{{"--spread", "Flow"}, "--spread: 'Flow' is not one of: round-robin, flow"},
};

START_TEST(bad_usage)
{
	ck_assert_int_eq(PARSE(bad[_i].args[0], bad[_i].args[1]), -1);
	ck_assert_str_eq(err.text, bad[_i].want);
}
END_TEST

static char config[] = "/tmp/packrack-test-XXXXXX";

static void
write_config(const char *text, size_t len)
{
	FILE *f = fopen(config, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(text, 1, len, f), len);
	fclose(f);
}

static int
parse_config(const char *text)
{
	write_config(text, strlen(text));
	return parse("--config", config, (char *)NULL);
}

START_TEST(config_file)
{
	ck_assert_int_eq(
		parse_config("# a comment\n"
			     "[dispatcher]\nunknown-here = 1\n"
			     "[link a]\nname = x\n[class b]\nx = 1\n[watch c]\nx = 1\n"
			     "[logger]\n"
			     "fast = yes\n"
			     "  name = tcp port 80 and host a ; why\r\n"
			     "in = a\nin = b\n"
			     "ring-size = 1M\nhold = 5s\nspread = flow"),
		0);
	ck_assert(v.fast);
	ck_assert_str_eq(v.name, "tcp port 80 and host a");
	ck_assert_uint_eq(v.in.count, 2);
	ck_assert_uint_eq(v.ring, 1 << 20);
	ck_assert_int_eq(v.spread, 1);
	/* flags win, and their list is the whole list */
	ck_assert_int_eq(
		parse("--in", "c", "--config", config, "--fast=no", "-r1G", (char *)NULL),
		0);
	ck_assert_uint_eq(v.in.count, 1);
	ck_assert_str_eq(v.in.items[0], "c");
	ck_assert(!v.fast);
	ck_assert_uint_eq(v.ring, 1 << 30);
	ck_assert_int_eq(v.hold, 5 * PR_NS_PER_S);
}
END_TEST

/* Sections [class NAME] are items of the list `class` of a program that has it. */
START_TEST(class_sections)
{
	static const struct pr_option with_class[] = {
		PR_OPT_LIST(in, "class", 0, "TEXT", "a class", .def = "none"),
		PR_OPT_UINT(rack, "rack-id", 0, "N", 1, 0xffff, "the rack")};
	struct pr_cmdline p = {
		.name = "packrack-logger", .section = "logger", PR_OPTIONS(with_class)};
	static const char text[] = "[class bulk]\ncutoff = 15K\n[watch x]\na = 1\n"
				   "[class b]\nfilter = tcp port 80 ; why\n"
				   "[logger]\nrack-id = 7\n"
				   "[class bulk]\n  unknown = x\n[link class]\nclass = y\n";
	char *argv[] = {"prog", "--config", config, "--class", "own; cutoff=1", NULL};

	write_config(text, strlen(text));
	struct values w = {.fast = false};
	ck_assert_int_eq(pr_options_parse(&p, &w, 3, argv, NULL, &err), 0);
	ck_assert_uint_eq(w.in.count, 2);
	ck_assert_str_eq(w.in.items[0], "bulk\ncutoff = 15K\nunknown = x");
	ck_assert_str_eq(w.in.items[1], "b\nfilter = tcp port 80");
	ck_assert_uint_eq(w.rack, 7);
	pr_options_free(&p, &w);
	/* flags are the whole list */
	w = (struct values){.fast = false};
	ck_assert_int_eq(pr_options_parse(&p, &w, 5, argv, NULL, &err), 0);
	ck_assert_uint_eq(w.in.count, 1);
	ck_assert_str_eq(w.in.items[0], "own; cutoff=1");
	pr_options_free(&p, &w);
}
END_TEST

static const struct {
	const char *text, *want;
} bad_texts[] = {
	{"fst = 1", "unknown key 'fst' in [logger]; did you mean 'fast'?"},
	{"fast = 1; ring-size = 1x",
		"ring-size: '1x' is not a size (like 64K, 1M or 2GiB)"},
	{"fast", "'fast' is not 'key = value'"},
	{"name = a\n= b",
		"unknown key '' in [logger]; 'packrack-logger --help' lists them"},
};

START_TEST(text_of_options)
{
	pr_options_free(&program, &v);
	v = (struct values){.fast = false};
	ck_assert_int_eq(pr_options_text(&program, &v,
				 ";\n ;name =  a = b \r\n\tin=x;in = y;;fast=yes", &err),
		0);
	ck_assert(v.fast);
	ck_assert_str_eq(v.name, "a = b");
	ck_assert_uint_eq(v.in.count, 2);
	ck_assert_str_eq(v.in.items[1], "y");
	for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++) {
		ck_assert_int_eq(
			pr_options_text(&program, &v, bad_texts[i].text, &err), -1);
		ck_assert_str_eq(err.text, bad_texts[i].want);
	}
	pr_options_free(&program, &v);
}
END_TEST

START_TEST(long_lines)
{
	enum { LEN = 20000 };
	static char text[100000];

	strcpy(text, "[logger]\nname = ");
	memset(text + strlen(text), 'x', LEN);
	ck_assert_int_eq(parse_config(text), 0);
	ck_assert_uint_eq(strlen(v.name), LEN);
	memset(text + strlen(text), 'x', 70000);
	ck_assert_int_eq(parse_config(text), -1);
	ck_assert_ptr_nonnull(strstr(err.text, ":2: the line is longer than 65536 bytes"));
}
END_TEST

/* %s stands for the file */
static const struct {
	const char *text, *want;
} bad_files[] = {
	{"[logger]\nrng-size = 1\n",
		":2: unknown key 'rng-size' in [logger]; did you mean 'ring-size'?"},
	{"[logger]\nzz = 1\n",
		":2: unknown key 'zz' in [logger]; 'packrack-logger --help' lists them"},
	{"\n\n[loger]\nx = 1\n", ":4: unknown section [loger]; did you mean [logger]?"},
	{"[zz]\nx = 1\n", ":2: unknown section [zz]; sections are dispatcher, logger, "
			  "indexer, merger, "
			  "packrack, link NAME, class NAME, watch NAME"},
	{"[link]\nx = 1\n", ":2: section [link] needs a name: [link NAME]"},
	{"x = 1\n", ":1: key 'x' stands before any [section]"},
	{"[logger]\nfast\n", ":2: neither '[section]' nor 'name = value'"},
	{"[logger\nfast = 1\n", ":1: neither '[section]' nor 'name = value'"},
	{"[logger]\n# c\nhold = 1x\n",
		":3: hold: '1x' is not a duration (like 50ms, 2s or 1h)"},
	{"[logger]\nconfig = x\n", ":2: unknown key 'config' in [logger]; 'packrack-logger "
				   "--help' lists them"},
};

START_TEST(bad_file)
{
	char want[400];

	ck_assert_int_eq(parse_config(bad_files[_i].text), -1);
	snprintf(want, sizeof want, "%s%s", config, bad_files[_i].want);
	ck_assert_str_eq(err.text, want);
}
END_TEST

START_TEST(unreadable_files)
{
	ck_assert_int_eq(parse("--config", "/nowhere/x", (char *)NULL), -1);
	ck_assert_str_eq(
		err.text, "cannot open config file /nowhere/x: No such file or directory");
	ck_assert_int_eq(parse("--config", "/tmp", (char *)NULL), -1);
	ck_assert_str_eq(err.text, "cannot read /tmp: Is a directory");
	write_config("a\0b", 3);
	ck_assert_int_eq(parse("--config", config, (char *)NULL), -1);
	ck_assert_ptr_nonnull(strstr(err.text, ":1: not a text file"));
}
END_TEST

static void
catch_output(const char *flag, char *out, size_t size)
{
	FILE *file = tmpfile();
	int saved = dup(STDOUT_FILENO), fd = fileno(file);

	fflush(stdout);
	dup2(fd, STDOUT_FILENO);
	ck_assert_int_eq(PARSE(flag), 1);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(file);
	out[fread(out, 1, size - 1, file)] = '\0';
	fclose(file);
}

START_TEST(help_and_version)
{
	char out[4000];

	catch_output("-h", out, sizeof out);
	ck_assert_str_eq(out,
		"usage: packrack-logger [options] FILTER...\n\n"
		"Takes frames.\n\n"
		"options:\n"
		"  -f, --fast                  be fast\n"
		"  -n, --name NAME             a name [default: the host's]\n"
		"  -i, --in IFACE              an interface [repeatable]\n"
		"      --rack-id N             the rack\n"
		"  -r, --ring-size BYTES       the ring [default: 4M]\n"
		"      --hold TIME             how long [default: 2s]\n"
		"      --since TIME            the first packet's time\n"
		"  -s, --spread MODE           how to spread over nodes that have "
		"announced\n"
		"                              themselves, in a long text that takes "
		"several\n"
		"                              lines [default: round-robin]\n"
		"  -h, --help                  show this and exit\n"
		"      --version               show the version and exit\n"
		"      --config FILE           read this configuration file [default:\n"
		"                              /etc/packrack/packrack.conf]\n\n"
		"Each option is also a key of section [logger] in "
		"/etc/packrack/packrack.conf.\n\n"
		"Exit status: 0, 1 or 2.\n");
	catch_output("--version", out, sizeof out);
	ck_assert_str_eq(out, "packrack-logger " PACKRACK_VERSION "\n");
}
END_TEST

START_TEST(no_section_no_config)
{
	program.section = NULL;
	ck_assert_int_eq(parse("--config", "x", (char *)NULL), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "unknown option --config"));
	ck_assert_int_eq(parse("-f", (char *)NULL), 0);
}
END_TEST

START_TEST(aliases_are_read)
{
	ck_assert_int_eq(PARSE("-q", "--buffer=1M"), 0);
	ck_assert(v.fast);
	ck_assert_uint_eq(v.ring, 1 << 20);
	ck_assert_int_eq(parse_config("[logger]\nquick = yes\nbuffer = 2M\n"), 0);
	ck_assert(v.fast);
	ck_assert_uint_eq(v.ring, 2 << 20);
}
END_TEST

START_TEST(required_and_no_operands)
{
	program.options = required;
	program.option_count = 1;
	ck_assert_int_eq(PARSE("x"), -1);
	ck_assert_str_eq(err.text, "--name NAME is missing: a name");
	ck_assert_int_eq(parse_config("[logger]\nname = x\n"), 0);
	ck_assert_int_eq(parse("--name=x", "--config", "/dev/null", "y", (char *)NULL), 0);
	ck_assert_int_eq(pr_options_parse(&program, &v, arg_count, args, NULL, &err), -1);
	ck_assert_str_eq(err.text, "unexpected 'y': only options are taken; see "
				   "'packrack-logger --help'");
}
END_TEST

START_TEST(sizes_and_durations)
{
	struct pr_rate rate;
	double percent;
	char text[32];
	uint64_t n;
	int64_t ns;

	ck_assert(pr_parse_size("2GiB", &n) == 0 && n == 2ull << 30);
	ck_assert(pr_parse_size("7b", &n) == 0 && n == 7);
	ck_assert(pr_parse_size("1kb", &n) == 0 && n == 1000);
	ck_assert(pr_parse_size("4TB", &n) == 0 && n == 4000000000000);
	ck_assert(pr_parse_size("1.5K", &n) == 0 && n == 1536);
	ck_assert(pr_parse_size("15E", &n) == 0 && n == 15ull << 60);
	ck_assert_int_eq(pr_parse_size("16E", &n), -1);
	ck_assert_int_eq(pr_parse_size("", &n), -1);
	ck_assert_int_eq(pr_parse_size("K", &n), -1);
	ck_assert_int_eq(pr_parse_size("1KK", &n), -1);
	ck_assert_int_eq(pr_parse_size("-1", &n), -1);
	ck_assert_int_eq(pr_parse_size("18446744073709551616", &n), -1);
	ck_assert(pr_parse_count("10k", &n) == 0 && n == 10000);
	ck_assert(pr_parse_count("1.5M", &n) == 0 && n == 1500000);
	ck_assert(pr_parse_count("7", &n) == 0 && n == 7);
	for (size_t i = 0; i < 6; i++)
		ck_assert_int_eq(pr_parse_count((const char *[]){"1.5", "k", "10kk", "10 k",
							"10kB", "99E"}[i],
					 &n),
			-1);
	ck_assert(pr_parse_duration("2minutes", &ns) == 0 && ns == 120 * PR_NS_PER_S);
	ck_assert_int_eq(pr_parse_duration("2ms2", &ns), -1);
	ck_assert_int_eq(pr_parse_duration("2hs", &ns), -1);
	ck_assert(pr_parse_duration("1.5", &ns) == 0 && ns == 1500 * PR_NS_PER_MS);
	ck_assert(pr_parse_duration("0.000000001s", &ns) == 0 && ns == 1);
	ck_assert(pr_parse_duration("1.5d", &ns) == 0 && ns == 36 * 3600 * PR_NS_PER_S);
	ck_assert(pr_parse_duration("2.5us", &ns) == 0 && ns == 2500);
	ck_assert_int_eq(pr_parse_duration("200000d", &ns), -1);
	ck_assert_int_eq(pr_parse_duration("9223372036.9s", &ns), -1);
	ck_assert_int_eq(pr_parse_duration("1.s", &ns), -1);
	ck_assert_int_eq(pr_parse_duration("1S", &ns), -1);
	ck_assert_int_eq(pr_parse_duration("", &ns), -1);
	ck_assert(pr_parse_rate("12.5MB/s", &rate) == 0 && !rate.packets &&
		  rate.per_second == 1e8);
	ck_assert(pr_parse_rate("5kpps", &rate) == 0 && rate.packets &&
		  rate.per_second == 5e3);
	ck_assert_int_eq(pr_parse_rate("5k", &rate), -1);
	ck_assert_int_eq(pr_parse_rate("-5bit", &rate), -1);
	ck_assert(pr_parse_percent("0.5%", &percent) == 0 && percent == 0.5);
	ck_assert_int_eq(pr_parse_percent("0x1", &percent), -1);
	ck_assert_str_eq(pr_format_size(0, text, sizeof text), "0");
	ck_assert_str_eq(pr_format_size(UINT64_C(3) << 60, text, sizeof text), "3E");
	ck_assert_str_eq(pr_format_size(1025, text, sizeof text), "1025");
	ck_assert_str_eq(
		pr_format_duration(1500 * PR_NS_PER_MS, text, sizeof text), "1500ms");
	ck_assert_str_eq(pr_format_duration(86400 * PR_NS_PER_S, text, sizeof text), "1d");
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, every_kind);
	tcase_add_test(tc, defaults_stay);
	tcase_add_test(tc, operands_go_last);
	tcase_add_test(tc, stop_at_operand);
	tcase_add_loop_test(tc, bad_usage, 0, sizeof bad / sizeof *bad);
	tcase_add_test(tc, config_file);
	tcase_add_test(tc, class_sections);
	tcase_add_test(tc, text_of_options);
	tcase_add_test(tc, long_lines);
	tcase_add_loop_test(tc, bad_file, 0, sizeof bad_files / sizeof *bad_files);
	tcase_add_test(tc, unreadable_files);
	tcase_add_test(tc, help_and_version);
	tcase_add_test(tc, no_section_no_config);
	tcase_add_test(tc, aliases_are_read);
	tcase_add_test(tc, required_and_no_operands);
	tcase_add_test(tc, sizes_and_durations);
}

int
main(void)
{
	int fd = mkstemp(config), result;

	if (fd < 0)
		return EXIT_FAILURE;
	close(fd);
	result = unit_run("base options", fill);
	unlink(config);
	return result;
}
