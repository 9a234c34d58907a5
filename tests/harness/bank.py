"""Money that moves between accounts, with invariants that must hold after any crash: a load of the crash, replication,
soak and dump tests.

A transfer takes from one account, gives to another, adds a row (writer, number) that records it, and increments a counter.
Accounts and counters may be spread over several engines: then most transfers are transactions over all of them.
"""

from .connection import create_tables

DATABASE = "bank"
BALANCE = 1000
ACCOUNT = "id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(2000), KEY (balance)"
COUNTER = "id INT PRIMARY KEY, n BIGINT NOT NULL"
MOVED = "writer INT, number INT, payer INT, payee INT, amount INT, PRIMARY KEY (writer, number), KEY (payer), KEY (payee)"


class Bank:
    """The tables of a bank. `engines` has one engine for each part of the accounts and counters; the table `moved` uses
    the first one. `names` replaces names of tables."""

    def __init__(self, engines=("TEAK",), accounts=40, counters=8, names=None):
        self.engines, self.accounts, self.counters = list(engines), accounts, counters
        self.names = {"moved": "moved", "account": "account", "counter": "counter", **(names or {})}
        self.parts = ["" if part == 0 else f"_{part}" for part in range(len(self.engines))]
        self.moved = self.names["moved"]

    def part(self, number):
        return number % len(self.engines)

    def account(self, number):
        """The table that has the account."""
        return self.names["account"] + self.parts[self.part(number)]

    def counter(self, number):
        return self.names["counter"] + self.parts[self.part(number)]

    def tables(self):
        return [self.moved, *(self.names[kind] + part for kind in ("account", "counter") for part in self.parts)]

    def create(self, server, database=DATABASE):
        with server.connect() as connection:
            self.create_in(connection, database)

    def create_in(self, connection, database):
        create_tables(connection, database, {self.moved: MOVED}, self.engines[0])
        for part, engine in zip(self.parts, self.engines):
            create_tables(connection, database, {self.names["account"] + part: ACCOUNT, self.names["counter"] + part: COUNTER}, engine)
        for number in range(self.accounts):
            connection.run(f"INSERT INTO {self.account(number)} VALUES ({number}, {BALANCE}, NULL)")
        for number in range(self.counters):
            connection.run(f"INSERT INTO {self.counter(number)} VALUES ({number}, 0)")

    # ---- one transfer ------------------------------------------------------------------------------------------------

    def choose(self, rng, within_one=False):
        """A random transfer: (payer, payee, amount); with `within_one` between accounts of the first engine."""
        payer, payee = rng.sample(range(0, self.accounts, len(self.engines) if within_one else 1), 2)
        return payer, payee, rng.randint(1, 50)

    def carry_out(self, connection, rng, writer, number, transfer):
        """Runs the statements of a transfer in random order in the caller's transaction, with some extra changes that
        are rolled back to a savepoint."""
        payer, payee, amount = transfer
        counter = rng.randrange(self.counters)
        if self.part(payer) == self.part(payee):
            # A transfer within one part uses a counter of that part.
            counter -= counter % len(self.engines) - self.part(payer)
        steps = [f"UPDATE {self.account(payer)} SET balance = balance - {amount} WHERE id = {payer}",
                 f"UPDATE {self.account(payee)} SET balance = balance + {amount}, note = REPEAT('{number} ', {rng.randint(0, 200)}) "
                 f"WHERE id = {payee}",
                 f"INSERT INTO {self.moved} VALUES ({writer}, {number}, {payer}, {payee}, {amount})",
                 f"UPDATE {self.counter(counter)} SET n = n + 1 WHERE id = {counter}"]
        rng.shuffle(steps)
        for step in steps:
            if rng.random() < 0.1:
                other = rng.randrange(self.accounts)
                connection.run("SAVEPOINT s")
                connection.run(f"UPDATE {self.account(other)} SET balance = 0 WHERE id = {other}")
                connection.run("ROLLBACK TO SAVEPOINT s")
            connection.run(step)

    # ---- what must hold ----------------------------------------------------------------------------------------------

    def sums(self, connection, side):
        """Adds up the accounts and counters in the caller's snapshot; returns the faults."""
        money = sum(int(connection.value(f"SELECT SUM(balance) FROM {self.names['account']}{part}")) for part in self.parts)
        counted = sum(int(connection.value(f"SELECT SUM(n) FROM {self.names['counter']}{part}")) for part in self.parts)
        rows = int(connection.value(f"SELECT COUNT(*) FROM {self.moved}"))
        faults = []
        if money != self.accounts * BALANCE:
            faults.append(f"{side}: the accounts hold {money}, not {self.accounts * BALANCE}")
        if counted != rows:
            faults.append(f"{side}: the counters say {counted}, but there are {rows} transfers")
        return faults

    def verify(self, connection, side):
        """Checks, without concurrent writers, that balances are the sums of the transfers in `moved`. Returns {(writer,
        number): transfer}, and faults."""
        faults = self.sums(connection, side)
        moved = {}
        for writer, number, *transfer in (map(int, row) for row in connection.run(
                f"SELECT writer, number, payer, payee, amount FROM {self.moved} ORDER BY writer, number")):
            moved[writer, number] = tuple(transfer)
        expected = dict.fromkeys(range(self.accounts), BALANCE)
        for payer, payee, amount in moved.values():
            expected[payer] -= amount
            expected[payee] += amount
        for index in ("PRIMARY", "balance"):
            found = {int(key): int(balance) for part in self.parts for key, balance in
                     connection.run(f"SELECT id, balance FROM {self.names['account']}{part} FORCE INDEX ({index}) WHERE balance > -1000000000")}
            wrong = {number: (found.get(number), balance) for number, balance in expected.items() if found.get(number) != balance}
            if wrong or len(found) != self.accounts:
                faults.append(f"{side}: by index {index} {len(found)} accounts; balances that are not what the transfers add up to "
                              f"(there, expected): {str(wrong)[:300]}")
        return moved, faults
