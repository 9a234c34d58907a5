"""The sessions of a soak run. Each is a process that repeats its work, and connects again after a kill of the server or of its connection."""

import random
import time
import traceback

from tests.harness import SqlError
from tests.harness.bank import Bank

from .latency import Meter

DATABASE = "soak"
EVENT = "id BINARY(16) PRIMARY KEY, at BIGINT NOT NULL, owner INT NOT NULL, note VARCHAR(120), KEY (owner), KEY (at, owner)"
# The tables of the writers. Keys are added to `indexed` only: the dump holds metadata locks on other tables.
TABLES = {
    "event": EVENT,
    "indexed": EVENT,
    "queue": "id BIGINT AUTO_INCREMENT PRIMARY KEY, body VARCHAR(200)",
    "probe": "id INT, number BIGINT, note VARCHAR(60), PRIMARY KEY (id, number), KEY (note)",
    "total": "day INT, owner INT, n BIGINT NOT NULL, PRIMARY KEY (day, owner), KEY (n)",
}
OWNERS = 5000
ROWS_OF_STATEMENT = 100
# Errors that the load expects: lock waits, killed queries, a table or row that was changed since the snapshot, a key
# that already exists or does not exist.
EXPECTED = {1205, 1213, 1020, 1317, 1412, 1061, 1091}


class Session:
    """What all sessions share: a connection that is opened again, and a meter."""

    def __init__(self, socket, queue, name, seed, pause=0.0):
        from tests.harness.connection import Connection
        self.open = lambda: Connection(socket, DATABASE)
        self.pause = pause
        self.queue, self.name = queue, name
        self.meter = Meter(queue, name)
        self.random = random.Random(f"{seed}-{name}")
        self.connection = None

    def run(self, statement):
        return self.meter.run(self.connection, statement)

    def work_until(self, stopped):
        recovering = False
        while not stopped.is_set():
            try:
                if self.connection is None:
                    self.connection = self.open()
                    self.begin()
                # The killer may also end a statement of recover(), which is then repeated.
                if recovering:
                    self.recover()
                else:
                    self.step()
                    time.sleep(self.pause)
                recovering = False
            except SqlError as error:
                recovering = not error.lost and error.number in EXPECTED
                if error.lost:
                    self.connection = None
                    time.sleep(0.2)
                elif not recovering:
                    self.queue.put((self.name, None, f"{self.name}: {error}"))
                    self.connection = None
                    time.sleep(1)
        self.meter.report()

    def begin(self):
        """Prepares a new connection."""

    def step(self):
        raise NotImplementedError

    def recover(self):
        """Called after an error that the load expects."""
        self.connection.run("ROLLBACK")


class Writer(Session):
    """Inserts and deletes random keys, increments counts, updates indexed columns, and moves rows through a queue."""

    def step(self):
        choose = self.random.random()
        if choose < 0.5:
            rows = ",".join(f"(X'{self.random.getrandbits(128):032x}',{time.time_ns() // 1000000},{self.random.randrange(OWNERS)},"
                            f"REPEAT('{self.random.randrange(10)}',{self.random.randrange(100)}))" for _ in range(ROWS_OF_STATEMENT))
            self.run(f"INSERT INTO {'event' if choose < 0.4 else 'indexed'} VALUES {rows}")
        elif choose < 0.7:
            rows = ",".join(f"({self.random.randrange(30)},{self.random.randrange(OWNERS)},1)" for _ in range(20))
            self.run(f"INSERT INTO total VALUES {rows} ON DUPLICATE KEY UPDATE n = n + 1")
        elif choose < 0.8:
            table = "event" if choose < 0.77 else "indexed"
            self.run(f"UPDATE {table} SET owner = owner + 1 WHERE id > X'{self.random.getrandbits(128):032x}' ORDER BY id LIMIT 10")
        elif choose < 0.87:
            rows = ",".join(f"(REPEAT('q',{self.random.randrange(200)}))" for _ in range(ROWS_OF_STATEMENT))
            self.run(f"INSERT INTO queue (body) VALUES {rows}")
        elif choose < 0.94:
            self.run(f"DELETE FROM queue ORDER BY id LIMIT {ROWS_OF_STATEMENT}")
        elif choose < 0.98:
            # Deletes about half of the rows that are inserted.
            low = f"{self.random.getrandbits(128):032x}"
            self.run(f"DELETE FROM event WHERE id > X'{low}' ORDER BY id LIMIT {ROWS_OF_STATEMENT * 6}")
        else:
            self.run("BEGIN")
            self.run(f"DELETE FROM event WHERE owner = {self.random.randrange(OWNERS)} LIMIT 1000")
            self.run("ROLLBACK")


