/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/cli/flows/flow_keep.h"
#include "merger/cli/flows/flow_record.h"
#include "merger/cli/flows/sql_engine.h"

/* Columns of table `flows`, kept or not. */
enum { SQL_FLOW_COLUMNS = 24 };
extern const struct sql_column flow_columns[SQL_FLOW_COLUMNS];

/*
 * A statement that sums up, or leaves out rows that are there twice: rows of a batch that are equal in the columns that
 * are neither summed nor tested may come as one, with their sums, which is less for DuckDB to do. Columns of the table,
 * as bits.
 */
struct sql_sums {
	bool may;
	enum sql_way { SQL_BOTH_WAYS, SQL_OUTGOING, SQL_NOT_OUTGOING } way; /* asked for */
	uint64_t summed; /* named by sum() alone, as a sum of them */
	uint64_t
		tested; /* named by the plan alone, which tests them as DuckDB does, or by the way */
};

/*
 * Table `flows` of kept flows: a statement reads the columns that it names, of the batches that may have rows for it.
 * What it asks for is read from its tree (DuckDB's json_serialize_sql): conditions of the WHERE over `flows` alone that
 * compare a column with constants. What is not understood excludes nothing, and DuckDB tests all rows again.
 */
struct sql_kept {
	struct flow_kept *volume; /* set it before a statement is executed */
	struct flow_context context; /* networks of ours; kept */
	struct sql_engine *engine;
	struct pri_plan *plan; /* of the statement; NULL: all rows */
	struct sql_sums sums; /* of the statement */
	uint64_t read; /* columns, as bits, that it reads */
	bool changed; /* there were other statements than queries: views and macros may name the table */
};
/* Makes the table, all zero; or makes it again in the same engine, when it was dropped. */
int sql_kept_create(struct sql_kept *kept, struct sql_engine *engine, struct pr_error *err);
/* Before the statement is executed: sets the plan. */
void sql_kept_ask(struct sql_kept *kept, const char *statement);
/* What the statement's tree tells: its conditions (NULL: none), whether it is a query, and *sums. */
struct pri_plan *sql_kept_plan(struct sql_engine *engine, const char *statement,
	bool *query, struct sql_sums *sums);
