"""A client that writes while somebody reads: every transaction moves money and keeps a ledger, so that any consistent
state of the database can be told from a torn one."""

import threading

from common import SOCKET, Connection

ACCOUNTS = 3
TOTAL = "3000.00"
# The tables have names at both ends of the alphabet, which is the order in which dumps read them.
SCHEMA = [
    "CREATE TABLE a_counter (only_row INT PRIMARY KEY, moves INT NOT NULL)",
    "INSERT INTO a_counter VALUES (1, 0)",
    "CREATE TABLE z_ledger (move INT PRIMARY KEY, cents INT NOT NULL, note VARCHAR(100), KEY (cents))",
]


class Writer(threading.Thread):
    """Runs until stop(); raises there what went wrong."""

    def __init__(self, database):
        super().__init__(daemon=True)
        self.connection = Connection(SOCKET, database)
        self.database = database
        self.ending = threading.Event()
        self.moves = int(self.connection.value("SELECT moves FROM a_counter"))
        self.error = None

    def run(self):
        run = self.connection.run
        try:
            while not self.ending.is_set():
                move = self.moves + 1
                run("START TRANSACTION")
                run("UPDATE a_counter SET moves = moves + 1")
                run(f"INSERT INTO z_ledger VALUES ({move}, {move % 100}, REPEAT('n', {move % 100}))")
                run(f"UPDATE account SET amount = amount - {move % 100} / 100 WHERE owner = 'ann'")
                run(f"UPDATE account SET amount = amount + {move % 100} / 100 WHERE owner = 'bob'")
                run("COMMIT")
                self.moves = move
        except Exception as error:
            self.error = error
        finally:
            self.connection.close()

    def stop(self):
        self.ending.set()
        self.join()
        if self.error:
            raise self.error


def state(connection, database):
    """(moves counted, moves in the ledger, its greatest, sum of money): consistent when the first three are equal and
    the sum is TOTAL."""
    return tuple(
        connection.value(statement.format(f"`{database}`"))
        for statement in (
            "SELECT moves FROM {}.a_counter",
            "SELECT COUNT(*) FROM {}.z_ledger",
            "SELECT IFNULL(MAX(move), 0) FROM {}.z_ledger",
            "SELECT SUM(amount) FROM {}.account",
        )
    )


def consistent(found):
    return found[0] == found[1] == found[2] and found[3] == TOTAL
