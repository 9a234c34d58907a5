"""Repeated kill -9 during DDL: each statement is applied completely or not at all, and no orphaned file is left.

1. A private server has Teak tables in several databases; two writers run random DDL and some DML, each on its own
   databases, with a model of each table (model.py).
2. At a random moment the server is killed and started again; sometimes it is killed again while it recovers. The
   server's DDL log does not repair a partitioned table that a kill left half created, renamed, altered or dropped,
   with any engine: such rounds are counted separately, and the test starts over with empty databases.
   --no-partitions excludes partitioned tables.
3. Databases, tables, columns, keys, partitions and rows (through every key) must be those before or after the statement in
   flight; CHECK TABLE must be clean; every file in every directory must belong to an existing table.
4. The .frm files of all tables without partitions are removed. The tables that the server then discovers from the
   catalogue must equal the removed ones.

The seed determines the statements, but not the state in which a kill finds the server.
The run counts as one test.
"""

import argparse
import itertools
import os
import random
import re
import sys
import threading
import time
from pathlib import Path

from tests.harness import Server, SqlError, finish

from . import model
from .model import Change, State, Table

WRITERS = 2
TABLE_FILE = re.compile(r"(?P<table>[a-z]\d+)(?:#P#(?P<part>\w+))?\.(?:frm|par|(?P<label>\w+)-[0-9a-f]{8,}\.teak)$")


class Writer:
    def __init__(self, number, seed, partitions):
        self.names = [f"w{number}_a", f"w{number}_b"]
        self.state = State(self.names)
        self.draw = random.Random(f"{seed}-{number}")
        self.counter = itertools.count(1)
        self.flying, self.faults, self.done = None, [], 0
        self.partitions = partitions

    def run(self, socket_of):
        """Runs statements until the connection is lost."""
        try:
            with socket_of() as connection:
                while True:
                    missing = [name for name in self.names if name not in self.state.databases]
                    if missing:
                        change = Change(f"CREATE DATABASE {missing[0]}", self.state, lambda after: after.databases.update({missing[0]: {}}))
                    else:
                        change = model.choose(self.draw, self.state, self.counter, self.partitions)
                    self.flying = change
                    connection.run(change.text)
                    self.state, self.flying = change.after, None
                    self.done += 1
        except SqlError as error:
            if not error.lost:
                self.faults.append(f"{error}")
                self.flying = None


def read_state(connection, names):
    """The server's tables, and faults found while reading them."""
    faults, state = [], State([])
    there = {row[0].decode() for row in connection.run("SHOW DATABASES")}
    for database in names:
        if database not in there:
            continue
        state.databases[database] = {}
        for (name,) in connection.run(f"SHOW TABLES FROM {database}"):
            place = (database, name.decode())
            try:
                state.databases[database][place[1]], found = read_table(connection, place)
                faults += found
            except SqlError as error:
                faults.append(f"{model.name_of(place)}: {error}")
    return state, faults


def read_table(connection, place):
    name, table, faults = model.name_of(place), Table(), []
    table.columns = [(column.decode(), nullable == b"YES", None if column in (b"id", b"v") or default in (None, b"NULL") else int(default))
                     for column, _, nullable, _, default, *_ in connection.run(f"SHOW COLUMNS FROM {name}")]
    table.keys = [row[2].decode() for row in connection.run(f"SHOW KEYS FROM {name}") if row[2] != b"PRIMARY"]
    parts = connection.run("SELECT partition_name, partition_description FROM information_schema.partitions WHERE table_schema = "
                           f"'{place[0]}' AND table_name = '{place[1]}' AND partition_name IS NOT NULL ORDER BY partition_ordinal_position")
    table.parts = [(part.decode(), None if bound == b"MAXVALUE" else int(bound)) for part, bound in parts] or None
    numbers = table.numbers()

    def rows_by(key, condition):
        rows = connection.run(f"SELECT {', '.join(['id', 'v', *numbers])} FROM {name} FORCE INDEX ({key}) WHERE {condition}")
        return {int(row): {"v": text.decode(), **{number: None if value is None else int(value) for number, value in zip(numbers, values)}}
                for row, text, *values in rows}
    table.rows = rows_by("PRIMARY", "TRUE")
    for key in table.keys:
        rows = rows_by(key, f"{key} >= ''" if key == "v" else f"{key} >= -1 OR {key} IS NULL")
        if rows != table.rows:
            faults.append(f"{name}: {len(rows)} rows by key {key}, {len(table.rows)} by the primary key")
    for row in connection.run(f"CHECK TABLE {name} EXTENDED"):
        if row[2] in (b"Error", b"error", b"warning", b"Warning") or row[2] == b"status" and row[3] != b"OK":
            faults.append(f"CHECK TABLE {name}: {row[3].decode()}")
    return table, faults


