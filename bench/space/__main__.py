"""`make bench-space`: sizes of the files of several data sets in several engines, with the rates of loads and scans.

Data sets: a star schema without keys and with four keys, the same with longer text, readings of sensors, upserts, the insert benchmark, flights (generated,
and those of `make demo`), TPC-H without and with secondary keys, and a web log of 105 columns. cases.py has them and their bars, the
bounds of Teak's files. ROWS rows of each, half as many of sensors and of the web log.

Engines: InnoDB, with ROW_FORMAT=COMPRESSED, and with PAGE_COMPRESSED=1; MyRocks with Snappy, its default, and with zstd; ARCHIVE, Aria,
Teak with each codec, and the same rows as Parquet files (zstd) and, where all columns are numbers, as files of pco.

Each run uses a new server with CACHE (256 MiB) for the engine's cache, confined by a control group to MEMORY (8 GiB, because MyRocks needs
3 GiB and more for a statement of this size) and by taskset to CORES processors. Engines are durable at the end of a statement, apart from those
that have no logs, and otherwise have their default settings. Each repetition begins with another engine.

- Sizes are those of the table's files as allocated (for MyRocks, of all SST files): when the load returns, and after ten more seconds
  without statements. No statement requests a flush, OPTIMIZE, checkpoint or merge. Rows that are still in a memtable or in dirty
  pages then are not in these files, but in a log: `all files` is the growth of the whole data directory since the table was
  created, logs included.
- After a clean stop the sizes are read again, the files are removed from the system's cache, and after a start all columns of all
  rows are read: sums of numbers, lengths of strings, last times, once with cold and three times with warm caches. All engines must return
  the same sums.
- Parquet and pco are written and read by Python programs without a server (parquet.py): pyarrow reads the text, sorts it by the primary
  key, writes with its default settings, and syncs the files. Their memory is not limited. No Python package writes pco into Parquet
  files, so pco is a file for each column.

Directory build/bench/space-TIME has all runs (JSON, CSV), the tables (report.txt), and charts (SVG). `make publish TAKE=space` copies the newest
results to docs/results, and writes the tables of docs/performance.md and the charts docs/images/space*.svg. A run of hours can be divided
by CASES: the newest results include the data sets of earlier runs with the same commit, machine and options.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import time

from bench.load.engines import add_arguments, cases_of, modes_of
from bench.memory.__main__ import size
from bench.memory.figures import write_runs
from bench.sql import run as sql_run
from tests.harness import ROOT

from . import figures
from .cases import CASES
from .run import FORMATS, has_files, note, refusal, run

DEFAULT_ENGINES = ("InnoDB,InnoDB compressed,InnoDB page,RocksDB,RocksDB zstd,ARCHIVE,Aria,Parquet,pco,"
                   "Teak,Teak none,Teak lz4,Teak snappy,Teak zlib,Teak lzma")

# With ten suppliers, the formula of partsupp repeats pairs of keys.
SCALE_MIN = 0.01


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="bench.space", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--scale", type=float, default=0.3, help="of TPC-H")
    parser.add_argument("--memory", type=size, default=8 << 30, help="of the server's process")
    parser.add_argument("--cores", type=int, default=2, help="processors")
    add_arguments(parser, DEFAULT_ENGINES, CASES)
    options = parser.parse_args(arguments)
    options.engines = modes_of(parser, options, FORMATS)
    for name in options.engines:
        if not has_files(name):
            parser.error(f"{name} has no files")
    options.cases = cases_of(parser, options, CASES)
    if options.scale < SCALE_MIN:
        parser.error(f"below scale {SCALE_MIN:g} rows of TPC-H have the same primary key")
    if not 0 < options.cores <= os.cpu_count():
        parser.error(f"this machine has {os.cpu_count()} processors")
    return options


def report(options, runs):
    """Prints the tables; returns whether all runs succeeded and had the same rows."""
    missing = missing_of(options)
    wrong = []
    for case in options.cases:
        notes = {name: note(case, name) for name in options.engines}
        figures.print_case(case, runs, options.engines, notes, missing[case.name])
        definitions = [table.definition.columns for table in case.tables(options)]
        wrong += figures.wrong_answers(case, runs, definitions)
    for line in wrong:
        print(line)
    return not wrong and not any("error" in one for one in runs)


def missing_of(options):
    """{case: {engine: why it is not measured}}."""
    return {case.name: {name: reason for name in options.engines if (reason := refusal(case, name))} for case in options.cases}


def main():
    options = parse()
    # A termination must remove the servers and their control groups, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    os.environ.setdefault("SERVER_TIMEOUT", "3600")
    directory = sql_run.DIRECTORY / time.strftime("space-%Y%m%d-%H%M%S")
    directory.mkdir(parents=True)
    about = {"machine": sql_run.machine(), "date": time.strftime("%Y-%m-%d"),
             "options": {**vars(options), "cases": [case.name for case in options.cases]}}
    if os.getloadavg()[0] > 0.5:
        sql_run.say(f"the machine is busy (load average {os.getloadavg()[0]:.1f}): rates will be rough")
    runs = []
    for repeat in range(options.repeat):
        # Each repetition begins with another engine.
        turn = repeat * len(options.engines) // options.repeat
        for case in options.cases:
            for name in options.engines[turn:] + options.engines[:turn]:
                if refusal(case, name) is None:
                    runs.append({"repeat": repeat, **run(options, name, case)})
                    (directory / "runs.json").write_text(json.dumps({**about, "runs": runs}, indent=1))
    write_runs(directory / "runs.csv", [{name: value for name, value in one.items() if name != "answers"} for one in runs])
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        is_good = report(options, runs)
        print(f"\nMedians of {options.repeat}. All runs: {directory.relative_to(ROOT)}")
    print(text.getvalue(), end="")
    (directory / "report.txt").write_text(text.getvalue())
    results = {**about, **figures.summary(options.cases, runs, options, missing_of(options))}
    # As JSON has it, without tuples and paths.
    results = json.loads(json.dumps(results))
    (directory / "results.json").write_text(json.dumps(results, indent=1))
    newest = sql_run.DIRECTORY / "space.json"
    earlier = json.loads(newest.read_text()) if newest.exists() else None
    newest.write_text(json.dumps(figures.merged(earlier, results), indent=1))
    for figure in figures.PUBLISHED:
        (directory / f"{figure}.svg").write_text(figures.chart(results, figure), encoding="utf-8")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
