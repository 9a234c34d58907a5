"""A primary and a replica with Teak tables: two private servers, the replication between them, and the comparison.

The replica's position is in a Teak table (`gtid_pos_auto_engines=TEAK`), so each transaction commits together with
its position. `compare` compares databases of two servers: definitions, CHECKSUM TABLE, and every row, by every
index.
"""

import re
import time
from pathlib import Path

from tests.harness import Server, create_tables, free_port

USER = "replica"
POSITION_TABLE = "gtid_slave_pos_TEAK"
PRIMARY_OPTIONS = ["--server-id=1", "--log-bin=primary", "--sync-binlog=1", "--gtid-strict-mode=1"]
REPLICA_OPTIONS = ["--server-id=2", "--log-bin=replica", "--sync-binlog=1", "--gtid-strict-mode=1", "--log-slave-updates",
                   "--relay-log=relay", "--gtid-pos-auto-engines=TEAK", "--slave-net-timeout=10"]
COMMON_OPTIONS = ["--cache=64M", "--innodb-fast-shutdown=1", "--default-storage-engine=TEAK", "--innodb-flush-log-at-trx-commit=1",
                  "--character-set-server=utf8mb4", "--max-connections=60", "--log-bin-trust-function-creators=1"]


class Stopped(Exception):
    """The replica's replication stopped with an error, or did not catch up in time."""


class Pair:
    """A primary and its replica in directories below `directory`."""

    def __init__(self, directory, binlog_format="ROW", primary_options=(), replica_options=()):
        self.directory = Path(directory).absolute()
        self.expected_messages = set()  # parts of messages of what has happened, which may be in the error logs
        common = [*COMMON_OPTIONS, f"--binlog-format={binlog_format}"]
        self.primary = Server(self.directory / "primary", [*common, *PRIMARY_OPTIONS, *primary_options], free_port())
        self.replica = Server(self.directory / "replica", [*common, *REPLICA_OPTIONS, *replica_options], free_port())

    def create(self):
        """Starts empty servers and the replication."""
        self.replica.stop()
        self.primary.start_empty(self.directory)
        self.replica.start()
        with self.primary.connect() as connection:
            connection.run(f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY 'replica'")
            connection.run(f"GRANT REPLICATION SLAVE ON *.* TO {USER}@'127.0.0.1'")
            create_tables(connection, "position", {"mark": "n INT"})
        with self.replica.connect() as connection:
            connection.run(f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.primary.port}, MASTER_USER='{USER}', "
                           "MASTER_PASSWORD='replica', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1")
            connection.run("START SLAVE")

    def stop(self):
        self.replica.stop()
        self.primary.stop()

    def remove(self):
        self.replica.stop()
        self.primary.remove(self.directory)

    def status(self):
        """SHOW SLAVE STATUS of the replica, as a dictionary."""
        with self.replica.connect() as connection:
            return slave_status(connection)

    def position(self):
        """The current position of the primary's binary log."""
        with self.primary.connect() as connection:
            return connection.value("SELECT @@gtid_binlog_pos")

    def mark(self):
        """Commits a transaction that writes a Teak table: the replica stores the position after it in its Teak table of positions."""
        with self.primary.connect("position") as connection:
            connection.run("INSERT INTO mark VALUES (1)")

    def catch_up(self, timeout=120):
        """Waits until the replica has applied all that the primary has logged; returns the position."""
        wanted = self.position()
        deadline = time.monotonic() + timeout
        with self.replica.connect() as connection:
            while connection.value(f"SELECT MASTER_GTID_WAIT('{wanted}', 1)") != "0":
                status = slave_status(connection)
                if status["Last_IO_Errno"] == "1236" and TORN in status["Last_IO_Error"] and status["Last_SQL_Errno"] == "0":
                    self.skip_torn_event(connection, status["Last_IO_Error"], deadline)
                    continue
                if status["Last_SQL_Errno"] != "0" or status["Last_IO_Errno"] not in TRANSIENT:
                    raise Stopped(f"{status['Last_SQL_Error']} {status['Last_IO_Error']}".strip())
                if time.monotonic() > deadline:
                    raise Stopped(f"not at {wanted} after {timeout} s, but at "
                                  f"{connection.value('SELECT @@gtid_slave_pos')}")
        return wanted

    def skip_torn_event(self, connection, error, deadline):
        """If kill -9 ends the primary within a write of the binary log, part of an event remains at the end of the file. The primary
        continues with a new file, but it does not send what follows the part; no engine can change that. So the file is purged,
        after the replica has applied what it got from it."""
        name, number = re.search(r"the last event read from '([^']+)\.(\d+)'", error).groups()
        while "has read all relay log" not in slave_status(connection)["Slave_SQL_Running_State"]:
            if time.monotonic() > deadline:
                raise Stopped(error)
            time.sleep(0.05)
        with self.primary.connect() as primary:
            primary.run(f"PURGE BINARY LOGS TO '{name}.{int(number) + 1:06}'")
        self.expected_messages.update((TORN, "Error in Log_event::read_log_event(): 'Event truncated'"))
        connection.run("START SLAVE IO_THREAD")


TORN = "binlog truncated in the middle of event"

