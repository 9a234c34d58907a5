"""Snapshots with their position in the binary log, replicas made from them, and semi-synchronous replication.

The load is that of kills.py: each of its commits is one event group, so the number of rows in `moved` at a position of
the binary log is known exactly.
"""

import subprocess
import threading
import time

from tests.harness import SqlError
from tests.harness.bank import DATABASE

from .kills import Writer, check_snapshot, verify


class Load:
    """Writers that run within a `with` block. Afterwards `acknowledged` has their newest numbers."""

    def __init__(self, server, seed, acknowledged):
        self.stop = threading.Event()
        self.acknowledged = acknowledged
        self.writers = [Writer(server, number, f"{seed}-{number}", newest, self.stop)
                        for number, newest in enumerate(acknowledged)]
        self.faults = []

    def __enter__(self):
        for writer in self.writers:
            writer.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for writer in self.writers:
            writer.join(60)
            if writer.is_alive():
                self.faults.append("a writer did not end")
            self.faults += writer.faults
        self.acknowledged[:] = [writer.acknowledged for writer in self.writers]


def sequence_number(connection, file, position):
    """The number of event groups of domain 0 up to a position in the binary log."""
    return int(connection.value(f"SELECT BINLOG_GTID_POS('{file}', {position})").rsplit("-", 1)[1])


def snapshots(pair, seconds, seed, acknowledged):
    """Consistent snapshots under load: each contains exactly the transactions of the binary log up to its position."""
    faults, taken, places = [], 0, set()
    with pair.primary.connect(DATABASE) as connection:
        before = int(pair.position().rsplit("-", 1)[1]) - int(connection.value("SELECT COUNT(*) FROM moved"))
        with Load(pair.primary, seed, acknowledged) as load:
            until = time.monotonic() + seconds
            while time.monotonic() < until and not faults:
                connection.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                place = dict(connection.run("SHOW STATUS LIKE 'binlog_snapshot%'"))
                file, position = (place[name].decode() for name in (b"Binlog_snapshot_file", b"Binlog_snapshot_position"))
                rows = int(connection.value("SELECT COUNT(*) FROM moved"))
                connection.run("COMMIT")
                logged = sequence_number(connection, file, position) - before
                if rows != logged:
                    faults.append(f"a snapshot at {file} {position} holds {rows} transactions, the binary log {logged}")
                taken += 1
                places.add((file, position))
                time.sleep(0.005)
    return load.faults + faults, f"{taken} snapshots at {len(places)} places of the binary log"


def from_dump(pair, seed, acknowledged):
    """Rebuilds the replica from a dump of the primary, taken under concurrent writes."""
    dump = pair.directory / "dump.sql"
    with Load(pair.primary, seed, acknowledged) as load:
        time.sleep(0.3)
        with dump.open("wb") as out:
            subprocess.run(["mariadb-dump", "--no-defaults", f"--socket={pair.primary.socket}", "-uroot", "--single-transaction",
                            "--master-data=1", "--gtid", "--databases", DATABASE], stdout=out, check=True)
        time.sleep(0.3)
    with pair.replica.connect() as connection:
        for statement in ("STOP SLAVE", f"DROP DATABASE {DATABASE}", "RESET MASTER"):
            connection.run(statement)
    with dump.open("rb") as text:
        done = subprocess.run(["mariadb", "--no-defaults", f"--socket={pair.replica.socket}", "-uroot", "--init-command=SET sql_log_bin=0"],
                              stdin=text, capture_output=True, text=True, check=False)
    faults = load.faults + ([done.stderr.strip()] if done.returncode else [])
    with pair.replica.connect(DATABASE) as connection:
        faults += check_snapshot(connection, "the dump")
        rows, position = (connection.value(text) for text in ("SELECT COUNT(*) FROM moved", "SELECT @@gtid_slave_pos"))
        connection.run("START SLAVE")
    pair.catch_up()
    return faults, f"a replica from a dump of {rows} transactions at {position}"


def semi_synchronous(pair, seconds, seed, acknowledged):
    """kill -9 of the primary: every acknowledged transaction must be on the replica before the primary restarts."""
    faults = []
    for server, role in ((pair.primary, "master"), (pair.replica, "slave")):
        with server.connect() as connection:
            connection.run(f"SET GLOBAL rpl_semi_sync_{role}_enabled = ON")
            if role == "master":
                connection.run("SET GLOBAL rpl_semi_sync_master_timeout = 60000, GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'")
            else:
                connection.run("STOP SLAVE")
                connection.run("START SLAVE")
    wait_for(pair.primary, "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'", b"1")
    stop = threading.Event()
    writers = [Writer(pair.primary, number, f"{seed}-{number}", newest, stop) for number, newest in enumerate(acknowledged)]
    for writer in writers:
        writer.start()
    time.sleep(seconds)
    with pair.primary.connect() as connection:
        waited = int(connection.run("SHOW STATUS LIKE 'Rpl_semi_sync_master_yes_tx'")[0][1])
        unwaited = int(connection.run("SHOW STATUS LIKE 'Rpl_semi_sync_master_no_tx'")[0][1])
    pair.primary.kill()
    time.sleep(0.2)
    known = [writer.acknowledged for writer in writers]
    wait_applied(pair.replica)
    with pair.replica.connect(DATABASE) as connection:
        there = {int(writer): int(newest) for writer, newest in
                 connection.run("SELECT writer, MAX(number) FROM moved GROUP BY writer")}
        faults += check_snapshot(connection, "replica")
    faults += [f"writer {writer}: {newest} was acknowledged, the replica has {there.get(writer, 0)}"
               for writer, newest in enumerate(known) if there.get(writer, 0) < newest]
    if waited == 0 or unwaited != 0:
        faults.append(f"{waited} commits waited for the replica, {unwaited} did not")
    pair.primary.start("--rpl-semi-sync-master-enabled=1", "--rpl-semi-sync-master-timeout=60000")
    stop.set()
    for writer in writers:
        writer.join(60)
        faults += writer.faults
    acknowledged[:] = [writer.acknowledged for writer in writers]
    pair.catch_up()
    for server in (pair.primary, pair.replica):
        with server.connect(DATABASE) as connection:
            faults += verify(connection, server.directory.name, acknowledged)
    return faults, f"{waited} semi-synchronous commits, none lost with the primary"


def wait_for(server, question, value, timeout=30):
    """Waits until the second column of the first row is `value`."""
    deadline = time.monotonic() + timeout
    while True:
        with server.connect() as connection:
            rows = connection.run(question)
        if rows and rows[0][1] == value:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{question}: {rows}, not {value} after {timeout} s")
        time.sleep(0.05)


def wait_applied(server, timeout=60):
    """Waits until the replica has applied all that it has received."""
    deadline = time.monotonic() + timeout
    with server.connect() as connection:
        while True:
            rows, names = connection.run_named("SHOW SLAVE STATUS")
            received = rows[0][names.index("Gtid_IO_Pos")].decode()
            if connection.value("SELECT @@gtid_slave_pos") == received:
                return
            if time.monotonic() > deadline:
                raise SqlError(0, f"the replica has not applied {received} after {timeout} s")
            time.sleep(0.05)
