"""Random conditions and SELECTs whose results the standard and the manual define completely.

The following is undefined, so it is avoided: LIMIT without a total order; the choice of DISTINCT, GROUP BY, MIN and
MAX among values that are equal but not identical; sums of floats, which depend on the order of rows (mtr compares them); warnings of a
condition, which depend on the number of rows for which the plan evaluates it.
"""

import re

from .statement import Statement

COMPARABLE = ("int", "decimal", "float", "bit", "text", "bytes", "temporal", "enum", "inet", "uuid")


def loses_edge(table, column, used):
    """Whether conditions on the column and on a used column could be a range of one key that has both ascending and
    descending parts. The server loses rows at the bounds of such a range."""
    return any(len({descending for _, __, descending in key.parts}) > 1 and column in key.columns()
               and any(other in key.columns() for other in used if other is not column) for key in table.keys)


def condition(draw, table, alias="", depth=0, used=None):
    """`used`: the table's columns that are in other conditions of the same query."""
    used = set() if used is None else used
    kind = draw.random()
    if depth < 2 and kind < 0.3:
        joined = f" {draw.choice(['AND', 'AND', 'OR'])} ".join(condition(draw, table, alias, depth + 1, used) for _ in range(draw.randint(2, 3)))
        return f"NOT ({joined})" if draw.random() < 0.1 else f"({joined})"
    if kind > 0.85 and table.keys:
        found = by_key(draw, table, alias, used)
        if found:
            return found
    if kind < 0.75 and table.keys:
        column = draw.choice(draw.choice(table.keys).columns())
    else:
        column = draw.choice(table.columns)
    if loses_edge(table, column, used):
        column = draw.choice(sorted(used, key=lambda other: other.name))
    used.add(column)
    return atom(draw, column, alias + column.name)


def by_key(draw, table, alias, used):
    """A condition on the first two or three columns of one key: equalities, and any condition on the last of them; or a
    list of rows of values. None if that is not possible."""
    columns = list(dict.fromkeys(draw.choice(table.keys).columns()))[:draw.randint(2, 3)]
    if len(columns) < 2 or any(column.family not in COMPARABLE for column in columns) \
            or any(loses_edge(table, column, used.union(columns)) for column in columns):
        return None
    used.update(columns)
    if draw.random() < 0.3:
        rows = ", ".join(f"({', '.join(column.probe(draw) for column in columns)})" for _ in range(draw.randint(1, 3)))
        return f"({', '.join(alias + column.name for column in columns)}) IN ({rows})"
    *first, last = columns
    terms = [f"{alias}{column.name} {draw.choice(['=', '=', '<=>'])} {column.probe(draw)}" for column in first]
    return f"({' AND '.join(terms)} AND {atom(draw, last, alias + last.name)})"


def beyond_like(column):
    """Whether a read by key may miss values that match LIKE: in these collations, U+FFFD sorts after the range that the
    server reads for LIKE, and characters without weight sort before it. So only a scan finds such values, in InnoDB,
    MyISAM, Aria and Teak."""
    return column.charset in ("ucs2", "utf16", "utf16le", "utf32") and "_uca1400_" in column.collation and any(
        letter in value for value in column.pool for letter in "\ufffd\u200d\u00ad")


def atom(draw, column, name):
    kind = draw.random()
    if kind < 0.1 or column.family in ("geometry", "json"):
        return f"{name} IS {draw.choice(['', 'NOT '])}NULL"
    probe = column.probe(draw)
    if kind < 0.35:
        return f"{name} {draw.choice(['=', '=', '<=>', '<>'])} {probe}"
    if kind < 0.6:
        return f"{name} {draw.choice(['<', '<=', '>', '>='])} {probe}"
    # BETWEEN compares BIT(64) as signed numbers, but a key compares them as unsigned.
    if kind < 0.75 and column.type != "BIT(64)":
        return f"{name} {draw.choice(['', '', 'NOT '])}BETWEEN {probe} AND {column.probe(draw)}"
    if kind < 0.9 or column.family != "text" or beyond_like(column):
        values = ", ".join(column.probe(draw) for _ in range(draw.randint(1, 5)))
        return f"{name} {draw.choice(['', '', 'NOT '])}IN ({values})"
    pattern = draw.choice([f"CONCAT({probe}, '%')", f"CONCAT('%', {probe})", "'a%'", "'_'", "'%'", probe])
    return f"{name} {draw.choice(['', 'NOT '])}LIKE {pattern}"


