"""Random INSERT, REPLACE, UPDATE, DELETE and LOAD DATA.

The manual leaves the following undefined, so it is avoided. (1) The row that ON DUPLICATE KEY UPDATE changes if
several unique keys match. It is the row of the first key, but the order of InnoDB's keys changes with an ALTER in
place. So the table then has at most one unique key, or was not altered. (2) The order of changes without ORDER BY. So
there is an ORDER BY if the order matters. (3) The gaps of AUTO_INCREMENT. So the counter is set before values are
generated.
"""

import re

from . import parameters, queries
from .statement import Statement
from .text import quoted


def writable(table):
    return [column for column in table.columns if not column.generated]


def value(draw, column):
    # Zero and NULL would generate a value, even in transactions, in which the counter cannot be set.
    return draw.choice(column.pool) if column.auto_increment else column.literal(draw)


def row(draw, columns):
    return "(" + ", ".join(value(draw, column) for column in columns) + ")"


def insert(draw, table, tables, rows=None):
    columns = writable(table)
    if draw.random() < 0.15 and len(columns) > 1:
        # The implicit default of a NOT NULL geometry is empty, which InnoDB accepts in a new row but not in a changed one.
        columns = [column for column in columns if column.auto_increment or column.family == "geometry" or draw.random() < 0.8] or columns
    values = ", ".join(row(draw, columns) for _ in range(rows or draw.choices([1, 2, 3, 8], [5, 3, 2, 1])[0]))
    names = ", ".join(column.name for column in columns)
    kind = draw.random()
    unique = len(table.unique_keys())
    verb = "REPLACE" if kind < 0.2 else "INSERT IGNORE" if kind < 0.5 else "INSERT"
    text = f"{verb} INTO {table.name} ({names}) VALUES {values}"
    if verb == "INSERT" and kind > 0.7 and (unique <= 1 or table.fresh) and not any("ON UPDATE" in column.default for column in table.columns):
        text += " ON DUPLICATE KEY UPDATE " + ", ".join(upsert(draw, column) for column in draw.sample(columns, min(len(columns), draw.randint(1, 3))))
    if draw.random() < 0.1:
        text += " RETURNING " + ", ".join(column.name for column in queries.some_columns(draw, table))
    # A row that ON DUPLICATE KEY UPDATE does not change counts as 0 affected rows according to the manual and in Teak,
    # Aria and MyISAM, but as 1 in InnoDB.
    return [Statement(text, ordered=True, counts=" ON DUP" not in text)]


def upsert(draw, column):
    return f"{column.name} = " + draw.choice([f"VALUES({column.name})", value(draw, column), column.name,
                                              f"{column.name} + 1" if column.family == "int" and not column.auto_increment else column.name])


def insert_generated(draw, table, tables):
    counter = table.auto_increment()
    # In partitioned tables InnoDB ignores values that an UPDATE has set, even in ALTER ... AUTO_INCREMENT. MyISAM, Aria
    # and Teak do not.
    if counter is None or table.partition_kind:
        return insert(draw, table, tables)
    columns = [column for column in writable(table) if column is not counter]
    names = ", ".join(column.name for column in [counter, *columns])
    rows = ", ".join("(" + ", ".join([draw.choice(["NULL", "NULL", "0", "DEFAULT"]), *(value(draw, column) for column in columns)]) + ")"
                     for _ in range(draw.randint(1, 4)))
    return [Statement(f"ALTER TABLE {table.name} AUTO_INCREMENT = 1"), Statement(f"INSERT INTO {table.name} ({names}) VALUES {rows}"),
            Statement("SELECT LAST_INSERT_ID()")]


