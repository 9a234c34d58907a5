"""Triggers of every kind on one table, a stored function, some changes that run them, and the rows that they logged."""

import re

from . import changes
from .statement import Statement

EVENTS = {"INSERT": ["NEW"], "UPDATE": ["OLD", "NEW"], "DELETE": ["OLD"]}


def _body(draw, table, time, event):
    """The action of a trigger: logs a value, or sets a value of the row to write."""
    unique = {column for key in table.unique_keys() for column in key.columns()} | set(table.partition_columns)
    settable = [column for column in changes.writable(table) if column not in unique and not column.auto_increment]
    if time == "BEFORE" and event != "DELETE" and settable and draw.random() < 0.4:
        column = draw.choice(settable)
        return f"SET NEW.{column.name} = {column.probe(draw)}"
    column = draw.choice([column for column in table.columns if column.family not in ("geometry", "float")] or [None])
    image = f"CRC32({draw.choice(EVENTS[event])}.{column.name})" if column else "1"
    return f"INSERT INTO noted VALUES ('{time[0]}{event[0]}', {image})"


def _through_function(statement, tables):
    """Passes the first value of an INSERT ... SELECT through a function that logs it, if it is a signed integer column."""
    parts = re.match(r"((?:INSERT|REPLACE)(?: IGNORE)? INTO \w+ \([^)]*\) SELECT )(\w+)((?:, .*)? FROM (\w+).*)$", statement.text, re.DOTALL)
    signed = parts and any(column.name == parts[2] and column.family == "int" and "UNSIGNED" not in column.type
                           for source in tables if source.name == parts[4] for column in source.columns)
    return statement.with_text(f"{parts[1]}logged({parts[2]}){parts[3]}") if signed else statement


def scene(draw, table, tables):
    chosen = draw.sample([(time, event) for time in ("BEFORE", "AFTER") for event in EVENTS], draw.randint(1, 3))
    steps = [Statement("CREATE TABLE noted (event CHAR(2), image BIGINT, KEY (event, image))"),
             Statement("CREATE FUNCTION logged(a BIGINT) RETURNS BIGINT MODIFIES SQL DATA BEGIN INSERT INTO noted VALUES ('F', a); RETURN a; END")]
    steps += [Statement(f"CREATE TRIGGER tr{number} {time} {event} ON {table.name} FOR EACH ROW {_body(draw, table, time, event)}")
              for number, (time, event) in enumerate(chosen)]
    # LOAD DATA computes stored generated columns before the triggers run. InnoDB is the only engine that does not
    # recompute them in the next UPDATE.
    stale = any(column.generated and column.stored for column in table.columns)
    for _ in range(draw.randint(2, 6)):
        # Excludes joined changes: the plan determines how often a row is found and its trigger runs.
        maker = draw.choices([changes.insert, changes.update, changes.delete, changes.insert_select, changes.load], [5, 4, 2, 3, 0 if stale else 2])[0]
        *before, statement = maker(draw, table, tables)
        steps += [*before, _through_function(statement, tables) if maker is changes.insert_select else statement]
    steps += [Statement("SELECT event, image FROM noted"), Statement("CHECK TABLE noted EXTENDED")]
    steps += [Statement(f"DROP TRIGGER tr{number}", warnings=False) for number in range(len(chosen))]
    return [*steps, Statement("DROP FUNCTION logged"), Statement("DROP TABLE noted")]
