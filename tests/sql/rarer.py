"""Random SELECTs of rarer forms: ties, index merge, GROUP BY by a key, nested outer joins, UNION ALL and similar, row
comparisons, one query by every key."""

from . import queries
from .queries import COMPARABLE, atom, condition, hint, merges_right, pair, some_columns, where
from .statement import Statement


def select(text, ordered=False):
    return Statement(text, ordered=ordered, warnings=False)


def _names(columns, alias=""):
    return ", ".join(alias + column.name for column in columns)


def ties(draw, table, tables):
    exact = [column for column in table.columns if column.exact and merges_right(table, column)]
    if not exact:
        return queries.plain(draw, table, tables)
    order = ", ".join(column.name + draw.choice(["", " DESC"]) for column in draw.sample(exact, min(len(exact), draw.choice([1, 1, 2]))))
    return select(f"SELECT {_names(some_columns(draw, table))} FROM {table.name}{hint(draw, table)}{where(draw, table)} ORDER BY {order}"
                  f" FETCH FIRST {draw.choice([1, 1, 2, 5])} ROWS WITH TIES")


def two_keys(draw, table, tables):
    """Conditions on the first columns of several keys, for index merge (union and intersection)."""
    firsts = list(dict.fromkeys(key.columns()[0] for key in table.keys if not key.hashed and key.columns()[0].family in COMPARABLE))
    if len(firsts) < 2:
        return queries.plain(draw, table, tables)
    chosen = draw.sample(firsts, min(len(firsts), draw.choice([2, 2, 3])))
    if any(queries.loses_edge(table, column, chosen) for column in chosen):
        return queries.plain(draw, table, tables)
    terms = [atom(draw, column, column.name) for column in chosen]
    test = draw.choice([" OR ", " OR ", " AND "]).join(terms)
    test = f"({test}) AND {condition(draw, table, used=set(chosen))}" if draw.random() < 0.3 else test
    columns = draw.choice([table.names(), _names(chosen), "COUNT(*)"])
    order, total = queries.order_by(draw, table, True) if draw.random() < 0.3 and "COUNT" not in columns else ("", False)
    return select(f"SELECT {columns} FROM {table.name} WHERE {test}{order}" + (f" LIMIT {draw.randint(1, 4)}" if total and draw.random() < 0.5 else ""), total)


def along_key(draw, table, tables):
    """Groups by a key's prefix, with MIN and MAX of its next column, for the loose index scan."""
    keys = [key for key in table.keys if not key.hashed and len(set(key.columns())) > 1 and all(column.exact and merges_right(table, column) for column in key.columns())
            and not any(column.family == "bit" or "ZEROFILL" in column.type for column in key.columns())]
    if not keys:
        return queries.aggregate(draw, table, tables)
    columns = list(dict.fromkeys(draw.choice(keys).columns()))
    size = draw.randint(1, len(columns) - 1)
    groups, following = columns[:size], columns[size]
    # At most one column has a range, see queries.aggregate().
    column = draw.choice(columns)
    test = f" WHERE {atom(draw, column, column.name)}" if draw.random() < 0.7 else ""
    listing = draw.choice([f"{_names(groups)}, MIN({following.name})", f"{_names(groups)}, MAX({following.name})", f"{_names(groups)}, MIN({following.name}), MAX({following.name})",
                           f"{_names(groups)}, COUNT(DISTINCT {following.name})"])
    return select(f"SELECT {listing} FROM {table.name}{hint(draw, table)}{test} GROUP BY {_names(groups)}")


def outer(draw, table, tables):
    """Outer joins whose right side is a join, and rows without matches."""
    second, third = draw.choice(tables), draw.choice(tables)
    first_pair, second_pair = pair(draw, table, second), pair(draw, second, third)
    if not first_pair or not second_pair or any(each.large for each in tables):
        return queries.joined(draw, table, tables)
    on = f"x.{first_pair[0].name} = y.{first_pair[1].name}"
    kind = draw.random()
    if kind < 0.35:
        return select(f"SELECT {_names(some_columns(draw, table), 'x.')} FROM {table.name} x LEFT JOIN {second.name} y ON {on} AND {condition(draw, second, 'y.', used={first_pair[1]})}"
                      f" WHERE y.{first_pair[1].name} IS NULL")
    if kind < 0.6:
        return select(f"SELECT COUNT(*), COUNT(x.{first_pair[0].name}), COUNT(y.{first_pair[1].name}) FROM {table.name} x RIGHT JOIN {second.name} y ON {on}{where(draw, second, 'y.', used={first_pair[1]})}")
    return select(f"SELECT COUNT(*), COUNT(y.{second_pair[0].name}), COUNT(z.{second_pair[1].name}) FROM {table.name} x LEFT JOIN ({second.name} y JOIN {third.name} z"
                  f" ON y.{second_pair[0].name} = z.{second_pair[1].name}) ON {on}{where(draw, table, 'x.', used={first_pair[0]})}")


