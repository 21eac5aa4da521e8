/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/sql_engine.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/flows/flow_record.h"
#include "proto/base/array.h"
#include "proto/base/text.h"
#include "proto/base/units.h"

/* ---- the library ---- */

/* A result, as the C API has it; only `internal` is used, by the library. */
struct result {
	uint64_t columns, rows, changed;
	void *column;
	char *error;
	void *internal;
};

/* X(what it returns, name behind duckdb_, parameters) */
#define FUNCTIONS(X)                                                                       \
	X(int, open, (const char *path, handle *database))                                 \
	X(void, close, (handle * database))                                                \
	X(int, connect, (handle database, handle * connection))                            \
	X(void, disconnect, (handle * connection))                                         \
	X(void, free, (void *memory))                                                      \
	X(int, query, (handle connection, const char *text, struct result *out))           \
	X(void, destroy_result, (struct result * result))                                  \
	X(const char *, result_error, (struct result * result))                            \
	X(uint64_t, column_count, (struct result * result))                                \
	X(uint64_t, row_count, (struct result * result))                                   \
	X(const char *, column_name, (struct result * result, uint64_t column))            \
	X(char *, value_varchar, (struct result * result, uint64_t column, uint64_t row))  \
	X(int, prepare, (handle connection, const char *text, handle *statement))          \
	X(const char *, prepare_error, (handle statement))                                 \
	X(int, prepared_statement_type, (handle statement))                                \
	X(int, prepared_statement_column_type, (handle statement, uint64_t column))        \
	X(void, destroy_prepare, (handle * statement))                                     \
	X(int, execute_prepared, (handle statement, struct result * out))                  \
	X(handle, get_table_names, (handle connection, const char *text, bool qualified))  \
	X(uint64_t, get_list_size, (handle list))                                          \
	X(handle, get_list_child, (handle list, uint64_t index))                           \
	X(char *, get_varchar, (handle value))                                             \
	X(void, destroy_value, (handle * value))                                           \
	X(int, appender_create,                                                            \
		(handle connection, const char *schema, const char *table,                 \
			handle *appender))                                                 \
	X(const char *, appender_error, (handle appender))                                 \
	X(int, appender_close, (handle appender))                                          \
	X(int, appender_destroy, (handle * appender))                                      \
	X(int, append_data_chunk, (handle appender, handle chunk))                         \
	X(handle, create_data_chunk, (handle * types, uint64_t count))                     \
	X(void, destroy_data_chunk, (handle * chunk))                                      \
	X(void, data_chunk_reset, (handle chunk))                                          \
	X(uint64_t, data_chunk_get_size, (handle chunk))                                   \
	X(uint64_t *, vector_get_validity, (handle vector))                                \
	X(void, vector_ensure_validity_writable, (handle vector))                          \
	X(void, validity_set_row_invalid, (uint64_t * validity, uint64_t row))             \
	X(bool, validity_row_is_valid, (uint64_t * validity, uint64_t row))                \
	X(handle, create_scalar_function, (void))                                          \
	X(void, destroy_scalar_function, (handle * function))                              \
	X(void, scalar_function_set_name, (handle function, const char *name))             \
	X(void, scalar_function_add_parameter, (handle function, handle type))             \
	X(void, scalar_function_set_return_type, (handle function, handle type))           \
	X(void, scalar_function_set_function,                                              \
		(handle function, void (*call)(handle info, handle in, handle out)))       \
	X(void, scalar_function_set_error, (handle info, const char *text))                \
	X(int, register_scalar_function, (handle connection, handle function))             \
	X(int, execute_prepared_streaming, (handle statement, struct result * out))        \
	X(handle, fetch_chunk, (struct result result))

#define DECLARE(type, name, parameters) static type(*duckdb_##name) parameters;
FUNCTIONS(DECLARE)
#define DEFINE(type, name, parameters) type(*duckdb_##name) parameters;
SQL_TABLE_FUNCTIONS(DEFINE)

static const struct {
	const char *name;
	void *at;
} functions[] = {
#define ROW(type, name, parameters) {"duckdb_" #name, (void *)&duckdb_##name},
	FUNCTIONS(ROW) SQL_TABLE_FUNCTIONS(ROW)};

