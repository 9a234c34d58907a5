"""A data directory of one series of MariaDB, opened by a newer one.

On a machine with the older series, `write` fills databases with tables of Teak and of InnoDB with the same rows: every type of
column, keys, partitions, clustering keys, instant column changes, system versioning, sequences, and a prepared XA transaction.
It writes the rows of each table, as text, next to the data directory. Some of the last changes are only in the log: the server
is killed, in a second data directory.

In a system with the newer series, `python3 -m tests.series.old_data` opens both directories, runs mariadb-upgrade, and checks the
rows by each key, writes, alters and optimises every table, and compares Teak's tables with InnoDB's.
"""

import json
import re
import shutil
import subprocess
import sys

from tests.harness import BUILD, ROOT, Server, finish, quoted_name

ENGINES = ("InnoDB", "Teak")
SCHEMA = (ROOT / "tests/clients/schema.sql", ROOT / "tests/clients/rows.sql")
# What the schema of the clients lacks.
MORE = """
CREATE TABLE parts (id INT NOT NULL, day DATE NOT NULL, text VARCHAR(40), PRIMARY KEY (id, day), KEY (text))
  PARTITION BY RANGE (YEAR(day)) SUBPARTITION BY HASH (id) SUBPARTITIONS 2
  (PARTITION a VALUES LESS THAN (2020), PARTITION b VALUES LESS THAN MAXVALUE);
INSERT INTO parts SELECT seq, '2018-01-01' + INTERVAL seq DAY, CONCAT('row ', seq MOD 97) FROM seq_1_to_2000;
CREATE TABLE history (id INT PRIMARY KEY, a INT, b TIMESTAMP NOT NULL DEFAULT '2037-12-31 23:59:59', KEY (a)) WITH SYSTEM VERSIONING;
SET timestamp = 1700000000;
INSERT INTO history (id, a) SELECT seq, seq MOD 7 FROM seq_1_to_300;
SET timestamp = 1700000100;
UPDATE history SET a = a + 100 WHERE id MOD 3 = 0;
SET timestamp = 1700000200;
DELETE FROM history WHERE id MOD 5 = 0;
SET timestamp = 1700000300;
CREATE TABLE changed (id INT PRIMARY KEY, a INT, b VARCHAR(20), c INT, KEY (b));
INSERT INTO changed SELECT seq, seq, CONCAT('b', seq), -seq FROM seq_1_to_500;
ALTER TABLE changed ADD COLUMN d DECIMAL(10,3) DEFAULT 1.5 AFTER a, ALGORITHM=INSTANT;
UPDATE changed SET d = id / 8 WHERE id MOD 2 = 0;
ALTER TABLE changed DROP COLUMN c, ALGORITHM=INSTANT;
ALTER TABLE changed MODIFY b VARCHAR(200), ADD COLUMN e TEXT DEFAULT 'later', ALGORITHM=INSTANT;
INSERT INTO changed SELECT 1000 + seq, seq, 2.25, CONCAT('new', seq), REPEAT('x', seq * 10) FROM seq_1_to_200;
CREATE TABLE words (word VARCHAR(60) COLLATE utf8mb4_uca1400_ai_ci, plain VARCHAR(60) COLLATE utf8mb4_general_ci,
  swedish VARCHAR(60) COLLATE latin1_swedish_ci, german VARCHAR(60) COLLATE utf8mb4_german2_ci, nopad CHAR(30) COLLATE utf8mb4_unicode_nopad_ci,
  old VARCHAR(60) COLLATE utf8mb3_unicode_520_ci, id INT AUTO_INCREMENT PRIMARY KEY,
  KEY (word), KEY (plain), KEY (swedish), KEY (german), KEY (nopad), KEY (old), UNIQUE KEY (word, id));
INSERT INTO words (word, plain, swedish, german, nopad, old) SELECT w, w, w, w, w, w FROM
  (SELECT CONCAT(ELT(1 + seq MOD 13, 'a', 'A', 'ä', 'ß', 'ss', 'ö', 'Oe', 'z', 'å', 'é', 'e', ' ', 'ø'),
                 ELT(1 + seq DIV 13 MOD 7, '', ' ', 'b', 'B', 'ñ', 'n', '-'), seq MOD 11) w FROM seq_1_to_1500) s;
CREATE TABLE later (id INT PRIMARY KEY, a INT, b VARCHAR(100), KEY (a));
INSERT INTO later SELECT seq, seq MOD 50, REPEAT(CHAR(97 + seq MOD 26), 90) FROM seq_1_to_5000;
CREATE SEQUENCE numbers_from START WITH 100 INCREMENT BY 3;
DO NEXTVAL(numbers_from);
"""
TEAK_ONLY = """
ALTER TABLE later ADD KEY wide (a, id) CLUSTERING=YES;
ALTER TABLE parts COMPRESSION=lzma;
ALTER TABLE words COMPRESSION=zstd;
ANALYZE TABLE words, later PERSISTENT FOR ALL;
"""
LAST = "UPDATE later SET a = a + 1 WHERE id MOD 3 = 0; DELETE FROM later WHERE id MOD 10 = 0; INSERT INTO later VALUES (9000, 9, 'nine')"
PREPARED = ("XA START 'old'", "INSERT INTO later VALUES (9001, 1, 'prepared')", "DELETE FROM later WHERE id = 1", "XA END 'old'", "XA PREPARE 'old'")


