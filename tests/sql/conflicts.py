"""A table with several unique keys over few values: rows that conflict with more than one other."""

from . import changes, queries
from .columns import make_column
from .schema import Table, make_hashed_key, make_key
from .statement import Statement


def _table(draw, collations, virtual_keys):
    table = Table("met")
    table.virtual_keys = virtual_keys
    while len(table.columns) < draw.randint(3, 6):
        column = make_column(draw, table.new_name("c"), collations)
        # In InnoDB, REPLACE with an empty geometry counts as a change of the row, see changes.insert().
        if column.family in ("geometry", "json") or "ON UPDATE" in column.default:
            continue
        column.pool, column.invisible, column.check = draw.sample(column.pool, min(len(column.pool), 3)), False, ""
        table.columns.append(column)
    key = make_key(draw, table, "PRIMARY") if draw.random() < 0.7 else None
    if key:
        table.keys.append(key)
        for column in key.columns():
            column.nullable = False
            column.default = "" if column.default == "NULL" else column.default
    for _ in range(draw.randint(1, 4)):
        key = make_hashed_key(draw, table) if draw.random() < 0.15 else make_key(draw, table, draw.choice(["UNIQUE", "UNIQUE", "UNIQUE", "KEY"]))
        if key:
            table.keys.append(key)
    return table


def _file(draw, table):
    """Writes rows to a file, and loads them after other rows with the same keys were inserted."""
    order = table.total_order()
    columns = changes.writable(table)
    if not order or any(column.compressed for column in columns):
        return []
    path, names = "{run}/load-{db}-" + str(draw.getrandbits(60)), ", ".join(column.name for column in columns)
    steps = [Statement(f"SELECT {names} INTO OUTFILE '{path}' CHARACTER SET binary FROM met ORDER BY {order}", warnings=False)]
    steps += draw.choice([changes.update, changes.delete])(draw, table, [table])
    return [*steps, *changes.insert(draw, table, [table]), Statement(f"LOAD DATA INFILE '{path}' {draw.choice(['IGNORE', 'REPLACE'])} INTO TABLE met CHARACTER SET binary ({names})")]


def scene(draw, collations, virtual_keys):
    table = _table(draw, collations, virtual_keys)
    steps = [Statement(table.create())]
    in_transaction, savepoint = draw.random() < 0.5 and not any(key.hashed for key in table.keys), False
    if in_transaction:
        steps.append(Statement("START TRANSACTION"))
    for _ in range(draw.randint(6, 20)):
        kind = draw.random()
        if kind < 0.6:
            steps += changes.insert(draw, table, [table], rows=draw.randint(1, 6))
        elif kind < 0.7:
            steps += changes.update(draw, table, [table])
        elif kind < 0.75:
            steps += changes.delete(draw, table, [table])
        elif kind < 0.8:
            steps += _file(draw, table)
        elif kind < 0.9 and in_transaction:
            steps.append(Statement("ROLLBACK TO SAVEPOINT a" if savepoint and draw.random() < 0.5 else "SAVEPOINT a"))
            savepoint = True
        else:
            steps.append(queries.plain(draw, table, [table]))
    if in_transaction:
        steps.append(Statement(draw.choice(["COMMIT", "COMMIT", "ROLLBACK"])))
    return [*steps, Statement(f"SELECT {table.names()} FROM met", warnings=False), Statement("CHECK TABLE met EXTENDED"), Statement("DROP TABLE IF EXISTS met", warnings=False)]
