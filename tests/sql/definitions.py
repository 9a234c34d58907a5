"""Random ALTER TABLE and other DDL. The generator's model of a table is updated when the server has accepted a statement.

The statements' affected rows and line of information show how many rows were copied, which depends on the algorithm and is not compared.
"""

import copy
import re

from . import changes, queries, triggers
from .columns import make_column, make_generated
from .schema import make_hashed_key, make_key, make_partitions, storage
from .statement import Statement
from .wider import wider


NOT_BY_ALGORITHM = "1845, 1846"  # ER_ALTER_OPERATION_NOT_SUPPORTED and the same with a reason


class Unusable(Exception):
    """The change is not possible for the table."""


def _free_columns(table):
    """Columns that no key, partitioning or generated column depends on, and that are not AUTO_INCREMENT."""
    bound = {column.name for key in table.keys for column in key.columns()} | {column.name for column in table.partition_columns}
    depending = " ".join(column.generated or "" for column in table.columns)
    return [column for column in table.columns if column.name not in bound and column.name not in depending and not column.auto_increment]


def _pick(draw, choices):
    choices = list(choices)
    if not choices:
        raise Unusable
    return draw.choice(choices)


def _place(draw, table):
    kind = draw.random()
    if kind < 0.5:
        return "", len(table.columns)
    if kind < 0.65:
        return " FIRST", 0
    at = draw.randrange(len(table.columns))
    return f" AFTER {table.columns[at].name}", at + 1


def add_column(draw, table, collations):
    column = make_generated(draw, table.new_name("g"), table.base_columns()) if draw.random() < 0.25 else None
    column = column or make_column(draw, table.new_name("c"), collations)
    if table.partition_kind.endswith("COLUMNS"):
        column.stored = True  # see make_partitions()
    place, at = _place(draw, table)
    return f"ADD COLUMN {column.definition()}{place}", lambda: table.columns.insert(min(at, len(table.columns)), column)


def drop_column(draw, table, collations):
    column = _pick(draw, _free_columns(table))
    if sum(1 for other in table.base_columns() if not other.invisible) < 3:
        raise Unusable
    return f"DROP COLUMN {column.name}", lambda: table.columns.remove(column)


def modify_column(draw, table, collations):
    column = _pick(draw, table.base_columns())
    if column.auto_increment or column in table.partition_columns or column.compressed:
        raise Unusable
    changed = copy.copy(column)
    kind = draw.random()
    if draw.random() < 0.4:
        changed = wider(draw, column, column not in _free_columns(table))
        if changed is None:
            raise Unusable
    elif kind < 0.3 and column.type.startswith("VARCHAR"):
        changed.length = max(1, column.length + draw.choice([1, 10, 300, -1]))
        changed.type = f"VARCHAR({changed.length})"
        changed.key_bytes += 4 * max(0, changed.length - column.length)
    elif kind < 0.5 and column not in _key_columns(table):
        changed.nullable = not column.nullable
    elif kind < 0.6 and column.collation:
        changed.charset, changed.collation = collations.choose_for(draw, column)
    elif kind < 0.75:
        changed.invisible = not column.invisible and (column.nullable or bool(column.default))
    elif column not in _free_columns(table):
        raise Unusable
    else:
        changed = make_column(draw, column.name, collations)
    place, _ = _place(draw, table) if draw.random() < 0.2 else ("", 0)

    def then():
        for name in ("family", "type", "pool", "nullable", "charset", "collation", "length", "key_bytes", "plain", "default", "check", "invisible"):
            setattr(column, name, getattr(changed, name))
    return f"MODIFY COLUMN {changed.definition()}{place}", then


def _key_columns(table):
    return {column for key in table.keys for column in key.columns()}


def rename_column(draw, table, collations):
    column = _pick(draw, [column for column in table.columns if column in _free_columns(table) and not column.check or column in _key_columns(table)
                          and column not in table.partition_columns and not column.check
                          and not any(column.name in (other.generated or "") for other in table.columns)])
    new = table.new_name("r")
    return f"RENAME COLUMN {column.name} TO {new}", lambda: setattr(column, "name", new)


def set_default(draw, table, collations):
    column = _pick(draw, [column for column in table.base_columns() if not column.auto_increment and column.family not in ("geometry",)])
    value = draw.choice(column.pool)
    return f"ALTER COLUMN {column.name} SET DEFAULT {value}", lambda: setattr(column, "default", value)


