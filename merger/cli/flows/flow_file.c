/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "indexer/flows/flow_export.h"
#include "indexer/flows/flow_told.h"
#include "merger/cli/flows/sql_engine.h"
#include "proto/base/array.h"
#include "proto/base/cursor.h"
#include "proto/base/text.h"
#include "proto/base/units.h"

/* ---- what a row tells ---- */

static const char macros[] =
#include "merger/cli/flows/flow_file.sql.h"
	;
#define ICMP_PORT (UINT16_MAX + 1) /* and type << 8 | code: of DPORT */
#define AT(member) offsetof(struct pri_told, member)
/* The columns of told() there: their names, the largest number (0: text; -1: a time), and which of struct pri_told it is. */
enum { FIRST, LAST, DURATION, SRC, DST, STATE, DPORT = 7, LINK = 18, SAMPLING, MISSING };
static const struct {
	const char *name;
	int64_t most;
	size_t to; /* 8 bytes; 0: none */
} columns[] = {{"tcqtime", -1, AT(first[0])}, {"last", -1, AT(last[0])},
	{"duration", INT64_MAX, AT(duration)}, {"src_ip", 0, 0}, {"dst_ip", 0, 0},
	{"state", 0, 0}, {"src_port", UINT16_MAX, AT(port[0])},
	{"dst_port", ICMP_PORT + UINT16_MAX, AT(port[1])},
	{"protocol", UINT8_MAX, AT(protocol)}, {"bytes_sent", INT64_MAX, AT(bytes[0])},
	{"bytes_recv", INT64_MAX, AT(bytes[1])},
	{"packets_sent", INT64_MAX, AT(packets[0])},
	{"packets_recv", INT64_MAX, AT(packets[1])},
	{"payload_sent", INT64_MAX, AT(payload[0])},
	{"payload_recv", INT64_MAX, AT(payload[1])},
	{"flags_sent", UINT8_MAX, AT(flags[0])}, {"flags_recv", UINT8_MAX, AT(flags[1])},
	{"vlan", UINT16_MAX, AT(vlan)}, {"link", UINT16_MAX, 0},
	{"sampling", UINT32_MAX, 0}, {"missing", INT64_MAX, 0}};
#define COLUMNS PR_COUNT(columns)

struct reading {
	struct flow_file *file;
	flow_file_take *take;
	void *arg;
};

static int
row_error(const struct reading *r, unsigned column, const char *what, struct pr_error *err)
{
	return pr_error_set(err, "record %" PRIu64 ": %s: %s", r->file->records, what,
		columns[column].name);
}

/* Numbers are whole, and not more than there is room for. */
static int
take_numbers(const struct reading *r, const struct sql_cell *v, struct pri_told *t,
	struct pr_error *err)
{
	for (unsigned i = 0; i < COLUMNS; i++) {
		int64_t number = v[i].number, most = columns[i].most;

		if (most < 0 ? number == INT64_MIN : most && (number < 0 || number > most))
			return row_error(r, i,
				most < 0 ? "no time" : "no number, or too large", err);
		if (columns[i].to)
			memcpy((char *)t + columns[i].to, &number, sizeof(number));
	}
	return v[FIRST].null ? row_error(r, FIRST, "no time", err) : 0;
}

static int
on_row(void *arg, const struct sql_cell *v, struct pr_error *err)
{
	struct reading *r = arg;
	struct pri_told t = {.has_icmp = true};
	enum pri_flow_state state = pri_flow_state_find(v[STATE].text);
	struct pri_flow flow;

	r->file->records++;
	if (take_numbers(r, v, &t, err) < 0)
		return -1;
	t.address_len = pr_parse_address(v[SRC].text, t.address[0]);
	if (!t.address_len)
		return row_error(r, SRC, "no address", err);
	if (pr_parse_address(v[DST].text, t.address[1]) != t.address_len)
		return row_error(r, DST, "no address of the same family", err);
	if (t.protocol == 1 && t.address_len == 16)
		t.protocol = 58;
	if (t.port[1] >= ICMP_PORT && t.protocol != 1 && t.protocol != 58)
		return row_error(r, DPORT, "no number, or too large", err);
	t.icmp = (uint16_t)(t.port[1] >= ICMP_PORT ? t.port[1]
						   : t.port[0] << 8 | (t.port[1] & 0xff));
	t.state = state < PRI_FLOW_STATES ? (uint8_t)(state + 1) : 0;
	if (v[LAST].null)
		t.last[0] = pr_time_minus(t.first[0], -t.duration);
	t.first[1] = t.first[0];
	t.last[0] = t.last[1] = PR_MAX(t.first[0], t.last[0]);
	pri_told_flow(&t, (uint16_t)v[LINK].number, &flow); /* there are addresses */
	/* its counts are multiplied already */
	flow.sampling = (uint32_t)v[SAMPLING].number;
	/* what looks like it is the type that answers */
	for (int i = 0; i < 2 && !flow.key.one_way; i++)
		flow.side[i].icmp_code = 0;
	return r->take(r->arg, &flow, (uint64_t)v[MISSING].number, err);
}