def insert_select(draw, table, tables):
    source = draw.choice(tables)
    order, total = queries.order_by(draw, source, True)
    if not total:
        return insert(draw, table, tables)
    targets, sources = [], []
    for column in writable(table):
        same = [other for other in source.columns if other.family == column.family and other.plain == column.plain and other.type.split("(")[0] == column.type.split("(")[0]]
        if column.auto_increment:
            same = [other for other in same if other.auto_increment]
            if not same:
                return insert(draw, table, tables)
        targets.append(column.name)
        sources.append(draw.choice(same).name if same and draw.random() < 0.9 else value(draw, column))
        if sources[-1] == "DEFAULT":
            targets.pop()
            sources.pop()
    # If source and target are the same table, the rows pass through a temporary table. Some plans fill it in another
    # order than that of ORDER BY. If the temporary table rejects a date, the plan also determines the number of rows
    # that are read before the statement fails.
    ordered = source is not table
    verb = draw.choice(["INSERT", "INSERT IGNORE", "INSERT IGNORE", "REPLACE"]) if ordered else "INSERT"
    return [Statement(f"{verb} INTO {table.name} ({', '.join(targets)}) SELECT {', '.join(sources)} FROM {source.name}"
                      f"{queries.where(draw, source)}{order}" + (f" LIMIT {draw.randint(1, 10)}" if ordered and draw.random() < 0.5 else ""), warnings=ordered)]


def assignments(draw, table, order_free):
    """The SET list. `order_free`: rows may be changed in any order, so it has only constants and no unique keys."""
    unique = {column.name for key in table.unique_keys() for column in key.columns()}
    generated_keys = any(column.generated for key in table.unique_keys() for column in key.columns())
    # InnoDB does not always detect that a row is unchanged. Then it sets ON UPDATE columns, which contradicts the
    # manual.
    stamps = [column for column in table.columns if "ON UPDATE" in column.default]
    if order_free and generated_keys:
        return ""
    columns = [column for column in writable(table) if column not in stamps and not (order_free and column.name in unique)]
    if order_free and any(column.name in unique for column in stamps):
        return ""
    if not columns:
        return ""
    terms = [f"{column.name} = {column.probe(draw)}" for column in stamps]
    for column in draw.sample(columns, min(len(columns), draw.choice([1, 1, 2, 3]))):
        kind = draw.random()
        if kind < 0.6 or order_free:
            terms.append(f"{column.name} = {value(draw, column)}")
        elif column.family == "int":
            terms.append(f"{column.name} = {column.name} {draw.choice(['+ 1', '+ 10'] if column.auto_increment else ['+ 1', '- 1', '* 2', '+ 10'])}")
        elif column.family == "text":
            terms.append(f"{column.name} = " + draw.choice([f"CONCAT({column.name}, ' ')", f"LEFT({column.name}, 2)", f"UPPER({column.name})",
                                                            f"CONCAT({column.name}, {column.probe(draw)})"]))
        else:
            # In a NOT NULL column, NULL becomes an empty geometry. InnoDB rejects it in an UPDATE; MyISAM, Aria and
            # Teak accept it.
            other = draw.choice([other for other in table.columns if other.family == column.family and other.plain == column.plain
                                 and (column.family != "geometry" or column.nullable or not other.nullable)])
            terms.append(f"{column.name} = {other.name}")
    return ", ".join(terms)


def update(draw, table, tables):
    order, total = queries.order_by(draw, table, True)
    terms = assignments(draw, table, not total)
    if not terms:
        return insert(draw, table, tables)
    ignore = "IGNORE " if total and draw.random() < 0.3 else ""
    # Because of a bug in the server, InnoDB finds no rows of a partitioned table by a key after a statement for which
    # all partitions were pruned.
    limit = f" LIMIT {draw.randint(1, 5)}" if total and not table.partitions and draw.random() < 0.3 else ""
    # Without a total order, only constants are assigned: the statement fails for every order of rows or for none. But
    # the number of warnings depends on the plan.
    return [*unpruned(table), Statement(f"UPDATE {ignore}{table.name} SET {terms}{queries.where(draw, table)}{order}{limit}", warnings=total)]