def statements(text):
    return [statement for statement in re.split(r";\s*\n", re.sub(r"(?m)^--.*\n", "", text) + "\n") if statement.strip()]


def server_in(directory):
    return Server(directory, ["--default-time-zone=+00:00", "--character-set-server=utf8mb4", "--cache=32M"])


def tables(connection, database):
    return [name.decode() for name, in connection.run(
        f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{database}' AND TABLE_TYPE NOT IN ('VIEW') ORDER BY 1")]


def contents(connection, database):
    """The rows of each table of a database, in any order, as text."""
    found = {}
    for table in tables(connection, database):
        rows = connection.run(f"SELECT * FROM {database}.{quoted_name(table)}{' FOR SYSTEM_TIME ALL' if table == 'history' else ''}")
        found[table] = sorted(repr(row) for row in rows)
    return found


# ---- with the older series ----

def fill(server, version_file):
    with server.connect() as connection:
        version_file.write_text(connection.value("SELECT VERSION()"))
        for engine in ENGINES:
            database = f"old_{engine.lower()}"
            connection.run(f"CREATE DATABASE {database} DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
            connection.run(f"USE {database}")
            connection.run(f"SET default_storage_engine = {engine}, sql_mode = DEFAULT, timestamp = DEFAULT")
            for text in (*(path.read_text() for path in SCHEMA), MORE, TEAK_ONLY if engine == "Teak" else ""):
                for statement in statements(text):
                    connection.run(statement)


def write(directory):
    """Writes the data directories `stopped` and `killed` and their contents into `directory`."""
    shutil.rmtree(directory, ignore_errors=True)
    for name in ("stopped", "killed"):
        print(f"-- writing a data directory ({name})", flush=True)
        place = directory / name
        server = server_in(place)
        server.start_empty()
        fill(server, directory / "version")
        if name == "killed":
            # Without this, InnoDB's log would have to be recovered by the newer series, which it may refuse.
            server.stop()
            server.start()
        with server.connect("old_teak") as connection:
            for statement in LAST.split("; "):
                connection.run(statement)
            for statement in PREPARED:
                connection.run(statement)
        with server.connect() as connection:
            if name == "stopped":
                with server.connect("old_innodb") as other:
                    for statement in LAST.split("; "):
                        other.run(statement)
            rows = {database: contents(connection, database) for database in ("old_teak", "old_innodb")}
        (directory / f"{name}.json").write_text(json.dumps(rows))
        if name == "stopped":
            server.stop()
        else:
            server.kill()


# ---- with the newer one ----

class Check:
    def __init__(self, directory):
        self.directory = directory
        self.passed = self.failed = self.tables = 0

    def check(self, holds, what, shown=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}\n    {shown}"[:3000], flush=True)

    def open(self, name):
        place = BUILD / "old-data-opened"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.directory / name, place, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        (place / "server.pid").unlink(missing_ok=True)
        server = server_in(place)
        expected = json.loads((self.directory / f"{name}.json").read_text())
        server.start()
        upgraded = subprocess.run(["mariadb-upgrade", f"--socket={server.socket}", "-uroot"], text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.check(upgraded.returncode == 0 and "FAILED" not in upgraded.stdout, f"mariadb-upgrade succeeds ({name})", upgraded.stdout[-1500:])
        server.stop()
        server.start()
        with server.connect() as connection:
            print(f"-- {name}: written by {(self.directory / 'version').read_text()}, opened by {connection.value('SELECT VERSION()')}", flush=True)
            self.prepared(connection, expected["old_teak"]["later"], name)
            for database, rows in expected.items():
                self.rows(connection, database, rows, name)
            self.keys(connection, name)
        server.stop()
        server.start()
        with server.connect() as connection:
            if name == "stopped":
                self.change(connection)
        server.remove()

    def prepared(self, connection, later, name):
        """The prepared transaction is found; it is rolled back in one directory, and committed in the other."""
        self.check(len(connection.run("XA RECOVER")) == 1, f"the prepared transaction is found ({name})")
        if name == "killed":
            connection.run("XA COMMIT 'old'")
            later.append(repr((b"9001", b"1", b"prepared")))
            later.remove(next(row for row in later if row.startswith("(b'1', ")))
            later.sort()
        else:
            connection.run("XA ROLLBACK 'old'")

    def rows(self, connection, database, expected, name):
        found = contents(connection, database)
        self.check(sorted(found) == sorted(expected), f"{database} has its tables ({name})", sorted(found))
        for table, rows in expected.items():
            self.tables += 1
            if table == "history":
                # The end of time is later in 11.8.
                rows = [row.replace("2038-01-19 03:14:07.999999", "2106-02-07 06:28:15.999999") for row in rows]
            got = found.get(table, [])
            different = [pair for pair in zip(rows, got) if pair[0] != pair[1]][:1]
            self.check(rows == got, f"{database}.{table} has its rows ({name})", f"{len(rows)} and {len(got)} rows, {different}")

    def keys(self, connection, name):
        for table in tables(connection, "old_teak"):
            if table == "numbers_from":
                continue  # the server does not check sequences
            full = f"old_teak.{quoted_name(table)}"
            for row in connection.run(f"CHECK TABLE {full} EXTENDED"):
                self.check(row[3] == b"OK", f"CHECK TABLE {full} ({name})", row)

    def change(self, connection):
        """The same statements on both engines: the tables remain equal."""
        for engine in ENGINES:
            connection.run(f"USE old_{engine.lower()}")
            connection.run("SET timestamp = 1800000000, system_versioning_alter_history = KEEP")
            for statement in (
                    "UPDATE parts SET text = CONCAT(text, '!') WHERE id MOD 4 = 0", "DELETE FROM words WHERE word < 'b'",
                    "UPDATE history SET a = a * 2 WHERE a < 4", "DELETE FROM history WHERE a > 100",
                    "INSERT INTO history (id, a, b) VALUES (2000, 5, '2100-01-01 00:00:00')",
                    "UPDATE changed SET e = NULL WHERE id MOD 6 = 0", "ALTER TABLE changed ADD COLUMN f INT DEFAULT 7, ALGORITHM=INSTANT",
                    "ALTER TABLE changed ADD KEY (d)", "ALTER TABLE moments ADD COLUMN g INT, ALGORITHM=INSTANT", "ALTER TABLE moments FORCE",
                    "INSERT INTO words (word, plain, id) VALUES ('later', 'later', 5000)", "ALTER TABLE history ADD COLUMN h INT",
                    "ALTER TABLE texts ADD KEY (document(20))", "OPTIMIZE TABLE numbers", "DO NEXTVAL(numbers_from)",
                    "ALTER TABLE parts DROP PARTITION a"):
                connection.run(statement)
        teak, innodb = (contents(connection, f"old_{engine.lower()}") for engine in ("Teak", "InnoDB"))
        for table, rows in teak.items():
            self.check(rows == innodb[table], f"{table} is as InnoDB's after changes", [pair for pair in zip(rows, innodb[table]) if pair[0] != pair[1]][:1])
        self.keys(connection, "changed")


def main():
    directory = BUILD / "old-data"
    if not directory.exists():
        sys.exit("error: there are no data of another series: python3 -m tests.series.run 11.8 old-data")
    check = Check(directory)
    for name in ("stopped", "killed"):
        check.open(name)
    return finish(check.passed, check.failed, f"{check.tables} tables of {(directory / 'version').read_text()}")


if __name__ == "__main__":
    sys.exit(main())