struct sql_engine {
	handle database, connection;
	uint64_t rows; /* of the last statement */
};

/* The library stays loaded until the program ends. */
static int
library_load(struct pr_error *err)
{
	const char *const set = getenv("PACKRACK_DUCKDB"),
			  *named = set && *set ? set : NULL;
	const char *const places[] = {
		"libduckdb.so", "/usr/local/lib/packrack/libduckdb.so"};
	void *library = named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;

	for (size_t i = 0; i < PR_COUNT(places) && !named && !library; i++)
		library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
	if (!library && named)
		return pr_error_set(err,
			"SQL needs DuckDB (scripts/install-deps --sql); PACKRACK_DUCKDB "
			"does not load: %s",
			dlerror());
	if (!library)
		return pr_error_set(err, "SQL needs DuckDB, and there is no libduckdb.so: "
					 "scripts/install-deps --sql installs "
					 "it, or PACKRACK_DUCKDB names the file");
	for (size_t i = 0; i < PR_COUNT(functions); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function)
			return pr_error_set(err,
				"libduckdb.so has no %s: version 1.3 or later is needed",
				functions[i].name);
		memcpy(functions[i].at, &function, sizeof(function));
	}
	return 0;
}

/* ---- functions of addresses ---- */

/* Copies the text of a row; "" if it is NULL or longer than an address is. */
static void
text_at(handle vector, uint64_t row, char out[64])
{
	const struct sql_text *t =
		(const struct sql_text *)duckdb_vector_get_data(vector) + row;
	uint64_t *validity = duckdb_vector_get_validity(vector);
	size_t len = t->u.near.len;

	out[0] = 0;
	if ((validity && !duckdb_validity_row_is_valid(validity, row)) || len > 60)
		return;
	memcpy(out, len > SQL_TEXT_NEAR ? t->u.far.bytes : t->u.near.bytes, len);
	out[len] = 0;
}

/* NULL where the arguments are no address, or no network. */
void
sql_set_null(handle out, uint64_t row)
{
	duckdb_vector_ensure_validity_writable(out);
	duckdb_validity_set_row_invalid(duckdb_vector_get_validity(out), row);
}

/* prefix('10.1.2.3', 16) is '10.1.0.0/16'. */
static void
call_prefix(handle info, handle in, handle out)
{
	handle addresses = duckdb_data_chunk_get_vector(in, 0);
	handle second = duckdb_data_chunk_get_vector(in, 1);
	const int32_t *bits = duckdb_vector_get_data(second);
	uint64_t *validity = duckdb_vector_get_validity(second);

	(void)info;
	for (uint64_t i = 0, n = duckdb_data_chunk_get_size(in); i < n; i++) {
		char text[80], host[INET6_ADDRSTRLEN];
		uint8_t address[16];

		text_at(addresses, i, text);
		unsigned len = pr_parse_address(text, address);
		if (!len || (validity && !duckdb_validity_row_is_valid(validity, i)) ||
			bits[i] < 0) {
			sql_set_null(out, i);
			continue;
		}
		unsigned keep = PR_MIN((unsigned)bits[i], 8 * len), whole = (keep + 7) / 8;
		if (keep % 8)
			address[keep / 8] &= (uint8_t)(0xff00u >> keep % 8);
		memset(address + whole, 0, len - whole);
		flow_address_text(address, len, host);
		snprintf(text, sizeof(text), "%s/%u", host, keep);
		duckdb_vector_assign_string_element_len(out, i, text, strlen(text));
	}
}

/* within('10.1.2.3', '10.0.0.0/8') is true. */
static void
call_within(handle info, handle in, handle out)
{
	handle addresses = duckdb_data_chunk_get_vector(in, 0);
	handle networks = duckdb_data_chunk_get_vector(in, 1);
	bool *is = duckdb_vector_get_data(out);

	(void)info;
	for (uint64_t i = 0, n = duckdb_data_chunk_get_size(in); i < n; i++) {
		struct network network;
		struct pr_error err;
		uint8_t address[16];
		char text[64];

		text_at(addresses, i, text);
		unsigned len = pr_parse_address(text, address);
		text_at(networks, i, text);
		if (!len || network_parse(text, &network, &err) < 0)
			sql_set_null(out, i);
		else
			is[i] = networks_have(
				&(struct networks){&network, 1}, address, (uint8_t)len);
	}
}