def stray_files(data, state, prefix):
    """Files without a table, tables without a file, files moved aside, retained records and other remains of DDL."""
    faults = []
    for database, tables in state.databases.items():
        found = {}
        for path in (data / database).iterdir():
            match = TABLE_FILE.match(path.name)
            if path.name == "db.opt":
                continue
            if not match or match["table"] not in tables:
                faults.append(f"a file without a table: {database}/{path.name}")
                continue
            table = tables[match["table"]]
            if match["label"] is not None:
                found.setdefault((match["table"], match["part"]), []).append(match["label"])
            elif path.suffix == ".par" and not table.parts:
                faults.append(f"a partition file of a table without partitions: {database}/{path.name}")
        for name, table in tables.items():
            for part in [part for part, _ in table.parts] if table.parts else [None]:
                labels = sorted(found.pop((name, part), []))
                if labels != sorted(["main", *table.keys]):
                    faults.append(f"{database}.{name}, partition {part}: files of {labels}, keys {table.keys}")
        faults += [f"files of a partition that is not there: {database}.{name}, {part}" for name, part in found]
    faults += [f"a file was moved aside: {path}" for path in data.glob("#teak_orphans/**/*.teak")]
    faults += [f"records of an unavailable table: {path.name}" for path in data.glob("teak.retained.*")]
    for path in data.iterdir():
        if path.name.startswith("#sql") or path.is_dir() and path.name.startswith(prefix) and path.name not in state.databases:
            faults.append(f"left over: {path.name}")
    return faults


