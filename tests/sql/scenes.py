"""Short scripts with their own objects, which are dropped at the end: views, sequences, stored routines, temporary tables."""

import copy
import re

from . import changes, nested, queries
from .statement import Statement


def view(draw, table, tables):
    """Reads and changes through a view of the whole table."""
    if table.versioned:
        return []
    algorithm = draw.choice(["", "ALGORITHM=MERGE ", "ALGORITHM=MERGE ", "ALGORITHM=TEMPTABLE "])
    check = draw.choice(["", "", " WITH CHECK OPTION"]) if "TEMPTABLE" not in algorithm else ""
    seen = copy.copy(table)
    # Index hints and partitions cannot be used with a view.
    seen.name, seen.hints, seen.partition_names, seen.partition_kind = "seen", False, [], ""
    steps = [Statement(f"CREATE {algorithm}VIEW seen AS SELECT {table.names()} FROM {table.name}{queries.where(draw, table)}{check}")]
    for _ in range(draw.randint(2, 5)):
        maker = draw.choices([queries.plain, queries.aggregate, queries.joined, nested.query, changes.insert, changes.update, changes.delete], [3, 2, 2, 2, 1, 2, 1])[0]
        for statement in maker(draw, seen, tables) if maker.__module__.endswith("changes") else [maker(draw, seen, tables)]:
            # The view has no ORDER BY, because that would not define the order of changes.
            steps.append(statement)
    return [*steps, Statement("DROP VIEW seen")]


def joined_view(draw, table, tables):
    """A view of a join, through which one table's rows are changed."""
    other = draw.choice(tables)
    found = queries.pair(draw, table, other)
    terms = [term for term in changes.split_terms(changes.assignments(draw, table, True)) if term]
    if not found or other is table or table.versioned or other.versioned or not terms or any(term.startswith(found[0].name + " =") for term in terms) \
            or any(f"{column.name} =" in " ".join(terms) for column in table.partition_columns):
        return []
    listing = ", ".join(f"x.{column.name} AS l{number}" for number, column in enumerate(table.columns))
    names = {column.name: f"l{number}" for number, column in enumerate(table.columns)}
    listing += ", " + ", ".join(f"y.{column.name} AS s{number}" for number, column in enumerate(other.columns))
    steps = [Statement(f"CREATE VIEW seen AS SELECT {listing} FROM {table.name} x JOIN {other.name} y ON x.{found[0].name} = y.{found[1].name}{queries.where(draw, table, 'x.', used={found[0]})}")]
    for _ in range(draw.randint(1, 3)):
        column = draw.choice([column for column in table.columns if column is not found[0]] or [found[0]])
        steps.append(Statement(f"SELECT {', '.join(names.values())} FROM seen WHERE {queries.atom(draw, column, names[column.name])}", warnings=False))
    sets = ", ".join(names[term.split(" = ", 1)[0]] + " = " + term.split(" = ", 1)[1] for term in terms if term.split(" = ", 1)[0] in names)
    return [*steps, Statement(f"UPDATE seen SET {sets}", warnings=False), Statement("SELECT COUNT(*) FROM seen"), Statement("DROP VIEW seen")]