def add_key(draw, table, collations):
    kind = draw.choice(["KEY", "KEY", "UNIQUE"])
    key = make_hashed_key(draw, table) if draw.random() < 0.1 else make_key(draw, table, kind)
    if key is None:
        raise Unusable
    return f"ADD {key.definition()}", lambda: table.keys.append(key)


def drop_key(draw, table, collations):
    key = _pick(draw, [key for key in table.keys if key.kind != "PRIMARY"])
    return f"DROP KEY {key.name}", lambda: table.keys.remove(key)


def rename_key(draw, table, collations):
    key = _pick(draw, [key for key in table.keys if key.kind != "PRIMARY"])
    new = table.new_name("k")
    return f"RENAME KEY {key.name} TO {new}", lambda: setattr(key, "name", new)


def change_primary(draw, table, collations):
    old = next((key for key in table.keys if key.kind == "PRIMARY"), None)
    if old and (old.columns()[0].auto_increment or table.partitions):
        raise Unusable
    key = make_key(draw, table, "PRIMARY")
    if key is None or draw.random() < 0.2 and old is None:
        raise Unusable
    if old and draw.random() < 0.3:
        return "DROP PRIMARY KEY", lambda: table.keys.remove(old)

    def then():
        if old:
            table.keys.remove(old)
        table.keys.insert(0, key)
        for column in key.columns():
            column.nullable = False
    return ("DROP PRIMARY KEY, " if old else "") + f"ADD {key.definition()}", then


def convert(draw, table, collations):
    if table.partition_kind.endswith("COLUMNS") and table.partition_columns[0].family == "text":
        raise Unusable
    charset, collation = collations.choose_for(draw, *(column for column in table.base_columns() if column.family == "text"))

    def then():
        for column in table.columns:
            if column.family == "text" and not column.generated and column.charset != "binary":
                if charset == "binary":
                    column.family, column.charset, column.collation = "bytes", None, None
                    column.type = column.type.replace("VARCHAR", "VARBINARY").replace("CHAR(", "BINARY(").replace("TEXT", "BLOB")
                else:
                    column.charset, column.collation = charset, collation
    return f"CONVERT TO CHARACTER SET {charset} COLLATE {collation}", then


def force(draw, table, collations):
    return draw.choice(["FORCE", "COMMENT 'y'", "AUTO_INCREMENT = 1"]), None


def repartition(draw, table, collations):
    if table.versioned and not table.partitions:
        raise Unusable
    if table.partitions and draw.random() < 0.4:
        def removed():
            table.partitions, table.partition_kind, table.partition_names, table.partition_columns = "", "", [], []
        return "REMOVE PARTITIONING", removed
    if table.versioned:
        raise Unusable
    changed = copy.copy(table)
    changed.partitions = ""
    if any(key.clustering for key in table.keys):
        raise Unusable
    make_partitions(draw, changed)
    if not changed.partitions:
        raise Unusable

    def then():
        for name in ("partitions", "partition_kind", "partition_names", "partition_columns"):
            setattr(table, name, getattr(changed, name))
    return changed.partitions.strip(), then


def partition_change(draw, table, collations):
    if not table.partitions:
        raise Unusable
    if table.partition_kind == "SYSTEM_TIME":
        raise Unusable
    if table.partition_kind in ("HASH", "LINEAR HASH", "KEY"):
        return draw.choice(["ADD PARTITION PARTITIONS 1", "COALESCE PARTITION 1", "REBUILD PARTITION ALL", "TRUNCATE PARTITION p0"]), None
    name = _pick(draw, table.partition_names)
    kind = draw.random()
    if kind < 0.4:
        return draw.choice([f"TRUNCATE PARTITION {name}", f"REBUILD PARTITION {name}", "REBUILD PARTITION ALL"]), None
    if kind < 0.55 and len(table.partition_names) > 1:
        return f"DROP PARTITION {name}", lambda: table.partition_names.remove(name)
    if kind < 0.6 and len(table.partition_names) > 1:
        return f"CONVERT PARTITION {name} TO TABLE parted{draw.randrange(10**9)}", lambda: table.partition_names.remove(name)
    if table.partition_kind == "RANGE" and name == table.partition_names[-1]:
        new, bound = table.new_name("p"), draw.choice([60, 70, 200, 1000])

        def split():
            table.partition_names[-1:] = [new, name]
        return (f"REORGANIZE PARTITION {name} INTO (PARTITION {new} VALUES LESS THAN ({bound}), PARTITION {name} VALUES LESS THAN MAXVALUE)", split)
    if len(table.partition_names) > 2 and table.partition_kind == "RANGE":
        at = draw.randrange(len(table.partition_names) - 1)
        first, second = table.partition_names[at:at + 2]
        if second != table.partition_names[-1]:
            raise Unusable
        return f"REORGANIZE PARTITION {first}, {second} INTO (PARTITION {second} VALUES LESS THAN MAXVALUE)", lambda: table.partition_names.remove(first)
    raise Unusable