class Reader(Session):
    """Looks rows up by the primary key and by a secondary key."""

    def step(self):
        if self.random.random() < 0.5:
            self.run(f"SELECT at FROM event WHERE id >= X'{self.random.getrandbits(128):032x}' ORDER BY id LIMIT 1")
        else:
            self.run(f"SELECT MAX(at) FROM event WHERE owner = {self.random.randrange(OWNERS)}")


class Probe(Session):
    """Writes and reads rows that no other session locks: its latencies are those of the engine, without lock waits."""

    number = 0

    def step(self):
        self.number = max(self.number + 1, time.time_ns())
        self.run(f"INSERT INTO probe VALUES ({self.random.randrange(100)}, {self.number}, REPEAT('p', {self.random.randrange(60)}))")
        self.run(f"SELECT note FROM probe WHERE id = {self.random.randrange(100)} AND number > {self.random.randrange(self.number)} LIMIT 1")
        time.sleep(0.005)


class Teller(Session):
    """Moves money between accounts; the sums are checked after each start of the server."""

    number = 0

    def step(self):
        bank = Bank()
        self.number += 1
        self.connection.run("USE bank")
        self.run("BEGIN")
        # An earlier connection must not have used the same number.
        bank.carry_out(self.connection, self.random, time.time_ns() % 2000000011, self.number, bank.choose(self.random))
        self.run("COMMIT")


class Trickler(Session):
    """Writes single rows into one of many tables."""

    def __init__(self, *arguments, tables):
        super().__init__(*arguments)
        self.tables = tables

    def step(self):
        table = self.random.randrange(self.tables)
        self.run(f"INSERT INTO trickle_{table} VALUES ({self.random.getrandbits(31)}, {self.random.getrandbits(20)}) "
                 f"ON DUPLICATE KEY UPDATE n = n + 1")
        time.sleep(0.005)


# In the statements of the dump.
DUMP = "teak-dump"


class Dump(Session):
    """Reads three tables repeatedly in one snapshot that it never ends: each time it must find the same rows."""

    expected = None

    def begin(self):
        self.connection.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self.connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        self.expected = None

    def step(self):
        found = [self.connection.run(f"SELECT /* {DUMP} */ {query}") for query in (
            "COUNT(*), SUM(at), SUM(owner) FROM event FORCE INDEX (PRIMARY)", "COUNT(*), SUM(n) FROM total", "SUM(balance) FROM bank.account")]
        if self.expected is not None and found != self.expected:
            self.queue.put((self.name, None, f"the snapshot of the dump changed from {self.expected} to {found}"))
        self.expected = found
        time.sleep(1)

    def recover(self):
        self.connection.close()
        self.connection = None


class IdleSnapshot(Session):
    """A transaction that has read one row and waits."""

    def begin(self):
        self.connection.run("BEGIN")
        self.connection.run("SELECT * FROM total LIMIT 1")

    def step(self):
        time.sleep(1)
        # Finds out whether the connection has been lost.
        self.connection.run("DO 1")


class IdleHandler(Session):
    """A HANDLER that is open on the first row of the largest table."""

    def begin(self):
        self.connection.run("HANDLER event OPEN")
        self.connection.run("HANDLER event READ FIRST")

    def step(self):
        time.sleep(1)
        self.connection.run("DO 1")


class KeyBuilder(Session):
    """Adds and drops a secondary key in turns."""

    def step(self):
        self.connection.run("ALTER TABLE indexed ADD KEY extra (note, owner), ALGORITHM=NOCOPY, LOCK=NONE")
        time.sleep(2)
        self.connection.run("ALTER TABLE indexed DROP KEY extra")
        time.sleep(2)

    def recover(self):
        self.connection.run("ALTER TABLE indexed DROP KEY IF EXISTS extra")


class Killer(Session):
    """Kills a statement of another session, or sometimes the session's connection, but no probe, no ALTER TABLE, and not the dump, whose
    snapshot would end."""

    def step(self):
        time.sleep(1)
        others = [row for row in self.connection.run("SELECT id, info FROM information_schema.processlist WHERE db = 'soak' "
                                                     "AND command = 'Query' AND id <> CONNECTION_ID() AND info NOT LIKE 'ALTER%' AND info NOT LIKE '%probe%' "
                                                     f"AND info NOT LIKE '%{DUMP}%'")]
        if others:
            number = int(self.random.choice(others)[0])
            kind = "CONNECTION" if self.random.random() < 0.2 else "QUERY"
            try:
                self.connection.run(f"KILL {kind} {number}")
            except SqlError as error:
                if error.number != 1094:  # it has ended by itself
                    raise


def work(kind, arguments, keywords, stopped):
    """The function of a session's process."""
    try:
        kind(*arguments, **keywords).work_until(stopped)
    except KeyboardInterrupt:
        pass
    except Exception:  # reported to the run, because a session that ended adds no load
        arguments[1].put((arguments[2], None, f"{arguments[2]} ended: {traceback.format_exc()}"))
