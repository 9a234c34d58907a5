"""The samples of a soak run, and the bounds that no sample may cross.

A bound on a latency is checked only if the caller gives one: timing depends on the machine.
"""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass
class Bound:
    """`measure` of a sample must not be above `limit` of the same sample. `lasting` samples in a row may be above it: the engine
    brings some quantities back in the background."""

    name: str
    measure: object
    limit: object
    lasting: int = 0


def status(sample, name):
    return sample["status"][name]


def bounds(options, own_memory):
    """All bounds of a run; `own_memory` is the resident size of the same server under the same load without rows."""
    found = [
        Bound("log files", lambda s: s["log_bytes"], lambda s: status(s, "Teak_log_bytes_limit")),
        Bound("resident memory", lambda s: s["resident_bytes"],
              lambda s: own_memory + status(s, "Teak_cache_bytes_limit") + 64 * MIB),
        Bound("memory of write ids", lambda s: status(s, "Teak_write_id_bytes"), lambda s: 16 * MIB),
        Bound("runs above one child", lambda s: status(s, "Teak_runs_per_child_max"), lambda s: status(s, "Teak_runs_per_child_limit")),
        Bound("index files", lambda s: s["index_bytes"],
              lambda s: 1.25 * status(s, "Teak_live_bytes") + options.slack_per_file * s["index_files"], lasting=30),
    ]
    if options.stall:
        found.append(Bound("longest statement, ms", lambda s: s["longest_ms"], lambda s: options.stall))
    return found


class Watch:
    """Checks each sample, and remembers the closest approach to each bound."""

    def __init__(self, bounds_of_run):
        self.bounds = bounds_of_run
        self.above = {bound.name: 0 for bound in bounds_of_run}
        self.worst = {}
        self.faults = []

    def check(self, sample):
        for bound in self.bounds:
            measured, limit = bound.measure(sample), bound.limit(sample)
            share = measured / limit if limit else 0.0
            if share >= self.worst.get(bound.name, (0.0,))[0]:
                self.worst[bound.name] = (share, measured, limit, sample["second"])
            if measured <= limit:
                self.above[bound.name] = 0
                continue
            self.above[bound.name] += 1
            if self.above[bound.name] == bound.lasting + 1:
                self.faults.append(f"second {sample['second']}: {bound.name}: {measured:,.0f}, the bound is {limit:,.0f}")

    def restarted(self):
        self.above = dict.fromkeys(self.above, 0)
