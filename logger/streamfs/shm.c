/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logger/streamfs/shm.h"

static const uint8_t magic[8] = {'S', 'F', 'S', 's', 'h', 'm', '1', '\n'};
enum { LAYOUT = 4, SLOTS_MIN = 4, SLOTS_MAX = 65536 };

/* Sets the pointers into a mapping at base, or only the size when base is NULL. */
static void
lay_out(struct sfs_shm *shm, uint8_t *base)
{
	size_t streams = sfs_sector_up(sizeof(struct sfs_shm_header));
	size_t entries =
		streams + sfs_sector_up(SFS_STREAMS_MAX * sizeof(struct sfs_shm_stream));
	size_t slots = entries + sfs_sector_up(shm->blocks * sizeof(struct sfs_shm_entry));
	size_t data = slots + sfs_sector_up(shm->slots * sizeof(struct sfs_shm_slot));
	shm->size = data + (size_t)shm->slots * shm->block_size;
	if (!base)
		return;
	shm->header = (struct sfs_shm_header *)base;
	shm->stream = (struct sfs_shm_stream *)(base + streams);
	shm->entry = (struct sfs_shm_entry *)(base + entries);
	shm->slot = (struct sfs_shm_slot *)(base + slots);
	shm->data = base + data;
}

void
sfs_uuid_text(const uint8_t u[16], char out[SFS_UUID_TEXT])
{
	snprintf(out, SFS_UUID_TEXT,
		"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
		u[12], u[13], u[14], u[15]);
}

/*
 * The object lies in /dev/shm, where anyone may take a name first: so part of its name is random. It is
 * found by a link in the runtime directory, where only the writer's user creates anything. It does
 * not lie there itself, since /run has little room.
 */
#define OBJECTS "/dev/shm/packrack-"
#define OBJECT OBJECTS "%s"
#define OBJECT_PATH (sizeof(OBJECT) + SFS_UUID_TEXT + 17)

static void
remove_object(const char *path)
{
	char object[OBJECT_PATH];
	ssize_t len = readlink(path, object, sizeof(object) - 1);
	if (len > 0)
		object[len] = 0;
	/* root must not remove whatever another owner of the directory has linked there */
	if (len > 0 && !strncmp(object, OBJECTS, strlen(OBJECTS)) &&
		!strchr(object + strlen(OBJECTS), '/'))
		unlink(object);
	unlink(path);
}

/* Allocates all memory now: a lack of /dev/shm later would raise SIGBUS. */
static int
make_object(struct sfs_shm *shm, const uint8_t uuid[16], struct pr_error *err)
{
	char entry[SFS_UUID_TEXT + 4], object[OBJECT_PATH];
	uint64_t random;
	sfs_uuid_text(uuid, entry);
	int len = PR_PRINT(object, OBJECT, entry);
	unlink(object); /* of a version that had no link to it */
	strcat(entry, ".shm");
	if (getrandom(&random, sizeof(random), 0) < 0)
		return pr_error_errno(err, "no random name for shared memory");
	if (pr_runtime_own(entry, shm->path, err) < 0)
		return -1;
	remove_object(shm->path); /* a dead writer's */
	snprintf(
		object + len, sizeof(object) - len, "-%016llx", (unsigned long long)random);
	int fd = open(object, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fd < 0)
		return pr_error_errno(err, "cannot create %s", object);
	struct stat st;
	if (symlink(object, shm->path) < 0) {
		pr_error_errno(err, "cannot create %s", shm->path);
		unlink(object);
	} else if ((errno = posix_fallocate(fd, 0, shm->size)) != 0) {
		pr_error_errno(err,
			"cannot allocate %zu MiB of shared memory in %s: enlarge "
			"/dev/shm, or lower --shm-size",
			shm->size >> 20, object);
		remove_object(shm->path);
	} else {
		shm->inode = fstat(fd, &st) == 0 ? st.st_ino : 0;
		return fd;
	}
	close(fd);
	return -1;
}

/*
 * Alignment for huge pages: a block is then one piece for its device, instead of some
 * hundred. Only MADV_COLLAPSE asks for them, because the kernel's default for shared memory
 * is "never". If that fails, pages are small.
 */
