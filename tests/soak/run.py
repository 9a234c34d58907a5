"""`make soak MINUTES=`: a mixed load for hours, together with what delays merges, checkpoints and the trimming of the log.

The load: writers, readers, a dump whose snapshot never ends, an idle transaction, an idle HANDLER, ADD KEY and DROP KEY
in turns, KILL, many tables with few writes, and kill -9 of the server every few minutes. Once a second a sample is
taken: log and index files, memory, status variables, latencies of sessions that wait for no lock. The run fails if a
bound is crossed (bounds.py), a session gets an unexpected error, the rows of a snapshot change, the sums of the accounts
are wrong after a kill, or CHECK TABLE finds a fault at the end.

Samples go to build/soak/samples.csv. The run counts as one test.
"""

import argparse
import csv
import multiprocessing
import queue
import random
import sys
import time
from pathlib import Path

from tests.harness import BUILD, Server, SqlError, create_tables, finish
from tests.harness.bank import Bank

from . import sessions
from .bounds import Watch, bounds, index_files
from .disk import Disk
from .latency import REPORT_SECONDS, Histogram

# Columns of samples.csv from the server's status variables.
VARIABLES = ["Teak_log_bytes_used", "Teak_log_bytes_limit", "Teak_log_stops", "Teak_cache_bytes_limit", "Teak_cache_bytes_used",
             "Teak_memory_bytes", "Teak_memory_node_bytes", "Teak_memtable_bytes", "Teak_memtable_bytes_limit", "Teak_memtable_retired_bytes",
             "Teak_pending_flush_bytes", "Teak_child_runs_max",
             "Teak_write_id_memory_bytes", "Teak_aborted_ids", "Teak_aborted_ranges", "Teak_file_bytes", "Teak_file_live_bytes", "Teak_file_pinned_bytes",
             "Teak_moved_bytes", "Teak_writer_stalls", "Teak_writer_stall_microseconds", "Teak_writer_stall_longest_microseconds",
             "Teak_writer_stops", "Teak_checkpoints",
             "Teak_bytes_written", "Teak_log_bytes_written"]
MEASURES = ["second", "statements", "p50_ms", "p99_ms", "p999_ms", "longest_ms", "delay_ms", "disk_stalled_ms", "log_bytes",
            "resident_bytes"]
FAULTS_SHOWN = 12


