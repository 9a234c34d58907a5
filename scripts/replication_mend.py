"""What is done by hand when a primary or a replica dies in the middle of XA transactions or of DDL.

MariaDB 10.11 writes a step of an XA transaction into the binary log, into the engines and into the replica's position one after
the other; so it does with DDL. Killed in between, a server leaves one of these states, and no others; each is mended as
docs/replication.md says:

- The primary died in XA PREPARE, which was not acknowledged. It may be prepared on either side, or on both: rolled back on each.
- The primary died in XA COMMIT or XA ROLLBACK. Where it is still prepared, its end is repeated: not logged, if the binary log has it.
- The replica had done an XA PREPARE that its position does not count: it stops with XAER_DUPID; rolled back, and applied anew.
- The replica had done an XA COMMIT or ROLLBACK that its position does not count: it stops with XAER_NOTA; passed over.
- The replica's own binary log has what its position does not count: gtid_strict_mode stops it; off until it has caught up.
"""

import re
import threading
import time

from replication_servers import slave_status
from teak_server import SqlError

OUT_OF_ORDER, DUPLICATE_XID, NO_SUCH_XID = 1950, 1440, 1397
# What the replica writes into its log then.
WORDS = ("XAER_DUPID", "XAER_NOTA", "out-of-order sequence number", "Slave SQL thread is aborted")
NAME = re.compile(r"XA (?:COMMIT|ROLLBACK) X'([0-9a-fA-F]+)'")
START = re.compile(rb"XA START X'([0-9a-fA-F]+)'.* GTID \d+-\d+-(\d+)")


def listed(connection):
    return {data.decode() for _, _, _, data in connection.run("XA RECOVER")}


def is_logged(connection, verb, name):
    """Whether one of the newest binary logs has the end of the XA transaction."""
    text = f"XA {verb} X'{name.encode().hex()}'".encode()
    return any(text in row[5] for (file, _) in connection.run("SHOW BINARY LOGS")[-6:]
               for row in connection.run(f"SHOW BINLOG EVENTS IN '{file.decode()}'"))


def end_unlogged(connection, verb, name):
    connection.run("SET SESSION sql_log_bin = 0")
    try:
        connection.run(f"XA {verb} '{name}'")
    finally:
        connection.run("SET SESSION sql_log_bin = 1")


def prepared_beyond_position(connection):
    """What a replica that has stopped holds prepared, and will prepare again by its relay log."""
    position = int(connection.value("SELECT @@gtid_slave_pos").rsplit("-", 1)[1])
    found = set()
    for row in connection.run(f"SHOW RELAYLOG EVENTS IN '{slave_status(connection)['Relay_Log_File']}'"):
        match = START.search(row[5])
        if match and int(match[2]) > position:
            found.add(bytes.fromhex(match[1].decode()).decode())
    return found & listed(connection)


class Mender(threading.Thread):
    """Looks after the replica until stopped. `told` counts what was mended."""

    def __init__(self, replica):
        super().__init__(daemon=True)
        self.replica = replica
        self.done = threading.Event()
        # XA transactions that only the replica still holds, with their ends; set by the writers.
        self.owed = {}
        self.was_killed = False
        self.told, self.faults = {}, []

    def count(self, what):
        self.told[what] = self.told.get(what, 0) + 1

    def run(self):
        while not self.done.is_set() and not self.faults:
            try:
                with self.replica.connect() as connection:
                    while not self.done.is_set() and not self.faults:
                        self.look(connection)
                        time.sleep(0.05)
            except SqlError as error:
                if not error.lost:
                    self.faults.append(f"mending the replica: {error}")
                time.sleep(0.05)

    def look(self, connection):
        held = listed(connection)
        for name, verb in list(self.owed.items()):
            if name in held:
                try:
                    end_unlogged(connection, verb, name)
                except SqlError as error:
                    if error.number != NO_SUCH_XID:
                        raise
                    continue  # the replica's thread has not let go of it yet
                self.count("only on the replica")
        status = slave_status(connection)
        if status["Slave_SQL_Running"] == "No" and status["Last_SQL_Errno"] != "0":
            self.mend(connection, int(status["Last_SQL_Errno"]), status["Last_SQL_Error"])

    def mend(self, connection, number, text):
        match = NAME.search(text)
        name = bytes.fromhex(match[1]).decode() if match else None
        if number in (1205, 1213) and self.owed:
            self.count("waited for what only the replica held")
        elif not self.was_killed:
            self.faults.append(f"the replica stopped: {text}")
            return
        elif number == OUT_OF_ORDER:
            connection.run("SET GLOBAL gtid_strict_mode = 0")
            self.count("logged and not counted")
        elif number == DUPLICATE_XID and (names := prepared_beyond_position(connection)):
            for each in names:
                end_unlogged(connection, "ROLLBACK", each)
                self.count("prepared and not counted")
        elif number == NO_SUCH_XID and name and name not in listed(connection):
            connection.run("STOP SLAVE")
            connection.run("SET GLOBAL sql_slave_skip_counter = 1")
            self.count("ended and not counted")
        else:
            self.faults.append(f"the replica stopped: {text}")
            return
        connection.run("STOP SLAVE")
        connection.run("START SLAVE")

    def finish(self):
        """After the replica has caught up; returns the faults."""
        deadline = time.monotonic() + 10
        with self.replica.connect() as connection:
            while listed(connection) & self.owed.keys() and time.monotonic() < deadline and not self.faults:
                time.sleep(0.05)
            self.done.set()
            self.join(30)
            connection.run("SET GLOBAL gtid_strict_mode = 1")
            if listed(connection):
                self.faults.append(f"left prepared on the replica: {sorted(listed(connection))}")
        return self.faults
