"""The samples of a soak run, and the bounds that no sample may cross.

A bound on a latency is checked only if the caller gives one: timing depends on the machine.
"""

from dataclasses import dataclass

MIB = 1 << 20
# docs/design/memory.md and space.md have the bounds.
CHILD_RUNS_MAX = 24  # writers stop at 16, but memtables that are already frozen still add runs
FILE_SLACK_MIB = 12 * 14  # 12 MiB for each of 14 large indexes


@dataclass
class Bound:
    """`measure` of a sample must not be above `limit` of the same sample. Up to `lasting` samples in a row may be above it, because the
    engine reduces some quantities in the background."""

    name: str
    unit: str
    measure: object
    limit: object
    lasting: int = 0


def status(sample, name):
    return sample["status"][name]


def bounds(options, own_memory):
    """All bounds of a run; `own_memory` is the resident size of the same server under the same load without rows."""
    found = [
        Bound("log", "MiB", lambda s: s["log_bytes"] / MIB, lambda s: status(s, "Teak_log_bytes_limit") / MIB),
        Bound("resident memory", "MiB", lambda s: s["resident_bytes"] / MIB,
              lambda s: (own_memory + status(s, "Teak_cache_bytes_limit")) / MIB + 64),
        Bound("write ids", "KiB", lambda s: status(s, "Teak_write_id_memory_bytes") / 1024, lambda s: 16 * 1024),
        Bound("runs above one child", "runs", lambda s: status(s, "Teak_child_runs_max"), lambda s: CHILD_RUNS_MAX),
        # While an index is written, its file may exceed 1.25 times the live bytes by 12 MiB.
        Bound("index files", "MiB", lambda s: status(s, "Teak_file_bytes") / MIB,
              lambda s: 1.25 * (status(s, "Teak_file_live_bytes") + status(s, "Teak_file_pinned_bytes")) / MIB + FILE_SLACK_MIB, lasting=30),
    ]
    if options.stall:
        found.append(Bound("longest statement", "ms", lambda s: s["longest_ms"], lambda s: options.stall))
    return found


class Watch:
    """Checks each sample, and stores for each bound the sample that came closest to it."""

    def __init__(self, bounds_of_run, report_only=()):
        self.bounds = bounds_of_run
        self.report_only = set(report_only)
        self.above = {bound.name: 0 for bound in bounds_of_run}
        self.worst = {}
        self.faults = []

    def check(self, sample):
        for bound in self.bounds:
            measured, limit = bound.measure(sample), bound.limit(sample)
            share = measured / limit if limit else 0.0
            if share >= self.worst.get(bound.name, (0.0,))[0]:
                self.worst[bound.name] = (share, measured, limit, bound.unit, sample["second"])
            if measured <= limit:
                self.above[bound.name] = 0
                continue
            self.above[bound.name] += 1
            if self.above[bound.name] == bound.lasting + 1 and bound.name not in self.report_only:
                self.faults.append(f"second {sample['second']}: {bound.name}: {measured:,.0f} {bound.unit}, the bound is {limit:,.0f}")

    def restarted(self):
        self.above = dict.fromkeys(self.above, 0)
