"""`teak migrate` on a server with tables of InnoDB, MyISAM and Aria.

1. The plan names what cannot be converted, and changes nothing.
2. All other tables are converted: rows, definitions, triggers, views and grants remain, also those of hostile names.
3. Foreign keys, FULLTEXT and SPATIAL keys are dropped on request; a failed conversion adds the foreign keys again.
4. A run that is killed while it converts is continued by the next one, while writers insert rows. No row is lost.
5. A difference of the rows after a conversion is found, and ends the run.
6. Tables that others use, and a disk that is nearly full, are errors of that table alone.

    python3 -m tests.migrate.run
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.backup.programs import tool
from tests.harness import BUILD, Server, SqlError, TimeLimit, finish

from . import schema

# A client that changes statements: pairs of texts in the environment variable EDITS.
EDITING_CLIENT = """#!/usr/bin/env python3
import json, os, subprocess, sys
child = subprocess.Popen(["mariadb", *sys.argv[1:]], stdin=subprocess.PIPE)
os.close(1)  # the end of the client is the end of its output
os.close(2)
for line in sys.stdin.buffer:
    for old, new in json.loads(os.environ["EDITS"]):
        line = line.replace(old.encode(), new.encode())
    try:
        child.stdin.write(line)
        child.stdin.flush()
    except BrokenPipeError:
        break
