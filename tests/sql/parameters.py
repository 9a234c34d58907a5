"""Statements with parameters through the binary protocol: prepared once and executed several times with values of the
column's types."""

import re

from . import queries
from .statement import Statement
from tests.harness.wire import Moment, Number

OPEN = object()  # a literal that has no plain value
ESCAPES = {"0": "\0", "n": "\n"}


def value_of(column, literal):
    """The value of one of the column's literals, in the type that a program would bind, or OPEN."""
    if literal == "NULL":
        return None
    if column.family == "int":
        return int(literal) if re.fullmatch(r"-?\d{1,20}", literal) and -2**63 <= int(literal) < 2**64 else OPEN
    if column.family == "decimal":
        return Number(literal) if re.fullmatch(r"-?\d+(\.\d+)?", literal) else OPEN
    if column.family == "float":
        return float(literal) if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", literal) else OPEN
    if literal.startswith("b'"):
        return int(literal[2:-1], 2)
    if column.family == "bytes":
        return bytes.fromhex(literal[2:-1]) if literal.startswith("x'") else OPEN
    if not re.fullmatch(r"'(?:[^'\\]|''|\\.)*'", literal, re.DOTALL):
        return OPEN
    text = re.sub(r"''|\\(.)", lambda match: ESCAPES.get(match.group(1), match.group(1)) if match.group(1) else "'", literal[1:-1], flags=re.DOTALL)
    if column.family == "temporal":
        return moment(column.type.split("(")[0], text)
    return text


def moment(kind, text):
    """A date or time of the column's type, from text of the pools."""
    numbers = [int(number) for number in re.findall(r"\d+", text.split(".")[0])]
    micro = int(text.split(".")[1].ljust(6, "0")) if "." in text else 0
    if kind == "DATE" and len(numbers) == 3:
        return Moment("date", False, [*numbers, 0, 0, 0], 0)
    if kind in ("DATETIME", "TIMESTAMP") and len(numbers) == 6:
        return Moment("datetime", False, numbers, micro)
    if kind == "TIME" and len(numbers) == 3:
        return Moment("time", text.startswith("-"), [0, 0, 0, *numbers], micro)
    return OPEN


def _bind(draw, column, rows, literal):
    """Returns '?' after adding a value to each row of parameters, or a literal if a value cannot be bound."""
    values = [value_of(column, literal()) for _ in rows]
    if any(value is OPEN for value in values):
        return literal()
    for row, value in zip(rows, values):
        row.append(value)
    return "?"


def _rows(draw, table):
    # The history of a versioned table cannot distinguish two changes of a row at the same instant.
    return [[] for _ in range(1 if table.versioned else draw.randint(1, 3))]


def select(draw, table, tables):
    columns = [column for column in table.columns if column.family in queries.COMPARABLE and column.family not in ("bit", "enum")]
    if not columns:
        return queries.query(draw, table, tables)
    rows = _rows(draw, table)
    terms = []
    chosen = draw.sample(columns, min(len(columns), draw.randint(1, 2)))
    for column in chosen[:1] if queries.loses_edge(table, chosen[0], chosen) else chosen:
        operator = draw.choice(["=", "<", ">=", "<=>", "<>", "BETWEEN"])
        terms.append(f"{column.name} {operator} " + _bind(draw, column, rows, lambda column=column: column.probe(draw))
                     + (" AND " + _bind(draw, column, rows, lambda column=column: column.probe(draw)) if operator == "BETWEEN" else ""))
    order, total = queries.order_by(draw, table, False)
    limit = ""
    if total and draw.random() < 0.4:
        for row in rows:
            row.append(draw.choice([0, 1, 2, 5]))
        limit = " LIMIT ?"
    return Statement(f"SELECT {table.names()} FROM {table.name}{queries.hint(draw, table)} WHERE {draw.choice([' AND ', ' OR ']).join(terms)}{order}{limit}",
                     ordered=total, warnings=False, parameters=rows)


def insert(draw, table, columns, literal):
    rows = _rows(draw, table)
    values = ", ".join(_bind(draw, column, rows, lambda column=column: literal(draw, column)) for column in columns)
    verb = draw.choice(["INSERT", "INSERT IGNORE", "REPLACE"])
    return Statement(f"{verb} INTO {table.name} ({', '.join(column.name for column in columns)}) VALUES ({values})", parameters=rows)


def change_of_row(draw, table, column, literal):
    """UPDATE or DELETE of one row by its key; None without a unique key."""
    key = table.total_key()
    if key is None:
        return None
    rows = _rows(draw, table)
    change = f"DELETE FROM {table.name}"
    if column and draw.random() < 0.7:
        # Sets ON UPDATE columns explicitly, see changes.assignments().
        stamps = [f", {stamp.name} = {stamp.probe(draw)}" for stamp in table.columns if "ON UPDATE" in stamp.default and stamp is not column]
        change = f"UPDATE {table.name} SET {column.name} = " + _bind(draw, column, rows, lambda: literal(draw, column)) + "".join(stamps)
    test = " AND ".join(f"{part.name} = " + _bind(draw, part, rows, lambda part=part: part.probe(draw)) for part in key.columns())
    return Statement(f"{change} WHERE {test}", warnings=False, parameters=rows)