class Test:
    def __init__(self, options):
        self.options = options
        self.directory = Path(options.directory).absolute()
        self.draw = random.Random(options.seed)
        self.server = Server(self.directory / "server", ["--cache=32M", "--skip-innodb", "--default-storage-engine=TEAK", *options.server_option])
        self.writers = []
        self.beyond, self.statements = 0, 0

    def round(self):
        """Lets the writers run and kills the server. Returns the duration and the number of statements."""
        before = sum(writer.done for writer in self.writers)
        threads = [threading.Thread(target=writer.run, args=(self.server.connect,)) for writer in self.writers]
        for thread in threads:
            thread.start()
        pause = self.draw.choice([0.02, 0.1, 0.3, 0.6, 1.5]) * self.draw.uniform(0.2, 1)
        time.sleep(pause)
        self.server.kill()
        for thread in threads:
            thread.join(60)
            if thread.is_alive():
                raise RuntimeError("a writer did not end after the server was killed")
        done = sum(writer.done for writer in self.writers) - before
        self.statements += done
        return pause, done

    def verify(self):
        faults = []
        with self.server.connect() as connection:
            for writer in self.writers:
                faults += writer.faults
                actual, found = read_state(connection, writer.names)
                faults += found
                choices = writer.flying.outcomes() if writer.flying else [writer.state]
                if not any(actual == choice for choice in choices):
                    faults += self.explain(writer, actual)
                faults += stray_files(self.server.directory / "data", actual, writer.names[0][:-1])
                faults += [] if faults else self.lose_definitions(connection, writer, actual)
                writer.state, writer.flying = actual, None
        return faults

    def lose_definitions(self, connection, writer, actual):
        """Removes .frm files: the tables discovered from the catalogue must be the same. Returns the faults."""
        connection.run("FLUSH TABLES")
        for (database, name), table in actual.tables().items():
            if not table.parts:
                (self.server.directory / "data" / database / f"{name}.frm").unlink()
        discovered, faults = read_state(connection, writer.names)
        return faults if discovered == actual else [*faults, f"discovered: {discovered.databases}, instead of {actual.databases}"]

    @staticmethod
    def explain(writer, actual):
        faults = [f"in flight was: {writer.flying.text[:300] if writer.flying else 'nothing'}"]
        before = writer.state.tables()
        after = writer.flying.after.tables() if writer.flying else before
        there = actual.tables()
        for place in sorted({*before, *after, *there}):
            if not there.get(place) == before.get(place) == after.get(place):
                faults.append(f"{model.name_of(place)}: before {before.get(place)}, after {after.get(place)}, there {there.get(place)}")
        return faults

    def begin(self, salt):
        self.server.start_empty(self.directory)
        self.writers = [Writer(number, f"{self.options.seed}-{salt}", not self.options.no_partitions) for number in range(WRITERS)]
        with self.server.connect() as connection:
            for writer in self.writers:
                for name in writer.names:
                    connection.run(f"CREATE DATABASE {name}")

    def go(self):
        print(f"-- {self.options.kills} kills during DDL, seed {self.options.seed}", flush=True)
        self.begin("0")
        flights = {}
        for number in range(1, self.options.kills + 1):
            try:
                pause, done = self.round()
                for writer in self.writers:
                    if writer.flying:
                        kind = re.sub(r"[^A-Z ]|\b[A-Z]\b", "", re.sub(r"\w+\.\w+.*?(?=[A-Z]{2}|$)", "", writer.flying.text)).split()[:3]
                        flights[" ".join(kind)] = flights.get(" ".join(kind), 0) + 1
                flying = [writer.flying.text[:60] + (' ...SELECT' if 'SELECT' in writer.flying.text else '') for writer in self.writers if writer.flying]
                fragile = [writer.flying.text for writer in self.writers if writer.flying and writer.flying.fragile]
                self.server.kill_while_recovering(self.draw, 1)
                self.server.start(timeout=self.options.recovery_timeout)
                faults = self.verify()
                if faults and fragile:
                    self.beyond += 1
                    print(f"kill {number:3} after {pause:4.2f} s: a partitioned table partly changed: {'; '.join(fragile)[:150]}\n       {faults[0][:150]}", flush=True)
                    self.begin(str(number))
                    continue
            except (SqlError, RuntimeError) as error:
                faults, flying = [str(error)], []
            if faults:
                print(f"kill {number}: FAILED (seed {self.options.seed})")
                for fault in faults[:20]:
                    print(f"   {fault}")
                print(f"   in flight: {flying}\n   the server's directory is kept in {self.directory}\n   end of its error log:\n{self.server.log_tail(25)}")
                self.server.stop()
                return finish(0, 1, f"{number} kills")
            print(f"kill {number:3} after {pause:4.2f} s: {done:4} statements, {sum(len(writer.state.tables()) for writer in self.writers)} tables hold;"
                  f" in flight: {'; '.join(flying)}", flush=True)
        self.server.remove(self.directory)
        print(f"{self.beyond} kills left a partitioned table partly changed, which the server does not repair")
        print("in flight when killed: " + ", ".join(f"{kind} {count}" for kind, count in sorted(flights.items())))
        return finish(1, 0, f"{self.options.kills} kills", f"{self.statements:,} statements")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    parser.add_argument("--recovery-timeout", type=int, default=120)
    parser.add_argument("--no-partitions", action="store_true")
    parser.add_argument("--server-option", action="append", default=[])
    memory = Path("/dev/shm")
    parser.add_argument("--directory", default=str((memory if memory.is_dir() else Path("/tmp")) / f"teak-ddl-kill-{os.getpid()}"))
    sys.exit(Test(parser.parse_args()).go())


if __name__ == "__main__":
    main()
