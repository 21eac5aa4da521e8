# SPDX-License-Identifier: Apache-2.0
"""Loop devices of a bench's own, held to a rate by the block I/O controller, and file systems on them."""

import atexit
import glob
import json
import os
import shutil
import subprocess
import tempfile

import benchlib as b
from plotlib import plot  # noqa: F401, for those that import this

BLKIO = "/sys/fs/cgroup/blkio"
MEMORY = "/sys/fs/cgroup/memory"
UNIFIED = "/sys/fs/cgroup"
# What Hyperion's machine had; the page cache of a large one would hold a whole volume.
MEMORY_BYTES = 1 << 30
# Dirty pages that a device may have waiting: a second or so of writing.
DIRTY_BYTES = 256 << 20

work = tempfile.mkdtemp(prefix="packrack-streamfs-", dir=os.environ.get("BENCH_DIR"))
_devices, _mounts, _groups = [], [], []


def put(path, text):
    with open(path, "w") as f:
        f.write(str(text))


def wanting():
    """Why there can be no loop devices or limits here; None when there can."""
    if os.geteuid() != 0:
        return "loop devices need root"
    if not shutil.which("losetup") or not os.path.exists("/dev/loop-control"):
        return "no loop devices here"
    if not shutil.which("fio"):
        return "no fio here (scripts/install-deps --bench)"
    if not os.path.exists(f"{BLKIO}/blkio.throttle.write_bps_device") and not unified():
        return "no block I/O controller here"
    return None


def unified():
    try:
        with open(f"{UNIFIED}/cgroup.controllers") as f:
            return "io" in f.read().split()
    except OSError:
        return False


def group():
    """The control groups that a contender runs in: (files to put its pid into)."""
    if _groups:
        return [f"{g}/cgroup.procs" for g in _groups]
    where = UNIFIED if unified() else MEMORY
    path = f"{where}/packrack-bench-{os.getpid()}"
    if unified():
        b.run("sh", "-c", f"echo +io +memory > {UNIFIED}/cgroup.subtree_control", check=False)
    try:
        os.mkdir(path)
        put(f"{path}/" + ("memory.max" if unified() else "memory.limit_in_bytes"), MEMORY_BYTES)
    except OSError:
        return []
    _groups.append(path)
    return [f"{path}/cgroup.procs"]


def grouped(words):
    """The words of a command, as one that runs within the limits"""
    enter = "".join(f"echo $$ > {p}; " for p in group())
    return ["sh", "-c", enter + 'exec "$@"', "sh", *[str(w) for w in words]]


class Device:
    """A loop device with direct I/O on a file that is written once, so that it has all its blocks."""

    def __init__(self, size):
        self.file = os.path.join(work, f"disk{len(_devices)}")
        with open(self.file, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, size)
        b.run("dd", "if=/dev/zero", f"of={self.file}", "bs=4M", f"count={size >> 22}", "conv=notrunc,fsync",
              "oflag=direct")
        self.path = b.run("losetup", "-f", "--show", "--direct-io=on", self.file).stdout.strip()
        _devices.append(self)
        s = os.stat(self.path)
        self.number = f"{os.major(s.st_rdev)}:{os.minor(s.st_rdev)}"
        self.limited = False
        queue = f"/sys/block/{os.path.basename(self.path)}/queue"
        with open(f"{queue}/max_hw_sectors_kb") as f:
            put(f"{queue}/max_sectors_kb", f.read())

    def limit(self, write=0, read=0, read_iops=0):
        """Bytes and reads a second; 0 lifts a limit."""
        self.limited = bool(write or read or read_iops)
        if unified():
            text = f"{self.number} wbps={write or 'max'} rbps={read or 'max'} riops={read_iops or 'max'}"
            group()
            put(f"{_groups[0]}/io.max", text)
            return
        # the root group: it has the kernel's own threads as well, which write what is buffered
        for name, value in (("write_bps", write), ("read_bps", read), ("read_iops", read_iops)):
            put(f"{BLKIO}/blkio.throttle.{name}_device", f"{self.number} {value}")

    def release(self):
        if self.limited:
            self.limit()
        b.run("losetup", "-d", self.path, check=False)


