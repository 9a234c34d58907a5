"""One run of the workloads of a group with one engine, on a new server whose memory and disk are limited."""

import os
import time
from argparse import Namespace
from dataclasses import dataclass

from bench.sql.run import DIRECTORY, ENGINES, say, server_of
from tests.harness import SqlError, wait_for_background_writes, wait_until_quiet

from .confine import Group, Limits, NoControlGroup
from .workloads import WORKLOADS

MIB = 1 << 20
SETTLE_TIMEOUT = 3600
# An engine writes dirty pages at a stop, which may take long on a slow disk.
SERVER_TIMEOUT = 3600
# At a start InnoDB would load the pages that were in the buffer pool.
OPTIONS = ["--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF"]
# Options for direct I/O, and a variable that the server must have for it.
DIRECT = {"InnoDB": (["--innodb-flush-method=O_DIRECT"], "innodb_flush_method"),
          "RocksDB": (["--rocksdb-use-direct-reads=ON", "--rocksdb-use-direct-io-for-flush-and-compaction=ON"], "rocksdb_use_direct_reads"),
          "Teak": (["--loose-teak-directio=ON"], "teak_directio")}
DIRECT["Before"] = DIRECT["Teak"]


@dataclass
class Setting:
    """The limits of a run and the size of its caches, in bytes."""
    name: str
    limits: Limits
    cache: int
    rows: int
    has_direct_io: bool = False

    def about(self):
        disk = f", disk {self.limits.operations:,} reads and writes/s, {self.limits.bytes / 1e6:.0f} MB/s, direct I/O" if self.limits.operations else ""
        return f"{self.name}: {self.rows:,} rows, memory {self.limits.memory // MIB} MiB, cache {self.cache // MIB} MiB{disk}"


def drop_file_caches(directory):
    """Removes the pages of all files in the directory from the kernel's cache. They must not be dirty."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


class Run:
    """Runs the workloads of a group. Each gets a start of the server of its own, on the data of the ones before it."""

    def __init__(self, options, setting, engine):
        *_, self.files, _ = ENGINES[engine]
        options = Namespace(**{**vars(options), "cache": setting.cache})
        self.options, self.setting, self.engine = options, setting, engine
        self.sql_engine = "Teak" if engine == "Before" else engine
        more = [*OPTIONS, *(DIRECT[engine][0] if setting.has_direct_io else []), *options.server_option]
        self.server = server_of(options.directory or DIRECTORY / "beyond-memory", options, engine, *more)
        self.group, self.notes = None, []

    def note(self, text):
        """Says the text loudly, once, and adds it to the results."""
        if text not in self.notes:
            self.notes.append(text)
            say(f"WARNING: {self.setting.name}, {self.engine}: {text}")

    def confine(self):
        self.server.directory.mkdir(parents=True, exist_ok=True)
        try:
            self.group = Group(self.setting.limits, self.server.directory)
        except NoControlGroup as error:
            self.note(f"NOT CONFINED, no control group: {error}")
            return
        self.server.prefix = self.group.prefix()
        if not self.group.limits_buffered_writes:
            self.note("control groups of version 1 do not limit buffered writes, for example those of logs")

    def start(self):
        self.server.start()
        if self.group and not self.group.contains(self.server.pid()):
            raise RuntimeError("The server is not in its control group.")
        if self.setting.has_direct_io:
            with self.server.connect() as connection:
                if not connection.run(f"SHOW GLOBAL VARIABLES LIKE '{DIRECT[self.engine][1]}'"):
                    self.note(f"NO DIRECT I/O: the server has no variable {DIRECT[self.engine][1]}")

    def restart(self):
        """Starts the server again, with empty caches. Returns the bytes that the disk had written when the server had stopped, and
        the sizes of the files then."""
        self.server.stop()
        written = self.server.bytes_written()
        sizes = self.sizes("stopped")
        drop_file_caches(self.server.directory / "data")
        self.start()
        return written, sizes

    def settle(self):
        with self.server.connect() as connection:
            wait_for_background_writes(connection, self.sql_engine, SETTLE_TIMEOUT)
        if not wait_until_quiet(self.server.bytes_dirtied, timeout=SETTLE_TIMEOUT):
            self.note(f"background writes had not ended after {SETTLE_TIMEOUT} s")

    def sizes(self, when):
        return {f"table_bytes_{when}": self.server.files(*self.files), f"data_bytes_{when}": self.server.files("**/*")}

    def create(self, workload):
        with self.server.connect("bench") as connection:
            workload.create(connection, self.sql_engine)

    def fill(self, workload):
        """Fills the table of a workload that is not measured."""
        self.create(workload)
        workload.fill(self.server)
        self.settle()
        self.restart()

    def measure(self, workload):
        """Runs a workload, and starts the server again; returns (figures, series)."""
        self.create(workload)
        before = self.server.bytes_written()
        series = workload.run(self.server, self.restart)
        if not series:
            self.restart()
            return workload.result(series), series
        written, sizes = self.server.bytes_written() - before, self.sizes("at_end")
        found = workload.result(series)
        self.settle()
        rows = series[""].total()
        settled = self.server.bytes_written() - before
        found.update(**sizes, **self.sizes("settled"), written_per_row_at_end=written / rows, written_per_row_settled=settled / rows)
        written, sizes = self.restart()
        found.update(**sizes, written_per_row=(written - before) / rows)
        return found, series

    def go(self, names):
        """The results of these workloads of one group, as (name, figures, series). A failure ends the group."""
        results = []
        self.server.remove()
        os.sync()
        name = names[0]
        try:
            self.confine()
            self.start()
            with self.server.connect() as connection:
                connection.run("CREATE DATABASE bench")
            for name in {WORKLOADS[name].needs for name in names} - {None, *names}:
                began = time.monotonic()
                self.fill(WORKLOADS[name](self.options, self.setting.rows))
                size = self.server.files(*self.files) / MIB
                say(f"{self.setting.name} {name:14} {self.engine:8} filled in {time.monotonic() - began:.0f} s: {size:,.0f} MiB")
            for name in names:
                began = time.monotonic()
                figures, series = self.measure(WORKLOADS[name](self.options, self.setting.rows))
                results.append((name, {**figures, "confined": bool(self.group), "notes": self.notes}, series))
                say(f"{self.setting.name} {name:14} {self.engine:8} {summary(figures)} ({time.monotonic() - began:.0f} s in all)")
        except (OSError, SqlError, RuntimeError, TimeoutError) as error:
            say(f"{self.setting.name}, {name} on {self.engine} FAILED: {error}\n{self.server.log_tail(20)}")
            results.append((name, {"error": str(error), "confined": bool(self.group), "notes": self.notes}, {}))
        finally:
            self.server.remove()
            if self.group:
                self.group.remove()
        return results


def summary(figures):
    if "rows_per_second" not in figures:
        return ", ".join(f"{name} {figures[name]:,.0f}/s" for name in figures if name.endswith("_rate"))
    text = f"{figures['rows_per_second']:,.0f} rows/s"
    if "first_tenth" in figures:
        text += f" (first, second, last tenth {figures['first_tenth']:,.0f}, {figures['second_tenth']:,.0f}, {figures['last_tenth']:,.0f})"
    return f"{text}, longest gap {figures['longest_gap']:.2f} s, {figures['written_per_row']:,.0f} bytes written per row"