#define HUGE ((size_t)2 << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static void *
map_aligned(size_t size, int protection, int flags, int fd)
{
	uint8_t *room = mmap(NULL, size + HUGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return MAP_FAILED;
	size_t before = -(uintptr_t)room % HUGE;
	void *base = mmap(room + before, size, protection, flags | MAP_FIXED, fd, 0);
	if (base == MAP_FAILED) {
		munmap(room, size + HUGE);
		return MAP_FAILED;
	}
	if (before > 0)
		munmap(room, before);
	munmap(room + before + sfs_sector_up(size), HUGE - before);
	return base;
}

int
sfs_shm_create(struct sfs_shm *shm, const struct sfs_root *root, size_t bytes, bool named,
	struct pr_error *err)
{
	*shm = (struct sfs_shm){.block_size = root->block_size, .blocks = root->blocks};
	shm->slots = PR_MAX(PR_MIN(bytes / root->block_size, SLOTS_MAX), SLOTS_MIN);
	lay_out(shm, NULL);
	int fd = -1;
	if (named) {
		fd = make_object(shm, root->uuid, err);
		if (fd < 0)
			return -1;
	}
	void *base = map_aligned(shm->size, PROT_READ | PROT_WRITE,
		named ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd);
	pr_close(fd);
	if (base == MAP_FAILED)
		return pr_error_errno(err, "cannot map %zu MiB", shm->size >> 20);
	if (named)
		madvise(base, shm->size / HUGE * HUGE, MADV_COLLAPSE);
	lay_out(shm, base);
	struct sfs_shm_header *h = shm->header;
	h->layout = LAYOUT;
	h->block_size = shm->block_size;
	memcpy(h->uuid, root->uuid, 16);
	PR_COPY(h, shm, blocks, size, slots);
	h->pid = getpid();
	return 0;
}

void
sfs_shm_publish(struct sfs_shm *shm)
{
	atomic_thread_fence(memory_order_release);
	memcpy(shm->header->magic, magic, sizeof(magic));
}

int
sfs_shm_attach(struct sfs_shm *shm, const struct sfs_root *root, uid_t owner)
{
	char entry[SFS_UUID_TEXT + 4];
	struct sfs_shm_header h;
	struct stat st;
	void *base = MAP_FAILED;
	*shm = (struct sfs_shm){.block_size = root->block_size, .blocks = root->blocks};
	sfs_uuid_text(root->uuid, entry);
	strcat(entry, ".shm");
	if (!pr_runtime_find(entry, owner, shm->path))
		return -1;
	int fd = open(shm->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && pread(fd, &h, sizeof(h), 0) == sizeof(h) &&
		memcmp(h.magic, magic, sizeof(magic)) == 0 && h.layout == LAYOUT &&
		memcmp(h.uuid, root->uuid, 16) == 0 && h.blocks == root->blocks &&
		h.block_size == root->block_size && h.slots > 0 && h.slots <= SLOTS_MAX) {
		shm->slots = h.slots;
		shm->inode = st.st_ino;
		lay_out(shm, NULL);
		if (shm->size == h.size && (uint64_t)st.st_size >= shm->size)
			base = map_aligned(shm->size, PROT_READ, MAP_SHARED, fd);
	}
	close(fd);
	if (base == MAP_FAILED)
		return -1;
	lay_out(shm, base);
	return 0;
}

bool
sfs_shm_current(const struct sfs_shm *shm)
{
	struct stat st;
	if (atomic_load_explicit(&shm->header->closed, memory_order_acquire))
		return false;
	return stat(shm->path, &st) == 0 && st.st_ino == shm->inode;
}

void
sfs_shm_close(struct sfs_shm *shm, bool unlink_it)
{
	if (!shm->header)
		return;
	if (unlink_it && shm->path[0]) {
		atomic_store_explicit(&shm->header->closed, 1, memory_order_release);
		remove_object(shm->path);
	}
	munmap(shm->header, shm->size);
	shm->header = NULL;
}

void
sfs_words_put(_Atomic uint64_t *words, const void *data, size_t count)
{
	const uint8_t *p = data;
	for (size_t i = 0; i < count; i++) {
		uint64_t v;
		memcpy(&v, p + i * 8, 8);
		atomic_store_explicit(&words[i], v, memory_order_relaxed);
	}
}

void
sfs_words_get(const _Atomic uint64_t *words, void *data, size_t count)
{
	uint8_t *p = data;
	for (size_t i = 0; i < count; i++) {
		uint64_t v = atomic_load_explicit(&words[i], memory_order_relaxed);
		memcpy(p + i * 8, &v, 8);
	}
}

uint64_t
sfs_seq_begin(_Atomic uint64_t *words)
{
	uint64_t seq = atomic_load_explicit(&words[0], memory_order_relaxed);
	atomic_store_explicit(&words[0], seq + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	return seq;
}

void
sfs_seq_end(_Atomic uint64_t *words, uint64_t seq)
{
	atomic_store_explicit(&words[0], seq + 2, memory_order_release);
}

void
sfs_seq_write(_Atomic uint64_t *words, const void *data, size_t count)
{
	uint64_t seq = sfs_seq_begin(words);
	sfs_words_put(words + 1, data, count);
	sfs_seq_end(words, seq);
}

/*
 * A writer may lose its CPU between the two counts, for any time: so after a while the
 * reader sleeps. A writer that died there leaves an odd count for ever, so the reader gives
 * up.
 */
#define SPINS 10000
#define NAPS 100 /* ms */

bool
sfs_seq_read(const _Atomic uint64_t *words, void *data, size_t count)
{
	for (int tries = 0; tries < SPINS + NAPS; tries++) {
		if (tries >= SPINS)
			poll(NULL, 0, 1);
		uint64_t seq = atomic_load_explicit(&words[0], memory_order_acquire);
		if (seq & 1)
			continue;
		sfs_words_get(words + 1, data, count);
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&words[0], memory_order_relaxed) == seq)
			return true;
	}
	return false;
}

