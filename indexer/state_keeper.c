/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/state_keeper.h"

#define AGAIN_NS PR_NS_PER_S /* after the logger did not take it */

static void
read_records(struct pri_state_keeper *k)
{
	struct sfs *sfs = k->volume->sfs;
	struct sfs_stream_info info;
	struct sfs_record record;
	struct pr_error err;
	int rc, stream = sfs_stream_find(sfs, "state");

	if (!k->cursor && stream >= 0)
		k->cursor = sfs_cursor_open(sfs, stream, NULL, &err);
	while (k->cursor && (rc = sfs_cursor_next(k->cursor, &record, &err)) != 0) {
		Packrack__RackState *message;

		if (rc == SFS_ERROR)
			break;
		if (rc != 1 || !(message = packrack__rack_state__unpack(
					 NULL, record.length, record.body)))
			continue;
		Packrack__Envelope env =
			pr_message_of(0, PACKRACK__ENVELOPE__BODY_STATE, message);
		if (pr_message_check(&env, &err) == 0)
			pr_state_merge(&k->state, message, pr_now_real());
		k->stored = message->digest;
		k->sequence = record.sequence;
		packrack__rack_state__free_unpacked(message, NULL);
	}
	if (stream >= 0 && sfs_stream_info(sfs, (size_t)stream, &info, &err) == SFS_OK &&
		k->sequence && k->sequence < info.first_sequence)
		k->stored = 0; /* overwritten */
}

static void
stored(void *arg, const Packrack__CommandDone *done)
{
	struct pri_state_keeper *k = arg;

	if (done && done->ok)
		k->stored = k->storing;
	else
		k->next = pr_now_mono() + AGAIN_NS;
}

void
pri_state_keeper_step(struct pri_state_keeper *k)
{
	Packrack__Command c = PACKRACK__COMMAND__INIT;

	read_records(k);
	pr_state_expire(&k->state, pr_now_real());
	/* what has ended needs no record */
	if (!k->state.digest || k->stored == k->state.digest || pr_now_mono() < k->next)
		return;
	Packrack__RackState message = pr_state_message(&k->state);
	c.verb = "state";
	c.state = &message;
	k->storing = message.digest;
	k->next = pr_now_mono() + AGAIN_NS;
	pri_sender_store(k->sender, &c, stored, k);
}

void
pri_state_keeper_open(struct pri_state_keeper *k, struct pri_volume *volume,
	struct pri_record_sender *sender)
{
	*k = (struct pri_state_keeper){.volume = volume, .sender = sender};
	read_records(k);
}

void
pri_state_keeper_close(struct pri_state_keeper *k)
{
	sfs_cursor_close(&k->cursor);
	pr_state_free(&k->state);
	*k = (struct pri_state_keeper){.volume = NULL};
}
