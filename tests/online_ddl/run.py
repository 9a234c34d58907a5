"""ALTER TABLE and OPTIMIZE TABLE with LOCK=NONE while sessions write the table.

1. A private server has a table with plain, unique and virtual-column data. Writers (threads) run transactions of random
   INSERT, UPDATE, REPLACE and DELETE statements on rows of their own, some of which they roll back. Each keeps a model of its
   rows.
2. At the same time a session adds and drops keys, plain and unique, on columns and on virtual columns, changes the primary key,
   rebuilds the table by ALTER TABLE ... FORCE, and optimizes it. All statements have LOCK=NONE and must succeed.
3. In every second round the writers also write values that rows of other writers have. Then a statement that adds a unique
   key may fail with a duplicate-key error, but no statement of a writer may, before the key is there.
4. After each round the writers stop. The rows must be those of the models, through every key, and CHECK TABLE ... EXTENDED
   must find no fault.

The run counts as one test.
"""

import argparse
import random
import sys
import threading
import time
from pathlib import Path

from tests.harness import Server, SqlError, finish

DATABASE, TABLE = "online", "online.t"
WRITERS = 4
SHARED = 50  # values of u that several writers use
DUPLICATE, DEADLOCK, TIMEOUT, CONFLICTS = 1062, 1213, 1205, (1213, 1205)

CREATE = f"""CREATE TABLE {TABLE} (
    id INT NOT NULL, u INT, n INT NOT NULL, v VARCHAR(60) NOT NULL,
    w INT AS (n % 100) VIRTUAL, x VARCHAR(20) AS (UPPER(LEFT(v, 15))) VIRTUAL,
    PRIMARY KEY (id), KEY (n)) ENGINE=TEAK DEFAULT CHARSET=latin1"""

# Pairs of a change and the statement that undoes it.
CHANGES = [
    ("ADD UNIQUE KEY u (u)", "DROP KEY u"),
    ("ADD KEY w (w)", "DROP KEY w"),
    ("ADD KEY x (x, n), ADD UNIQUE KEY u (u)", "DROP KEY x, DROP KEY u"),
    ("ADD KEY v (v(10) DESC)", "DROP KEY v"),
    ("FORCE", None),
    (None, None),  # OPTIMIZE TABLE
]
PRIMARY_KEY = ("DROP PRIMARY KEY, ADD PRIMARY KEY (n, id)", "DROP PRIMARY KEY, ADD PRIMARY KEY (id)")


