/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

#include <ctype.h>
#include <inttypes.h>

struct dump_args {
	uint64_t permission;
	bool raw, json, keyvalue;
};

#define PR_VALUES struct dump_args
static const struct pr_option options[] = {
	PR_OPT_FLAG(
		raw, "raw", 0, "the record's body to standard output, and nothing else"),
	PR_OPT_UINT(permission, "permission", 0, "BITS", 0, UINT32_MAX,
		"only records whose permission bits are all among these (0: any)"),
	CLI_FORM_OPTIONS(),
};
static const struct pr_cmdline program =
	VOLUME_PROGRAM("dump", "Shows one record, that a handle names: header and bytes.",
		"PATH[,PATH] HANDLE", options);

static void
print_hex(const uint8_t *bytes, size_t length)
{
	for (size_t at = 0; at < length; at += 16) {
		size_t n = length - at < 16 ? length - at : 16;

		printf("%08zx ", at);
		for (size_t i = 0; i < 16; i++)
			if (i < n)
				printf(i == 8 ? "  %02x" : " %02x", bytes[at + i]);
			else
				printf(i == 8 ? "    " : "   ");
		printf("  |");
		for (size_t i = 0; i < n; i++)
			putchar(isprint(bytes[at + i]) ? bytes[at + i] : '.');
		printf("|\n");
	}
}

static int
print_record(struct sfs *sfs, const struct sfs_record *record, enum render_form form,
	struct pr_error *err)
{
	char text[SFS_HANDLE_TEXT];
	struct sfs_stream_info s;
	struct render *r = render_begin(stdout, form);

	if (!r)
		return pr_error_set(err, "no memory");
	render_string(r, "handle", sfs_handle_text(&record->handle, text));
	if (sfs_stream_info(sfs, record->stream, &s, NULL) == 0)
		render_string(r, "stream", s.name);
	render_uint(r, "permission", record->permission);
	render_uint(r, "sequence", record->sequence);
	render_uint(r, "block", record->handle.block);
	render_uint(r, "generation", record->handle.generation);
	render_uint(r, "offset", record->handle.offset);
	render_uint(r, "length", record->length);
	render_time(r, "min_time", record->min_time);
	render_time(r, "max_time", record->max_time);
	if (render_end(&r) < 0)
		return pr_error_set(err, "cannot print");
	if (form == RENDER_TEXT)
		print_hex(record->body, record->length);
	return 0;
}

static int
dump(struct sfs *sfs, const struct sfs_handle *handle, const struct dump_args *a,
	struct pr_error *err)
{
	struct sfs_record record;
	int rc = sfs_read(sfs, handle, NULL, 0, NULL, &record, err);

	if (rc != SFS_OK)
		return pr_error_prefix(
			err, "%s", rc == SFS_EXPIRED ? "expired" : sfs_result_text(rc));
	if (!a->raw)
		return print_record(sfs, &record, volume_form(a->json, a->keyvalue), err);
	if (fwrite(record.body, 1, record.length, stdout) != record.length ||
		fflush(stdout) != 0)
		return pr_error_set(err, "cannot write the record");
	return 0;
}

int
volume_dump(int argc, char **argv)
{
	struct dump_args a = {0};
	struct volume_paths paths;
	struct sfs_handle handle;
	struct pr_error err;
	int rest, result = -1,
		  status = volume_parse(&program, &a, argc, argv, 1, &paths, &rest);
	struct sfs *sfs;

	if (status >= 0)
		return status;
	if (!sfs_handle_parse(argv[rest], &handle)) {
		pr_error_set(&err,
			"%.100s: no handle: 80 hexadecimal digits, as `packrack volume "
			"records` prints them",
			argv[rest]);
		status = CLI_USAGE;
	} else {
		status = CLI_FAILED;
		sfs = volume_open(&paths, (uint32_t)a.permission, &err);
		if (sfs) {
			result = dump(sfs, &handle, &a, &err);
			sfs_close(&sfs);
		}
	}
	volume_paths_free(&paths);
	return result < 0 ? cli_fail(program.name, status, &err) : CLI_OK;
}