def sequence(draw, table, tables):
    minimum, maximum = draw.choice([(1, 10), (-5, 5), (1, 9223372036854775806), (-100, -1), (0, 3)])
    step = draw.choice([1, 1, 2, -1, 7, 0])
    cache = draw.choice(["NOCACHE", "CACHE 3", "CACHE 1000", ""])
    steps = [Statement(f"CREATE SEQUENCE sq MINVALUE {minimum} MAXVALUE {maximum} INCREMENT BY {step} {cache} {draw.choice(['CYCLE', 'NOCYCLE'])}")]
    for _ in range(draw.randint(4, 12)):
        # FORCE without a copy, which only InnoDB supports, does not check the value against the bounds.
        steps.append(Statement(draw.choice([
            "SELECT NEXT VALUE FOR sq", "SELECT NEXT VALUE FOR sq", "SELECT NEXTVAL(sq), NEXTVAL(sq)", "SELECT PREVIOUS VALUE FOR sq",
            f"SELECT SETVAL(sq, {draw.choice([minimum, maximum, 2, 5])})", f"SELECT SETVAL(sq, {draw.choice([minimum, maximum, 3])}, 0)",
            f"SELECT SETVAL(sq, 2, 1, {draw.choice([0, 1])})", "SELECT * FROM sq", "ALTER SEQUENCE sq RESTART", f"ALTER SEQUENCE sq RESTART {minimum}",
            f"ALTER SEQUENCE sq INCREMENT BY {draw.choice([1, 2, -3])}", f"ALTER SEQUENCE sq MAXVALUE {draw.choice([4, maximum])}", "FLUSH TABLES sq",
            "CHECK TABLE sq", "TRUNCATE TABLE sq", "DELETE FROM sq", "UPDATE sq SET cache_size = cache_size + 1", "ALTER TABLE sq FORCE, ALGORITHM=COPY", "INSERT INTO sq VALUES (1, 1, 9, 1, 1, 5, 0, 0)",
            "RENAME TABLE sq TO sr, sr TO sq", "CREATE OR REPLACE SEQUENCE sq START 2", "CREATE TABLE numbered (n BIGINT DEFAULT NEXTVAL(sq), v INT, KEY (n))",
            "INSERT INTO numbered (v) VALUES (1), (2), (3)", "SELECT n, v FROM numbered", "DROP TABLE numbered"]), counts=False, warnings=False))
    return [*steps, Statement("SELECT * FROM sq"), Statement("DROP TABLE IF EXISTS numbered", warnings=False), Statement("DROP SEQUENCE sq")]


def block(draw, table, tables):
    """Statements within a block. A failing statement changes nothing; the changes of the others remain."""
    if table.versioned:
        return []
    inner = []
    for _ in range(draw.randint(2, 4)):
        # If RETURNING fails under an error handler, the server does not complete the result, and clients cannot parse
        # the following data.
        inner += [statement.text.split(" RETURNING ")[0] for statement in changes.change_of_text(draw, table, tables)]
    begin, end = draw.choice([("", ""), ("START TRANSACTION; ", "COMMIT; "), ("START TRANSACTION; SAVEPOINT s; ", "ROLLBACK TO SAVEPOINT s; COMMIT; "), ("START TRANSACTION; ", "ROLLBACK; ")])
    return [Statement(f"BEGIN NOT ATOMIC DECLARE failed INT DEFAULT 0; DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET failed = failed + 1; {begin}"
                      f"{'; '.join(inner)}; {end}SELECT failed, COUNT(*) FROM {table.name}; END", warnings=False)]


def routine(draw, table, tables):
    """A procedure that reads the table with a cursor, and a function that reads it."""
    key = table.total_key()
    free = [column for column in changes.writable(table) if not column.auto_increment and key and column not in key.columns()
            and not any(column in other.columns() for other in table.unique_keys())]
    if table.versioned or key is None or not free:
        return []
    columns = key.columns()
    variables = ", ".join(f"v{number}" for number in range(len(columns)))
    declared = " ".join(f"DECLARE v{number} TYPE OF {table.name}.{column.name};" for number, column in enumerate(columns))
    test = " AND ".join(f"{column.name} = v{number}" for number, column in enumerate(columns))
    changed = draw.choice(free)
    again = f"BEGIN DECLARE k, inner_done INT DEFAULT 0; DECLARE d CURSOR FOR SELECT COUNT(*) FROM {table.name} GROUP BY {columns[0].name}; " \
            "DECLARE CONTINUE HANDLER FOR NOT FOUND SET inner_done = 1; OPEN d; REPEAT FETCH d INTO k; SET total = total + IF(inner_done, 0, k); UNTIL inner_done END REPEAT; CLOSE d; END"
    action = draw.choice([again, f"UPDATE {table.name} SET {changed.name} = {changed.probe(draw)} WHERE {test}", f"DELETE FROM {table.name} WHERE {test}",
                          f"SELECT COUNT(*) INTO n FROM {table.name} WHERE {test}; SET total = total + n"])
    procedure = (f"CREATE PROCEDURE walk() BEGIN DECLARE done, total, n INT DEFAULT 0; {declared} DECLARE c CURSOR FOR SELECT "
                 f"{', '.join(column.name for column in columns)} FROM {table.name}{queries.where(draw, table)} ORDER BY {table.total_order()}; "
                 f"DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1; OPEN c; l: LOOP FETCH c INTO {variables}; IF done THEN LEAVE l; END IF; {action}; "
                 "END LOOP; CLOSE c; SELECT total; END")
    first = columns[0]
    if first.family in ("text", "enum", "bytes"):
        return [Statement(procedure, warnings=False), Statement("CALL walk()", warnings=False), Statement("DROP PROCEDURE walk")]
    function = f"CREATE FUNCTION look(a {first.type}) RETURNS BIGINT READS SQL DATA RETURN (SELECT COUNT(*) FROM {table.name} WHERE {first.name} >= a)"
    return [Statement(procedure, warnings=False), Statement("CALL walk()", warnings=False), Statement(function),
            Statement(f"SELECT {first.name}, look({first.name}) FROM {table.name}", warnings=False), Statement("CALL walk()", warnings=False),
            Statement("DROP FUNCTION look"), Statement("DROP PROCEDURE walk")]


