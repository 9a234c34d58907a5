"""kill -9 of the primary or the replica at random moments, while money moves between accounts and tables come and go.

1. Writers move money on the primary, also by XA. Each transaction also adds a row (writer, number) with what it did, and counts one
   up in a table of counters. Numbers are consecutive; what was acknowledged is kept here, outside the servers.
2. Watchers read both sides in consistent snapshots all the time: the sum of money must hold, the counters must be as many
   as the rows, and the numbers of each writer must have no gap.
3. One of the servers, or both, are killed, and started again, now and then once more killed while they recover.
   What MariaDB then leaves of XA transactions and DDL is mended (replication_mend.py); anything else is a fault.
4. When the writers have stopped and the replica has caught up: every acknowledged transaction is there, on both sides,
   once; every balance is what the rows say; nothing is left prepared; both sides are the same, tables made meanwhile too.
"""

import random
import threading
import time

import kill_ddl
from bank import DATABASE, Bank
from replication_mend import Mender, end_unlogged, is_logged, listed
from replication_servers import Stopped, compare, slave_status
from teak_server import SqlError

BANK = Bank()
XA_MARKED = (1399, 1402, 1613, 1614)


def connect(server, stop):
    """A session of the bank's database, as soon as the server takes one; None when `stop` is set first."""
    while not stop.is_set():
        try:
            connection = server.connect(DATABASE)
            connection.run("SET SESSION teak_lock_timeout = 2000")
            return connection
        except SqlError:
            time.sleep(0.05)
    return None


class Writer(threading.Thread):
    """Moves money until stopped. `acknowledged` is the newest number that was; what came after is in doubt."""

    def __init__(self, server, number, seed, acknowledged, stop, mender=None):
        """With a mender some transactions are XA."""
        super().__init__(daemon=True)
        self.server, self.number, self.stop, self.mender = server, number, stop, mender
        self.random = random.Random(seed)
        # The XA transaction under way: its name, and the step that was sent last.
        self.branch, self.step, self.branches = None, None, 0
        self.prefix = f"bank-{seed}"
        self.acknowledged = acknowledged
        self.faults = []

    def run(self):
        connection = None
        # What is in doubt at the end is found out too.
        while not self.stop.is_set() or (connection is None and not self.faults):
            try:
                if connection is None:
                    connection = connect(self.server, threading.Event())
                    self.find_out(connection)
                    continue
                self.move(connection)
            except SqlError as error:
                if not error.lost and not error.conflict:
                    self.faults.append(f"writer {self.number}: {error}")
                    return
                if error.lost or not self.give_up(connection):
                    connection = None

    def give_up(self, connection):
        """After a conflict, which comes before COMMIT and XA PREPARE; returns whether the session is still there."""
        for statement in [f"XA END '{self.branch}'", f"XA ROLLBACK '{self.branch}'"] if self.branch else ["ROLLBACK"]:
            try:
                connection.run(statement)
            except SqlError as error:
                if error.lost:
                    return False
                # A deadlock has marked it for rollback: then XA END says so.
                if error.number not in XA_MARKED:
                    self.faults.append(f"writer {self.number}: {error}")
        self.branch = None
        return True

    def find_out(self, connection):
        """After the loss of a server: whether the transaction in doubt is there."""
        if self.branch:
            self.end_branch(connection)
        there = int(connection.value(f"SELECT COALESCE(MAX(number), 0) FROM moved WHERE writer = {self.number}"))
        if there not in (self.acknowledged, self.acknowledged + 1):
            self.faults.append(f"writer {self.number}: {self.acknowledged} was acknowledged, the primary has {there}")
        self.acknowledged = there

    def move(self, connection):
        rng, number = self.random, self.acknowledged + 1
        if self.mender and rng.random() < 0.3:
            self.move_by_xa(connection, number)
            return
        connection.run("BEGIN")
        BANK.carry_out(connection, rng, self.number, number, BANK.choose(rng))
        if rng.random() < 0.05:
            connection.run("ROLLBACK")
            return
        connection.run("COMMIT")
        self.acknowledged = number

    # ---- XA ----------------------------------------------------------------------------------------------------------

    def send(self, connection, step):
        self.step = step
        connection.run(f"XA {step} '{self.branch}'")

    def move_by_xa(self, connection, number):
        rng = self.random
        self.branches += 1
        self.branch = f"{self.prefix}-{self.branches}"
        self.send(connection, "START")
        BANK.carry_out(connection, rng, self.number, number, BANK.choose(rng))
        self.send(connection, "END")
        self.send(connection, "PREPARE")
        self.step = "PREPARED"
        time.sleep(rng.choice([0, 0, 0.01]))
        verb = rng.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])
        self.send(connection, verb)
        self.branch = None
        if verb == "COMMIT":
            self.acknowledged = number

    def end_branch(self, connection):
        """After the loss of the primary: ends the XA transaction that was under way as the steps sent demand."""
        name, step = self.branch, self.step
        is_listed = name in listed(connection)
        if step in ("START", "END"):
            if is_listed:
                self.faults.append(f"{name} is prepared, which nobody asked for")
        elif step == "PREPARE":
            self.mender.owed[name] = "ROLLBACK"
            if is_listed:
                end_unlogged(connection, "ROLLBACK", name)
        elif step == "PREPARED":
            if not is_listed:
                self.faults.append(f"{name} was prepared and acknowledged, and is lost")
            else:
                self.send(connection, self.random.choice(["COMMIT", "ROLLBACK"]))
                if self.step == "COMMIT":
                    self.acknowledged += 1
        else:
            is_in_log = is_logged(connection, step, name)
            if is_listed and is_in_log:
                end_unlogged(connection, step, name)
            elif is_listed:
                self.send(connection, step)
            elif not is_in_log:
                self.mender.owed[name] = step
            if step == "COMMIT":
                self.acknowledged += 1
        self.branch = None