def update_joined(draw, table, tables):
    other = draw.choice(tables)
    found = queries.pair(draw, table, other)
    terms = assignments(draw, table, True)
    if not found or not terms or table.partitions and any(f"{column.name} =" in terms for column in table.partition_columns):
        return update(draw, table, tables)
    qualified = ", ".join("x." + term for term in split_terms(terms))
    if other is not table and not other.partitions and not other.versioned and not any(column.generated for column in found) and not qualified.startswith(f"x.{found[0].name} =") and f", x.{found[0].name} =" not in qualified:
        # The UPDATE must not change the columns on which the tables are joined: otherwise the plan would determine
        # whether the join finds a changed row again.
        both = [term for term in split_terms(assignments(draw, other, True)) if term and not term.startswith(found[1].name + " =")]
        qualified += "".join(", y." + term for term in both if draw.random() < 0.5)
    return [Statement(f"UPDATE {table.name} x JOIN {other.name} y ON x.{found[0].name} = y.{found[1].name} SET {qualified}"
                      f"{queries.where(draw, table, 'x.', used={found[0]})}", warnings=False)]


def split_terms(terms):
    """The assignments of a list of constants; a constant may contain commas within quotes or parentheses."""
    found, depth, quote, current = [], 0, False, ""
    for letter in terms:
        if letter == "'":
            quote = not quote
        elif not quote:
            depth += (letter == "(") - (letter == ")")
        if letter == "," and not quote and depth == 0:
            found.append(current.strip())
            current = ""
        else:
            current += letter
    return [*found, current.strip()]


def delete_history(draw, table):
    before = draw.choice(["", " BEFORE SYSTEM_TIME TIMESTAMP FROM_UNIXTIME(1700000050)"])
    return [Statement(f"DELETE HISTORY FROM {table.name}{before}", warnings=False)]


def delete(draw, table, tables):
    if table.versioned and draw.random() < 0.1:
        return delete_history(draw, table)
    order, total = queries.order_by(draw, table, True) if draw.random() < 0.4 else ("", False)
    limit = f" LIMIT {draw.randint(1, 5)}" if total and not table.partitions else ""
    # Usually has a condition, so that it rarely deletes all rows; conditions that are true for most rows empty the
    # table soon enough.
    text = f"DELETE FROM {table.name}{queries.where(draw, table, '', 0.97)}{order}{limit}"
    if draw.random() < 0.15:
        text += " RETURNING " + ", ".join(column.name for column in queries.some_columns(draw, table))
    return [*unpruned(table), Statement(text, ordered=total, warnings=False)]


def unpruned(table):
    """If all partitions were pruned for a statement, the server does not reset this state, and the next change by a key
    finds no rows, in MyISAM, Aria and InnoDB. A SELECT of all partitions resets it."""
    return [Statement(f"SELECT COUNT(*) FROM {table.name}")] if table.partitions else []


def delete_joined(draw, table, tables):
    other = draw.choice(tables)
    found = queries.pair(draw, table, other)
    if not found or other is table:
        return delete(draw, table, tables)
    from_ = draw.choice(["x", "x", "x, y"])
    return [Statement(f"DELETE {from_} FROM {table.name} x JOIN {other.name} y ON x.{found[0].name} = y.{found[1].name}"
                      f" WHERE {queries.condition(draw, table, 'x.', used={found[0]})}", warnings=False)]


