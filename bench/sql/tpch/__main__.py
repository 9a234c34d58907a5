"""`make bench-tpch`: the 22 queries of TPC-H on several engines, alternately, with cold and with warm caches.

Each engine loads the tables into a private server with the same cache: primary keys, keys on the columns of joins, and on
two dates. Each repetition starts with another engine, and runs on one server at a time:

- load: LOAD DATA of all tables, once, before the repetitions; then ANALYZE TABLE, a stop, and the sizes of the files.
- cold: each query after a restart of the server. The system's cache of the server's files is dropped while the server
  is stopped.
- warm: the same query again, WARM times; the median counts. The cache contains only what the earlier executions of this
  query have left there.

The answers of all engines are compared exactly, without regard to the order of rows. Medians of the repetitions and ratios
to the first engine are printed, and the plans (EXPLAIN with the warm cache) that differ from the first engine's. Results go
to build/bench/tpch.json.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

from tests.harness import ROOT, SqlError, wait_for_background_writes

from ..run import DIRECTORY, ENGINES, machine, say, server_of
from . import data, schema

# Without these options InnoDB would load the pages of its last cache at start.
OPTIONS = {"InnoDB": ["--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF"]}
FILES = {"InnoDB": ("tpch/*.ibd",), "Teak": ("tpch/*.teak",), "Before": ("tpch/*.teak",), "RocksDB": ("#rocksdb/*.sst",)}
MIB = 1 << 20
# Columns of EXPLAIN that are the plan; the others are estimates.
PLAN = ("id", "select_type", "table", "type", "key", "key_len", "ref", "Extra")
QUERY_TIMEOUT = 1969  # the server's error number of a statement that took longer than max_statement_time


def drop_system_cache(directory):
    """Removes the files below `directory` from the system's cache of files."""
    os.sync()
    for path in Path(directory).rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Engine:
    """One engine's server and what was measured on it."""

    def __init__(self, options, name):
        self.options, self.name = options, name
        self.sql_name = "Teak" if name == "Before" else name
        self.server = server_of(f"tpch-{options.scale:g}-{name}", options, name, *OPTIONS.get(name, ()), *options.server_option)
        self.mark = self.server.directory / "loaded"
        self.load_seconds = self.mib = None
        self.cold, self.warm, self.plans, self.answers = {}, {}, {}, {}

    def load(self, files):
        if self.options.keep and self.mark.exists():
            self.load_seconds, self.mib = json.loads(self.mark.read_text())
            say(f"{self.name}: the tables of an earlier run")
            return
        self.server.start_empty()
        with self.server.connect() as connection:
            connection.run("CREATE DATABASE tpch")
            connection.run("USE tpch")
            began = time.monotonic()
            for table in schema.TABLES:
                data.load(connection, table, self.sql_name, files)
            self.load_seconds = time.monotonic() - began
            wait_for_background_writes(connection, self.sql_name)
            connection.run(f"ANALYZE TABLE {', '.join(schema.TABLES)}")
        self.server.stop()
        self.mib = self.server.files(*FILES[self.name]) / MIB
        self.mark.write_text(json.dumps([self.load_seconds, self.mib]))
        say(f"{self.name}: loaded in {self.load_seconds:.1f} s, {self.mib:.0f} MiB")

    def timed(self, connection, query):
        """Seconds and sorted rows of a query; infinite seconds and no rows when it took longer than the limit."""
        began = time.monotonic()
        try:
            rows = connection.run(f"SET STATEMENT max_statement_time = {self.options.limit} FOR {query}")
        except SqlError as error:
            if error.number != QUERY_TIMEOUT:
                raise
            return math.inf, None
        return time.monotonic() - began, sorted(rows, key=repr)

    def measure(self, number, query):
        """Restarts the server and runs a query: once with cold caches, then with warm ones."""
        self.server.stop()
        drop_system_cache(self.server.directory / "data")
        self.server.start()
        with self.server.connect("tpch") as connection:
            cold, rows = self.timed(connection, query)
            warm = []
            while len(warm) < self.options.warm:
                seconds, again = self.timed(connection, query)
                warm.append(seconds)
                if again != rows and seconds < math.inf and cold < math.inf:
                    raise RuntimeError(f"query {number} on {self.name}: two executions return different rows")
                rows = rows or again
            plan, names = connection.run_named(f"EXPLAIN {query}")
            self.plans[number] = [{name: (value or b"").decode() for name, value in zip(names, row)} for row in plan]
        self.answers[number] = rows
        self.cold.setdefault(number, []).append(cold)
        self.warm.setdefault(number, []).append(statistics.median(warm))
        return cold, self.warm[number][-1]

    def repetition(self, queries):
        try:
            for number, query in queries.items():
                cold, warm = self.measure(number, query)
                say(f"{self.name:8} query {number:2}: {cold:8.3f} s cold, {warm:8.3f} s warm")
        finally:
            self.server.stop()


