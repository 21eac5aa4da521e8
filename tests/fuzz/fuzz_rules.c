/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of detection. Covers indexer/stages/rules.c
 * Options -max_len=2048
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "indexer/stages/rules.h"
#include "tests/fuzz/fuzz.h"

/* The same as a file, where a rule may have several lines. */
static void
read_file(const uint8_t *data, size_t size)
{
	struct pri_rules rules = {.items = NULL};
	int fd = memfd_create("rules", 0);
	struct pr_error err = {""};
	FILE *told = fopen("/dev/null", "w");
	char path[32];

	MUST(fd >= 0 && told && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (pri_rules_read(&rules, path, NULL, size % 2 ? told : NULL, &err) < 0)
		MUST(err.text[0]);
	pri_rules_free(&rules);
	fclose(told);
	close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool checked;
	char *text = malloc(size + 1);
	struct pri_rules rules = {.items = NULL};
	struct pri_rule rule;
	struct pr_error err;

	if (!checked)
		MUST(pri_rule_matcher_check(NULL) == 0);
	checked = true;
	memcpy(text, data, size);
	text[size] = '\0';
	err.text[0] = '\0';
	if (pri_rule_parse(
		    &rule, text, "HOME_NET=[10.0.0.0/8,$X];X=$HOME_NET;P=!80", &err) < 0) {
		MUST(err.text[0]);
	} else {
		MUST(rule.sid && rule.message && rule.contents <= PRI_RULE_CONTENTS);
		for (size_t i = 0; i < rule.contents; i++)
			MUST(rule.content[i].len);
		rules.items = malloc(sizeof(rule));
		rules.items[0] = rule;
		rules.count = 1;
		pri_rules_free(&rules);
	}
	free(text);
	read_file(data, size);
	return 0;
}
