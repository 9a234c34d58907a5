"""Backups that are restored and rolled forward with `teak restore`.

Writers transfer money between accounts in Teak and InnoDB. Each transaction writes a row with its number, and its GTID is
recorded. A backup is made under this load. Afterwards the log has several files, a crash of the server, and
statements of other kinds: DDL, accounts, events, XA, binary values.

The backup is then restored to some of the transactions, by GTID and by position, to a time, and without a target. Each
restored server must have exactly the transactions up to the target, and the sums must be right. Positions are
those that mariadb-binlog prints. The restored server also becomes a replica of the first one.

Failures must leave the backup as it was, and a data directory on which no server starts.

    python3 -m tests.backup.restore                 3 transactions
    python3 -m tests.backup.restore --targets=20
"""

import argparse
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.backup.programs import mariadb_backup, tool
from tests.backup.run import RETRIED, BackupTest
from tests.harness import BUILD, Server, SqlError, finish, free_port
from tests.harness.bank import DATABASE, Bank
from tests.harness.server import alive, link_plugins, plugin_directory, teak_plugin, user_option

WRITERS = 3
INCOMPLETE = "teak-restore.incomplete"
# The binary log's events, as mariadb-binlog prints them.
EVENT = re.compile(r"^#\d+ +[\d:]+ server id \d+ +end_log_pos (\d+) .*?\t(\w+)(?: ([\d-]+))?")


class Writers:
    """Threads that transfer money. `gtids` has the sequence number of each committed transfer."""

    def __init__(self, server, bank, seed):
        self.server, self.bank = server, bank
        self.ends = threading.Event()
        self.gtids = {}
        self.numbers = [0] * WRITERS
        self.errors = []
        self.seed = seed
        self.threads = []

    def start(self):
        self.ends.clear()
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()

    def run_for(self, seconds):
        self.start()
        time.sleep(seconds)
        self.stop()

    def _run(self, writer):
        self.seed += 1
        rng = random.Random(self.seed)
        try:
            with self.server.connect(DATABASE) as connection:
                while not self.ends.is_set():
                    self._transfer(connection, writer, rng)
        except Exception as error:  # reported by the test
            self.errors.append(f"writer {writer}: {error!r}")

    def _transfer(self, connection, writer, rng):
        number = self.numbers[writer] + 1
        try:
            connection.run("START TRANSACTION")
            self.bank.carry_out(connection, rng, writer, number, self.bank.choose(rng))
            connection.run("COMMIT")
        except SqlError as error:
            if error.number not in RETRIED:
                raise
            connection.run("ROLLBACK")
            return
        self.numbers[writer] = number
        self.gtids[writer, number] = int(connection.value("SELECT @@last_gtid").split("-")[2])
        time.sleep(0.005)


def digest(directory):
    """A checksum of all files of a directory, with their names."""
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        total.update(str(path.relative_to(directory)).encode())
        if path.is_file():
            total.update(path.read_bytes())
    return total.hexdigest()