def load(draw, table, tables):
    """Writes rows of the table to a file, and loads them into the same table."""
    total = table.total_order()
    if not total:
        return insert(draw, table, tables)
    columns = writable(table)
    names = ", ".join(column.name for column in columns)
    path = "{run}/load-{db}-" + str(draw.getrandbits(60))
    shape = draw.choice(["", " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'"])
    verb = draw.choice(["IGNORE ", "REPLACE ", "REPLACE ", ""])
    steps = [Statement(f"SELECT {names} INTO OUTFILE '{path}' CHARACTER SET binary{shape} FROM {table.name}{queries.where(draw, table)} ORDER BY {total}",
                       warnings=False)]
    if draw.random() < 0.5:
        steps.append(Statement(f"DELETE FROM {table.name}{queries.where(draw, table)}", warnings=False))
    names = ", ".join(column.name if draw.random() < 0.9 else f"@{column.name}" for column in columns)
    through = ", ".join(f"{name[1:]} = {name}" for name in names.split(", ") if name.startswith("@"))
    steps.append(Statement(f"LOAD DATA INFILE '{path}' {verb}INTO TABLE {table.name} CHARACTER SET binary{shape} ({names}){' SET ' if through else ''}{through}"))
    return steps


def bound(draw, table, tables):
    """A statement with parameters through the binary protocol."""
    kind = draw.random()
    columns = writable(table)
    if kind < 0.35:
        return parameters.insert(draw, table, columns, value)
    made = kind < 0.6 and parameters.change_of_row(draw, table, draw.choice([column for column in columns if not column.auto_increment] or [None]), value)
    return made or parameters.select(draw, table, tables)


def prepared(draw, table, tables):
    kind = draw.random()
    if kind < 0.6:
        return [bound(draw, table, tables)]
    if kind < 0.8:
        # For a column of another type, the variable would be a string. Whether the comparison then uses a key, and so
        # which conversion it uses, is undefined.
        column = draw.choice([column for column in table.columns if column.family in ("int", "decimal", "text")] or [None])
        if column is None:
            return insert(draw, table, tables)
        operator = draw.choice(["=", "<", ">=", "<=>"])
        names = table.names()
        steps = [Statement(f"PREPARE s FROM {quoted(f'SELECT {names} FROM {table.name} WHERE {column.name} {operator} ?')}")]
        for _ in range(3):
            steps += [Statement(f"SET @v = {column.probe(draw)}"), Statement("EXECUTE s USING @v", warnings=False)]
        return [*steps, Statement("DEALLOCATE PREPARE s")]
    *before, inner = draw.choice([insert, update, delete])(draw, table, tables)
    return [*before, Statement(f"EXECUTE IMMEDIATE {quoted(inner.text)}", ordered=inner.ordered, warnings=inner.warnings, counts=inner.counts)]


def by_subquery(draw, table, tables):
    """UPDATE or DELETE of the rows of a subquery."""
    other = draw.choice(tables)
    found = queries.subquery_pair(draw, table, other)
    terms = assignments(draw, table, True)
    # A plan with a temporary table rejects existing zero dates that the SQL mode does not allow.
    if not found or not terms or found[0].family == "temporal":
        return delete(draw, table, tables)
    left, right = (column.name for column in found)
    inner = queries.condition(draw, other, "y.", used={found[1]})
    test = draw.choice([f"{table.name}.{left} IN (SELECT y.{right} FROM {other.name} y WHERE {inner})",
                        f"{table.name}.{left} NOT IN (SELECT y.{right} FROM {other.name} y WHERE {inner})",
                        f"EXISTS (SELECT 1 FROM {other.name} y WHERE y.{right} = {table.name}.{left} AND {inner})"])
    test += f" AND {queries.condition(draw, table, used={found[0]})}" if draw.random() < 0.7 else ""
    text = f"UPDATE {table.name} SET {terms}" if draw.random() < 0.6 else f"DELETE FROM {table.name}"
    return [*unpruned(table), Statement(f"{text} WHERE {test}", warnings=False)]


