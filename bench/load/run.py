"""One load into one engine, on a new server whose memory and processors are limited."""

import os
import shutil
import threading
import time

from bench.memory.confine import Group, Limits, NoControlGroup
from bench.sql.run import DIRECTORY, IDLE_SECONDS, say, server_of
from tests.harness import BUILD, Server, SqlError, wait_for_background_writes

from .cases import PLANS
from .engines import FILES, FLOOR, MODES

# At a start InnoDB would load the pages that were in the buffer pool.
OPTIONS = ["--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF"]


def install_system_tables(server):
    """Copies the system tables of an installation that is made once, because each takes seconds."""
    version = (BUILD / "mariadb-version").read_text().strip() if (BUILD / "mariadb-version").exists() else "unknown"
    made = Server(DIRECTORY / "empty" / version.replace(":", "-"))
    made.install_system_tables()
    shutil.copytree(made.directory / "data", server.directory / "data")


class Session:
    """Runs statements in a session of its own, in the mode of the engine. `rows` and `error` are its outcome."""

    def __init__(self, server, mode, statements):
        self.server, self.mode, self.statements = server, mode, statements
        self.rows, self.error = 0, None

    def run(self):
        try:
            with self.server.connect("bench") as connection:
                for statement in self.mode.begin:
                    connection.run(statement)
                for statement in self.statements:
                    done = connection.run(statement)
                    self.rows += done if isinstance(done, int) else 0
                for statement in self.mode.end:
                    connection.run(statement)
        except (SqlError, OSError) as error:
            self.error = error


class Run:
    """A load. Other benchmarks that load the same way override `directory`, `plan` and `measure`."""

    directory = "load"

    def __init__(self, options, cores, name, case):
        self.options, self.cores, self.name, self.case = options, cores, name, case
        self.mode = MODES[name]
        more = [*OPTIONS, *self.mode.server_options(options.cache), *options.server_option]
        self.server = server_of(self.directory, options, self.mode.server, *more)
        self.group = None
        self.found = {"cores": cores, "case": case.name, "engine": name}

    def start(self):
        self.server.directory.mkdir(parents=True, exist_ok=True)
        prefix = ["taskset", "--cpu-list", f"0-{self.cores - 1}"]
        try:
            self.group = Group(Limits(self.options.memory), self.server.directory)
            prefix = [*self.group.prefix(), *prefix]
        except NoControlGroup as error:
            say(f"WARNING: NOT CONFINED, no control group: {error}")
        self.found["confined"] = bool(self.group)
        self.server.prefix = prefix
        install_system_tables(self.server)
        self.server.start()

    def run_all(self, lists):
        """Runs each list of statements in a session, all at the same time; returns (rows, seconds)."""
        sessions = [Session(self.server, self.mode, statements) for statements in lists]
        threads = [threading.Thread(target=session.run) for session in sessions]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        for session in sessions:
            if session.error:
                raise session.error
        return sum(session.rows for session in sessions), seconds

    def plan(self):
        return PLANS[self.case.name](self.options, self.mode.of_table())

    def create(self, plan):
        with self.server.connect() as connection:
            connection.run("CREATE DATABASE bench")
        with self.server.connect("bench") as connection:
            for statement in plan.create:
                connection.run(statement)

    def wait(self, connection):
        wait_for_background_writes(connection, self.mode.server.replace("Before", "Teak"))

    def sizes(self, when):
        files = FILES[self.mode.engine]
        if files:
            self.found[f"table_bytes_{when}"] = self.server.files(*files)

    def measure(self):
        plan = self.plan()
        self.create(plan)
        if plan.before and self.name != FLOOR:
            self.run_all([plan.before])
            with self.server.connect("bench") as connection:
                self.wait(connection)
        before, spent = self.server.bytes_written(), self.server.cpu_seconds()
        rows, seconds = self.run_all(plan.measured)
        self.found.update(seconds=seconds, written_at_end=self.server.bytes_written() - before)
        self.sizes("at_end")
        with self.server.connect("bench") as connection:
            if self.name != FLOOR:
                counted = sum(int(connection.value(f"SELECT COUNT(*) FROM {table}")) for table in plan.tables)
                rows = rows or counted
                self.found["rows_in_tables"] = counted
            time.sleep(IDLE_SECONDS)
            self.sizes("idle")
            self.wait(connection)
        self.found.update(rows=rows, rows_per_second=rows / seconds, cpu_per_row=(self.server.cpu_seconds() - spent) / rows,
                          memory_bytes=self.server.memory(), written=self.server.bytes_written() - before)
        self.server.stop()
        self.sizes("stopped")

    def go(self):
        self.server.remove()
        os.sync()
        began = time.monotonic()
        try:
            self.start()
            self.measure()
            say(f"{self.cores} processors  {self.case.name:14} {self.name:12} {self.found['rows_per_second']:>12,.0f} rows/s"
                f"   ({time.monotonic() - began:.0f} s in all)")
        except (OSError, SqlError, RuntimeError, TimeoutError) as error:
            say(f"{self.case.name} on {self.name} FAILED: {error}\n{self.server.log_tail(10)}")
            self.found["error"] = str(error)
        finally:
            self.server.remove()
            if self.group:
                self.group.remove()
        return self.found
