"""The bank of the crash test: transfers within the engine under test, between it and InnoDB, and by XA, with a journal outside the server.

Tellers (processes) transfer money: by COMMIT (between the engines only with a binary log) or by XA. They leave some
of their prepared XA transactions to other sessions, which end them. The journal records each step before it is sent
and after it was acknowledged.

After the restart XA RECOVER must list the transactions that were prepared, acknowledged and not ended, and nothing
else except those in flight. Until they are ended, the rows of these transactions are invisible and locked. Then the
coordinator ends them: if XA COMMIT or XA ROLLBACK was in flight, it repeats this statement; if XA PREPARE was in
flight, it rolls back; it ends most of the others at random, and the rest remains prepared. The tables must contain
exactly the committed transfers, each once, and no money may be lost.
"""

import json
import random
import time

from tests.harness import Connection, SqlError
from tests.harness.bank import DATABASE, Bank

from .journal import Journal

TELLERS = 2
# Maximum number of prepared transactions of a teller that wait for another session to end them.
LEFT_MAX = 3
LOCK_TIMEOUT, XAER_NOTA = 1205, 1397
# Errors of XA END and XA ROLLBACK for a transaction that is marked for rollback; the first is in the state ROLLBACK ONLY.
XA_MARKED = (1399, 1402, 1613, 1614)


def bank(engine):
    return Bank([engine, "InnoDB"], accounts=200, counters=100)


def name_of(teller, number):
    return f"bank-{teller}-{number}"


class Ledger:
    """The contents of a teller's journals. A transfer is (payer, payee, amount). Its key is a number
    that is never reused."""

    def __init__(self):
        self.committed, self.prepared = {}, {}
        self.ended = {}  # how each prepared transaction ended
        self.newest = 0
        self.doubtful = None  # (step, number, transfer) that was sent and not acknowledged

    def read(self, path):
        """Reads a round's journal; returns the teller's errors and the number of transfers that it ended."""
        errors, ended, transfers = [], 0, {}
        self.doubtful = None
        try:
            lines = open(path, encoding="utf-8").read().splitlines()
        except FileNotFoundError:
            lines = []
        for fields in map(json.loads, lines):
            if "error" in fields:
                errors.append(fields["error"])
                continue
            step, number = fields["step"], fields["number"]
            self.newest = max(self.newest, number)
            if "transfer" in fields:
                transfers[number] = tuple(fields["transfer"])
            if not fields["done"]:
                self.doubtful = (step, number, transfers.get(number))
                continue
            self.doubtful = None
            self.take(step, number, transfers.get(number))
            ended += step != "PREPARE"
        return errors, ended

    def take(self, step, number, transfer):
        """Records a step that is known to have happened."""
        if step == "PREPARE":
            self.prepared[number] = transfer
            return
        if number in self.prepared:
            self.ended[number] = step
        transfer = self.prepared.pop(number, transfer)
        if step == "COMMIT":
            self.committed[number] = transfer


