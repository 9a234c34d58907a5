"""Random SELECTs of more than one level: derived tables, WITH, subqueries that compare, rollups, lists, JSON, partitions by name."""

import re

from . import queries
from .queries import condition, hint, merges_right, pair, some_columns, subquery_pair, where
from .statement import Statement


def select(text, ordered=False):
    return Statement(text, ordered=ordered, warnings=False)


def derived(draw, table, tables):
    """Reads a derived table, joins a WITH expression with itself, or joins a table with its groups."""
    exact = [column for column in table.columns if column.exact]
    inner = f"SELECT {table.names()} FROM {table.name}{hint(draw, table)}{where(draw, table)}"
    kind = draw.random()
    if kind < 0.3 or not exact:
        columns = ", ".join(column.name for column in some_columns(draw, table))
        return select(f"SELECT {columns} FROM ({inner}) d{where(draw, table)}")
    column = draw.choice(exact).name
    if kind < 0.6:
        return select(f"WITH q AS ({inner}) SELECT COUNT(*), COUNT(y.{column}) FROM q x {draw.choice(['JOIN', 'LEFT JOIN'])} q y"
                      f" ON x.{column} = y.{column}{where(draw, table, 'x.')}")
    group = draw.choice(exact)
    if not merges_right(table, group):
        return queries.plain(draw, table, tables)
    return select(f"SELECT x.{group.name}, d.n FROM {table.name} x JOIN (SELECT {group.name}, COUNT(*) AS n FROM {table.name}{where(draw, table)}"
                  f" GROUP BY {group.name}) d ON x.{group.name} <=> d.{group.name}{where(draw, table, 'x.')}")


def recursive(draw, table, tables):
    integers = [column for column in table.columns if column.family == "int"]
    if not integers:
        return derived(draw, table, tables)
    column = draw.choice(integers).name
    return select("WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT n.i, COUNT(x."
                  f"{column}) FROM n LEFT JOIN {table.name} x ON x.{column} = n.i GROUP BY n.i")


def comparing(draw, table, tables):
    other = draw.choice(tables)
    found = subquery_pair(draw, table, other)
    if found is None:
        return queries.plain(draw, table, tables)
    left, right = (column.name for column in found)
    inner = condition(draw, other, "y.", used={found[1]})
    columns = ", ".join("x." + column.name for column in some_columns(draw, table))
    kind = draw.random()
    if kind < 0.35:
        operator = draw.choice(["=", "<>", "<", "<=", ">", ">="]) + draw.choice([" ALL", " ANY"])
        return select(f"SELECT {columns} FROM {table.name} x WHERE x.{left} {operator} (SELECT y.{right} FROM {other.name} y WHERE {inner})")
    if kind < 0.7:
        return select(f"SELECT {columns}, (SELECT COUNT(*) FROM {other.name} y WHERE y.{right} = x.{left} AND {inner}) FROM {table.name} x"
                      f"{where(draw, table, 'x.', used={found[0]})}")
    return select(f"SELECT {columns} FROM {table.name} x WHERE x.{left} NOT IN (SELECT y.{right} FROM {other.name} y WHERE {inner})")


def rollup(draw, table, tables):
    grouping = [column for column in table.columns if column.family in ("int", "temporal", "uuid") and "ZEROFILL" not in column.type and merges_right(table, column)]
    if not grouping:
        return queries.aggregate(draw, table, tables)
    groups = ", ".join(column.name for column in draw.sample(grouping, min(len(grouping), draw.randint(1, 2))))
    # If keys are forced only for the join, the server crashes if one GROUP BY term is constant, in MyISAM too.
    keys = re.sub(r" FOR (JOIN|ORDER BY|GROUP BY) ", " ", hint(draw, table))
    return select(f"SELECT {groups}, COUNT(*) FROM {table.name}{keys}{where(draw, table)} GROUP BY {groups} WITH ROLLUP")


def listing(draw, table, tables):
    total = table.total_order(draw)
    exact = [column for column in table.columns if column.exact and column.family != "bit" and merges_right(table, column)]
    if not total or not exact:
        return queries.aggregate(draw, table, tables)
    column, group = draw.choice(exact).name, draw.choice(exact).name
    return select(f"SELECT {group}, GROUP_CONCAT({column} ORDER BY {total} SEPARATOR '|') FROM {table.name}{where(draw, table)} GROUP BY {group}")


def triple(draw, table, tables):
    second, third = draw.choice(tables), draw.choice(tables)
    first_pair = pair(draw, table, second)
    second_pair = pair(draw, second, third)
    if not first_pair or not second_pair or any(each.large for each in tables):
        return queries.joined(draw, table, tables)
    joins = [draw.choice(["JOIN", "JOIN", "LEFT JOIN"]) for _ in range(2)]
    return select(f"SELECT COUNT(*), COUNT(z.{second_pair[1].name}) FROM {table.name} x {joins[0]} {second.name} y ON x.{first_pair[0].name} = y.{first_pair[1].name}"
                  f" {joins[1]} {third.name} z ON y.{second_pair[0].name} = z.{second_pair[1].name}{where(draw, table, 'x.', used={first_pair[0]})}")


def functions(draw, table, tables):
    """Selects functions of the bytes of values."""
    terms = []
    for column in some_columns(draw, table, 4):
        name = column.name
        if column.family == "json":
            terms.append(draw.choice([f"JSON_EXTRACT({name}, '$.a')", f"JSON_TYPE({name})", f"JSON_VALUE({name}, '$.b[1]')", f"JSON_LENGTH({name})"]))
        elif column.family == "geometry":
            terms.append(f"ST_AsText({name})")
        else:
            terms.append(draw.choice([f"HEX({name})", f"LENGTH({name})", f"CRC32({name})", f"{name} IS NULL", f"COALESCE({name}, 'none')"])
                         if column.family not in ("float", "bit") and "ZEROFILL" not in column.type else f"{name} + 0")
    return select(f"SELECT {', '.join(terms)} FROM {table.name}{hint(draw, table)}{where(draw, table)}")


def json_table(draw, table, tables):
    documents = [column for column in table.columns if column.family == "json"]
    if not documents:
        return functions(draw, table, tables)
    return select(f"SELECT j.a, j.n FROM {table.name} x, JSON_TABLE(x.{draw.choice(documents).name}, '$' COLUMNS (n FOR ORDINALITY,"
                  f" a VARCHAR(20) PATH '$.a' NULL ON ERROR)) j{where(draw, table, 'x.')}")


def of_partition(draw, table, tables):
    names = [name for name in table.partition_names]
    if not names:
        return derived(draw, table, tables)
    chosen = ", ".join(draw.sample(names, draw.randint(1, min(2, len(names)))))
    columns = ", ".join(column.name for column in some_columns(draw, table))
    order, total = queries.order_by(draw, table, False)
    return select(f"SELECT {columns} FROM {table.name} PARTITION ({chosen}){hint(draw, table)}{where(draw, table)}{order}", ordered=total)


def query(draw, table, tables):
    maker = draw.choices([derived, recursive, comparing, rollup, listing, triple, functions, json_table, of_partition],
                         [4, 1, 4, 2, 2, 2, 3, 1, 4 if table.partition_names else 0])[0]
    return maker(draw, table, tables)