/* second: of its parameters, behind a text */
static int
function_add(struct sql_engine *e, const char *name, enum sql_type second,
	enum sql_type returns, void (*call)(handle info, handle in, handle out))
{
	handle function = duckdb_create_scalar_function();
	handle text = duckdb_create_logical_type(SQL_TEXT);
	handle other = duckdb_create_logical_type((int)second);
	handle result = duckdb_create_logical_type((int)returns);

	duckdb_scalar_function_set_name(function, name);
	duckdb_scalar_function_add_parameter(function, text);
	duckdb_scalar_function_add_parameter(function, other);
	duckdb_scalar_function_set_return_type(function, result);
	duckdb_scalar_function_set_function(function, call);
	int rc = duckdb_register_scalar_function(e->connection, function);
	duckdb_destroy_logical_type(&text);
	duckdb_destroy_logical_type(&other);
	duckdb_destroy_logical_type(&result);
	duckdb_destroy_scalar_function(&function);
	return rc;
}

/* ---- the database ---- */

#define SQL_I32 4

/*
 * A statement reads no file (but that one), reaches no address, loads nothing, and cannot change that. More threads only
 * wait for the one that takes the rows of a file.
 */
static int
set_up(struct sql_engine *e, const char *file, const char *before, bool small)
{
	struct result result = {.internal = NULL};
	const char *quote = file ? "'" : "";
	char *text;

	if (asprintf(&text,
		    "SET temp_directory = ''; SET autoload_known_extensions = false; "
		    "SET autoinstall_known_extensions = false; "
		    "SET allow_community_extensions = false; "
		    "SET allowed_paths = [%s%s%s]; SET enable_external_access = false; "
		    "%sSET lock_configuration = true; %s",
		    quote, file ? file : "", quote,
		    small || file ? "SET threads = 1; " : "", before ? before : "") < 0)
		return -1;
	int rc = duckdb_query(e->connection, text, &result);
	free(text);
	duckdb_destroy_result(&result);
	return rc;
}

static int
database_open(struct sql_engine *e, const char *file, const char *before, bool small,
	struct pr_error *err)
{
	int rc = duckdb_open(NULL, &e->database);

	if (rc == 0)
		rc = duckdb_connect(e->database, &e->connection);
	if (rc == 0)
		rc = function_add(
			e, "prefix", (enum sql_type)SQL_I32, SQL_TEXT, call_prefix);
	if (rc == 0)
		rc = function_add(e, "within", SQL_TEXT, SQL_BOOL, call_within);
	if (rc == 0)
		rc = set_up(e, file, before, small);
	return rc == 0 ? 0 : pr_error_set(err, "DuckDB does not start");
}

struct sql_engine *
sql_open(const char *file, const char *before, bool small, struct pr_error *err)
{
	struct sql_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return pr_error_null(err, "no memory for SQL");
	if (library_load(err) < 0 || database_open(e, file, before, small, err) < 0)
		sql_close(&e);
	return e;
}

void
sql_close(struct sql_engine **engine)
{
	struct sql_engine *e = *engine;

	*engine = NULL;
	if (e && e->connection)
		duckdb_disconnect(&e->connection);
	if (e && e->database)
		duckdb_close(&e->database);
	free(e);
}

/* ---- tables ---- */

struct sql_table {
	const struct sql_column *columns;
	size_t count, at; /* at: the column that is put next */
	uint64_t rows, room; /* of the chunk */
	handle appender, chunk, *vectors;
	void **data; /* of each column in the chunk */
};

static const char *const type_names[] = {[SQL_BOOL] = "BOOLEAN",
	[SQL_U8] = "UTINYINT",
	[SQL_U16] = "USMALLINT",
	[SQL_U32] = "UINTEGER",
	[SQL_U64] = "UBIGINT",
	[SQL_I64] = "BIGINT",
	[SQL_DOUBLE] = "DOUBLE",
	[SQL_TEXT] = "VARCHAR",
	[SQL_TIME] = "TIMESTAMP_NS"};

