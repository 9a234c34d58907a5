"""A writer of the crash test: transactions of every kind on its own rows, until the connection is lost.

Some are rolled back, some contain statements that must fail as a whole (a duplicate in the middle of a multi-row INSERT),
some roll back to a savepoint, some are single statements in autocommit. The effects of each are computed here and journalled
before the commit is sent, without reading them from the server (except AUTO_INCREMENT values).
"""

import random

from tests.harness import Connection, SqlError

from .journal import DATABASE, SHARED_ROWS, Journal

DUPLICATE = 1062
ROWS_WANTED = 1500
OWNERS = ["Ann", "Bob", "Çelik", "Dörte", "Eve", "Žofie", "李", "", "ann", "O''Neil"]


class Unexpected(Exception):
    """A wrong answer of the server."""


class Writer:
    """Writer `number` of `writers`. `rows` contains the rows that it has committed so far."""

    def __init__(self, socket, number, writers, rows, transactions, journal, seed):
        self.number, self.writers, self.rows = number, writers, rows
        self.transactions = transactions
        self.journal = Journal(journal)
        self.random = random.Random(seed)
        self.connection = Connection(socket, DATABASE)
        self.connection.run("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
        self.effects = []
        entries = rows.tables["entry"]
        self.next_seq = max(entries, default=0) + 1
        self.counts = {"committed": 0, "rolled_back": 0, "conflicts": 0}

    # ---- values ------------------------------------------------------------------------------------------------------

    def new_id(self):
        """An unused id of this writer."""
        while True:
            number = self.random.randrange(200_000) * self.writers + self.number
            if number not in self.rows.tables["account"]:
                return number

    def new_code(self):
        while True:
            code = f"w{self.number}-{self.random.randrange(10 ** self.random.randint(6, 12))}"
            if code not in self.rows.codes:
                return code

    def some_id(self):
        accounts = self.rows.tables["account"]
        return self.random.choice(list(accounts)) if accounts else None

    def note(self):
        kind = self.random.random()
        if kind < 0.3:
            return None
        if kind < 0.98:
            return " ".join(self.random.choices(["lorem", "ipsum", "dolor", "sit", "amet"], k=self.random.randint(1, 12)))
        length = self.random.choice([5_000, 20_000, 70_000, 300_000])
        return "".join(self.random.choices("abcdefghij", k=64)) * (length // 64)

    def account(self, code=None):
        owner = self.random.choice([None, *OWNERS])
        return (code or self.new_code(), owner.replace("''", "'") if owner else owner,
                self.random.randint(-10**12, 10**12), self.note())

    # ---- statements --------------------------------------------------------------------------------------------------

    @staticmethod
    def literal(value):
        if value is None:
            return "NULL"
        if isinstance(value, int):
            return str(value)
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

    def account_values(self, key, row):
        code, owner, balance, note = map(self.literal, row)
        return f"({key}, {self.number}, {code}, {owner}, {balance}, {note})"

    def run(self, statement):
        return self.connection.run(statement)

    def must_fail(self, statement):
        try:
            self.run(statement)
        except SqlError as error:
            if error.number == DUPLICATE:
                return
            raise
        raise Unexpected(f"a duplicate was taken: {statement[:300]}")

    def set(self, table, key, row):
        self.effects.append(self.rows.set(table, key, row))

    INTO_ACCOUNT = "INTO account (id, writer, code, owner, balance, note) VALUES "

    def insert(self):
        new = {}
        for _ in range(self.random.choice([1, 1, 3, 10, 40])):
            key, row = self.new_id(), self.account()
            if key not in new and row[0] not in (other[0] for other in new.values()):
                new[key] = row
        self.run("INSERT " + self.INTO_ACCOUNT + ", ".join(self.account_values(key, row) for key, row in new.items()))
        for key, row in new.items():
            self.set("account", key, row)

    def insert_with_duplicate(self):
        taken = self.some_id()
        if taken is None:
            return
        values = [self.account_values(self.new_id(), self.account()) for _ in range(self.random.randint(1, 4))]
        by_key = self.random.random() < 0.5
        twice = (taken, self.account()) if by_key else (self.new_id(), self.account(self.rows.tables["account"][taken][0]))
        values.insert(self.random.randrange(len(values) + 1), self.account_values(*twice))
        self.must_fail("INSERT " + self.INTO_ACCOUNT + ", ".join(values))

    def insert_ignore(self):
        taken = self.some_id()
        candidates = [(self.new_id(), self.account()) for _ in range(3)]
        if taken is not None:
            candidates.insert(1, (taken, self.account()))
            candidates.append((self.new_id(), self.account(self.rows.tables["account"][taken][0])))
        self.run("INSERT IGNORE " + self.INTO_ACCOUNT + ", ".join(self.account_values(*each) for each in candidates))
        for key, row in candidates:
            if key not in self.rows.tables["account"] and row[0] not in self.rows.codes:
                self.set("account", key, row)

    def upsert(self):
        taken = self.some_id()
        key = taken if taken is not None and self.random.random() < 0.6 else self.new_id()
        row, step = self.account(), self.random.randint(1, 1000)
        if key != taken and taken is not None and self.random.random() < 0.4:
            row = (self.rows.tables["account"][taken][0], *row[1:])
        self.run("INSERT " + self.INTO_ACCOUNT + self.account_values(key, row) +
                 f" ON DUPLICATE KEY UPDATE balance = balance + {step}")
        there = key if key in self.rows.tables["account"] else self.rows.codes.get(row[0])
        if there is None:
            self.set("account", key, row)
        else:
            code, owner, balance, note = self.rows.tables["account"][there]
            self.set("account", there, (code, owner, balance + step, note))

    def replace(self):
        taken, other = self.some_id(), self.some_id()
        if taken is None:
            return
        key = self.random.choice([taken, self.new_id()])
        row = self.account(self.random.choice([None, self.rows.tables["account"][other][0]]))
        self.run("REPLACE " + self.INTO_ACCOUNT + self.account_values(key, row))
        holder = self.rows.codes.get(row[0])
        if holder is not None and holder != key:
            self.set("account", holder, None)
        self.set("account", key, row)

    def update(self):
        key = self.some_id()
        if key is None:
            return
        code, owner, balance, note = self.rows.tables["account"][key]
        kind = self.random.randrange(4)
        if kind == 0:
            new_key = self.new_id()
            self.run(f"UPDATE account SET id = {new_key} WHERE id = {key}")
            self.set("account", key, None)
            self.set("account", new_key, (code, owner, balance, note))
        elif kind == 1:
            new_code = self.new_code()
            self.run(f"UPDATE account SET code = '{new_code}' WHERE code = '{code}'")
            self.set("account", key, (new_code, owner, balance, note))
        elif kind == 2:
            other = self.some_id()
            if other != key:
                self.must_fail(f"UPDATE account SET balance = 0, code = '{self.rows.tables['account'][other][0]}' WHERE id = {key}")
        else:
            note = self.note()
            self.run(f"UPDATE account SET note = {self.literal(note)}, balance = balance + 1 WHERE id = {key}")
            self.set("account", key, (code, owner, balance + 1, note))

    def in_range(self):
        """Some accounts with neighbouring balances, and a condition that finds them by the secondary key."""
        balances = sorted((row[2], key) for key, row in self.rows.tables["account"].items())
        if not balances:
            return [], ""
        at = self.random.randrange(len(balances))
        low, high = balances[at][0], balances[min(at + self.random.randint(0, 20), len(balances) - 1)][0]
        keys = [key for balance, key in balances if low <= balance <= high]
        return keys, f"WHERE writer = {self.number} AND balance BETWEEN {low} AND {high}"

    def update_range(self):
        keys, condition = self.in_range()
        if not keys:
            return
        step = self.random.choice([1, -1]) * self.random.randint(1, 10**11)
        owner = self.random.choice(["Zoë", "Yan"])
        self.run(f"UPDATE account SET balance = balance + {step}, owner = '{owner}' {condition}")
        for key in keys:
            code, _, balance, note = self.rows.tables["account"][key]
            self.set("account", key, (code, owner, balance + step, note))

    def delete_range(self):
        keys, condition = self.in_range()
        if not keys:
            return
        self.run(f"DELETE FROM account {condition}")
        for key in keys:
            self.set("account", key, None)

    def delete(self):
        key = self.some_id()
        if key is not None:
            self.run(f"DELETE FROM account WHERE id = {key}")
            self.set("account", key, None)

    def insert_entries(self):
        account = self.some_id() or 0
        seqs = list(range(self.next_seq, self.next_seq + self.random.choice([1, 1, 5])))
        self.next_seq += len(seqs)
        rows = [(seq, account, f"{self.random.randrange(10**9) / 100:.2f}",
                 self.random.choice([None, "rent", "food", "Über", f"m{seq}"])) for seq in seqs]
        self.run("INSERT INTO entry (writer, seq, account, amount, memo) VALUES " + ", ".join(
            f"({self.number}, {seq}, {account}, {amount}, {self.literal(memo)})" for seq, account, amount, memo in rows))
        first = self.connection.insert_id()
        ids = [first] if len(rows) == 1 else [int(found[0]) for found in self.run(
            f"SELECT id FROM entry WHERE writer = {self.number} AND seq BETWEEN {seqs[0]} AND {seqs[-1]} ORDER BY seq")]
        if len(ids) != len(rows) or ids[0] != first:
            raise Unexpected(f"entries {seqs} read back as {ids}, the first is {first}")
        for given, (seq, account, amount, memo) in zip(ids, rows):
            self.set("entry", seq, (given, account, amount, memo))

    def change_entry(self):
        entries = self.rows.tables["entry"]
        if not entries:
            return
        seq = self.random.choice(list(entries))
        given, account, _, memo = entries[seq]
        if self.random.random() < 0.5:
            self.run(f"DELETE FROM entry WHERE id = {given}")
            self.set("entry", seq, None)
        else:
            amount = f"{self.random.randrange(10**9) / 100:.2f}"
            self.run(f"UPDATE entry SET amount = {amount} WHERE writer = {self.number} AND seq = {seq}")
            self.set("entry", seq, (given, account, amount, memo))

    def change_loose(self):
        rows = self.rows.tables["loose"]
        seq = self.random.randrange(300)
        kind = self.random.random()
        if kind < 0.6:
            size = self.random.choice([0, 10, 100, 100, 1000, 60_000 if self.random.random() < 0.05 else 20])
            payloads = [self.random.randbytes(size).hex() for _ in range(self.random.randint(1, 3))]
            self.run("INSERT INTO loose VALUES " + ", ".join(f"({self.number}, {seq}, x'{each}')" for each in payloads))
            self.set("loose", seq, tuple(sorted([*rows.get(seq, ()), *payloads])))
        elif kind < 0.8:
            payload = self.random.randbytes(30).hex()
            self.run(f"UPDATE loose SET payload = x'{payload}' WHERE writer = {self.number} AND seq = {seq}")
            if seq in rows:
                self.set("loose", seq, (payload,) * len(rows[seq]))
        else:
            self.run(f"DELETE FROM loose WHERE writer = {self.number} AND seq = {seq}")
            self.set("loose", seq, None)

    # ---- transactions ------------------------------------------------------------------------------------------------

    def statement(self):
        full = len(self.rows.tables["account"]) > ROWS_WANTED
        kinds = [(self.insert, 1 if full else 6), (self.insert_with_duplicate, 1), (self.insert_ignore, 1),
                 (self.upsert, 2), (self.replace, 2), (self.update, 4), (self.update_range, 1),
                 (self.delete_range, 5 if full else 1), (self.delete, 1), (self.insert_entries, 3),
                 (self.change_entry, 3), (self.change_loose, 3)]
        kind = self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        kind()

    def transaction(self):
        self.effects = []
        self.transactions += 1
        number = self.transactions
        if self.random.random() < 0.15:
            self.autocommit(number)
            return
        self.run("START TRANSACTION")
        for _ in range(100 if self.random.random() < 0.01 else self.random.randint(1, 8)):
            self.statement()
            if self.random.random() < 0.05:
                mark = len(self.effects)
                self.run("SAVEPOINT here")
                self.statement()
                self.run("ROLLBACK TO SAVEPOINT here")
                self.rows.undo(self.effects[mark:])
                del self.effects[mark:]
        if self.random.random() < 0.1:
            self.run("ROLLBACK")
            self.forget()
            self.counts["rolled_back"] += 1
            return
        shared = None
        if self.random.random() < 0.3:
            shared = self.random.randrange(SHARED_ROWS)
            self.run(f"UPDATE shared SET n = n + 1 WHERE id = {shared}")
        self.run(f"UPDATE progress SET transaction = {number} WHERE writer = {self.number}")
        self.journal.intend(number, self.effects, shared)
        self.run("COMMIT")
        self.journal.acknowledge(number)
        self.counts["committed"] += 1

    def autocommit(self, number):
        """One statement that is its own transaction. Its effects must be known before it is sent, so it inserts rows with
        unused ids and codes."""
        new = {self.new_id(): self.account() for _ in range(self.random.choice([1, 2, 20]))}
        if len({row[0] for row in new.values()}) < len(new):
            return
        for key, row in new.items():
            self.set("account", key, row)
        self.journal.intend(number, self.effects, explicit=False)
        self.run("INSERT " + self.INTO_ACCOUNT + ", ".join(self.account_values(key, row) for key, row in new.items()))
        self.journal.acknowledge(number)
        self.counts["committed"] += 1

    def forget(self):
        self.rows.undo(self.effects)
        self.effects = []

    def write_until_lost(self):
        """Runs transactions until the connection is lost. A transaction with a conflict is rolled back. Any other error is
        written to the journal and ends the writer."""
        while True:
            try:
                self.transaction()
            except SqlError as error:
                if error.lost:
                    break
                if error.conflict:
                    # Conflicts are reported before the commit is sent. In autocommit the journal already has the
                    # effects of the statement, which are withdrawn here.
                    self.journal.write(withdrawn=self.transactions)
                    self.counts["conflicts"] += 1
                    self.forget()
                    try:
                        self.run("ROLLBACK")
                    except SqlError:
                        break
                    continue
                self.journal.write(error=f"writer {self.number}: {error}")
                break
            except Unexpected as error:
                self.journal.write(error=f"writer {self.number}: {error}")
                break
        self.journal.write(counts=self.counts)
