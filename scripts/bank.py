"""Money that moves between accounts, and what must hold of it whatever happens to the servers: the load of the kill tests.

A transfer takes from one account, gives to another, adds a row (writer, number) that says so, and counts one up in a table of
counters. Accounts and counters may be spread over several engines: then most transfers are transactions of all of them.
"""

from teak_server import create_tables

DATABASE = "bank"
BALANCE = 1000
ACCOUNT = "id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(2000), KEY (balance)"
COUNTER = "id INT PRIMARY KEY, n BIGINT NOT NULL"
MOVED = "writer INT, number INT, payer INT, payee INT, amount INT, PRIMARY KEY (writer, number), KEY (payer), KEY (payee)"


class Bank:
    """The tables of a bank; `engines` has one engine for each part of the accounts and counters, `moved` is in the first."""

    def __init__(self, engines=("TEAK",), accounts=40, counters=8):
        self.engines, self.accounts, self.counters = list(engines), accounts, counters
        self.names = ["" if part == 0 else f"_{part}" for part in range(len(self.engines))]

    def part(self, number):
        return number % len(self.engines)

    def account(self, number):
        """The table that has the account."""
        return "account" + self.names[self.part(number)]

    def counter(self, number):
        return "counter" + self.names[self.part(number)]

    def tables(self):
        return ["moved", *(kind + name for kind in ("account", "counter") for name in self.names)]

    def create(self, server):
        with server.connect() as connection:
            create_tables(connection, DATABASE, {"moved": MOVED}, self.engines[0])
            for name, engine in zip(self.names, self.engines):
                create_tables(connection, DATABASE, {"account" + name: ACCOUNT, "counter" + name: COUNTER}, engine)
            for number in range(self.accounts):
                connection.run(f"INSERT INTO {self.account(number)} VALUES ({number}, {BALANCE}, NULL)")
            for number in range(self.counters):
                connection.run(f"INSERT INTO {self.counter(number)} VALUES ({number}, 0)")

    # ---- one transfer ------------------------------------------------------------------------------------------------

    def choose(self, rng, within_one=False):
        """A transfer: (payer, payee, amount), on demand within the part of the first engine."""
        payer, payee = rng.sample(range(0, self.accounts, len(self.engines) if within_one else 1), 2)
        return payer, payee, rng.randint(1, 50)

    def carry_out(self, connection, rng, writer, number, transfer):
        """Its statements in any order, some of what is rolled back to a savepoint among them; the transaction is the caller's."""
        payer, payee, amount = transfer
        counter = rng.randrange(self.counters)
        if self.part(payer) == self.part(payee):
            # A transfer within one part stays there.
            counter -= counter % len(self.engines) - self.part(payer)
        steps = [f"UPDATE {self.account(payer)} SET balance = balance - {amount} WHERE id = {payer}",
                 f"UPDATE {self.account(payee)} SET balance = balance + {amount}, note = REPEAT('{number} ', {rng.randint(0, 200)}) "
                 f"WHERE id = {payee}",
                 f"INSERT INTO moved VALUES ({writer}, {number}, {payer}, {payee}, {amount})",
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
        """What the accounts and counters add up to, in the caller's snapshot; returns the faults."""
        money = sum(int(connection.value(f"SELECT SUM(balance) FROM account{name}")) for name in self.names)
        counted = sum(int(connection.value(f"SELECT SUM(n) FROM counter{name}")) for name in self.names)
        rows = int(connection.value("SELECT COUNT(*) FROM moved"))
        faults = []
        if money != self.accounts * BALANCE:
            faults.append(f"{side}: the accounts hold {money}, not {self.accounts * BALANCE}")
        if counted != rows:
            faults.append(f"{side}: the counters say {counted}, but there are {rows} transfers")
        return faults

    def verify(self, connection, side):
        """With nobody writing: balances are what the rows of `moved` add up to. Returns these, (writer, number) to transfer, and faults."""
        faults = self.sums(connection, side)
        moved = {}
        for writer, number, *transfer in (map(int, row) for row in connection.run(
                "SELECT writer, number, payer, payee, amount FROM moved ORDER BY writer, number")):
            moved[writer, number] = tuple(transfer)
        expected = dict.fromkeys(range(self.accounts), BALANCE)
        for payer, payee, amount in moved.values():
            expected[payer] -= amount
            expected[payee] += amount
        for index in ("PRIMARY", "balance"):
            found = {int(key): int(balance) for name in self.names for key, balance in
                     connection.run(f"SELECT id, balance FROM account{name} FORCE INDEX ({index}) WHERE balance > -1000000000")}
            wrong = {number: (found.get(number), balance) for number, balance in expected.items() if found.get(number) != balance}
            if wrong or len(found) != self.accounts:
                faults.append(f"{side}: by index {index} {len(found)} accounts; balances that are not what the transfers add up to "
                              f"(there, expected): {str(wrong)[:300]}")
        return moved, faults
