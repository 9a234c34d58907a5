"""Stalls of the disk: times in which it finished no request that it had, or took long to write and sync a block of the soak's own.

A statement that waits for a sync takes at least as long as the disk does. A run on a disk that others use too can tell its own
stalls from those of the disk.
"""

import os
import threading
import time
from collections import deque
from pathlib import Path

from tests.harness.disk_use import counts_file

POLL_SECONDS = 0.005
SYNC_PAUSE_SECONDS = 0.02
SHORT_SECONDS = 0.02  # syncs up to this are not stalls
KEPT_SECONDS = 60
BLOCK = bytes(4096)
# Fields of /sys/dev/block/*/stat, described in the kernel's Documentation/block/stat.rst: finished reads, writes, discards and
# flushes, and the requests that are in flight.
FINISHED, IN_FLIGHT = (0, 4, 11, 15), 8


def counters(path):
    """The number of requests that the disk has finished, and of those that it has not."""
    fields = [int(field) for field in path.read_text().split()]
    return sum(fields[place] for place in FINISHED if place < len(fields)), fields[IN_FLIGHT]


class Polls:
    """Finds stalls from polls of the counters. The disk stalls between two polls if it had requests at both and finished none."""

    def __init__(self):
        self.finished, self.since = None, None
        self.found = deque()  # (start, end) of stalls; the last may continue

    def poll(self, now, finished, in_flight):
        if not in_flight:
            self.since = None
        elif finished != self.finished or self.since is None:
            self.since = now
        elif self.found and self.found[-1][0] == self.since:
            self.found[-1] = self.since, now
        else:
            self.found.append((self.since, now))
        self.finished = finished
        forget(self.found, now)


def forget(stalls, now):
    while stalls and stalls[0][1] < now - KEPT_SECONDS:
        stalls.popleft()


def covered(stalls, start, end):
    """The seconds between two moments that are within at least one of the stalls."""
    seconds, done = 0.0, start
    for first, last in sorted(stalls):
        first, last = max(first, done), min(last, end)
        if last > first:
            seconds += last - first
            done = last
    return seconds


class Disk:
    """Watches the disk of a directory by two threads, and writes to a file there. A file system without a block device has no
    counters."""

    def __init__(self, directory):
        self.path = counts_file(directory)
        self.polls = Polls()
        self.syncs = deque()
        self.file = os.open(Path(directory) / "disk_probe", os.O_WRONLY | os.O_CREAT)
        os.pwrite(self.file, BLOCK, 0)
        os.fsync(self.file)
        if self.path.exists():
            threading.Thread(target=self.poll, daemon=True).start()
        threading.Thread(target=self.sync, daemon=True).start()

    def poll(self):
        while True:
            self.polls.poll(time.monotonic(), *counters(self.path))
            time.sleep(POLL_SECONDS)

    def sync(self):
        """Writes over the same block again and again, as the engine's log writes over its segments."""
        while True:
            began = time.monotonic()
            os.pwrite(self.file, BLOCK, 0)
            os.fdatasync(self.file)
            now = time.monotonic()
            if now - began > SHORT_SECONDS:
                self.syncs.append((began, now))
            forget(self.syncs, now)
            time.sleep(SYNC_PAUSE_SECONDS)

    def stalled(self, seconds):
        """How many of the last `seconds` the disk was stalled."""
        now = time.monotonic()
        return covered([*list(self.polls.found), *list(self.syncs)], now - seconds, now)
