"""`make bench-memory`: tables of several times the memory, on several engines, in turns.

The server's process is confined by a control group to MEMORY (1 GiB), with CACHE (256 MiB) for the engine's cache. The
tables have ROWS rows with 200 random bytes each, by default five times the memory. Every engine is durable at commit.
With SLOW=1 each workload also runs with half of the memory, 64 MiB of cache, direct I/O, and a disk that is limited to
3,000 reads and writes and 125 MB per second.

The workloads are described in workloads.py. For each, the rate to the end is recorded: rates of the first, second and
last tenth of the rows, seconds without progress, gaps and latencies of statements, bytes written per row (of the disk,
so nothing else should write to it), and the sizes of the files, both when the load ends, after the background writes, and
after a clean stop (Teak's memtables may be written only then). The table of a workload has medians over REPEAT runs. The directory build/bench/beyond-memory-TIME has the figures of all runs, the statements of each
second (CSV) and plots of the rates (SVG).
"""

import argparse
import json
import os
import signal
import sys
import time

from bench.sql import run as sql_run
from tests.harness import ROOT

from . import figures
from .confine import Limits
from .run import SERVER_TIMEOUT, Run, Setting
from .workloads import GROUPS, PAD_BYTES, WORKLOADS

TABLE_TO_MEMORY = 5
SLOW_OPERATIONS, SLOW_BYTES, SLOW_CACHE = 3_000, 125_000_000, 64 << 20
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    """A number of bytes, such as 256M, 1G or 1GiB."""
    text = text.strip().upper().removesuffix("IB").strip()
    unit = UNITS.get(text[-1:])
    return int(float(text[:-1]) * unit) if unit else int(text)


def settings(options):
    """The settings of the runs: confined memory, and with --slow also a slow disk."""
    def rows(memory):
        return options.rows or -(-TABLE_TO_MEMORY * memory // PAD_BYTES)
    found = [Setting("memory", Limits(options.memory), options.cache, rows(options.memory))]
    if options.slow:
        memory = options.memory // 2
        found.append(Setting("slow disk", Limits(memory, SLOW_OPERATIONS, SLOW_BYTES), min(options.cache, SLOW_CACHE), rows(memory), True))
    return found


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="bench.memory", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--memory", type=size, default=1 << 30, help="of the server's process")
    parser.add_argument("--cache", type=size, default=256 << 20)
    parser.add_argument("--rows", type=int, help="rows of a table; default: five times the memory")
    parser.add_argument("--engines", default="Teak,InnoDB,RocksDB")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--slow", action="store_true", help="also with half of the memory and a slow disk")
    parser.add_argument("--read-seconds", type=float, default=30, help="of each kind of point read")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="of the server's data, for example on another disk")
    parser.add_argument("--before", help="another build of the plugin, measured as engine Before")
    parser.add_argument("--server-option", action="append", default=[], help="for every server, may be repeated")
    options = parser.parse_args(arguments)
    options.engines = sql_run.engines_of(parser, options)
    options.workloads = options.workloads.split(",")
    for name in options.workloads:
        if name not in WORKLOADS:
            parser.error(f"unknown workload {name}: {', '.join(WORKLOADS)}")
    return options


class Results:
    """Writes the files of the results after each run."""

    def __init__(self, options):
        self.options, self.runs, self.series = options, [], {}
        self.directory = sql_run.DIRECTORY / time.strftime("beyond-memory-%Y%m%d-%H%M%S")
        self.directory.mkdir(parents=True)
        self.about = {"machine": sql_run.machine(), "options": dict(vars(options))}

    def add(self, setting, engine, repeat, workload, found, series):
        self.runs.append({"setting": setting.name, "workload": workload, "engine": engine, "repeat": repeat, **found})
        name = f"{setting.name.replace(' ', '-')}-{workload}"
        if series:
            figures.write_series(self.directory / f"{name}-{engine}-{repeat}.csv", series)
        if series and repeat == 0:
            shown = self.series.setdefault(name, {})
            shown[engine] = series[""]
            figures.write_plot(self.directory / f"{name}.svg", WORKLOADS[workload].title, shown)
        figures.write_runs(self.directory / "runs.csv", self.runs)
        (self.directory / "runs.json").write_text(json.dumps({**self.about, "runs": self.runs}, indent=1))

    def print(self, all_settings):
        for setting in all_settings:
            print(f"\n== {setting.about()}; medians of {self.options.repeat}")
            for engine, note in dict.fromkeys((run["engine"], note) for run in self.runs if run["setting"] == setting.name for note in run["notes"]):
                print(f"WARNING: {engine}: {note}")
            for workload in self.options.workloads:
                figures.print_workload(WORKLOADS[workload].title, self.runs, setting.name, workload, self.options.engines)
        print(f"\nAll runs: {self.directory.relative_to(ROOT)}")


def main():
    options = parse()
    # A termination must remove the servers and their control groups, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    os.environ.setdefault("SERVER_TIMEOUT", str(SERVER_TIMEOUT))
    sql_run.build_client()
    results, all_settings = Results(options), settings(options)
    for setting in all_settings:
        sql_run.say(setting.about())
        for repeat in range(options.repeat):
            turn = repeat % len(options.engines)
            for group in GROUPS:
                names = [workload.name for workload in group if workload.name in options.workloads]
                # Each repetition begins with another engine.
                for engine in options.engines[turn:] + options.engines[:turn] if names else []:
                    for found in Run(options, setting, engine).go(names):
                        results.add(setting, engine, repeat, *found)
    results.print(all_settings)
    return 1 if any("error" in run for run in results.runs) else 0


if __name__ == "__main__":
    sys.exit(main())
