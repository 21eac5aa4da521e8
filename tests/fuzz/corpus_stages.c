/* SPDX-License-Identifier: Apache-2.0 */
/* First inputs of fuzz_rules and, as texts, of fuzz_anonymize, which also gets packets (corpus_packets.c). */
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz.h"

void
corpus_stages(void)
{
#define ANY "alert tcp any any -> any any ("
	static const char *const rules[] = {
		"alert tcp any any -> $HOME_NET [80,!8080:8090] (msg:\"a \\\"b\\\"\"; "
		"content:\"GET |0d 0a|\"; nocase; depth:9; offset:2; content:!\"x\"; "
		"distance:-3; within:20; pcre:\"/a+b/is\"; flags:SF+,12; dsize:>9; sid:1; "
		"rev:2;)",
		"alert icmp [10.0.0.0/8,![fe80::1,::/3]] any <> any any (itype:3<>9; "
		"classtype:x; priority:2; reference:a,b; sid:2;)",
		"# two\n\n" ANY "content:\"a\\;b\"; \\\n sid:3; metadata:x y;)\n" ANY
		"pcre:!\"/x/m\"; flags:!0; dsize:<5; sid:4;)\n",
		"alert ip $X 1: -> !10.0.0.1 :9 (flags:*A; itype:<3; sid:5;)",
		"alert udp any $P -> $NONE any (sid:6;)", ANY "flags:+SA; sid:7;)",
		ANY "content:\"|4|\"; sid:8;)", ANY "content:\"ab\"; depth:1; sid:9;)",
		ANY "content:\"ab\"; distance:1; sid:10;)",
		ANY "content:\"a\"; offset:1; content:\"b\"; offset:2; within:9; sid:11;)",
		ANY "pcre:\"/a/R\"; sid:12;)", ANY "sid:0;)", ANY "nocase; sid:1;)",
		ANY "msg:x; sid:99999999999;)", "drop tcp any any -> any any (sid:1;)",
		"alert tcp any any -> any (sid:1;)",
		"alert sctp any any -> any any (sid:1;)",
		"alert tcp [10.0.0.0/99] any -> any any (sid:1;)",
		"alert tcp any 9:1 -> any any (sid:1;)",
		ANY "itype:8; flow:to_server; sid:1;)"};
	static const char *const policies[] = {
		"\377payload = hash\nports = map\nshift = -90d\n",
		"\377macs = blank\nchecksums = zero"};
	char name[24];

	for (size_t i = 0; i < COUNT(rules); i++) {
		snprintf(name, sizeof name, "rule-%zu", i);
		corpus_put("rules", name, rules[i], strlen(rules[i]), END);
	}
	for (size_t i = 0; i < COUNT(policies); i++) {
		snprintf(name, sizeof name, "policy-%zu", i);
		corpus_put("anonymize", name, policies[i], strlen(policies[i]), END);
	}
}
