"""kill -9 of the primary or the replica at random moments, while money moves between accounts.

1. Writers move money on the primary. Each transaction also adds a row (writer, number) with what it did, and counts one
   up in a table of counters. Numbers are consecutive; what was acknowledged is kept here, outside the servers.
2. Watchers read both sides in consistent snapshots all the time: the sum of money must hold, the counters must be as many
   as the rows, and the numbers of each writer must have no gap.
3. One of the servers, or both, are killed, and started again, now and then once more killed while they recover.
4. When the writers have stopped and the replica has caught up: every acknowledged transaction is there, on both sides,
   once; every balance is what the rows say; both sides are the same.
"""

import random
import subprocess
import threading
import time
from pathlib import Path

from replication_servers import is_conflict, slave_status
from teak_server import SqlError

DATABASE = "bank"
ACCOUNTS, BALANCE, COUNTERS = 40, 1000, 8
CREATE = {
    "account": "id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(2000), KEY (balance)",
    "moved": "writer INT, number INT, payer INT, payee INT, amount INT, PRIMARY KEY (writer, number), KEY (payer), KEY (payee)",
    "counter": "id INT PRIMARY KEY, n BIGINT NOT NULL",
}


def create(server):
    with server.connect() as connection:
        connection.run(f"CREATE DATABASE {DATABASE}")
        connection.run(f"USE {DATABASE}")
        for table, columns in CREATE.items():
            connection.run(f"CREATE TABLE {table} ({columns}) ENGINE=TEAK")
        connection.run("INSERT INTO account VALUES " + ", ".join(f"({n}, {BALANCE}, NULL)" for n in range(ACCOUNTS)))
        connection.run("INSERT INTO counter VALUES " + ", ".join(f"({n}, 0)" for n in range(COUNTERS)))


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

    def __init__(self, server, number, seed, acknowledged, stop):
        super().__init__(daemon=True)
        self.server, self.number, self.stop = server, number, stop
        self.random = random.Random(seed)
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
                if error.lost:
                    connection = None
                elif not is_conflict(error):
                    self.faults.append(f"writer {self.number}: {error}")
                    return
                else:
                    connection.run("ROLLBACK")

    def find_out(self, connection):
        """After the loss of a server: whether the transaction in doubt is there."""
        there = int(connection.value(f"SELECT COALESCE(MAX(number), 0) FROM moved WHERE writer = {self.number}"))
        if there not in (self.acknowledged, self.acknowledged + 1):
            self.faults.append(f"writer {self.number}: {self.acknowledged} was acknowledged, the primary has {there}")
        self.acknowledged = there

    def move(self, connection):
        rng = self.random
        payer, payee = rng.sample(range(ACCOUNTS), 2)
        amount, number = rng.randint(1, 50), self.acknowledged + 1
        steps = [f"UPDATE account SET balance = balance - {amount} WHERE id = {payer}",
                 f"UPDATE account SET balance = balance + {amount}, note = REPEAT('{number} ', {rng.randint(0, 200)}) WHERE id = {payee}",
                 f"INSERT INTO moved VALUES ({self.number}, {number}, {payer}, {payee}, {amount})",
                 f"UPDATE counter SET n = n + 1 WHERE id = {rng.randrange(COUNTERS)}"]
        rng.shuffle(steps)
        connection.run("BEGIN")
        for step in steps:
            if rng.random() < 0.1:
                connection.run("SAVEPOINT s")
                connection.run(f"UPDATE account SET balance = 0 WHERE id = {rng.randrange(ACCOUNTS)}")
                connection.run("ROLLBACK TO SAVEPOINT s")
            connection.run(step)
        if rng.random() < 0.05:
            connection.run("ROLLBACK")
            return
        connection.run("COMMIT")
        self.acknowledged = number


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
    money = int(connection.value("SELECT SUM(balance) FROM account"))
    rows = {int(writer): (int(count), int(newest)) for writer, count, newest in
            connection.run("SELECT writer, COUNT(*), MAX(number) FROM moved GROUP BY writer")}
    counted = int(connection.value("SELECT SUM(n) FROM counter"))
    connection.run("COMMIT")
    faults = []
    if money != ACCOUNTS * BALANCE:
        faults.append(f"{side}: the accounts hold {money} in a snapshot, not {ACCOUNTS * BALANCE}")
    if counted != sum(count for count, _ in rows.values()):
        faults.append(f"{side}: the counters say {counted}, the rows {rows}")
    faults += [f"{side}: of writer {writer} there are {count} transactions, the newest is {newest}"
               for writer, (count, newest) in rows.items() if count != newest]
    return faults


def verify(connection, side, acknowledged):
    """With nobody writing: the rows are the acknowledged ones, and the balances what they add up to."""
    faults = look(connection, side)
    rows = connection.run("SELECT writer, number, payer, payee, amount FROM moved ORDER BY writer, number")
    newest, balances = dict.fromkeys(range(len(acknowledged)), 0), dict.fromkeys(range(ACCOUNTS), BALANCE)
    for writer, number, payer, payee, amount in (map(int, row) for row in rows):
        newest[writer] = number
        balances[payer] -= amount
        balances[payee] += amount
    if newest != dict(enumerate(acknowledged)):
        faults.append(f"{side}: the newest transactions are {newest}, acknowledged were {acknowledged}")
    found = {int(key): int(balance) for key, balance in connection.run("SELECT id, balance FROM account")}
    if found != balances:
        faults.append(f"{side}: balances {found}, by the rows {balances}")
    return faults


class Kills:
    """`kills` rounds on a pair of servers."""

    def __init__(self, pair, seed, writers, pause):
        self.pair, self.writers, self.pause = pair, writers, pause
        self.seed, self.random = seed, random.Random(seed)
        self.acknowledged = [0] * writers
        self.snapshots = 0

    def start(self, server):
        """Starts a killed server, at times killing it while it recovers; returns how often."""
        again = 0
        while self.random.random() < 0.2 and again < 2:
            again += 1
            starting = subprocess.Popen([str(Path(__file__).parent / "server.sh"), "start", str(server.directory),
                                         *server.options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(self.random.uniform(0.05, 0.6))
            server.kill()
            starting.wait()
            server.kill()
        server.start()
        return again

    def round(self, number):
        """Returns the faults and a line that tells what was done."""
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
        again = sum(self.start(victim) for victim in victims)
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
