"""Columns of every type of MariaDB 10.11, with pools of values: the boundaries of the type, and so few values that
equal ones are frequent."""

from .text import WIDTHS, below_blank, bytes_literal, pads_only_in_keys, text_literal

INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
DATES = ["0000-00-00", "0000-01-01", "1000-01-01", "9999-12-31", "2000-00-00", "2000-01-00", "2024-02-29", "1970-01-01",
         "2023-11-14", "2023-11-15", "0001-01-01"]
CLOCKS = ["00:00:00", "23:59:59.999999", "12:34:56.789", "00:00:00.000001", "23:59:59", "01:00:00.5"]
TIMES = ["-838:59:59.999999", "838:59:59.999999", "00:00:00", "-00:00:00.000001", "00:00:00.000001", "-00:00:01", "12:34:56.5",
         "100:00:00", "-99:59:59.9", "23:59:59"]
TIMESTAMPS = ["1970-01-01 00:00:01", "2038-01-19 03:14:07.999999", "0000-00-00 00:00:00", "2023-11-14 22:13:20",
              "2000-01-01 00:00:00.5", "2023-11-14 22:13:20.000001"]
INET6 = ["::", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:1.2.3.4", "fe80::1", "2001:db8::"]
INET4 = ["0.0.0.0", "255.255.255.255", "127.0.0.1", "10.0.0.1", "192.168.0.255", "1.2.3.4"]
UUIDS = ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
         "123e4567-e89b-12d3-a456-426655440000", "123e4567-e89b-42d3-8456-426655440000", "f23e4567-e89b-12d3-a456-426655440000"]
JSONS = ["{}", "[]", "null", '{"a": 1}', '{"a": "x", "b": [1, 2]}', '"text"', "1.5", '{"a":1}', '{"a": null}']
SHAPES = {"POINT": ["POINT(0 0)", "POINT(1 2)", "POINT(-1.5 1e10)"], "LINESTRING": ["LINESTRING(0 0,1 1)", "LINESTRING(0 0,1 1,2 5)"],
          "POLYGON": ["POLYGON((0 0,1 0,1 1,0 0))"]}
# Only exact numbers: otherwise a FLOAT and the DOUBLE constant that it is compared with are different, and the use of a
# key determines which values are equal.
FLOATS = ["0", "-0.0", "1", "-1", "0.5", "1.5", "-0.25", "1048576", "1e10"]
TEMPORAL_NOW = {"DATETIME", "TIMESTAMP"}


class Column:
    """One column. `family` determines its operations; `pool` has literals that it accepts."""

    def __init__(self, name, family, type_sql, pool, **facts):
        self.name, self.family, self.type, self.pool = name, family, type_sql, pool
        self.nullable = facts.get("nullable", True)
        self.charset = facts.get("charset")
        self.collation = facts.get("collation")
        self.length = facts.get("length", 0)        # characters or bytes, of strings
        self.key_bytes = facts.get("key_bytes", 8)  # of the whole column in a key; 0: only a prefix can be in one
        self.generated = facts.get("generated")
        self.stored = facts.get("stored", True)
        self.default = facts.get("default", "")
        self.check = facts.get("check", "")
        self.plain = facts.get("plain", True)       # text whose prefixes sort as the whole does
        self.of_blob = False                        # generated from a BLOB or TEXT
        self.invisible = self.compressed = self.auto_increment = False

    @property
    def exact(self):
        """Whether equal values always have the same bytes, so that the results of DISTINCT and MIN are defined."""
        return self.family in ("int", "decimal", "bit", "temporal", "inet", "uuid") or (
            self.family == "bytes" and self.key_bytes != 0)

    def definition(self):
        parts = [self.name, self.type]
        if self.compressed:
            parts.append("COMPRESSED")
        if self.collation:
            parts.append(f"CHARACTER SET {self.charset} COLLATE {self.collation}")
        if self.generated:
            parts.append(f"AS ({self.generated}) {'PERSISTENT' if self.stored else 'VIRTUAL'}")
        else:
            # A column without bytes and NULL bit has the same offset as the next column, and the server confuses their
            # keys.
            parts.append("NULL" if self.nullable or self.type in ("CHAR(0)", "BINARY(0)") else "NOT NULL")
            if self.default:
                parts.append(f"DEFAULT {self.default}")
            if self.auto_increment:
                parts.append("AUTO_INCREMENT")
        if self.invisible:
            parts.append("INVISIBLE")
        if self.check:
            parts.append(f"CHECK ({self.check})")
        return " ".join(parts)

    def literal(self, draw, null=0.1):
        """A value to store; rarely one that the column refuses."""
        chance = draw.random()
        # NULL in a NOT NULL geometry becomes an empty geometry, which InnoDB accepts in a new row but not in a changed
        # one.
        if chance < null and (self.nullable or chance < 0.003 and self.family != "geometry"):
            return "NULL"
        if chance > 0.985 and self.family not in ("geometry", "json"):
            return draw.choice(["''", "'x'", "-1", "99999999999999999999", "1e60", "'2023-02-30'", "0.5", "x'ff'", "DEFAULT"]) \
                if not self.generated else "DEFAULT"
        return draw.choice(self.pool)

    def probe(self, draw):
        """A value to compare with."""
        return draw.choice(self.pool)