def sets(draw, table, tables):
    """UNION, EXCEPT and INTERSECT, with and without ALL, of sorted and limited parts."""
    other = draw.choice(tables)
    found = pair(draw, table, other)
    if found is None or not found[0].exact or not found[1].exact or found[0].family == "bit" or "ZEROFILL" in found[0].type + found[1].type:
        return queries.union(draw, table, tables)
    left, right = (column.name for column in found)
    kind = draw.choice(["UNION ALL", "UNION", "EXCEPT ALL", "EXCEPT", "INTERSECT ALL", "INTERSECT"])
    order = " ORDER BY 1" if draw.random() < 0.5 else ""
    return select(f"(SELECT {left} FROM {table.name}{where(draw, table)} ORDER BY {left} LIMIT {draw.choice([1, 3, 10])}) {kind} (SELECT {right} FROM {other.name}"
                  f"{where(draw, other)} ORDER BY {right} DESC LIMIT {draw.choice([1, 3, 10])}){order}", bool(order))


def rows(draw, table, tables):
    """Rows of values that are compared with the rows of a subquery."""
    other = draw.choice(tables)
    pairs = [found for found in (queries.subquery_pair(draw, table, other) for _ in range(2)) if found]
    if len(pairs) < 2 or pairs[0] == pairs[1] or any(column.family not in ("int", "inet", "uuid", "bytes") for found in pairs for column in found):
        return two_keys(draw, table, tables)
    left, right = ", ".join("x." + found[0].name for found in pairs), ", ".join("y." + found[1].name for found in pairs)
    return select(f"SELECT {_names(some_columns(draw, table), 'x.')} FROM {table.name} x WHERE ({left}) {draw.choice(['IN', 'IN', 'NOT IN'])}"
                  f" (SELECT {right} FROM {other.name} y WHERE {condition(draw, other, 'y.', used={found[1] for found in pairs})})")


def counted(draw, table, tables):
    """COUNT(DISTINCT) of several columns, JSON aggregates, and groups with subqueries in HAVING."""
    exact = [column for column in table.columns if column.exact and merges_right(table, column) and column.family != "bit" and "ZEROFILL" not in column.type]
    if not exact:
        return queries.aggregate(draw, table, tables)
    chosen = draw.sample(exact, min(len(exact), 2))
    kind = draw.random()
    if kind < 0.4:
        return select(f"SELECT COUNT(*), COUNT(DISTINCT {_names(chosen)}) FROM {table.name}{hint(draw, table)}{where(draw, table)}")
    group, total = chosen[0].name, table.total_order(draw)
    if kind < 0.6 and total and chosen[0].family == "int":
        return select(f"SELECT {chosen[-1].name}, JSON_ARRAYAGG({group} ORDER BY {total}) FROM {table.name}{where(draw, table)} GROUP BY {chosen[-1].name}")
    column = draw.choice(table.columns)
    return select(f"SELECT {group}, COUNT(*) AS n FROM {table.name}{where(draw, table)} GROUP BY {group}"
                  f" HAVING n >= (SELECT COUNT(*) FROM {table.name} y WHERE y.{column.name} IS NULL) ORDER BY {group}", True)


def framed(draw, table, tables):
    """Window functions over frames of rows and of ranges of values, and ranks."""
    numbers = [column for column in table.columns if column.family == "int" and "ZEROFILL" not in column.type and "UNSIGNED" not in column.type]
    if not numbers or not table.total_order():
        return queries.windowed(draw, table, tables)
    column = draw.choice(numbers).name
    total = table.total_order(draw)
    function = draw.choice([f"SUM({column}) OVER (ORDER BY {total} ROWS UNBOUNDED PRECEDING)", f"COUNT(*) OVER (ORDER BY {column} RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)",
                            f"LAST_VALUE({column}) OVER (ORDER BY {total} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", f"NTH_VALUE({column}, 2) OVER (ORDER BY {total})",
                            f"LEAD({column}, 2) OVER (ORDER BY {total})", f"CUME_DIST() OVER (ORDER BY {column})", f"PERCENT_RANK() OVER (ORDER BY {column})"])
    return select(f"SELECT {column}, {function} FROM {table.name}{where(draw, table)}")


def skipping(draw, table, tables):
    """Locking reads of one session, without conflicts."""
    order, total = queries.order_by(draw, table, True)
    lock = draw.choice(["FOR UPDATE SKIP LOCKED", "LOCK IN SHARE MODE SKIP LOCKED", "FOR UPDATE NOWAIT", "LOCK IN SHARE MODE WAIT 1"])
    return select(f"SELECT {_names(some_columns(draw, table))} FROM {table.name}{hint(draw, table)}{where(draw, table)}{order}{' LIMIT 2' if total else ''} {lock}", total)


def query(draw, table, tables):
    maker = draw.choices([ties, two_keys, along_key, outer, sets, rows, counted, framed, skipping], [3, 6, 5, 4, 2, 2, 2, 1, 1])[0]
    return maker(draw, table, tables)


def by_every_key(draw, table, tables):
    """One query by every key that it can use, and without a key."""
    usable = [key.usable_name() for key in table.keys if not key.ignored]
    if not usable or not table.hints:
        return [queries.plain(draw, table, tables)]
    order, total = queries.order_by(draw, table, False)
    listing, test = _names(some_columns(draw, table)), where(draw, table)
    limit = f" LIMIT {draw.choice([1, 3, 10])}" if total and draw.random() < 0.4 else ""
    hints = [" USE INDEX ()", f" IGNORE INDEX ({', '.join(usable)})", *(f" {verb} INDEX ({name})" for name in usable for verb in ("FORCE", "IGNORE", "USE"))]
    return [select(f"SELECT {listing} FROM {table.name}{each}{test}{order}{limit}", total) for each in ["", *hints]]