def plan_of(rows):
    return [tuple(row[name] for name in PLAN) for row in rows]


def print_plans(engines, numbers):
    first, *others = engines
    for number in numbers:
        for other in others:
            if plan_of(first.plans[number]) == plan_of(other.plans[number]):
                continue
            print(f"\nplan of query {number}:")
            for engine in (first, other):
                print(f"  {engine.name}")
                for row in engine.plans[number]:
                    shown = ["-" if not row[name] else row[name] for name in ("id", "table", "type", "key", "ref", "rows", "Extra")]
                    print("    " + "  ".join(shown))


def print_times(engines, numbers):
    first, *others = engines
    width = 11
    print("query" + "".join(f"{engine.name + when:>{width + 4}}" for when in (" cold", " warm") for engine in engines)
          + "".join(f"{other.name + '/' + first.name + when:>{width + 12}}" for when in (" cold", " warm") for other in others))
    medians = {(engine.name, when): {number: statistics.median(getattr(engine, when)[number]) for number in numbers}
               for engine in engines for when in ("cold", "warm")}
    lines = [(str(number), {key: times[number] for key, times in medians.items()}) for number in numbers]
    lines.append(("sum", {key: sum(times.values()) for key, times in medians.items()}))
    for title, times in lines:
        cells = "".join(f"{times[engine.name, when]:{width + 4}.3f}" for when in ("cold", "warm") for engine in engines)
        ratios = "".join(f"{times[other.name, when] / times[first.name, when]:{width + 12}.2f}"
                         for when in ("cold", "warm") for other in others)
        print(f"{title:>5}{cells}{ratios}")


def wrong_answers(engines, numbers):
    """(query number, engine) of each answer that differs from the first engine's."""
    first, *others = engines
    return [(number, other.name) for number in numbers for other in others
            if None not in (first.answers[number], other.answers[number]) and first.answers[number] != other.answers[number]]


def parse():
    arguments = argparse.ArgumentParser(prog="bench.sql.tpch", description="The queries of TPC-H on several engines.")
    arguments.add_argument("--scale", type=float, default=0.3)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--warm", type=int, default=2, help="executions with warm caches")
    arguments.add_argument("--cache", default="128M")
    arguments.add_argument("--engines", type=lambda text: text.split(","), default=["InnoDB", "Teak"])
    arguments.add_argument("--queries", type=lambda text: [int(part) for part in text.split(",")], help="numbers, all by default")
    arguments.add_argument("--limit", type=int, default=600, help="seconds after which a query is ended")
    arguments.add_argument("--keep", action="store_true", help="leave the loaded tables for the next run, and use those of the last")
    arguments.add_argument("--before", help="another build of the plugin, measured as engine Before")
    arguments.add_argument("--server-option", action="append", default=[], help="for every server, may be repeated")
    options = arguments.parse_args()
    for engine in options.engines:
        if engine not in FILES:
            arguments.error(f"unknown engine {engine}: {', '.join(FILES)}")
    if ("Before" in options.engines) != bool(options.before):
        arguments.error("--before names the plugin of the engine Before")
    return options


def main():
    options = parse()
    queries = data.queries(options.scale)
    if options.queries:
        queries = {number: queries[number] for number in options.queries}
    about = machine()
    say(f"TPC-H at scale {options.scale:g}, {options.repeat} times, {options.cache} of cache, on {about['processor']} "
        f"({about['processors']} processors)")
    if os.getloadavg()[0] > 0.5:
        say(f"the machine is busy (load average {os.getloadavg()[0]:.1f}): times will be rough")
    files = data.files(options.scale)
    engines = [Engine(options, name) for name in options.engines]
    try:
        for engine in engines:
            engine.load(files)
        for repeat in range(options.repeat):
            turn = repeat % len(engines)
            for engine in engines[turn:] + engines[:turn]:
                engine.repetition(queries)
    finally:
        for engine in engines:
            engine.server.stop() if options.keep else engine.server.remove()
    print(f"\nmedians of {options.repeat}, in seconds")
    print_times(engines, queries)
    for engine in engines:
        print(f"{engine.name}: loaded in {engine.load_seconds:.1f} s, {engine.mib:.0f} MiB")
    print_plans(engines, queries)
    wrong = wrong_answers(engines, queries)
    for number, name in wrong:
        print(f"WRONG ANSWER: query {number} on {name}")
    found = {engine.name: {"load_seconds": engine.load_seconds, "mib": engine.mib, "cold": engine.cold, "warm": engine.warm,
                           "plans": engine.plans} for engine in engines}
    path = DIRECTORY / "tpch.json"
    path.write_text(json.dumps({"machine": about, "options": vars(options), "engines": found}, indent=1))
    print(f"\nAll runs: {path.relative_to(ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