class Designer(threading.Thread):
    """Makes, changes, renames and drops tables of its own on the primary until stopped. `tables` is what must be there."""

    def __init__(self, server, tables, journal, seed, stop):
        super().__init__(daemon=True)
        self.server, self.tables, self.journal, self.seed, self.stop = server, tables, journal, seed, stop
        self.done, self.faults = 0, []

    def run(self):
        while not self.stop.is_set() and not self.faults:
            self.journal.unlink(missing_ok=True)
            # TRUNCATE is not in the server's log of DDL: killed in it, the primary has it and the binary log does not.
            kill_ddl.write_until_lost(self.server.socket, self.tables, "TEAK", self.journal, f"{self.seed}-{self.done}",
                                      without=("truncate",), stop=self.stop)
            while not self.find_out():
                pass

    def find_out(self):
        """Compares what is there; returns whether the server was."""
        try:
            with connect(self.server, threading.Event()) as connection:
                self.tables, done, faults = kill_ddl.verify(connection, self.journal, self.tables)
        except SqlError as error:
            if not error.lost:
                self.faults.append(f"tables: {error}")
            return not error.lost
        self.done += done
        self.faults += faults
        return True


class Watcher(threading.Thread):
    """Looks at one side in consistent snapshots until stopped."""

    def __init__(self, server, writers, stop):
        super().__init__(daemon=True)
        self.server, self.writers, self.stop = server, writers, stop
        self.snapshots, self.faults = 0, []

    def run(self):
        connection = None
        while not self.stop.is_set() and not self.faults:
            try:
                connection = connection or connect(self.server, self.stop)
                if connection is None:
                    return
                self.faults += look(connection, self.server.directory.name)
                self.snapshots += 1
                time.sleep(0.02)
            except SqlError as error:
                if not error.lost:
                    self.faults.append(f"{self.server.directory.name}: {error}")
                connection = None


def look(connection, side):
    """One consistent snapshot; returns what does not hold in it."""
    connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    faults = BANK.sums(connection, side)
    rows = {int(writer): (int(count), int(newest)) for writer, count, newest in
            connection.run("SELECT writer, COUNT(*), MAX(number) FROM moved GROUP BY writer")}
    connection.run("COMMIT")
    faults += [f"{side}: of writer {writer} there are {count} transactions, the newest is {newest}"
               for writer, (count, newest) in rows.items() if count != newest]
    return faults


