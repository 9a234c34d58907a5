"""`make bench-rivals`: Teak's engine, embedded, against RocksDB, LMDB, redb and fjall, in turns.

Keys have 16 bytes, values 100 bytes, of which half can be compressed. A transaction (or batch) has 1000 writes and is
durable when it returns; a write replaces the row if it exists. Engines have CACHE (256 MiB) for their caches and
memtables. LMDB has no cache and uses the kernel's, so a control group confines each process to MEMORY, by default twice
CACHE. With ROWS=25000000 the table is ten times the cache. The workloads, in this order:

- ordered: insertions with ascending keys into an empty store.
- random: insertions with random keys into an empty store, which the following workloads use.
- present, absent: reads of random keys that exist, and of keys that do not.
- short, scan: ranges of 100 rows from a random key on, and all rows in order; rows per second.
- updates: writes of a fifth as many random rows as there are.
- deletes: of a tenth of the rows.

A rate ends when the last write is durable. Bytes written (of the disk, so nothing else should write to it) and bytes on disk are measured
then, and after the engine has flushed its memtables and finished background work. At the end the rows are counted and
some are read; wrong ones are an error. Medians over REPEAT runs; all runs are in build/bench/rivals-TIME.json.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.memory.__main__ import size
from bench.memory.confine import Group, Limits, NoControlGroup
from bench.memory.figures import ratios, shown
from bench.sql.report import OURS, print_table
from bench.sql.run import DIRECTORY, machine, say
from tests.harness import BUILD, ROOT

MIB = 1 << 20
PROGRAM = BUILD / "target-rivals" / "release" / "teak-rivals"
ENGINES = ["Teak", "RocksDB", "LMDB", "redb", "fjall"]
WORKLOADS = {"ordered": "ordered inserts", "random": "random inserts", "present": "reads, key present", "absent": "reads, key absent",
             "short": "ranges of 100 rows", "scan": "full scan", "updates": "random updates", "deletes": "deletes"}
MEASURES = [("rate", "rate", "rows/s", 1), ("first_tenth", "  in the first tenth", "rows/s", 1), ("second_tenth", "  in the second tenth", "rows/s", 1),
            ("last_tenth", "  in the last tenth", "rows/s", 1), ("longest", "longest commit", "ms", 1000),
            ("written_at_end_per_row", "bytes written per row at the end", "B", 1), ("written_per_row", "bytes written per row, settled", "B", 1),
            ("disk_at_end", "on disk at the end", "MiB", 1 / MIB), ("disk", "on disk, settled", "MiB", 1 / MIB)]


def with_rates(found):
    """The figures of one workload, with those per row and per second."""
    rows = found["operations"]
    added = {"rate": rows / found["seconds"]}
    for name in ("written_at_end", "written"):
        if name in found:
            added[f"{name}_per_row"] = found[name] / rows
    return {**found, **added}


def summary(runs, workload, engines):
    """{measure: {engine: median}} of a workload."""
    found = {}
    for measure, *_ in MEASURES:
        values = {engine: [run[measure] for run in runs if run["workload"] == workload and run["engine"] == engine and measure in run]
                  for engine in engines}
        if any(values.values()):
            found[measure] = {engine: statistics.median(values[engine]) if values[engine] else None for engine in engines}
    return found


def table(runs, workloads, engines):
    """The header and the lines of the report."""
    others = [engine for engine in engines if engine != OURS] if OURS in engines else []
    lines = []
    for workload in workloads:
        for number, (measure, values) in enumerate(summary(runs, workload, engines).items()):
            _, title, unit, factor = next(one for one in MEASURES if one[0] == measure)
            lines.append([f"{WORKLOADS[workload]}: {title}" if number == 0 else f"  {title}", unit,
                          *(shown(None if values[engine] is None else values[engine] * factor) for engine in engines),
                          *(shown(ratio) for ratio in (ratios(values, engines) if others else []))])
    return ["", "", *engines, *(f"{OURS}/{engine}" for engine in others)], lines


def run_engine(options, engine, workloads):
    """The figures of one process, a dictionary for each workload."""
    directory = Path(options.directory or DIRECTORY) / "rivals"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    os.sync()
    group, prefix, confined = None, [], True
    try:
        group = Group(Limits(options.memory), directory)
        prefix = group.prefix()
    except NoControlGroup as error:
        say(f"WARNING: {engine}: NOT CONFINED, no control group: {error}")
        confined = False
    try:
        done = subprocess.run([*prefix, str(PROGRAM), engine.lower(), str(directory), str(options.rows), str(options.cache), str(options.seed), *workloads],
                              capture_output=True, text=True, check=False)
    finally:
        if group:
            group.remove()
        shutil.rmtree(directory, ignore_errors=True)
    found = [{**with_rates(json.loads(line)), "confined": confined} for line in done.stdout.splitlines()]
    if done.returncode:
        reason = "killed, perhaps because it needs more memory" if done.returncode in (-9, 137) else done.stderr.strip()[-1000:]
        found.append({"workload": "", "error": f"ended with {done.returncode}: {reason}"})
    return found


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="bench.rivals.run", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--cache", type=size, default=256 * MIB)
    parser.add_argument("--memory", type=size, help="of the process; default: twice the cache")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="of the data, for example on another disk")
    options = parser.parse_args(arguments)
    options.memory = options.memory or 2 * options.cache
    by_name = {name.lower(): name for name in ENGINES}
    options.engines = [by_name.get(name.lower()) or parser.error(f"unknown engine {name}: {', '.join(ENGINES)}") for name in options.engines.split(",")]
    options.workloads = options.workloads.split(",")
    for name in options.workloads:
        if name not in WORKLOADS:
            parser.error(f"unknown workload {name}: {', '.join(WORKLOADS)}")
    return options


def main():
    options = parse()
    if not PROGRAM.exists():
        sys.exit(f"error: There is no {PROGRAM.relative_to(ROOT)}: run make bench-rivals.")
    # A termination must remove the control group, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    runs = []
    say(f"{options.rows:,} rows, {options.cache // MIB} MiB of cache, {options.memory // MIB} MiB of memory for each process")
    for repeat in range(options.repeat):
        turn = repeat % len(options.engines)
        for engine in options.engines[turn:] + options.engines[:turn]:
            for found in run_engine(options, engine, options.workloads):
                runs.append({"engine": engine, "repeat": repeat, **found})
                say(f"{engine:8} FAILED: {found['error']}" if "error" in found else f"{engine:8} {found['workload']:8} {found['rate']:12,.0f} rows/s")
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    path = DIRECTORY / time.strftime("rivals-%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps({"machine": machine(), "options": vars(options), "runs": runs}, indent=1))
    print(f"\nmedians of {options.repeat}")
    print_table(*table(runs, options.workloads, options.engines))
    for run in runs:
        if "error" in run:
            print(f"FAILED: {run['engine']}: {run['error']}")
    print(f"\nAll runs: {path.relative_to(ROOT)}")
    return 1 if any("error" in run for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