/* ---- statements ---- */

/* Within a text, so quotes are doubled. names: up to the end of their line */
static void
put_csv(const char *file, const char *names, char between, bool zeek, FILE *to)
{
	fprintf(to, "FROM csv_rows(''%s'', ''", file);
	for (size_t i = 0, len = strcspn(names, "\r\n"); i < len; i++)
		fputc(names[i] == '\'' ? '"' : names[i], to);
	fprintf(to, "'', ''%c'', ''%s'', ''%s'')", between, zeek ? "" : "\"",
		zeek ? "#" : "");
}

/* ---- nfdump ---- */

/* What nfdump lists, in times that its csv lacks; these are our names of it. */
static const char nfdump_format[] =
	"%ts,%te,%sa,%da,%sp,%dp,%pr,%flg,%ipkt,%ibyt,%opkt,%obyt,%svln",
		  nfdump_names[] = "ts,te,sa,da,sp,dp,pr,flg,ipkt,ibyt,opkt,obyt,svln";
enum { NO_PROGRAM = 127 }; /* the shell's status */

/* A descriptor of what it lists; -1: err */
static int
nfdump_list(const struct flow_file *f, struct pr_error *err)
{
	int out = open(P_tmpdir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), status;
	char command[256];

	if (out < 0)
		return pr_error_errno(err, "%s: no room for what nfdump lists", P_tmpdir);
	PR_PRINT(command,
		"cd /proc/%d/fd && TZ=UTC exec nfdump -r %d -q -N -6 -o 'fmt:%s' 2> "
		"/dev/null > %d",
		getpid(), f->fd, nfdump_format, out);
	status = system(command);
	if (status > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)
		raise(SIGINT); /* we were not told */
	if (status == 0)
		return out;
	close(out);
	return pr_error_set(err, "%s",
		WIFEXITED(status) && WEXITSTATUS(status) == NO_PROGRAM
			? "nfdump's format needs nfdump (apt-get install nfdump)"
			: "nfdump cannot read it");
}

/* ---- IPFIX ---- */

static int
on_export(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	struct reading *r = arg;

	r->file->records++;
	return r->take(r->arg, flow, 0, err);
}

/* Message by message; a damaged one ends it. */
static int
read_messages(struct reading *r, struct pri_exporters *e, struct pr_error *err)
{
	static const struct pri_export_from id = {.address_len = 4};
	uint8_t *bytes = (uint8_t *)r->file->head; /* it is known what it is */
	const struct pri_exporter *x;
	size_t have = 0, used = 0, len = 0;

	for (off_t at = 0;; at += (off_t)len) {
		used += len;
		if (have - used < PRI_IPFIX_HEADER ||
			have - used < pri_ipfix_length(bytes + used)) {
			ssize_t got = pread(r->file->fd, bytes, sizeof(r->file->head), at);

			if (got <= 0)
				return got ? pr_error_errno(err, "cannot read it") : 0;
			have = (size_t)got;
			used = 0;
		}
		len = have - used < PRI_IPFIX_HEADER ? 0 : pri_ipfix_length(bytes + used);
		if (!len || len > have - used)
			return pr_error_set(
				err, "no message of IPFIX at byte %jd", (intmax_t)at);
		if (pri_exporters_take(e, &id, bytes + used, len,
			    (int64_t)pr_get_be32(bytes + used + 4) * PR_NS_PER_S, err) < 0)
			return -1;
		r->file->lost = 0;
		for (size_t i = 0; (x = pri_exporters_get(e, i)); i++) {
			if (x->bad || x->no_template)
				return pr_error_set(err, "the message at byte %jd %s",
					(intmax_t)at,
					x->bad ? "breaks its format"
					       : "has data without a template");
			r->file->lost += x->lost;
		}
	}
}

static int
read_ipfix(struct reading *r, struct pr_error *err)
{
	struct pri_exporters *e = pri_exporters_create(on_export, on_export, r, err);
	int rc = e ? read_messages(r, e, err) : -1;

	pri_exporters_destroy(&e);
	return rc;
}

/* ---- files ---- */

