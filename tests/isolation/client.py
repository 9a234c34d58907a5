"""A client of the isolation test: random short transactions on a few hot lists and registers, and the values that they read."""

import random
import time

from tests.harness.wire import Session, fields

from .history import ABORTED, COMMITTED, Append, ReadList, ReadRegister, Transaction, Write

DATABASE = "isolation"
TABLES = (
    # Each append changes `size`, which moves the list's entry in the key on groups.
    "CREATE TABLE lists (k INT PRIMARY KEY, grp INT NOT NULL, size INT NOT NULL, v MEDIUMTEXT NOT NULL, KEY (grp, size)) ENGINE={}",
    "CREATE TABLE registers (k INT PRIMARY KEY, prior BIGINT NOT NULL, v BIGINT NOT NULL, KEY (v)) ENGINE={}",
)
# Deadlock, a row newer than the snapshot, and a row that another transaction inserted between a read and an insertion.
# A lock wait timeout is not a conflict: transactions are short, so a timeout means an undetected deadlock.
CONFLICTS = {1213, 1020, 1062}
LOCK_TIMEOUT = 1205
KEYS = 12         # in use at the same time
GROUPS = 3
TRANSACTIONS = 60  # of a client on the same keys; then it uses the next ones
LOADS = 0.02  # the part of the appends that load several lists in bulk


class Unexpected(Exception):
    """A wrong answer of the server."""


def elements(text):
    return tuple(int(one) for one in text.split(b",") if one)