/* The chunk is empty: its vectors may have moved. */
static void
chunk_begin(struct sql_table *t)
{
	t->rows = 0;
	for (size_t i = 0; i < t->count; i++) {
		t->vectors[i] = duckdb_data_chunk_get_vector(t->chunk, i);
		t->data[i] = duckdb_vector_get_data(t->vectors[i]);
	}
}

static void
table_free(struct sql_table *t)
{
	if (t->chunk)
		duckdb_destroy_data_chunk(&t->chunk);
	if (t->appender)
		duckdb_appender_destroy(&t->appender);
	PR_FREE(t, vectors, data);
	free(t);
}

static int
table_make(
	struct sql_engine *e, struct sql_table *t, const char *name, struct pr_error *err)
{
	handle types[64];
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return pr_error_set(err, "no memory for table %s", name);
	fprintf(to, "CREATE TABLE %s (", name);
	for (size_t i = 0; i < t->count; i++)
		fprintf(to, "%s%s %s", i ? ", " : "", t->columns[i].name,
			type_names[t->columns[i].type]);
	fputc(')', to);
	int rc = fclose(to) != 0 ? -1 : sql_execute(e, text, SQL_AS_TEXT, NULL, err);
	free(text);
	if (rc == 0 && duckdb_appender_create(e->connection, NULL, name, &t->appender) != 0)
		rc = pr_error_set(err, "DuckDB: no rows can be added to table %s", name);
	if (rc < 0)
		return -1;
	for (size_t i = 0; i < t->count; i++)
		types[i] = duckdb_create_logical_type((int)t->columns[i].type);
	t->chunk = duckdb_create_data_chunk(types, t->count);
	for (size_t i = 0; i < t->count; i++)
		duckdb_destroy_logical_type(&types[i]);
	t->room = duckdb_vector_size();
	chunk_begin(t);
	return 0;
}

struct sql_table *
sql_table_create(struct sql_engine *e, const char *name, const struct sql_column *columns,
	size_t count, struct pr_error *err)
{
	struct sql_table *t = calloc(1, sizeof(*t));

	if (t) {
		t->columns = columns;
		t->count = count;
		t->vectors = calloc(count, sizeof(*t->vectors));
		t->data = calloc(count, sizeof(*t->data));
	}
	if (!t || !t->vectors || !t->data)
		pr_error_set(err, "no memory for table %s", name);
	else if (table_make(e, t, name, err) == 0)
		return t;
	if (t)
		table_free(t);
	return NULL;
}

void
sql_put(struct sql_table *t, uint64_t value)
{
	void *data = t->data[t->at];

	switch (t->columns[t->at++].type) {
	case SQL_BOOL:
	case SQL_U8:
		((uint8_t *)data)[t->rows] = (uint8_t)value;
		break;
	case SQL_U16:
		((uint16_t *)data)[t->rows] = (uint16_t)value;
		break;
	case SQL_U32:
		((uint32_t *)data)[t->rows] = (uint32_t)value;
		break;
	default:
		((uint64_t *)data)[t->rows] = value;
	}
}

void
sql_put_if(struct sql_table *t, bool there, uint64_t value)
{
	if (there)
		sql_put(t, value);
	else
		sql_put_null(t);
}

void
sql_put_double(struct sql_table *t, double value)
{
	((double *)t->data[t->at++])[t->rows] = value;
}

void
sql_put_text(struct sql_table *t, const char *text)
{
	duckdb_vector_assign_string_element_len(
		t->vectors[t->at++], t->rows, text, strlen(text));
}

void
sql_put_null(struct sql_table *t)
{
	sql_set_null(t->vectors[t->at++], t->rows);
}

static int
chunk_append(struct sql_table *t, struct pr_error *err)
{
	const char *why;

	if (t->rows == 0)
		return 0;
	duckdb_data_chunk_set_size(t->chunk, t->rows);
	if (duckdb_append_data_chunk(t->appender, t->chunk) != 0) {
		why = duckdb_appender_error(t->appender);
		return pr_error_set(err, "DuckDB takes no more rows: %s", why ? why : "");
	}
	duckdb_data_chunk_reset(t->chunk);
	chunk_begin(t);
	return 0;
}

int
sql_row_end(struct sql_table *t, struct pr_error *err)
{
	t->at = 0;
	return ++t->rows == t->room ? chunk_append(t, err) : 0;
}