def kernel_times():
    """CPU of each kernel thread, exactly: /proc/stat only samples, and misses the short work they do"""
    times = {}
    for d in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{d}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[1] != "2":
                    continue
            with open(f"{d}/schedstat") as f:
                times[d] = int(f.read().split()[0]) / 1e9
        except (OSError, IndexError):
            pass
    return times


def kernel_since(before):
    """CPU of all kernel threads since then; one that has ended had been idle for long"""
    return sum(max(t - before.get(d, 0), 0) for d, t in kernel_times().items())


def dirty_bytes():
    """What waits in the page cache to be written"""
    with open("/proc/meminfo") as f:
        kb = {k: int(v.split()[0]) for k, v in (line.split(":") for line in f)}
    return (kb["Dirty"] + kb["Writeback"]) * 1024


def fio(device, seconds, *more):
    """Bytes a second that fio writes sequentially, and its own CPU seconds per GB"""
    words = ["fio", "--name=a", f"--filename={device.path}", "--rw=write", "--bs=1M", "--direct=1",
             # not without blocking: the kernel refuses to split such a write, and a limit then counts it twice
             "--ioengine=io_uring", "--iodepth=8", "--force_async=1", "--time_based", f"--runtime={seconds}", "--size=100%",
             "--output-format=json", *more]
    job = json.loads(b.run(*grouped(words)).stdout)["jobs"][0]
    w = job["write"]
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return w["io_bytes"] / (job["job_runtime"] / 1000), cpu / (w["io_bytes"] / 1e9)


MKFS = {
    # nothing is discarded: it would give the backing file holes
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"],
}


def without(fs):
    """Why a file system cannot be had; None when it can."""
    if not shutil.which(MKFS[fs][0]):
        return f"no {MKFS[fs][0]} here (scripts/install-deps --bench)"
    with open("/proc/filesystems") as f:
        if fs in f.read().split():
            return None
    if b.run("modprobe", fs, check=False).returncode == 0:
        return None
    return f"this kernel has no {fs}"


def hold_dirty():
    """Limits the dirty pages of our devices and mounts, where the kernel can (6.2)"""
    for d in [*(f"/sys/class/bdi/{d.number}" for d in _devices), *glob.glob("/sys/class/bdi/btrfs-*")]:
        try:
            put(f"{d}/strict_limit", 1)
            put(f"{d}/max_bytes", DIRTY_BYTES)
        except OSError:
            pass


class Mount:
    """A new file system over devices; btrfs stripes over several"""

    def __init__(self, fs, devices):
        self.fs, self.device = fs, devices[0].path
        self.path = os.path.join(work, f"mnt-{fs}-{len(_mounts)}")
        os.mkdir(self.path)
        more = ["-d", "raid0", "-m", "raid0"] if len(devices) > 1 else []
        b.run(*MKFS[fs], *more, *[d.path for d in devices])
        _mounts.append(self)
        self.mount()

    def mount(self):
        o = "noatime,nodiscard" if self.fs == "btrfs" else "noatime"
        b.run("mount", "-t", self.fs, "-o", o, self.device, self.path)
        hold_dirty()

    def unmount(self):
        b.run("umount", self.path)

    def cold(self):
        self.unmount()
        self.mount()

    def free(self):
        s = os.statvfs(self.path)
        return s.f_bavail * s.f_frsize

    def close(self):
        if self in _mounts:
            _mounts.remove(self)
            self.unmount()
            os.rmdir(self.path)


@atexit.register
def release():
    b.clean()
    for m in [*_mounts]:
        b.run("umount", m.path, check=False)
    for d in _devices:
        d.release()
    for g in _groups:
        try:
            os.rmdir(g)
        except OSError:
            pass
    shutil.rmtree(work, ignore_errors=True)
