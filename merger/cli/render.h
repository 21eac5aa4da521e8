/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/rpc/packrack.pb-c.h"

/*
 * One renderer with three forms: text for people, key=value for tests and scripts, JSON. A
 * command calls it to begin, for each field, and to end. Items of a list have numbers in
 * key=value, and no name in JSON. Without memory it prints what it has, and render_end
 * returns -1.
 */
enum render_form { RENDER_TEXT, RENDER_KEYVALUE, RENDER_JSON };
struct render *render_begin(FILE *to, enum render_form form); /* never NULL */
/* Prints what is left; -1: writing failed, or no memory. *r NULL: text for people on standard output. */
int render_end(struct render **r);
void render_on_one_line(struct render *r); /* JSON */
void render_object(struct render *r, const char *name); /* name NULL: an item of a list */
void render_list(struct render *r, const char *name);
void render_close(struct render *r); /* the last object or list */
void render_string(struct render *r, const char *name, const char *value);
void render_uint(struct render *r, const char *name, uint64_t value);
/* Several: RENDER_UINTS(r, {"blocks", s->blocks}, {"bytes", s->bytes}); */
struct render_number {
	const char *name; /* NULL: the end */
	uint64_t value;
};
#define RENDER_UINTS(r, ...)                                                               \
	render_uints(r, (const struct render_number[]){__VA_ARGS__, {NULL, 0}})
void render_uints(struct render *r, const struct render_number *numbers);
void render_bool(struct render *r, const char *name, bool value);

/* ns since 1970: a number in JSON, RFC 3339 for people. */
void render_time(struct render *r, const char *name, int64_t value);

/* 16 hex digits; a string in JSON, as it is a name and no quantity. */
void render_epoch(struct render *r, const char *name, uint64_t value);

/* JSON text of another program: inserted as it is, or as a string if it is not JSON. */
void render_json(struct render *r, const char *name, const char *text);

/*
 * All fields of a message, as an object, by its descriptor: a new field needs no code here.
 * Signed numbers are times; named values (Value) become fields of their own; render.c lists
 * the exceptions.
 * render_fields does not open the object. list: an array of pointers to messages of one type.
 */
void render_message(struct render *r, const char *name, const ProtobufCMessage *message);
void render_fields(struct render *r, const ProtobufCMessage *message);
void render_messages(struct render *r, const char *name, const void *list, size_t count);

/*
 * A progress line for work that takes more than two seconds, if stderr is a terminal: what was done, how fast,
 * which part of the whole that is, and how long the rest takes at this speed.
 */
struct progress {
	bool terminal, shown;
	int64_t begun, next;
};
void progress_begin(struct progress *p);

/* True if a line is due. Reads the clock: call it once a batch, not once a packet. */
bool progress_due(struct progress *p);

/* count: in the unit. done of total: in any unit; total 0: not known. */
struct progress_state {
	const char *what, *unit;
	uint64_t count, done, total;
};
void progress_show(struct progress *p, const struct progress_state *s);
/* The line, after `elapsed` ns. Returns buf. */
char *progress_text(
	char *buf, size_t size, const struct progress_state *s, int64_t elapsed);
void progress_end(struct progress *p); /* wipes the line */