class Teller:
    def __init__(self, socket, number, engine, ledger, journal, seed):
        self.socket, self.teller, self.bank = socket, number, bank(engine)
        self.number = ledger.newest + 1000
        self.left = list(ledger.prepared)
        self.journal, self.random = Journal(journal), random.Random(seed)
        self.engine = engine
        # The statements that roll back after a conflict; None when COMMIT or XA PREPARE is sent next.
        self.begun = None
        self.connection = self.connect()
        # Without a binary log, the server does not commit atomically in several engines (docs/design/transactions.md).
        self.has_binary_log = self.connection.value("SELECT @@log_bin") == "1"

    def connect(self):
        connection = Connection(self.socket, DATABASE)
        connection.run("SET SESSION innodb_lock_wait_timeout = 1")
        if self.engine.upper() == "TEAK":
            connection.run("SET SESSION teak_lock_timeout = 100")
        return connection

    def journalled(self, step, number, statement, **more):
        self.journal.write(step=step, number=number, done=False, **more)
        statement()
        self.journal.write(step=step, number=number, done=True)

    def transfer(self):
        self.number += 1
        number, is_xa = self.number, self.random.random() < 0.4
        transfer = self.bank.choose(self.random, not is_xa and not self.has_binary_log)
        if is_xa:
            self.by_xa(number, transfer)
            return
        self.begun = ["ROLLBACK"]
        self.connection.run("BEGIN")
        self.bank.carry_out(self.connection, self.random, self.teller, number, transfer)
        if self.random.random() < 0.05:
            self.connection.run("ROLLBACK")
            return
        self.begun = None
        self.journalled("COMMIT", number, lambda: self.connection.run("COMMIT"), transfer=transfer)

    def by_xa(self, number, transfer):
        name = name_of(self.teller, number)
        self.begun = [f"XA END '{name}'", f"XA ROLLBACK '{name}'"]
        self.connection.run(f"XA START '{name}'")
        self.bank.carry_out(self.connection, self.random, self.teller, number, transfer)
        self.connection.run(f"XA END '{name}'")
        self.begun = None
        self.journalled("PREPARE", number, lambda: self.connection.run(f"XA PREPARE '{name}'"), transfer=transfer)
        if len(self.left) < LEFT_MAX and self.random.random() < 0.5:
            self.left.append(number)
            self.connection.close()
            self.connection = self.connect()
        else:
            self.end(number)

    def end(self, number):
        verdict = self.random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])
        self.journalled(verdict, number, lambda: end(self.connection, verdict, name_of(self.teller, number)))

    def roll_back(self):
        """Rolls back after a conflict. A deadlock marks an XA transaction for rollback: then XA END returns an error."""
        for statement in self.begun:
            try:
                self.connection.run(statement)
            except SqlError as error:
                if error.number not in XA_MARKED:
                    raise

    def work(self):
        while True:
            try:
                if self.left and self.random.random() < 0.2:
                    self.end(self.left.pop(self.random.randrange(len(self.left))))
                else:
                    self.transfer()
            except SqlError as error:
                if not error.conflict or self.begun is None:
                    raise
                self.roll_back()