int
sql_table_finish(struct sql_table **table, struct pr_error *err)
{
	struct sql_table *t = *table;

	*table = NULL;
	if (!t)
		return 0;
	int rc = chunk_append(t, err);
	if (rc == 0 && duckdb_appender_close(t->appender) != 0)
		rc = pr_error_set(err, "DuckDB takes no more rows: %s",
			duckdb_appender_error(t->appender));
	table_free(t);
	return rc;
}

void
sql_drop(struct sql_engine *e, const char *kind, const char *name)
{
	struct result result = {.internal = NULL};
	char text[80];

	PR_PRINT(text, "DROP %s IF EXISTS %s", kind, name);
	duckdb_query(e->connection, text, &result);
	duckdb_destroy_result(&result);
}

int
sql_function_add(
	struct sql_engine *e, handle function, const char *name, struct pr_error *err)
{
	duckdb_table_function_set_name(function, name);
	return duckdb_register_table_function(e->connection, function) == 0
		       ? 0
		       : pr_error_set(err, "DuckDB makes no table function %s", name);
}

/* ---- statements ---- */

char *
sql_value_of(struct sql_engine *e, const char *begin, const char *argument)
{
	struct result result = {.internal = NULL};
	char *text = NULL, *value = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	fprintf(to, "SELECT %s'", begin);
	for (; *argument; argument++)
		fputs(*argument == '\'' ? "''" : (char[]){*argument, 0}, to);
	fputs("')", to);
	if (fclose(to) == 0 && duckdb_query(e->connection, text, &result) == 0)
		value = duckdb_value_varchar(&result, 0, 0);
	duckdb_destroy_result(&result);
	free(text);
	text = value ? strdup(value) : NULL;
	duckdb_free(value);
	return text;
}

bool
sql_names(struct sql_engine *e, const char *statement, const char *table)
{
	handle names = duckdb_get_table_names(e->connection, statement, false);
	bool found = !names;

	for (uint64_t i = 0; names && i < duckdb_get_list_size(names) && !found; i++) {
		handle value = duckdb_get_list_child(names, i);
		char *name = value ? duckdb_get_varchar(value) : NULL;

		found = name && !strcasecmp(name, table);
		duckdb_free(name);
		duckdb_destroy_value(&value);
	}
	if (names)
		duckdb_destroy_value(&names);
	return found;
}

/* DuckDB's messages have several lines: the first says what is wrong, another one what it could be. */
static int
say_error(const char *text, struct pr_error *err)
{
	static const char *const others[] = {
		"\nExpected Number of", "\nCandidate bindings", "\nDid you mean"};
	size_t len = text ? strcspn(text, "\n") : 0;
	const char *more = NULL;

	if (len && strstr(text, "multiple statements at once"))
		return pr_error_set(err,
			"SQL: one statement; packrack sql takes more on "
			"standard input, each with its ';' at the end of a line");
	for (size_t i = 0; i < PR_COUNT(others) && len && !more; i++)
		more = strstr(text, others[i]);
	return pr_error_set(err, "SQL: %.*s%s%.*s", len ? (int)len : 7,
		len ? text : "failed", more ? ": " : "",
		more ? (int)strcspn(more + 1, "\n") : 0, more ? more + 1 : "");
}

/* DuckDB's numbers of TINYINT ... DOUBLE, HUGEINT, DECIMAL */
static bool
is_number(int type)
{
	return (type >= 2 && type <= 11) || type == 16 || type == 19;
}

void
sql_print_quoted(const char *text, bool json, FILE *to)
{
	fputc('"', to);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (json && (c < 0x20 || c == '"' || c == '\\')) {
			fprintf(to, "\\u%04x", c);
			continue;
		}
		if (c == '"')
			fputc(c, to);
		fputc(c, to);
	}
	fputc('"', to);
}

struct column {
	bool bare; /* numbers; in JSON truths, too */
	int width; /* of a text table */
};
struct answer {
	struct result *result;
	enum sql_form form;
	int64_t columns, rows;
	struct column *column;
	FILE *to;
};

