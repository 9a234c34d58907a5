"""The samples of a soak run, and the bounds that no sample may cross.

A bound on a latency is checked only if the caller gives one: timing depends on the machine.
"""

import re
from dataclasses import dataclass

MIB = 1 << 20
# The bounds of docs/design/bounds.md.
# Writers and memtables wait at 16 runs. Loads add up to 5.
CHILD_RUNS_MAX = 16 + 5
FILE_RATIO, FILE_SLACK_BYTES = 1.25, 12 * MIB  # of each index file that is written
OWN_SLACK_BYTES = 64 * MIB
# Half is for 1,048,576 ranges of aborted ids, 8 bytes each. The chunks and the pieces of a few snapshots need less than the other half.
WRITE_ID_BYTES_MAX = 16 * MIB
ABORTED_RANGES_MAX = 1 << 20
# Writers are admitted by parts of 128 KiB, and memtables take chunks of up to 2 MiB.
MEMTABLE_SLACK_BYTES = 8 * MIB
# Memtables that are flushed, and that readers still use, may take half of the page cache, in addition to the memtables' share of 2/5.
MEMTABLES_AND_RETIRED_SHARE = 0.7
# Jobs and sorts that have begun are not stopped when other memory grows.
ENGINE_MEMORY_SHARE = 1.125
PENDING_BYTES_MIN = 512 * MIB  # of an index: twice the slowdown

UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SIZE = r"([\d.]+ \w+)"
LISTED = re.compile(f"^(.+): {SIZE} on disk, {SIZE} live, {SIZE} free, {SIZE} pinned,", re.MULTILINE)


def size_range(text):
    """The minimum and the maximum of the bytes that are shown as this text: the digits after the first decimal are cut off."""
    number, unit = text.split()
    shown = float(number) * UNITS[unit]
    return shown, shown + (0 if unit == "bytes" else UNITS[unit] / 10)


def index_files(text):
    """The largest indexes of SHOW ENGINE TEAK STATUS: name to the length of the file (at least), and its live bytes with those
    that readers need (at most)."""
    return {name: (size_range(length)[0], size_range(live)[1] + size_range(pinned)[1])
            for name, length, live, _, pinned in LISTED.findall(text)}


@dataclass
class Bound:
    """`values` returns for a sample {subject: (measured, limit)}. No measured value must be above its limit. Up to `lasting` samples in
    a row may be above it, because the engine reduces some quantities in the background."""

    name: str
    unit: str
    values: object
    lasting: int = 0


def status(sample, name):
    return sample["status"][name]


def one(measure, limit):
    """The values of a bound on one quantity of the server."""
    return lambda sample: {"": (measure(sample), limit(sample))}


def file_values(sample):
    return {name: (length / MIB, (FILE_RATIO * needed + FILE_SLACK_BYTES) / MIB) for name, (length, needed) in sample["index_files"].items()}


def pending_limit(sample):
    """The bound of one index: twice the maximum of 256 MiB, four times the memtables' share and an eighth of the index. The quantity is that
    of all indexes, so the check is stricter."""
    return max(PENDING_BYTES_MIN, 8 * status(sample, "Teak_memtable_bytes_limit"), status(sample, "Teak_file_live_bytes") / 4)


def bounds(options, own_memory):
    """All bounds of a run. `own_memory` is the resident size of the server under a similar load on BLACKHOLE tables."""
    found = [
        Bound("log", "MiB", one(lambda s: s["log_bytes"] / MIB, lambda s: status(s, "Teak_log_bytes_limit") / MIB)),
        Bound("resident memory", "MiB", one(lambda s: s["resident_bytes"] / MIB,
                                            lambda s: (own_memory + status(s, "Teak_cache_bytes_limit") + OWN_SLACK_BYTES) / MIB)),
        Bound("write ids", "KiB", one(lambda s: status(s, "Teak_write_id_memory_bytes") / 1024, lambda s: WRITE_ID_BYTES_MAX / 1024)),
        Bound("runs above one child", "runs", one(lambda s: status(s, "Teak_child_runs_max"), lambda s: CHILD_RUNS_MAX)),
        Bound("memtables", "MiB", one(lambda s: (status(s, "Teak_memtable_bytes") - status(s, "Teak_memtable_retired_bytes")) / MIB,
                                      lambda s: (status(s, "Teak_memtable_bytes_limit") + MEMTABLE_SLACK_BYTES) / MIB)),
        Bound("memtables and retired", "MiB", one(
            lambda s: status(s, "Teak_memtable_bytes") / MIB,
            lambda s: (MEMTABLES_AND_RETIRED_SHARE * status(s, "Teak_cache_bytes_limit") + MEMTABLE_SLACK_BYTES) / MIB)),
        Bound("memory of the engine", "MiB", one(lambda s: status(s, "Teak_memory_bytes") / MIB,
                                                 lambda s: ENGINE_MEMORY_SHARE * status(s, "Teak_cache_bytes_limit") / MIB), lasting=5),
        Bound("pending bytes", "MiB", one(lambda s: status(s, "Teak_pending_flush_bytes") / MIB, lambda s: pending_limit(s) / MIB)),
        Bound("ranges of aborted ids", "", one(lambda s: status(s, "Teak_aborted_ranges"), lambda s: ABORTED_RANGES_MAX)),
        # Moving blocks begins above the bound, and takes some seconds.
        Bound("index file", "MiB", file_values, lasting=30),
    ]
    if options.stall:
        found.append(Bound("longest statement", "ms", one(lambda s: s["longest_ms"], lambda s: options.stall + s["disk_stalled_ms"])))
        found.append(Bound("longest delay of writers", "ms", one(lambda s: s["delay_ms"], lambda s: options.stall + s["disk_stalled_ms"])))
    return found


class Watch:
    """Checks each sample, and stores for each bound the sample that came closest to it. Adds what crosses a bound to `faults`."""

    def __init__(self, bounds_of_run, report_only=(), faults=None):
        self.bounds = bounds_of_run
        self.report_only = set(report_only)
        self.above = {}
        self.worst = {}
        self.faults = [] if faults is None else faults

    def check(self, sample):
        above = {}
        for bound in self.bounds:
            for subject, (measured, limit) in bound.values(sample).items():
                share = measured / limit if limit else 0.0
                if share >= self.worst.get(bound.name, (0.0,))[0]:
                    self.worst[bound.name] = (share, measured, limit, bound.unit, sample["second"], subject)
                if measured <= limit:
                    continue
                times = above[bound.name, subject] = self.above.get((bound.name, subject), 0) + 1
                if times == bound.lasting + 1 and bound.name not in self.report_only:
                    what = f"{bound.name} {subject}".rstrip()
                    self.faults.append(f"second {sample['second']}: {what}: {measured:,.0f} {bound.unit}, the bound is {limit:,.0f}")
        self.above = above

    def restarted(self):
        self.above = {}
