/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/error.h"

/*
 * DuckDB, which executes SQL, by its C API (duckdb.org/docs/api/c). The library is loaded when SQL is asked for; nothing
 * else needs it. Its database is in memory; it may open no file, no address and no extension. One thread.
 */
struct sql_engine;

/*
 * file: statements may open this one, by this name; before: statements that are executed first, with a file. NULL: none.
 * small: for many small statements, which one thread executes in half the CPU. NULL: err tells how to get the library.
 */
struct sql_engine *sql_open(
	const char *file, const char *before, bool small, struct pr_error *err);
void sql_close(struct sql_engine **engine);

/* ---- tables ---- */

/* Numbers of types are DuckDB's own. */
enum sql_type {
	SQL_BOOL = 1,
	SQL_I64 = 5,
	SQL_U8 = 6,
	SQL_U16 = 7,
	SQL_U32 = 8,
	SQL_U64 = 9,
	SQL_DOUBLE = 11,
	SQL_TEXT = 17,
	SQL_TIME = 22, /* ns since 1970, UTC */
};
struct sql_column {
	const char *name;
	enum sql_type type;
};

struct sql_table;
/* Makes it; columns must outlive it. */
struct sql_table *sql_table_create(struct sql_engine *engine, const char *name,
	const struct sql_column *columns, size_t count, struct pr_error *err);
/*
 * A row: each column in turn, then sql_row_end. Whole numbers, truth and times by sql_put; what is put too often or not
 * at all is a fault of the caller's.
 */
void sql_put(struct sql_table *table, uint64_t value);
/* NULL, if it is not there. */
void sql_put_if(struct sql_table *table, bool there, uint64_t value);
void sql_put_double(struct sql_table *table, double value);
void sql_put_text(struct sql_table *table, const char *text);
void sql_put_null(struct sql_table *table);
int sql_row_end(struct sql_table *table, struct pr_error *err);
/* All rows are there: statements see them. */
int sql_table_finish(struct sql_table **table, struct pr_error *err);
/* kind: TABLE or VIEW */
void sql_drop(struct sql_engine *engine, const char *kind, const char *name);

/* ---- tables whose rows are made when they are read ---- */

typedef void *handle;

/* What DuckDB's C API has for them: duckdb_NAME, once there is an engine. X(what it returns, name, parameters) */
#define SQL_TABLE_FUNCTIONS(X)                                                             \
	X(handle, create_table_function, (void))                                           \
	X(void, destroy_table_function, (handle * function))                               \
	X(void, table_function_set_name, (handle function, const char *name))              \
	X(void, table_function_set_extra_info,                                             \
		(handle function, void *, void (*)(void *)))                               \
	X(void, table_function_set_bind, (handle function, void (*)(handle info)))         \
	X(void, table_function_set_init, (handle function, void (*)(handle info)))         \
	X(void, table_function_set_local_init, (handle function, void (*)(handle info)))   \
	X(void, table_function_set_function, (handle function, void (*)(handle, handle)))  \
	X(void, table_function_supports_projection_pushdown, (handle function, bool is))   \
	X(int, register_table_function, (handle connection, handle function))              \
	X(void, bind_add_result_column, (handle info, const char *name, handle type))      \
	X(void *, init_get_extra_info, (handle info))                                      \
	X(uint64_t, init_get_column_count, (handle info))                                  \
	X(uint64_t, init_get_column_index, (handle info, uint64_t column))                 \
	X(void, init_set_max_threads, (handle info, uint64_t threads))                     \
	X(void, init_set_init_data, (handle info, void *data, void (*)(void *)))           \
	X(void, init_set_error, (handle info, const char *text))                           \
	X(void, function_set_error, (handle info, const char *text))                       \
	X(void *, function_get_init_data, (handle info))                                   \
	X(void *, function_get_local_init_data, (handle info))                             \
	X(handle, create_logical_type, (int type))                                         \
	X(void, destroy_logical_type, (handle * type))                                     \
	X(handle, data_chunk_get_vector, (handle chunk, uint64_t column))                  \
	X(void, data_chunk_set_size, (handle chunk, uint64_t size))                        \
	X(uint64_t, vector_size, (void))                                                   \
	X(void *, vector_get_data, (handle vector))                                        \
	X(void, vector_assign_string_element_len,                                          \
		(handle, uint64_t, const char *, uint64_t))
#define SQL_DECLARE(type, name, parameters) extern type(*duckdb_##name) parameters;
SQL_TABLE_FUNCTIONS(SQL_DECLARE)
void sql_set_null(handle vector, uint64_t row);
/*
 * A text in a vector: up to SQL_TEXT_NEAR bytes lie in it, then zeros. A longer one stays where it is: there until the
 * next rows are asked for, since what DuckDB keeps it copies.
 */
#define SQL_TEXT_NEAR 12
struct sql_text {
	union {
		struct {
			uint32_t len;
			char bytes[SQL_TEXT_NEAR];
		} near;
		struct {
			uint32_t len;
			char prefix[4];
			const char *bytes;
		} far;
	} u;
};
/* from: at least SQL_TEXT_NEAR bytes, a shorter text with zeros behind it. */
static inline void
sql_text_set(struct sql_text *text, const char *from, size_t len)
{
	text->u.near.len = (uint32_t)len;
	memcpy(text->u.near.bytes, from, SQL_TEXT_NEAR);
	if (len > SQL_TEXT_NEAR)
		text->u.far.bytes = from;
}
/* For all of the engine's time. */
int sql_function_add(
	struct sql_engine *engine, handle function, const char *name, struct pr_error *err);

/* ---- statements ---- */

/*
 * The value, as text, of an expression that is `begin`, a text and a parenthesis; free it. NULL: it is NULL, or there is
 * an error.
 */
char *sql_value_of(struct sql_engine *engine, const char *begin, const char *argument);

/* Does the statement name the table? True, too, if it cannot be read: then executing it says why. */
bool sql_names(struct sql_engine *engine, const char *statement, const char *table);

enum sql_form { SQL_AS_TEXT, SQL_AS_CSV, SQL_AS_JSON };
/* Can it be executed? query: and is it one that changes nothing? -1: err has DuckDB's message. */
int sql_check(
	struct sql_engine *engine, const char *statement, bool query, struct pr_error *err);
/*
 * Executes one statement and prints its rows: a table, CSV with a head, or an object a line; to NULL: prints nothing.
 * -1: err has DuckDB's message.
 */
int sql_execute(struct sql_engine *engine, const char *statement, enum sql_form form,
	FILE *to, struct pr_error *err);
/* Its rows become a table, in place of one of that name. */
int sql_keep(struct sql_engine *engine, const char *name, const char *statement,
	struct pr_error *err);

/* Of a row: number by SQL_I64, text by SQL_TEXT ("": longer than an address is). NULL: 0 and "". */
struct sql_cell {
	bool null;
	int64_t number;
	char text[64];
};
/* Executes one query, and takes its rows as they come; types of all columns. -1: as take, or err has DuckDB's message. */
int sql_each(struct sql_engine *engine, const char *statement, const enum sql_type *types,
	size_t columns,
	int (*take)(void *arg, const struct sql_cell *row, struct pr_error *err), void *arg,
	struct pr_error *err);
/* Of the last statement. */
uint64_t sql_rows(const struct sql_engine *engine);
/* A text in quotes, as JSON or else CSV has it. */
void sql_print_quoted(const char *text, bool json, FILE *to);
