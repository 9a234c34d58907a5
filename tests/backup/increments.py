"""Incremental backups of a server under load.

Writers transfer money over Teak and InnoDB, and other statements create, load, alter, truncate and drop tables. A full
backup and a chain of increments are made, and the server is killed and restarted between two of them. `teak restore`
merges the chain, a server starts on the result, and all of this must be right: sums, every transfer that the binary log
has before the recorded position and none after it, and the tables that were changed. Also:

- an increment after changes of 1 % reads and writes at most 3 % of the bytes of the files;
- an increment of Teak alone, at a limited rate;
- a restore to a transaction after the last increment;
- killed clients, a full target, and bases that are wrong, changed, damaged, missing, or of another server.

    python3 -m tests.backup.increments --quick                           a chain of 2
    python3 -m tests.backup.increments --increments=5 --every --seconds=3
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.backup.programs import mariadb_backup, tool
from tests.backup.restore import digest
from tests.backup.run import Test as Backups
from tests.backup.run import Writers, create_large
from tests.harness import BUILD, Server, finish, wait_until_quiet
from tests.harness.bank import DATABASE, Bank
from tests.harness.server import link_plugins, plugin_directory, teak_plugin

STATIC_ROWS = 300_000


class Test(Backups):
    def __init__(self, options):
        super().__init__(options)
        self.bank = Bank(("TEAK", "INNODB"))
        self.rng = random.Random(options.seed)
        self.plugins = plugin_directory(teak_plugin())
        link_plugins(teak_plugin(), self.plugins)
        self.chain, self.gtids = [], []
        self.restores = self.refusals = 0
        self.servers = [self.server]

    # ---- commands ----

    def increment(self, name, *options, base=None):
        """Makes a backup; with a base, an increment."""
        target = self.new_directory(name)
        return self.backup(target, *([f"--incremental-base={base}"] if base else []), *options), target

    def restore_chain(self, data, chain, *options):
        command = [tool(), "restore", chain[0], *(f"--incremental={path}" for path in chain[1:]), f"--datadir={data}",
                   f"--plugin-dir={self.plugins}"]
        if mariadb_backup():
            command.append(f"--mariadb-backup={mariadb_backup()}")
        return self.run([*command, *options])

    def verify(self, directory, *options):
        return self.run([tool(), "verify", "--quiet", directory, *options])

    # ---- the chain ----

    def make_chain(self):
        self.server.start_empty()
        self.bank.create(self.server)
        with self.server.connect() as connection:
            connection.run("INSERT INTO mysql.plugin SELECT PLUGIN_NAME, PLUGIN_LIBRARY FROM INFORMATION_SCHEMA.PLUGINS "
                           "WHERE PLUGIN_LIBRARY = 'ha_teak.so'")
            connection.run(f"USE {DATABASE}")
            create_large(connection)
            connection.run("CREATE TABLE static (id INT PRIMARY KEY, text VARCHAR(200), KEY (text)) ENGINE=TEAK COMPRESSION=none")
            connection.run(f"INSERT INTO static SELECT seq, CONCAT(LPAD(seq, 8, '0'), REPEAT(MD5(seq), 3)) FROM seq_1_to_{STATIC_ROWS}")
        moved = 0
        for number in range(self.options.increments + 1):
            writers = Writers(self.server, self.bank, self.options.seed + 1000 * number, self.last_transfers())
            try:
                time.sleep(self.options.seconds)
                base = self.chain[-1] if self.chain else None
                done, target = self.increment(f"chain{number}", f"--throttle={self.rng.choice((20, 50, 0))}", base=base)
            finally:
                writers.stop()
            self.check(not writers.errors, f"writers of backup {number}: {writers.errors}")
            self.check(done.returncode == 0, f"backup {number}: {done.stdout[-2000:]}")
            if done.returncode:
                raise RuntimeError(f"backup {number} has failed")
            print(f"backup {number}: {' / '.join(done.stdout.splitlines()[-2:])}", flush=True)
            self.chain.append(target)
            self.backups += 1
            moved = sum(writers.done)
            self.blocks_written += writers.blocks_written
            with self.server.connect(DATABASE) as connection:
                self.change_tables(connection, number)
            if number == 1:
                self.server.kill()
                self.server.start()
        self.transfers = moved
        self.digests = [digest(path) for path in self.chain]
        for path in self.chain:
            verified = self.verify(path)
            self.check(verified.returncode == 0 and not verified.stdout, f"teak verify {path}: {verified.stdout}")

    def last_transfers(self):
        with self.server.connect(DATABASE) as connection:
            return [int(connection.value(f"SELECT IFNULL(MAX(number), 0) FROM moved WHERE writer = {writer}")) for writer in range(3)]

    @staticmethod
    def change_tables(connection, number):
        """What is changed between two backups is in the later one."""
        connection.run("DROP TABLE IF EXISTS changed")
        connection.run(f"CREATE TABLE changed (id INT PRIMARY KEY, n INT) ENGINE=TEAK AS SELECT seq AS id, {number} AS n FROM seq_1_to_5000")
        connection.run(f"ALTER TABLE changed ADD KEY (n), ADD COLUMN c{number} INT DEFAULT {number}")
        if number % 2:
            connection.run("OPTIMIZE TABLE changed")
        connection.run("CREATE TABLE IF NOT EXISTS emptied (id INT PRIMARY KEY) ENGINE=TEAK")
        connection.run("TRUNCATE TABLE emptied")
        connection.run(f"INSERT INTO emptied SELECT seq + {number} FROM seq_1_to_1000")
        connection.run("CREATE TABLE IF NOT EXISTS changed_innodb (id INT PRIMARY KEY) ENGINE=INNODB")
        connection.run(f"INSERT INTO changed_innodb VALUES ({number})")

    def check_chain(self, length):
        side = f"a chain of {length}"
        chain = self.chain[:length + 1]
        restored = Server(self.new_directory("restored"), [f"--cache={self.options.cache}", "--innodb-log-file-size=32M", *self.options.server_option])
        self.servers.append(restored)
        data = restored.directory / "data"
        began = time.monotonic()
        done = self.restore_chain(data, chain)
        self.check(done.returncode == 0, f"{side}: {done.stdout[-3000:]}")
        if done.returncode:
            return
        self.restores += 1
        print(f"{side}: {[line for line in done.stdout.splitlines() if line.startswith('complete')]} {time.monotonic() - began:.1f} s", flush=True)
        left = [path for path in data.rglob("*") if path.name.endswith("-increment") or path.name in ("teak_blocks", "teak_backup_info", "teak_base")]
        self.check(not left, f"{side}: {left} are left")
        restored.start()
        with restored.connect(DATABASE) as connection:
            moved, faults = self.bank.verify(connection, side)
            self.check(not faults, f"{side}: {faults}")
            self.check_others(side, connection)
            self.check_large(side, connection)
            self.check_binary_log(side, moved, self.recorded_position(chain[-1]))
            found = connection.run("CHECK TABLE static EXTENDED")
            self.check(found[-1][-1] == b"OK", f"{side}: CHECK TABLE static: {found}")
            if length > 0:
                row = connection.run("SELECT COUNT(*), MIN(n), MAX(n) FROM changed")[0]
                self.check([int(value) for value in row] == [5000, length - 1, length - 1], f"{side}: changed has {row}")
                row = connection.run("SELECT COUNT(*), MIN(id) FROM emptied")[0]
                self.check([int(value) for value in row] == [1000, length], f"{side}: emptied has {row}")
                count = connection.value("SELECT COUNT(*) FROM changed_innodb")
                self.check(count == str(length), f"{side}: changed_innodb has {count} rows")
        # A restored server has no base: its next backup is a full one.
        if length == self.options.increments:
            target = self.new_directory("of_restored")
            command = [tool(), "backup", f"--target-dir={target}", "--incremental-base=" + str(chain[-1]),
                       f"--mariadb-backup={mariadb_backup()}", "--", "--no-defaults", f"--socket={restored.socket}", "--user=root"]
            done = self.run(command)
            self.refused("a base of the time before a restore", done, "is not known to the server")
        restored.stop()

    def to_a_transaction(self):
        """Rolls the last increment forward to the end of the binary log."""
        with self.server.connect(DATABASE) as connection:
            connection.run("UPDATE account SET note = 'rolled forward' WHERE id = 2")
            connection.run("UPDATE account_1 SET note = 'rolled forward' WHERE id = 1")
            gtid = connection.value("SELECT @@gtid_binlog_pos")
            connection.run("FLUSH BINARY LOGS")
        logs = self.new_directory("logs")
        logs.mkdir()
        for path in (self.server.directory / "data").glob("binlog.0*"):
            shutil.copy(path, logs)
        restored = Server(self.new_directory("restored"), [f"--cache={self.options.cache}", "--innodb-log-file-size=32M", *self.options.server_option])
        self.servers.append(restored)
        done = self.restore_chain(restored.directory / "data", self.chain, f"--to={gtid}", f"--binlog-dir={logs}", "--throttle=500")
        self.check(done.returncode == 0 and "applied:" in done.stdout, f"to {gtid}: {done.stdout[-3000:]}")
        if done.returncode:
            return
        self.restores += 1
        restored.start()
        with restored.connect(DATABASE) as connection:
            moved, faults = self.bank.verify(connection, f"to {gtid}")
            self.check(not faults and len(moved) == sum(self.last_transfers()), f"to {gtid}: {faults}, {len(moved)} transfers")
            for table in ("account", "account_1"):
                count = connection.value(f"SELECT COUNT(*) FROM {table} WHERE note = 'rolled forward'")
                self.check(count == "1", f"to {gtid}: {table}: {count}")
        restored.stop()

    # ---- sizes ----

    def small(self):
        """Of Teak alone: 1 % of a large table is changed between a full backup and an increment. Background work of the
        load before must have ended. It would also rewrite the leaf with the new rows, a tenth of the table, so then it is limited to
        1 MiB per second."""
        slow = "SET GLOBAL teak_io_capacity = 1"
        self.check(wait_until_quiet(self.server.bytes_dirtied, timeout=120), "background work does not end")
        with self.server.connect(DATABASE) as connection:
            connection.run(slow)
            done, full = self.increment("small_full", "--teak-only")
            self.check(done.returncode == 0, f"--teak-only: {done.stdout[-2000:]}")
            # A load, so that the rows are in blocks, and not only in the log.
            connection.run("SET SESSION teak_bulk_load_threshold = 0")
            connection.run(f"INSERT INTO static SELECT seq, CONCAT(LPAD(seq, 8, '0'), REPEAT(MD5(seq), 3)) "
                           f"FROM seq_{STATIC_ROWS + 1}_to_{STATIC_ROWS * 101 // 100}")
        # All files are closed then, and the log is short.
        self.server.stop()
        self.server.start()
        with self.server.connect(DATABASE) as connection:
            connection.run(slow)
            time.sleep(2)
            copied = self.read_bytes()
            done, target = self.increment("small", "--teak-only", "--throttle=5", base=full)
            copied = self.read_bytes() - copied
            self.check(done.returncode == 0, f"--teak-only: {done.stdout[-2000:]}")
            if done.returncode:
                return
            expected = connection.run("CHECKSUM TABLE static")[0][1]
        size = sum(path.stat().st_blocks * 512 for path in full.rglob("*.teak"))
        written = sum(path.stat().st_blocks * 512 for path in target.rglob("*") if path.is_file() and not path.name.startswith("teak.log."))
        text = f"1 % changed: the full backup has {size:,} bytes in index files, the increment {written:,}; the server read {copied:,}"
        print(f"{text} ({100 * written / size:.2f} %, {100 * copied / size:.2f} %)", flush=True)
        self.check(size <= written * 200 and written * 100 <= size * 3 and copied * 100 <= size * 3, text)
        self.backups += 2
        self.refused("a base with all engines", self.increment("refused", "--teak-only", base=self.chain[0])[0], "--teak-only is not permitted")
        self.refused("a base with Teak alone", self.increment("refused", base=full)[0], "use --teak-only")
        data = self.new_directory("restored") / "data"
        done = self.restore_chain(data, [full, target])
        self.check(done.returncode == 0 and "mariadb-install-db" in done.stdout, f"Teak only: {done.stdout}")
        self.restores += 1
        restored = Server(data.parent, [f"--cache={self.options.cache}", *self.options.server_option])
        self.servers.append(restored)
        merged = self.new_directory("merged")
        data.rename(merged)
        restored.install_system_tables()
        shutil.copytree(merged, data, dirs_exist_ok=True)
        restored.start()
        with restored.connect(DATABASE) as connection:
            found = connection.run("CHECKSUM TABLE static")[0][1]
            self.check(found == expected, f"Teak only: the checksum is {found}, and was {expected}")
        restored.stop()

    def read_bytes(self):
        """Bytes that the server has read from files, cached or not."""
        for line in Path(f"/proc/{self.server.pid()}/io").read_text().splitlines():
            name, value = line.split(": ")
            if name == "rchar":
                return int(value)
        raise RuntimeError("no rchar")

    # ---- failures ----

    def refused(self, what, done, expected):
        self.refusals += 1
        self.check(done.returncode == 1 and expected in done.stdout, f"{what}: expected '{expected}': {done.returncode} {done.stdout[-2000:]}")

    def copy_of(self, directory, name):
        copy = self.new_directory(name)
        shutil.copytree(directory, copy)
        return copy

    def bases(self):
        full, first, last = self.chain[0], self.chain[1], self.chain[-1]
        data = self.new_directory("refused_data")

        def refuse_restore(what, chain, expected):
            self.refused(what, self.restore_chain(data, chain), expected)
            self.check(not data.exists(), f"{what}: {data} was created")

        refuse_restore("an increment alone", [last], "is an incremental backup")
        refuse_restore("a full backup as an increment", [full, full], "is a full backup and has no base")
        if len(self.chain) > 2:
            refuse_restore("a gap in the chain", [full, self.chain[2]], "is not the base of")
            refuse_restore("a wrong order", [full, self.chain[2], first], "is not the base of")
        # A base whose list is damaged, missing, or cut off.
        damaged = self.copy_of(full, "damaged")
        self.flip(damaged / "teak_blocks", 50)
        self.refused("a damaged list", self.increment("refused", base=damaged)[0], "checksum of the header does not match")
        self.refused("verify with a damaged list", self.verify(first, f"--incremental-base={damaged}"), "checksum of the header does not match")
        refuse_restore("a damaged list", [damaged, first], "checksum of the header does not match")
        (damaged / "teak_blocks").unlink()
        self.refused("no list", self.increment("refused", base=damaged)[0], "there is no teak_blocks")
        # A base of which a file is missing or damaged.
        damaged = self.copy_of(full, "damaged")
        victim = next(damaged.glob(f"{DATABASE}/static*.teak"))
        content = victim.read_bytes()
        # The middle of the largest file of the base: a block that the increment needs.
        self.flip(victim, len(content) // 2)
        self.refused("verify with a damaged base", self.verify(first, f"--incremental-base={damaged}"), "damaged")
        refuse_restore("a damaged base", [damaged, first], "the backup is damaged")
        victim.unlink()
        self.refused("a missing file", self.increment("refused", base=damaged)[0], victim.name)
        refuse_restore("a missing file", [damaged, first], "the backup is damaged")
        self.refused("a missing base", self.increment("refused", base=self.directory / "none")[0], "No such file")
        # A base that is moved: verify says so, and accepts the new place.
        moved = self.directory / "moved"
        shutil.rmtree(moved, ignore_errors=True)
        full.rename(moved)
        self.refused("a base that is elsewhere", self.verify(first), "give it with --incremental-base")
        done = self.verify(first, f"--incremental-base={moved}")
        self.check(done.returncode == 0, f"a base that was moved: {done.stdout}")
        moved.rename(full)
        # A base that was prepared.
        prepared = self.copy_of(full, "damaged")
        self.run([mariadb_backup(), "--no-defaults", "--prepare", f"--target-dir={prepared}"])
        self.refused("a prepared base", self.increment("refused", base=prepared)[0], "--prepare")
        # No option of mariadb-backup makes an increment.
        done = self.backup(self.new_directory("refused"), given=[f"--incremental-basedir={full}"])
        self.refused("--incremental-basedir", done, "give the base with --incremental-base")
        self.check([digest(path) for path in self.chain] == self.digests, "a backup was changed")

    def interruptions(self):
        self.other_server(self.chain[0])
        self.killed(self.chain[-1])
        self.full_target_of_increment(self.chain[-1])
        self.check([digest(path) for path in self.chain] == self.digests, "a backup was changed")

    @staticmethod
    def flip(path, at):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))

    def other_server(self, base):
        other = Server(self.new_directory("other"), ["--cache=32M"])
        self.servers.append(other)
        other.start_empty()
        done = self.run([tool(), "backup", f"--target-dir={self.new_directory('refused')}", f"--incremental-base={base}",
                         f"--mariadb-backup={mariadb_backup()}", "--", "--no-defaults", f"--socket={other.socket}", "--user=root"])
        self.refused("a base of another server", done, "is of another server")
        other.stop()

    def killed(self, base):
        """A client that is killed leaves an incomplete target, and the next increment has the same base."""
        with self.server.connect(DATABASE) as connection:
            connection.run("SET SESSION teak_bulk_load_threshold = 0")
            connection.run(f"INSERT INTO static SELECT seq + {2 * STATIC_ROWS}, REPEAT(MD5(seq), 3) FROM seq_1_to_30000")
            target = self.new_directory("killed")
            command = [tool(), "backup", f"--target-dir={target}", f"--incremental-base={base}", "--throttle=1",
                       f"--mariadb-backup={mariadb_backup()}", "--", *self.connection_options()]
            with open(self.directory / "killed.log", "w", encoding="utf8") as log:
                process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
            deadline = time.monotonic() + 60
            while self.state(connection)[0] != "COPYING" and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.check(self.state(connection)[0] == "COPYING", f"killed: {self.state(connection)}")
            self.refused("an increment that was not completed", self.increment("refused", base=target)[0], "is not a complete backup")
            refused = self.restore_chain(self.new_directory("refused_data"), [*self.chain, target])
            self.refused("a restore of it", refused, "is not a complete backup")
            connection.run("SET GLOBAL teak_backup_target = ''")
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                done, again = self.increment("again", base=base)
                if "has not ended yet" not in done.stdout:
                    break
                time.sleep(0.2)
            self.check(done.returncode == 0, f"after a killed client: {done.stdout}")
            verified = self.verify(again)
            self.check(verified.returncode == 0, f"after a killed client: {verified.stdout}")

    def full_target_of_increment(self, base):
        """The increment does not fit in a small file system."""
        target = self.new_directory("small")
        target.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(target)], check=False).returncode:
            print("not run: a full target needs root and a mount", flush=True)
            return
        try:
            done = self.backup(target, f"--incremental-base={base}")
            self.refusals += 1
            self.check(done.returncode == 1 and not (target / "teak.catalogue-increment").exists(), f"full target: {done.stdout[-2000:]}")
        finally:
            subprocess.run(["umount", str(target)], check=False)


def main():
    parser = argparse.ArgumentParser(description="Incremental backups of a server under load")
    parser.add_argument("--increments", type=int, default=2, help="after the full backup")
    parser.add_argument("--quick", action="store_true", help="without interruptions and rolling forward")
    parser.add_argument("--every", action="store_true", help="restore every part of the chain, and not only all of it")
    parser.add_argument("--seconds", type=float, default=1, help="of load before each backup")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", default="32M")
    parser.add_argument("--server-option", action="append", default=[], help="for the server, may be repeated")
    parser.add_argument("--directory", default=str(BUILD / "increments-test"))
    options = parser.parse_args()
    if mariadb_backup() is None:
        print("not run: mariadb-backup is not installed", flush=True)
        return finish(1, 0, "0 increments")
    test = Test(options)
    try:
        test.make_chain()
        lengths = range(options.increments + 1) if options.every else [options.increments]
        for length in lengths:
            test.check_chain(length)
        steps = [test.bases, test.small, *([] if options.quick else [test.interruptions, test.to_a_transaction])]
        for step in steps:
            began = time.monotonic()
            step()
            print(f"{step.__name__}: {time.monotonic() - began:.1f} s", flush=True)
    finally:
        for server in test.servers:
            server.stop()
    if not test.failed:
        shutil.rmtree(test.directory, ignore_errors=True)
    return finish(test.checks - test.failed, test.failed, f"{test.backups} backups", f"{test.restores} restores", f"{test.refusals} refusals",
                  f"{test.transfers:,} transfers", f"{test.blocks_written:,} blocks rewritten")


if __name__ == "__main__":
    sys.exit(main())
