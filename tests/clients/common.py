"""Shared code of the Python client programs: the server's address, checks, and checksums of tables."""

import os
import sys
import traceback
from pathlib import Path

from tests.harness import Connection
from tests.harness import quoted_name as quoted

HERE = Path(__file__).resolve().parent
SOCKET = os.environ["CLIENTS_SOCKET"]
PORT = int(os.environ["CLIENTS_PORT"])
WORK = Path(os.environ["CLIENTS_WORK"])
DATABASES = {"TEAK": "clients_teak", "InnoDB": "clients_innodb"}
TABLES = ["numbers", "moments", "texts", "addresses", "odd name`s", "many", "account"]
TYPE_TABLES = TABLES[:5]


class Checks:
    """Prints PASS or FAIL for each check; `with checks.part(name)` makes an exception a failure of that part."""

    def __init__(self):
        self.failed = 0

    def check(self, name, holds, detail=""):
        if holds:
            print(f"PASS {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAIL {name}" + (f": {detail}" if detail else ""), flush=True)

    def same(self, name, left, right):
        """Checks that both values are equal and not empty."""
        self.check(name, left == right and left not in (None, [], {}, (), ""), difference(left, right))

    def raises(self, name, number, action):
        """Checks that `action` fails with the server's error `number`."""
        try:
            action()
        except Exception as error:
            origin = getattr(error, "orig", None) or error
            found = getattr(origin, "number", None) or (origin.args[0] if origin.args else None)
            self.check(name, found == number, f"expected error {number}, got {error!r}")
        else:
            self.check(name, False, f"expected error {number}, got none")

    def part(self, name):
        return _Part(self, name)

    def end(self):
        sys.exit(1 if self.failed else 0)


class _Part:
    def __init__(self, checks, name):
        self.checks, self.name = checks, name

    def __enter__(self):
        return self.checks

    def __exit__(self, kind, error, trace):
        if kind is None or not issubclass(kind, Exception):
            return False
        traceback.print_exception(kind, error, trace)
        self.checks.check(self.name, False, f"{kind.__name__}: {str(error)[:300]}")
        return True


def difference(left, right):
    if isinstance(left, bytes) and isinstance(right, bytes) and b"\n" in left:
        return difference(left.splitlines(), right.splitlines())
    if isinstance(left, dict) and isinstance(right, dict):
        keys = [key for key in {**left, **right} if left.get(key) != right.get(key)]
        return "; ".join(f"{key}: {left.get(key)!r:.200} / {right.get(key)!r:.200}" for key in keys[:4])
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        for index, (one, other) in enumerate(zip(left, right)):
            if one != other:
                return f"item {index}: {difference(one, other)}"
        return f"{len(left)} and {len(right)} items"
    return f"{str(left)[:300]!r} / {str(right)[:300]!r}"


def tables_of(connection, database):
    return [
        row[0].decode()
        for row in connection.run(
            f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{database}' "
            "AND table_type = 'BASE TABLE' ORDER BY table_name"
        )
    ]


def checksum(connection, database, table):
    """Returns "1", or None if the table has no rows, and the table's CHECKSUM TABLE. If the table has virtual columns,
    returns "copy" and the checksum of a copy, because in every engine the table's own checksum would include undefined
    bits (the NULL bits of columns that the statement does not read)."""
    name = f"{quoted(database)}.{quoted(table)}"
    virtual = connection.value(
        f"SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = '{database}' "
        f"AND table_name = '{table}' AND extra LIKE 'VIRTUAL%'"
    )
    if virtual == "0":
        return connection.value(f"SELECT 1 FROM {name} LIMIT 1"), connection.run(f"CHECKSUM TABLE {name}")[0][1]
    connection.run("CREATE OR REPLACE TEMPORARY TABLE test_copy ENGINE=Aria SELECT * FROM " + name)
    return "copy", connection.run("CHECKSUM TABLE test_copy")[0][1]


def checksums(connection, database):
    connection.run(f"USE {quoted(database)}")
    return {table: checksum(connection, database, table) for table in tables_of(connection, database)}


__all__ = [
    "Checks",
    "Connection",
    "DATABASES",
    "HERE",
    "PORT",
    "SOCKET",
    "TABLES",
    "TYPE_TABLES",
    "WORK",
    "checksum",
    "checksums",
    "difference",
    "quoted",
    "tables_of",
]