def verify(connection, side, acknowledged):
    """With nobody writing: the rows are the acknowledged ones, and the balances what they add up to."""
    moved, faults = BANK.verify(connection, side)
    faults += look(connection, side)
    newest = dict.fromkeys(range(len(acknowledged)), 0) | dict(sorted(moved))
    if newest != dict(enumerate(acknowledged)):
        faults.append(f"{side}: the newest transactions are {newest}, acknowledged were {acknowledged}")
    return faults


class Kills:
    """`kills` rounds on a pair of servers."""

    def __init__(self, pair, seed, writers, pause):
        self.pair, self.writers, self.pause = pair, writers, pause
        self.seed, self.random = seed, random.Random(seed)
        self.acknowledged = [0] * writers
        self.snapshots, self.tables = 0, {}

    def round(self, number):
        """Returns the faults and a line that tells what was done."""
        stop = threading.Event()
        pair, rng = self.pair, self.random
        mender = Mender(pair.replica)
        writers = [Writer(pair.primary, writer, f"{self.seed}-{number}-{writer}", self.acknowledged[writer], stop, mender)
                   for writer in range(self.writers)]
        watchers = [Watcher(server, self.writers, stop) for server in (pair.primary, pair.replica)]
        designer = Designer(pair.primary, self.tables, pair.directory / "journal-tables", f"{self.seed}-{number}", stop)
        for thread in (mender, designer, *writers, *watchers):
            thread.start()
        pause = rng.uniform(0.1, self.pause)
        time.sleep(pause)
        victims = rng.choice([[pair.primary], [pair.replica], [pair.replica], [pair.primary, pair.replica]])
        mender.was_killed = pair.replica in victims
        for victim in victims:
            victim.kill()
        time.sleep(rng.choice([0, 0, 0.5]))
        again = 0
        for victim in victims:
            again += victim.kill_while_recovering(rng, 2)
            victim.start()
        time.sleep(rng.uniform(0.2, self.pause))
        stop.set()
        faults = []
        for thread in (designer, *writers, *watchers):
            thread.join(60)
            if thread.is_alive():
                faults.append("a session did not end")
            faults += thread.faults
        self.snapshots += sum(watcher.snapshots for watcher in watchers)
        moved = sum(writer.acknowledged for writer in writers) - sum(self.acknowledged)
        self.acknowledged = [writer.acknowledged for writer in writers]
        began = time.monotonic()
        faults += self.catch_up(mender)
        seconds = time.monotonic() - began
        if faults:
            return faults, "the replica was being mended"
        made, self.tables = designer.done, designer.tables
        with pair.primary.connect() as left, pair.replica.connect() as right:
            faults += compare(left, right, [kill_ddl.DATABASE])[2]
        for server in (pair.primary, pair.replica):
            with server.connect(DATABASE) as connection:
                faults += verify(connection, server.directory.name, self.acknowledged)
        with pair.replica.connect() as connection:
            if slave_status(connection)["Slave_SQL_Running"] != "Yes":
                faults.append("the replica does not run")
        names = " and ".join(victim.directory.name for victim in victims)
        twice = f", {again} times more while recovering" if again else ""
        mended = "".join(f"; {what}: {count}" for what, count in mender.told.items())
        return faults, (f"{names} after {pause:.2f} s{twice}: {moved} transactions, {made} statements on tables, caught up in "
                        f"{seconds:.1f} s{mended}")

    def catch_up(self, mender):
        """Waits until the replica has applied everything, mending it meanwhile; returns the faults."""
        deadline = time.monotonic() + 120
        while not mender.faults:
            try:
                self.pair.catch_up(5)
                return mender.finish()
            except Stopped as error:
                if time.monotonic() > deadline:
                    mender.done.set()
                    return [str(error)]
                time.sleep(0.1)
        return mender.faults