def system_versioning(draw, table, collations):
    if table.partitions:
        raise Unusable

    def then():
        table.versioned = not table.versioned
    return ("DROP" if table.versioned else "ADD") + " SYSTEM VERSIONING", then


def change_column(draw, table, collations):
    """Another name, type and position in one clause."""
    column = _pick(draw, [column for column in _free_columns(table) if not column.generated and not column.check and not column.compressed])
    changed = make_column(draw, table.new_name("r"), collations)
    place, _ = _place(draw, table) if draw.random() < 0.3 else ("", 0)
    if f" AFTER {column.name}" == place:
        place = ""
    return f"CHANGE COLUMN {column.name} {changed.definition()}{place}", lambda: table.columns.__setitem__(table.columns.index(column), changed)


def ignore_key(draw, table, collations):
    key = _pick(draw, [key for key in table.keys if key.kind != "PRIMARY"])
    return f"ALTER KEY {key.name} {'NOT IGNORED' if key.ignored else 'IGNORED'}", lambda: setattr(key, "ignored", not key.ignored)


def check(draw, table, collations):
    if table.checks and draw.random() < 0.5:
        name = draw.choice(table.checks)
        return f"DROP CONSTRAINT {name}", lambda: table.checks.remove(name)
    column = _pick(draw, [column for column in table.columns if column.family in ("int", "decimal", "temporal")])
    name = table.new_name("ck")
    return f"ADD CONSTRAINT {name} CHECK ({column.name} IS NULL OR {column.name} {draw.choice(['<>', '<', '>='])} {column.probe(draw)})", \
        lambda: table.checks.append(name)


def options(draw, table, collations):
    return draw.choice(["COMMENT 'z'" + storage(draw, 1), "ENGINE={engine}", "AVG_ROW_LENGTH = 100", "MAX_ROWS = 1000", "CHECKSUM = 1", "STATS_PERSISTENT = 1",
                        "DEFAULT CHARACTER SET latin1", "STATS_SAMPLE_PAGES = 2" + storage(draw, 1), "COMMENT 'w'" + storage(draw, 1)]), None


def sort_rows(draw, table, collations):
    return f"ORDER BY {draw.choice([column for column in table.columns if column.family != 'geometry'] or [table.columns[0]]).name}", None


ACTIONS = [(change_column, 3), (ignore_key, 3), (check, 2), (options, 3), (sort_rows, 0.5), (add_column, 8), (drop_column, 5), (modify_column, 8), (rename_column, 3), (set_default, 3), (add_key, 10), (drop_key, 7), (rename_key, 2),
           (change_primary, 4), (convert, 2), (force, 3), (repartition, 2), (system_versioning, 0.7)]


def differs_in_place(table, change):
    """Whether an ALTER in place has a different result in InnoDB. InnoDB then replaces NULL by the column's default,
    does not check JSON, and does not reorder a key on the prefix of a column for the new collation (which may crash
    the server later)."""
    if change.startswith("MODIFY"):
        column = next(column for column in table.columns if column.name == change.split()[2])
        return " NOT NULL" in change and column.nullable or column in _key_columns(table) and bool(column.collation) and f" COLLATE {column.collation} " not in change + " "
    return "ADD PRIMARY KEY" in change or " JSON NOT NULL" in change or change.startswith("CONVERT TO")


