/* SPDX-License-Identifier: Apache-2.0 */
/* First inputs of what comes over sockets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/message.h"
#include "tests/fuzz/corpus.h"

/* ---- messages ---- */

static void
put_message(Packrack__Envelope *env)
{
	struct pr_error err;
	uint8_t *buf;
	size_t len;

	env->id = 7;
	if (pr_message_pack(env, &buf, &len, &err) < 0)
		corpus_die(err.text);
	corpus_put("message", pr_message_name(env), buf, len, END);
	free(buf);
}

#define MESSAGE(kind, KIND, value)                                                         \
	do {                                                                               \
		Packrack__Envelope env_ = PACKRACK__ENVELOPE__INIT;                        \
		env_.body_case = PACKRACK__ENVELOPE__BODY_##KIND;                          \
		env_.kind = (value);                                                       \
		put_message(&env_);                                                        \
	} while (0)

static void
put_questions(void)
{
	Packrack__Instruction in = {
		PROTOBUF_C_MESSAGE_INIT(&packrack__instruction__descriptor), 6, 0, 0,
		0xffff};
	Packrack__Instruction *ins[] = {&in};
	Packrack__Program program = PACKRACK__PROGRAM__INIT, *programs[] = {&program};
	Packrack__Query query = PACKRACK__QUERY__INIT;
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;
	Packrack__Command command = PACKRACK__COMMAND__INIT;
	char *nodes[] = {TEXT("node1"), TEXT("node2")};

	program.linktype = 1;
	program.n_instructions = 1;
	program.instructions = ins;
	query.until = INT64_MAX;
	query.n_programs = 1;
	query.programs = programs;
	query.text = TEXT("tcp port 80");
	query.n_nodes = 2;
	query.nodes = nodes;
	MESSAGE(query, QUERY, &query);
	credit.batches = 8;
	MESSAGE(credit, CREDIT, &credit);
	MESSAGE(cancel, CANCEL, &cancel);
	request.per_link = 1;
	MESSAGE(status_request, STATUS_REQUEST, &request);
	command.verb = TEXT("identify");
	command.node = TEXT("node1");
	command.seconds = 5;
	MESSAGE(command, COMMAND, &command);
}

static Packrack__LinkInfo link_info = PACKRACK__LINK_INFO__INIT;
static Packrack__LinkInfo *link_infos[] = {&link_info};
static Packrack__NodeStatus node_status = PACKRACK__NODE_STATUS__INIT;
static Packrack__NodeStatus *node_statuses[] = {&node_status};

static void
put_states(void)
{
	Packrack__Hello hello = PACKRACK__HELLO__INIT;
	Packrack__Status status = PACKRACK__STATUS__INIT;
	Packrack__Value value = PACKRACK__VALUE__INIT, *values[] = {&value};
	Packrack__DispatcherNode node = PACKRACK__DISPATCHER_NODE__INIT, *nodes[] = {&node};
	Packrack__DispatcherLink link = PACKRACK__DISPATCHER_LINK__INIT, *links[] = {&link};
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__IndexRecord record = PACKRACK__INDEX_RECORD__INIT;
	Packrack__IndexStored stored = PACKRACK__INDEX_STORED__INIT;
	static uint8_t body[] = {'P', 'I', 'X', '1'};

	link_info.epoch = 7;
	link_info.linktype = 1;
	link_info.name = TEXT("tap0");
	node_status.logger = TEXT("{\n\t\"frames\": 1\n}");
	hello.name = TEXT("node1");
	hello.n_links = 1;
	hello.links = link_infos;
	hello.status = &node_status;
	MESSAGE(hello, HELLO, &hello);
	value.name = link.name = TEXT("frames_sent");
	value.number = 99;
	node.mac = TEXT("02:00:00:00:00:01");
	node.n_values = link.n_values = status.n_values = 1;
	node.values = link.values = status.values = values;
	status.n_nodes = status.n_dispatcher_nodes = status.n_dispatcher_links =
		status.n_links = 1;
	status.nodes = node_statuses;
	status.dispatcher_nodes = nodes;
	status.dispatcher_links = links;
	status.links = link_infos;
	MESSAGE(status, STATUS, &status);
	done.status = &status;
	MESSAGE(command_done, COMMAND_DONE, &done);
	record.level = 1;
	record.segments = 3;
	record.body.data = body;
	record.body.len = sizeof body;
	MESSAGE(index_record, INDEX_RECORD, &record);
	stored.text = TEXT("no such link");
	MESSAGE(index_stored, INDEX_STORED, &stored);
	failure.text = TEXT("no such node");
	MESSAGE(failure, FAILURE, &failure);
}

static void
put_answers(void)
{
	static uint8_t bits[] = {0xff, 0x01};
	Packrack__Held held = PACKRACK__HELD__INIT, *helds[] = {&held};
	Packrack__Loss loss = PACKRACK__LOSS__INIT, *losses[] = {&loss};
	Packrack__Evicted evicted = PACKRACK__EVICTED__INIT, *evicteds[] = {&evicted};
	Packrack__Ledger ledger = PACKRACK__LEDGER__INIT, *ledgers[] = {&ledger};
	Packrack__NodeAnswer answer = PACKRACK__NODE_ANSWER__INIT, *answers[] = {&answer};
	Packrack__Completeness completeness = PACKRACK__COMPLETENESS__INIT;
	Packrack__Batch batch = PACKRACK__BATCH__INIT;
	Packrack__End end = PACKRACK__END__INIT;

	held.first = 10;
	held.last = 18;
	held.bits.data = bits;
	held.bits.len = sizeof bits;
	loss.first_seq = 4;
	loss.last_seq = 9;
	loss.reason = TEXT("switch");
	batch.n_held = batch.n_edge = 1;
	batch.held = batch.edge = helds;
	batch.packets.data = bits;
	batch.packets.len = sizeof bits;
	batch.frontier = 17;
	MESSAGE(batch, BATCH, &batch);
	answer.node = TEXT("node1");
	completeness.n_nodes = completeness.n_missing = completeness.n_evicted = 1;
	completeness.nodes = answers;
	completeness.missing = end.losses = losses;
	completeness.evicted = end.evicted = evicteds;
	end.n_losses = end.n_evicted = end.n_ledgers = completeness.n_ledgers = 1;
	end.ledgers = completeness.ledgers = ledgers;
	end.completeness = &completeness;
	MESSAGE(end, END, &end);
}

void
corpus_messages(void)
{
	put_questions();
	put_states();
	put_answers();
}
