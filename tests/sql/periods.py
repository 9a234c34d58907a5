"""A table with an application period, perhaps with keys WITHOUT OVERLAPS, and changes of portions of the period."""

from .columns import make_column
from .statement import Statement

BOUNDS = {"DATE": ["'2000-01-01'", "'2000-01-02'", "'2000-02-29'", "'2001-01-01'", "'2010-06-01'", "'9999-12-31'"],
          "DATETIME(6)": ["'2000-01-01'", "'2000-01-01 00:00:00.000001'", "'2000-02-29 12:00:00'", "'2001-01-01'", "'9999-12-31 23:59:59.999999'"],
          "TIMESTAMP": ["'2000-01-01'", "'2000-01-01 00:00:01'", "'2001-01-01'", "'2010-06-01'", "'2038-01-19 03:14:07'"]}


def _column(draw, name, collations, families):
    while True:
        column = make_column(draw, name, collations)
        if column.family in families and column.key_bytes and column.key_bytes < 1000 and column.plain != "single" and not column.type.endswith("(0)"):
            column.nullable, column.default, column.check, column.invisible = False, "", "", False
            return column


def _portion(draw, bounds):
    return f"FOR PORTION OF p FROM {draw.choice(bounds)} TO {draw.choice(bounds)}"


def scene(draw, collations):
    kind = draw.choice(list(BOUNDS))
    bounds = BOUNDS[kind]
    who = _column(draw, "who", collations, ("int", "inet", "uuid", "text", "bytes"))
    what = _column(draw, "what", collations, ("int", "decimal", "text", "bytes"))
    keys = [draw.choice(["PRIMARY KEY (who, p WITHOUT OVERLAPS)", "UNIQUE ku (who, p WITHOUT OVERLAPS)", "PRIMARY KEY (who, s, e)", "KEY kw (who)"])]
    keys += draw.sample(["KEY ks (s)", "KEY ke (e DESC, what)", "KEY kh (what, who)"], draw.randint(0, 2))
    overlapping = "OVERLAPS" not in keys[0]
    parts = draw.choice([" PARTITION BY KEY (who) PARTITIONS 2", " PARTITION BY HASH (who) PARTITIONS 3" if who.family == "int" else ""]) if draw.random() < 0.15 else ""
    steps = [Statement(f"CREATE TABLE per ({who.definition()}, s {kind} NOT NULL, e {kind} NOT NULL, {what.definition()}, {', '.join(keys)}, PERIOD FOR p (s, e)){parts}")]
    for _ in range(draw.randint(8, 25)):
        one = draw.choice(who.pool[:4])
        chance = draw.random()
        if chance < 0.03:
            steps.append(Statement(draw.choice(["START TRANSACTION", "SAVEPOINT a", "ROLLBACK TO SAVEPOINT a", "COMMIT", "ROLLBACK"]), warnings=False))
        elif chance < 0.4:
            rows = ", ".join(f"({draw.choice(who.pool[:4])}, {draw.choice(bounds)}, {draw.choice(bounds)}, {draw.choice(what.pool)})" for _ in range(draw.randint(1, 4)))
            verb = draw.choice(["INSERT", "INSERT", "INSERT IGNORE", "INSERT IGNORE", "REPLACE"])
            more = f" ON DUPLICATE KEY UPDATE what = {draw.choice(what.pool)}" if verb == "INSERT" and draw.random() < 0.2 else ""
            steps.append(Statement(f"{verb} INTO per VALUES {rows}{more}", counts=not more))
        elif chance < 0.6:
            steps.append(Statement(f"UPDATE per {_portion(draw, bounds)} SET what = {draw.choice(what.pool)} WHERE who = {one}"))
        elif chance < 0.75:
            steps.append(Statement(f"DELETE FROM per {_portion(draw, bounds)} WHERE who = {one} OR what = {draw.choice(what.pool)}"))
        elif chance < 0.8 and not overlapping:
            # Changes only one row, so that the order of changes does not matter.
            steps.append(Statement(f"UPDATE per SET e = {draw.choice(bounds)}, who = {draw.choice(who.pool[:4])} WHERE who = {one} AND s = {draw.choice(bounds)}"))
        elif chance < 0.85:
            steps.append(Statement(f"UPDATE per {_portion(draw, bounds)} SET who = {draw.choice(who.pool[:4])} WHERE who = {one}"))
        else:
            steps.append(Statement(f"SELECT who, s, e, what FROM per WHERE {draw.choice([f'who = {one}', f's >= {draw.choice(bounds)}', f'e < {draw.choice(bounds)}'])}", warnings=False))
    if draw.random() < 0.3:
        steps.append(Statement("ALTER TABLE per " + draw.choice(["FORCE", "DROP PERIOD FOR p", "ADD KEY kn (e, s)", "ADD UNIQUE kp (what, p WITHOUT OVERLAPS)"]), counts=False, warnings=False))
    steps.append(Statement(draw.choice(["COMMIT", "ROLLBACK"])))
    return [*steps, Statement("SELECT who, s, e, what FROM per", warnings=False), Statement("CHECK TABLE per EXTENDED"), Statement("DROP TABLE per")]
