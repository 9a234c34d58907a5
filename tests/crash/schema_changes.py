"""DDL of the crash test: CREATE, INSERT, TRUNCATE, RENAME, ALTER (copying and in place) and DROP, journalled like
the rows.

DDL statements commit implicitly. One that was in flight when the server was killed is applied completely or not at all: the
tables and their files must be those before or after it.
"""

import json
import random
import re

from tests.harness import Connection, SqlError, quoted_name

from .journal import Journal

DATABASE = "kill_test_tables"
# Names with characters that are encoded in file names in different ways.
NAMES = ["plain", "MixedCase", "with space", "dot.ted", "ümlaut", "100%", "a-b"]


def change(tables, operation):
    """`tables` (name to sorted list of [id, text]) after the operation."""
    tables = {name: list(rows) for name, rows in tables.items()}
    kind, name, *rest = operation
    if kind == "create":
        tables[name] = []
    elif kind == "insert":
        tables[name] = sorted(tables[name] + rest[0])
    elif kind == "truncate":
        tables[name] = []
    elif kind == "rename":
        tables[rest[0]] = tables.pop(name)
    elif kind == "drop":
        del tables[name]
    return tables


def statement(operation, engine):
    kind, name, *rest = operation
    table = quoted_name(name)
    if kind == "create":
        return f"CREATE TABLE {table} (id INT PRIMARY KEY, text VARCHAR(50), KEY (text), UNIQUE KEY (text, id)) ENGINE={engine}"
    if kind == "insert":
        return f"INSERT INTO {table} (id, text) VALUES " + ", ".join(f"({key}, '{text}')" for key, text in rest[0])
    if kind == "truncate":
        return f"TRUNCATE TABLE {table}"
    if kind == "rename":
        return f"RENAME TABLE {table} TO {quoted_name(rest[0])}"
    if kind == "alter":
        return f"ALTER TABLE {table} FORCE, ALGORITHM=COPY"
    if kind == "add_key":
        return f"ALTER TABLE {table} ADD KEY IF NOT EXISTS more (text(5), id), COMMENT='{rest[0]}', ALGORITHM=NOCOPY"
    if kind == "drop_key":
        return f"ALTER TABLE {table} DROP KEY IF EXISTS more, COMMENT='{rest[0]}', ALGORITHM=NOCOPY"
    if kind == "default":
        return f"ALTER TABLE {table} ALTER COLUMN text SET DEFAULT '{rest[0]}', ALGORITHM=INSTANT"
    if kind == "add_column":
        return f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS extra VARCHAR(20) NOT NULL DEFAULT '{rest[0]}' FIRST, COMMENT='{rest[0]}', ALGORITHM=INSTANT"
    if kind == "drop_column":
        return f"ALTER TABLE {table} DROP COLUMN IF EXISTS extra, COMMENT='{rest[0]}', ALGORITHM=INSTANT"
    return f"DROP TABLE {table}"


def choose(tables, draw):
    free = [name for name in NAMES if name not in tables]
    if not tables or (free and draw.random() < 0.25):
        return ["create", draw.choice(free)]
    name = draw.choice(list(tables))
    kind = draw.choices(["insert", "truncate", "rename", "drop", "alter", "add_key", "drop_key", "default", "add_column", "drop_column"],
                        [6, 1, 2, 1, 1, 3, 2, 1, 2, 2])[0]
    if kind in ("add_key", "drop_key", "default", "add_column", "drop_column"):
        return [kind, name, f"n{draw.randrange(10**6)}"]
    if kind == "insert":
        first = max((key for key, _ in tables[name]), default=0) + 1
        return ["insert", name, [[key, f"t{draw.randrange(10**6)}"] for key in range(first, first + draw.randint(1, 50))]]
    if kind == "rename":
        return ["rename", name, draw.choice(free)] if free else ["truncate", name]
    return [kind, name]