def temporary(draw, table, tables):
    """A temporary table of the compared engine, with the same columns and keys."""
    if table.versioned or table.partitions:
        return []
    mine = copy.copy(table)
    mine.name = "mine"
    steps = [Statement(mine.create("mine").replace("CREATE TABLE", "CREATE TEMPORARY TABLE", 1) + " ENGINE={engine}"), *changes.insert(draw, mine, [mine], rows=8)]
    # If a statement changes the primary key of a row in an InnoDB temporary table and then fails, the row is lost.
    primary = "|".join(column.name for key in table.keys if key.kind == "PRIMARY" for column in key.columns())
    moves = re.compile(rf"( SET | KEY UPDATE ).*\b({primary}) = ", re.DOTALL)
    for _ in range(draw.randint(3, 8)):
        if draw.random() < 0.5:
            steps += [statement for statement in changes.change(draw, mine, [mine], True) if not primary or not moves.search(statement.text)]
        else:
            # A temporary table cannot be used twice in a statement.
            steps.append(draw.choice([queries.plain, queries.windowed, nested.functions])(draw, mine, [mine]))
    if draw.random() < 0.5:
        steps.append(Statement(draw.choice(["TRUNCATE TABLE mine", "ALTER TABLE mine FORCE", "ALTER TABLE mine ADD COLUMN extra INT DEFAULT 7, ADD KEY (extra)",
                                            "ALTER TABLE mine RENAME TO yours", "CHECK TABLE mine"]), counts=False, warnings=False))
    return [*steps, Statement("SELECT * FROM mine", warnings=False), Statement("DROP TEMPORARY TABLE IF EXISTS mine, yours", warnings=False)]


def locked(draw, table, tables):
    """Under LOCK TABLES."""
    if table.versioned:
        return []
    mode = draw.choice(["WRITE", "WRITE", "READ", "READ LOCAL"])
    steps = [Statement(f"LOCK TABLES {table.name} {mode}")]
    for _ in range(draw.randint(1, 4)):
        steps += changes.change(draw, table, [table], True) if draw.random() < 0.6 else [queries.plain(draw, table, [table])]
    return [*steps, Statement("UNLOCK TABLES")]


def maintenance(draw, table, tables):
    """Maintenance statements, which must not change rows."""
    return [Statement(draw.choice(["ANALYZE TABLE {}", "OPTIMIZE TABLE {}", "FLUSH TABLES {}", "ANALYZE TABLE {} PERSISTENT FOR ALL",
                                   "CHECK TABLE {} QUICK", "CHECK TABLE {} FOR UPGRADE", "ALTER TABLE {} ENGINE={{engine}}, ALGORITHM=COPY", "FLUSH TABLES",
                                   "ALTER TABLE {} DISABLE KEYS", "ALTER TABLE {} ENABLE KEYS"]).format(table.name),
                      rows=False, warnings=False)]