def where(draw, table, alias="", chance=0.85, used=None):
    return f" WHERE {condition(draw, table, alias, used=used)}" if draw.random() < chance else ""


def hint(draw, table):
    usable = [key.usable_name() for key in table.keys if not key.ignored]
    if not usable or not table.hints or draw.random() < 0.5:
        return ""
    if draw.random() < 0.2:
        chosen = ", ".join(draw.sample(usable, min(len(usable), draw.randint(1, 3))))
        return f" {draw.choice(['USE', 'IGNORE', 'FORCE'])} INDEX {draw.choice(['', 'FOR JOIN ', 'FOR ORDER BY ', 'FOR GROUP BY '])}({chosen})"
    return f" FORCE INDEX ({draw.choice(usable)})"


def merges_right(table, column):
    """False for a virtual column in a key of a partitioned table: InnoDB merges the partitions in key order before it
    has computed the column."""
    return column.stored or not table.partitions or not any(column in key.columns() for key in table.keys)


def order_by(draw, table, must_be_total):
    """An ORDER BY and whether it is total."""
    total = table.total_order(draw)
    if must_be_total:
        return (f" ORDER BY {total}", True) if total else ("", False)
    kind = draw.random()
    if kind < 0.3 or not total and kind < 0.6:
        return "", False
    columns = [column for column in table.columns if column.family in COMPARABLE and merges_right(table, column)]
    terms = [f"{column.name}{draw.choice(['', '', ' DESC'])}" for column in draw.sample(columns, min(len(columns), draw.randint(0, 2)))]
    if table.keys and draw.random() < 0.6:
        key = draw.choice(table.keys)
        down = draw.random() < 0.5
        terms = [column.name + (" DESC" if descending != down else "") for column, _, descending in key.parts
                 if column.family in COMPARABLE and merges_right(table, column)]
    if total and draw.random() < 0.8:
        return " ORDER BY " + ", ".join([*terms, total]), True
    return (" ORDER BY " + ", ".join(terms) if terms else ""), False


def some_columns(draw, table, count=None):
    columns = table.columns
    if count is None and draw.random() < 0.5:
        return list(columns)
    if table.keys and draw.random() < 0.5:
        return list(dict.fromkeys(draw.choice(table.keys).columns()))  # queries that an index may cover
    return draw.sample(columns, draw.randint(1, min(len(columns), count or 4)))


def locking(draw):
    return draw.choices(["", " FOR UPDATE", " LOCK IN SHARE MODE"], [10, 1, 1])[0]


def plain(draw, table, tables):
    columns = ", ".join(column.name for column in some_columns(draw, table))
    order, total = order_by(draw, table, False)
    limit = ""
    if total and draw.random() < 0.5:
        limit = f" LIMIT {draw.choice([0, 1, 1, 2, 3, 10])}" + (f" OFFSET {draw.choice([0, 1, 2, 5])}" if draw.random() < 0.3 else "")
    return Statement(f"SELECT {columns} FROM {table.name}{hint(draw, table)}{where(draw, table)}{order}{limit}{locking(draw)}",
                     ordered=total, warnings=False)


def extreme(function, column):
    """MIN or MAX. Adds 0 to BIT and ZEROFILL values, because their printed form depends on the plan."""
    return f"{function}({column.name})" + (" + 0" if column.family == "bit" or "ZEROFILL" in column.type else "")


