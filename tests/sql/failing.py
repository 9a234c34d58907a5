"""Statements that fail after some changes: triggers that write a row and then reject the row of the statement, and tables
of two engines in one transaction."""

from . import changes
from .statement import Statement

EVENTS = {"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"}


def scene(draw, table, tables):
    if table.versioned:
        return []
    tested = [column for column in table.columns if column.family in ("int", "temporal", "decimal", "uuid", "inet")]
    if not tested:
        return []
    # Usually, the table `noted` of the session on Teak is an InnoDB table, so that transactions include two engines.
    engine = draw.choice(["", "{teak: ENGINE=InnoDB}", "{teak: ENGINE=InnoDB}"])
    steps = [Statement(f"CREATE TABLE noted (n INT AUTO_INCREMENT PRIMARY KEY, event CHAR(2), image BIGINT, KEY (image)){engine}")]
    chosen = draw.sample(sorted(EVENTS), draw.randint(1, 3))
    for event in chosen:
        column, time = draw.choice(tested), draw.choice(["BEFORE", "AFTER"])
        value = f"{EVENTS[event]}.{column.name}"
        refuse = draw.choice([f"IF {value} {draw.choice(['=', '>', '<'])} {column.probe(draw)} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused'; END IF",
                              "INSERT INTO noted (n, event) VALUES (3, 'x')", f"IF {value} = {column.probe(draw)} THEN INSERT INTO noted VALUES (1, 'zz', 1); END IF"])
        steps.append(Statement(f"CREATE TRIGGER tf{event[0]} {time} {event} ON {table.name} FOR EACH ROW BEGIN "
                               f"INSERT INTO noted (event, image) VALUES ('{time[0]}{event[0]}', CRC32({value})); {refuse}; END"))
    in_transaction = draw.random() < 0.6
    if in_transaction:
        steps.append(Statement("START TRANSACTION"))
    for _ in range(draw.randint(3, 8)):
        if in_transaction and draw.random() < 0.25:
            steps.append(Statement(draw.choice(["SAVEPOINT a", "SAVEPOINT b", "ROLLBACK TO SAVEPOINT a", "ROLLBACK TO SAVEPOINT b", "RELEASE SAVEPOINT a"])))
        # The first rejected row, and so the error, is defined only if the order of rows is defined.
        maker = draw.choices([changes.insert, changes.update, changes.delete], [6, 2, 1])[0]
        *before, statement = maker(draw, table, tables)
        if maker is changes.insert or " ORDER BY " in statement.text:
            steps += [*before, statement]
    steps.append(Statement("SELECT event, image FROM noted"))
    if in_transaction:
        steps.append(Statement(draw.choice(["COMMIT", "ROLLBACK"])))
    steps += [Statement("SELECT event, image FROM noted"), Statement("CHECK TABLE noted EXTENDED")]
    steps += [Statement(f"DROP TRIGGER tf{event[0]}", warnings=False) for event in chosen]
    return [*steps, Statement("DROP TABLE noted")]