class Soak:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.directory = Path(options.directory).absolute()
        self.server = Server(self.directory / "server", [f"--cache={options.cache}", "--innodb-fast-shutdown=1", *options.server_option])
        self.context = multiprocessing.get_context("fork")
        self.queue = self.context.Queue()
        self.faults, self.kills, self.samples, self.statements = [], 0, 0, 0
        self.faults_shown = 0
        self.all = Histogram()
        self.disk, self.sampled = None, 0.0
        self.longest_delay = 0

    # ---- load ----------------------------------------------------------------------------------------------------------

    def create(self, engine):
        with self.server.connect() as connection:
            create_tables(connection, sessions.DATABASE, sessions.TABLES, engine)
            for number in range(self.options.tables):
                connection.run(f"CREATE TABLE trickle_{number} (id INT PRIMARY KEY, n BIGINT, KEY (n)) ENGINE={engine}")

    def sessions(self):
        options = self.options
        pause = {"pause": options.pause / 1000}
        found = [(sessions.Writer, f"writer-{n}", pause) for n in range(options.writers)]
        found += [(sessions.Reader, f"reader-{n}", pause) for n in range(options.readers)]
        found += [(sessions.Trickler, f"trickler-{n}", {"tables": options.tables}) for n in range(2 if options.tables else 0)]
        found += [(sessions.Probe, f"probe-{n}", {}) for n in range(2)]
        found += [(sessions.Teller, f"teller-{n}", pause) for n in range(2)]
        return found + [(sessions.Dump, "dump", {}), (sessions.IdleSnapshot, "idle snapshot", {}), (sessions.IdleHandler, "idle handler", {}),
                        (sessions.KeyBuilder, "key builder", {}), (sessions.Killer, "killer", {})]

    def start_sessions(self, chosen, stopped):
        processes = [self.context.Process(target=sessions.work, daemon=True, args=(
            kind, (self.server.socket, self.queue, name, self.options.seed), keywords, stopped)) for kind, name, keywords in chosen]
        for process in processes:
            process.start()
        return processes

    @staticmethod
    def end_sessions(processes, stopped):
        stopped.set()
        for process in processes:
            process.join(60)
            if process.is_alive():
                process.kill()

    def own_memory(self):
        """The resident size of the server under the load of writers, readers and tricklers on BLACKHOLE tables, all of which are open."""
        self.server.options.append("--plugin=ha_blackhole")
        self.server.start_empty(self.directory)
        self.create("BLACKHOLE")
        with self.server.connect(sessions.DATABASE) as connection:
            for number in range(self.options.tables):
                connection.run(f"SELECT n FROM trickle_{number}")
        stopped = self.context.Event()
        processes = self.start_sessions([s for s in self.sessions() if s[0] in (sessions.Writer, sessions.Reader, sessions.Trickler)], stopped)
        time.sleep(self.options.baseline)
        memory = self.server.memory()
        self.end_sessions(processes, stopped)
        self.messages()
        return memory

    # ---- samples -------------------------------------------------------------------------------------------------------

    def messages(self):
        """The probes' latencies since the last call, and the number of all statements. Stores the faults that sessions report."""
        histogram, statements = Histogram(), 0
        while True:
            try:
                name, counts, longest = self.queue.get_nowait()
            except queue.Empty:
                return histogram, statements
            if counts is None:
                self.faults.append(longest)
                continue
            statements += sum(counts.values())
            if name.startswith("probe"):
                histogram.merge(counts, longest)

    def sample(self, second):
        histogram, statements = self.messages()
        self.all.merge(histogram.counts, histogram.longest)
        self.statements += statements
        with self.server.connect() as connection:
            status = {name.decode(): int(value) for name, value in connection.run(
                "SHOW GLOBAL STATUS WHERE Variable_name IN (" + ",".join(f"'{name}'" for name in VARIABLES) + ")")}
            listed = index_files(connection.run("SHOW ENGINE TEAK STATUS")[0][2].decode())
        missing = set(VARIABLES) - set(status)
        if missing:
            raise RuntimeError(f"The server has no status variable {', '.join(sorted(missing))}.")
        self.samples += 1
        # The server's maximum since its start: the delay of this sample if it has grown.
        delay, before = status["Teak_writer_stall_longest_microseconds"], self.longest_delay
        self.longest_delay = delay
        # A session reports every second, or after a statement that takes longer: so long before the last sample may the longest
        # statement have ended, and its duration before that it began.
        longest = max(histogram.longest, delay / 1e6)
        stalled = self.disk.stalled(time.monotonic() - self.sampled + REPORT_SECONDS + 2 * longest)
        self.sampled = time.monotonic()
        return {"second": second, "statements": statements, "status": status, "index_files": listed,
                "p50_ms": histogram.quantile(0.5) * 1000, "p99_ms": histogram.quantile(0.99) * 1000,
                "p999_ms": histogram.quantile(0.999) * 1000, "longest_ms": histogram.longest * 1000,
                "delay_ms": delay / 1000 if delay > before else 0.0, "disk_stalled_ms": stalled * 1000,
                "log_bytes": sum(size(path) for path in (self.directory / "server/data").glob("teak.log.*")),
                "resident_bytes": self.server.memory()}

    # ---- the run -------------------------------------------------------------------------------------------------------

    def run(self):
        own = self.own_memory()
        print(f"-- the server alone: {own >> 20} MiB", flush=True)
        watch = Watch(bounds(self.options, own), self.options.report_only, self.faults)
        self.server.start_empty(self.directory)
        self.create("TEAK")
        Bank().create(self.server)
        self.disk = Disk(self.directory)
        stopped = self.context.Event()
        processes = self.start_sessions(self.sessions(), stopped)
        began = self.sampled = time.monotonic()
        end = began + self.options.minutes * 60
        next_kill = began + self.pause_before_kill()
        try:
            with open(self.directory / "samples.csv", "w", newline="", encoding="utf-8") as file:
                table = csv.writer(file)
                table.writerow([*MEASURES, *VARIABLES, "kills"])
                while time.monotonic() < end:
                    time.sleep(1)
                    if self.server.pid() is None:
                        self.faults.append("the server ended by itself\n" + self.server.log_tail())
                        break
                    if time.monotonic() > next_kill:
                        self.kill_and_check()
                        watch.restarted()
                        next_kill = time.monotonic() + self.pause_before_kill()
                        continue
                    found = self.sample(round(time.monotonic() - began))
                    table.writerow([*(round(found[name], 3) for name in MEASURES), *(found["status"][name] for name in VARIABLES), self.kills])
                    watch.check(found)
                    self.show_faults()
                    if found["second"] % 60 == 0:
                        self.show(found)
        finally:
            self.end_sessions(processes, stopped)
        self.messages()
        if self.server.pid():
            self.check_tables()
        self.faults += [f"{bound.name}: nothing was measured" for bound in watch.bounds if bound.name not in watch.worst]
        return watch

    def pause_before_kill(self):
        return self.random.uniform(0.5, 1.5) * self.options.kill_minutes * 60

    def kill_and_check(self):
        self.server.kill()
        self.kills += 1
        began = time.monotonic()
        self.server.start(timeout=600)
        print(f"-- kill {self.kills}, up again after {time.monotonic() - began:.1f} s", flush=True)
        self.messages()
        self.sampled = time.monotonic()
        self.longest_delay = 0
        with self.server.connect("bank") as connection:
            connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            self.faults += Bank().sums(connection, f"after kill {self.kills}")

    def check_tables(self):
        with self.server.connect(sessions.DATABASE) as connection:
            connection.run("USE bank")
            self.faults += Bank().verify(connection, "at the end")[1]
            connection.run(f"USE {sessions.DATABASE}")
            for table in [*sessions.TABLES, "bank.account", "bank.counter", "bank.moved"]:
                began = time.monotonic()
                for row in connection.run(f"CHECK TABLE {table} EXTENDED"):
                    if row[2].lower() != b"status" or row[3] != b"OK":
                        self.faults.append(f"CHECK TABLE {table}: {row[3].decode()}")
                rows = connection.value(f"SELECT COUNT(*) FROM {table}")
                print(f"-- CHECK TABLE {table} EXTENDED: {rows} rows, {time.monotonic() - began:.1f} s", flush=True)

    def show_faults(self):
        """Prints the faults that were found since the last call, because the run may have hours left."""
        for fault in self.faults[self.faults_shown:]:
            print(f"-- fault: {fault}", flush=True)
        self.faults_shown = len(self.faults)

    def show(self, found):
        status = found["status"]
        print(f"-- minute {found['second'] // 60}: {found['statements']} statements/s, p99 {found['p99_ms']:.1f} ms, longest "
              f"{found['longest_ms']:.0f} ms, disk stalled {found['disk_stalled_ms']:.0f} ms, log {found['log_bytes'] >> 20} MiB, index files "
              f"{status['Teak_file_bytes'] >> 20} MiB ({status['Teak_file_live_bytes'] >> 20} live), resident {found['resident_bytes'] >> 20} MiB, "
              f"pending {status['Teak_pending_flush_bytes'] >> 20} MiB, runs {status['Teak_child_runs_max']}, "
              f"ids {status['Teak_write_id_memory_bytes'] >> 10} KiB", flush=True)


