"""A table whose rows fill many pages, most of them in its file. Its scans use conditions and minima and maxima of columns to pass over
pages; tables of few rows do not."""

from . import changes, queries
from .columns import make_column
from .schema import Key, Table, make_key
from .statement import Statement

ROWS = 1200  # of each INSERT


def _table(draw, collations):
    table = Table("paged")
    number = make_column(draw, "id", collations)
    while number.type != "INT":
        number = make_column(draw, "id", collations)
    number.nullable, number.default, number.check, number.invisible, number.pool = False, "", "", False, [str(draw.randint(1, 3 * ROWS)) for _ in range(8)]
    table.columns.append(number)
    table.keys.append(Key("PRIMARY", "PRIMARY", [(number, 0, False)]))
    while len(table.columns) < draw.randint(2, 7):
        column = make_column(draw, table.new_name("c"), collations)
        if column.family not in ("geometry", "json") and "ON UPDATE" not in column.default:
            column.invisible, column.check = False, ""
            table.columns.append(column)
    key = make_key(draw, table, "KEY") if draw.random() < 0.4 else None
    if key:
        table.keys.append(key)
    if draw.random() < 0.2:
        # The server refuses options of keys of partitioned tables.
        for key in table.keys:
            key.clustering = False
        table.partitions = f" PARTITION BY {draw.choice(['HASH', 'KEY'])} (id) PARTITIONS {draw.randint(2, 3)}"
        table.partition_kind, table.partition_columns = "HASH", [number]
    table.options = "{teak: PAGE_SIZE=4096" + draw.choice(["", "", " COMPRESSION=lz4", " COMPRESSION=none"]) + "}"
    return table


def _term(draw, column):
    """Values in the order of the key, or spread over it."""
    if column.name == "id":
        return "seq"
    if column.family == "int" and draw.random() < 0.5:
        return draw.choice(["seq % 100", "seq DIV 40", "seq % 7"])
    if column.family in ("text", "bytes") and column.length > 12 and (column.plain or column.family == "bytes") and draw.random() < 0.6:
        return draw.choice(["CONCAT(seq % 1000, 'x')", "CONCAT('x', seq DIV 300)", "REPEAT('ab', seq % 5)"])
    if column.family in ("geometry", "bit"):
        return column.probe(draw)
    place = draw.choice(["seq % 3", "seq DIV 500 % 3", "seq DIV 97 % 3"])
    return f"ELT(1 + {place}, {', '.join(column.probe(draw) for _ in range(3))})"


def _fill(draw, table):
    columns = changes.writable(table)
    names = ", ".join(column.name for column in columns)
    steps = []
    for start in range(1, 3 * ROWS, ROWS):
        listing = ", ".join(_term(draw, column) for column in columns)
        loads = draw.choice(["", "{teak:, teak_bulk_load_threshold = 1000}"])
        steps.append(Statement(f"SET STATEMENT max_statement_time = 0{loads} FOR INSERT IGNORE INTO paged ({names}) SELECT {listing} "
                               f"FROM seq_{start}_to_{start + ROWS - 1} ORDER BY seq", warnings=False))
    return steps


def _read(draw, table):
    kind = draw.random()
    if kind < 0.5:
        return draw.choice([queries.plain, queries.aggregate])(draw, table, [table])
    bound = f"id {draw.choice(['>', '<', '>='])} {draw.randint(1, 3 * ROWS)}" if kind < 0.8 else "id + 0 > 0"
    chosen = draw.choice([table.names(), "COUNT(*)", ", ".join(column.name for column in draw.sample(table.columns, draw.randint(1, len(table.columns))))])
    return Statement(f"SELECT {chosen} FROM paged {draw.choice(['', 'FORCE INDEX (PRIMARY) '])}WHERE {bound} AND {queries.condition(draw, table)}", warnings=False)


def scene(draw, collations):
    table = _table(draw, collations)
    steps = [Statement(table.create()), *_fill(draw, table)]
    in_transaction = False
    for _ in range(draw.randint(10, 24)):
        kind = draw.random()
        if kind < 0.7:
            steps.append(_read(draw, table))
        elif kind < 0.8:
            steps += draw.choice([changes.update, changes.delete, changes.insert])(draw, table, [table])
        elif kind < 0.9 and not in_transaction:
            steps.append(Statement("OPTIMIZE TABLE paged", rows=False, warnings=False))
        elif kind >= 0.9:
            steps.append(Statement(draw.choice(["COMMIT", "ROLLBACK"]) if in_transaction else "START TRANSACTION"))
            in_transaction = not in_transaction
    if in_transaction:
        steps.append(Statement("COMMIT"))
    return [*steps, Statement("SELECT " + table.names() + " FROM paged", warnings=False), Statement("CHECK TABLE paged EXTENDED"),
            Statement("DROP TABLE IF EXISTS paged", warnings=False)]