child.stdin.close()
sys.exit(child.wait())
"""


class MigrateTest:
    def __init__(self, directory):
        self.directory = Path(directory).absolute()
        self.server = Server(self.directory / "server", ["--cache=64M"])
        self.passed = self.failed = self.converted = 0

    def check(self, condition, what):
        if condition:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}", flush=True)

    # ---- the command -------------------------------------------------------------------------------------------------

    def command(self, *options, client=None):
        command = [tool(), "migrate", f"--log={self.directory}/migrate.log", *options]
        if client:
            command.append(f"--client={client}")
        return [*command, "--", "--no-defaults", f"--socket={self.server.socket}", "--user=root"]

    def run(self, *options, edits=None):
        client = None
        if edits is not None:
            client = self.directory / "editing-client"
            client.write_text(EDITING_CLIENT)
            client.chmod(0o755)
        done = subprocess.run(self.command(*options, client=client), text=True, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, "EDITS": json.dumps(edits or [])})
        print(done.stdout, flush=True)
        return done.returncode, done.stdout

    def engines(self, connection, database=schema.DATABASE):
        rows = connection.run(f"SELECT TABLE_NAME, ENGINE FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = '{database}' AND TABLE_TYPE != 'VIEW'")
        return {name.decode(): engine.decode() for name, engine in rows}

    # ---- the tests ---------------------------------------------------------------------------------------------------

    def plan(self, connection):
        before = self.engines(connection)
        status, text = self.run("--sample-rows=500")
        self.check(status == 1, f"the plan with refused tables: status {status}")
        self.check(self.engines(connection) == before, "the plan has changed tables")
        reasons = {name: reason for name, (_, reason) in {**schema.REFUSED, **schema.REMAINING}.items()}
        for name, reason in reasons.items():
            line = next((line for line in text.splitlines() if line.startswith(f"shop.{name} ")), "")
            self.check("REFUSED" in line and reason in line, f"{name} is not refused because of {reason}: {line}")
        refused = sum("REFUSED" in line for line in text.splitlines())
        self.check(refused == len(reasons), f"{refused} tables are refused")
        self.check("estimates, from samples" in text and "nothing was converted" in text, "the plan says that it estimates")
        self.check(not connection.run("SHOW DATABASES LIKE 'teak_migrate_sample'"), "the sample's database remains")

    def conversion(self, connection):
        tables = schema.tables()
        before = {table: schema.contents(connection, table) for table in tables}
        next_value = connection.value(f"SELECT NEXTVAL(shop.{schema.SEQUENCE})")
        status, text = self.run("--sample-rows=500", "--execute")
        self.check(status == 1, f"a conversion with refused tables: status {status}")
        self.check(f"0 failed, {len(schema.REFUSED) + 2} refused" in text, "the summary counts refused tables")
        for table in tables:
            self.check(schema.engine(connection, table) == "TEAK", f"{table} is not converted")
            rows, definition = schema.contents(connection, table)
            self.check(rows == before[table][0], f"the rows of {table} differ")
            expected = before[table][1]
            for engine in (b"InnoDB", b"MyISAM", b"Aria"):
                expected = expected.replace(b"ENGINE=" + engine, b"ENGINE=TEAK").replace(b"ENGINE = " + engine, b"ENGINE = TEAK")
            # The server marks options that the engine does not know.
            definition, expected = (text.replace(b"/* ", b"").replace(b" */", b"") for text in (definition, expected))
            self.check(definition == expected, f"the definition of {table} differs:\n{definition.decode()}\nexpected:\n{expected.decode()}")
            self.check(connection.run(f"CHECK TABLE {table} EXTENDED")[-1][3] == b"OK", f"CHECK TABLE {table}")
            self.converted += 1
        later = connection.value(f"SELECT NEXTVAL(shop.{schema.SEQUENCE})")
        self.check(int(later) > int(next_value), f"the sequence repeats {later} after {next_value}")
        connection.run("INSERT INTO shop.empty VALUES ()")
        self.check(connection.value("SELECT id FROM shop.empty") == "77", "AUTO_INCREMENT of an empty table")
        connection.run("INSERT INTO shop.dynamic VALUES (-1, 1, 1)")
        connection.run("UPDATE shop.dynamic SET a = 2 WHERE id = -1")
        self.check(connection.value("SELECT b FROM shop.dynamic WHERE id = -1") == "1001", "the trigger before UPDATE")
        self.check(connection.value("SELECT COUNT(*) FROM shop.audit") == "1", "the trigger after INSERT")
        self.check(connection.value("SELECT m FROM shop.extremes") == str(schema.ROWS), "the view")
        grants = b"".join(row[0] for row in connection.run("SHOW GRANTS FOR reader@localhost"))
        self.check(b"UPDATE (`a`)" in grants, "the grants")
        refused = [name for name in (*schema.REFUSED, *schema.REMAINING)]
        self.check("TEAK" not in {self.engines(connection)[name] for name in refused}, "a refused table is converted")
        status, text = self.run("--sample-rows=0", "--execute", "--table=dynamic")
        self.check(status == 0 and "compared, earlier" in text, "the summary of a further run")

    def dropped_keys(self, connection):
        options = ["--sample-rows=500", "--execute", "--drop-foreign-keys", "--drop-fulltext-and-spatial-keys", "--lock-wait=1"]
        # The conversion of the child fails after its foreign keys were dropped.
        with self.server.connect(schema.DATABASE) as user:
            user.run("BEGIN")
            user.run("SELECT * FROM child LIMIT 1")
            user.run("SELECT * FROM parent LIMIT 1")
            keys = connection.run("SHOW CREATE TABLE shop.child")[0][1]
            status, text = self.run(*options, "--table=child", "--table=parent")
            self.check(status == 1, "a conversion of tables in use")
            self.check(connection.run("SHOW CREATE TABLE shop.child")[0][1] == keys, "foreign keys are dropped although nothing was converted")
        status, text = self.run(*options, "--table=child", "--table=parent", "--no-verify",
                                edits=[["ALTER TABLE `shop`.`child` ENGINE", "ALTER TABLE `shop`.`child` NO_SUCH_CLAUSE, ENGINE"]])
        self.check(status == 1 and self.engines(connection)["child"] == "InnoDB", "a conversion that fails")
        self.check("shop.parent: FOREIGN KEY to_parent of shop.child refers to it, which was not converted" in text, "the parent of a table that is not converted")
        now = connection.run("SHOW CREATE TABLE shop.child")[0][1]
        self.check(sorted(now.splitlines()) == sorted(keys.splitlines()), f"foreign keys are not added again: {now.decode()}")
        status, text = self.run(*options, *(f"--table={name}" for name in schema.REFUSED))
        self.check(status == 0, f"a conversion with dropped keys: status {status}")
        self.check({self.engines(connection)[name] for name in schema.REFUSED} == {"TEAK"}, "not all tables are converted")
        self.check(connection.value("SELECT COUNT(*) FROM shop.child WHERE p = id") == "100", "rows of the child")
        log = (self.directory / "migrate.log").read_text()
        self.check("ADD CONSTRAINT `to_parent` FOREIGN KEY (`p`) REFERENCES `parent` (`id`) ON DELETE CASCADE" in log, "the log has no definition of a dropped key")
        self.converted += len(schema.REFUSED)

    def kill(self, connection):
        """Kills a run in the middle, and continues."""
        connection.run("CREATE DATABASE busy")
        tables = [f"t{number}" for number in range(4)]
        for name in tables:
            connection.run(f"CREATE TABLE busy.{name} (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b CHAR(32), KEY (a)) ENGINE=InnoDB")
            connection.run(f"INSERT INTO busy.{name} (a, b) SELECT seq, MD5(seq) FROM seq_1_to_10000")
        ends, inserted, errors = threading.Event(), dict.fromkeys(tables, 10000), []

        def write(name):
            with self.server.connect("busy") as writer:
                while not ends.is_set():
                    try:
                        writer.run(f"INSERT INTO {name} (a, b) VALUES (1, 'x')")
                        inserted[name] += 1
                    except SqlError as error:
                        errors.append(error)
                        return
                    time.sleep(0.002)
        writers = [threading.Thread(target=write, args=(name,)) for name in tables]
        for writer in writers:
            writer.start()
        try:
            run = subprocess.Popen(self.command("--database=busy", "--sample-rows=0", "--execute", "--throttle=10000rows"),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
            running = "SELECT COUNT(*) FROM INFORMATION_SCHEMA.PROCESSLIST WHERE INFO LIKE 'ALTER TABLE%ENGINE = TEAK%' AND PROGRESS > 20"
            self.wait(lambda: "TEAK" in self.engines(connection, "busy").values(), "a table is converted")
            self.wait(lambda: connection.value(running) == "1", "another one is being converted")
            run.send_signal(signal.SIGKILL)
            run.wait()
            # The statement in progress ends or is undone; a further run waits for it.
            engines = set(self.engines(connection, "busy").values())
            self.check(engines == {"InnoDB", "TEAK"}, f"engines after the kill: {engines}")
            status, _ = self.run("--database=busy", "--sample-rows=0", "--execute", "--throttle=10000rows")
            self.check(status == 0, f"the run after the kill: status {status}")
        finally:
            ends.set()
            for writer in writers:
                writer.join()
        self.check(not errors, f"writers have failed: {errors[:1]}")
        self.check(set(self.engines(connection, "busy").values()) == {"TEAK"}, "not all tables are converted")
        for name in tables:
            found = int(connection.value(f"SELECT COUNT(*) FROM busy.{name}"))
            self.check(found == inserted[name], f"{name} has {found} rows of {inserted[name]}")
            self.check(connection.run(f"CHECK TABLE busy.{name} EXTENDED")[-1][3] == b"OK", f"CHECK TABLE {name}")
        left = [path.name for path in (self.server.directory / "data" / "busy").iterdir() if "#sql" in path.name]
        self.check(not left, f"files that are left: {left}")
        self.converted += len(tables)

    def wait(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            if time.monotonic() > deadline:
                self.check(False, f"not within a minute: {what}")
                return
            time.sleep(0.01)

    def differences(self, connection):
        connection.run("CREATE DATABASE differs")
        for name in ("a", "b", "c"):
            connection.run(f"CREATE TABLE differs.{name} (id INT PRIMARY KEY, v VARCHAR(10)) ENGINE=InnoDB")
            connection.run(f"INSERT INTO differs.{name} VALUES (1, 'x'), (2, NULL)")
            if name != "a":  # so that they are converted later
                connection.run(f"INSERT INTO differs.{name} SELECT seq, MD5(seq) FROM seq_3_to_9000".replace("MD5(seq)", "LEFT(MD5(seq), 9)"))
        options = ["--database=differs", "--sample-rows=0", "--execute"]
        for change in ("DELETE FROM differs.a WHERE id = 2", "UPDATE differs.a SET v = 'y' WHERE id = 1"):
            connection.run("ALTER TABLE differs.a ENGINE=InnoDB")
            status, text = self.run(*options, edits=[["`a` ENGINE = TEAK;", f"`a` ENGINE = TEAK; {change};"]])
            self.check(status == 1 and "THE ROWS DIFFER" in text and "no further table is converted" in text, f"a difference is not found: {change}")
        self.check(self.engines(connection, "differs") == {"a": "TEAK", "b": "InnoDB", "c": "InnoDB"}, "engines after a difference")

    def other_errors(self, connection):
        with self.server.connect("differs") as user:
            user.run("BEGIN")
            user.run("SELECT * FROM b LIMIT 1")
            status, text = self.run("--database=differs", "--sample-rows=0", "--execute", "--lock-wait=1")
            self.check(status == 1 and "differs.b: Lock wait timeout" in text, "a table in use")
            self.check(self.engines(connection, "differs") == {"a": "TEAK", "b": "InnoDB", "c": "TEAK"}, "engines with a table in use")
        space = [["SHOW GLOBAL STATUS LIKE 'Teak_disk_bytes_free'", "SELECT 'x', 1048576"]]
        status, text = self.run("--database=differs", "--sample-rows=0", "--execute", edits=space)
        self.check(status == 1 and "of free space, and 1.0 MiB are free" in text, "a disk that is nearly full")
        connection.run("CREATE DATABASE teak_migrate_sample")
        status, text = self.run("--database=differs")
        self.check(status == 1 and "the database teak_migrate_sample exists" in text, "a database with the name of the sample's")
        connection.run("DROP DATABASE teak_migrate_sample")
        status, text = self.run("--database=differs", "--from=MyISAM")
        self.check(status == 0 and "no table of MyISAM matches" in text, "no table")
        status, text = self.run("--database=differs", "--execute", "--throttle=1MiB", "--compression=lzma", "--no-binlog", "--no-verify")
        definition = connection.run("SHOW CREATE TABLE differs.b")[0][1]
        self.check(status == 0 and b"`COMPRESSION`=lzma" in definition, f"a compression: {definition.decode()}")
        done = subprocess.run([tool(), "migrate", "--", "--socket=/nowhere"], text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.check(done.returncode == 1 and "teak: Can't connect" in done.stdout, f"no server: {done.stdout}")

    def all(self):
        self.server.start_empty()
        try:
            with self.server.connect() as connection:
                schema.create(connection)
                for test in (self.plan, self.conversion, self.dropped_keys, self.kill, self.differences, self.other_errors):
                    began = time.monotonic()
                    print(f"-- {test.__name__}", flush=True)
                    test(connection)
                    print(f"-- {test.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        finally:
            self.server.stop()
        return finish(self.passed, self.failed, f"{self.converted} tables converted")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", default=BUILD / "migrate-test")
    options = parser.parse_args()
    test = MigrateTest(options.directory)
    with TimeLimit(600, [test.server]):
        return test.all()


if __name__ == "__main__":
    sys.exit(main())
