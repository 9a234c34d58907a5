"""kill -9 of the primary or the replica at random moments, while money moves between accounts.

1. Writers transfer money on the primary. Each transaction also adds a row (writer, number) that records it, and
   increments a counter. Numbers are consecutive; this process stores each writer's newest acknowledged one.
2. Watchers read both sides in consistent snapshots all the time: the sum of money must be constant, the counters
   must equal the number of rows, and the numbers of each writer must have no gap.
3. One of the servers, or both, are killed and started again; sometimes they are killed again while they recover.
4. After the writers have stopped and the replica has caught up, every acknowledged transaction is on both sides,
   once; every balance is the sum of the rows; both sides are equal.
"""

import random
import threading
import time

from tests.harness import SqlError
from tests.harness.bank import DATABASE, Bank

from .servers import slave_status

BANK = Bank()


def connect(server, stop):
    """A session in the bank's database, as soon as the server accepts one; None if `stop` is set first."""
    while not stop.is_set():
        try:
            connection = server.connect(DATABASE)
            connection.run("SET SESSION teak_lock_timeout = 2000")
            return connection
        except SqlError:
            time.sleep(0.05)
    return None


class Writer(threading.Thread):
    """Transfers money until stopped. `acknowledged` is the newest acknowledged number; the next one may be in doubt."""

    def __init__(self, server, number, seed, acknowledged, stop):
        super().__init__(daemon=True)
        self.server, self.number, self.stop = server, number, stop
        self.random = random.Random(seed)
        self.acknowledged = acknowledged
        self.faults = []

    def run(self):
        connection = None
        # If the connection is lost when the writer is stopped, continues until the transaction in doubt was looked up.
        while not self.stop.is_set() or (connection is None and not self.faults):
            try:
                if connection is None:
                    connection = connect(self.server, threading.Event())
                    self.find_out(connection)
                    continue
                self.move(connection)
            except SqlError as error:
                if error.lost:
                    connection = None
                elif not error.conflict:
                    self.faults.append(f"writer {self.number}: {error}")
                    return
                else:
                    connection.run("ROLLBACK")

    def find_out(self, connection):
        """After the loss of a connection: looks up whether the transaction in doubt was committed."""
        there = int(connection.value(f"SELECT COALESCE(MAX(number), 0) FROM moved WHERE writer = {self.number}"))
        if there not in (self.acknowledged, self.acknowledged + 1):
            self.faults.append(f"writer {self.number}: {self.acknowledged} was acknowledged, the primary has {there}")
        self.acknowledged = there

    def move(self, connection):
        rng, number = self.random, self.acknowledged + 1
        connection.run("BEGIN")
        BANK.carry_out(connection, rng, self.number, number, BANK.choose(rng))
        if rng.random() < 0.05:
            connection.run("ROLLBACK")
            return
        connection.run("COMMIT")
        self.acknowledged = number


class Watcher(threading.Thread):
    """Reads one side in consistent snapshots until stopped."""

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
                self.faults += check_snapshot(connection, self.server.directory.name)
                self.snapshots += 1
                time.sleep(0.02)
            except SqlError as error:
                if not error.lost:
                    self.faults.append(f"{self.server.directory.name}: {error}")
                connection = None


def check_snapshot(connection, side):
    """Checks one consistent snapshot; returns the faults."""
    connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    faults = BANK.sums(connection, side)
    rows = {int(writer): (int(count), int(newest)) for writer, count, newest in
            connection.run("SELECT writer, COUNT(*), MAX(number) FROM moved GROUP BY writer")}
    connection.run("COMMIT")
    faults += [f"{side}: of writer {writer} there are {count} transactions, the newest is {newest}"
               for writer, (count, newest) in rows.items() if count != newest]
    return faults


def verify(connection, side, acknowledged):
    """Checks, without concurrent writers, that the rows are the acknowledged ones and the balances match their sums."""
    moved, faults = BANK.verify(connection, side)
    faults += check_snapshot(connection, side)
    newest = dict.fromkeys(range(len(acknowledged)), 0) | dict(sorted(moved))
    if newest != dict(enumerate(acknowledged)):
        faults.append(f"{side}: the newest transactions are {newest}, acknowledged were {acknowledged}")
    return faults


class Kills:
    """Rounds of kills on a pair of servers."""

    def __init__(self, pair, seed, writers, pause):
        self.pair, self.writers, self.pause = pair, writers, pause
        self.seed, self.random = seed, random.Random(seed)
        self.acknowledged = [0] * writers
        self.snapshots = 0

    def round(self, number):
        """Runs one round; returns the faults and a line that describes the round."""
        stop = threading.Event()
        pair, rng = self.pair, self.random
        writers = [Writer(pair.primary, writer, f"{self.seed}-{number}-{writer}", self.acknowledged[writer], stop)
                   for writer in range(self.writers)]
        watchers = [Watcher(server, self.writers, stop) for server in (pair.primary, pair.replica)]
        for thread in (*writers, *watchers):
            thread.start()
        pause = rng.uniform(0.1, self.pause)
        time.sleep(pause)
        victims = rng.choice([[pair.primary], [pair.replica], [pair.replica], [pair.primary, pair.replica]])
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
        for thread in (*writers, *watchers):
            thread.join(60)
            if thread.is_alive():
                faults.append("a session did not end")
            faults += thread.faults
        self.snapshots += sum(watcher.snapshots for watcher in watchers)
        moved = sum(writer.acknowledged for writer in writers) - sum(self.acknowledged)
        self.acknowledged = [writer.acknowledged for writer in writers]
        began = time.monotonic()
        pair.catch_up()
        seconds = time.monotonic() - began
        for server in (pair.primary, pair.replica):
            with server.connect(DATABASE) as connection:
                faults += verify(connection, server.directory.name, self.acknowledged)
        with pair.replica.connect() as connection:
            if slave_status(connection)["Slave_SQL_Running"] != "Yes":
                faults.append("the replica does not run")
        names = " and ".join(victim.directory.name for victim in victims)
        twice = f", {again} times more while recovering" if again else ""
        return faults, f"{names} after {pause:.2f} s{twice}: {moved} transactions, caught up in {seconds:.1f} s"
