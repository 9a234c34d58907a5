"""Hot backups of a server under load.

Writers transfer money between accounts of a Teak bank, or of a bank over Teak and InnoDB, and other statements create,
load, alter and drop tables. In each round:

1. `teak backup` copies the server;
2. the copy is verified with `teak verify`;
3. `mariadb-backup --prepare` and `--copy-back` restore it into a new directory (without mariadb-backup: a plain copy);
4. a server starts on it. All sums must be right, every transfer that was committed before the backup began must be there,
   and none that began after its end. Teak and InnoDB must agree with each other and with the position of the binary
   log: the transfers that the binary log has after the recorded position, and only they, are missing.

Further rounds check failures: a full target, a killed mariadb-backup, --no-lock, a plain mariadb-backup with its warning,
and a backup that retains too much.

    python3 -m tests.backup.run --rounds=3
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.backup import names
from tests.backup.programs import mariadb_backup, tool
from tests.harness import BUILD, Server, SqlError, finish
from tests.harness.bank import DATABASE, Bank

WRITERS = 3
BLOCKS = 100
# A fault of mariadb-backup: it can take a part of InnoDB's log that is being written for a whole record (MDEV-39468).
LOG_NOT_COPIED = "Was only able to copy log from"
RETRIED = (1020, 1205, 1213)  # a row has changed, lock wait timeout, deadlock


def create_large(connection):
    """A table of some 10 MiB in files, with a secondary key."""
    connection.run("CREATE TABLE large (id INT PRIMARY KEY, block INT, version INT, text VARCHAR(200), KEY (block)) ENGINE=TEAK COMPRESSION=none")
    connection.run(f"INSERT INTO large SELECT seq, seq MOD {BLOCKS}, 0, REPEAT(MD5(seq), 6) FROM seq_1_to_{500 * BLOCKS}")


class Writers:
    """Threads that transfer money, one that changes tables, and one that rewrites a table that takes long to copy."""

    def __init__(self, server, bank, seed, done=(0,) * WRITERS):
        self.server, self.bank = server, bank
        self.ends = threading.Event()
        self.done = list(done)  # the last committed transfer of each writer
        self.blocks_written = 0
        self.errors = []
        self.threads = [threading.Thread(target=self._run, args=(self._transfer, number, seed + number)) for number in range(WRITERS)]
        for work in (self._change_tables, self._update_large):
            self.threads.append(threading.Thread(target=self._run, args=(work, 0, seed + 99)))
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()

    def _run(self, work, number, seed):
        try:
            with self.server.connect() as connection:
                connection.run(f"USE {DATABASE}")
                work(connection, number, random.Random(seed))
        except Exception as error:  # reported by the test
            self.errors.append(f"{work.__name__} {number}: {error!r}")

    def _transfer(self, connection, writer, rng):
        while not self.ends.is_set():
            number = self.done[writer] + 1
            try:
                connection.run("START TRANSACTION")
                self.bank.carry_out(connection, rng, writer, number, self.bank.choose(rng))
                connection.run("COMMIT")
                self.done[writer] = number
            except SqlError as error:
                if error.number not in RETRIED:
                    raise
                connection.run("ROLLBACK")

    def _change_tables(self, connection, _, rng):
        """Each table has 1 or 4000 rows at any time, and every row the same text."""
        number = 0
        while not self.ends.is_set():
            name = f"other{number % 4}"
            number += 1
            steps = [f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id INT PRIMARY KEY, text VARCHAR(100)) ENGINE=TEAK",
                     f"INSERT INTO {name} VALUES (1, 'row')",
                     "SET SESSION teak_bulk_load_threshold = 0",
                     f"INSERT INTO {name} SELECT seq + 1, 'row' FROM seq_1_to_3999",
                     f"ALTER TABLE {name} ADD KEY (text)", f"ALTER TABLE {name} FORCE",
                     f"TRUNCATE TABLE {name}", f"INSERT INTO {name} VALUES (1, 'row')"]
            for step in steps[:rng.randint(3, len(steps))]:
                if self.ends.is_set():
                    return
                try:
                    connection.run(step)
                except SqlError as error:
                    if error.number not in RETRIED:
                        raise


    def _update_large(self, connection, _, rng):
        """The rows of a block always have the same version, because each statement updates a whole block."""
        while not self.ends.is_set():
            connection.run(f"UPDATE large SET version = version + 1, text = REPEAT(MD5(RAND()), 6) WHERE block = {rng.randrange(BLOCKS)}")
            self.blocks_written += 1


class BackupTest:
    """Runs programs with results in a directory, and counts what holds."""

    def __init__(self, options):
        self.options = options
        self.directory = Path(options.directory).absolute()
        self.checks = self.failed = 0

    def check(self, holds, what):
        self.checks += 1
        if not holds:
            self.failed += 1
            print(f"FAILED: {what}", flush=True)

    @staticmethod
    def run(command):
        return subprocess.run([str(part) for part in command], text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def make_backup(self, target, command):
        """Runs a command that makes a backup in the target, up to twice again if mariadb-backup could not copy InnoDB's log."""
        for _ in range(2):
            done = self.run(command)
            if done.returncode == 0 or LOG_NOT_COPIED not in done.stdout:
                return done
            print("mariadb-backup could not copy InnoDB's log: the backup is made again", flush=True)
            shutil.rmtree(target)
        return self.run(command)

    def new_directory(self, name):
        path = self.directory / name
        shutil.rmtree(path, ignore_errors=True)
        return path