# The replica retries after these errors: the primary is down or starting.
TRANSIENT = ("0", "1040", "1053", "1158", "1159", "1160", "1161", "2002", "2003", "2006", "2013", "2026", "2055")


def slave_status(connection):
    """SHOW SLAVE STATUS as a dictionary."""
    rows, names = connection.run_named("SHOW SLAVE STATUS")
    if not rows:
        raise RuntimeError("this server replicates from none")
    return {name: (value or b"").decode(errors="replace") for name, value in zip(names, rows[0])}


# ---- comparison ------------------------------------------------------------------------------------------------------

def tables_of(connection, database):
    """Base tables and sequences of a database."""
    return [name.decode() for name, kind in connection.run(f"SHOW FULL TABLES FROM `{database}`")
            if kind in (b"BASE TABLE", b"SEQUENCE", b"SYSTEM VERSIONED")]


def _indexes(connection, table):
    return sorted({row[2].decode() for row in connection.run(f"SHOW INDEX FROM {table}")})


def compare(left, right, databases):
    """Compares databases of two connections, table by table. Returns (tables, rows, faults)."""
    faults, tables, rows = [], 0, 0
    for database in databases:
        names, others = tables_of(left, database), tables_of(right, database)
        if names != others:
            faults.append(f"{database}: tables {sorted(set(names) ^ set(others))} are on one side only")
        for name in sorted(set(names) & set(others)):
            tables += 1
            table = f"`{database}`.`{name}`"
            found, count = compare_table(left, right, table)
            rows += count
            faults += [f"{table}: {fault}" for fault in found]
    return tables, rows, faults


def compare_table(left, right, table):
    """Returns the faults and the number of rows."""
    faults = []
    for statement in (f"SHOW CREATE TABLE {table}", f"CHECKSUM TABLE {table} EXTENDED"):
        # A statement that was rolled back has used AUTO_INCREMENT values only on the primary.
        answers = [re.sub(rb" AUTO_INCREMENT=\d+", b"", connection.run(statement)[0][1]) for connection in (left, right)]
        if answers[0] != answers[1]:
            faults.append(f"{statement.split()[0]} {statement.split()[1]}: {answers[0]} and {answers[1]}")
    for connection, side in ((left, "primary"), (right, "replica")):
        for row in connection.run(f"CHECK TABLE {table}"):
            if row[2].lower() in (b"error", b"warning"):
                faults.append(f"CHECK TABLE on the {side}: {row[3].decode()}")
    expected = sorted(left.run(f"SELECT * FROM {table}"), key=repr)
    found = sorted(right.run(f"SELECT * FROM {table}"), key=repr)
    if expected != found:
        missing, extra = set(expected) - set(found), set(found) - set(expected)
        faults.append(f"{len(expected)} rows on the primary, {len(found)} on the replica; {len(missing)} are missing "
                      f"there ({str(sorted(missing, key=repr)[:1])[:200]}), {len(extra)} are extra "
                      f"({str(sorted(extra, key=repr)[:1])[:200]})")
    for index in _indexes(right, table):
        by_index = sorted(right.run(f"SELECT * FROM {table} FORCE INDEX FOR ORDER BY (`{index}`) "
                                    f"ORDER BY {_columns(right, table, index)}"), key=repr)
        if by_index != expected:
            faults.append(f"by index {index} the replica has {len(by_index)} rows, not the {len(expected)} of the primary")
    return faults, len(expected)


def _columns(connection, table, index):
    return ", ".join(f"`{row[4].decode()}`" for row in connection.run(f"SHOW INDEX FROM {table}")
                     if row[2].decode() == index)


def position_faults(replica, wanted):
    """Checks, after `Pair.mark`, that the replica's Teak table of positions has the position `wanted`, and that no other table has a newer
    one. The server writes positions after transactions without Teak tables to the others."""
    engine = replica.value(f"SELECT engine FROM information_schema.tables WHERE table_schema = 'mysql' "
                           f"AND table_name = '{POSITION_TABLE}'")
    if engine != "TEAK":
        return [f"mysql.{POSITION_TABLE} is not a table of Teak but {engine}"]
    newest = newest_positions(replica, POSITION_TABLE)
    position = ",".join(newest[domain][1] for domain in sorted(newest))
    faults = [] if position == wanted else [f"mysql.{POSITION_TABLE} says {position}, the primary's binary log {wanted}"]
    for table in tables_of(replica, "mysql"):
        if table.startswith("gtid_slave_pos") and table != POSITION_TABLE:
            faults += [f"mysql.{table} has the newer position {entry[1]}" for domain, entry in newest_positions(replica, table).items()
                       if entry > newest.get(domain, (0,))]
    return faults


def newest_positions(replica, table):
    """The newest entry of each replication domain in a table of positions: (number of the entry, position)."""
    newest = {}
    for domain, sub_id, server, number in replica.run(f"SELECT domain_id, sub_id, server_id, seq_no FROM mysql.`{table}`"):
        entry = (int(sub_id), f"{int(domain)}-{int(server)}-{int(number)}")
        newest[int(domain)] = max(newest.get(int(domain), entry), entry)
    return newest


def log_faults(server, words):
    """Lines of a server's error log that contain one of the words."""
    text = (server.directory / "error.log").read_text(errors="replace")
    return [line for line in text.splitlines() if any(word in line for word in words)]
