"""Bytes that are written to disks, and reads from them.

The kernel's count for a process (/proc/PID/io) is the number of bytes of the memory that became dirty. With large folios,
overwriting 2 KiB of a file in the kernel's cache may count 2 MiB, of which a few KiB are written. So the bytes of a
benchmark are those that its disk has written. They include the file system's journal, and the writes of other processes:
nothing else should write to this disk.
"""

import os
from pathlib import Path

SECTOR_BYTES = 512
# Fields of a file of counts, described in the kernel's Documentation/block/stat.rst.
READS, SECTORS_READ, SECTORS_WRITTEN = 0, 2, 6


def counts_file(directory):
    """The file with the kernel's counts of the disk of the directory. A file system without a block device has none."""
    device = os.stat(directory).st_dev
    return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")


def disk_counts(directory):
    """The kernel's counts of the disk of the directory."""
    path = counts_file(directory)
    try:
        return [int(count) for count in path.read_text(encoding="ascii").split()]
    except FileNotFoundError:
        raise RuntimeError(f"{directory} is not on a disk that counts its reads and writes: there is no {path}") from None


def disk_bytes_written(directory):
    """The bytes that the disk of the directory has written so far, all files' contents included."""
    os.sync()
    return disk_counts(directory)[SECTORS_WRITTEN] * SECTOR_BYTES


def disk_reads(directory):
    """(reads, bytes) that the disk of the directory has read so far."""
    counts = disk_counts(directory)
    return counts[READS], counts[SECTORS_READ] * SECTOR_BYTES


def bytes_dirtied_by(pid):
    """The bytes of the kernel's cache that the process has changed so far, and those that it has written directly."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise RuntimeError("no write_bytes")