def aggregate(draw, table, tables):
    exact = [column for column in table.columns if column.exact]
    column = draw.choice(table.columns)
    kind = draw.random()
    if kind < 0.35 or not exact:
        listing = ["COUNT(*)"]
        if column.family in COMPARABLE:
            listing += [f"COUNT({column.name})", f"COUNT(DISTINCT {column.name})"]
        return Statement(f"SELECT {', '.join(listing)} FROM {table.name}{hint(draw, table)}{where(draw, table)}", warnings=False)
    if kind < 0.6:
        column = draw.choice(exact)
        listing = [extreme("MIN", column), extreme("MAX", column)]
        if column.family in ("int", "decimal"):
            listing.append(f"SUM({column.name})")
        return Statement(f"SELECT {', '.join(listing)} FROM {table.name}{hint(draw, table)}{where(draw, table)}", warnings=False)
    if kind < 0.7 and column.family in COMPARABLE:
        # It is undefined which of several equal strings MIN returns, but the number of rows equal to it is defined.
        function = draw.choice(["MIN", "MAX"])
        return Statement(f"SELECT COUNT(*) FROM {table.name} WHERE {column.name} = (SELECT {function}({column.name}) FROM "
                         f"{table.name}{hint(draw, table)}{where(draw, table)})", warnings=False)
    grouping = [column for column in exact if merges_right(table, column)]
    if not grouping:
        return plain(draw, table, tables)
    groups = ", ".join(column.name for column in draw.sample(grouping, min(len(grouping), draw.randint(1, 2))))
    if kind < 0.8:
        test = where(draw, table)
        # The server's loose index scan loses rows if there are ranges on several columns of its key, in MyISAM and Aria
        # too. An additional expression in the select list causes another plan.
        more = ", 1" if len({word for word in re.findall(r"\w+", test)} & {column.name for column in table.columns}) > 1 else ""
        return Statement(f"SELECT DISTINCT {groups}{more} FROM {table.name}{hint(draw, table)}{test}", warnings=False)
    other = draw.choice(exact)
    having = draw.choice(["", "", " HAVING n > 1"])
    return Statement(f"SELECT {groups}, COUNT(*) AS n, {extreme('MIN', other)}, {extreme('MAX', other)} FROM {table.name}{hint(draw, table)}"
                     f"{where(draw, table)} GROUP BY {groups}{having}", warnings=False)


def calculated(draw, columns, depth=0):
    """An exact expression of some columns."""
    kind = draw.random()
    if depth == 2 or kind < 0.4:
        return draw.choice(columns).name
    if kind < 0.5:
        return draw.choice(["1", "2", "0.5", "1.25", "100"])
    if kind < 0.6:
        return f"-{draw.choice(columns).name}"
    return f"({calculated(draw, columns, depth + 1)} {draw.choice('+-*')} {calculated(draw, columns, depth + 1)})"


def summed(draw, table, tables):
    """Sums and averages of expressions, which an engine may compute itself."""
    numbers = [column for column in table.columns if column.family in ("int", "decimal")]
    if not numbers:
        return aggregate(draw, table, tables)
    grouping = [column for column in table.columns if column.exact and merges_right(table, column)]
    groups = ", ".join(column.name for column in draw.sample(grouping, min(len(grouping), draw.choice([0, 1, 1, 2]))))
    listing = [f"{draw.choice(['SUM', 'SUM', 'AVG'])}({calculated(draw, numbers)})" for _ in range(draw.randint(1, 2))]
    listing += draw.sample(["COUNT(*) AS n", f"COUNT({draw.choice(numbers).name})", f"SUM({draw.choice(numbers).name}) / COUNT(*)"], 1)
    order = " ORDER BY n, " + groups if groups and "COUNT(*) AS n" in listing and draw.random() < 0.3 else ""
    return Statement(f"SELECT {', '.join([groups] * bool(groups) + listing)} FROM {table.name}{hint(draw, table)}{where(draw, table)}"
                     + (f" GROUP BY {groups}{order}" if groups else ""), warnings=False, ordered=bool(order))


def pair(draw, left, right):
    """Two columns that can be compared without a conversion that would warn, or None."""
    pairs = [(a, b) for a in left.columns for b in right.columns
             # Some plans return rows of a join on strings of length 0 twice, in every engine.
             if a.family == b.family and (a.family != "text" or a.length and b.length) and a.family in COMPARABLE and a.collation == b.collation
             # In some plans, a lookup by a value of another scale or length rounds the value.
             and (a.type == b.type or a.family in ("int", "text", "inet", "uuid") and a.type.split("(")[0] == b.type.split("(")[0])]
    return draw.choice(pairs) if pairs else None