def alter(draw, table, collations, copies=False):
    """One ALTER TABLE, sometimes with several changes. `copies`: it must copy the table."""
    if table.partitions and draw.random() < 0.35:
        actions = [partition_change]
    else:
        actions = draw.choices([action for action, _ in ACTIONS], [weight for _, weight in ACTIONS], k=draw.choices([1, 2, 3, 4], [16, 3, 1, 1])[0])
    alone = [action for action in actions if action in (repartition, system_versioning, change_primary, sort_rows)]
    if alone and len(actions) > 1:
        actions = alone[:1]
    made = []
    try:
        made = [action(draw, table, collations) for action in actions]
    except Unusable:
        return []

    def then():
        table.fresh = False
        for _, change in made:
            if change:
                change()
    copies = copies or any(differs_in_place(table, text) for text, _ in made)
    algorithm = ", ALGORITHM=COPY" if partition_change not in actions and repartition not in actions and (copies or draw.random() < 0.3) else ""
    # When InnoDB copies with IGNORE, a duplicate also removes the row that should remain.
    ignore = "IGNORE " if draw.random() < 0.1 and not table.unique_keys() and not any("UNIQUE" in text or "PRIMARY" in text for text, _ in made) else ""
    text = f"ALTER {ignore}TABLE {table.name} {', '.join(text for text, _ in made)}"
    # If the statement that opened the cached table named it by an alias, the server does not rename the column in CHECK
    # constraints, generated columns and defaults, and then reports it as unknown, with every engine. Which statement
    # opened a table depends on the contents of the table cache.
    closed = [Statement(f"FLUSH TABLES {table.name}")] if any(action in (rename_column, change_column) for action in actions) else []
    if not algorithm and not alone and partition_change not in actions and draw.random() < 0.4:
        return [*closed, Statement(by_algorithm(draw, text), counts=False, warnings=False, then=then)]
    return [*closed, Statement(text + algorithm, counts=False, warnings=False, then=then)]


def by_algorithm(draw, text):
    """Adds a random ALGORITHM and LOCK to the statement. If the engine does not support them for the change, the
    statement runs without them."""
    clauses = draw.choice(["", ", ALGORITHM=INSTANT", ", ALGORITHM=NOCOPY", ", ALGORITHM=INPLACE", ", ALGORITHM=COPY"])
    clauses += draw.choice(["", ", LOCK=NONE", ", LOCK=SHARED", ", LOCK=EXCLUSIVE"])
    return f"BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR {NOT_BY_ALGORITHM} {text}; {text}{clauses}; END"


def other(draw, table, tables):
    """TRUNCATE, RENAME TABLE, CREATE ... SELECT or LIKE, EXCHANGE PARTITION, triggers, HANDLER, temporary tables."""
    kind = "exchange" if table.partition_names and draw.random() < 0.3 else draw.choice(["truncate", "rename", "select", "like", "handler", "handler", "handler", "temporary", "exchange", "triggers", "triggers"])
    columns = table.names()
    if kind == "triggers":
        # The history cannot distinguish two changes of a row at the same instant.
        return [] if table.versioned else triggers.scene(draw, table, tables)
    if kind == "truncate":
        return [Statement(f"TRUNCATE TABLE {table.name}")] if draw.random() < 0.3 else []
    if kind == "rename":
        return [Statement(f"RENAME TABLE {table.name} TO moved"), Statement("SELECT COUNT(*) FROM moved"),
                Statement(f"RENAME TABLE moved TO {table.name}")]
    if kind == "select":
        total = table.total_order()
        order = f" ORDER BY {total}" if total else ""
        return [Statement(f"CREATE TABLE made (KEY ({_pick_indexed(draw, table)})) SELECT {columns} FROM {table.name}{queries.where(draw, table)}{order}",
                          warnings=False),
                Statement("SELECT * FROM made", warnings=False), Statement("CHECK TABLE made EXTENDED"),
                *unique_from(draw, table, order), Statement("CREATE OR REPLACE TABLE made AS SELECT COUNT(*) AS n FROM " + table.name), Statement("SELECT * FROM made"),
                Statement("DROP TABLE IF EXISTS made", warnings=False)]
    base = ", ".join(column.name for column in table.base_columns())
    if kind == "like":
        return [Statement(f"CREATE TABLE made LIKE {table.name}"), Statement(f"INSERT INTO made ({base}) SELECT {base} FROM {table.name}", warnings=False, counts=False),
                Statement(f"SELECT {columns} FROM made", warnings=False), Statement("CHECK TABLE made EXTENDED"), Statement("DROP TABLE made")]
    if kind == "exchange":
        if table.partition_kind not in ("RANGE", "LIST", "RANGE COLUMNS", "LIST COLUMNS") or not table.partition_names:
            return []
        name = draw.choice(table.partition_names)
        made = copy.copy(table)
        made.name, made.partitions, made.partition_kind, made.partition_names, made.partition_columns = "made", "", "", [], []
        between = changes.change_of_text(draw, draw.choice([made, table]), tables) if draw.random() < 0.5 else []
        seen = [Statement(f"SELECT {columns} FROM made", warnings=False), Statement("CHECK TABLE made EXTENDED")]
        values = re.search(rf"PARTITION {name} (VALUES IN \([^()]*\))", table.partitions)
        if values and draw.random() < 0.5:
            # If the table was changed since, it may no longer match the partition. Then it remains a table.
            return [Statement(f"ALTER TABLE {table.name} CONVERT PARTITION {name} TO TABLE made", counts=False), *between, *seen,
                    Statement(f"ALTER TABLE {table.name} CONVERT TABLE made TO PARTITION {name} {values.group(1)}", counts=False, warnings=False),
                    Statement("DROP TABLE IF EXISTS made", warnings=False)]
        return [Statement(f"CREATE TABLE made LIKE {table.name}"), Statement("ALTER TABLE made REMOVE PARTITIONING", counts=False),
                Statement(f"ALTER TABLE {table.name} EXCHANGE PARTITION {name} WITH TABLE made", counts=False), *seen, *between,
                Statement(f"ALTER TABLE {table.name} EXCHANGE PARTITION {name} WITH TABLE made", counts=False), *seen, Statement("DROP TABLE made")]
    if kind == "temporary":
        # Temporary tables use another engine (default_tmp_storage_engine); rows are copied from the compared tables.
        return [Statement(f"CREATE TEMPORARY TABLE kept SELECT {base} FROM {table.name}", counts=False, warnings=False),
                Statement(f"SELECT {columns} FROM {table.name} WHERE ({base}) IN (SELECT {base} FROM kept)", warnings=False),
                Statement(f"INSERT IGNORE INTO {table.name} ({base}) SELECT {base} FROM kept LIMIT 0"), Statement("DROP TEMPORARY TABLE kept")]
    return handler(draw, table)


