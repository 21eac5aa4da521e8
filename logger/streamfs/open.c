/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include "logger/streamfs/internal.h"

const char *
sfs_result_text(int result)
{
	static const char *const text[] = {"ok", "error", "overwritten since",
		"forged handle", "damaged on the device", "permission denied", "too big",
		"volume full", "deleted"};
	int i = -result;
	return i >= 0 && i < (int)(PR_COUNT(text)) ? text[i] : "unknown result";
}

static int
attach(struct sfs *sfs, struct sfs_shm *shm)
{
	struct stat st;
	if (fstat(sfs_first_disk(sfs)->fd, &st) < 0)
		return -1;
	return sfs_shm_attach(shm, &sfs->root, st.st_uid);
}

/*
 * The lock lasts as long as the descriptor is open. A killed writer's descriptor closes a
 * moment after its death, when its requests in the kernel have ended. Writing must not
 * begin before; so wait for that.
 */
#define DEAD_WAIT (5 * PR_NS_PER_S)

int
sfs_lock(struct sfs *sfs, struct pr_error *err)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	const char *path = sfs_first_disk(sfs)->path;
	int64_t end = pr_now_mono() + DEAD_WAIT;
	/* locks all devices: a program that opens another subset must find the lock, too */
	for (uint16_t i = 0; i < sfs->disks;) {
		struct sfs_shm shm;
		pid_t pid = 0;
		int fd = sfs->disk[i].fd;
		if (fd < 0 || fcntl(fd, F_OFD_SETLK, &lock) == 0) {
			i++;
			continue;
		}
		if (errno != EAGAIN && errno != EACCES)
			return pr_error_errno(err, "%s: cannot lock", path);
		/* is the holder dead, by its process id in shared memory? */
		if (pr_now_mono() < end && attach(sfs, &shm) == 0) {
			pid = shm.header->pid;
			sfs_shm_close(&shm, false);
		}
		if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
			return pr_error_set(err,
				"%s is being written by another program: a volume has one "
				"writer",
				path);
		poll(NULL, 0, 5);
	}
	return 0;
}

void
sfs_dispose(struct sfs **sfs_pointer, bool unlink_shm)
{
	struct sfs *sfs = PR_TAKE(sfs_pointer);
	if (!sfs)
		return;
	sfs_writer_stop(sfs);
	sfs_reads_settle(sfs);
	sfs_queue_close(&sfs->reads);
	sfs_shm_close(&sfs->shm, unlink_shm);
	sfs_table_free(&sfs->table);
	for (uint16_t i = 0; i < sfs->disks; i++)
		sfs_disk_close(&sfs->disk[i]);
	PR_FREE(sfs, disk, scratch);
	free(sfs);
}

/*
 * Loads only the root: a reader beside a live writer needs no more. *streams: to free(),
 * also on failure.
 */
static int
load_root(struct sfs *sfs, struct sfs_stream **streams, struct pr_error *err)
{
	*streams = calloc(SFS_STREAMS_MAX, sizeof(**streams));
	if (!*streams)
		return pr_error_set(err, "no memory for the root");
	int rc = sfs_root_load(sfs, *streams, err);
	if (rc == 0)
		sfs_key_derive(&sfs->key, sfs->root.secret);
	return rc;
}

static bool
follow_writer(struct sfs *sfs)
{
	if (attach(sfs, &sfs->shm) < 0)
		return false;
	/* the shared memory may be a dead writer's, while a new writer is starting */
	if (!sfs_shm_current(&sfs->shm) || !sfs_writer_alive(sfs)) {
		sfs_shm_close(&sfs->shm, false);
		return false;
	}
	sfs->live = true;
	sfs->writers++;
	sfs->holes_seen = 0;
	sfs_table_free(&sfs->table);
	sfs->table_valid = false;
	return true;
}

static int
reload(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_stream *streams;
	uint8_t uuid[16];
	uint64_t before = sfs->root.generation;
	sfs_reads_settle(sfs);
	if (sfs->table_valid && sfs_root_unchanged(sfs))
		return 0;
	memcpy(uuid, sfs->root.uuid, 16);
	int rc = load_root(sfs, &streams, err);
	if (rc == 0 && memcmp(uuid, sfs->root.uuid, 16) != 0) {
		memcpy(sfs->root.uuid, uuid, 16);
		rc = pr_error_set(err, "%s was created anew: open it again",
			sfs_first_disk(sfs)->path);
	}
	if (rc == 0 && (!sfs->table_valid || sfs->root.generation != before))
		rc = sfs_recover(sfs, streams, err);
	free(streams);
	return rc;
}

