"""Tests mariadb-dump of a Teak database while another client writes. The dump must contain one consistent state, and
load into Teak and into InnoDB. The same for --tab with mariadb-import."""

import re
import shutil
import subprocess

from . import writer
from .common import DATABASES, HERE, SOCKET, WORK, Checks, Connection, checksums, tables_of

DATABASE = DATABASES["TEAK"]
CONNECT = ["--no-defaults", f"--socket={SOCKET}", "--user=root"]
ATTEMPTS = 10


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
        name = "`" + table.replace("`", "``") + "`"
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
        with checks.part("mariadb-dump --tab"):
            tab_dump(checks, connection)
        connection.run("DROP DATABASE IF EXISTS clients_loaded")
    checks.end()


if __name__ == "__main__":
    main()
