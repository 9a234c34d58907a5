"""`make bench`: the same SQL on several engines, on empty private servers, alternately; prints medians and ratios.

Every run of a workload uses a new server and data directory. All engines get the same cache size and otherwise their
default settings, so every engine is durable at commit. Workloads:

- load, load_keys: LOAD DATA of star-schema facts (18 columns, one of them a comment of ten words), without keys and with
  four secondary keys. Then, after a restart, full scans that sum columns that are in no key.
- add_keys: the same facts are loaded without keys; then the four secondary keys are built by two ALTER TABLE
  ... ALGORITHM=NOCOPY: one key by the first, three keys by the second.
- insert: INSERT statements of 1000 rows, an AUTO_INCREMENT primary key and three random secondary keys.
- point: prepared SELECTs by primary key, and full scans, on a table that fits the cache.

Times end when the statement returns. Processor time is the server's, background work included. Bytes on disk are the
table's files as allocated: when the load returns, after ten more seconds without statements, and after a clean stop.
Bytes written are those of the disk, those of other processes included, up to the moment when the engine has written its
dirty pages. The benchmark requests these writes only after it has read the sizes of the idle server. BLACKHOLE, which stores
nothing, shows the cost of the SQL layer. Results go to build/bench/*.json.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.harness import BUILD, ROOT, Server, SqlError, wait_for_background_writes

from . import report, shapes

DIRECTORY = BUILD / "bench"
# name: (plugin, options, files of a table in database `bench`, files of the log)
ENGINES = {
    "BLACKHOLE": ("ha_blackhole", [], (), ()),
    "InnoDB": (None, [], ("bench/*.ibd",), ("ib_logfile0",)),
    "Teak": ("ha_teak", [], ("bench/*.teak",), ("teak.log.*",)),
    # Another build of the plugin, named by --before.
    "Before": ("ha_teak", [], ("bench/*.teak",), ("teak.log.*",)),
    # A statement of two million rows exceeds the default limit of RocksDB's row locks.
    "RocksDB": ("ha_rocksdb", ["--rocksdb-max-row-locks=1073741824"], ("#rocksdb/*.sst",), ("#rocksdb/*.log",)),
}
WORKLOADS = ["load", "load_keys", "add_keys", "insert", "point"]
POINT_ROWS_MAX = 500_000
# Seconds without statements before the sizes of an idle server are read.
IDLE_SECONDS = 10
SCAN = {"lineorder": "SELECT COUNT(*), SUM(lo_revenue), SUM(lo_supplycost), SUM(lo_quantity) FROM lineorder",
        "purchases": "SELECT COUNT(*), SUM(price), SUM(register) FROM purchases"}


def say(text):
    print(f"-- {text}", flush=True)


def data_file(options, shape, rows, *extra, suffix=None):
    """The path of the generated file. Reuses that of an earlier run with the same shape, number of rows, seed and suffix."""
    generator = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "teak-generate"
    path = DIRECTORY / "data" / f"{shape}-{rows}-{options.seed}{suffix or ('.sql' if extra else '.tsv')}"
    if not path.exists():
        if not generator.exists():
            sys.exit("error: There is no teak-generate: run make bench, or cargo build --release -p teak-bench.")
        say(f"generating {rows:,} rows: {path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        subprocess.run([str(generator), shape, "--rows", str(rows), "--seed", str(options.seed), "--output", str(new),
                        *extra], check=True)
        new.rename(path)
    return path


def build_client():
    client = DIRECTORY / "client"
    source = ROOT / "bench" / "sql" / "client.c"
    if not client.exists() or client.stat().st_mtime < source.stat().st_mtime:
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        flags = subprocess.run(["mariadb_config", "--cflags", "--libs"], check=True, capture_output=True, text=True)
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(client), str(source),
                        *flags.stdout.split()], check=True)
    return client


def client(server, *arguments):
    """The output of the C client for these arguments, on the server's database `bench`."""
    done = subprocess.run([str(build_client()), arguments[0], server.socket, "bench", *map(str, arguments[1:])],
                          check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def server_of(directory, options, engine, *more):
    """A private server with this engine, and the cache size of the options."""
    plugin, extra, *_ = ENGINES[engine]
    chosen = [f"--cache={options.cache}", *extra, *more]
    if engine == "Before":
        chosen.append(f"--teak-plugin={options.before}")
    elif engine != "Teak":
        chosen += ["--no-teak", *([f"--plugin={plugin}"] if plugin else [])]
    return Server(DIRECTORY / directory, chosen)


class Run:
    """One run of a workload with one engine on a new server."""

    def __init__(self, options, engine, workload):
        *_, self.table_files, self.log_files = ENGINES[engine]
        self.options, self.engine, self.workload = options, engine, workload
        self.sql_engine = "Teak" if engine == "Before" else engine
        self.server = server_of("server", options, engine, *options.server_option)
        self.result = {"workload": workload, "engine": engine, "rows": options.rows}

    def memory(self):
        """The server's maximum resident memory, in bytes."""
        for line in Path(f"/proc/{self.server.pid()}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return None

    def measure_load(self, connection, work):
        """Runs `work`, which returns rows and seconds. Records rate, processor time, bytes written and file sizes."""
        before, spent = self.server.bytes_written(), self.server.cpu_seconds()
        rows, seconds = work()
        self.result.update(rows=rows, seconds=seconds, rows_per_second=rows / seconds,
                           bytes_written_at_end=self.server.bytes_written() - before)
        self.measure_size("disk_bytes_at_end")
        time.sleep(IDLE_SECONDS)
        self.measure_size("disk_bytes_idle")
        wait_for_background_writes(connection, self.sql_engine)
        self.result.update(bytes_written=self.server.bytes_written() - before, memory_bytes=self.memory(),
                           cpu_per_row=(self.server.cpu_seconds() - spent) / rows)

    def measure_size(self, name):
        """Records the size of the table's files under this name, if the engine has any."""
        if self.table_files:
            self.result[name] = self.server.files(*self.table_files)

    def measure_files(self):
        """Stops the server and measures the sizes of the files."""
        self.server.stop()
        if self.engine == "BLACKHOLE":
            return
        self.result.update(disk_bytes=self.server.files(*self.table_files), log_bytes=self.server.files(*self.log_files))

    def scan(self, connection, table, times):
        seconds = []
        for _ in range(times):
            began = time.monotonic()
            found = connection.run(SCAN[table])[0]
            seconds.append(time.monotonic() - began)
        self.result["scan_result"] = [field.decode() for field in found]
        return int(found[0]), seconds

    def load(self):
        keys = shapes.STAR_KEYS if self.workload == "load_keys" else ""
        path = data_file(self.options, "star", self.options.rows)
        with self.server.connect("bench") as connection:
            connection.run(shapes.create("lineorder", shapes.STAR_COLUMNS, keys, self.sql_engine))

            def work():
                began = time.monotonic()
                rows = connection.run(f"LOAD DATA INFILE '{path}' INTO TABLE lineorder")
                return rows, time.monotonic() - began
            self.measure_load(connection, work)
        self.measure_files()
        if self.engine == "BLACKHOLE":
            return
        self.server.start()
        with self.server.connect("bench") as connection:
            rows, seconds = self.scan(connection, "lineorder", 4)
            self.result.update(scan_first_rows_per_second=rows / seconds[0],
                               scan_rows_per_second=rows / statistics.median(seconds[1:]))

    def add_keys(self):
        path = data_file(self.options, "star", self.options.rows)
        with self.server.connect("bench") as connection:
            connection.run(shapes.create("lineorder", shapes.STAR_COLUMNS, "", self.sql_engine))
            rows = connection.run(f"LOAD DATA INFILE '{path}' INTO TABLE lineorder")
            wait_for_background_writes(connection, self.sql_engine)
            self.scan(connection, "lineorder", 1)
            one, *more = shapes.STAR_KEYS.strip(", \n").split(", ")

            def work():
                began = time.monotonic()
                connection.run(f"ALTER TABLE lineorder ADD {one}, ALGORITHM=NOCOPY")
                self.result["one_key_seconds"] = time.monotonic() - began
                began = time.monotonic()
                connection.run(f"ALTER TABLE lineorder {', '.join('ADD ' + key for key in more)}, ALGORITHM=NOCOPY")
                self.result["three_keys_seconds"] = time.monotonic() - began
                return rows, self.result["one_key_seconds"] + self.result["three_keys_seconds"]
            self.measure_load(connection, work)
            self.scan(connection, "lineorder", 1)
            say(f"one key {self.result['one_key_seconds']:.2f} s, three keys {self.result['three_keys_seconds']:.2f} s")
        self.measure_files()

    def insert(self):
        path = data_file(self.options, "purchases", self.options.rows, "--insert",
                         f"purchases {shapes.PURCHASES_FIELDS}", "--batch", "1000")
        with self.server.connect("bench") as connection:
            connection.run(shapes.create("purchases", shapes.PURCHASES_COLUMNS, shapes.PURCHASES_KEYS, self.sql_engine))

            def work():
                done = client(self.server, "statements", path)
                self.result["longest"] = done["longest"]
                return done["rows"], done["seconds"]
            self.measure_load(connection, work)
            if self.engine != "BLACKHOLE":
                self.scan(connection, "purchases", 1)
        self.measure_files()

    def point(self):
        rows = min(self.options.rows, POINT_ROWS_MAX)
        path = data_file(self.options, "purchases", rows)
        with self.server.connect("bench") as connection:
            connection.run(shapes.create("purchases", shapes.PURCHASES_COLUMNS, "", self.sql_engine))
            connection.run(f"LOAD DATA INFILE '{path}' INTO TABLE purchases {shapes.PURCHASES_FIELDS}")
            wait_for_background_writes(connection, self.sql_engine)
            if self.engine != "BLACKHOLE":
                counted, seconds = self.scan(connection, "purchases", 4)
                self.result["scan_rows_per_second"] = counted / statistics.median(seconds[1:])
        spent = self.server.cpu_seconds()
        done = client(self.server, "point", "SELECT * FROM purchases WHERE id = ?", rows, self.options.point_seconds, self.options.seed)
        self.result["cpu_per_row"] = (self.server.cpu_seconds() - spent) / (done["statements"] or 1)
        if self.engine != "BLACKHOLE" and done["rows"] != done["statements"]:
            raise RuntimeError(f"{done['statements']} rows asked for, {done['rows']} found")
        self.result.update(rows=done["statements"], seconds=done["seconds"],
                           rows_per_second=done["statements"] / done["seconds"])
        self.server.stop()

    def go(self):
        self.server.remove()
        os.sync()  # dirty pages of the previous run must not slow this one down
        try:
            self.server.start()
            with self.server.connect() as connection:
                connection.run("CREATE DATABASE bench")
            {"load": self.load, "load_keys": self.load, "add_keys": self.add_keys, "insert": self.insert, "point": self.point}[self.workload]()
        except (SqlError, RuntimeError) as error:
            say(f"{self.workload} on {self.engine} FAILED: {error}\n{self.server.log_tail(20)}")
            self.result = {"workload": self.workload, "engine": self.engine, "error": str(error)}
        finally:
            self.server.remove()
        return self.result


def same_answers(runs):
    """A line for each engine whose sums over a loaded table differ from InnoDB's (or from the first engine's)."""
    wrong = []
    for workload in WORKLOADS:
        answers = {run["engine"]: run["scan_result"] for run in runs
                   if run["workload"] == workload and "scan_result" in run}
        if answers:
            right = answers.get(report.REFERENCE, next(iter(answers.values())))
            wrong += [f"{workload} on {engine}: {answer}, not {right}" for engine, answer in answers.items()
                      if answer != right]
    return wrong


def machine():
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    memory = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()
                  if line.startswith("MemTotal"))
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
                            check=False).stdout.strip()
    version = (BUILD / "mariadb-version").read_text().strip() if (BUILD / "mariadb-version").exists() else ""
    return {"processor": model, "processors": os.cpu_count(), "memory_bytes": memory * 1024, "commit": commit,
            "mariadb": version, "system": platform.platform()}