class Client:
    def __init__(self, socket, number, level, settings, seed, conflicts):
        self.conflicts = conflicts
        self.session = Session(socket, DATABASE.encode())
        self.draw = random.Random(f"{seed}-{number}")
        self.number = number
        self.element = 0
        self.level = level
        self.statements = []
        for statement in (f"SET SESSION TRANSACTION ISOLATION LEVEL {level}", *settings):
            self.must(statement)

    def must(self, statement):
        answer = self.send(statement)
        if answer[0] == "error":
            raise Unexpected(f"{answer[1]} {answer[2]} in: {statement}")
        return answer

    def send(self, statement):
        answer = self.session.run(statement)
        self.statements.append((time.monotonic(), statement, answer[1:]))
        return answer

    def new_element(self):
        self.element += 1
        return self.element * 100 + self.number

    # ---- steps: each returns the answers of its statements as steps of the history, or None after a conflict ---------

    def run(self, statement):
        """The answer, or None after a conflict."""
        answer = self.send(statement)
        if answer[0] == "error":
            if answer[1] not in self.conflicts:
                raise Unexpected(f"{answer[1]} {answer[2]} in: {statement}")
            return None
        return answer

    def rows(self, statement):
        answer = self.run(statement)
        return None if answer is None else [fields(row) for row in answer[2]]

    def read_lists(self, base):
        low = base + self.draw.randrange(KEYS)
        lock = self.draw.choices(("", " LOCK IN SHARE MODE", " FOR UPDATE"), (8, 1, 1))[0]
        shape, hint = self.draw.randrange(4), ""
        if shape == 0:  # a range, with its absent keys
            keys = range(low, min(low + 4, base + KEYS))
            where = f"k BETWEEN {keys[0]} AND {keys[-1]}"
            if self.draw.random() < 0.5:
                where += " ORDER BY k DESC"
        elif shape == 1:  # a group, by the secondary key whose entries appends move
            group = base // KEYS * GROUPS + low % GROUPS
            keys = [key for key in range(base, base + KEYS) if key % GROUPS == low % GROUPS]
            where = f"grp = {group}"
            if self.draw.random() < 0.3:
                hint = " IGNORE INDEX (grp)"  # a scan of all rows
        else:
            keys = [low]
            where = f"k = {low}"
        rows = self.rows(f"SELECT k, v FROM lists{hint} WHERE {where}{lock}")
        if rows is None:
            return None
        seen = {int(key): elements(text) for key, text in rows}
        # A scan under READ UNCOMMITTED may read a row twice if it is moved concurrently.
        is_twice = len(seen) < len(rows) and self.level != "READ UNCOMMITTED"
        if is_twice or not set(seen) <= set(keys):
            raise Unexpected(f"{rows} for {where}")
        return [ReadList(key, seen.get(key, ())) for key in keys]

    def load(self, base):
        """Replaces several lists by longer ones, or adds them, by one statement of several rows."""
        keys = sorted(self.draw.sample(range(base, base + KEYS), 3))
        among = f"k IN ({', '.join(map(str, keys))})"
        rows = self.rows(f"SELECT k, v FROM lists WHERE {among} FOR UPDATE")
        if rows is None:
            return None
        seen = {int(key): text for key, text in rows}
        # Below REPEATABLE READ absent keys are not locked, and another transaction's row must not be deleted.
        if seen and not self.run(f"DELETE FROM lists WHERE k IN ({', '.join(map(str, seen))})"):
            return None
        added = {key: self.new_element() for key in keys}
        values = ", ".join(f"({key}, {base // KEYS * GROUPS + key % GROUPS}, {seen.get(key, b'').count(b',') + 1}, "
                           f"'{seen.get(key, b'').decode()},{element}')" for key, element in added.items())
        if not self.run(f"INSERT INTO lists VALUES {values}"):
            return None
        return [step for key in keys for step in (ReadList(key, elements(seen.get(key, b""))), Append(key, added[key]))]

    def append(self, base):
        if self.draw.random() < LOADS:
            return self.load(base)
        key, element = base + self.draw.randrange(KEYS), self.new_element()
        group = base // KEYS * GROUPS + key % GROUPS
        shape = self.draw.randrange(6)
        if shape < 3:
            done = self.run(f"INSERT INTO lists VALUES ({key}, {group}, 1, ',{element}') "
                            f"ON DUPLICATE KEY UPDATE v = CONCAT(v, ',{element}'), size = size + 1")
            return done and [Append(key, element)]
        if shape == 3:
            done = self.run(f"UPDATE lists SET v = CONCAT(v, ',{element}'), size = size + 1 WHERE k = {key}")
            return done and [Append(key, element) if done[1] else ReadList(key, ())]
        # A locking read, then a write of the list with one more element.
        rows = self.rows(f"SELECT v FROM lists WHERE k = {key} FOR UPDATE")
        if rows is None:
            return None
        seen = rows[0][0] if rows else b""
        row = f"({key}, {group}, {seen.count(b',') + 1}, '{seen.decode()},{element}')"
        if not rows:  # below REPEATABLE READ nothing is locked: another transaction's row must not be replaced
            done = self.run(f"INSERT INTO lists VALUES {row}")
        elif shape == 4:
            done = self.run(f"REPLACE INTO lists VALUES {row}")
        else:
            done = self.run(f"DELETE FROM lists WHERE k = {key}") and self.run(f"INSERT INTO lists VALUES {row}")
        return done and [ReadList(key, elements(seen)), Append(key, element)]

    def read_register(self, base):
        key = base + self.draw.randrange(KEYS)
        rows = self.rows(f"SELECT prior, v FROM registers WHERE k = {key}")
        if rows is None:
            return None
        return [ReadRegister(key, *(int(value) for value in rows[0]) if rows else (0, 0))]

    def write(self, base):
        key, value = base + self.draw.randrange(KEYS), self.new_element()
        done = self.run(f"INSERT INTO registers VALUES ({key}, 0, {value}) ON DUPLICATE KEY UPDATE prior = v, v = {value}")
        if not done:
            return None
        rows = self.rows(f"SELECT prior, v FROM registers WHERE k = {key}")
        return rows and [Write(key, value), ReadRegister(key, int(rows[0][0]), int(rows[0][1]))]

    # ---- transactions -----------------------------------------------------------------------------------------------

    def transaction(self, number):
        base = number // TRANSACTIONS * KEYS
        done = Transaction(f"{self.number}.{number}", began=time.monotonic())
        self.statements = done.statements
        self.run_steps(done, base)
        done.ended = time.monotonic()
        return done

    def run_steps(self, done, base):
        kinds = (self.read_lists, self.append, self.read_register, self.write)
        weights = self.draw.choice(((4, 4, 1, 1), (6, 1, 2, 1), (1, 1, 0, 0), (0, 0, 2, 1)))
        self.must(self.draw.choice(("BEGIN", "BEGIN", "START TRANSACTION WITH CONSISTENT SNAPSHOT")))
        for _ in range(self.draw.choice((1, 2, 2, 3, 3, 4, 6))):
            saved = len(done.steps)
            is_undone = self.draw.random() < 0.04
            if is_undone:
                self.must("SAVEPOINT s")
            steps = self.draw.choices(kinds, weights)[0](base)
            if steps is None:
                self.must("ROLLBACK")
                return
            done.steps += steps
            if is_undone:
                self.must("ROLLBACK TO SAVEPOINT s")
                for step in done.steps[saved:]:
                    if isinstance(step, (Append, Write)):
                        step.kept = False
                done.steps[saved:] = [step for step in done.steps[saved:] if isinstance(step, (Append, Write))]
        if self.draw.random() < 0.08:
            self.must("ROLLBACK")
            return
        done.status = COMMITTED if self.run("COMMIT") else ABORTED


def final_lists(session):
    rows = (fields(row) for row in session.run("SELECT k, v FROM lists")[2])
    return {int(key): elements(text) for key, text in rows}