def write_until_lost(socket, tables, engine, journal_path, seed):
    journal, draw = Journal(journal_path), random.Random(seed)
    try:
        connection = Connection(socket, DATABASE)
        while True:
            operation = choose(tables, draw)
            journal.write(operation=operation)
            connection.run(statement(operation, engine))
            journal.write(done=True)
            tables = change(tables, operation)
    except SqlError as error:
        if not error.lost:
            journal.write(error=f"tables: {error}")


def read(journal_path, tables):
    """Returns the tables after the acknowledged operations, the number of these operations, the operation in doubt (or
    None), and errors."""
    doubtful, errors, done = None, [], 0
    try:
        lines = open(journal_path, encoding="utf-8").read().splitlines()
    except FileNotFoundError:
        lines = []
    for fields in map(json.loads, lines):
        if "operation" in fields:
            doubtful = fields["operation"]
        elif "done" in fields:
            tables, doubtful, done = change(tables, doubtful), None, done + 1
        else:
            errors.append(fields["error"])
    return tables, done, doubtful, errors


def actual(connection):
    """The tables on the server. Raises SqlError if two keys of a table differ, or CHECK TABLE finds a fault."""
    names = [row[0].decode() for row in connection.run(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{DATABASE}'")]
    found = {}
    for name in names:
        table = f"{DATABASE}.{quoted_name(name)}"
        by_key = sorted([int(key), text.decode()] for key, text in connection.run(f"SELECT id, text FROM {table} FORCE INDEX (PRIMARY)"))
        by_text = sorted([int(key), text.decode()] for key, text in connection.run(f"SELECT id, text FROM {table} FORCE INDEX (text)"))
        if by_key != by_text:
            raise SqlError(0, f"table {name}: the primary key and the key on text do not hold the same rows")
        check = connection.run(f"CHECK TABLE {table} EXTENDED")
        if check[-1][3] != b"OK":
            raise SqlError(0, f"CHECK TABLE {name}: {check[-1][3].decode()}")
        found[name] = by_key
    return found


def verify(connection, journal_path, tables):
    """Compares the server with the journal. Returns the current tables, the number of acknowledged operations,
    and the faults."""
    tables, done, doubtful, errors = read(journal_path, tables)
    try:
        found = actual(connection)
    except SqlError as error:
        return tables, done, [*errors, f"tables: {error}"]
    choices = [tables] + ([change(tables, doubtful)] if doubtful else [])
    if found in choices:
        return found, done, errors
    faults = []
    for name in sorted({*found, *choices[0]}):
        if not any(found.get(name) == choice.get(name) for choice in choices):
            faults.append(f"table {name!r}: {describe(found.get(name))} there, {describe(tables.get(name))} expected")
    return found, done, [*errors, *(faults or ["tables: partly as before the statement in flight, partly as after it"]),
                         f"tables: in flight was {json.dumps(doubtful)[:200]}"]


def describe(rows):
    return "no table" if rows is None else f"{len(rows)} rows"


def stray_files(directory, tables):
    """Files of tables that do not exist, and files that the engine moved aside. In file names, each character of a
    table name other than ASCII letters, digits and _ is encoded as @ and two to four characters."""
    known = {"".join(letter if letter.isascii() and (letter.isalnum() or letter == "_") else "@" for letter in name)
             for name in tables}
    strays = []
    for path in directory.glob("*"):
        if path.suffix not in (".teak", ".ibd", ".frm"):
            continue
        stem = path.name.split(".")[0]
        if stem[:1] == "#" or not any(same_name(stem, name) for name in known):
            strays.append(path.name)
    return strays + [f"{path.name}, moved aside" for path in directory.parent.glob("#teak_orphans/**/*.teak")]


def same_name(stem, pattern):
    """Whether `stem`, a file's encoded name, is that of a table; `pattern` is the table's name with @ for each encoded
    character."""
    return re.fullmatch(re.escape(pattern).replace("@", r"@[0-9a-zA-Z]{2,4}"), stem) is not None