def engines_of(arguments, options):
    """The names of the engines in the options, in any case, as in ENGINES."""
    by_name = {name.lower(): name for name in ENGINES} | {"myrocks": "RocksDB"}
    engines = [by_name.get(name.lower()) or arguments.error(f"unknown engine {name}") for name in options.engines.split(",")]
    if ("Before" in engines) != bool(options.before):
        arguments.error("--before names the plugin of the engine Before")
    return engines


def parse():
    arguments = argparse.ArgumentParser(description="SQL benchmarks of several engines, alternately on fresh servers.")
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--engines", default="BLACKHOLE,InnoDB,Teak", help="of " + ", ".join(ENGINES))
    arguments.add_argument("--workloads", default=",".join(WORKLOADS))
    arguments.add_argument("--cache", default="256M")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--point-seconds", type=float, default=5)
    arguments.add_argument("--before", help="another build of the plugin, measured as engine Before")
    arguments.add_argument("--server-option", action="append", default=[], help="for every server, may be repeated")
    options = arguments.parse_args()
    options.engines = engines_of(arguments, options)
    options.workloads = options.workloads.split(",")
    for name in options.workloads:
        if name not in WORKLOADS:
            arguments.error(f"unknown workload {name}: {', '.join(WORKLOADS)}")
    return options


