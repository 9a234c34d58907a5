"""`make bench-load`: LOAD DATA of several kinds of rows into several engines, alternately; prints medians and ratios.

The server's process is confined by a control group to MEMORY (1 GiB) and by taskset to CORES processors, with CACHE (256
MiB) for the engine's cache. Every engine is durable at the end of a statement, apart from those that have no logs. BLACKHOLE,
which stores nothing, shows the cost of the SQL layer, the floor. InnoDB bulk: unique_checks and foreign_key_checks are 0,
with which InnoDB loads into an empty table without an undo record for each row. RocksDB bulk: rocksdb_bulk_load, which
checks no keys. The cases and the bars are in cases.py.

Times end when the last statement has returned. Bytes written are those of the disk, so nothing else should write to it.
Sizes of the files are as allocated: when the load returns, after ten more seconds without statements, and after a clean
stop. Directory build/bench/load-TIME has all runs (JSON, CSV) and a plot for each number of processors (SVG).
"""

import argparse
import json
import os
import signal
import sys
import time

from bench.memory.__main__ import size
from bench.memory.figures import write_runs
from bench.sql import run as sql_run
from tests.harness import ROOT

from . import figures
from .cases import CASES
from .engines import FLOOR, MODES, add_arguments, cases_of, modes_of
from .run import Run

DEFAULT_ENGINES = "BLACKHOLE,InnoDB,InnoDB bulk,RocksDB,RocksDB bulk,Aria,ARCHIVE,Teak"


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="bench.load", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--key-rows", type=int, help="rows with random keys; default: --rows")
    parser.add_argument("--scale", type=float, default=1, help="of TPC-H")
    parser.add_argument("--memory", type=size, default=1 << 30, help="of the server's process")
    parser.add_argument("--cores", default="2", help="numbers of processors, such as 1,2")
    add_arguments(parser, DEFAULT_ENGINES, CASES)
    options = parser.parse_args(arguments)
    options.engines = modes_of(parser, options)
    options.cases = cases_of(parser, options, CASES)
    options.cores = [int(text) for text in options.cores.split(",")]
    if not 0 < max(options.cores) <= os.cpu_count():
        parser.error(f"this machine has {os.cpu_count()} processors")
    return options


def can_run(case, engine):
    return (MODES[engine].has_keys or not case.has_keys) and (engine != FLOOR or case.has_floor)


def main():
    options = parse()
    # A termination must remove the servers and their control groups, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    os.environ.setdefault("SERVER_TIMEOUT", "3600")
    directory = sql_run.DIRECTORY / time.strftime("load-%Y%m%d-%H%M%S")
    directory.mkdir(parents=True)
    about = {"machine": sql_run.machine(), "options": {**vars(options), "cases": [case.name for case in options.cases]}}
    runs = []
    for repeat in range(options.repeat):
        # Each repetition begins with another engine.
        turn = repeat % len(options.engines)
        for cores in options.cores:
            for case in options.cases:
                for engine in options.engines[turn:] + options.engines[:turn]:
                    if can_run(case, engine):
                        runs.append({"repeat": repeat, **Run(options, cores, engine, case).go()})
                        (directory / "runs.json").write_text(json.dumps({**about, "runs": runs}, indent=1))
    write_runs(directory / "runs.csv", runs)
    for cores in options.cores:
        figures.write_chart(directory / f"rates-{cores}.svg", options.cases, runs, cores, options.engines)
        for case in options.cases:
            figures.print_case(case, runs, cores, options.engines)
    print(f"\nMedians of {options.repeat}. All runs: {directory.relative_to(ROOT)}")
    return 1 if any("error" in run for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