/* Before a row's first cell, between two, and behind the last. */
static const char *const around[][3] = {[SQL_AS_TEXT] = {"", "  ", "\n"},
	[SQL_AS_CSV] = {"", ",", "\n"},
	[SQL_AS_JSON] = {"{", ", ", "}\n"}};

static void
print_cell(const struct answer *a, int64_t c, const char *name, const char *text)
{
	bool json = a->form == SQL_AS_JSON, bare = a->column[c].bare, quoted = false;
	int width = a->column[c].width;

	fputs(around[a->form][c > 0], a->to);
	if (json) {
		sql_print_quoted(name, true, a->to);
		fputs(": ", a->to);
	}
	if (json && text) /* it has no inf and nan */
		quoted = !bare || strchr(text, 'n');
	else if (a->form == SQL_AS_CSV && text)
		quoted = strpbrk(text, ",\"\n\r");
	if (!bare)
		width = c + 1 < a->columns ? -width : 0;
	if (quoted)
		sql_print_quoted(text, json, a->to);
	else if (json)
		fputs(text ? text : "null", a->to);
	else
		fprintf(a->to, "%*s", width, text ? text : "");
	if (c + 1 == a->columns)
		fputs(around[a->form][2], a->to);
}

static void
find_width(const struct answer *a, int64_t c, PR_UNUSED const char *name, const char *text)
{
	int len = text ? (int)strlen(text) : 0;

	a->column[c].width = PR_MAX(a->column[c].width, len);
}

/* Also of the head, but JSON has none. */
static void
each_cell(const struct answer *a,
	void (*take)(const struct answer *a, int64_t c, const char *name, const char *text))
{
	for (int64_t r = a->form == SQL_AS_JSON ? 0 : -1; r < a->rows; r++)
		for (int64_t c = 0; c < a->columns; c++) {
			const char *name = duckdb_column_name(a->result, (uint64_t)c);
			char *text = r < 0 ? NULL
					   : duckdb_value_varchar(
						     a->result, (uint64_t)c, (uint64_t)r);

			take(a, c, name, r < 0 ? name : text);
			duckdb_free(text);
		}
}

/* Without what ends it: within another one. */
static int
statement_len(const char *statement)
{
	size_t len = strlen(statement);

	while (len && strchr("; \t\r\n", statement[len - 1]))
		len--;
	return (int)len;
}

/*
 * The statement with all columns as text, as DuckDB shows them, which its C API does not do for lists and the like. NULL:
 * it is no query (EXPLAIN, PRAGMA), and is left as it is.
 */
static handle
as_text(struct sql_engine *e, const char *statement)
{
	handle prepared = NULL;
	char *text;

	if (asprintf(&text, "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM (%.*s\n)",
		    statement_len(statement), statement) < 0)
		return NULL;
	if (duckdb_prepare(e->connection, text, &prepared) != 0)
		duckdb_destroy_prepare(&prepared);
	free(text);
	return prepared;
}

/* prepared: the statement itself, whose columns have their types. */
static int
print_result(struct result *result, handle prepared, enum sql_form form, FILE *to,
	struct pr_error *err)
{
	uint64_t columns = duckdb_column_count(result);
	struct answer a = {result, form, (int64_t)columns,
		(int64_t)duckdb_row_count(result), calloc(columns + 1, sizeof(*a.column)),
		to};

	if (!a.column)
		return pr_error_set(err, "no memory for the answer");
	for (int64_t c = 0; c < a.columns; c++) {
		int type = duckdb_prepared_statement_column_type(prepared, (uint64_t)c);

		a.column[c].bare =
			is_number(type) || (form == SQL_AS_JSON && type == SQL_BOOL);
	}
	if (form == SQL_AS_TEXT)
		each_cell(&a, find_width);
	each_cell(&a, print_cell);
	free(a.column);
	return 0;
}

#define A_SELECT 1 /* type of a prepared statement */

/* made: of a statement that makes rows, how many it made. */
static uint64_t
row_count(struct result *result, bool made)
{
	uint64_t count = duckdb_row_count(result);
	char *text = made && count ? duckdb_value_varchar(result, 0, 0) : NULL;

	if (made)
		count = text ? strtoull(text, NULL, 10) : 0;
	duckdb_free(text);
	return count;
}

