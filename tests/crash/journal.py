"""The expected contents of the crash test's tables: each writer's own rows, changed by effects that can be undone and are journalled.

An effect is (table, key, old, new); None means no row. Each row belongs to one writer, so that writer's journal
alone determines it. The journal has one JSON line before a commit is sent and one after it was acknowledged.
"""

import json

DATABASE = "kill_test"

# For each table its key, and the columns other than `writer` and the key in the order of a row in the model. `seq` of
# `loose` is not unique: several rows may have the same value, and the model stores them as one sorted list.
TABLES = {
    "account": ("id", ("code", "owner", "balance", "note")),
    "entry": ("seq", ("id", "account", "amount", "memo")),
    "loose": ("seq", ("payload",)),
}

CREATE = {
    "account": """
        id INT NOT NULL, writer INT NOT NULL, code VARBINARY(24) NOT NULL, owner VARCHAR(40),
        balance BIGINT NOT NULL, note MEDIUMTEXT,
        PRIMARY KEY (id), UNIQUE KEY code (code), KEY owner (owner), KEY writer_balance (writer, balance),
        KEY note (note(20))""",
    "entry": """
        id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, writer INT NOT NULL, seq INT NOT NULL, account INT NOT NULL,
        amount DECIMAL(12,2) NOT NULL, memo VARCHAR(100),
        PRIMARY KEY (id), UNIQUE KEY writer_seq (writer, seq), KEY account (account), KEY memo (memo, amount)""",
    "loose": """
        writer INT NOT NULL, seq INT, payload LONGBLOB,
        KEY writer_seq (writer, seq)""",
    "progress": "writer INT NOT NULL PRIMARY KEY, transaction BIGINT NOT NULL",
    "shared": "id INT NOT NULL PRIMARY KEY, n BIGINT NOT NULL, KEY n (n)",
}

SHARED_ROWS = 4


class Rows:
    """One writer's rows in every table."""

    def __init__(self, tables=None):
        self.tables = tables or {table: {} for table in TABLES}
        self.codes = {row[0]: key for key, row in self.tables["account"].items()}

    def set(self, table, key, new):
        """Stores `new` (or removes the row, if None); returns the effect."""
        rows = self.tables[table]
        old = rows.get(key)
        if table == "account":
            if old is not None and self.codes.get(old[0]) == key:
                del self.codes[old[0]]
            if new is not None:
                self.codes[new[0]] = key
        if new is None:
            rows.pop(key, None)
        else:
            rows[key] = new
        return (table, key, old, new)

    def undo(self, effects):
        for table, key, old, _ in reversed(effects):
            self.set(table, key, old)

    def apply(self, effects):
        """Applies effects as read from the journal."""
        for table, key, new in effects:
            self.set(table, key, tuple(new) if new is not None else None)

    def copy(self):
        return Rows({table: dict(rows) for table, rows in self.tables.items()})


class Journal:
    """The effects of a writer's commits, in a file that does not depend on the server."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")

    def write(self, **fields):
        self.file.write(json.dumps(fields) + "\n")
        self.file.flush()

    def intend(self, number, effects, shared=None, explicit=True):
        last = {}
        for table, key, _, new in effects:
            last[table, key] = new
        self.write(intend=number, shared=shared, explicit=explicit,
                   effects=[[table, key, new] for (table, key), new in last.items()])

    def acknowledge(self, number):
        self.write(acknowledged=number)


def read_journal(path):
    """Returns the acknowledged transactions in order, the transaction in doubt (or None), and the writer's errors."""
    acknowledged, doubtful, notes = [], None, []
    try:
        lines = open(path, encoding="utf-8").read().splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        fields = json.loads(line)
        if "intend" in fields:
            doubtful = fields
        elif "acknowledged" in fields:
            assert doubtful is not None and doubtful["intend"] == fields["acknowledged"], "a journal out of order"
            acknowledged.append(doubtful)
            doubtful = None
        elif "withdrawn" in fields:
            doubtful = None  # the server rejected the transaction: its rows must not be in the tables
        else:
            notes.append(fields)
    return acknowledged, doubtful, notes


def text_of(value):
    """A value of the model as the server prints it."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else str(value).encode()


def expected_rows(rows, writer, table):
    """The writer's rows of a table as the verifying SELECT returns them, sorted."""
    found = []
    for key, row in rows.tables[table].items():
        if table == "loose":
            found += [(text_of(writer), text_of(key), text_of(payload)) for payload in row]
        else:
            found.append((text_of(writer), text_of(key), *map(text_of, row)))
    return sorted(found, key=repr)


def select(table, index=None, columns=None):
    """The verifying SELECT: every column of the model, by one index."""
    if columns is None:
        key, others = TABLES[table]
        # The model has a blob as hexadecimal digits.
        columns = ["writer", key, *("LOWER(HEX(payload))" if column == "payload" else column for column in others)]
    force = f" FORCE INDEX ({index})" if index else ""
    return f"SELECT {', '.join(columns)} FROM {DATABASE}.{table}{force}"