class Writer:
    """A session that writes rows whose ids are its number modulo the number of writers."""

    def __init__(self, server, number, seed):
        self.server, self.number = server, number
        self.draw = random.Random(f"{seed}-{number}")
        self.rows = {}  # id: (u, n, v)
        self.counter = 1000
        self.faults, self.done = [], 0
        self.shares = False  # writes values of u that other writers have
        self.replaces = False  # only if the primary key is always `id`
        self.has_unique_key = lambda: True

    def value(self, may_share=True):
        if self.shares and may_share and self.draw.random() < 0.02:
            return self.draw.randrange(SHARED)
        if self.draw.random() < 0.1:
            return None
        self.counter += 1
        return self.counter * WRITERS + self.number

    def row(self, may_share=True):
        return self.value(may_share), self.draw.randrange(10**6), self.draw.choice("abcdefgh") + str(self.draw.randrange(10**9)) * self.draw.randrange(1, 6)

    def step(self, connection, rows):
        """One statement, and its effect on the rows."""
        id = self.draw.randrange(2000) * WRITERS + self.number
        kind = self.draw.random()
        if id not in rows or kind < 0.2:
            is_replaced = id in rows and self.replaces
            # REPLACE would also delete another writer's row with the same value of a unique key.
            u, n, v = self.row(may_share=not is_replaced)
            verb = "REPLACE" if is_replaced else "INSERT"
            if id in rows and not is_replaced:
                connection.run(f"DELETE FROM {TABLE} WHERE id = {id}")
            connection.run(f"{verb} INTO {TABLE} (id, u, n, v) VALUES ({id}, {'NULL' if u is None else u}, {n}, '{v}')")
            rows[id] = (u, n, v)
        elif kind < 0.5:
            connection.run(f"DELETE FROM {TABLE} WHERE id = {id}")
            del rows[id]
        elif kind < 0.8:
            u, n, v = self.row()
            connection.run(f"UPDATE {TABLE} SET u = {'NULL' if u is None else u}, n = {n}, v = '{v}' WHERE id = {id}")
            rows[id] = (u, n, v)
        elif kind < 0.9:
            other = self.draw.randrange(2000) * WRITERS + self.number
            if other not in rows:
                connection.run(f"UPDATE {TABLE} SET id = {other} WHERE id = {id}")
                rows[other] = rows.pop(id)
        else:
            u, n, v = rows[id]
            connection.run(f"UPDATE {TABLE} SET n = n + 1 WHERE id = {id}")
            rows[id] = (u, n + 1, v)

    def transaction(self, connection):
        rows = dict(self.rows)
        is_kept = self.draw.random() < 0.85
        try:
            connection.run("BEGIN")
            for _ in range(self.draw.choice([1, 1, 2, 5])):
                self.step(connection, rows)
            connection.run("COMMIT" if is_kept else "ROLLBACK")
        except SqlError as error:
            if error.lost or error.number not in (DUPLICATE, *CONFLICTS) or error.number == DUPLICATE and not self.has_unique_key():
                raise
            connection.run("ROLLBACK")
            return
        self.done += 1
        if is_kept:
            self.rows = rows

    def run(self, stopped):
        try:
            with self.server.connect(DATABASE) as connection:
                connection.run("SET teak_lock_timeout = 1000")
                while not stopped.is_set():
                    self.transaction(connection)
        except (SqlError, OSError) as error:
            self.faults.append(f"writer {self.number}: {error}")