def make_column(draw, name, collations):
    maker = draw.choices([_integer, _decimal, _float, _bit, _text, _bytes, _temporal, _enumerated, _inet, _uuid, _json, _geometry],
                         [20, 6, 4, 4, 24, 9, 14, 6, 5, 3, 2, 2])[0]
    column = maker(draw, name, collations)
    column.nullable = draw.random() < 0.6
    if draw.random() < 0.35 and column.family not in ("geometry",):
        choices = [draw.choice(column.pool)]
        if column.type.split("(")[0] in TEMPORAL_NOW:
            now = "CURRENT_TIMESTAMP" + (f"({column.length})" if column.length else "")
            choices += [now, now, now + f" ON UPDATE {now}"]
        if column.family == "text":
            choices.append("(CONCAT('d', 1 + 1))")
        if column.family == "int":
            choices.append("(1 + 2)")
        column.default = draw.choice(choices)
    if column.default == "" and not column.nullable and draw.random() < 0.5:
        column.nullable = True
    if draw.random() < 0.06 and (column.nullable or column.default):
        column.invisible = True
    if draw.random() < 0.05 and column.family == "int":
        column.check = f"{name} IS NULL OR {name} <> 5"
    return column


def _integer(draw, name, _):
    kind = draw.choice(list(INTEGERS))
    bits, unsigned = INTEGERS[kind], draw.random() < 0.3
    lowest, highest = (0, 2**bits - 1) if unsigned else (-2**(bits - 1), 2**(bits - 1) - 1)
    pool = [lowest, lowest + 1, 0, 1, 2, 3, 5, 10, highest - 1, highest, *(draw.randint(0, 100) for _ in range(8)),
            draw.randint(lowest, highest)]
    zerofill = " UNSIGNED ZEROFILL" if unsigned and draw.random() < 0.2 else " UNSIGNED" if unsigned else ""
    return Column(name, "int", kind + zerofill, list(map(str, pool)), key_bytes=bits // 8)


def _decimal(draw, name, _):
    precision, scale = draw.choice([(5, 2), (10, 0), (18, 9), (65, 30), (30, 30), (1, 0), (20, 1)])
    unsigned = draw.random() < 0.2
    whole, part = "9" * (precision - scale) or "0", "9" * scale
    highest = whole + ("." + part if part else "")
    lowest = "0." + "0" * (scale - 1) + "1" if scale else "1"
    pool = [highest, lowest, "0", "1" if precision > scale else "0.5", "0.1" if scale else "2"]
    if not unsigned:
        pool += ["-" + highest, "-" + lowest]
    return Column(name, "decimal", f"DECIMAL({precision},{scale})" + (" UNSIGNED" if unsigned else ""), pool, key_bytes=30)


def _float(draw, name, _):
    kind = draw.choice(["FLOAT", "DOUBLE", "DOUBLE(10,3)", "FLOAT(7,2)"])
    pool = list(FLOATS[:8] if "(" in kind else FLOATS)
    if kind == "FLOAT":
        pool += ["16777216", "-16777216", "3.402823466385288598e38", "-3.402823466385288598e38"]
    elif kind == "DOUBLE":
        pool += ["1.7976931348623157e308", "-1.7976931348623157e308", "2.2250738585072014e-308", "5e-324"]
    else:
        pool = ["0", "-0.0", "1", "-1", "0.5", "1.5", "99999.5", "-99999.5", "0.25"]
    return Column(name, "float", kind, pool)


def _bit(draw, name, _):
    bits = draw.choice([1, 2, 7, 8, 9, 17, 33, 63, 64])
    pool = [0, 1, 2**bits - 1, 2**(bits - 1), *(draw.randrange(2**bits) for _ in range(4))]
    return Column(name, "bit", f"BIT({bits})", [f"b'{value:b}'" for value in pool])


def _text(draw, name, collations):
    charset, collation = collations.choose(draw)
    kind = draw.choices(["VARCHAR", "CHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"], [10, 5, 1, 3, 1, 1])[0]
    width = WIDTHS.get(charset, 1)
    if kind == "VARCHAR":
        length = draw.choice([0, 1, 2, 3, 5, 10, 20, 63, 64, 85, 100, 127, 128, 255, 256, 300, 700])
    else:
        length = draw.choice([0, 1, 2, 4, 10, 30, 63, 255]) if kind == "CHAR" else 60
    sized = kind in ("VARCHAR", "CHAR")
    plain = draw.random() < 0.5
    if kind == "CHAR" and pads_only_in_keys(collation):
        plain = "single"
    elif kind == "CHAR" and below_blank(collation):
        plain = True
    pool = [text_literal(draw, charset, length, plain) for _ in range(14)]
    if kind.endswith("TEXT") and kind != "TINYTEXT" or length > 255:
        pool.append(f"REPEAT({text_literal(draw, charset, 2, plain)}, {draw.choice([100, 128, 300]) if sized else draw.choice([256, 1000, 9000])})")
    return Column(name, "text", f"{kind}({length})" if sized else kind, pool, charset=charset, collation=collation, length=length,
                  key_bytes=length * width + 2 if sized else 0, plain=plain)


def _bytes(draw, name, _):
    kind = draw.choices(["VARBINARY", "BINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"], [6, 4, 1, 3, 1, 1])[0]
    sized = kind.endswith("BINARY")
    length = draw.choice([1, 2, 3, 8, 16, 20, 100, 255] + ([256, 600] if kind == "VARBINARY" else [])) if sized else 60
    pool = [bytes_literal(draw, length) for _ in range(12)]
    if kind in ("BLOB", "MEDIUMBLOB", "LONGBLOB"):
        sizes = [255, 256, 768, 20000] + ([] if kind == "BLOB" else [70000])
        pool.append(f"REPEAT(x'{draw.choice(['00', 'ff', '61'])}', {draw.choice(sizes)})")
    return Column(name, "bytes", f"{kind}({length})" if sized else kind, pool, length=length, key_bytes=length + 2 if sized else 0)


def _temporal(draw, name, _):
    kind = draw.choice(["DATE", "TIME", "DATETIME", "TIMESTAMP", "YEAR"])
    digits = draw.choice([0, 0, 1, 2, 3, 4, 5, 6]) if kind in ("TIME", "DATETIME", "TIMESTAMP") else 0
    if kind == "DATE":
        pool = DATES
    elif kind == "TIME":
        pool = TIMES
    elif kind == "DATETIME":
        pool = [f"{draw.choice(DATES)} {draw.choice(CLOCKS)}" for _ in range(10)] + ["9999-12-31 23:59:59", "0000-00-00 00:00:00"]
    elif kind == "TIMESTAMP":
        pool = list(TIMESTAMPS)
    else:
        pool = ["0", "1901", "2155", "2000", "1970", "70", "2023"]
    # The result of a comparison with a constant of higher precision than the column depends on the use of a key.
    pool = [value.split(".")[0] + ("." + value.split(".")[1][:digits] if digits and "." in value else "") for value in pool]
    return Column(name, "temporal", kind + (f"({digits})" if digits else ""), [f"'{value}'" for value in pool], length=digits)


def _enumerated(draw, name, collations):
    charset, collation = collations.choose(draw) if draw.random() < 0.5 else ("utf8mb4", "utf8mb4_general_ci")
    kind = draw.choice(["ENUM", "SET"])
    # No empty string: an invalid value is stored as another empty string, which is different in a key but not in a
    # scan.
    names = ["a", "b", "zz", "10", "x y", "Q"] if kind == "ENUM" else ["a", "b", "c", "10", "x y"]
    if draw.random() < 0.2:
        names = [f"n{number}" for number in range(300 if kind == "ENUM" else 64)]
    draw.shuffle(names)
    if kind == "ENUM":
        pool = [f"'{value}'" for value in names[:8] + names[-2:]]
    else:
        pool = ["''", f"'{names[0]}'", f"'{names[-1]}'", "'" + ",".join(names[:3]) + "'", "'" + ",".join(names) + "'"]
    listing = ",".join(f"'{value}'" for value in names)
    return Column(name, "enum", f"{kind}({listing})", pool, charset=charset, collation=collation)


def _inet(draw, name, _):
    kind = draw.choice(["INET4", "INET6"])
    return Column(name, "inet", kind, [f"'{value}'" for value in (INET4 if kind == "INET4" else INET6)], key_bytes=16)


def _uuid(_, name, __):
    return Column(name, "uuid", "UUID", [f"'{value}'" for value in UUIDS], key_bytes=16)


def _json(_, name, __):
    return Column(name, "json", "JSON", [f"'{value}'" for value in JSONS], key_bytes=0, length=60)


def _geometry(draw, name, _):
    kind = draw.choice(["GEOMETRY", *SHAPES])
    shapes = SHAPES.get(kind) or sum(SHAPES.values(), [])
    return Column(name, "geometry", kind, [f"ST_GeomFromText('{shape}')" for shape in shapes], key_bytes=0, length=25)


def blob(column):
    return column.family in ("text", "bytes", "json", "geometry") and not column.key_bytes


def make_generated(draw, name, columns):
    """A generated column over an earlier column, by an expression that does not fail for any value; None if none fits."""
    base = draw.choice(columns)
    if base.generated or base.family in ("geometry", "bit"):
        return None
    column = _generated(draw, name, base)
    column.of_blob = blob(base)
    return column


def _generated(draw, name, base):
    stored = draw.random() < 0.4
    pool = ["0", "1", "2", "3", "6", "-3"]
    if base.family == "text":
        expression, length = draw.choice([(f"LEFT({base.name}, 3)", 3), (f"UPPER(LEFT({base.name}, 2))", 8), (f"REVERSE({base.name})", base.length)])
        if base.key_bytes and length:
            return Column(name, "text", f"VARCHAR({length})", base.pool, charset=base.charset, collation=base.collation, length=length,
                          key_bytes=length * WIDTHS.get(base.charset, 1) + 2, generated=expression, stored=stored)
        return Column(name, "int", "INT", pool, generated=f"CHAR_LENGTH({base.name})", stored=stored)
    if base.family == "int":
        expression = draw.choice([f"COALESCE({base.name}, 7) % 7", f"{base.name} IS NULL", f"{base.name} > 3"])
    elif base.family == "temporal" and base.type.startswith("DATE"):
        expression = draw.choice([f"YEAR({base.name})", f"{base.name} IS NULL"])
    elif base.family == "json":
        return Column(name, "text", "VARCHAR(20)", ["'1'", "'x'", "''"], charset="utf8mb4", collation="utf8mb4_general_ci", length=20,
                      key_bytes=82, generated=f"JSON_VALUE({base.name}, '$.a')", stored=stored)
    else:
        expression = f"{base.name} IS NULL"
    return Column(name, "int", "INT", pool, generated=expression, stored=stored)
