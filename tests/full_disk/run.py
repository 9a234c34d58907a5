"""Every kind of statement on a full file system.

The data directory is on a separate small file system (a tmpfs, or ext4 in a file with --filesystem=ext4), in a
private mount namespace. A ballast file fills it. Then, for each kind of statement:

1. the statement is refused with a clear error, or succeeds; acknowledged changes are visible, refused ones are not;
2. the server does not stop, and reads still work;
3. when the ballast is removed, the same statement succeeds, without a restart.

Three more kinds are no statements. After kill -9 the server must start on the full disk, and use the space of a dropped
table. If the file system of one database becomes full, its table must become read-only, other tables must accept more
writes than the log can hold, and the table must accept writes again when there is space. If that of teak_tmp_dir becomes
full, statements that sort are refused. Each kind counts as one test.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.harness import BUILD, Server, SqlError, finish

DATABASE = "full"
# ER_DISK_FULL, and the server's errors for its own files (.frm): ER_CANT_CREATE_TABLE, ER_CANT_CREATE_FILE, EE_WRITE,
# ER_ERROR_ON_WRITE, and the errors of ALTER and RENAME.
DISK_FULL, SERVERS_OWN = 1021, (1004, 1005, 1025, 1026, 3, 28)
READ_ONLY = 1036  # ER_OPEN_AS_READONLY
PATIENCE_SECONDS = 60


def in_own_mounts():
    """Runs this program again in its own mount namespace, so that its mounts end with it."""
    command = ["unshare", "--mount", "--propagation=private"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    os.execvp(command[0], [*command, sys.executable, "-m", "tests.full_disk.run", *sys.argv[1:], "--mounted"])


class Test:
    def __init__(self, options):
        self.options = options
        self.directory = Path(options.directory).absolute()
        self.data = self.directory / "server" / "data"
        self.ballast = self.data / "ballast"
        self.random = random.Random(options.seed)
        self.server = Server(self.directory / "server", [f"--cache={options.cache}", "--teak-checkpoint-period=2"])
        self.checks = self.failed = 0
        self.kinds = {}  # name of a kind -> whether all of its checks passed

    def check(self, holds, what):
        self.checks += 1
        if not holds:
            self.failed += 1
            print(f"FAILED: {what}", flush=True)

    # ---- the disk ----

    def prepare(self):
        """Creates a data directory on the small file system, without files of engines that the test does not need."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.server.start()
        self.server.stop()
        seed = self.data.with_name("seed")
        self.data.rename(seed)
        self.data.mkdir()
        size = self.options.megabytes
        if self.options.filesystem == "tmpfs":
            mount = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(self.data)]
        else:
            image = self.directory / "image"
            with open(image, "wb") as file:
                file.truncate(size << 20)
            subprocess.run([f"mkfs.{self.options.filesystem}", "-q", "-m", "0", str(image)], check=True)
            mount = ["mount", "-o", "loop", str(image), str(self.data)]
        subprocess.run(mount, check=True)
        for path in seed.iterdir():
            # Teak starts with an empty log, so that its complete log is on the small file system.
            if path.name.startswith(("ib", "teak.")):
                continue
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, self.data / path.name)
        shutil.rmtree(seed)
        self.server.options += ["--skip-innodb", "--default-storage-engine=TEAK",
                                f"--aria-log-dir-path={self.directory / 'server' / 'tmp'}"]

    def fill(self, ballast=None):
        """Extends the ballast file until no byte is free."""
        with open(ballast or self.ballast, "ab", buffering=0) as file:
            for block in (1 << 20, 1 << 12, 1 << 9):
                while True:
                    try:
                        file.write(b"\1" * block)
                    except OSError:
                        break

    def free(self):
        self.ballast.unlink(missing_ok=True)

    # ---- statements ----

    def text(self, length):
        return self.random.randbytes(length // 2).hex()

    def patiently(self, connection, statement):
        """Runs a statement that must succeed soon: background threads may need time to notice the free space."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return connection.run(statement)
            except SqlError as error:
                if error.number != DISK_FULL or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def refused(self, connection, statement, numbers=(DISK_FULL,)):
        """The error of a statement on the full disk; None if it succeeded."""
        try:
            connection.run(statement)
        except SqlError as error:
            self.check(error.number in numbers, f"{statement[:60]}: {error.number} {error.message}")
            return error
        return None

    def until_refused(self, connection, statement, statements_max=20_000):
        """Runs numbered statements until one is refused. Returns the number of acknowledged ones."""
        for number in range(statements_max):
            if self.refused(connection, statement(number)):
                return number
            if number % 50 == 0:
                self.fill()
        self.check(False, f"{statement(0)[:60]} was never refused")
        return statements_max

    def count(self, connection, table, where="1"):
        return int(connection.value(f"SELECT COUNT(*) FROM {table} WHERE {where}"))

    def table(self, connection, name, rows=0):
        connection.run(f"DROP TABLE IF EXISTS {name}")
        connection.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(4000), n INT NOT NULL DEFAULT 0, KEY (n))"
                       " CHARSET latin1 COMPRESSION=none")
        for first in range(0, rows, 100):
            values = ",".join(f"({id}, '{self.text(2000)}', 0)" for id in range(first, min(first + 100, rows)))
            connection.run(f"INSERT INTO {name} VALUES {values}")

    # ---- the kinds ----

    def insert(self, connection):
        self.table(connection, "t")
        self.fill()
        done = self.until_refused(connection, lambda n: f"INSERT INTO t VALUES ({n}, '{self.text(3000)}', 0)")
        self.check(self.count(connection, "t") == done, "INSERT: the rows are those acknowledged")
        self.check(self.count(connection, "t FORCE INDEX (n)", "n = 0") == done, "INSERT: the index agrees")
        self.free()
        self.patiently(connection, "INSERT INTO t VALUES (-1, 'x', 0)")
        self.check(self.count(connection, "t") == done + 1, "INSERT works again")

    def insert_many(self, connection):
        self.table(connection, "t", 10)
        self.fill()
        rows = ",".join(f"({id}, '{self.text(3900)}', 0)" for id in range(100, 4000))
        error = self.refused(connection, f"INSERT INTO t VALUES {rows}")
        self.check(error is not None, "a large INSERT is refused")
        self.check(self.count(connection, "t") == 10, "a refused INSERT leaves nothing")
        self.free()
        self.patiently(connection, f"INSERT INTO t VALUES {rows[:rows.index(',(')]}")
        self.check(self.count(connection, "t") == 11, "INSERT of many works again")

    def update(self, connection):
        self.table(connection, "t", 1000)
        self.fill()
        done = self.until_refused(connection, lambda n: f"UPDATE t SET n = {n + 1}, v = '{self.text(3000)}'"
                                                        f" WHERE id = {n % 1000}")
        last = int(connection.value("SELECT MAX(n) FROM t FORCE INDEX (n)"))
        self.check(last == done, f"UPDATE: {last} of {done} acknowledged")
        self.check(self.count(connection, "t") == 1000, "UPDATE: all rows are there")
        self.free()
        self.patiently(connection, "UPDATE t SET n = -1")
        self.check(self.count(connection, "t", "n = -1") == 1000, "UPDATE works again")

    def delete(self, connection):
        self.table(connection, "t", 1000)
        self.table(connection, "u")
        self.fill()
        # Fills the log's remaining space, because DELETE itself writes little.
        self.until_refused(connection, lambda n: f"INSERT INTO u VALUES ({n}, '{self.text(3000)}', 0)")
        error = self.refused(connection, "DELETE FROM t")
        left = self.count(connection, "t")
        self.check(left == (1000 if error else 0), f"DELETE: {left} rows after {error}")
        self.free()
        self.patiently(connection, "DELETE FROM t")
        self.check(self.count(connection, "t") == 0, "DELETE works again")
        connection.run("DROP TABLE u")

    def load(self, connection):
        self.table(connection, "t", 10)
        file = self.directory / "rows.csv"
        with open(file, "w", encoding="ascii") as out:
            for id in range(100, 8000):
                out.write(f"{id}\t{self.text(3900)}\t0\n")
        self.fill()
        error = self.refused(connection, f"LOAD DATA INFILE '{file}' INTO TABLE t")
        self.check(error is not None, "LOAD DATA is refused")
        self.check(self.count(connection, "t") == 10, "a refused LOAD DATA leaves nothing")
        self.free()
        self.patiently(connection, f"LOAD DATA INFILE '{file}' INTO TABLE t")
        self.check(self.count(connection, "t") == 7910, "LOAD DATA works again")
        connection.run("DROP TABLE t")
        file.unlink()

    def commit(self, connection):
        self.table(connection, "t")
        connection.run("START TRANSACTION")
        connection.run("INSERT INTO t VALUES (-1, 'before', 0)")
        self.fill()
        done = self.until_refused(connection, lambda n: f"INSERT INTO t VALUES ({n}, '{self.text(3000)}', 0)")
        error = self.refused(connection, "COMMIT")
        expected = 0 if error else done + 1
        self.check(self.count(connection, "t") == expected, f"COMMIT: the rows are all or none of {done + 1}")
        self.check(error is None, "COMMIT uses its reserved space")
        connection.run("START TRANSACTION")
        self.refused(connection, f"INSERT INTO t VALUES (-2, '{self.text(3000)}', 0)")
        connection.run("ROLLBACK")
        self.check(self.count(connection, "t") == expected, "ROLLBACK works on a full disk")
        self.free()
        connection.run("START TRANSACTION")
        self.patiently(connection, "INSERT INTO t VALUES (-3, 'after', 0)")
        self.patiently(connection, "COMMIT")
        self.check(self.count(connection, "t") == expected + 1, "COMMIT works again")

    def create(self, connection):
        self.fill()
        statement = "CREATE TABLE made (a INT PRIMARY KEY, b INT, KEY (b))"
        error = self.refused(connection, statement, (DISK_FULL, *SERVERS_OWN))
        self.check(error is not None, "CREATE TABLE is refused")
        self.free()
        connection.run("DROP TABLE IF EXISTS made")
        self.patiently(connection, statement)
        connection.run("INSERT INTO made VALUES (1, 1)")
        self.check(self.count(connection, "made") == 1, "CREATE TABLE works again")
        connection.run("DROP TABLE made")

    def alter(self, connection):
        self.table(connection, "t", 2000)
        self.fill()
        statement = "ALTER TABLE t ADD COLUMN extra INT NOT NULL DEFAULT 7, ALGORITHM=COPY"
        error = self.refused(connection, statement, (DISK_FULL, *SERVERS_OWN))
        self.check(error is not None, "ALTER TABLE is refused")
        self.check(self.count(connection, "t") == 2000, "a refused ALTER TABLE leaves the table")
        self.free()
        self.patiently(connection, statement)
        self.check(self.count(connection, "t", "extra = 7") == 2000, "ALTER TABLE works again")
        left = [path.name for path in (self.data / DATABASE).iterdir() if path.name.startswith("#sql")]
        self.check(not left, f"no half-made table is left: {left}")

    def truncate(self, connection):
        self.table(connection, "t", 1000)
        self.fill()
        error = self.refused(connection, "TRUNCATE TABLE t", (DISK_FULL, *SERVERS_OWN))
        left = self.count(connection, "t")
        self.check(left == (1000 if error else 0), f"TRUNCATE: {left} rows after {error}")
        self.free()
        self.patiently(connection, "TRUNCATE TABLE t")
        connection.run("INSERT INTO t VALUES (1, 'x', 0)")
        self.check(self.count(connection, "t") == 1, "TRUNCATE works again")

    def drop(self, connection):
        self.table(connection, "big", 4000)
        connection.run("FLUSH ENGINE LOGS")
        time.sleep(4)  # a checkpoint writes the rows to the table's files
        self.table(connection, "t")
        self.fill()
        self.until_refused(connection, lambda n: f"INSERT INTO t VALUES ({n}, '{self.text(3000)}', 0)")
        connection.run("DROP TABLE big")
        self.check(True, "DROP TABLE works on a full disk")
        self.patiently(connection, "INSERT INTO t VALUES (-1, 'x', 0)")
        self.check(self.count(connection, "t", "id = -1") == 1, "a DROP's space is used")
        self.free()

    def restart(self, connection):
        self.table(connection, "big", 4000)
        connection.run("FLUSH ENGINE LOGS")
        time.sleep(4)
        self.table(connection, "t")
        self.fill()
        done = self.until_refused(connection, lambda n: f"INSERT INTO t VALUES ({n}, '{self.text(3000)}', 0)")
        connection.close()
        self.server.kill()
        self.fill()
        self.server.start()
        connection = self.server.connect(DATABASE)
        self.check(self.count(connection, "t") == done, "kill -9 and a start on a full disk lose nothing")
        self.check(self.count(connection, "big") == 4000, "all tables are there")
        connection.run("DROP TABLE big")
        self.patiently(connection, "INSERT INTO t VALUES (-1, 'x', 0)")
        self.free()
        for table in ("t",):
            rows = connection.run(f"CHECK TABLE {table}")
            self.check(rows[-1][3] == b"OK", f"CHECK TABLE {table}: {rows}")

    def wait_for_read_only(self, connection, tables, meanwhile):
        """Calls `meanwhile` until this number of tables is read-only."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        query = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Teak_read_only_tables'"
        while int(connection.value(query)) != tables and time.monotonic() < deadline:
            meanwhile()
        self.check(int(connection.value(query)) == tables, f"Teak_read_only_tables = {tables}")

    def write_elsewhere(self, connection, first, rows):
        """Writes rows of 3000 bytes to the table u, whose files are on the data directory's file system."""
        for id in range(first, first + rows, 100):
            values = ",".join(f"({id + number}, '{self.text(3000)}', 0)" for number in range(100))
            self.patiently(connection, f"INSERT INTO u VALUES {values}")

    def read_only(self, connection):
        connection.run("CREATE DATABASE small")
        connection.close()
        self.server.stop()
        place = self.data / "small"
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)], check=True)
        log_size = "--teak-log-size-max=32M"
        self.server.options.append(log_size)
        self.server.start()
        connection = self.server.connect(DATABASE)
        try:
            self.fill_small(connection, place / "ballast")
        finally:
            connection.close()
            self.server.options.remove(log_size)
            self.server.stop()
            subprocess.run(["umount", str(place)], check=True)
            self.server.start()

    def spill(self, connection):
        self.table(connection, "t", 10)
        connection.close()
        self.server.stop()
        place = self.directory / "spill"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)], check=True)
        option = f"--teak-tmp-dir={place}"
        self.server.options.append(option)
        self.server.start()
        connection = self.server.connect(DATABASE)
        try:
            self.spill_into(connection, place)
        finally:
            connection.close()
            self.server.options.remove(option)
            self.server.stop()
            subprocess.run(["umount", str(place)], check=True)
            self.server.start()

    def spill_into(self, connection, place):
        ids = list(range(100, 8000))
        self.random.shuffle(ids)
        file = self.directory / "rows.csv"
        file.write_text("".join(f"{id}\t{self.text(3900)}\t{id % 100}\n" for id in ids), encoding="ascii")
        self.fill(place / "ballast")
        load = f"LOAD DATA INFILE '{file}' INTO TABLE t"
        key = "ALTER TABLE t ADD KEY (v(3000))"
        error = self.refused(connection, load)
        notes = b" ".join(row[2] for row in connection.run("SHOW WARNINGS")).decode()
        self.check(error is not None and str(place) in notes, f"LOAD DATA on a full teak_tmp_dir: {error}, {notes}")
        self.check(self.count(connection, "t") == 10, "a load that cannot spill leaves nothing")
        (place / "ballast").unlink()
        self.check(not list(place.iterdir()), "no spill file is left")
        self.patiently(connection, load)
        self.check(self.count(connection, "t") == 7910, "LOAD DATA works again")
        self.check(self.count(connection, "t FORCE INDEX (n)", "n = 5") == 79, "LOAD DATA: the index agrees")
        self.fill(place / "ballast")
        error = self.refused(connection, key)
        self.check(error is not None, "ADD KEY on a full teak_tmp_dir is refused")
        (place / "ballast").unlink()
        self.patiently(connection, key)
        self.check(not list(place.iterdir()), "no spill file is left")
        rows = connection.run("CHECK TABLE t EXTENDED")
        self.check(rows[-1][3] == b"OK", f"CHECK TABLE t: {rows}")
        connection.run("DROP TABLE t")
        file.unlink()

    def fill_small(self, connection, ballast):
        self.table(connection, "u")
        self.table(connection, "small.t", 100)
        connection.run("FLUSH ENGINE LOGS")
        self.fill(ballast)
        written = 0

        def write():
            nonlocal written
            self.write_elsewhere(connection, written, 200)
            written += 200

        done = 100
        while self.refused(connection, f"INSERT INTO small.t VALUES ({done}, '{self.text(3000)}', 1)",
                           (DISK_FULL, READ_ONLY)) is None:
            done += 1
            self.fill(ballast)
            if done == 5000:
                break
        self.wait_for_read_only(connection, 1, write)
        error = self.refused(connection, "DELETE FROM small.t", (DISK_FULL, READ_ONLY))
        self.check(error is not None, "a read-only table is not written")
        # Writes more than the maximum size of the log.
        for _ in range(60):
            write()
        self.check(self.count(connection, "u") == written, "the other table has its rows")
        self.check(self.count(connection, "small.t") == done, "read-only: the rows are those acknowledged")
        self.check(self.count(connection, "small.t FORCE INDEX (n)", "n = 1") == done - 100, "read-only: the index agrees")
        ballast.unlink()
        self.wait_for_read_only(connection, 0, lambda: time.sleep(0.1))
        self.patiently(connection, "INSERT INTO small.t VALUES (-1, 'x', 0)")
        connection.close()
        self.server.kill()
        self.server.start()
        with self.server.connect(DATABASE) as again:
            self.check(self.count(again, "small.t") == done + 1, "kill -9 loses nothing")
            rows = again.run("CHECK TABLE small.t EXTENDED")
            self.check(rows[-1][3] == b"OK", f"CHECK TABLE small.t: {rows}")
            again.run("DROP TABLE u, small.t")

    KINDS = (insert, insert_many, update, delete, load, commit, create, alter, truncate, drop, restart, read_only, spill)

    def run(self):
        self.prepare()
        self.server.start()
        with self.server.connect() as connection:
            connection.run(f"CREATE DATABASE {DATABASE}")
        pid = self.server.pid()
        for kind in self.KINDS:
            if self.options.kinds and kind.__name__ not in self.options.kinds:
                continue
            print(f"-- {kind.__name__}", flush=True)
            failed_before = self.failed
            connection = self.server.connect(DATABASE)
            try:
                kind(self, connection)
                if kind not in (Test.restart, Test.read_only, Test.spill):
                    self.check(self.server.pid() == pid, f"{kind.__name__}: the server is running")
            except (SqlError, RuntimeError) as error:
                self.check(False, f"{kind.__name__}: {error}")
                if self.server.pid() is None:
                    break
            finally:
                self.kinds[kind.__name__] = self.failed == failed_before
                self.free()
                connection.close()
        self.server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--filesystem", default="tmpfs", choices=("tmpfs", "ext4"))
    parser.add_argument("--megabytes", type=int, default=160, help="size of the file system")
    parser.add_argument("--cache", default="16M")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", default=str(BUILD / "run" / "full-disk"))
    parser.add_argument("--mounted", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("kinds", nargs="*", help="some of: " + " ".join(kind.__name__ for kind in Test.KINDS))
    options = parser.parse_args()
    if not options.mounted:
        in_own_mounts()
    test = Test(options)
    try:
        test.run()
    finally:
        test.server.kill()
    if test.failed:
        print(test.server.log_tail())
    subprocess.run(["umount", str(test.data)], check=False)
    shutil.rmtree(test.directory, ignore_errors=True)
    held = list(test.kinds.values())
    return finish(held.count(True), held.count(False), f"{test.checks} checks of {len(held)} kinds of statements")


if __name__ == "__main__":
    sys.exit(main())