def main():
    options = parse()
    build_client()
    runs = []
    about = machine()
    say(f"{options.rows:,} rows, {options.repeat} times, {options.cache} of cache each, on {about['processor']}"
        f" ({about['processors']} processors)")
    if os.getloadavg()[0] > 0.5:
        say(f"the machine is busy (load average {os.getloadavg()[0]:.1f}): ratios of times will be rough")
    for repeat in range(options.repeat):
        for workload in options.workloads:
            # Each repetition begins with another engine.
            turn = repeat % len(options.engines)
            for engine in options.engines[turn:] + options.engines[:turn]:
                if engine == "BLACKHOLE" and workload in ("add_keys", "point"):
                    continue
                began = time.monotonic()
                result = Run(options, engine, workload).go()
                runs.append({"repeat": repeat, **result})
                if "error" not in result:
                    say(f"{repeat + 1}/{options.repeat} {workload:10} {engine:10} {result['rows_per_second']:>12,.0f} rows/s"
                        f"   ({time.monotonic() - began:.0f} s in all)")
    measures = report.summary(runs, options.engines)
    path = DIRECTORY / time.strftime("%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps({"machine": about, "options": vars(options), "runs": runs, "measures": measures}, indent=1))
    shutil.copy(path, DIRECTORY / "latest.json")
    print()
    report.print_report(measures, options.engines)
    wrong = same_answers(runs)
    for line in wrong:
        print(f"WRONG ANSWER: {line}")
    print(f"\nAll runs: {path.relative_to(ROOT)}")
    return 1 if wrong or any("error" in run for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
