"""Triggers of every kind on one table, some changes that run them, and the rows that they logged."""

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


def scene(draw, table, tables):
    chosen = draw.sample([(time, event) for time in ("BEFORE", "AFTER") for event in EVENTS], draw.randint(1, 3))
    steps = [Statement("CREATE TABLE noted (event CHAR(2), image BIGINT, KEY (event, image))")]
    steps += [Statement(f"CREATE TRIGGER tr{number} {time} {event} ON {table.name} FOR EACH ROW {_body(draw, table, time, event)}")
              for number, (time, event) in enumerate(chosen)]
    # LOAD DATA computes stored generated columns before the triggers run. InnoDB is the only engine that does not
    # recompute them in the next UPDATE.
    stale = any(column.generated and column.stored for column in table.columns)
    for _ in range(draw.randint(2, 6)):
        # Excludes joined changes: the plan determines how often a row is found and its trigger runs.
        maker = draw.choices([changes.insert, changes.update, changes.delete, changes.insert_select, changes.load], [5, 4, 2, 1, 0 if stale else 1])[0]
        steps += maker(draw, table, tables)
    steps += [Statement("SELECT event, image FROM noted"), Statement("CHECK TABLE noted EXTENDED")]
    steps += [Statement(f"DROP TRIGGER tr{number}", warnings=False) for number in range(len(chosen))]
    return [*steps, Statement("DROP TABLE noted")]