int
sql_check(struct sql_engine *e, const char *statement, bool query, struct pr_error *err)
{
	handle prepared = NULL;
	int rc = duckdb_prepare(e->connection, statement, &prepared);

	if (rc != 0)
		say_error(duckdb_prepare_error(prepared), err);
	else if (query && duckdb_prepared_statement_type(prepared) != A_SELECT)
		rc = pr_error_set(
			err, "SQL: only queries are served: SELECT, WITH, VALUES");
	duckdb_destroy_prepare(&prepared);
	return rc != 0 ? -1 : 0;
}

int
sql_execute(struct sql_engine *e, const char *statement, enum sql_form form, FILE *to,
	struct pr_error *err)
{
	struct result result = {.internal = NULL};
	handle typed = NULL, text = NULL;
	int rc = duckdb_prepare(e->connection, statement, &typed);

	e->rows = 0;
	if (rc != 0)
		say_error(duckdb_prepare_error(typed), err);
	else if (to)
		text = as_text(e, statement);
	if (rc == 0 && duckdb_execute_prepared(text ? text : typed, &result) != 0)
		rc = say_error(duckdb_result_error(&result), err);
	else if (rc == 0 && to)
		rc = print_result(&result, typed, form, to, err);
	if (rc == 0)
		e->rows = row_count(&result, !to);
	duckdb_destroy_result(&result);
	duckdb_destroy_prepare(&text);
	duckdb_destroy_prepare(&typed);
	return rc == 0 ? 0 : -1;
}

int
sql_keep(
	struct sql_engine *e, const char *name, const char *statement, struct pr_error *err)
{
	char *text;

	if (asprintf(&text, "CREATE OR REPLACE TEMP TABLE \"%s\" AS SELECT * FROM (%.*s\n)",
		    name, statement_len(statement), statement) < 0)
		return pr_error_set(err, "no memory for the statement");
	int rc = sql_execute(e, text, SQL_AS_TEXT, NULL, err);
	free(text);
	return rc;
}

uint64_t
sql_rows(const struct sql_engine *e)
{
	return e->rows;
}

/* ---- rows ---- */

static int
each_row(handle chunk, const enum sql_type *types, size_t columns, struct sql_cell *row,
	int (*take)(void *arg, const struct sql_cell *row, struct pr_error *err), void *arg,
	struct pr_error *err)
{
	for (uint64_t i = 0, n = duckdb_data_chunk_get_size(chunk); i < n; i++) {
		for (size_t c = 0; c < columns; c++) {
			handle vector = duckdb_data_chunk_get_vector(chunk, c);
			uint64_t *validity = duckdb_vector_get_validity(vector);

			row[c].null =
				validity && !duckdb_validity_row_is_valid(validity, i);
			if (types[c] == SQL_TEXT)
				text_at(vector, i, row[c].text);
			else
				row[c].number =
					row[c].null ? 0
						    : ((int64_t *)duckdb_vector_get_data(
							      vector))[i];
		}
		if (take(arg, row, err) < 0)
			return -1;
	}
	return 0;
}

int
sql_each(struct sql_engine *e, const char *statement, const enum sql_type *types,
	size_t columns,
	int (*take)(void *arg, const struct sql_cell *row, struct pr_error *err), void *arg,
	struct pr_error *err)
{
	struct sql_cell *row = calloc(columns, sizeof(*row));
	struct result result = {.internal = NULL};
	handle prepared = NULL, chunk;
	int rc = 0;

	if (!row)
		rc = pr_error_set(err, "no memory for a row");
	else if (duckdb_prepare(e->connection, statement, &prepared) != 0)
		rc = say_error(duckdb_prepare_error(prepared), err);
	else if (duckdb_execute_prepared_streaming(prepared, &result) != 0)
		rc = say_error(duckdb_result_error(&result), err);
	while (rc == 0 && (chunk = duckdb_fetch_chunk(result))) {
		rc = each_row(chunk, types, columns, row, take, arg, err);
		duckdb_destroy_data_chunk(&chunk);
	}
	const char *why = rc == 0 ? duckdb_result_error(&result) : NULL;
	if (why)
		rc = say_error(why, err);
	duckdb_destroy_result(&result);
	duckdb_destroy_prepare(&prepared);
	free(row);
	return rc;
}
