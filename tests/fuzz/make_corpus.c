/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_corpus DIR: the fuzzers' first inputs, one folder a target, made by writing valid things.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/corpus.h"

const char *corpus_top;

void
corpus_die(const char *what)
{
	fprintf(stderr, "make_corpus: %s: %s\n", what, strerror(errno));
	exit(1);
}

void
corpus_put(const char *target, const char *name, ...)
{
	char path[512];
	const void *part;
	va_list ap;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", corpus_top, target);
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		corpus_die(path);
	snprintf(path, sizeof path, "%s/%s/%s", corpus_top, target, name);
	f = fopen(path, "w");
	if (!f)
		corpus_die(path);
	va_start(ap, name);
	while ((part = va_arg(ap, const void *))) {
		size_t len = va_arg(ap, size_t);

		if (fwrite(part, 1, len, f) != len)
			corpus_die(path);
	}
	va_end(ap);
	if (fclose(f) != 0)
		corpus_die(path);
}

static void
put_configs(void)
{
	static const char *const texts[] = {"f# comment\n[logger]\nfast = yes\nname = tcp "
					    "port 80 ; why\nin = a\nin = b\n"
					    "rack-id = 0x88b5\nring-size = 1MiB\nhold = "
					    "50ms\nsince = 90s ago\nspread = flow\n",
		"f[link a]\nx = 1\n[class b]\ny: 2\n[dispatcher]\nz = "
		"3\n[logger]\nfast=off\n",
		"f[loger]\nx = 1\n", "f[logger]\nrng-size = 1\n", "f[logger]\nname\n",
		"f[link]\na = b\n", "fx = 1\n", "f[logger]\nhold = 1x\n",
		"f[nothing-like-it]\na = b\n", "f[logger]\nzz = 1\n",
		" --fast\n--name=x\n-i\na\n-ib\n--rack-id\n7\n-r64K\n--hold\n1.5h\n-s\n@1."
		"5\ntcp\n--\n-x",
		" --spread=flow\n--since\n2026-11-21T00:40:00.5+02:00\nport",
		" --rng-size=1", " -q", " --name", " --help", " --version",
		" --since\n2026-02-30", " --spread\nnone", " --fast=maybe", " --q",
		" --hold\n1d\n--hold=3min\n--hold=7us", " --rack-id=65536",
		" --ring-size=1", " --config\n/tmp"};

	for (size_t i = 0; i < COUNT(texts); i++) {
		char name[32];

		snprintf(name, sizeof name, "config-%zu", i);
		corpus_put("config", name, texts[i], strlen(texts[i]), END);
	}
}

int
main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: make_corpus DIR\n");
		return 2;
	}
	corpus_top = argv[1];
	if (mkdir(corpus_top, 0777) < 0 && errno != EEXIST)
		corpus_die(corpus_top);
	corpus_frames();
	corpus_volumes();
	corpus_packets();
	corpus_messages();
	put_configs();
	corpus_summaries();
	corpus_keys();
	corpus_stages();
	return 0;
}