class Test(BackupTest):
    def __init__(self, options):
        super().__init__(options)
        self.port = free_port()
        self.server = Server(self.directory / "server", self.server_options(1), port=self.port)
        self.bank = Bank(("TEAK", "INNODB"))
        self.writers = Writers(self.server, self.bank, options.seed)
        self.backup = self.directory / "target"
        self.logs = self.directory / "logs"
        self.restores = self.refusals = 0
        self.plugins = plugin_directory(teak_plugin())
        self.servers = [self.server]  # those to stop after a failure

    def server_options(self, number):
        return ["--cache=32M", "--log-bin=binlog", f"--server-id={number}", "--binlog-format=ROW", "--innodb-log-file-size=32M"]

    def command(self, data, *options, backup=None, to=None, logs=None):
        target = [f"--to={to}", f"--binlog-dir={logs or self.logs}"] if to else []
        return [tool(), "restore", backup or self.backup, f"--datadir={data}", f"--mariadb-backup={mariadb_backup()}",
                f"--plugin-dir={self.plugins}", *target, *options]

    # ---- the backup and the binary log ----

    def prepare(self):
        self.server.start_empty()
        link_plugins(teak_plugin(), self.plugins)
        self.bank.create(self.server)
        with self.server.connect(DATABASE) as connection:
            # As INSTALL SONAME does: the private server loads the plugin, too.
            connection.run("INSERT INTO mysql.plugin SELECT PLUGIN_NAME, PLUGIN_LIBRARY FROM INFORMATION_SCHEMA.PLUGINS "
                           "WHERE PLUGIN_LIBRARY = 'ha_teak.so'")
            # A bulk load, so that its file has blocks.
            connection.run("SET SESSION teak_bulk_load_threshold = 0")
            connection.run("CREATE TABLE loaded (id INT PRIMARY KEY, text VARCHAR(100)) ENGINE=TEAK")
            connection.run("INSERT INTO loaded SELECT seq, MD5(seq) FROM seq_1_to_20000")
        self.writers.start()
        time.sleep(1)
        target = self.new_directory("target")
        done = self.make_backup(target, [tool(), "backup", f"--target-dir={target}", f"--mariadb-backup={mariadb_backup()}", "--",
                                         "--no-defaults", f"--socket={self.server.socket}", "--user=root"])
        self.check(done.returncode == 0, f"teak backup: {done.stdout[-2000:]}")
        time.sleep(1)
        self.writers.stop()
        with self.server.connect(DATABASE) as connection:
            self.other_statements(connection)
            connection.run("FLUSH BINARY LOGS")
        self.writers.run_for(1)
        # After a crash the file ends without the name of the next one.
        self.server.kill()
        self.server.start()
        self.writers.run_for(1)
        self.server.stop()
        self.server.start()
        # Transfers of the next second are after the time.
        time.sleep(1.1)
        self.time_sequence = max(self.writers.gtids.values())
        with self.server.connect() as connection:
            self.time = connection.value("SELECT NOW()")
        self.writers.run_for(1)
        self.check(not self.writers.errors, f"writers: {self.writers.errors}")
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir()
        for path in (self.server.directory / "data").glob("binlog.0*"):
            shutil.copy(path, self.logs)
        self.positions = self.positions_of_transactions()
        name, offset, gtid = (self.backup / "xtrabackup_binlog_info").read_text().split()
        self.backup_position, self.backup_sequence = f"{name}:{offset}", int(gtid.split("-")[2])
        self.digest = digest(self.backup)

    @staticmethod
    def other_statements(connection):
        for statement in (
                "CREATE TABLE bytes (id INT PRIMARY KEY, value LONGBLOB) ENGINE=TEAK",
                "INSERT INTO bytes VALUES (1, UNHEX('000D0A271A5C0022FF')), (2, REPEAT(UNHEX('00FF0D0A'), 300000))",
                "CREATE TABLE bytes_innodb ENGINE=INNODB AS SELECT * FROM bytes",
                "CREATE USER clerk@localhost IDENTIFIED BY 'it''s a secret'",
                f"GRANT SELECT ON {DATABASE}.* TO clerk@localhost",
                "CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DO DELETE FROM bytes WHERE id > 100",
                "CREATE TRIGGER doubled BEFORE INSERT ON bytes FOR EACH ROW SET NEW.id = NEW.id * 2",
                "INSERT INTO bytes VALUES (10, 'trigger')",
                "ALTER TABLE bytes ADD COLUMN more INT DEFAULT 7, ADD KEY (more)",
                "CREATE SEQUENCE numbers ENGINE=TEAK",
                "SELECT NEXT VALUE FOR numbers",
                "XA START 'transfer'", "INSERT INTO bytes (id, value) VALUES (20, 'xa')", "XA END 'transfer'", "XA PREPARE 'transfer'",
                "XA COMMIT 'transfer'"):
            connection.run(statement)

    def positions_of_transactions(self):
        """The end of each transaction, by its sequence number."""
        found = {}
        for path in sorted(self.logs.iterdir()):
            sequence = None
            for line in self.run(["mariadb-binlog", "--no-defaults", "--base64-output=decode-rows", path]).stdout.splitlines():
                event = EVENT.match(line)
                if not event:
                    continue
                end, kind, gtid = event.groups()
                if kind == "GTID":
                    sequence = int(gtid.split("-")[2])
                elif kind == "Xid":
                    found[sequence] = f"{path.name}:{end}"
        return found

    # ---- restores ----

    def restored_server(self, number=2):
        self.servers.append(Server(self.new_directory("restored"), self.server_options(number)))
        return self.servers[-1]

    def restore(self, what, sequence, *options, to=None):
        """Restores to a target; the new server must have the transactions up to `sequence`."""
        began = time.monotonic()
        restored = self.restored_server()
        data = restored.directory / "data"
        done = self.run(self.command(data, *options, to=to))
        self.check(done.returncode == 0, f"{what}: {done.stdout[-3000:]}")
        if done.returncode:
            return None
        self.restores += 1
        print(f"{what}: {[line for line in done.stdout.splitlines() if line.startswith('complete')]} {time.monotonic() - began:.1f} s", flush=True)
        self.check(not (data / INCOMPLETE).exists(), f"{what}: {INCOMPLETE} is left")
        info = dict(line.split(" = ") for line in (data / "teak_restore_info").read_text().splitlines())
        self.check(info["gtid"] == f"0-1-{sequence}", f"{what}: {info}")
        restored.start()
        with restored.connect(DATABASE) as connection:
            moved, faults = self.bank.verify(connection, what)
            self.check(not faults, f"{what}: {faults}")
            expected = {key for key, at in self.writers.gtids.items() if at <= sequence}
            self.check(set(moved) == expected, f"{what}: missing {sorted(expected - set(moved))[:5]}, too many {sorted(set(moved) - expected)[:5]}")
            for table in self.bank.tables():
                state = connection.run(f"CHECK TABLE {table} EXTENDED")
                self.check(state[-1][-1] == b"OK", f"{what}: CHECK TABLE {table}: {state}")
            users = connection.run("SELECT user FROM mysql.user WHERE user LIKE 'teak\\_restore%'")
            self.check(not users, f"{what}: {users}")
        return restored

    def targets(self):
        after = sorted(at for at in self.writers.gtids.values() if at > self.backup_sequence)
        step = max(1, (len(after) - 1) // max(1, self.options.targets - 1))
        return after[::step][:self.options.targets - 1] + after[-1:]

    def all_restores(self):
        restored = self.restore("without a target", self.backup_sequence)
        if restored:
            self.replica(restored)
        for sequence in self.targets():
            for to in (f"0-1-{sequence}", self.positions[sequence]):
                restored = self.restore(f"to {to}", sequence, to=to)
                if restored:
                    if sequence == max(self.targets()):
                        self.check_others(restored, to)
                    restored.stop()
        restored = self.restore(f"to {self.time}", self.time_sequence, "--throttle=200", "--", "--use-memory=64M", to=self.time)
        if restored:
            restored.stop()
        restored = self.restore("to the position of the backup", self.backup_sequence, to=self.backup_position)
        if restored:
            restored.stop()

    def teak_only(self):
        """A backup of Teak's tables alone gets new system tables."""
        backup = self.new_directory("target2")
        done = self.run([tool(), "backup", f"--target-dir={backup}", "--teak-only", "--", "--no-defaults",
                         f"--socket={self.server.socket}", "--user=root"])
        self.check(done.returncode == 0, f"teak backup --teak-only: {done.stdout[-2000:]}")
        self.refuse("has not recorded", backup=backup, to="0-1-1")
        restored = self.restored_server()
        data = restored.directory / "data"
        done = self.run(self.command(data, backup=backup))
        self.check(done.returncode == 0 and "mariadb-install-db" in done.stdout, f"Teak only: {done.stdout}")
        done = self.run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", *user_option()])
        self.check(done.returncode == 0, f"mariadb-install-db: {done.stdout[-2000:]}")
        restored.start()
        with restored.connect(DATABASE) as connection:
            rows = connection.value("SELECT COUNT(*) FROM moved")
            self.check(rows == str(len(self.writers.gtids)), f"Teak only: {rows} transfers")
        restored.stop()

    def check_others(self, restored, what, is_replica=False):
        checked = ("SELECT id, MD5(value) FROM bytes ORDER BY id", "SELECT id, MD5(value) FROM bytes_innodb ORDER BY id",
                   "SHOW CREATE TABLE bytes", "SHOW GRANTS FOR clerk@localhost", "SELECT next_not_cached_value FROM numbers",
                   # The server disables events on replicas.
                   *(() if is_replica else ("SHOW CREATE EVENT nightly",)))
        with restored.connect(DATABASE) as here, self.server.connect(DATABASE) as there:
            for statement in checked:
                self.check(here.run(statement) == there.run(statement), f"{what}: {statement}: {here.run(statement)}, {there.run(statement)}")

    def replica(self, restored):
        """The restored server continues as a replica from the recorded GTID."""
        gtid = next(line for line in (restored.directory / "data" / "teak_restore_info").read_text().splitlines() if line.startswith("gtid"))
        with self.server.connect() as connection:
            connection.run("CREATE USER IF NOT EXISTS replica@'%' IDENTIFIED BY 'secret'")
            connection.run("GRANT REPLICATION SLAVE ON *.* TO replica@'%'")
            end = connection.value("SELECT @@gtid_binlog_pos")
        with restored.connect(DATABASE) as connection:
            connection.run(f"SET GLOBAL gtid_slave_pos = '{gtid.split(' = ')[1]}'")
            connection.run(f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.port}, MASTER_USER='replica', "
                           "MASTER_PASSWORD='secret', MASTER_USE_GTID=slave_pos")
            connection.run("START SLAVE")
            reached = connection.value(f"SELECT MASTER_GTID_WAIT('{end}', 60)")
            status, names = connection.run_named("SHOW SLAVE STATUS")
            status = {name: value for name, value in zip(names, status[0]) if value}
            self.check(reached == "0", f"replica: {status}")
            moved, faults = self.bank.verify(connection, "replica")
            self.check(not faults and set(moved) == set(self.writers.gtids), f"replica: {faults}, {len(moved)} transfers")
            connection.run("STOP SLAVE")
        self.check_others(restored, "replica", is_replica=True)
        restored.stop()

    # ---- failures ----

    def refuse(self, expected, *options, is_started=False, **given):
        """A restore that must fail, before it creates anything or with an incomplete data directory."""
        data = self.new_directory("refused")
        done = self.run(self.command(data, *options, **given))
        self.refusals += 1
        self.check(done.returncode == 1 and expected in done.stdout, f"expected '{expected}': {done.returncode} {done.stdout[-2000:]}")
        if is_started:
            self.check_incomplete(data, expected)
        else:
            self.check(not data.exists(), f"{expected}: {data} was created")

    def check_incomplete(self, data, what):
        self.check([path.name for path in data.iterdir()] == [INCOMPLETE], f"{what}: {list(data.iterdir())}")
        again = self.run(self.command(data))
        self.check(again.returncode == 1 and "contains an incomplete restore" in again.stdout, f"{what}: {again.stdout}")
        # The server does not take it for a data directory.
        server = self.run(["timeout", "60", "mariadbd", "--no-defaults", f"--datadir={data}", "--skip-networking",
                           f"--socket={self.directory}/refused.sock", *user_option()])
        self.check(server.returncode not in (0, 124), f"{what}: a server started on {data}: {server.stdout[-2000:]}")

    def copy_of(self, directory, name):
        copy = self.new_directory(name)
        shutil.copytree(directory, copy)
        return copy

    def failures(self):
        first, last = self.targets()[0], self.targets()[-1]
        gtid = f"0-1-{last}"
        # Targets.
        self.refuse("is before the position of the backup", to=f"0-1-{self.backup_sequence - 1}")
        self.refuse("is before the position of the backup", to=f"{self.backup_position.split(':')[0]}:4")
        self.refuse("is before the position of the backup", to="2001-01-01 00:00:00")
        self.refuse("there is no transaction 0-1-99999999", to="0-1-99999999")
        name, _, offset = self.positions[first].partition(":")
        self.refuse("no transaction ends at", to=f"{name}:{int(offset) - 1}")
        self.refuse("is neither a GTID", to="yesterday")
        done = self.run(self.command(self.new_directory("refused"), "--to=0-1-1"))
        self.check(done.returncode != 0 and "--binlog-dir" in done.stdout, f"--to without --binlog-dir: {done.stdout}")
        # Files of the binary log.
        logs = self.copy_of(self.logs, "logs2")
        names = sorted(path.name for path in logs.iterdir())
        middle = names[names.index(self.backup_position.split(":")[0]) + 1]
        (logs / middle).rename(logs / "elsewhere")
        self.refuse(f"the file {middle} of the binary log is missing", to=gtid, logs=logs)
        self.other_server(gtid)
        # The backup.
        damaged = self.copy_of(self.backup, "damaged")
        self.damage(next(damaged.glob(f"{DATABASE}/loaded*.teak")))
        self.refuse("the backup is damaged", backup=damaged)
        damaged = self.copy_of(self.backup, "damaged")
        log = max(damaged.glob("teak.log.*"))
        os.truncate(log, log.stat().st_size // 2)
        self.refuse("the backup is damaged", backup=damaged)
        damaged = self.copy_of(self.backup, "damaged")
        next(damaged.glob(f"{DATABASE}/moved*.teak")).unlink()
        self.refuse("the backup is incomplete", backup=damaged)
        (damaged / "teak.catalogue").unlink()
        self.refuse("is not a complete backup", backup=damaged)
        # Data directories.
        data = self.new_directory("refused")
        data.mkdir()
        (data / "file").write_text("")
        done = self.run(self.command(data))
        self.check(done.returncode == 1 and "is not empty" in done.stdout, f"not empty: {done.stdout}")
        done = self.run(self.command(self.backup / "data"))
        self.check(done.returncode == 1 and "must not be in the backup" in done.stdout, f"in the backup: {done.stdout}")
        # Failures after the copy.
        self.refuse("the private server did not start", "--server-option=--no-such-option", to=gtid, is_started=True)
        for option, program, expected in (
                ("server", "exit 1", "the private server did not start"),
                ("mariadb-binlog", "mariadb-binlog $* | head -c 20000; exit 1", "has failed"),
                ("mariadb-binlog", "echo '/* cut off'", "not all transactions"),
                ("mariadb-binlog", "echo 'INSERT INTO none.none VALUES (1);'", "cannot be applied")):
            self.refuse(expected, f"--{option}={self.script(program)}", to=gtid, is_started=True)
        self.killed(gtid)
        self.check(digest(self.backup) == self.digest, "the backup was changed")

    def script(self, text):
        """A program that answers --version as the real ones do, and otherwise does something else."""
        path = self.directory / "program"
        path.write_text(f"#!/bin/sh\n[ \"$2\" = --version ] && exec mariadbd --version\n{text}\n")
        path.chmod(0o755)
        return path

    @staticmethod
    def damage(path):
        """Changes a byte in each block, except holes."""
        with open(path, "r+b") as file:
            content = bytearray(file.read())
            for at in range(8192 + 40, len(content), 4096):
                content[at] ^= 0x55 if content[at - 40:at + 40].strip(b"\0") else 0
            file.seek(0)
            file.write(content)

    def other_server(self, gtid):
        """The binary log of another server with the same names of files."""
        other = Server(self.new_directory("other"), self.server_options(7))
        self.servers.append(other)
        other.start_empty()
        with other.connect() as connection:
            connection.run("CREATE DATABASE d")
            connection.run("USE d")
            connection.run("CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(1000)) ENGINE=INNODB")
            for number in range(20):
                connection.run(f"INSERT INTO d.t SELECT seq + {1000 * number}, REPEAT('x', 900) FROM seq_1_to_1000")
        other.stop()
        logs = self.new_directory("logs2")
        logs.mkdir()
        for path in (other.directory / "data").glob("binlog.0*"):
            shutil.copy(path, logs)
        self.refuse("of another server", to=gtid, logs=logs)
        # The first file is the right one, and the next one is not.
        first = self.backup_position.split(":")[0]
        shutil.copy(self.logs / first, logs)
        following = f"binlog.{int(first.split('.')[1]) + 1:06}"
        shutil.copy(next((other.directory / "data").glob("binlog.000001")), logs / following)
        self.refuse("does not continue", to=gtid, logs=logs)
        other.remove()

    def killed(self, gtid):
        """The private server ends when the command is killed."""
        data = self.new_directory("refused")
        command = [str(part) for part in self.command(data, f"--mariadb-binlog={self.script('exec sleep 30')}", to=gtid)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 60
        servers = []
        while not servers and time.monotonic() < deadline:
            time.sleep(0.1)
            if (data / INCOMPLETE / "binlog.log").exists():
                servers = self.servers_on(data)
        self.private = Path(next(re.search(r"--socket=(.*)/", Path(f"/proc/{pid}/cmdline").read_text()).group(1) for pid in servers))
        process.send_signal(signal.SIGKILL)
        process.wait()
        while any(alive(pid) for pid in servers) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.check(servers and not any(alive(pid) for pid in servers), f"killed: servers {servers} on {data}")
        while self.private.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.check(not self.private.exists(), f"killed: {self.private} is left")
        self.check_incomplete(data, "killed")

    @staticmethod
    def servers_on(data):
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if f"--datadir={data}/{INCOMPLETE}/data".encode() in command and b"mariadbd" in command[0]:
                found.append(int(path.parent.name))
        return found


def main():
    parser = argparse.ArgumentParser(description="Backups that are restored and rolled forward")
    parser.add_argument("--targets", type=int, default=3, help="transactions to which the backup is restored, each by GTID and by position")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", default=str(BUILD / "restore-test"))
    options = parser.parse_args()
    if mariadb_backup() is None:
        print("not run: mariadb-backup is not installed", flush=True)
        return finish(1, 0, "0 restores")
    test = Test(options)
    try:
        test.prepare()
        test.all_restores()
        test.teak_only()
        test.failures()
    finally:
        for server in test.servers:
            server.stop()
    if not test.failed:
        shutil.rmtree(test.directory, ignore_errors=True)
    return finish(test.checks - test.failed, test.failed, f"{test.restores} restores", f"{test.refusals} refusals",
                  f"{len(test.writers.gtids):,} transactions")


if __name__ == "__main__":
    sys.exit(main())