class Test(BackupTest):
    def __init__(self, options):
        super().__init__(options)
        self.server = Server(self.directory / "server", [f"--cache={options.cache}", "--log-bin=binlog", "--server-id=1", "--binlog-format=ROW",
                                                         "--teak-checkpoint-period=1", "--innodb-log-file-size=32M", *options.server_option])
        self.backups = self.transfers = self.blocks_written = 0

    # ---- commands ----

    def connection_options(self):
        return ["--no-defaults", f"--socket={self.server.socket}", "--user=root"]

    def backup(self, target, *options, given=(), program=None):
        """Runs `teak backup`."""
        command = [tool(), "backup", f"--target-dir={target}", *options]
        if program or mariadb_backup():
            command.append(f"--mariadb-backup={program or mariadb_backup()}")
        return self.make_backup(target, [*command, "--", *self.connection_options(), *given])

    def restore(self, target, is_whole):
        """Restores a backup as the data of a new server, which is started."""
        restored = Server(self.new_directory("restored"), [f"--cache={self.options.cache}", "--innodb-log-file-size=32M", *self.options.server_option])
        data = restored.directory / "data"
        data.parent.mkdir(parents=True)
        if is_whole:
            for command in ([mariadb_backup(), "--no-defaults", "--prepare", f"--target-dir={target}"],
                            [mariadb_backup(), "--no-defaults", "--copy-back", f"--target-dir={target}", f"--datadir={data}"]):
                done = self.run(command)
                if done.returncode:
                    raise RuntimeError(f"{' '.join(map(str, command))}:\n{done.stdout[-3000:]}")
        else:
            # The system tables of a new installation, with the databases of the backup.
            restored.install_system_tables()
            shutil.copytree(target, data, dirs_exist_ok=True)
        restored.start()
        return restored

    # ---- rounds ----

    def round(self, number, engines, is_whole):
        bank = Bank(engines)
        self.server.start_empty()
        bank.create(self.server)
        with self.server.connect() as connection:
            connection.run(f"USE {DATABASE}")
            create_large(connection)
        side = f"round {number} ({'+'.join(engines)}, {'mariadb-backup' if is_whole else 'Teak only'})"
        rng = random.Random(self.options.seed + number)
        target = self.new_directory("target")
        writers = Writers(self.server, bank, self.options.seed + 1000 * number)
        try:
            time.sleep(self.options.seconds)
            before = list(writers.done)
            # The copy takes some seconds, so that checkpoints free blocks that it still needs.
            done = self.backup(target, f"--throttle={rng.choice((5, 10, 100))}", *([] if is_whole else ["--teak-only"]))
            after = list(writers.done)
            time.sleep(0.5)
        finally:
            writers.stop()
        self.check(not writers.errors, f"{side}: {writers.errors}")
        self.check(done.returncode == 0, f"{side}: teak backup: {done.stdout[-2000:]}")
        if done.returncode:
            return
        self.backups += 1
        self.transfers += sum(writers.done)
        self.blocks_written += writers.blocks_written
        print(f"{side}: {done.stdout.splitlines()[-1]}", flush=True)
        verified = self.run([tool(), "verify", "--quiet", target])
        self.check(verified.returncode == 0, f"{side}: teak verify: {verified.stdout}")
        position = self.recorded_position(target)
        restored = self.restore(target, is_whole)
        try:
            with restored.connect() as connection:
                connection.run(f"USE {DATABASE}")
                moved, faults = bank.verify(connection, side)
                self.check(not faults, f"{side}: {faults}")
                self.check_range(side, moved, before, after)
                self.check_others(side, connection)
                self.check_large(side, connection)
                if position:
                    self.check_binary_log(side, moved, position)
        finally:
            restored.stop()
            self.server.stop()

    def check_range(self, side, moved, before, after):
        for writer in range(WRITERS):
            numbers = sorted(number for key, number in moved if key == writer)
            self.check(numbers == list(range(1, len(numbers) + 1)), f"{side}: transfers of writer {writer} are missing")
            # The transfer after the last acknowledged one may have been committed, too.
            self.check(before[writer] <= len(numbers) <= after[writer] + 1,
                       f"{side}: writer {writer} had committed {before[writer]} to {after[writer]} transfers, the copy has {len(numbers)}")

    def check_others(self, side, connection):
        for (name,) in connection.run("SHOW TABLES LIKE 'other%'"):
            name = name.decode()
            rows = int(connection.value(f"SELECT COUNT(*) FROM {name}"))
            same = int(connection.value(f"SELECT COUNT(*) FROM {name} WHERE text = 'row'"))
            self.check(rows in (0, 1, 4000, 3999) and rows == same, f"{side}: {name} has {rows} rows, {same} with the text")
            state = connection.run(f"CHECK TABLE {name} EXTENDED")
            self.check(state[-1][-1] == b"OK", f"{side}: CHECK TABLE {name}: {state}")

    def check_large(self, side, connection):
        rows = int(connection.value("SELECT COUNT(*) FROM large"))
        self.check(rows == 500 * BLOCKS, f"{side}: the large table has {rows} rows")
        torn = connection.run("SELECT block FROM large GROUP BY block HAVING MIN(version) <> MAX(version)")
        self.check(not torn, f"{side}: parts of a statement are in blocks {torn}")
        state = connection.run("CHECK TABLE large EXTENDED")
        self.check(state[-1][-1] == b"OK", f"{side}: CHECK TABLE large: {state}")

    @staticmethod
    def recorded_position(target):
        for name in ("mariadb_backup_binlog_info", "xtrabackup_binlog_info"):
            if (target / name).exists():
                file, position = (target / name).read_text().split()[:2]
                return file, int(position)
        return None

    def check_binary_log(self, side, moved, position):
        """The rows of `moved` that the binary log has after the position are those that the copy lacks."""
        with self.server.connect() as connection:
            all_moved = {(int(writer), int(number)) for writer, number in
                         connection.run(f"SELECT writer, number FROM {DATABASE}.moved")}
            files = [row[0].decode() for row in connection.run("SHOW BINARY LOGS")]
        file, start = position
        data = self.server.directory / "data"
        later = [data / name for name in files[files.index(file):]]
        done = self.run(["mariadb-binlog", "--no-defaults", "-v", "--base64-output=decode-rows", f"--start-position={start}", *later])
        logged, values = set(), []
        lines = iter(done.stdout.splitlines())
        for line in lines:
            if line == f"### INSERT INTO `{DATABASE}`.`moved`":
                next(lines)
                values = [next(lines).split("=")[1].split()[0] for _ in range(2)]
                logged.add((int(values[0]), int(values[1])))
        missing = all_moved - set(moved)
        self.check(missing == logged, f"{side}: {len(missing)} transfers are missing, the binary log has {len(logged)} after {position}; "
                                      f"differences: {sorted(missing ^ logged)[:5]}")

    # ---- failures ----

    def failures(self):
        self.server.start_empty()
        Bank().create(self.server)
        with self.server.connect() as connection:
            connection.run(f"USE {DATABASE}")
            create_large(connection)
            self.refused_options()
            self.cancelled(connection)
            self.retains_too_much(connection)
            self.plain_backup(connection)
            self.full_target(connection)
        self.server.stop()
        names.commands_take_names(self)

    def refused_options(self):
        done = self.backup(self.new_directory("target"), given=["--no-lock"])
        self.check(done.returncode != 0 and "--no-lock is not permitted" in done.stdout, f"--no-lock: {done.stdout}")

    def state(self, connection):
        rows = connection.run("SELECT STATE, PINNED_BYTES, ERROR FROM INFORMATION_SCHEMA.TEAK_BACKUPS")
        return tuple(value and value.decode() for value in rows[0]) if rows else (None, None, None)

    def cancelled(self, connection):
        """A mariadb-backup that fails cancels the backup."""
        done = self.backup(self.new_directory("target"), program="/bin/false")
        state = self.state(connection)
        self.check(done.returncode != 0 and "mariadb-backup has failed" in done.stdout, f"failed mariadb-backup: {done.stdout}")
        self.check(state[0] == "FAILED", f"failed mariadb-backup: {state}")

    def arm(self, connection, name, throttle):
        target = self.new_directory(name)
        target.mkdir()
        connection.run(f"SET GLOBAL teak_backup_throttle = {throttle}")
        connection.run(f"SET GLOBAL teak_backup_target = '{target}/copy'")
        for stage in ("START", "BLOCK_COMMIT", "END"):
            connection.run(f"BACKUP STAGE {stage}")

    def wait_for_end(self, connection):
        deadline = time.monotonic() + 120
        while self.state(connection)[0] == "COPYING" and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.state(connection)

    def retains_too_much(self, connection):
        connection.run("SET GLOBAL teak_backup_max_pinned_bytes = 1000000")
        self.arm(connection, "target", 1)
        state = self.state(connection)
        self.check(state[0] == "COPYING", f"retains too much: {state}")
        connection.run("DROP TABLE large")
        state = self.wait_for_end(connection)
        self.check(state[0] == "FAILED" and "may retain" in (state[2] or ""), f"retains too much: {state}")
        connection.run("SET GLOBAL teak_backup_max_pinned_bytes = DEFAULT")
        create_large(connection)

    def plain_backup(self, connection):
        """BACKUP STAGE without `teak backup` warns, and copies nothing."""
        before = self.state(connection)
        connection.run("BACKUP STAGE START")
        warnings = connection.run("SHOW WARNINGS")
        connection.run("BACKUP STAGE BLOCK_COMMIT")
        connection.run("BACKUP STAGE END")
        self.check("teak backup" in str(warnings), f"plain mariadb-backup: {warnings}")
        self.check(self.state(connection)[0] == before[0], "plain mariadb-backup has changed the state of the backup")

    def full_target(self, connection):
        """The directory of the copy is a small file system."""
        target = self.new_directory("small")
        target.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(target)], check=False).returncode:
            print("not run: a full target needs root and a mount", flush=True)
            return
        try:
            connection.run("SET GLOBAL teak_backup_throttle = 0")
            connection.run(f"SET GLOBAL teak_backup_target = '{target}/copy'")
            for stage in ("START", "BLOCK_COMMIT", "END"):
                connection.run(f"BACKUP STAGE {stage}")
            state = self.wait_for_end(connection)
            self.check(state[0] == "FAILED" and "no space left" in (state[2] or ""), f"full target: {state}")
            self.check(state[1] == "0", f"full target: {state}")
            rows = connection.value(f"SELECT COUNT(*) FROM {DATABASE}.large")
            self.check(rows == str(500 * BLOCKS), f"full target: {rows} rows")
        finally:
            subprocess.run(["umount", str(target)], check=False)


def main():
    parser = argparse.ArgumentParser(description="Hot backups of a server under load")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2, help="of load before each backup")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", default="32M")
    parser.add_argument("--server-option", action="append", default=[], help="for the server, may be repeated")
    parser.add_argument("--directory", default=str(BUILD / "backup-test"))
    options = parser.parse_args()
    test = Test(options)
    whole = mariadb_backup() is not None
    if not whole:
        print("mariadb-backup is not installed: only Teak is copied", flush=True)
    for number in range(options.rounds):
        engines = ("TEAK", "INNODB") if whole and number % 2 == 0 else ("TEAK",)
        test.round(number, engines, is_whole=whole and number % 4 != 3)
    test.failures()
    return finish(test.checks - test.failed, test.failed, f"{test.backups} backups", f"{test.transfers:,} transfers",
                  f"{test.blocks_written:,} blocks rewritten")


if __name__ == "__main__":
    sys.exit(main())