def subquery_pair(draw, left, right):
    """Two columns for x IN (SELECT y ...). With a key on a prefix of y, the server treats values with the same prefix
    as equal, in every engine (index_subquery)."""
    found = pair(draw, left, right)
    return found if found and not any(part is found[1] and prefix for key in right.keys for part, prefix, _ in key.parts) else None


def joined(draw, table, tables):
    other = draw.choice(tables)
    kind = draw.random()
    found = (subquery_pair if kind < 0.3 else pair)(draw, table, other)
    if found is None:
        return plain(draw, table, tables)
    on = f"x.{found[0].name} {draw.choice(['=', '=', '=', '<=>'])} y.{found[1].name}"
    if kind < 0.3:
        inner = condition(draw, other, "y.", used={found[1]})
        test = draw.choice([f"x.{found[0].name} IN (SELECT y.{found[1].name} FROM {other.name} y WHERE {inner})",
                            f"EXISTS (SELECT 1 FROM {other.name} y WHERE {on} AND {inner})",
                            f"NOT EXISTS (SELECT 1 FROM {other.name} y WHERE {on} AND {inner})"])
        columns = ", ".join("x." + column.name for column in some_columns(draw, table))
        return Statement(f"SELECT {columns} FROM {table.name} x WHERE {test}", warnings=False)
    listing = "COUNT(*)" if kind < 0.6 else ", ".join(
        ["x." + column.name for column in some_columns(draw, table, 3)[:4]] + ["y." + column.name for column in some_columns(draw, other, 3)[:4]])
    join = draw.choice(["JOIN", "JOIN", "LEFT JOIN", "STRAIGHT_JOIN"])
    return Statement(f"SELECT {listing} FROM {table.name} x {join} {other.name} y ON {on}{where(draw, table, 'x.', used={found[0]})}", warnings=False)


def windowed(draw, table, tables):
    total = table.total_order(draw)
    exact = [column for column in table.columns if column.exact]
    if not total or not exact:
        return aggregate(draw, table, tables)
    part = f"PARTITION BY {draw.choice(exact).name} " if draw.random() < 0.5 else ""
    column = draw.choice(exact).name
    function = draw.choice([f"ROW_NUMBER() OVER ({part}ORDER BY {total})", f"RANK() OVER ({part}ORDER BY {column})",
                            f"DENSE_RANK() OVER ({part}ORDER BY {column})", f"LAG({column}) OVER ({part}ORDER BY {total})",
                            f"COUNT(*) OVER ({part}ORDER BY {total} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
                            f"FIRST_VALUE({column}) OVER ({part}ORDER BY {total})", f"NTILE(3) OVER ({part}ORDER BY {total})"])
    return Statement(f"SELECT {column}, {function} FROM {table.name}{where(draw, table)}", warnings=False)


def union(draw, table, tables):
    other = draw.choice(tables)
    found = pair(draw, table, other)
    if found is None:
        return plain(draw, table, tables)
    kinds = ["UNION ALL"] if not (found[0].exact and found[1].exact) else ["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]
    return Statement(f"SELECT {found[0].name} FROM {table.name}{where(draw, table)} {draw.choice(kinds)} "
                     f"SELECT {found[1].name} FROM {other.name}{where(draw, other)}", warnings=False)


def history(draw, table, tables):
    if not table.versioned:
        return plain(draw, table, tables)
    when = draw.choice(["ALL", "ALL", "AS OF TIMESTAMP FROM_UNIXTIME(1700000050)", "BETWEEN '2023-01-01' AND '2024-01-01'"])
    columns = ", ".join(column.name for column in some_columns(draw, table))
    return Statement(f"SELECT {columns}, row_start, row_end FROM {table.name} FOR SYSTEM_TIME {when}{where(draw, table)}", warnings=False)


def query(draw, table, tables):
    maker = draw.choices([plain, aggregate, summed, joined, windowed, union, history], [10, 5, 3, 4, 1, 1, 2 if table.versioned else 0])[0]
    return maker(draw, table, tables)
