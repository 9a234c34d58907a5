"""kill -9 of the server during LOAD DATA. Afterwards a load that was not acknowledged has left no row and no file, one that was
has all of its rows, and the table can be used.

1. A private server with a small cache, so that sorts spill, gets a table with a primary, a unique and two other keys, and some rows.
2. LOAD DATA of a file whose rows are in no key's order; the server is killed at a random moment of it, or shortly after it.
3. After the restart the numbers and sums of the rows by each key, CHECK TABLE ... EXTENDED and the files of the data directory are
   checked. Then a row is inserted and deleted. The rows of a load that was committed are deleted.

The run counts as one test.
"""

import argparse
import math
import random
import sys
import threading
import time
from pathlib import Path

from tests.harness import BUILD, Server, SqlError, finish

COLUMNS = "id INT PRIMARY KEY, code BIGINT NOT NULL, owner INT NOT NULL, note VARCHAR(80) NOT NULL, UNIQUE (code), KEY (owner), KEY (note(20))"
KEPT_ROWS = 1000
KEYS = ("PRIMARY", "code", "owner", "note")
FAULTS_SHOWN = 12


def write_file(path, first, rows):
    """Rows with the numbers from `first` on, in another order."""
    step = next(step for step in range(7919, 8919, 2) if math.gcd(step, rows) == 1)
    with open(path, "w", encoding="ascii") as file:
        for n in range(rows):
            number = first + n * step % rows
            file.write(f"{number}\t{number * 2654435761 % (1 << 40)}\t{number % 997}\tnote {number * 31 % 100003} of a row with some more text\n")


class Load(threading.Thread):
    """Loads the file; `rows` is the acknowledged number, or None. `error`: why it failed, if not because of a kill."""

    def __init__(self, server, path):
        super().__init__(daemon=True)
        self.server, self.path, self.rows, self.error, self.seconds = server, path, None, None, 0.0

    def run(self):
        began = time.monotonic()
        try:
            with self.server.connect("loads") as connection:
                self.rows = connection.run(f"LOAD DATA INFILE '{self.path}' INTO TABLE t")
        except SqlError as error:
            self.error = None if error.lost else error
        self.seconds = time.monotonic() - began


class Test:
    def __init__(self, options):
        self.options, self.random = options, random.Random(options.seed)
        self.directory = Path(options.directory).absolute()
        self.server = Server(self.directory / "server", [f"--cache={options.cache}", *options.server_option])
        self.faults, self.committed = [], 0

    def prepare(self):
        self.server.start_empty(self.directory)
        self.path = self.directory / "rows.tsv"
        write_file(self.path, KEPT_ROWS, self.options.rows)
        kept = self.directory / "kept.tsv"
        write_file(kept, 0, KEPT_ROWS)
        with self.server.connect() as connection:
            connection.run("CREATE DATABASE loads")
            connection.run("USE loads")
            connection.run(f"CREATE TABLE t ({COLUMNS}) ENGINE=TEAK")
            connection.run(f"LOAD DATA INFILE '{kept}' INTO TABLE t")
        load = Load(self.server, self.path)
        load.run()
        with self.server.connect() as connection:
            loaded = connection.run("SHOW GLOBAL STATUS LIKE 'Teak_bulk_load_rows'")[0][1]
        if int(loaded) != self.options.rows:
            raise RuntimeError(f"{int(loaded)} rows were loaded in bulk, not {self.options.rows}: {load.error}")
        self.delete_loaded()
        return load.seconds

    def delete_loaded(self):
        with self.server.connect("loads") as connection:
            connection.run(f"DELETE FROM t WHERE id >= {KEPT_ROWS}")

    def check(self, number, rows):
        """Checks that the table has the kept rows and `rows` others, if that is not None, else all or none. Returns the others."""
        with self.server.connect("loads") as connection:
            found = {key: connection.run(f"SELECT COUNT(*), SUM(id), SUM(owner) FROM t FORCE INDEX ({key})")[0] for key in KEYS}
            if len(set(found.values())) != 1:
                self.faults.append(f"kill {number}: the keys differ: {found}")
            others = int(found["PRIMARY"][0]) - KEPT_ROWS
            if others not in ((0, self.options.rows) if rows is None else (rows,)):
                self.faults.append(f"kill {number}: {others} rows, acknowledged {rows}")
            for row in connection.run("CHECK TABLE t EXTENDED"):
                if row[3] != b"OK":
                    self.faults.append(f"kill {number}: CHECK TABLE: {row[3].decode()}")
            connection.run("INSERT INTO t VALUES (-1, -1, -1, 'new')")
            connection.run("DELETE FROM t WHERE id = -1")
        spilled = [path.name for path in (self.directory / "server/data").rglob("*") if path.name.startswith("teak.sort.")]
        if spilled:
            self.faults.append(f"kill {number}: files were left: {spilled}")
        return others

    def kill(self, number, seconds):
        load = Load(self.server, self.path)
        load.start()
        # Each third kill is near the end of the load, when its runs are installed and committed.
        fraction = self.random.uniform(0.85, 1.3) if number % 3 == 0 else self.random.uniform(0, 1)
        time.sleep(fraction * seconds)
        self.server.kill()
        load.join(60)
        if load.is_alive() or load.error:
            self.faults.append(f"kill {number}: {load.error or 'the session did not end'}")
        self.server.start(timeout=600)
        others = self.check(number, load.rows)
        if others:
            self.committed += 1
            self.delete_loaded()

    def go(self):
        seconds = self.prepare()
        for number in range(1, self.options.kills + 1):
            self.kill(number, seconds)
            if self.faults:
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--cache", default="16M")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", default=str(BUILD / "kill-test" / "loads"))
    parser.add_argument("--server-option", action="append", default=[])
    test = Test(parser.parse_args())
    try:
        test.go()
    except (SqlError, RuntimeError) as error:
        test.faults.append(str(error))
    finally:
        test.server.kill()
    for fault in test.faults[:FAULTS_SHOWN]:
        print(f"FAILED: {fault}")
    return finish(not test.faults, bool(test.faults), f"{test.options.kills} kills during loads", f"{test.committed} loads committed")


if __name__ == "__main__":
    sys.exit(main())