void
sfs_shm_slot_set(struct sfs_shm *shm, uint32_t slot, uint64_t block, uint64_t generation,
	uint32_t valid_from)
{
	struct sfs_shm_slot *s = &shm->slot[slot];
	atomic_store_explicit(&s->generation, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	if (generation == 0)
		return;
	atomic_store_explicit(&s->block, block, memory_order_relaxed);
	atomic_store_explicit(&s->valid_from, valid_from, memory_order_relaxed);
	atomic_store_explicit(&s->fill, valid_from, memory_order_relaxed);
	atomic_store_explicit(&s->generation, generation, memory_order_release);
}

uint32_t
sfs_shm_valid_from(const struct sfs_shm *shm, uint32_t slot)
{
	if (slot >= shm->slots)
		return UINT32_MAX;
	return atomic_load_explicit(&shm->slot[slot].valid_from, memory_order_acquire);
}

bool
sfs_shm_copy(const struct sfs_shm *shm, uint32_t slot, uint64_t block, uint64_t generation,
	uint32_t from, uint32_t to, uint8_t *buf)
{
	if (slot >= shm->slots || from > to || to > shm->block_size)
		return false;
	const struct sfs_shm_slot *s = &shm->slot[slot];
	if (atomic_load_explicit(&s->generation, memory_order_acquire) != generation ||
		atomic_load_explicit(&s->block, memory_order_relaxed) != block ||
		atomic_load_explicit(&s->valid_from, memory_order_relaxed) > from ||
		atomic_load_explicit(&s->fill, memory_order_acquire) < to)
		return false;
	memcpy(buf, sfs_shm_data(shm, slot) + from, to - from);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&s->generation, memory_order_relaxed) == generation &&
	       atomic_load_explicit(&s->valid_from, memory_order_relaxed) <= from;
}

struct sfs_shm_header *
sfs_shm_ask_open(const struct sfs_shm *shm, int *fd, struct pr_error *err)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct stat st;
	*fd = open(shm->path, O_RDWR | O_CLOEXEC);
	if (*fd < 0) {
		pr_error_errno(err, "cannot ask the writer through %s", shm->path);
		return NULL;
	}
	void *base = MAP_FAILED;
	if (fcntl(*fd, F_OFD_SETLKW, &lock) == 0 && fstat(*fd, &st) == 0 &&
		st.st_ino == shm->inode)
		base = mmap(NULL, sizeof(struct sfs_shm_header), PROT_READ | PROT_WRITE,
			MAP_SHARED, *fd, 0);
	if (base == MAP_FAILED) {
		pr_error_set(err, "cannot ask the writer: it has gone");
		close(*fd);
		return NULL;
	}
	return base;
}

void
sfs_shm_ask_close(struct sfs_shm_header *header, int fd)
{
	munmap(header, sizeof(*header));
	close(fd);
}
