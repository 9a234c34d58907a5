"""Names and paths that contain statements, options, shell commands and paths: every command must take them as names."""

import os
import subprocess

from tests.backup.programs import mariadb_backup, tool
from tests.harness import quoted_name
from tests.sql.text import quoted as string

MARK = "mark-of-an-injection"
DATABASE = f"a'`; DROP DATABASE bank; -- $(touch {MARK}) \\"
TABLES = ["../../../../tmp/up", "--no-such-option", f"b\"'`; DROP DATABASE bank; #$(touch {MARK})|\\", "éŁΩЖѤԱↅƷḀἀⓐＡ 日本\u00a0%s"]
TARGET = f"x'; DROP DATABASE bank; -- $(touch {MARK}) \\ \""
COLUMN = "c`'\"; DROP DATABASE bank; -- \\"
VALUE = "v'; DROP DATABASE bank; -- \\"


def output(command, text=None):
    done = subprocess.run([str(part) for part in command], input=text, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout, done.stderr


def create(connection):
    connection.run("CREATE DATABASE bank")
    connection.run(f"CREATE DATABASE {quoted_name(DATABASE)}")
    for table in TABLES:
        connection.run(f"CREATE TABLE {quoted_name(DATABASE)}.{quoted_name(table)} (id INT PRIMARY KEY, {quoted_name(COLUMN)} TEXT) ENGINE=TEAK")
        connection.run(f"INSERT INTO {quoted_name(DATABASE)}.{quoted_name(table)} VALUES (1, {string(VALUE)})")
        connection.run(f"OPTIMIZE TABLE {quoted_name(DATABASE)}.{quoted_name(table)}")  # `teak recover` reads no log


def rows(connection, database):
    return [connection.run(f"SELECT {quoted_name(COLUMN)} FROM {quoted_name(database)}.{quoted_name(table)}") for table in TABLES]


def commands_take_names(test):
    """Backs up, restores, dumps and recovers tables with such names."""
    server = test.server
    server.start_empty()
    directory = test.new_directory("names")
    directory.mkdir(parents=True)
    before = os.getcwd()
    os.chdir(directory)  # where a shell command would leave its mark
    try:
        with server.connect() as connection:
            create(connection)
            expected = rows(connection, DATABASE)
            target, restored = directory / TARGET, directory / f"{TARGET} restored"
            done = test.backup(target)
            test.check(done.returncode == 0 and "complete" in done.stdout, f"backup of hostile names: {done.stdout}")
            status, _, errors = output([tool(), "verify", "--quiet", target])
            test.check(status == 0, f"verify of hostile names: {errors}")
            check_dumps(test, connection, server, target, expected)
            check_recovered(test, connection, server, target, expected)
            test.check(connection.run("SHOW DATABASES LIKE 'bank'"), "a command has dropped a database")
        status, text, errors = output([tool(), "restore", target, f"--datadir={restored}", f"--mariadb-backup={mariadb_backup()}"])
        test.check(status == 0, f"restore of hostile names: {text}{errors}")
        files = sorted(path.relative_to(restored) for path in restored.rglob("*.frm") if "@" in path.parent.name)
        test.check(len(files) == len(TABLES), f"restored files: {files}")
    finally:
        os.chdir(before)
        server.stop()
    marks = list(test.directory.rglob(MARK))
    test.check(not marks, f"a shell command was executed: {marks}")


def load(test, connection, server, what, sql):
    """Executes the output of a command in an empty copy of the tables; returns their rows."""
    connection.run("CREATE OR REPLACE DATABASE copy")
    for table in TABLES:
        connection.run(f"CREATE TABLE copy.{quoted_name(table)} LIKE {quoted_name(DATABASE)}.{quoted_name(table)}")
    client = ["mariadb", "--no-defaults", f"--socket={server.socket}", "--user=root", "--default-character-set=utf8mb4", "copy"]
    for text in sql:
        status, _, errors = output(client, text)
        test.check(status == 0, f"{what}: {errors}\n{text}")
    return rows(connection, "copy")


def check_dumps(test, connection, server, target, expected):
    status, listed, errors = output([tool(), "dump", target, "--tables"])
    listed = [line for line in listed.splitlines() if line.startswith(DATABASE)]
    test.check(status == 0 and sorted(listed) == sorted(f"{DATABASE}.{table}" for table in TABLES), f"dump --tables: {listed}{errors}")
    for form in ("csv", "json", "sql"):
        sql = []
        for table in TABLES:
            status, text, errors = output([tool(), "dump", target, f"--table={DATABASE}.{table}", "--format", form])
            test.check(status == 0 and "DROP DATABASE" in text, f"dump of {table} as {form}: {text}{errors}")
            sql.append(text)
        if form == "sql":
            test.check(load(test, connection, server, "dump", sql) == expected, "dumped rows differ")


def check_recovered(test, connection, server, target, expected):
    sql = []
    files = sorted(path for path in target.rglob("*.main-*.teak") if "@" in path.parent.name)
    test.check(len(files) == len(TABLES), f"index files: {files}")
    for path in files:
        status, text, errors = output([tool(), "recover", path, "--format", "sql"])
        test.check(status == 0 and "INSERT INTO" in text, f"recover of {path.name}: {text}{errors}")
        sql.append(text)
    test.check(load(test, connection, server, "recover", sql) == expected, "recovered rows differ")
