"""The status variables of a server under load, as mysqld_exporter reads them, and the dashboard and alarms that use them.

1. Every `Teak_*` variable is a plain number with a name of letters, digits and underscores, and is documented.
2. While sessions insert, update, delete, roll back, load, alter, optimise, drop, flush and wait for locks, no counter falls, and
   each bucket of a histogram counts at least what the one below it counts. The counters of this work grow.
3. The ages of transactions grow while a snapshot and a writer are open, and return to 0.
4. A statement that finds a damaged block is counted.
5. If promtool is installed: the file of alarms is valid, and its rules fire and do not fire as `alarms.yml` expects.
6. If prometheus-mysqld-exporter is installed: it exports every variable under the expected name, and every metric that
   the dashboard and the alarms use, except those of replicas.

Each of these counts as one test.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from tests.harness import BUILD, ROOT, Server, SqlError, TimeLimit, finish, free_port

from . import expressions, sources

HERE = Path(__file__).parent
UINT64_MAX = (1 << 64) - 1
SAMPLE_SECONDS = 0.02
# Counters that the load of the second test must increase.
GROWING = ["rows_inserted", "rows_updated", "rows_deleted", "transactions_committed", "transactions_rolled_back", "lock_waits",
           "lock_timeouts", "bulk_loads", "bulk_load_rows", "flushes", "flush_bytes_written", "checkpoints", "checkpointed_indexes", "blocks_written",
           "bytes_written", "log_bytes_appended", "log_bytes_written", "log_commits", "log_fsyncs", "data_fsyncs", "cache_hits",
           "filter_checks", "commit_microseconds_count", "commit_microseconds_sum", "statement_microseconds_count", "statement_microseconds_sum"]


class Failure(Exception):
    """A check of this test that failed."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def rows_of_status(connection):
    return [(name.decode(), value.decode()) for name, value in connection.run("SHOW GLOBAL STATUS LIKE 'Teak%'")]


def status(connection):
    return {name: int(value) for name, value in rows_of_status(connection)}


# ---- the load --------------------------------------------------------------------------------------------------------


def write_rows(connection, number):
    """Inserts, updates and deletes rows, and rolls every third transaction back."""
    for step in range(3):
        connection.run("BEGIN")
        connection.run("INSERT INTO t (a, b) SELECT RAND() * 1e9, MD5(RAND()) FROM seq_1_to_500")
        connection.run(f"UPDATE t SET a = a + 1 WHERE id % 100 = {number}")
        connection.run(f"DELETE FROM t WHERE id % 200 = {100 + number} LIMIT 50")
        connection.run("ROLLBACK" if step == 2 else "COMMIT")
    connection.run("SELECT COUNT(*), SUM(a) FROM t WHERE a > 500000000")


def change_tables(connection, number):
    """Loads, alters, optimises and drops a table, and closes files."""
    name = f"other{number}"
    connection.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b CHAR(32)) ENGINE=TEAK")
    connection.run(f"INSERT INTO {name} SELECT seq, seq, MD5(seq) FROM seq_1_to_20000")
    connection.run(f"ALTER TABLE {name} ADD KEY (a), LOCK=NONE")
    connection.run(f"OPTIMIZE TABLE {name}")
    connection.run("FLUSH TABLES")
    connection.run("FLUSH STATUS")
    connection.run("FLUSH ENGINE LOGS")
    connection.run(f"DROP TABLE {name}")


def wait_for_lock(connection, _):
    connection.run("BEGIN")
    connection.run("UPDATE locked SET a = a + 1")
    time.sleep(0.1)
    connection.run("COMMIT")


class Sessions:
    """Sessions that repeat a step until `stop`."""

    def __init__(self, server):
        self.server = server
        self.ended = threading.Event()
        self.faults = []
        steps = [write_rows, write_rows, change_tables, wait_for_lock, wait_for_lock]
        self.threads = [threading.Thread(target=self._run, args=(step, number)) for number, step in enumerate(steps)]

    def _run(self, step, number):
        try:
            with self.server.connect("m") as connection:
                connection.run("SET teak_lock_timeout = 50, teak_bulk_load_threshold = 100000")
                while not self.ended.is_set():
                    try:
                        step(connection, number)
                    except SqlError as error:
                        if not error.conflict:
                            raise
                        connection.run("ROLLBACK")
        except SqlError as error:
            self.faults.append(f"{step.__name__}: {error}")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()


