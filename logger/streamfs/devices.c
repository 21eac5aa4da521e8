/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "logger/streamfs/internal.h"

const struct sfs_disk *
sfs_first_disk(const struct sfs *sfs)
{
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (!sfs->disk[i].missing)
			return &sfs->disk[i];
	return &sfs->disk[0];
}

bool
sfs_degraded(const struct sfs *sfs, char *text, size_t size)
{
	for (uint16_t i = 0; i < sfs->disks; i++) {
		const struct sfs_disk *d = &sfs->disk[i];
		if (!d->missing || d->lost)
			continue;
		char others[40] = "";
		if (sfs->missing > 1)
			snprintf(
				others, sizeof(others), ", and %u more", sfs->missing - 1u);
		snprintf(text, size,
			"device %u of %u is missing%s (%.200s): %llu of the volume's %llu "
			"blocks lie on it",
			i + 1u, sfs->disks, others, d->why,
			(unsigned long long)sfs->layout.rows[i],
			(unsigned long long)sfs->root.blocks);
		return true;
	}
	return false;
}

int
sfs_device_info(
	struct sfs *sfs, size_t index, struct sfs_device_info *out, struct pr_error *err)
{
	if (index >= sfs->disks)
		return pr_error_set(err, "the volume has %u devices", sfs->disks);
	const struct sfs_disk *d = &sfs->disk[index];
	*out = (struct sfs_device_info){
		.state = d->lost      ? SFS_DEVICE_IS_LOST
			 : d->missing ? SFS_DEVICE_IS_MISSING
				      : SFS_DEVICE_IS_THERE,
		.blocks = sfs->layout.rows[index],
		.lost_records = sfs->root.device[index].lost_records,
	};
	snprintf(out->path, sizeof(out->path), "%s", d->path);
	snprintf(out->why, sizeof(out->why), "%s", d->why);
	return 0;
}

bool
sfs_block_there(const struct sfs *sfs, uint64_t block)
{
	uint16_t device;
	uint64_t row;
	sfs_layout_place(&sfs->layout, block, &device, &row);
	return !sfs->disk[device].missing;
}