int
sfs_refresh(struct sfs *sfs, struct pr_error *err)
{
	if (sfs->writer)
		return SFS_OK;
	sfs->last_probe = pr_now_mono();
	bool alive = sfs_writer_alive(sfs);
	if (sfs->live && alive && sfs_shm_current(&sfs->shm))
		return SFS_OK;
	if (sfs->live)
		sfs_shm_close(&sfs->shm, false);
	sfs->live = false;
	return alive && follow_writer(sfs) ? SFS_OK : reload(sfs, err);
}

static int
start(struct sfs *sfs, const struct sfs_open_options *options, struct pr_error *err)
{
	struct sfs_stream *streams;
	char text[400];
	int rc = load_root(sfs, &streams, err);
	if (rc == 0 && !(sfs->scratch = sfs_read_buffer(sfs->root.block_size)))
		rc = pr_error_set(err, "no memory for a block");
	if (rc == 0 && !sfs->writer) {
		sfs->last_probe = pr_now_mono();
		if (!sfs_writer_alive(sfs) || !follow_writer(sfs))
			rc = sfs_recover(sfs, streams, err);
	} else if (rc == 0 && sfs_degraded(sfs, text, sizeof(text))) {
		rc = pr_error_set(err,
			"%s: %s: name all devices, or let a degraded writer go on without "
			"(packrack-logger --degraded); it can be read as it is",
			sfs_first_disk(sfs)->path, text);
	} else if (rc == 0 && (rc = sfs_lock(sfs, err)) == 0) {
		/* reads the root again: under the lock it can no longer change */
		free(streams);
		rc = load_root(sfs, &streams, err);
		if (rc == 0)
			rc = sfs_recover(sfs, streams, err);
	}
	free(streams);
	if (rc < 0 || !sfs->writer)
		return rc;
	sfs_note_losses(sfs);
	return sfs_writer_start(sfs, options, err);
}

struct sfs *
sfs_open_disks(const struct sfs_disk *disks, size_t count,
	const struct sfs_open_options *options, struct pr_error *err)
{
	struct sfs *sfs = calloc(1, sizeof(*sfs));
	struct sfs_disk *own = calloc(count, sizeof(*own));
	if (!sfs || !own) {
		free(sfs);
		free(own);
		return pr_error_null(err, "no memory for the volume");
	}
	memcpy(own, disks, count * sizeof(*own));
	sfs->disk = own;
	sfs->disks = count;
	sfs->writer = options->writer;
	sfs->degraded = options->writer && options->degraded;
	sfs->permission_mask = options->permission_mask;
	if (start(sfs, options, err) < 0)
		sfs_dispose(&sfs, true);
	return sfs;
}

struct sfs *
sfs_open(const char *const *paths, size_t count, const struct sfs_open_options *options,
	struct pr_error *err)
{
	struct sfs_disk disks[SFS_DEVICES_MAX] = {0};
	struct pr_error why, first = {0};
	size_t opened = 0;
	if (count < 1 || count > SFS_DEVICES_MAX)
		return pr_error_null(err, "a volume has 1 to %d devices", SFS_DEVICES_MAX);
	/*
	 * a path that cannot be opened is missing; if none can be opened, that is an error
	 */
	for (size_t i = 0; i < count; i++) {
		if (sfs_disk_open(&disks[i], paths[i], options->writer, !options->no_direct,
			    &why) == 0) {
			opened++;
			continue;
		}
		sfs_disk_missing(&disks[i], paths[i], why.text);
		if (!first.text[0])
			first = why;
	}
	return opened > 0 ? sfs_open_disks(disks, count, options, err)
			  : pr_error_null(err, "%s", first.text);
}

void
sfs_close(struct sfs **sfs_pointer)
{
	struct sfs *sfs = *sfs_pointer;
	struct sfs_writer *w = sfs ? sfs->w : NULL;
	for (uint32_t i = 0; w && i < sfs->table.streams; i++)
		w->tail[i].reserved = false;
	/*
	 * stores all data, then a clean root: the next opening need not search for the end
	 */
	if (w && sfs_flush(sfs, NULL) == SFS_OK) {
		sfs_frontier_set_durable(
			&w->frontier, &sfs->table, sfs_frontier_position(&w->frontier));
		sfs_root_store(sfs, SFS_ROOT_CLEAN | SFS_ROOT_LISTED, NULL);
	}
	sfs_dispose(sfs_pointer, w);
}