class Test:
    def __init__(self, options):
        self.options = options
        self.draw = random.Random(options.seed)
        self.server = Server(Path(options.directory).absolute() / "server", [f"--cache={options.cache}", "--skip-innodb", "--default-storage-engine=TEAK"])
        self.writers = [Writer(self.server, number, options.seed) for number in range(WRITERS)]
        self.faults, self.statements, self.refused, self.meanwhile = [], 0, 0, 0
        self.unique_key = False  # exists, or is added by a statement that may have ended

    def fill(self, connection):
        connection.run(f"CREATE DATABASE {DATABASE}")
        connection.run(CREATE)
        connection.run(f"INSERT INTO {TABLE} (id, u, n, v) SELECT -seq, -seq, seq * 7919 % 1000003, CONCAT('fixed ', seq) FROM {DATABASE}.seq_1_to_{self.options.rows}")

    def wait_for_duplicates(self):
        """Waits until rows of the writers have the same values of `u`, which may take a while on a slow machine."""
        end = time.monotonic() + 60
        while time.monotonic() < end and not any(writer.faults for writer in self.writers):
            values = [u for writer in self.writers for u, _, _ in list(writer.rows.values()) if u is not None and u < SHARED]
            if len(values) - len(set(values)) >= 5:
                return
            time.sleep(0.01)

    def change(self, connection, text, shares):
        """Runs a statement while the writers write. Returns whether it succeeded."""
        has_unique = text is not None and "UNIQUE" in text
        if shares and has_unique:
            self.wait_for_duplicates()
        before = sum(writer.done for writer in self.writers)
        # A writer may find the key before the ALTER has returned.
        self.unique_key |= has_unique
        try:
            if text is None:
                answer = connection.run(f"OPTIMIZE TABLE {TABLE}")
                if answer[-1][3] != b"OK":
                    self.faults.append(f"OPTIMIZE: {answer}")
            else:
                connection.run(f"ALTER TABLE {TABLE} {text}, LOCK=NONE")
        except SqlError as error:
            if error.lost or not (shares and has_unique and error.number == DUPLICATE):
                raise
            self.refused += 1
            self.unique_key = False
            return False
        finally:
            self.meanwhile += sum(writer.done for writer in self.writers) - before
        self.statements += 1
        return True

    def round(self, connection, shares):
        stopped = threading.Event()
        for writer in self.writers:
            writer.shares = writer.replaces = shares
            writer.has_unique_key = lambda: self.unique_key
        threads = [threading.Thread(target=writer.run, args=(stopped,)) for writer in self.writers]
        for thread in threads:
            thread.start()
        try:
            changes = CHANGES if shares else [*CHANGES, PRIMARY_KEY]
            for text, undo in self.draw.sample(changes, len(changes)):
                time.sleep(self.draw.uniform(0, 0.1))
                if self.change(connection, text, shares) and undo:
                    time.sleep(self.draw.uniform(0, 0.1))
                    self.change(connection, undo, shares)
                self.unique_key = False
        finally:
            stopped.set()
            for thread in threads:
                thread.join(60)
        self.verify(connection)
        if shares:
            connection.run(f"UPDATE {TABLE} SET u = NULL WHERE u BETWEEN 0 AND {SHARED - 1}")
            for writer in self.writers:
                writer.rows = {id: (None if u is not None and u < SHARED else u, n, v) for id, (u, n, v) in writer.rows.items()}

    def verify(self, connection):
        for writer in self.writers:
            self.faults += writer.faults
            writer.faults = []
        expected = {id: row for writer in self.writers for id, row in writer.rows.items()}
        columns = "id, u, n, v, w, x"

        def read(hint):
            rows = connection.run(f"SELECT {columns} FROM {TABLE} {hint} WHERE id >= 0 AND n >= 0")
            return {int(id): (None if u is None else int(u), int(n), v.decode(), int(w), x.decode()) for id, u, n, v, w, x in rows}
        wanted = {id: (u, n, v, n % 100, v[:15].upper()) for id, (u, n, v) in expected.items()}
        for hint in ("FORCE INDEX (PRIMARY)", "FORCE INDEX (n)"):
            found = read(hint)
            if found != wanted:
                wrong = [(id, found.get(id), wanted.get(id)) for id in {*found, *wanted} if found.get(id) != wanted.get(id)]
                self.faults.append(f"{hint}: {len(wrong)} wrong rows (id, there, expected): {wrong[:5]}")
        fixed = int(connection.value(f"SELECT COUNT(*) FROM {TABLE} WHERE id < 0"))
        if fixed != self.options.rows:
            self.faults.append(f"{fixed} fixed rows, not {self.options.rows}")
        answer = connection.run(f"CHECK TABLE {TABLE} EXTENDED")
        if answer[-1][3] != b"OK":
            self.faults.append(f"CHECK TABLE: {answer}")

    def run(self):
        self.server.start_empty(Path(self.options.directory).absolute())
        began = time.monotonic()
        with self.server.connect() as connection:
            self.fill(connection)
            for number in range(self.options.rounds):
                self.round(connection, number % 2 == 1)
                print(f"-- round {number + 1}: {self.statements} statements, {self.refused} refused, {self.meanwhile} transactions at the same time,"
                      f" {time.monotonic() - began:.0f} s", flush=True)
                if self.faults:
                    break
            self.check_coverage()

    def check_coverage(self):
        if self.meanwhile < 20 * self.options.rounds:
            self.faults.append(f"only {self.meanwhile} transactions ran at the same time")
        if self.options.rounds >= 4 and not self.refused:
            self.faults.append("no statement found a duplicate")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--rows", type=int, default=30_000, help="that are not written")
    parser.add_argument("--cache", default="32M")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", default="build/online-ddl")
    options = parser.parse_args()
    test = Test(options)
    try:
        test.run()
    except (SqlError, OSError, RuntimeError) as error:
        test.faults.append(f"{type(error).__name__}: {error}")
    finally:
        test.server.kill()
    for fault in test.faults:
        print(f"FAILED: {fault}")
    if test.faults:
        print(test.server.log_tail())
    return finish(int(not test.faults), int(bool(test.faults)), f"{test.statements} statements, {test.meanwhile} transactions at the same time")


if __name__ == "__main__":
    sys.exit(main())
