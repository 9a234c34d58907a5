"""Tests mariadb-dump of a Teak database while another client writes. The dump must contain one consistent state, and
load into Teak and into InnoDB. The same for --tab with mariadb-import."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.harness import ROOT, quoted_name

from . import writer
from .common import DATABASES, HERE, SOCKET, WORK, Checks, Connection, checksums, tables_of

DATABASE = DATABASES["TEAK"]
CONNECT = ["--no-defaults", f"--socket={SOCKET}", "--user=root"]
ATTEMPTS = 10
BUILD_TOOLS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "teak"


def command(*arguments, given=None):
    done = subprocess.run([*map(str, arguments)], input=given, capture_output=True, check=False)
    if done.returncode or done.stderr:
        raise RuntimeError(
            f"{arguments[0]}: status {done.returncode}: {(done.stderr or done.stdout).decode(errors='replace')[:600]}"
        )
    return done.stdout


def client(sql, database):
    command("mariadb", *CONNECT, "--default-character-set=utf8mb4", database, given=sql)


def dump(database, *options):
    return command(
        "mariadb-dump",
        *CONNECT,
        "--skip-comments",
        "--single-transaction",
        "--routines",
        "--triggers",
        *options,
        database,
    )


def for_innodb(text):
    """A dump without the table option COMPRESSION, which InnoDB does not accept, and with InnoDB as the engine."""
    text = re.sub(rb" `?COMPRESSION`?='?\w+'?", b"", text)
    return text.replace(b"ENGINE=TEAK", b"ENGINE=InnoDB").replace(b"ENGINE = TEAK", b"ENGINE = InnoDB")


def load(connection, database, text):
    connection.run(f"DROP DATABASE IF EXISTS {database}")
    connection.run(f"CREATE DATABASE {database} CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
    client(text, database)


def prepare(connection):
    connection.run(f"USE {DATABASE}")
    connection.run("SET default_storage_engine = TEAK")
    writer.BANK.create_in(connection, DATABASE)
    programs = (HERE / "programs.sql").read_bytes()
    client(b"SET default_storage_engine = TEAK;\n" + programs, DATABASE)
    # In every engine, the text of a FLOAT has six digits and no negative zero.
    connection.run("UPDATE numbers SET single_f = CONCAT(single_f) + 0, double_f = double_f + 0")
    connection.run("CREATE TABLE packed COMPRESSION=lzma SELECT * FROM many LIMIT 1000")


def while_written(checks, connection, what, take, read):
    """Repeats `take`, which makes a dump, until the writer has committed during a call, and after the dumped state.
    `read` returns the dumped state. Returns the last dump."""
    writing = writer.Writer(DATABASE)
    writing.start()
    try:
        for _ in range(ATTEMPTS):
            before = writing.moves
            taken = take()
            after = writing.moves
            count, faults = read(taken)
            checks.check(f"{what}: one consistent state", not faults, "; ".join(faults))
            checks.check(f"{what}: not older than its beginning", count >= before, f"{count} < {before}")
            if before < after and count < after:
                break
        else:
            checks.check(f"{what}: taken while another client wrote", False, "the writer committed during no attempt")
    finally:
        writing.stop()
    return taken


def logical_dump(checks, connection):
    def read(text):
        load(connection, "clients_loaded", text)
        return writer.state(connection, "clients_loaded")

    while_written(checks, connection, "mariadb-dump", lambda: dump(DATABASE), read)

    text = dump(DATABASE)
    load(connection, "clients_loaded", text)
    load(connection, "clients_innodb", for_innodb(text))
    original = checksums(connection, DATABASE)
    for database in ("clients_loaded", "clients_innodb"):
        checks.same(f"mariadb-dump: {database} has the same checksums", original, checksums(connection, database))
    checks.same("mariadb-dump: a dump of the loaded tables in Teak is the dump", text, dump("clients_loaded"))
    checks.same(
        "mariadb-dump: a dump of the loaded tables in InnoDB is the dump", for_innodb(text), dump("clients_innodb")
    )
    engines = {
        row[0]
        for row in connection.run(
            "SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = 'clients_loaded' AND engine IS NOT NULL"
        )
    }
    checks.same("mariadb-dump: every table is loaded into Teak", engines, {b"TEAK"})
    connection.run("CALL clients_loaded.pay('cleo', 2.25)")
    checks.same(
        "mariadb-dump: view, routines and trigger work where they were loaded",
        connection.run(
            "SELECT r.cents, (SELECT COUNT(*) FROM clients_loaded.audit) FROM clients_loaded.rich r "
            "WHERE owner = 'cleo'"
        ),
        [(b"100225", b"3")],
    )
    for table in tables_of(connection, "clients_loaded"):
        name = quoted_name(table)
        checks.same(
            f"mariadb-dump: CHECK TABLE {table}",
            connection.run(f"CHECK TABLE clients_loaded.{name}")[-1][2:],
            (b"status", b"OK"),
        )

    extended = dump(DATABASE, "--skip-extended-insert", "--no-autocommit", "--complete-insert", "--hex-blob", "--order-by-primary")
    load(connection, "clients_loaded", extended)
    checks.same(
        "mariadb-dump: with --hex-blob --complete-insert --order-by-primary too",
        original,
        checksums(connection, "clients_loaded"),
    )


# A table as Percona Server's mysqldump writes it. MariaDB refuses its keys and its row format.
PERCONA = b"""DROP TABLE IF EXISTS `orders`;
CREATE TABLE `orders` (
  `id` int(11) NOT NULL,
  `customer` int(11) DEFAULT NULL,
  `note` varchar(50) DEFAULT 'CLUSTERING KEY; ENGINE=TokuDB',
  PRIMARY KEY (`id`),
  CLUSTERING KEY `customer` (`customer`),
  UNIQUE CLUSTERING KEY `both` (`note`,`id`),
  CONSTRAINT `of` FOREIGN KEY (`customer`) REFERENCES `customers` (`id`)
) ENGINE=TokuDB DEFAULT CHARSET=utf8 ROW_FORMAT=TOKUDB_QUICKLZ
/*!50100 PARTITION BY HASH (id)
PARTITIONS 2 */;
INSERT INTO `orders` VALUES (1,7,'ROW_FORMAT=TOKUDB_ZLIB'),(2,NULL,'b');
"""


def convert(text, *options):
    """Runs `teak convert-dump`. Returns its status, output and messages."""
    done = subprocess.run([BUILD_TOOLS, "convert-dump", *options], input=text, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def converted_dumps(checks, connection):
    command("cargo", "build", "--quiet", "--locked", "-p", "teak-tools")
    status, text, messages = convert(dump("clients_innodb"), "--drop-foreign-keys", "--drop-fulltext-and-spatial-keys")
    checks.same("teak convert-dump: converts a dump of InnoDB", status, 0)
    load(connection, "clients_loaded", text)
    checks.same("teak convert-dump: the loaded tables have the same checksums", checksums(connection, "clients_innodb"),
                checksums(connection, "clients_loaded"))
    engines = connection.run("SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = 'clients_loaded' AND engine IS NOT NULL")
    checks.same("teak convert-dump: every table is loaded into Teak", engines, [(b"TEAK",)])

    status, _, messages = convert(PERCONA)
    checks.same("teak convert-dump: a foreign key is reported", (status, "orders: Teak will refuse: CONSTRAINT `of`" in messages), (2, True))
    status, text, messages = convert(PERCONA, "--drop-foreign-keys")
    checks.same("teak convert-dump: converts a table with partitions", (status, messages.count("left out: CLUSTERING")), (0, 2))
    load(connection, "clients_loaded", text)
    checks.same("teak convert-dump: the table has partitions", connection.run("SELECT COUNT(*) FROM clients_loaded.orders PARTITION (p0)"), [(b"1",)])
    plain = re.sub(rb"\n/\*!50100.*\*/", b"", PERCONA, flags=re.DOTALL)
    status, text, messages = convert(plain, "--drop-foreign-keys")
    load(connection, "clients_loaded", text)
    checks.same("teak convert-dump: converts a dump of Percona Server", (status, messages.splitlines()[0]), (0, "1 tables converted, 2 clustering keys, 1 row formats"))
    created = connection.run("SHOW CREATE TABLE clients_loaded.orders")[0][1].decode()
    for part in ("KEY `customer` (`customer`) `CLUSTERING`=YES", "UNIQUE KEY `both` (`note`,`id`) `CLUSTERING`=YES", "ENGINE=TEAK", "`COMPRESSION`=lz4"):
        checks.check(f"teak convert-dump: the table has {part}", part in created, created)
    checks.same("teak convert-dump: its rows are unchanged", connection.run("SELECT * FROM clients_loaded.orders ORDER BY id"),
                [(b"1", b"7", b"ROW_FORMAT=TOKUDB_ZLIB"), (b"2", None, b"b")])


def import_tab(connection, directory, database, translate):
    """Loads a --tab dump: the tables' .sql files, then their .txt files."""
    connection.run(f"DROP DATABASE IF EXISTS {database}")
    connection.run(f"CREATE DATABASE {database} CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
    for file in sorted(directory.glob("*.sql")):
        client(translate(file.read_bytes()), database)
    for file in sorted(directory.glob("*.txt")):
        columns = [
            row[0].decode()
            for row in connection.run(
                "SELECT IF(generation_expression IS NULL, concat('`', column_name, '`'), '@ignored') "
                f"FROM information_schema.columns WHERE table_schema = '{database}' "
                f"AND table_name = '{file.stem}' ORDER BY ordinal_position"
            )
        ]
        if file.stem == "addresses":
            # mariadb-import reads the file as binary, and INET4, INET6 and UUID take binary input in their binary form.
            connection.run(
                f"LOAD DATA INFILE '{file}' INTO TABLE {database}.addresses CHARACTER SET latin1 "
                f"({','.join(columns)})"
            )
        else:
            command("mariadb-import", *CONNECT, "--silent", "--columns=" + ",".join(columns), database, file)


def tab_dump(checks, connection):
    directory = WORK / "tab"

    def take():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        directory.chmod(0o777)
        # Uses binary, because the columns have several character sets. Omits views, which call functions that --tab
        # does not dump.
        dump(DATABASE, f"--tab={directory}", "--default-character-set=binary", f"--ignore-table={DATABASE}.rich")
        return directory

    def read(taken):
        import_tab(connection, taken, "clients_loaded", lambda text: text)
        return writer.state(connection, "clients_loaded")

    # In every engine, SELECT ... INTO OUTFILE does not escape UCS-2 correctly for a file that is read as binary.
    connection.run(f"UPDATE {DATABASE}.texts SET varchar_ucs2 = 'я' WHERE id = 'mangled'")
    while_written(checks, connection, "mariadb-dump --tab", take, read)
    take()
    original = checksums(connection, DATABASE)
    import_tab(connection, directory, "clients_loaded", lambda text: text)
    checks.same("mariadb-dump --tab: Teak has the same checksums", original, checksums(connection, "clients_loaded"))
    import_tab(connection, directory, "clients_innodb", for_innodb)
    checks.same("mariadb-dump --tab: InnoDB has the same checksums", original, checksums(connection, "clients_innodb"))
    shutil.rmtree(directory)


def main():
    checks = Checks()
    print("-- " + command("mariadb-dump", "--version").decode().strip())
    with Connection(SOCKET) as connection:
        with checks.part("mariadb-dump: prepared"):
            prepare(connection)
        with checks.part("mariadb-dump"):
            logical_dump(checks, connection)
        with checks.part("teak convert-dump"):
            converted_dumps(checks, connection)
        with checks.part("mariadb-dump --tab"):
            tab_dump(checks, connection)
        connection.run("DROP DATABASE IF EXISTS clients_loaded")
    checks.end()


if __name__ == "__main__":
    main()