# ---- the tests -------------------------------------------------------------------------------------------------------


class Test:
    def __init__(self, options):
        self.options = options
        self.counters = [name for name, is_counter in sources.documented().items() if is_counter]
        self.server = Server(options.directory, ["--cache=16M", "--teak-log-size-max=32M", "--teak-checkpoint-period=1"])
        self.samples = 0

    def start(self):
        self.server.start_empty()
        with self.server.connect() as connection:
            connection.run("CREATE DATABASE m")
            connection.run("CREATE TABLE m.t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b CHAR(32), KEY (a), UNIQUE KEY (b, id)) ENGINE=TEAK")
            connection.run("CREATE TABLE m.locked (a INT) ENGINE=TEAK")
            connection.run("INSERT INTO m.locked VALUES (1)")

    def variables_are_plain_numbers(self):
        with self.server.connect() as connection:
            rows = rows_of_status(connection)
        for name, value in rows:
            check(re.fullmatch("[A-Za-z0-9_]+", name), f"the name {name!r}")
            check(re.fullmatch("[0-9]+", value) and int(value) <= UINT64_MAX, f"{name} is {value!r}")
        names = [name for name, _ in rows]
        check(len({sources.exported_name(name) for name in names}) == len(names), "two variables have the same exported name")
        differing = sorted(set(names) ^ set(sources.documented()))
        check(not differing, f"only in the server or only in the documentation: {differing}")

    def counters_never_fall(self):
        with self.server.connect("m") as connection, Sessions(self.server) as sessions:
            first = last = status(connection)
            end = time.monotonic() + self.options.seconds
            while time.monotonic() < end and not sessions.faults:
                now = status(connection)
                for name in self.counters:
                    check(now[name] >= last[name], f"{name} fell from {last[name]} to {now[name]}")
                self._check_histograms(now)
                last = now
                self.samples += 1
                time.sleep(SAMPLE_SECONDS)
        check(not sessions.faults, "; ".join(sessions.faults))
        still = [name for name in GROWING if last[f"Teak_{name}"] <= first[f"Teak_{name}"]]
        check(not still, f"these counters did not grow: {still}")

    @staticmethod
    def _check_histograms(values):
        for kind in ("commit", "statement"):
            limits = sorted(int(name.rpartition("_")[2]) for name in values if name.startswith(f"Teak_{kind}_microseconds_below_"))
            counts = [values[f"Teak_{kind}_microseconds_below_{limit}"] for limit in limits] + [values[f"Teak_{kind}_microseconds_count"]]
            check(len(counts) == 10 and counts == sorted(counts), f"the histogram of {kind}s is {counts}")

    def ages_follow_transactions(self):
        with self.server.connect("m") as reader, self.server.connect("m") as writer, self.server.connect("m") as connection:
            reader.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            reader.run("SELECT COUNT(*) FROM t")
            time.sleep(1.1)
            now = status(connection)
            check(now["Teak_oldest_snapshot_seconds"] >= 1, "the age of a snapshot is 0 after a second")
            check(now["Teak_oldest_writer_seconds"] == 0, "a reader counts as a writer")
            writer.run("BEGIN")
            writer.run("UPDATE locked SET a = a + 1")
            time.sleep(1.1)
            now = status(connection)
            check(now["Teak_oldest_writer_seconds"] >= 1, "the age of a writer is 0 after a second")
            check(now["Teak_oldest_snapshot_seconds"] >= now["Teak_oldest_writer_seconds"], "the snapshot is younger than the later writer")
            writer.run("COMMIT")
            reader.run("COMMIT")
            now = status(connection)
            check(now["Teak_oldest_writer_seconds"] == now["Teak_oldest_snapshot_seconds"] == 0, "ages remain after the transactions")
            disk = os.statvfs(self.server.directory / "data")
            check(now["Teak_disk_bytes"] == disk.f_blocks * disk.f_frsize, "the size of the disk")
            check(0 < now["Teak_disk_bytes_free"] < now["Teak_disk_bytes"], "the free bytes of the disk")

    def damage_is_counted(self):
        with self.server.connect("m") as connection:
            connection.run("CREATE TABLE damaged (id INT PRIMARY KEY, b CHAR(32)) ENGINE=TEAK")
            connection.run("INSERT INTO damaged SELECT seq, MD5(seq) FROM seq_1_to_50000")
            check(status(connection)["Teak_corruption_errors"] == 0, "errors without damage")
        self.server.stop()
        file = max((self.server.directory / "data" / "m").glob("damaged*.teak"), key=lambda path: path.stat().st_size)
        with open(file, "r+b") as opened:
            # A part after the superblocks that is larger than a page.
            opened.seek(file.stat().st_size // 3)
            opened.write(b"\xa5" * (file.stat().st_size // 3))
        self.server.start()
        with self.server.connect("m") as connection:
            try:
                connection.run("SELECT SUM(LENGTH(b)) FROM damaged")
                raise Failure("the damage was not found")
            except SqlError as error:
                check(error.number in (1034, 1194), f"the statement failed with {error}")
            check(status(connection)["Teak_corruption_errors"] >= 1, "the error was not counted")

    def rules_are_those_of_prometheus(self):
        for command in (["check", "rules", str(sources.ALARMS)], ["test", "rules", str(HERE / "alarms.yml")]):
            done = subprocess.run(["promtool", *command], cwd=ROOT, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            check(done.returncode == 0, done.stdout)

    def exporter_exports_every_variable(self):
        port = free_port()
        exporter = subprocess.Popen(["prometheus-mysqld-exporter", f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, env={**os.environ, "DATA_SOURCE_NAME": f"root@unix({self.server.socket})/"})
        try:
            exported = dict(re.findall(r"^(\w+)(?:\{[^}]*\})? (\S+)$", self._scrape(port), re.M))
        finally:
            exporter.kill()
            exporter.wait()
        for name in sources.documented():
            check(sources.exported_name(name) in exported, f"{name} is not exported")
        used = {use.metric for _, text in sources.expressions() for use in expressions.uses(text)}
        missing = [metric for metric in used if metric not in exported and not metric.startswith("mysql_slave_status_")]
        check(not missing, f"the exporter lacks {missing}")

    @staticmethod
    def _scrape(port):
        deadline = time.monotonic() + 10
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                    return answer.read().decode()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="time of the load")
    parser.add_argument("--directory", default=str(BUILD / "monitoring"))
    options = parser.parse_args()
    test = Test(options)
    tests = [test.variables_are_plain_numbers, test.counters_never_fall, test.ages_follow_transactions, test.damage_is_counted]
    for program, needing in (("promtool", test.rules_are_those_of_prometheus), ("prometheus-mysqld-exporter", test.exporter_exports_every_variable)):
        if shutil.which(program):
            tests.append(needing)
        else:
            print(f"{needing.__name__}: skipped, {program} is not installed")
    passed = failed = 0
    with TimeLimit(120 + options.seconds, [test.server]) as limit:
        test.start()
        for one in tests:
            try:
                one()
                passed += 1
                print(f"{one.__name__}: ok", flush=True)
            except (Failure, SqlError, OSError) as error:
                failed += 1
                print(f"{one.__name__}: FAILED: {error}", flush=True)
    for fault in limit.faults:
        failed += 1
        print(f"FAILED: {fault}")
    if failed:
        print(f"The server's directory: {options.directory}")
        test.server.stop()
    else:
        test.server.remove()
    return finish(passed, failed, f"{test.samples} samples", f"{len(test.counters)} counters")


if __name__ == "__main__":
    sys.exit(main())