def unique_from(draw, table, order):
    """CREATE ... SELECT of rows that may be duplicates by the new table's key."""
    columns = [column for column in table.columns if column.key_bytes and column.key_bytes < 3000 and column.family not in ("geometry", "json")]
    if not order or not columns:
        return []
    # Not IGNORE, see alter().
    verb = draw.choice(["REPLACE ", "REPLACE ", ""])
    return [Statement(f"CREATE OR REPLACE TABLE made (UNIQUE ({draw.choice(columns).name})) {verb}SELECT {table.names()} FROM {table.name}{order}", warnings=False),
            Statement("SELECT * FROM made", warnings=False), Statement("CHECK TABLE made EXTENDED", warnings=False)]


def _pick_indexed(draw, table):
    column = draw.choice(table.columns)
    return column.name + ("(1)" if column.key_bytes == 0 or column.key_bytes > 3000 else "")


def handler(draw, table):
    keys = [key for key in table.keys if not table.partitions and not key.hashed]
    if not keys:
        return []
    key = draw.choice(keys)
    name = "`PRIMARY`" if key.kind == "PRIMARY" else key.name
    # Equal keys are in the order of the primary key, or in insertion order without one. After a read without a result
    # the cursor's position is undefined, so all moves have the same direction, starting from an end.
    steps = [Statement(f"HANDLER {table.name} OPEN AS h")]
    for _ in range(draw.randint(1, 3)):
        parts = key.columns()[:draw.randint(1, len(key.parts))]
        values = ", ".join(column.probe(draw) for column in parts)
        steps.append(Statement(f"HANDLER h READ {name} {draw.choice(['=', '>=', '<=', '<', '>'])} ({values})"
                               + queries.where(draw, table, "", 0.2) + f" LIMIT {draw.randint(1, 4)}", warnings=False, ordered=True))
    for start, move in draw.choice([[("FIRST", "NEXT")], [("LAST", "PREV")], [("FIRST", "NEXT"), ("LAST", "PREV")]]):
        # Inserts and deletes rows between moves, but does not update them: InnoDB's cursor of a secondary key finds a
        # row again after a change of its primary key.
        between = [] if table.versioned or draw.random() < 0.6 else draw.choice([changes.insert, changes.delete])(draw, table, [table])
        between = [statement for statement in between if not re.search("REPLACE|KEY UPDATE", statement.text)]
        if between:
            steps += [Statement(f"HANDLER h READ {name} {start} LIMIT {draw.randint(1, 4)}", warnings=False, ordered=True), *between,
                      Statement(f"HANDLER h READ {name} {move} LIMIT 3", warnings=False, ordered=True)]
            continue
        steps += [Statement(f"HANDLER h READ {name} {each} LIMIT {draw.randint(1, 3)}", warnings=False, ordered=True)
                  for each in [start, *[move] * draw.randint(0, 3)]]
    if draw.random() < 0.3:
        # The order of rows without a key depends on the engine.
        steps.append(Statement("HANDLER h READ FIRST" + queries.where(draw, table, "", 0.5) + " LIMIT 10000", warnings=False))
    return [*steps, Statement("HANDLER h CLOSE")]



