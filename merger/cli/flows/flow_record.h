/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>

#include "indexer/flows/flow.h"
#include "proto/base/options.h"
#include "proto/rpc/packrack.pb-c.h"

/* Flow records as `packrack flows` prints them: a record of one flow, and its forms. */

struct sql_engine;
struct sql_table;

/* As numbers, with the bits that count; IPv4: low. */
struct network {
	uint64_t high, low, high_mask, low_mask;
	bool six;
};
/* As in 10.0.0.0/8 or 2001:db8::/32; an address alone is one host. */
int network_parse(const char *text, struct network *out, struct pr_error *err);

/* Networks of --inside, for the attribute `outgoing`. */
struct networks {
	struct network *all;
	size_t count;
};
/* networks_free in any case. */
int networks_parse(struct networks *n, const char *option,
	const struct pr_string_list *texts, struct pr_error *err);
void networks_free(struct networks *n);
bool networks_have(const struct networks *n, const uint8_t *address, uint8_t len);
static inline bool
networks_have_number(const struct networks *n, uint64_t high, uint64_t low, bool six)
{
	bool has = false;

	/* without a branch: who comes next is not to be foreseen */
	for (size_t i = 0; i < n->count; i++) {
		const struct network *of = &n->all[i];

		has |= !(((high ^ of->high) & of->high_mask) |
			 ((low ^ of->low) & of->low_mask) | (of->six ^ six));
	}
	return has;
}

/* What an answer lacks, by link and time: how much of a record is not known. */
struct flow_losses {
	struct flow_loss {
		uint16_t link;
		int64_t time;
		uint64_t sum; /* packets of all entries of the link up to here */
	} * begins, *ends; /* of the same entries, in order of first and of last times */
	size_t count;
	uint64_t untold; /* of no known time: they may be any flow's */
	bool unanswered; /* a node did not answer, or does not know all yet */
};
/* -1: no memory. flow_losses_free in any case. */
int flow_losses_take(
	struct flow_losses *l, const Packrack__Completeness *c, struct pr_error *err);
/*
 * Asks first what is missing in the range, so that records can be printed as flows end; the nodes' index tells. CLI_OK,
 * or the exit status.
 */
struct query_args;
int flow_losses_ask(
	struct flow_losses *l, const struct query_args *args, struct pr_error *err);
void flow_losses_free(struct flow_losses *l);
/* Packets of the link that are missing at some time between first and last: at most so many are the flow's. */
uint64_t flow_losses_between(
	const struct flow_losses *l, uint16_t link, int64_t first, int64_t last);
static inline uint64_t
flow_losses_of(const struct flow_losses *l, const struct pri_flow *f)
{
	return flow_losses_between(l, f->key.link, pri_flow_first(f), pri_flow_last(f));
}

struct flow_context;
/* What all forms print. Borrows the flow and the context. */
struct flow_record {
	const struct pri_flow *flow;
	const struct pri_flow_side *sent, *received;
	char src[INET6_ADDRSTRLEN], dst[INET6_ADDRSTRLEN];
	char community_id[PRI_COMMUNITY_ID_MAX], uid[20];
	const char *state, *outgoing; /* outgoing: NULL: no networks */
	uint64_t missing; /* packets of the link while it lasted */
	char missing_text[21]; /* "": nobody knows yet */
	const struct flow_context *context;
	uint16_t sport, dport;
	int64_t first, last;
};
/* What records are made with; all 0: no networks, nothing missing. */
struct flow_context {
	struct networks inside;
	struct flow_losses losses;
	uint16_t seed; /* of Community IDs */
	bool live; /* what is missing is not known yet */
	bool kept; /* the record says what is missing: */
	uint64_t missing;
	uint64_t window, row; /* that it is of; 0: nobody asked */
};
void flow_record_make(struct flow_record *r, const struct pri_flow *flow,
	const struct flow_context *context);

enum flow_form {
	FLOW_TEXT,
	FLOW_CSV,
	FLOW_JSON,
	FLOW_ZEEK,
	FLOW_EVE,
	FLOW_IPFIX,
	FLOW_PARQUET, /* a table, written as a whole */
	FLOW_FORMS
};
extern const char *const flow_forms[]; /* their names, and NULL */
void flow_record_print(const struct flow_record *r, enum flow_form form);
/* Table `flows` of SQL, and a row of it. NULL, -1: err */
struct sql_table *flow_table_create(struct sql_engine *engine, struct pr_error *err);
int flow_table_put(struct sql_table *t, const struct flow_record *r, struct pr_error *err);
/* What some forms have before the first record. */
void flow_head_print(enum flow_form form);

/* As inet_ntop has it, which takes ten times as long; returns the text's length. */
size_t flow_address_text(const uint8_t *bytes, unsigned len, char buf[INET6_ADDRSTRLEN]);
/* Of IPv4, as a number; zeros fill all 16 bytes. Written by words, since it is soon read by words. */
size_t flow_four_text(uint32_t address, char buf[16]);
/* The address of a side. */
const char *flow_address(
	const struct pri_flow_key *key, unsigned side, char buf[INET6_ADDRSTRLEN]);
/* "tcp"; of a protocol without a common name its number in buf. */
const char *flow_protocol_name(uint8_t protocol, char buf[8]);
/* Seconds with nine digits, also before 1970. */
const char *flow_seconds(int64_t ns, char buf[32]);
