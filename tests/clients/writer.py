"""A client that writes while a dump is taken. It transfers money in a bank; wrong sums show an inconsistent dump."""

import random
import threading

from tests.harness import Connection
from tests.harness.bank import Bank

from .common import SOCKET

# Dumps read tables in alphabetical order: with these names, other tables are read between those of the bank.
BANK = Bank(names={"account": "a_account", "counter": "m_counter", "moved": "z_moved"})


class Writer(threading.Thread):
    """Runs transfers until stop(). `moves` is the number of the last committed transfer; numbers are consecutive.
    stop() raises the error that ended the transfers."""

    def __init__(self, database):
        super().__init__(daemon=True)
        self.connection = Connection(SOCKET, database)
        self.random = random.Random(database)
        self.ending = threading.Event()
        self.moves = transfers(self.connection)[1]
        self.error = None

    def run(self):
        try:
            while not self.ending.is_set():
                number = self.moves + 1
                self.connection.run("START TRANSACTION")
                BANK.carry_out(self.connection, self.random, 1, number, BANK.choose(self.random))
                self.connection.run("COMMIT")
                self.moves = number
        except Exception as error:
            self.error = error
        finally:
            self.connection.close()

    def stop(self):
        self.ending.set()
        self.join()
        if self.error:
            raise self.error


def transfers(connection):
    """Returns how many transfers the current database has, and the highest transfer number."""
    return tuple(map(int, connection.run(f"SELECT COUNT(*), IFNULL(MAX(number), 0) FROM {BANK.moved}")[0]))


def state(connection, database):
    """Checks that the database contains one consistent state. Returns the number of transfers, and the faults."""
    connection.run(f"USE {database}")
    count, highest = transfers(connection)
    faults = BANK.verify(connection, database)[1]
    if count != highest:
        faults.append(f"{database}: {count} transfers, the highest has number {highest}")
    return count, faults