def insert_forms(draw, table, tables):
    """INSERT in its rarer forms."""
    columns = writable(table)
    counter = table.auto_increment()
    verb = draw.choice(["INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO"])
    if draw.random() < 0.1 and not counter:
        # An empty geometry: see insert().
        verb = verb if not any(column.family == "geometry" and not column.nullable for column in columns) else "INSERT INTO"
        return [Statement(f"{verb} {table.name} () VALUES ()")]
    if draw.random() < 0.5:
        return [Statement(f"{verb} {table.name} SET " + ", ".join(f"{column.name} = {value(draw, column)}" for column in columns))]
    source = draw.choice(tables)
    total = source.total_order()
    if not total or source is table or counter:
        return insert(draw, table, tables)
    names = ", ".join(column.name for column in columns)
    text = f" {table.name} ({names}) SELECT {', '.join(value(draw, column).replace('DEFAULT', 'NULL') for column in columns)} FROM {source.name}" \
           f"{queries.where(draw, source)} ORDER BY {total} LIMIT 3"
    if draw.random() < 0.5:
        return [Statement(f"{verb}{text} RETURNING {table.names()}", ordered=True)]
    if len(table.unique_keys()) > 1 and not table.fresh or any("ON UPDATE" in column.default for column in table.columns):
        return [Statement(verb + text)]
    return [Statement(f"INSERT INTO{text} ON DUPLICATE KEY UPDATE {', '.join(upsert(draw, column) for column in draw.sample(columns, 1))}", counts=False, warnings=False)]


def bulk(draw, table, tables, deep=False):
    """An INSERT IGNORE or REPLACE of 60 or 120 rows; `deep`: of 1000 rows, which fill several pages."""
    if table.versioned:
        return insert(draw, table, tables)
    table.large = table.large or deep
    columns = writable(table)
    terms = []
    for column in columns:
        if column.auto_increment:
            terms.append("seq + 50")
        elif column.family == "int":
            terms.append(draw.choice(["seq % 100", "seq % 7", "101 - seq % 100"] + ["seq", "seq % 1009"] * deep))
        elif column.family in ("text", "bytes") and column.length > 9 and (column.plain or column.family == "bytes"):
            terms.append(f"CONCAT(seq % {draw.choice([10, 1000])}, {draw.choice(['1', 'REPEAT(seq % 3, 5)'])})")
        else:
            terms.append(f"ELT(1 + seq % 3, {', '.join(column.probe(draw) for _ in range(3))})" if column.family not in ("geometry", "bit") else column.probe(draw))
    verb = draw.choice(["INSERT IGNORE", "REPLACE"])
    return [Statement(f"{verb} INTO {table.name} ({', '.join(column.name for column in columns)}) SELECT {', '.join(terms)} FROM seq_1_to_{1000 if deep else draw.choice([60, 120])} ORDER BY seq",
                      warnings=False)]


def of_partition(draw, table, tables):
    """Changes that name the partitions they may touch."""
    # To check a hashed key, the server reads partitions that it has not locked. InnoDB crashes in this case.
    if not table.partition_names or any(key.hashed for key in table.keys):
        return insert(draw, table, tables)
    *before, statement = draw.choice([insert, insert, update, delete])(draw, table, tables)
    names = ", ".join(draw.sample(table.partition_names, draw.randint(1, min(2, len(table.partition_names)))))
    text = re.sub(rf"^((?:INSERT|REPLACE|UPDATE|DELETE)(?: IGNORE)?(?: INTO| FROM)? {table.name})\b", rf"\1 PARTITION ({names})", statement.text)
    return [*before, statement.with_text(text)]


def change_of_text(draw, table, tables):
    """Changes without parameters, for a block of statements."""
    return draw.choices([insert, update, delete, insert_select, by_subquery], [5, 4, 2, 1, 1])[0](draw, table, tables)


def change(draw, table, tables, in_transaction):
    maker = draw.choices([insert, insert_generated if not in_transaction else insert, insert_select, update, update_joined, delete, delete_joined,
                          load, prepared, by_subquery, insert_forms, of_partition],
                         [24, 4, 4, 16, 4, 8, 4, 2, 8, 4, 4, 8 if table.partition_names else 0])[0]
    return maker(draw, table, tables)