int
flow_file_open(struct flow_file *f, const char *path, struct pr_error *err)
{
	XXH3_state_t state;
	struct stat st;
	ssize_t got;

	f->lost = f->records = 0;
	f->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f->fd < 0 || fstat(f->fd, &st) < 0)
		return pr_error_errno(err, "cannot read it");
	if (!S_ISREG(st.st_mode))
		return pr_error_set(err, "not a file: write it to one first");
	XXH3_64bits_reset(&state);
	while ((got = read(f->fd, f->head, sizeof(f->head) - 1)) > 0)
		XXH3_64bits_update(&state, f->head, (size_t)got);
	f->hash = XXH3_64bits_digest(&state) | 1;
	memset(f->head, 0, sizeof(f->head));
	if (got < 0 || pread(f->fd, f->head, sizeof(f->head) - 1, 0) < 0)
		return pr_error_errno(err, "cannot read it");
	return 0;
}

void
flow_file_close(struct flow_file *f)
{
	pr_close(f->fd);
	f->fd = -1;
}

/* The character between the names of a head. */
static char
delimiter(const char *line)
{
	static const char all[] = ",;\t|";
	size_t counts[sizeof(all)] = {0}, best = 0;

	for (; *line && *line != '\n'; line++)
		if ((unsigned char)*line < ' ' && *line != '\t' && *line != '\r')
			return 0; /* no text: gzip's time may look like one */
		else if (strchr(all, *line))
			counts[strchr(all, *line) - all]++;
	for (size_t i = 1; i < sizeof(all) - 1; i++)
		best = counts[i] > counts[best] ? i : best;
	return counts[best] ? all[best] : 0;
}

/* Where its rows come from. file: the name that DuckDB knows it by. False: it is nothing that is known. */
static bool
put_source(const struct flow_file *f, bool nfdump, const char *file, FILE *to)
{
	const char *fields = *f->head == '#' ? strstr(f->head, "#fields\t") : NULL;
	char between = delimiter(f->head);

	if (nfdump)
		put_csv(file, nfdump_names, ',', true, to);
	else if (!memcmp(f->head, "PAR1", 4))
		fprintf(to, "FROM parquet_rows(''%s'')", file);
	else if (*f->head == '{' && strstr(f->head, "\"event_type\""))
		fprintf(to, "FROM eve_rows(''%s'')", file);
	else if (*f->head == '{')
		fprintf(to, "FROM json_rows(''%s'')", file);
	else if (fields)
		put_csv(file, fields + strlen("#fields\t"), '\t', true, to);
	else if (*f->head != '#' && between)
		put_csv(file, f->head, between, false, to);
	else
		return false;
	return true;
}

/* DuckDB's name of the file says nothing to the user. */
static int
leave_out_name(const char *file, struct pr_error *err)
{
	char *at = strstr(err->text, " in file \""), *end = at ? strstr(at, file) : NULL;

	if (end && end[strlen(file)] == '"') {
		end += strlen(file) + 1;
		memmove(at, end, strlen(end) + 1);
	}
	return -1;
}

static int
read_rows(struct reading *r, bool nfdump, int fd, struct pr_error *err)
{
	char file[32], *statement = NULL;
	struct sql_engine *engine = NULL;
	enum sql_type types[COLUMNS];
	size_t size;
	FILE *to = open_memstream(&statement, &size);
	int rc = -1;

	if (!to)
		return pr_error_set(err, "no memory for a statement");
	for (unsigned i = 0; i < COLUMNS; i++)
		types[i] = columns[i].most ? SQL_I64 : SQL_TEXT;
	PR_PRINT(file, "/proc/self/fd/%d", fd);
	fputs("FROM told('", to);
	bool known = put_source(r->file, nfdump, file, to);
	fputs("')", to);
	if (fclose(to) != 0)
		pr_error_set(err, "no memory for a statement");
	else if (!known)
		pr_error_set(err,
			"not known what it is: IPFIX, nfdump's, Parquet, JSON, EVE, "
			"conn.log, or CSV with a head, not packed");
	else if ((engine = sql_open(file, macros, false, err)) != NULL)
		rc = sql_each(engine, statement, types, COLUMNS, on_row, r, err) < 0
			     ? leave_out_name(file, err)
			     : 0;
	sql_close(&engine);
	free(statement);
	return rc;
}

int
flow_file_read(struct flow_file *f, flow_file_take *take, void *arg, struct pr_error *err)
{
	struct reading r = {f, take, arg};
	bool nfdump = !memcmp(f->head, "\x0c\xa5", 2);
	bool ipfix = !memcmp(f->head, "\0\x0a", 2);
	int fd = nfdump ? nfdump_list(f, err) : f->fd, rc;

	if (fd < 0)
		return -1;
	rc = ipfix ? read_ipfix(&r, err) : read_rows(&r, nfdump, fd, err);
	if (nfdump)
		close(fd);
	if (nfdump && rc < 0 && !f->records)
		pr_error_set(err, "nfdump finds no flows in it");
	return rc;
}