def size(path):
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a segment of the log that was removed
        return 0


def report(soak, watch):
    print(f"\n{'quantity':24} {'max':>12} {'bound then':>12} {'unit':4}  share  second")
    for name, (share, measured, limit, unit, second, subject) in watch.worst.items():
        print(f"{name:24} {measured:12,.0f} {limit:12,.0f} {unit:4}  {share:5.2f}  {second:6}  {subject}{'  (not checked)' if name in watch.report_only else ''}")
    every = soak.all
    print(f"\n{soak.statements:,} statements; {every.total():,} of sessions without lock waits: p50 {every.quantile(0.5) * 1000:.2f} ms, p99 {every.quantile(0.99) * 1000:.2f} ms, "
          f"p99.9 {every.quantile(0.999) * 1000:.2f} ms, longest {every.longest * 1000:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kill-minutes", type=float, default=4, help="mean time between two kills")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0, help="ms that writers, readers and tellers wait after each step: without pauses the "
                        "sessions and the server need all processors, and the latencies contain the waits for them")
    parser.add_argument("--tables", type=int, default=2000, help="tables with few writes")
    parser.add_argument("--cache", default="64M")
    parser.add_argument("--baseline", type=float, default=20, help="seconds of load on BLACKHOLE before the memory of the server alone is read")
    parser.add_argument("--stall", type=float, help="fail if a statement takes longer than this, in ms, without "
                        "the time in which the disk was stalled")
    parser.add_argument("--report-only", action="append", default=[], help="a bound that is measured, but does not fail the run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", default=str(BUILD / "soak"))
    parser.add_argument("--server-option", action="append", default=[])
    soak = Soak(parser.parse_args())
    watch = None
    try:
        watch = soak.run()
        report(soak, watch)
    except (SqlError, RuntimeError) as error:
        soak.faults.append(str(error))
    finally:
        soak.server.kill()
    for fault in soak.faults[:FAULTS_SHOWN]:
        print(f"FAILED: {fault}")
    return finish(not soak.faults, bool(soak.faults), f"{soak.options.minutes:g} minutes", f"{soak.statements:,} statements", f"{soak.kills} kills")


if __name__ == "__main__":
    sys.exit(main())
