/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "logger/streamfs/table.h"
#include "proto/base/runtime_dir.h"
#include "proto/base/text.h"

/*
 * The memory buffer: one shared mapping per volume, written by the volume's writer, mapped
 * read-only by everyone else. It holds the block table, the streams, and slots with the blocks
 * being filled and the last ones sealed. The writer never reads back what it put there, but for the
 * slots that it writes out; readers believe nothing without checking its range and, for records,
 * the keyed hash, or, of what they do not copy (cursor.c), the header's keyed check and that
 * nothing was overwritten meanwhile.
 */
enum { SFS_ENTRY_WORDS = 8, SFS_STREAM_WORDS = 19 };
#define SFS_NOTE_WORDS (SFS_NOTE_BYTES / 8)
#define SFS_HOLES_WORDS (1 + SFS_REPAIRS_MAX * 8)
_Static_assert(sizeof(struct sfs_entry) == SFS_ENTRY_WORDS * 8, "entry in shared memory");
_Static_assert(offsetof(struct sfs_stream, head) == SFS_STREAM_WORDS * 8,
	"stream in shared memory, without its head");

/* A record under a sequence lock: the count, odd while it is being written, then its words. */
struct sfs_shm_entry {
	_Atomic uint64_t word[1 + SFS_ENTRY_WORDS];
};
struct sfs_shm_stream {
	_Atomic uint64_t word[1 + SFS_STREAM_WORDS];
};
struct sfs_shm_slot {
	_Atomic uint64_t generation, block; /* generation 0: being changed */
	_Atomic uint32_t valid_from, fill; /* range of the bytes that are here */
};
/*
 * The one thing that another process may ask of the writer: to change a stream's guarantee.
 * Processes that ask need write permission on the shared memory, and lock it while they
 * ask. ask_state: odd: asked; even: answered.
 */
struct sfs_ask {
	char name[SFS_NAME_MAX + 1];
	uint64_t guarantee;
};
struct sfs_answer {
	int64_t result; /* 0 or -1 */
	char text[512];
};
enum { SFS_ASK_WORDS = 7, SFS_ANSWER_WORDS = 65 };
_Static_assert(sizeof(struct sfs_ask) == SFS_ASK_WORDS * 8, "ask in shared memory");
_Static_assert(
	sizeof(struct sfs_answer) == SFS_ANSWER_WORDS * 8, "answer in shared memory");

struct sfs_shm_header {
	uint8_t magic[8];
	uint32_t layout, block_size;
	uint8_t uuid[16];
	uint64_t blocks, size;
	uint32_t slots, pid;
	_Atomic uint32_t closed; /* 1: the writer has closed the volume */
	_Atomic uint32_t streams;
	/* Bytes on the way to the devices, in 1/1000 of all slots' bytes. */
	_Atomic uint32_t backlog;
	_Atomic uint64_t next_generation;
	_Atomic uint64_t note[1 + SFS_NOTE_WORDS];
	_Atomic uint64_t holes[1 + SFS_HOLES_WORDS]; /* holes.c */
	_Atomic uint64_t ask_state, ask[SFS_ASK_WORDS], answer[SFS_ANSWER_WORDS];
};

struct sfs_shm {
	struct sfs_shm_header *header; /* NULL: not mapped */
	struct sfs_shm_stream *stream;
	struct sfs_shm_entry *entry;
	struct sfs_shm_slot *slot;
	uint8_t *data;
	uint32_t slots, block_size;
	uint64_t blocks;
	size_t size;
	ino_t inode;
	char path[PR_RUNTIME_PATH]; /* a link to the object; empty: private memory */
};

/*
 * Writer: creates the mapping, and replaces that of a dead writer. bytes: size of all
 * slots. named false: memory of this process only.
 */
int sfs_shm_create(struct sfs_shm *shm, const struct sfs_root *root, size_t bytes,
	bool named, struct pr_error *err);
/* Writer, once the table is in it: from now on readers attach to it. */
void sfs_shm_publish(struct sfs_shm *shm);
/* Reader: 0, or -1: there is none yet, or none that fits. */
int sfs_shm_attach(struct sfs_shm *shm, const struct sfs_root *root, uid_t owner);
/* True if the path still refers to this object, and its writer has not closed it. */
bool sfs_shm_current(const struct sfs_shm *shm);
void sfs_shm_close(struct sfs_shm *shm, bool unlink_it);

/* For writing only some of the words: begin returns the value to pass to end. */
uint64_t sfs_seq_begin(_Atomic uint64_t *words);
void sfs_seq_end(_Atomic uint64_t *words, uint64_t seq);
void sfs_seq_write(_Atomic uint64_t *words, const void *data, size_t count);
bool sfs_seq_read(const _Atomic uint64_t *words, void *data, size_t count);

/* Maps the header for asking, and locks out other processes that ask; NULL: err. */
struct sfs_shm_header *sfs_shm_ask_open(
	const struct sfs_shm *shm, int *fd, struct pr_error *err);
void sfs_shm_ask_close(struct sfs_shm_header *header, int fd);
void sfs_words_put(_Atomic uint64_t *words, const void *data, size_t count);
void sfs_words_get(const _Atomic uint64_t *words, void *data, size_t count);

static inline uint8_t *
sfs_shm_data(const struct sfs_shm *shm, uint32_t slot)
{
	return shm->data + (size_t)slot * shm->block_size;
}
/* Writer: slot now holds bytes of a block from valid_from on; generation 0: nothing. */
void sfs_shm_slot_set(struct sfs_shm *shm, uint32_t slot, uint64_t block,
	uint64_t generation, uint32_t valid_from);
/* Reader: offset from which the slot has its block's bytes; unchecked. */
uint32_t sfs_shm_valid_from(const struct sfs_shm *shm, uint32_t slot);
/* Reader: copies [from, to) of a block; false: it is not there any more, or not all. */
bool sfs_shm_copy(const struct sfs_shm *shm, uint32_t slot, uint64_t block,
	uint64_t generation, uint32_t from, uint32_t to, uint8_t *buf);

#define SFS_UUID_TEXT 37
void sfs_uuid_text(const uint8_t uuid[16], char out[SFS_UUID_TEXT]);
