"""The columns and keys in the text of a table's definition, and the query that reads all columns."""

import re
from dataclasses import dataclass, field

KEY = re.compile(r"(PRIMARY KEY|UNIQUE KEY|KEY)\s*\((.*)\)$", re.S)
TYPE = re.compile(r"(\w+)\s*(?:\(([\d, ]+)\))?")
INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
TEXTS = {"CHAR", "VARCHAR", "TEXT"}


@dataclass
class Column:
    """`kind` is uint or int with the number of bits in `size`, decimal with digits and decimals in `size`, text, date or datetime."""
    name: str
    kind: str
    size: tuple
    is_nullable: bool


@dataclass
class Definition:
    columns: list
    primary: list = field(default_factory=list)
    # The items of the definition that are columns, without PRIMARY KEY, and those that are secondary keys.
    column_items: list = field(default_factory=list)
    key_items: list = field(default_factory=list)

    def text(self, primary=True, secondary=True):
        """The definition again, with the chosen keys."""
        key = [f"PRIMARY KEY ({', '.join(self.primary)})"] if primary and self.primary else []
        return ", ".join([*self.column_items, *key, *(self.key_items if secondary else [])])


def items(text):
    """The parts of a definition between the commas that are not in parentheses."""
    depth, start, found = 0, 0, []
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            found.append(text[start:position].strip())
            start = position + 1
    return [item for item in [*found, text[start:].strip()] if item]


def column(item):
    name, rest = item.split(None, 1)
    match = TYPE.match(rest)
    word, size = match[1].upper(), tuple(int(part) for part in (match[2] or "").split(",") if part)
    nullable = "NOT NULL" not in rest
    if word in INTEGER_BITS:
        return Column(name, "uint" if "UNSIGNED" in rest else "int", (INTEGER_BITS[word],), nullable)
    if word in TEXTS:
        return Column(name, "text", (), nullable)
    if word in ("DECIMAL", "DATE", "DATETIME"):
        return Column(name, word.lower(), size, nullable)
    raise ValueError(f"column {name} has a type without a rule: {word}")


def parse(text):
    found = Definition([])
    for item in items(text):
        key = KEY.match(item)
        if key and key[1] == "PRIMARY KEY":
            found.primary = items(key[2])
        elif key:
            found.key_items.append(item)
        else:
            found.columns.append(column(item))
            if "PRIMARY KEY" in item:
                found.primary = [found.columns[-1].name]
            found.column_items.append(item.replace(" PRIMARY KEY", ""))
    return found


def scan(table, columns):
    """The query that reads every column of every row: sums of numbers and of lengths of strings, and the last times."""
    terms = {"uint": "SUM({})", "int": "SUM({})", "decimal": "SUM({})", "text": "SUM(LENGTH({}))", "date": "MAX({})", "datetime": "MAX({})"}
    return f"SELECT COUNT(*), {', '.join(terms[one.kind].format(one.name) for one in columns)} FROM {table}"


def same(columns, one, other):
    """Whether two answers to this query agree. Sums of BIGINT UNSIGNED are compared modulo 2^64, because Parquet's library has
    no wider numbers."""
    if len(one) != len(other):
        return False
    kinds = [("count", ()), *((each.kind, each.size) for each in columns)]
    return all(int(a) % 2**64 == int(b) % 2**64 if kind == ("uint", (64,)) else a == b for kind, a, b in zip(kinds, one, other))