def end(connection, verdict, name):
    """XA COMMIT or XA ROLLBACK of a transaction that another session prepared. Repeats it while that session is being
    closed."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return connection.run(f"XA {verdict} '{name}'")
        except SqlError as error:
            if error.number not in (XAER_NOTA, LOCK_TIMEOUT) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def work_until_lost(socket, number, engine, ledger, journal, seed):
    try:
        Teller(socket, number, engine, ledger, journal, seed).work()
    except SqlError as error:
        if not error.lost:
            Journal(journal).write(error=f"teller {number}: {error}")


# ---- after the restart -----------------------------------------------------------------------------------------------

def listed(connection):
    return {data.decode() for _, _, _, data in connection.run("XA RECOVER")}


class Coordinator:
    """Ends the server's prepared transactions as the ledgers require, and compares the tables with the ledgers.
    `seen` counts the transactions found."""

    def __init__(self, engine, draw):
        self.bank, self.draw = bank(engine), draw
        self.engine = engine
        self.ledgers = [Ledger() for _ in range(TELLERS)]
        self.seen = dict.fromkeys(["transfers", "prepared", "preparing", "ending", "left"], 0)

    def verify(self, socket, journals):
        """Returns the faults."""
        faults = []
        for ledger, journal in zip(self.ledgers, journals):
            errors, ended = ledger.read(journal)
            faults += errors
            self.seen["transfers"] += ended
        with Connection(socket, DATABASE) as connection:
            found = listed(connection)
            for teller, ledger in enumerate(self.ledgers):
                faults += self.end_again(connection, teller, ledger, found)
            faults += self.unexpected(found) or self.unseen(connection)
            if faults:
                return faults
            for teller, ledger in enumerate(self.ledgers):
                self.end_doubtful(connection, teller, ledger, found)
                self.end_prepared(connection, teller, ledger)
            kept = {name_of(teller, number) for teller, ledger in enumerate(self.ledgers) for number in ledger.prepared}
            if listed(connection) != kept:
                faults.append(f"XA RECOVER lists {sorted(listed(connection))} when all but {sorted(kept)} are ended")
            self.seen["left"] += len(kept)
            return faults + self.compare(connection)

    def end_again(self, connection, teller, ledger, found):
        """Ends transactions again that InnoDB lists as prepared after their end was acknowledged; Teak must not list
        them. InnoDB's rollback does not wait for the disk, and InnoDB ignores an XA COMMIT or ROLLBACK while the
        connection that prepared the transaction is being closed (docs/design/transactions.md)."""
        faults = []
        for number, verdict in ledger.ended.items():
            name = name_of(teller, number)
            if name not in found:
                continue
            if self.engine.upper() == "TEAK" and connection.run(
                    f"SELECT 1 FROM information_schema.teak_trx WHERE trx_xid LIKE '%{name.encode().hex()}%'"):
                faults.append(f"{name} was ended by {verdict}, and Teak lists it as prepared")
            connection.run(f"XA {verdict} '{name}'")
            found.discard(name)
        return faults

    def unexpected(self, found):
        """Faults of XA RECOVER: transactions that are missing from its list, and transactions that must not be in it."""
        must, may = set(), set()
        for teller, ledger in enumerate(self.ledgers):
            must |= {name_of(teller, number) for number in ledger.prepared}
            if ledger.doubtful:
                may.add(name_of(teller, ledger.doubtful[1]))
        self.seen["prepared"] += len(must - may)
        faults = []
        if must - may - found:
            faults.append(f"prepared, acknowledged and lost: {sorted(must - may - found)}")
        if found - must - may:
            faults.append(f"XA RECOVER lists what is not prepared: {sorted(found - must - may)}")
        return faults

    def unseen(self, connection):
        """Checks that the rows of prepared transactions are invisible and locked."""
        faults = []
        if self.engine.upper() == "TEAK":
            connection.run("SET SESSION teak_lock_timeout = 20")
        for teller, ledger in enumerate(self.ledgers):
            for number in ledger.prepared:
                if ledger.doubtful and ledger.doubtful[1] == number:
                    continue
                row = f"writer = {teller} AND number = {number}"
                if connection.run(f"SELECT 1 FROM moved WHERE {row}"):
                    faults.append(f"the rows of {name_of(teller, number)}, which is prepared, are visible")
                try:
                    connection.run(f"UPDATE moved SET amount = 0 WHERE {row}")
                    faults.append(f"the rows of {name_of(teller, number)}, which is prepared, are not locked")
                except SqlError as error:
                    if error.number != LOCK_TIMEOUT:
                        raise
        return faults

    def end_doubtful(self, connection, teller, ledger, found):
        """Ends the XA transaction that was in flight. If the transaction in flight was not an XA transaction, records that
        it was committed if the table `moved` shows this."""
        if ledger.doubtful is None:
            return
        step, number, transfer = ledger.doubtful
        name, was_prepared = name_of(teller, number), number in ledger.prepared
        if step == "PREPARE":
            self.seen["preparing"] += 1
            if name in found:
                connection.run(f"XA ROLLBACK '{name}'")
                ledger.ended[number] = "ROLLBACK"  # InnoDB may list it after the next kill, see end_again()
        elif was_prepared:
            self.seen["ending"] += 1
            if name in found:
                connection.run(f"XA {step} '{name}'")
            ledger.take(step, number, None)
        elif connection.run(f"SELECT 1 FROM moved WHERE writer = {teller} AND number = {number}"):
            ledger.take(step, number, transfer)

    def end_prepared(self, connection, teller, ledger):
        for number in list(ledger.prepared):
            if self.draw.random() < 0.7:
                verdict = self.draw.choice(["COMMIT", "ROLLBACK"])
                connection.run(f"XA {verdict} '{name_of(teller, number)}'")
                ledger.take(verdict, number, None)

    def compare(self, connection):
        moved, faults = self.bank.verify(connection, "bank")
        expected = {(teller, number): transfer for teller, ledger in enumerate(self.ledgers)
                    for number, transfer in ledger.committed.items()}
        for what, numbers in (("lost", expected.keys() - moved.keys()), ("there and never committed", moved.keys() - expected.keys()),
                              ("changed", [number for number in expected.keys() & moved.keys() if expected[number] != moved[number]])):
            if numbers:
                faults.append(f"bank: {len(numbers)} transfers are {what}: {sorted(numbers)[:5]}")
        for table in self.bank.tables():
            status = connection.run(f"CHECK TABLE {table} EXTENDED")[-1][3]
            if status != b"OK":
                faults.append(f"CHECK TABLE {table}: {status.decode()}")
        return faults
